//! The way to a controller.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
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
use crate::config::is_name;
use crate::control::{socket, tls};

/// A connection is there by then, TLS included.
const CONNECT: Duration = Duration::from_secs(5);
/// Where a controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A controller of this machine, by its name.
    Name(String),
    /// Its socket for switches.
    Socket(PathBuf),
    /// HOST:PORT, with mutual TLS.
    Tcp(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no controller: write its name, the path of its socket for switches, or HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text {
            _ if text.contains('/') => Ok(Self::Socket(text.into())),
            _ if tls::host(text).is_ok() => Ok(Self::Tcp(text.into())),
            _ if is_name(text) => Ok(Self::Name(text.into())),
            _ => Err(AddressError(text.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) | Self::Tcp(text) => f.write_str(text),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

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

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
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
                let name = ServerName::try_from(tls::host(address)?.to_owned()).map_err(io::Error::other)?;
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
            }
        }
    }
}

async fn unix(path: &Path) -> io::Result<Box<dyn Stream>> {
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    Ok(Box::new(UnixStream::connect(path).await.map_err(at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let read = |text: &str| text.parse::<Address>();
        assert_eq!(read("controller"), Ok(Address::Name("controller".into())));
        assert_eq!(read("/run/weir/c.switches.sock"), Ok(Address::Socket("/run/weir/c.switches.sock".into())));
        assert_eq!(read("./c.sock"), Ok(Address::Socket("./c.sock".into())));
        for tcp in ["192.0.2.1:9471", "[::1]:9471", "controller.lab:9471"] {
            assert_eq!(read(tcp), Ok(Address::Tcp(tcp.into())));
            assert_eq!(read(tcp).unwrap().to_string(), tcp);
        }
        for wrong in ["", "a b", "::1:9471", "host:", "-x"] {
            assert!(read(wrong).unwrap_err().to_string().contains("HOST:PORT"), "{wrong}");
        }
    }
}
