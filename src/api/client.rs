//! The client of the API: HTTP over a switch's control socket, or over TCP with mutual TLS.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::observers::CAPTURE_HEADER;
use super::serve::{BODY_BYTES, too_long};
use super::view::Failure;
use crate::config;
use crate::network::tls;

/// Maximum time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer taken.
const LONGEST: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no switch answers at {at} ({source}); {hint}")]
    NoSwitch { at: String, source: io::Error, hint: &'static str },
    #[error("{at}: {why}")]
    Broken { at: String, why: String },
    #[error("{error}")]
    Refused { error: String },
}

/// The switch's address.
enum Peer {
    Socket(PathBuf),
    Tcp { address: String, name: ServerName<'static>, tls: TlsConnector },
}

/// Asks one switch.
pub struct Client {
    peer: Peer,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// The switch at a control socket.
    pub fn connect(path: PathBuf) -> Result<Self, ClientError> {
        Self::new(Peer::Socket(path))
    }

    /// The switch at `HOST:PORT`, whose certificate must be for HOST.
    pub fn connect_tls(address: &str, config: Arc<ClientConfig>) -> Result<Self, ClientError> {
        let broken = |why: String| ClientError::Broken { at: address.into(), why };
        let host = config::host(address).map_err(|e| broken(e.to_string()))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|e| broken(e.to_string()))?;
        Self::new(Peer::Tcp { address: address.into(), name, tls: config.into() })
    }

    fn new(peer: Peer) -> Result<Self, ClientError> {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => Ok(Self { peer, runtime }),
            Err(source) => Err(ClientError::NoSwitch { at: peer.at(), source, hint: peer.hint() }),
        }
    }

    pub fn get<T: DeserializeOwned>(&self, query: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, query, Vec::new())
    }

    /// An answer that is text of a media type rather than a document.
    pub fn text(&self, query: &str, accept: &str) -> Result<String, ClientError> {
        let request = Request::get(query).header("accept", accept);
        String::from_utf8(self.answer(TIMEOUT, request, Vec::new())?.to_vec()).map_err(|e| self.broken(&e))
    }

    pub fn put<T: DeserializeOwned>(&self, query: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.ask(Method::PUT, query, self.encode(body)?)
    }

    pub fn post<T: DeserializeOwned>(&self, query: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.ask(Method::POST, query, self.encode(body)?)
    }

    pub fn delete<T: DeserializeOwned>(&self, query: &str) -> Result<T, ClientError> {
        self.ask(Method::DELETE, query, Vec::new())
    }

    fn encode(&self, body: &impl Serialize) -> Result<Vec<u8>, ClientError> {
        let body = serde_json::to_vec(body).map_err(|e| self.broken(&e))?;
        // A switch stops reading a longer one, and its answer may be lost.
        if body.len() > BODY_BYTES {
            return Err(ClientError::Refused { error: too_long(body.len() as u64) });
        }
        Ok(body)
    }

    /// Posts a question whose answer may take `wait` to come.
    pub fn post_within<T: DeserializeOwned>(
        &self,
        query: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, ClientError> {
        self.ask_within(wait.saturating_add(TIMEOUT), Method::POST, query, self.encode(body)?)
    }

    /// Posts a question whose answer is a stream. Once `stop` is set the switch is asked to end it.
    pub fn stream(
        &self,
        query: &str,
        body: &impl Serialize,
        stop: Arc<AtomicBool>,
    ) -> Result<Streamed<'_>, ClientError> {
        let response = self.within(TIMEOUT, self.request(json(Method::POST, query), self.encode(body)?))?;
        if response.status() == StatusCode::OK {
            let id = response.headers().get(CAPTURE_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
            let (body, rest) = (response.into_body(), Bytes::new());
            return Ok(Streamed { client: self, body, rest, id, stop, stopped: None });
        }
        let (status, answer) = self.within(TIMEOUT, self.whole(response))?;
        Err(self.refusal(status, &answer))
    }

    fn ask<T: DeserializeOwned>(&self, method: Method, query: &str, body: Vec<u8>) -> Result<T, ClientError> {
        self.ask_within(TIMEOUT, method, query, body)
    }

    fn ask_within<T: DeserializeOwned>(
        &self,
        wait: Duration,
        method: Method,
        query: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        serde_json::from_slice(&self.answer(wait, json(method, query), body)?).map_err(|e| self.broken(&e))
    }

    fn within<T>(
        &self,
        wait: Duration,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(wait, answer).await });
        let late = |_| ClientError::Broken { at: self.peer.at(), why: "the switch does not answer".into() };
        answer.map_err(late)?
    }

    fn answer(&self, wait: Duration, request: request::Builder, body: Vec<u8>) -> Result<Bytes, ClientError> {
        let exchange = async { self.whole(self.request(request, body).await?).await };
        let (status, answer) = self.within(wait, exchange)?;
        if status == StatusCode::OK {
            return Ok(answer);
        }
        Err(self.refusal(status, &answer))
    }

    fn refusal(&self, status: StatusCode, answer: &[u8]) -> ClientError {
        match serde_json::from_slice(answer) {
            Ok(Failure { error }) => ClientError::Refused { error },
            Err(_) => ClientError::Broken { at: self.peer.at(), why: status.to_string() },
        }
    }

    async fn request(&self, request: request::Builder, body: Vec<u8>) -> Result<Response<Incoming>, ClientError> {
        let request = request.header("host", "weir").body(Full::new(Bytes::from(body))).map_err(|e| self.broken(&e))?;
        let nobody = |source| ClientError::NoSwitch { at: self.peer.at(), source, hint: self.peer.hint() };
        match &self.peer {
            Peer::Socket(path) => self.converse(UnixStream::connect(path).await.map_err(nobody)?, request).await,
            Peer::Tcp { address, name, tls } => {
                let stream = TcpStream::connect(address).await.map_err(nobody)?;
                let stream = tls.connect(name.clone(), stream).await.map_err(|e| self.broken(&e))?;
                self.converse(stream, request).await
            }
        }
    }

    async fn converse(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|e| self.broken(&e))?;
        let connection = tokio::spawn(connection);
        match sender.send_request(request).await {
            Ok(response) => Ok(response),
            // Why the other side hung up, for example because of our certificate, is known to the
            // connection.
            Err(error) => {
                drop(sender);
                let ended = connection.await.ok().and_then(Result::err);
                Err(self.broken(ended.as_ref().unwrap_or(&error)))
            }
        }
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<(StatusCode, Bytes), ClientError> {
        let status = response.status();
        let answer = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|e| self.broken(&*e))?;
        Ok((status, answer.to_bytes()))
    }

    fn broken(&self, why: &(dyn std::error::Error + 'static)) -> ClientError {
        ClientError::Broken { at: self.peer.at(), why: tls::whole(why) }
    }
}

/// A request whose body is a document.
fn json(method: Method, query: &str) -> request::Builder {
    Request::builder().method(method).uri(query).header("content-type", "application/json")
}

impl Peer {
    fn at(&self) -> String {
        match self {
            Self::Socket(path) => path.display().to_string(),
            Self::Tcp { address, .. } => address.clone(),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Socket(_) => "is `weir run` up, and is its --name this one?",
            Self::Tcp { .. } => "is `weir run` up, and is this its api.listen?",
        }
    }
}

/// An answer that is read while it is made.
pub struct Streamed<'a> {
    client: &'a Client,
    body: Incoming,
    rest: Bytes,
    id: Option<String>,
    stop: Arc<AtomicBool>,
    /// When the switch was asked to end.
    stopped: Option<Instant>,
}

/// How often a reader that waits looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Streamed<'_> {
    /// Asks the switch once to end the stream; what it still has comes first.
    fn end(&mut self) -> io::Result<()> {
        match (self.stopped, &self.id) {
            (None, Some(id)) => {
                self.stopped = Some(Instant::now());
                // The switch refuses this for a stream that has ended by itself.
                let _ = self.client.ask::<u64>(Method::DELETE, &format!("/v1/captures/{id}"), Vec::new());
                Ok(())
            }
            (Some(since), _) if since.elapsed() < TIMEOUT => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::TimedOut, "the switch does not end the stream")),
        }
    }
}

impl Read for Streamed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            if self.stop.load(Relaxed) {
                self.end()?;
            }
            let frame = async { tokio::time::timeout(LOOK_EVERY, self.body.frame()).await };
            match self.client.runtime.block_on(frame) {
                Err(_) => {}
                Ok(None) => return Ok(0),
                Ok(Some(Err(_))) => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the switch has gone"));
                }
                Ok(Some(Ok(frame))) => self.rest = frame.into_data().unwrap_or_default(),
            }
        }
        let taken = self.rest.split_to(self.rest.len().min(buffer.len()));
        buffer[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}
