//! The traits that a switch or controller implements for the API, and the routes to them.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Json, Router};
use prometheus_client::registry::Registry;

use super::exported::NOT_EXPORTED;
use super::metrics::{self, ProgramMetrics};
use super::serve::{self, Counters, Served, TlsListener};
use super::{Fault, HeavyQuery, Link, Mtu, NewPort, PendingDump, Promiscuous, answers, observers, registers, view};
use crate::answers::{Links, Queryable, Task};
use crate::observe::Observers;
use crate::port::FaultSpec;
use crate::tables::Tables;

/// The path to which questions about several flows are posted.
pub const FREQUENCY: &str = "/v1/frequency";
/// The path of metrics.
pub const METRICS: &str = "/metrics";
/// The path at which an export to an IPFIX collector says how it stands.
pub const IPFIX: &str = "/v1/ipfix";

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
    const IS_LIVE: bool = true;

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

    /// The metrics of what its programs measure.
    fn measured(&self) -> Vec<ProgramMetrics> {
        Vec::new()
    }
}

/// The routes of answers by task, each at the task's name. The entropy of flow sizes has a route of
/// its own.
pub fn tasks<A: Answering>() -> Router<Arc<A>> {
    let router = Router::new().route("/v1/entropy", answers::task(Task::Cardinality));
    let route = |router: Router<_>, task: Task| router.route(&format!("/v1/{}", task.name()), answers::task(task));
    let lists = Router::new().route(FREQUENCY, post(answers::list));
    Task::ALL.into_iter().fold(router, route).merge(lists)
}

fn router<S: Service>(service: Arc<S>, counters: Arc<Counters>) -> Router {
    use answers::setting;
    Router::new()
        .route("/v1/api", get(async move || Json(counters.view())))
        .route("/v1/ports", get(async |State(s): State<Arc<S>>| Json(s.ports())).post(answers::add_port::<S>))
        .route("/v1/ports/{name}", delete(answers::remove_port::<S>))
        .route("/v1/controller", get(async |State(s): State<Arc<S>>| answers::answer(s.controller())))
        .route(IPFIX, get(async |State(s): State<Arc<S>>| answers::answer(s.exported())))
        .route("/v1/reload", post(answers::reload::<S>))
        .route("/v1/ports/since-reset", get(async |State(s): State<Arc<S>>| Json(s.since_reset())))
        .route("/v1/reset", put(answers::reset::<S>))
        .route("/v1/status", get(async |State(s): State<Arc<S>>| Json(s.status())))
        .route(METRICS, switch_metrics())
        .route("/v1/macs", get(async |State(s): State<Arc<S>>| Json(s.macs())))
        .merge(tasks())
        .route("/v1/ports/{name}/link", setting(|s: &S, name, link: &Link| s.set_link(name, link.up)))
        .route("/v1/ports/{name}/promiscuous", setting(|s: &S, name, p: &Promiscuous| s.set_promiscuous(name, p.on)))
        .route("/v1/ports/{name}/mtu", setting(|s: &S, name, mtu: &Mtu| s.set_mtu(name, mtu.mtu_bytes)))
        .route("/v1/ports/{name}/fault", setting(|s: &S, name, f: &Fault| s.set_fault(name, f.fault.as_ref())))
        .route(observers::TRACE, post(observers::trace::<S>))
        .route(registers::REGISTERS, post(registers::dump::<S>))
        .route("/v1/capture", post(observers::capture::<S>))
        .route("/v1/captures/{id}", delete(observers::end_capture::<S>))
        .route("/v1/tables", get(async |State(s): State<Arc<S>>| Json(s.tables().list())))
        .route("/v1/tables/{name}", get(answers::show_table::<S>).post(answers::change_table::<S>))
        .fallback(answers::unknown)
        .method_not_allowed_fallback(answers::unknown)
        .with_state(service)
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
    let router = Router::new().route(METRICS, switch_metrics::<S>()).fallback(answers::unknown).with_state(service);
    serve::plain("weir-metrics", listener, serve::limited(router))
}

fn switch_metrics<S: Service>() -> MethodRouter<Arc<S>> {
    answers::metrics(|service: &S, format| {
        metrics::text(&service.status(), service.measured(), service.exported().ok(), format)
    })
}

/// Serves a registry's metrics at `/metrics` over TCP, and nothing else, until the process ends.
pub fn serve_registry(listener: TcpListener, registry: Registry) -> io::Result<()> {
    let router = Router::new().route(METRICS, get(answers::registry)).fallback(answers::only_metrics);
    let router = router.method_not_allowed_fallback(answers::only_metrics).with_state(Arc::new(registry));
    serve::plain("weir-metrics", listener, serve::limited(router))
}
