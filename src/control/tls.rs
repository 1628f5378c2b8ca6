//! Mutual TLS for the API on TCP: version 1.3 alone, both sides with a certificate of a CA that the other trusts.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// The files of one side, and what its user calls each.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    pub certificate: (&'static str, &'a Path),
    pub key: (&'static str, &'a Path),
    /// The CA that the other side must have its certificate from.
    pub ca: (&'static str, &'a Path),
}

#[derive(Debug, thiserror::Error)]
#[error("{name} = {}: {why}", file.display())]
pub struct TlsError {
    pub name: &'static str,
    pub file: PathBuf,
    pub why: String,
}

fn bad((name, file): (&'static str, &Path), why: impl ToString) -> TlsError {
    TlsError { name, file: file.into(), why: why.to_string() }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The switch's side. No session is resumed, so that each connection shows a certificate that is valid now.
pub fn server(files: &Files<'_>) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = identity(files)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(files)?.into(), provider());
    let verifier = verifier.build().map_err(|e| bad(files.ca, e))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(|e| bad(files.key, e))?.with_client_cert_verifier(verifier);
    let mut config = builder.with_single_cert(chain, key).map_err(|e| bad(files.key, e))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A client's side.
pub fn client(files: &Files<'_>) -> Result<Arc<ClientConfig>, TlsError> {
    let (chain, key) = identity(files)?;
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(|e| bad(files.key, e))?.with_root_certificates(roots(files)?);
    builder.with_client_auth_cert(chain, key).map(Arc::new).map_err(|e| bad(files.key, e))
}

fn identity(files: &Files<'_>) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(files.key.1).map_err(|e| bad(files.key, pem_error(&e, "private key")))?;
    let mode = files.key.1.metadata().map_err(|e| bad(files.key, e))?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(bad(files.key, format!("everyone may read or write it (mode {:04o}); chmod o= it", mode & 0o7777)));
    }
    Ok((chain, key))
}

fn roots(files: &Files<'_>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(files.ca)? {
        roots.add(certificate).map_err(|e| bad(files.ca, e))?;
    }
    Ok(roots)
}

fn certificates(file: (&'static str, &Path)) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |e: pem::Error| bad(file, pem_error(&e, "certificate"));
    let found: Vec<_> = CertificateDer::pem_file_iter(file.1).and_then(Iterator::collect).map_err(error)?;
    if found.is_empty() { Err(error(pem::Error::NoItemsFound)) } else { Ok(found) }
}

fn pem_error(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("holds no {what}; it should begin with -----BEGIN"),
        _ => format!("holds no {what} that can be read"),
    }
}

/// An error with what caused it: TLS's own words come last.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// The name of `HOST:PORT` without brackets.
pub fn host(address: &str) -> io::Result<&str> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "write HOST:PORT, as in switch1:9470 or [::1]:9470");
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().map_err(|_| wrong())?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare.unwrap_or(host) {
        "" => Err(wrong()),
        host if bare.is_none() && host.contains(':') => Err(wrong()),
        host => Ok(host),
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn addresses_name_a_host() {
        for (address, name) in [("a.b:1", "a.b"), ("[::1]:9470", "::1"), ("192.0.2.1:65535", "192.0.2.1")] {
            assert_eq!(host(address).unwrap(), name);
        }
        for address in ["", "a", ":1", "a:", "a:65536", "::1:9470", "[]:1"] {
            assert!(host(address).is_err(), "{address}");
        }
    }
}
