//! What a controller answers on its control socket.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::get;
use axum::{Json, Router};

use super::losses::losses;
use super::{Desk, Drive, LossesQuery};
use crate::control::controller::Controller;
use crate::control::serve::{self, Counters, Served, TlsListener};
use crate::control::{rpc, view};

/// What is asked.
struct Office {
    desk: Arc<Desk>,
    controller: Arc<Mutex<Controller>>,
}

fn router(office: Office, counters: Arc<Counters>) -> Router {
    Router::new()
        .route("/v1/api", get(async move || Json(counters.view())))
        .route("/v1/switches", get(async |State(office): State<Arc<Office>>| Json(office.desk.view())))
        .route("/v1/losses", get(show_losses))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(Arc::new(office))
}

async fn show_losses(
    State(office): State<Arc<Office>>,
    query: Result<Query<LossesQuery>, QueryRejection>,
) -> Result<Json<view::Losses>, (StatusCode, Json<view::Failure>)> {
    let wrong = |wrong: QueryRejection| (StatusCode::BAD_REQUEST, Json(view::Failure { error: wrong.body_text() }));
    let Query(query) = query.map_err(wrong)?;
    let controller = office.controller.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Json(losses(&controller, office.desk.length(), &query)))
}

async fn unknown(method: Method, uri: Uri) -> (StatusCode, Json<view::Failure>) {
    let error = format!("{method} {}: a controller has no such answer; a switch may", uri.path());
    (StatusCode::NOT_FOUND, Json(view::Failure { error }))
}

/// Where a controller listens.
pub struct Doors {
    /// For `weir show`.
    pub api: UnixListener,
    pub switches: UnixListener,
    /// For switches on other machines.
    pub tcp: Option<TlsListener>,
}

/// Serves all of them until the process ends.
pub fn serve(doors: Doors, drive: &Drive) -> io::Result<()> {
    let counters = Arc::new(Counters::default());
    let desk = drive.desk();
    let office = Office { desk: desk.clone(), controller: drive.controller().clone() };
    let api = Served::Http(serve::limited(router(office, counters.clone())));
    serve::unix(doors.api, api, Arc::default())?;
    let switches = Served::Grpc(rpc::serve(desk.clone(), desk.longest()));
    if let Some(tcp) = doors.tcp {
        serve::tls(tcp, switches.clone(), counters.clone())?;
    }
    serve::unix(doors.switches, switches, counters)
}
