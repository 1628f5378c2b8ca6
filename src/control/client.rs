//! The client of the control socket: HTTP over a Unix socket.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::taps::CAPTURE_HEADER;
use super::view::Failure;

/// A switch that should have answered by then is not coming back.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer taken.
const LONGEST: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no switch answers at {} ({source}); is `weir run` up, and is its --name this one?", path.display())]
    NoSwitch { path: PathBuf, source: io::Error },
    #[error("{}: {why}", path.display())]
    Broken { path: PathBuf, why: String },
    #[error("{error}")]
    Refused { error: String },
}

/// Asks one switch.
pub struct Client {
    path: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    pub fn connect(path: PathBuf) -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => Ok(Self { path, runtime }),
            Err(source) => Err(ClientError::NoSwitch { path, source }),
        }
    }

    pub fn get<T: DeserializeOwned>(&self, query: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, query, Vec::new())
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
        serde_json::to_vec(body).map_err(|e| self.broken(e))
    }

    /// Posts a question whose answer may take `wait` to come.
    pub fn post_within<T: DeserializeOwned>(
        &self,
        query: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, ClientError> {
        self.ask_within(wait.saturating_add(PATIENCE), Method::POST, query, self.encode(body)?)
    }

    /// Posts a question whose answer is a stream. Once `stop` is set the switch is asked to end it.
    pub fn stream(
        &self,
        query: &str,
        body: &impl Serialize,
        stop: Arc<AtomicBool>,
    ) -> Result<Streamed<'_>, ClientError> {
        let response = self.within(PATIENCE, self.send(Method::POST, query, self.encode(body)?))?;
        if response.status() == StatusCode::OK {
            let id = response.headers().get(CAPTURE_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
            let (body, rest) = (response.into_body(), Bytes::new());
            return Ok(Streamed { client: self, body, rest, id, stop, stopped: None });
        }
        let (status, answer) = self.within(PATIENCE, self.whole(response))?;
        Err(self.refusal(status, &answer))
    }

    fn ask<T: DeserializeOwned>(&self, method: Method, query: &str, body: Vec<u8>) -> Result<T, ClientError> {
        self.ask_within(PATIENCE, method, query, body)
    }

    fn within<T>(
        &self,
        wait: Duration,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(wait, answer).await });
        answer.map_err(|_| self.broken("the switch does not answer"))?
    }

    fn ask_within<T: DeserializeOwned>(
        &self,
        wait: Duration,
        method: Method,
        query: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        let exchange = async { self.whole(self.send(method, query, body).await?).await };
        let (status, answer) = self.within(wait, exchange)?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&answer).map_err(|e| self.broken(e));
        }
        Err(self.refusal(status, &answer))
    }

    fn refusal(&self, status: StatusCode, answer: &[u8]) -> ClientError {
        match serde_json::from_slice(answer) {
            Ok(Failure { error }) => ClientError::Refused { error },
            Err(_) => self.broken(status),
        }
    }

    async fn send(&self, method: Method, query: &str, body: Vec<u8>) -> Result<Response<Incoming>, ClientError> {
        let stream = tokio::net::UnixStream::connect(&self.path)
            .await
            .map_err(|source| ClientError::NoSwitch { path: self.path.clone(), source })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.broken(e))?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(query)
            .header("host", "weir")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| self.broken(e))?;
        sender.send_request(request).await.map_err(|e| self.broken(e))
    }

    async fn whole(&self, response: Response<Incoming>) -> Result<(StatusCode, Bytes), ClientError> {
        let status = response.status();
        let answer = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|e| self.broken(e))?;
        Ok((status, answer.to_bytes()))
    }

    fn broken(&self, why: impl std::fmt::Display) -> ClientError {
        ClientError::Broken { path: self.path.clone(), why: why.to_string() }
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
                // A stream that has ended by itself is refused, and is at its end all the same.
                let _ = self.client.ask::<u64>(Method::DELETE, &format!("/v1/captures/{id}"), Vec::new());
                Ok(())
            }
            (Some(since), _) if since.elapsed() < PATIENCE => Ok(()),
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
