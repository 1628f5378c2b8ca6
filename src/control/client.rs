//! The client of the control socket: HTTP over a Unix socket.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

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

    fn ask<T: DeserializeOwned>(&self, method: Method, query: &str, body: Vec<u8>) -> Result<T, ClientError> {
        let exchange = async { tokio::time::timeout(PATIENCE, self.exchange(method, query, body)).await };
        let (status, answer) =
            self.runtime.block_on(exchange).map_err(|_| self.broken("the switch does not answer"))??;
        if status == StatusCode::OK {
            return serde_json::from_slice(&answer).map_err(|e| self.broken(e));
        }
        match serde_json::from_slice(&answer) {
            Ok(Failure { error }) => Err(ClientError::Refused { error }),
            Err(_) => Err(self.broken(status)),
        }
    }

    async fn exchange(&self, method: Method, query: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes), ClientError> {
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
        let response = sender.send_request(request).await.map_err(|e| self.broken(e))?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|e| self.broken(e))?;
        Ok((status, answer.to_bytes()))
    }

    fn broken(&self, why: impl std::fmt::Display) -> ClientError {
        ClientError::Broken { path: self.path.clone(), why: why.to_string() }
    }
}
