//! Requests to a collector.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::records::clipped;
use crate::config::{ConfigError, Length, OtlpConfig, OtlpHeader};
use crate::network::{rpc, tls};

/// Longest answer of a collector, and its longest headers, in bytes.
const LONGEST_ANSWER: usize = 64 << 10;
const LONGEST_HEADERS: u32 = 16 << 10;
/// Longest explanation of a failure that is kept, in bytes.
const LONGEST_ERROR: usize = 300;

/// Why nothing can be sent with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("otlp.to = {to}: {why}")]
    Address { to: String, why: String },
}

/// Sends requests to a collector, one after the other.
pub struct Client {
    endpoint: Endpoint,
    authority: String,
    tls: Option<Arc<ClientConfig>>,
    headers: MetadataMap,
    timeout: Duration,
    /// The connection, or one that is made with the next request. After a failure there is none.
    channel: Option<Channel>,
}

/// What a collector refused of a request that it took.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub rejected: u64,
    /// What it has to say. May be without anything that it refused.
    pub why: Option<String>,
}

/// Why a request was not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    /// It may be taken later.
    Again(String),
    /// It never will.
    Refused(String),
}

impl Client {
    /// To the collector of a configuration; `None` without one.
    ///
    /// # Errors
    /// If there is no such address, or files for TLS are of no use.
    pub fn new(config: &OtlpConfig) -> Result<Option<Self>, OtlpError> {
        let Some(address) = config.address()? else { return Ok(None) };
        let bad = |why: &dyn ToString| OtlpError::Address { to: address.authority.into(), why: why.to_string() };
        let scheme = if address.tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{}", address.authority).parse().map_err(|why| bad(&why))?;
        let endpoint = Endpoint::from_shared(format!("http://{}", address.authority)).map_err(|why| bad(&why))?;
        let endpoint = endpoint
            .origin(origin)
            .connect_timeout(config.timeout.0)
            .initial_stream_window_size(LONGEST_ANSWER as u32)
            .initial_connection_window_size(LONGEST_ANSWER as u32)
            .http2_max_header_list_size(LONGEST_HEADERS);
        let tls = address.tls.map(|files| tls::anyones_client(files.ca, files.identity)).transpose()?;
        let mut headers = MetadataMap::new();
        for (name, OtlpHeader(value)) in &config.headers {
            let name = MetadataKey::from_bytes(name.as_bytes()).map_err(|why| bad(&why))?;
            headers.insert(name, MetadataValue::try_from(value.as_str()).map_err(|why| bad(&why))?);
        }
        let authority = address.authority.to_owned();
        Ok(Some(Self { endpoint, authority, tls, headers, timeout: config.timeout.0, channel: None }))
    }

    pub async fn send_metrics(&mut self, request: ExportMetricsServiceRequest) -> Result<Taken, Failed> {
        let service = MetricsServiceClient::new(self.channel()).max_decoding_message_size(LONGEST_ANSWER);
        let request = self.request(request);
        let answer = self.wait(async move { { service }.export(request).await }).await?;
        Ok(answer
            .partial_success
            .map_or_else(Taken::default, |partial| Taken::new(partial.rejected_data_points, &partial.error_message)))
    }

    pub async fn send_logs(&mut self, request: ExportLogsServiceRequest) -> Result<Taken, Failed> {
        let service = LogsServiceClient::new(self.channel()).max_decoding_message_size(LONGEST_ANSWER);
        let request = self.request(request);
        let answer = self.wait(async move { { service }.export(request).await }).await?;
        Ok(answer
            .partial_success
            .map_or_else(Taken::default, |partial| Taken::new(partial.rejected_log_records, &partial.error_message)))
    }

    fn channel(&mut self) -> Channel {
        let (authority, tls) = (&self.authority, &self.tls);
        let connect = || {
            let (authority, tls) = (authority.clone(), tls.clone());
            let connector = tower::service_fn(move |_| {
                let (authority, tls) = (authority.clone(), tls.clone());
                async move { rpc::tcp(&authority, tls).await.map(TokioIo::new) }
            });
            self.endpoint.connect_with_connector_lazy(connector)
        };
        self.channel.get_or_insert_with(connect).clone()
    }

    fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        *request.metadata_mut() = self.headers.clone();
        request
    }

    async fn wait<M>(&mut self, call: impl Future<Output = Result<Response<M>, Status>>) -> Result<M, Failed> {
        let failed = match timeout(self.timeout, call).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => Failed::new(&status),
            Err(_) => Failed::Again(format!("no answer within {}", Length(self.timeout))),
        };
        self.channel = None;
        Err(failed)
    }
}

impl Taken {
    fn new(rejected: i64, why: &str) -> Self {
        Self { rejected: rejected.try_into().unwrap_or(0), why: (!why.is_empty()).then(|| readable(why)) }
    }
}

impl Failed {
    fn new(status: &Status) -> Self {
        // A failure of the connection has a cause; a collector's answer has none.
        if let Some(cause) = status.source() {
            return Self::Again(readable(&tls::whole(cause)));
        }
        let why = match status.message() {
            "" => status.code().to_string(),
            message => format!("{}: {message}", status.code()),
        };
        let why = readable(&why);
        // OTLP names these; a server that is out of resources may be asked again only where it says when.
        match status.code() {
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss => Self::Again(why),
            _ => Self::Refused(why),
        }
    }
}

/// A collector's words, so that they fit a line of a log.
fn readable(text: &str) -> String {
    let text: String = clipped(text, LONGEST_ERROR);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
