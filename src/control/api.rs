//! The HTTP API, on threads of its own; it never touches a worker.

mod answers;
mod messages;

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};

pub use messages::{Changes, HeavyQuery, Link, Mtu, NewPort, Promiscuous};

use super::controller::Board;
use super::serve::{self, Counters, Served, TlsListener};
use super::tables::Tables;
use super::{taps, view};
use crate::tap::Taps;

/// What a switch answers. Methods may block for a moment, but not for long.
pub trait Service: Send + Sync + 'static {
    fn ports(&self) -> view::Ports;
    fn status(&self) -> view::Status;
    /// The ports' counters since the last [`Service::reset`].
    fn since_reset(&self) -> view::SinceReset;
    /// From now on `since_reset` counts from here. The counters themselves are not touched.
    fn reset(&self);
    fn stations(&self) -> view::Stations;
    fn heavy(&self, query: &HeavyQuery) -> Result<view::HeavyFlows, String>;
    /// The answers of the controller of the program that is asked for, when there is one.
    fn board(&self, _query: &HeavyQuery) -> Result<Board, String> {
        Err("no program that answers this runs".into())
    }
    fn set_link(&self, port: &str, up: bool) -> Result<(), String>;
    /// Takes frames for other stations in, or no longer.
    fn set_promiscuous(&self, port: &str, on: bool) -> Result<(), String>;
    /// Changes a port's largest IP packet, in bytes. The packet buffers bound it.
    fn set_mtu(&self, port: &str, bytes: u32) -> Result<(), String>;
    fn tables(&self) -> &Tables;
    /// Opens a device and adds it. Gives the new port.
    fn add_port(&self, port: &NewPort) -> Result<view::Port, String>;
    /// Gives what the port had counted.
    fn remove_port(&self, port: &str) -> Result<view::Port, String>;
    /// Becomes what the configuration file says now, or stays as it is.
    fn reload(&self) -> Result<view::Reloaded, String>;
    fn taps(&self) -> &Taps;
    /// How it stands with its controller.
    fn controller(&self) -> Result<view::ControllerLink, String> {
        Err("the switch reports to no controller; start it with --controller ADDRESS".into())
    }
    /// The ports by number, for traces and captures.
    fn tap_ports(&self) -> Vec<taps::TapPort>;
}

/// What has the answers of a controller.
pub trait Finds: Send + Sync + 'static {
    fn found(&self, query: &HeavyQuery) -> Result<Board, String>;
}

impl<S: Service> Finds for S {
    fn found(&self, query: &HeavyQuery) -> Result<Board, String> {
        self.board(query)
    }
}

/// The routes of what a controller finds.
pub fn found<F: Finds>() -> Router<Arc<F>> {
    Router::new()
        .route("/v1/losses", get(answers::losses::<F>))
        .route("/v1/flows", get(answers::flows::<F>))
        .route("/v1/changes", get(answers::changes::<F>))
        .route("/v1/cardinality", get(answers::numbers::<F>))
        .route("/v1/entropy", get(answers::numbers::<F>))
        .route("/v1/attention", get(answers::attention::<F>))
}

fn router<S: Service>(service: Arc<S>, counters: Arc<Counters>) -> Router {
    Router::new()
        .route("/v1/api", get(async move || Json(counters.view())))
        .route("/v1/ports", get(async |State(s): State<Arc<S>>| Json(s.ports())).post(answers::add_port::<S>))
        .route("/v1/ports/{name}", delete(answers::remove_port::<S>))
        .route("/v1/controller", get(async |State(s): State<Arc<S>>| answers::answer(s.controller())))
        .route("/v1/reload", post(answers::reload::<S>))
        .route("/v1/ports/since-reset", get(async |State(s): State<Arc<S>>| Json(s.since_reset())))
        .route("/v1/reset", put(answers::reset::<S>))
        .route("/v1/status", get(async |State(s): State<Arc<S>>| Json(s.status())))
        .route("/metrics", get(answers::metrics::<S>))
        .route("/v1/macs", get(async |State(s): State<Arc<S>>| Json(s.stations())))
        .route("/v1/heavy", get(answers::heavy::<S>))
        .merge(found())
        .route("/v1/ports/{name}/link", put(answers::set_link::<S>))
        .route("/v1/ports/{name}/promiscuous", put(answers::set_promiscuous::<S>))
        .route("/v1/ports/{name}/mtu", put(answers::set_mtu::<S>))
        .route(taps::TRACE, post(taps::trace::<S>))
        .route("/v1/capture", post(taps::capture::<S>))
        .route("/v1/captures/{id}", delete(taps::end_capture::<S>))
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

/// Serves the control socket until the process ends, and TCP as well where there is a listener for it.
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
    let router =
        Router::new().route("/metrics", get(answers::metrics::<S>)).fallback(answers::unknown).with_state(service);
    serve::plain(listener, serve::limited(router))
}

#[cfg(test)]
pub(crate) mod tests;
