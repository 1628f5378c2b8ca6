//! The client of the API: HTTP over a switch's control socket, or over TCP with mutual TLS.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::tls;
use super::view::Failure;

/// A switch that should have answered by then is not coming back.
const PATIENCE: Duration = Duration::from_secs(10);
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

/// Where the switch is.
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
        let host = tls::host(address).map_err(|e| broken(e.to_string()))?;
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
        serde_json::to_vec(body).map_err(|e| self.broken(&e))
    }

    fn ask<T: DeserializeOwned>(&self, method: Method, query: &str, body: Vec<u8>) -> Result<T, ClientError> {
        let exchange = async { tokio::time::timeout(PATIENCE, self.exchange(method, query, body)).await };
        let late = |_| ClientError::Broken { at: self.peer.at(), why: "the switch does not answer".into() };
        let (status, answer) = self.runtime.block_on(exchange).map_err(late)??;
        if status == StatusCode::OK {
            return serde_json::from_slice(&answer).map_err(|e| self.broken(&e));
        }
        match serde_json::from_slice(&answer) {
            Ok(Failure { error }) => Err(ClientError::Refused { error }),
            Err(_) => Err(ClientError::Broken { at: self.peer.at(), why: status.to_string() }),
        }
    }

    async fn exchange(&self, method: Method, query: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), ClientError> {
        let request = Request::builder()
            .method(method)
            .uri(query)
            .header("host", "weir")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|e| self.broken(&e))?;
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
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|e| self.broken(&e))?;
        let connection = tokio::spawn(connection);
        let response = match sender.send_request(request).await {
            Ok(response) => response,
            // Why the other side hung up, for example because of our certificate, is known to the connection.
            Err(error) => {
                drop(sender);
                let ended = connection.await.ok().and_then(Result::err);
                return Err(self.broken(ended.as_ref().unwrap_or(&error)));
            }
        };
        let status = response.status();
        let answer = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|e| self.broken(&*e))?;
        Ok((status, answer.to_bytes()))
    }

    fn broken(&self, why: &(dyn std::error::Error + 'static)) -> ClientError {
        ClientError::Broken { at: self.peer.at(), why: tls::whole(why) }
    }
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
