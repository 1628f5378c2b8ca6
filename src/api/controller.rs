//! The API of a controller on its control socket.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::answers::{Links, Queryable, Task};
use crate::api::answers::{self, Body, InPath, Refusal};
use crate::api::exported::{ExportCounters, NOT_EXPORTED, NOT_SENT, OtlpCounters};
use crate::api::metrics::{self, Format, Measured, Network, ProgramMetrics};
use crate::api::routes::{ApiRoutes, Refuses};
use crate::api::serve::{self, Counters, Served, TlsListener};
use crate::api::view;
use crate::api::{Answering, HeavyQuery};
use crate::json::Time;
use crate::lock::Hold;
use crate::network::controller::{ChangeError, EvictError};
use crate::network::rpc;
use crate::network::server::{ControllerLoop, ControllerServer};
use crate::program::ProgramConfig;

/// The state behind the routes.
pub struct ControllerApi {
    name: String,
    server: Arc<ControllerServer>,
    /// In the order of the programs.
    histories: Vec<Arc<dyn Queryable>>,
    links: Links,
    start_time: SystemTime,
    measured: Arc<Measured>,
    exports: ExportsCounted,
}

/// The counters of the exports that there are.
#[derive(Debug, Default)]
pub struct ExportsCounted {
    pub ipfix: Option<Arc<ExportCounters>>,
    pub otlp: Option<Arc<OtlpCounters>>,
}

impl ControllerApi {
    /// The API of the controller `name`. Its metrics name at most `flows` heavy flows of each program.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new(
        name: &str,
        control_loop: &ControllerLoop,
        links: Links,
        flows: usize,
        exports: ExportsCounted,
    ) -> io::Result<Self> {
        let controllers = control_loop.controllers().iter();
        let histories: Vec<_> = controllers.map(|controller| controller.hold().history().clone()).collect();
        let server = control_loop.server().clone();
        let programs: Vec<_> = server.programs().cloned().zip(histories.iter().cloned()).collect();
        let measured = Measured::new(Box::new(move || programs.clone()), links.clone(), flows).start()?;
        Ok(Self { name: name.into(), server, histories, links, start_time: SystemTime::now(), measured, exports })
    }

    /// All metrics.
    pub fn metrics(&self, format: Format) -> String {
        let start_time_seconds = self.start_time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let network = Network { name: self.name.clone(), start_time_seconds, switches: self.switches() };
        metrics::network_text(network, self.measured(), self.exports(), format)
    }

    /// The metrics of what the network measures.
    pub fn measurements(&self) -> &Arc<Measured> {
        &self.measured
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn switches(&self) -> view::NetworkSwitches {
        let passed_over = self.histories.iter().map(|history| history.passed_over()).max();
        let late = self.histories.iter().map(|history| history.late_packets()).max();
        view::NetworkSwitches {
            passed_over_epochs: passed_over.unwrap_or_default(),
            late_packets: late.unwrap_or_default(),
            ..self.server.view()
        }
    }
}

impl Answering for ControllerApi {
    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        let programs = || self.server.programs();
        let chosen = query.choose(programs(), task).and_then(|program| {
            let (_, history) = programs().zip(&self.histories).find(|(own, _)| *own == program)?;
            Some(history.clone())
        });
        let none = || {
            let names = programs().map(|program| program.name()).collect::<Vec<_>>().join(" and ");
            format!("the network runs {names}; none that is asked answers this")
        };
        chosen.ok_or_else(none)
    }

    fn links(&self) -> Links {
        self.links.clone()
    }

    fn measured(&self) -> Vec<ProgramMetrics> {
        self.measured.programs()
    }

    fn exported(&self) -> Result<view::Exported, String> {
        self.exports.ipfix.as_ref().map(|counters| counters.view()).ok_or_else(|| NOT_EXPORTED.into())
    }

    fn otlp(&self) -> Result<view::Otlp, String> {
        self.exports.otlp.as_ref().map(|counters| counters.view()).ok_or_else(|| NOT_SENT.into())
    }
}

/// All routes of a controller.
pub(super) fn routes(counters: Arc<Counters>) -> ApiRoutes<Arc<ControllerApi>> {
    ApiRoutes::<Arc<ControllerApi>>::new()
        .get("/v1/switches", "The switches of the network", async |State(api): State<Arc<ControllerApi>>| {
            Json(api.switches())
        })
        .delete("/v1/switches/{name}", "Removes a switch that left the network for good", evict)
        .put("/v1/parameters", "Changes what the switches measure with, from an epoch on", change)
        .connections(counters)
        .export()
        .tasks()
        .metrics(ControllerApi::metrics)
}

/// A refusal by the network's controller, with a status of its own.
struct NetworkRefusal(Refusal);

impl NetworkRefusal {
    fn new(code: StatusCode, error: impl ToString) -> Self {
        Self((code, Json(view::Failure { error: error.to_string() })))
    }
}

impl IntoResponse for NetworkRefusal {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl Refuses for NetworkRefusal {
    const STATUSES: &'static [StatusCode] = &[StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::CONFLICT];
}

async fn evict(
    State(api): State<Arc<ControllerApi>>,
    InPath(name): InPath<String>,
) -> Result<Json<view::EvictedSwitch>, NetworkRefusal> {
    let evicted = api.server.evict(&name).await.map_err(|error| {
        let code = if matches!(error, EvictError::Unknown(_)) { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
        NetworkRefusal::new(code, error)
    });
    evicted.map(|()| Json(view::EvictedSwitch { name }))
}

async fn change(
    State(api): State<Arc<ControllerApi>>,
    Body(program): Body<ProgramConfig>,
) -> Result<Json<view::ChangedParameters>, NetworkRefusal> {
    let (name, length) = (program.name().to_owned(), api.server.length());
    let changed = api.server.change(program).await.map_err(|error| {
        let code = match error {
            ChangeError::Unknown(_) => StatusCode::NOT_FOUND,
            ChangeError::Shifts(_) => StatusCode::CONFLICT,
            ChangeError::Differs { .. } | ChangeError::Parameters(_) => StatusCode::BAD_REQUEST,
        };
        NetworkRefusal::new(code, error)
    });
    changed.map(|from_epoch| {
        let from_ns = from_epoch.saturating_mul(length);
        Json(view::ChangedParameters { program: name, from_epoch, from_ns, start: Some(Time(from_ns)) })
    })
}

/// The listeners of a controller.
pub struct Listeners {
    /// For `weir show`.
    pub api: UnixListener,
    pub switches: UnixListener,
    /// For switches on other machines.
    pub tcp: Option<TlsListener>,
    /// For clients on other machines.
    pub api_tcp: Option<TlsListener>,
    /// For `/metrics` alone, without certificates.
    pub metrics: Option<TcpListener>,
}

/// Serves all of them until the process ends.
pub fn serve(listeners: Listeners, api: Arc<ControllerApi>) -> io::Result<()> {
    let counters = Arc::new(Counters::default());
    let server = api.server.clone();
    if let Some(metrics) = listeners.metrics {
        let routes = ApiRoutes::<Arc<ControllerApi>>::new().metrics(ControllerApi::metrics);
        let router = routes.router(answers::unknown_to_controller, api.clone());
        serve::plain("weir-metrics", metrics, serve::limited(router))?;
    }
    let router = routes(counters.clone()).router(answers::unknown_to_controller, api);
    let api = Served::Http(serve::limited(router));
    if let Some(tcp) = listeners.api_tcp {
        serve::tls(tcp, api.clone(), counters.clone())?;
    }
    serve::unix(listeners.api, api, Arc::default())?;
    let switches = Served::Grpc(rpc::serve(server));
    if let Some(tcp) = listeners.tcp {
        serve::tls(tcp, switches.clone(), counters.clone())?;
    }
    serve::unix(listeners.switches, switches, counters)
}
