//! The way to a controller.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::transport::{Channel, Endpoint, Error};

use super::{ALIVE_EVERY, ALIVE_WITHIN, WINDOW};
use crate::config::{self, Address};
use crate::network::socket;

/// A connection is there by then, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// Next to the control socket of a controller lies the one for switches, as if it were another's.
pub fn socket_name(controller: &str) -> String {
    format!("{controller}.switches")
}

/// The address with what it takes to get there.
#[derive(Clone)]
pub struct Dial {
    pub address: Address,
    /// For [`Address::Tcp`].
    tls: Option<Arc<ClientConfig>>,
}

/// A connection, with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Dial {
    pub fn new(address: Address, tls: Option<Arc<ClientConfig>>) -> Self {
        let tls = tls.map(|config| {
            let mut config = (*config).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(config)
        });
        Self { address, tls }
    }

    /// Connects, with TLS on TCP.
    pub async fn channel(&self) -> Result<Channel, Error> {
        // Only the path of a request is looked at.
        let endpoint = Endpoint::from_static("http://controller")
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(ALIVE_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let dial = self.clone();
        let connector = tower::service_fn(move |_| {
            let dial = dial.clone();
            async move { dial.stream().await.map(TokioIo::new) }
        });
        endpoint.connect_with_connector(connector).await
    }

    async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        match &self.address {
            // Looked up each time: the controller may not have been there before.
            Address::Name(name) => unix(&socket::path(&socket_name(name))?).await,
            Address::Socket(path) => unix(path).await,
            Address::Tcp(address) => {
                let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
                let config = self.tls.clone().ok_or_else(|| refused("over TCP only with certificates"))?;
                tcp(address, Some(config)).await
            }
        }
    }
}

/// A stream to HOST:PORT, with TLS where there is a configuration for it.
pub async fn tcp(address: &str, tls: Option<Arc<ClientConfig>>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(config) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(config::host(address)?.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
}

async fn unix(path: &Path) -> io::Result<Box<dyn Stream>> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    Ok(Box::new(UnixStream::connect(path).await.map_err(at)?))
}
