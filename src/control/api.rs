//! The HTTP API on the control socket. It runs on a thread of its own and never touches a worker.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{get, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::view;

/// What a switch answers. Methods may block for a moment, but not for long.
pub trait Service: Send + Sync + 'static {
    fn ports(&self) -> view::Ports;
    fn stations(&self) -> view::Stations;
    fn heavy(&self, query: &HeavyQuery) -> Result<view::HeavyFlows, String>;
    fn set_link(&self, port: &str, up: bool) -> Result<(), String>;
}

/// `GET /v1/heavy`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeavyQuery {
    pub top: usize,
    pub threshold: u64,
    pub seconds: f64,
}

impl Default for HeavyQuery {
    fn default() -> Self {
        Self { top: 20, threshold: 1, seconds: 10.0 }
    }
}

/// `PUT /v1/ports/NAME/link`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub up: bool,
}

type Answer<T> = Result<Json<T>, (StatusCode, Json<view::Failure>)>;

fn answer<T>(result: Result<T, String>) -> Answer<T> {
    result.map(Json).map_err(|error| (StatusCode::BAD_REQUEST, Json(view::Failure { error })))
}

async fn heavy<S: Service>(
    State(service): State<Arc<S>>,
    query: Result<Query<HeavyQuery>, QueryRejection>,
) -> Answer<view::HeavyFlows> {
    answer(query.map_err(|wrong| wrong.body_text()).and_then(|Query(query)| service.heavy(&query)))
}

async fn set_link<S: Service>(
    State(service): State<Arc<S>>,
    Path(name): Path<String>,
    link: Result<Json<Link>, JsonRejection>,
) -> Answer<Link> {
    let set = |Json(link): Json<Link>| service.set_link(&name, link.up).map(|()| link);
    answer(link.map_err(|wrong| wrong.body_text()).and_then(set))
}

async fn unknown(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    let error = format!("{method} {}: this switch has no such answer", uri.path());
    (StatusCode::NOT_FOUND, Json(view::Failure { error }))
}

fn router<S: Service>(service: Arc<S>) -> Router {
    Router::new()
        .route("/v1/ports", get(async |State(s): State<Arc<S>>| Json(s.ports())))
        .route("/v1/macs", get(async |State(s): State<Arc<S>>| Json(s.stations())))
        .route("/v1/heavy", get(heavy::<S>))
        .route("/v1/ports/{name}/link", put(set_link::<S>))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(service)
}

/// Serves until the process ends.
pub fn serve<S: Service>(listener: UnixListener, service: Arc<S>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("weir-api".into()).spawn(move || {
        let served = runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            axum::serve(listener, router(service)).await
        });
        if let Err(error) = served {
            tracing::error!("the control socket is gone: {error}");
        }
    })?;
    Ok(())
}
