//! Connections of the API, each listener on a thread of its own: bounded in number, size and time,
//! so that no peer takes more than its share of memory, and a flood of handshakes leaves the
//! control socket alone.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use axum::{Extension, Json};
use hyper::body::Body;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::observers::TRACE;
use super::registers::REGISTERS;
use super::service::FREQUENCY;
use super::view;
use crate::lock::Hold;
use crate::network::rpc::{self, Certified};
use crate::network::tls;

/// Connections of one listener that are answered at a time. On the socket more of them wait, by TLS
/// they are closed.
pub const CONNECTIONS: usize = 64;
/// TLS handshakes at a time; more of them wait.
pub const HANDSHAKES: usize = 16;
/// Maximum time of a TLS handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(5);
/// Maximum time for a request's headers, from the end of the request before.
pub const HEADERS: Duration = Duration::from_secs(10);
/// Maximum time for a request.
pub const REQUEST: Duration = Duration::from_secs(30);
/// Longest headers of a request, and longest body.
pub const HEADER_BYTES: usize = 16 << 10;
pub const BODY_BYTES: usize = 1 << 20;
/// The paths to which questions are posted.
const QUESTIONS: [&str; 1] = [FREQUENCY];
/// Minimum time between log lines about failed handshakes.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// A TCP listener whose clients must show a certificate.
pub struct TlsListener {
    pub listener: TcpListener,
    pub config: Arc<ServerConfig>,
}

/// Connections and handshakes of the listeners.
#[derive(Debug, Default)]
pub struct Counters(Mutex<view::Api>);

impl Counters {
    fn count(&self, counter: fn(&mut view::Api) -> &mut u64) {
        *counter(&mut self.0.hold()) += 1;
    }

    pub fn view(&self) -> view::Api {
        *self.0.hold()
    }
}

/// The service of a connection.
#[derive(Clone)]
pub enum Served {
    /// The API.
    Http(Router),
    /// Switches that report to a controller: gRPC, on streams that last.
    Grpc(Router),
}

impl Served {
    /// The threads for its Unix socket and for TCP.
    fn threads(&self) -> [&'static str; 2] {
        match self {
            Self::Http(_) => ["weir-api", "weir-tls"],
            Self::Grpc(_) => ["weir-switches", "weir-switch-tls"],
        }
    }

    /// The same for a client with this certificate.
    fn certified(self, certificate: &CertificateDer<'_>) -> Self {
        match self {
            Self::Http(router) if tls::is_operator(certificate) => Self::Http(router),
            Self::Http(router) => Self::Http(router.layer(middleware::from_fn(only_read))),
            Self::Grpc(router) => Self::Grpc(router.layer(Extension(Certified(tls::switch_names(certificate).into())))),
        }
    }

    /// Answers one connection until it ends.
    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        match self {
            Self::Http(router) => converse(stream, router).await,
            Self::Grpc(router) => converse_grpc(stream, router).await,
        }
    }
}

/// Serves a Unix socket until the process ends.
pub fn unix(listener: UnixListener, served: Served, counters: Arc<Counters>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    on_a_thread(served.threads()[0], async move {
        let arrived = || counters.count(|api| &mut api.socket_connections);
        all(tokio::net::UnixListener::from_std(listener)?, served, arrived).await
    })
}

/// Serves TCP without TLS until the process ends, on a thread of this name: for what anyone on the
/// machine may read.
pub fn plain(name: &'static str, listener: TcpListener, router: Router) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let served = Served::Http(router);
    on_a_thread(name, async move { all(tokio::net::TcpListener::from_std(listener)?, served, || ()).await })
}

/// Serves TCP until the process ends.
pub fn tls(listener: TlsListener, served: Served, counters: Arc<Counters>) -> io::Result<()> {
    let TlsListener { listener, config } = listener;
    listener.set_nonblocking(true)?;
    on_a_thread(served.threads()[1], async move {
        let tls = Arc::new(BoundedListener {
            acceptor: TlsAcceptor::from(config),
            room: Arc::new(Semaphore::new(CONNECTIONS)),
            served,
            counters,
            log: Log::new(),
        });
        let listener = tokio::net::TcpListener::from_std(listener)?;
        accept(listener, HANDSHAKES, move |stream, peer, handshake| tls.clone().enter(stream, peer, handshake)).await
    })
}

/// Accepts connections while there are places. `serve` holds a place as long as it needs it.
async fn accept<L: Listener, S: Future<Output = ()> + Send + 'static>(
    mut listener: L,
    places: usize,
    serve: impl Fn(L::Io, L::Addr, OwnedSemaphorePermit) -> S,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(places));
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, peer) = listener.accept().await;
        tokio::spawn(serve(stream, peer, place));
    }
    Ok(())
}

/// Answers all connections.
async fn all(listener: impl Listener, served: Served, arrived: impl Fn()) -> io::Result<()> {
    let serve = |stream, _, place| {
        arrived();
        let served = served.clone();
        async move {
            served.converse(stream).await;
            drop(place);
        }
    };
    accept(listener, CONNECTIONS, serve).await
}

/// The TCP listener, whose clients must show a certificate.
struct BoundedListener {
    acceptor: TlsAcceptor,
    room: Arc<Semaphore>,
    served: Served,
    counters: Arc<Counters>,
    log: Log,
}

impl BoundedListener {
    async fn enter(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, handshake: OwnedSemaphorePermit) {
        let shaken = timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        drop(handshake);
        let stream = match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => stream,
            Err(error) => {
                self.counters.count(|api| &mut api.failed_handshakes);
                return self.log.failed(peer, &error);
            }
        };
        let Ok(_place) = self.room.clone().try_acquire_owned() else {
            self.counters.count(|api| &mut api.refused_connections);
            return;
        };
        self.counters.count(|api| &mut api.tls_connections);
        // The handshake demands one.
        if let Some([certificate, ..]) = stream.get_ref().1.peer_certificates() {
            self.served.clone().certified(certificate).converse(stream).await;
        }
    }
}

fn on_a_thread(name: &'static str, serving: impl Future<Output = io::Result<()>> + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.into()).spawn(move || {
        if let Err(error) = runtime.block_on(serving) {
            tracing::error!("{name} has ended: {error}");
        }
    })?;
    Ok(())
}

/// Answers one connection of a switch: one stream, and a second while the first ends.
async fn converse_grpc(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new()).keep_alive_interval(rpc::ALIVE_EVERY).keep_alive_timeout(rpc::ALIVE_WITHIN);
    http.max_concurrent_streams(2).max_header_list_size(HEADER_BYTES as u32).max_pending_accept_reset_streams(2);
    http.initial_stream_window_size(rpc::WINDOW).initial_connection_window_size(rpc::WINDOW);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await {
        tracing::debug!("a switch's connection ended: {}", tls::whole(&error));
    }
}

/// Answers one connection of the API until it ends.
pub(super) async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_header_size(HEADER_BYTES).max_headers(64);
    // A client that has closed its sending half is still answered.
    http.max_buf_size(4 * HEADER_BYTES).half_close(true);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
    if let Err(error) = served {
        tracing::debug!("a connection ended: {}", tls::whole(&error));
    }
}

/// The limits on a request's body and time.
pub fn limited(router: Router) -> Router {
    router
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn(in_time))
        .layer(middleware::from_fn(short))
}

/// Refuses a body by the length that its client has announced, before it is read.
async fn short(request: Request, next: Next) -> Response {
    match request.body().size_hint().exact() {
        Some(bytes) if bytes > BODY_BYTES as u64 => {
            let failure = view::Failure { error: too_long(bytes) };
            (StatusCode::PAYLOAD_TOO_LARGE, Json(failure)).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Why a body is refused.
pub(super) fn too_long(bytes: u64) -> String {
    format!("the request has {bytes} bytes; a switch takes at most {BODY_BYTES}. Send it in parts")
}

/// Refuses what is no question: a reader changes nothing.
async fn only_read(request: Request, next: Next) -> Response {
    if is_question(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    let error = format!("{}: a reader's certificate may ask and change nothing", request.uri().path());
    (StatusCode::FORBIDDEN, Json(view::Failure { error })).into_response()
}

/// Whether a request changes nothing. A list of questions is posted: it is too long for a path.
pub(super) fn is_question(method: &Method, path: &str) -> bool {
    method.is_safe() || (*method == Method::POST && QUESTIONS.contains(&path))
}

/// Whether a request has no limit of time but its own. A trace waits for a packet and a dump for an
/// epoch, for as long as its request says.
pub(super) fn waits(path: &str) -> bool {
    [TRACE, REGISTERS].contains(&path)
}

async fn in_time(request: Request, next: Next) -> Response {
    if waits(request.uri().path()) {
        return next.run(request).await;
    }
    match timeout(REQUEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let error = format!("the request took longer than {} s", REQUEST.as_secs());
            (StatusCode::REQUEST_TIMEOUT, Json(view::Failure { error })).into_response()
        }
    }
}

/// Logs failed handshakes at a bounded rate: any peer that reaches the port can make handshakes
/// fail, but must not fill the log.
struct Log {
    started: Instant,
    /// Milliseconds from `started` to the moment from which on one may be logged.
    next: AtomicU64,
    unsaid: AtomicU64,
}

impl Log {
    fn new() -> Self {
        Self { started: Instant::now(), next: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    fn failed(&self, peer: SocketAddr, error: &io::Error) {
        if let Some(unsaid) = self.due(self.started.elapsed()) {
            tracing::warn!("{}: no TLS handshake: {} ({unsaid} more before)", peer.ip(), tls::whole(error));
        }
    }

    /// Whether to log at `now`, and how many were not logged since the last time.
    fn due(&self, now: Duration) -> Option<u64> {
        let now = now.as_millis() as u64;
        if now < self.next.load(Relaxed) {
            self.unsaid.fetch_add(1, Relaxed);
            return None;
        }
        self.next.store(now + LOG_EVERY.as_millis() as u64, Relaxed);
        Some(self.unsaid.swap(0, Relaxed))
    }
}

#[cfg(test)]
pub(crate) mod tests;
