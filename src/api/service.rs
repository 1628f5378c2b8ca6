//! The traits that a switch or controller implements for the API, and the routes to them.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answers::{Body, InPath, Requested};
use super::exported::{NOT_EXPORTED, NOT_SENT};
use super::metrics::{self, Exports, Format, ProgramMetrics};
use super::routes::ApiRoutes;
use super::serve::{self, Counters, Served, TlsListener};
use super::{Fault, HeavyQuery, Link, Mtu, NewPort, PendingDump, Promiscuous, answers, observers, registers, view};
use crate::answers::{Answer, Links, Queryable, Task};
use crate::observe::Observers;
use crate::port::FaultSpec;
use crate::tables::Tables;

/// The path to which questions about several flows are posted.
pub const FREQUENCY: &str = "/v1/frequency";
/// The path of metrics.
const METRICS: &str = "/metrics";

/// The state behind a switch's routes.
pub type AnySwitch = Arc<dyn Service>;

/// The switch behind the API. Methods may block for a moment, but not for long.
pub trait Service: Answering {
    fn ports(&self) -> view::Ports;
    fn status(&self) -> view::Status;
    /// The ports' counters since the last [`Service::reset`].
    fn since_reset(&self) -> view::SinceReset;
    /// From now on `since_reset` counts from here. The counters themselves are not touched.
    fn reset(&self);
    fn macs(&self) -> view::MacTable;
    fn set_link(&self, port: &str, up: bool) -> Result<(), String>;
    /// Takes frames for other MAC addresses in, or no longer.
    fn set_promiscuous(&self, port: &str, on: bool) -> Result<(), String>;
    /// Changes a port's largest IP packet, in bytes. The packet buffers bound it.
    fn set_mtu(&self, port: &str, bytes: u32) -> Result<(), String>;
    /// Sets the faults that a port's packets meet, or ends them.
    fn set_fault(&self, port: &str, fault: Option<&FaultSpec>) -> Result<(), String>;
    fn tables(&self) -> &Tables;
    /// Opens a device and adds it. Gives the new port.
    fn add_port(&self, port: &NewPort) -> Result<view::Port, String>;
    /// Gives what the port had counted.
    fn remove_port(&self, port: &str) -> Result<view::Port, String>;
    /// Becomes what the configuration file says now, or stays as it is.
    fn reload(&self) -> Result<view::Reloaded, String>;
    fn observers(&self) -> &Observers;
    /// How it stands with its controller.
    fn controller(&self) -> Result<view::ControllerLink, String> {
        Err("the switch reports to no controller; start it with --controller ADDRESS".into())
    }
    /// Asks for the registers of a program, or of all, at the end of the next epoch.
    fn registers(&self, _program: Option<&str>) -> Result<PendingDump, String> {
        Err("there are no registers to dump".into())
    }
    /// The ports by number, for traces and captures.
    fn observed_ports(&self) -> Vec<observers::ObservedPort>;
}

/// Owner of histories: a switch, or the controller of a network.
pub trait Answering: Send + Sync + 'static {
    /// Whether its epochs go on, so that an answer without new ones is old.
    fn is_live(&self) -> bool {
        true
    }

    /// The history of the program that is asked for this task.
    ///
    /// # Errors
    /// If there is no such program.
    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String>;

    /// The links between the switches, as far as they are known.
    fn links(&self) -> Links {
        Links::default()
    }

    /// How its export to an IPFIX collector stands.
    ///
    /// # Errors
    /// If it has none.
    fn exported(&self) -> Result<view::Exported, String> {
        Err(NOT_EXPORTED.into())
    }

    /// How its export to an OpenTelemetry collector stands.
    ///
    /// # Errors
    /// If it has none.
    fn otlp(&self) -> Result<view::Otlp, String> {
        Err(NOT_SENT.into())
    }

    /// How its exports stand.
    fn exports(&self) -> Exports {
        Exports { ipfix: self.exported().ok(), otlp: self.otlp().ok() }
    }

    /// The metrics of what its programs measure.
    fn measured(&self) -> Vec<ProgramMetrics> {
        Vec::new()
    }
}

/// The routes that a switch and a controller have in common.
impl<A: Answering + ?Sized> ApiRoutes<Arc<A>> {
    /// Answers by task, each at the task's name. The entropy of flow sizes has a route of its own.
    pub fn tasks(self) -> Self {
        let entropy = self.task("entropy", "The entropy of the sizes of flows, of each epoch", Task::Cardinality);
        let each = Task::ALL.into_iter().fold(entropy, |routes, task| routes.task(task.name(), task.subject(), task));
        each.post(FREQUENCY, "The packets or bytes of several flows, each by itself", answers::list::<A>)
    }

    fn task(self, name: &str, subject: &str, task: Task) -> Self {
        let answer = async move |State(service): State<Arc<A>>, query: Requested| {
            answers::answer_task(service, task, query).await
        };
        self.get(&format!("/v1/{name}"), subject, answer).answering(move |schemas| Answer::schema(task, schemas))
    }

    pub fn metrics(self, text: fn(&A, Format) -> String) -> Self {
        let answer = async move |State(service): State<Arc<A>>, headers: HeaderMap| {
            answers::metrics(service, text, headers).await
        };
        self.get(METRICS, "What is counted and measured, for Prometheus", answer)
    }

    pub fn connections(self, counters: Arc<Counters>) -> Self {
        self.get("/v1/api", "Connections to the API, and those that were refused", async move || Json(counters.view()))
    }

    pub fn export(self) -> Self {
        let counters = async |State(service): State<Arc<A>>| answers::answer(service.exported());
        let sent = async |State(service): State<Arc<A>>| answers::answer(service.otlp());
        self.get("/v1/ipfix", "What was exported to an IPFIX collector, and what could not be sent", counters).get(
            "/v1/otlp",
            "What was sent to an OpenTelemetry collector, and what could not be sent",
            sent,
        )
    }
}

impl ApiRoutes<AnySwitch> {
    /// A setting of a port. The answer is what was set.
    fn setting<T: DeserializeOwned + Serialize + JsonSchema + Send + 'static>(
        self,
        name: &str,
        summary: &str,
        set: fn(&dyn Service, &str, &T) -> Result<(), String>,
    ) -> Self {
        let put = async move |State(service): State<AnySwitch>, InPath(port): InPath<String>, Body(wanted): Body<T>| {
            answers::answer(set(&*service, &port, &wanted).map(|()| wanted))
        };
        self.put(&format!("/v1/ports/{{name}}/{name}"), summary, put)
    }
}

/// All routes of a switch.
pub fn routes(counters: Arc<Counters>) -> ApiRoutes<AnySwitch> {
    type S = State<AnySwitch>;
    ApiRoutes::<AnySwitch>::new()
        .get("/v1/status", "The switch, its workers and ports since the start", async |State(s): S| Json(s.status()))
        .get("/v1/ports", "The ports and their counters since the start", async |State(s): S| Json(s.ports()))
        .post("/v1/ports", "Opens a device and adds it as a port", answers::add_port)
        .delete("/v1/ports/{name}", "Removes a port, and answers what it had counted", answers::remove_port)
        .setting("link", "Takes a port up or down", |s, name, link: &Link| s.set_link(name, link.up))
        .setting("promiscuous", "Takes in frames for other MAC addresses, or no longer", |s, name, p: &Promiscuous| {
            s.set_promiscuous(name, p.on)
        })
        .setting("mtu", "Sets the largest IP packet of a port", |s, name, mtu: &Mtu| s.set_mtu(name, mtu.mtu_bytes))
        .setting("fault", "Sets the faults that a port's packets meet, or ends them", |s, name, f: &Fault| {
            s.set_fault(name, f.fault.as_ref())
        })
        .get("/v1/ports/since-reset", "The ports, counted from the last reset", async |State(s): S| {
            Json(s.since_reset())
        })
        .put("/v1/reset", "Counts from here on, for `/v1/ports/since-reset` alone", answers::reset)
        .get("/v1/macs", "The MAC addresses that the switch has learned", async |State(s): S| Json(s.macs()))
        .get("/v1/tables", "The match-action tables", async |State(s): S| Json(s.tables().list()))
        .get("/v1/tables/{name}", "The entries of a table", answers::show_table)
        .post("/v1/tables/{name}", "Changes entries of a table: all in order, or none", answers::change_table)
        .post("/v1/reload", "Becomes what the configuration file says now, or stays as it is", answers::reload)
        .post(
            observers::TRACE,
            "The way of the next packet that matches; null when none came in time",
            observers::trace,
        )
        .post("/v1/capture", "Packets as they come, as pcapng", observers::capture)
        .delete("/v1/captures/{id}", "Ends a capture: what it has is still sent", observers::end_capture)
        .post(registers::REGISTERS, "The registers of programs at the end of an epoch", registers::dump)
        .get("/v1/controller", "The switch's connection to its controller", async |State(s): S| {
            answers::answer(s.controller())
        })
        .connections(counters)
        .export()
        .tasks()
        .metrics(switch_metrics)
}

fn router(service: AnySwitch, counters: Arc<Counters>) -> Router {
    routes(counters).router(answers::unknown, service)
}

/// Answers the requests in `bytes`, as they would come over a connection.
pub fn respond<S: Service>(service: Arc<S>, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let router = serve::limited(router(service, Arc::default()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut answer = Vec::new();
    runtime.block_on(serve::converse(tokio::io::join(bytes, &mut answer), router));
    Ok(answer)
}

/// Serves the control socket until the process ends, and TCP as well where there is a listener for
/// it.
pub fn serve<S: Service>(listener: UnixListener, tls: Option<TlsListener>, service: Arc<S>) -> io::Result<()> {
    let counters = Arc::new(Counters::default());
    let served = Served::Http(serve::limited(router(service, counters.clone())));
    if let Some(tls) = tls {
        serve::tls(tls, served.clone(), counters.clone())?;
    }
    serve::unix(listener, served, counters)
}

/// Serves `/metrics` over TCP, and nothing else, until the process ends.
pub fn serve_metrics<S: Service>(listener: TcpListener, service: Arc<S>) -> io::Result<()> {
    let router = ApiRoutes::<AnySwitch>::new().metrics(switch_metrics).router(answers::unknown, service);
    serve::plain("weir-metrics", listener, serve::limited(router))
}

/// All metrics of a switch at this moment.
pub fn switch_metrics(service: &dyn Service, format: Format) -> String {
    metrics::text(&service.status(), service.measured(), service.exports(), format)
}

/// Serves a registry's metrics at `/metrics` over TCP, and nothing else, until the process ends.
pub fn serve_registry(listener: TcpListener, registry: Registry) -> io::Result<()> {
    let routes = ApiRoutes::<Arc<Registry>>::new();
    let routes = routes.get(METRICS, "The metrics of a registry", answers::registry);
    let router = routes.router(answers::only_metrics, Arc::new(registry));
    serve::plain("weir-metrics", listener, serve::limited(router))
}
