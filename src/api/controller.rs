//! What a controller answers on its control socket.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, PoisonError};

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::routing::{delete, get};
use axum::{Json, Router};

use crate::api::serve::{self, Counters, Served, TlsListener};
use crate::api::view;
use crate::api::{Answering, HeavyQuery, tasks};
use crate::network::controller::ForgetError;
use crate::network::rpc;
use crate::network::server::{Desk, Drive};
use crate::program::ProgramConfig;
use crate::program::answers::Task;
use crate::telemetry::AnswerStore;

/// What is asked.
struct Office {
    desk: Arc<Desk>,
    program: ProgramConfig,
    store: AnswerStore,
}

impl Office {
    fn switches(&self) -> view::NetworkSwitches {
        view::NetworkSwitches { passed_over_epochs: self.store.passed_over(), ..self.desk.view() }
    }
}

impl Answering for Office {
    fn store(&self, task: Task, query: &HeavyQuery) -> Result<(&'static str, AnswerStore), String> {
        let name = self.program.name();
        let asked = query.names(name) && self.program.rank(task).is_some();
        asked.then(|| (name, self.store.clone())).ok_or_else(|| format!("the network's program is {name} alone"))
    }
}

fn router(office: Office, counters: Arc<Counters>) -> Router {
    Router::new()
        .route("/v1/api", get(async move || Json(counters.view())))
        .route("/v1/switches", get(async |State(office): State<Arc<Office>>| Json(office.switches())))
        .route("/v1/switches/{name}", delete(forget))
        .merge(tasks())
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(Arc::new(office))
}

async fn forget(
    State(office): State<Arc<Office>>,
    Path(name): Path<String>,
) -> Result<Json<view::ForgottenSwitch>, (StatusCode, Json<view::Failure>)> {
    let forgotten = office.desk.forget(&name).await.map_err(|error| {
        let code = if matches!(error, ForgetError::Unknown(_)) { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
        (code, Json(view::Failure { error: error.to_string() }))
    });
    forgotten.map(|()| Json(view::ForgottenSwitch { name }))
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
    let store = drive.controller().lock().unwrap_or_else(PoisonError::into_inner).store().clone();
    let office = Office { desk: desk.clone(), program: desk.program().clone(), store };
    let api = Served::Http(serve::limited(router(office, counters.clone())));
    serve::unix(doors.api, api, Arc::default())?;
    let switches = Served::Grpc(rpc::serve(desk.clone(), desk.longest()));
    if let Some(tcp) = doors.tcp {
        serve::tls(tcp, switches.clone(), counters.clone())?;
    }
    serve::unix(doors.switches, switches, counters)
}
