//! The API of a controller on its control socket.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{delete, get};
use axum::{Json, Router};

use crate::api::serve::{self, Counters, Served, TlsListener};
use crate::api::view;
use crate::api::{Answering, HeavyQuery, tasks};
use crate::lock::Hold;
use crate::network::controller::EvictError;
use crate::network::rpc;
use crate::network::server::{ControllerLoop, ControllerServer};
use crate::program::ProgramConfig;
use crate::program::answers::Task;
use crate::telemetry::AnswerStore;

/// The state behind the routes.
struct ControllerApi {
    server: Arc<ControllerServer>,
    program: ProgramConfig,
    store: AnswerStore,
}

impl ControllerApi {
    fn switches(&self) -> view::NetworkSwitches {
        view::NetworkSwitches { passed_over_epochs: self.store.passed_over(), ..self.server.view() }
    }
}

impl Answering for ControllerApi {
    fn store(&self, task: Task, query: &HeavyQuery) -> Result<(&'static str, AnswerStore), String> {
        let name = self.program.name();
        let asked = query.names(name) && self.program.rank(task).is_some();
        asked.then(|| (name, self.store.clone())).ok_or_else(|| format!("the network's program is {name} alone"))
    }
}

fn router(api: ControllerApi, counters: Arc<Counters>) -> Router {
    Router::new()
        .route("/v1/api", get(async move || Json(counters.view())))
        .route("/v1/switches", get(async |State(api): State<Arc<ControllerApi>>| Json(api.switches())))
        .route("/v1/switches/{name}", delete(evict))
        .merge(tasks())
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(Arc::new(api))
}

async fn evict(
    State(api): State<Arc<ControllerApi>>,
    Path(name): Path<String>,
) -> Result<Json<view::EvictedSwitch>, (StatusCode, Json<view::Failure>)> {
    let evicted = api.server.evict(&name).await.map_err(|error| {
        let code = if matches!(error, EvictError::Unknown(_)) { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
        (code, Json(view::Failure { error: error.to_string() }))
    });
    evicted.map(|()| Json(view::EvictedSwitch { name }))
}

async fn unknown(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    let error = format!("{method} {}: a controller has no such answer; a switch may", uri.path());
    (StatusCode::NOT_FOUND, Json(view::Failure { error }))
}

/// The listeners of a controller.
pub struct Listeners {
    /// For `weir show`.
    pub api: UnixListener,
    pub switches: UnixListener,
    /// For switches on other machines.
    pub tcp: Option<TlsListener>,
}

/// Serves all of them until the process ends.
pub fn serve(listeners: Listeners, control_loop: &ControllerLoop) -> io::Result<()> {
    let counters = Arc::new(Counters::default());
    let server = control_loop.server();
    let store = control_loop.controller().hold().store().clone();
    let api = ControllerApi { server: server.clone(), program: server.program().clone(), store };
    let api = Served::Http(serve::limited(router(api, counters.clone())));
    serve::unix(listeners.api, api, Arc::default())?;
    let switches = Served::Grpc(rpc::serve(server.clone(), server.longest()));
    if let Some(tcp) = listeners.tcp {
        serve::tls(tcp, switches.clone(), counters.clone())?;
    }
    serve::unix(listeners.switches, switches, counters)
}
