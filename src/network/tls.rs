//! Mutual TLS for the API on TCP: version 1.3 alone, both sides with a certificate of a CA that the
//! other trusts.
//!
//! A client's certificate names its roles, as URIs among its subject alternative names:
//! `weir:operator` for those who command switches, `weir:reader` for those who only ask them,
//! `weir:switch:NAME` for a switch that reports to a controller. A certificate without a role that the
//! server serves is refused in the handshake.

pub mod dates;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
};

use crate::config::PemFiles;

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

/// The clients of a server, one of whose roles they must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Operators and readers.
    OfApi,
    Switches,
}

pub const OPERATOR: &str = "weir:operator";
pub const READER: &str = "weir:reader";
const SWITCH: &str = "weir:switch:";
/// The roles of those who may ask a switch or controller.
const API_ROLES: [&str; 2] = [OPERATOR, READER];

impl Clients {
    fn roles(self) -> &'static [&'static str] {
        match self {
            Self::OfApi => &API_ROLES,
            Self::Switches => &[SWITCH],
        }
    }

    fn has(self, uri: &str) -> bool {
        match self {
            Self::OfApi => API_ROLES.contains(&uri),
            Self::Switches => uri.strip_prefix(SWITCH).is_some_and(|name| !name.is_empty()),
        }
    }
}

/// The URIs of a certificate's subject alternative names.
fn uris(certificate: &CertificateDer<'_>) -> Result<Vec<String>, webpki::Error> {
    Ok(webpki::EndEntityCert::try_from(certificate)?.valid_uri_names().map(str::to_owned).collect())
}

/// Whether a client with this certificate may change what it may ask about.
pub fn is_operator(certificate: &CertificateDer<'_>) -> bool {
    uris(certificate).is_ok_and(|uris| uris.iter().any(|uri| uri == OPERATOR))
}

/// The names that a switch with this certificate may use.
pub fn switch_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let uris = uris(certificate).unwrap_or_default();
    uris.iter().filter_map(|uri| uri.strip_prefix(SWITCH)).map(str::to_owned).collect()
}

#[derive(Debug, thiserror::Error)]
#[error("the certificate has no URI {wanted}; it has {found:?}")]
struct WrongRole {
    wanted: String,
    found: Vec<String>,
}

/// Takes certificates of the CA that have the role.
#[derive(Debug)]
struct RoleVerifier {
    clients: Clients,
    ca: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for RoleVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.ca.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.ca.verify_client_cert(certificate, intermediates, now)?;
        let found = uris(certificate).map_err(|_| CertificateError::BadEncoding)?;
        if found.iter().any(|uri| self.clients.has(uri)) {
            return Ok(verified);
        }
        let wrong = WrongRole { wanted: self.clients.roles().join(" or "), found };
        Err(CertificateError::Other(OtherError(Arc::new(wrong))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.ca.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.ca.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.ca.supported_verify_schemes()
    }
}

/// The server's side. No session is resumed, so that each connection shows a certificate that is
/// valid now.
pub fn server(files: &PemFiles<'_>, clients: Clients) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = identity(files)?;
    dates::check(files.certificate)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(files.ca)?.into(), provider());
    let ca = verifier.build().map_err(|e| bad(files.ca, e))?;
    let verifier = Arc::new(RoleVerifier { clients, ca });
    let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(|e| bad(files.key, e))?.with_client_cert_verifier(verifier);
    let mut config = builder.with_single_cert(chain, key).map_err(|e| bad(files.key, e))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A client's side, whatever the roles of its certificate.
pub fn client(files: &PemFiles<'_>) -> Result<Arc<ClientConfig>, TlsError> {
    let (chain, key) = identity(files)?;
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(|e| bad(files.key, e))?.with_root_certificates(roots(files.ca)?);
    builder.with_client_auth_cert(chain, key).map(Arc::new).map_err(|e| bad(files.key, e))
}

/// The side of a client of a server that is no weir. It shows a certificate where it has one, with its key, and
/// speaks HTTP/2.
pub fn anyones_client(
    ca: (&'static str, &Path),
    own: Option<[(&'static str, &Path); 2]>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = match own {
        Some([certificate, key]) => (*client(&PemFiles { certificate, key, ca })?).clone(),
        None => {
            let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
            let builder = builder.map_err(|e| bad(ca, e))?.with_root_certificates(roots(ca)?);
            builder.with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// The side of an operator or a reader.
pub fn api_client(files: &PemFiles<'_>) -> Result<Arc<ClientConfig>, TlsError> {
    entitled(files, &API_ROLES)
}

/// The side of a switch that is called `name`.
pub fn switch(files: &PemFiles<'_>, name: &str) -> Result<Arc<ClientConfig>, TlsError> {
    entitled(files, &[&format!("{SWITCH}{name}")])
}

/// The server would refuse a certificate without one of the roles, in fewer words.
fn entitled(files: &PemFiles<'_>, roles: &[&str]) -> Result<Arc<ClientConfig>, TlsError> {
    let config = client(files)?;
    dates::check(files.certificate)?;
    let found = match certificates(files.certificate)?.first() {
        Some(own) => uris(own).map_err(|e| bad(files.certificate, e))?,
        None => Vec::new(),
    };
    if found.iter().any(|uri| roles.contains(&uri.as_str())) {
        return Ok(config);
    }
    let roles = roles.iter().map(|role| format!("URI:{role}")).collect::<Vec<_>>().join(" or ");
    let why = format!("subjectAltName has no {roles}, as the certificate needs it here (docs/security.md)");
    Err(bad(files.certificate, why))
}

fn identity(files: &PemFiles<'_>) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(files.key.1).map_err(|e| bad(files.key, pem_error(&e, "private key")))?;
    let mode = files.key.1.metadata().map_err(|e| bad(files.key, e))?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(bad(files.key, format!("everyone may read or write it (mode {:04o}); chmod o= it", mode & 0o7777)));
    }
    Ok((chain, key))
}

fn roots(ca: (&'static str, &Path)) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|e| bad(ca, e))?;
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
pub fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let said = |error: &(dyn std::error::Error + 'static)| dates::text(error).unwrap_or_else(|| error.to_string());
    let mut text = said(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = said(error);
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands of docs/security.md, as they stand there.
    #[test]
    fn the_pages_commands_make_certificates() {
        let page = include_str!("../../docs/security.md");
        let mut blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let commands = blocks.find(|block| block.contains("openssl req -x509")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut shell = std::process::Command::new("sh");
        let made = shell.args(["-e", "-c", commands]).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        if said.contains("openssl: not found") {
            assert!(std::env::var_os("WEIR_REQUIRE_NETNS").is_none(), "no openssl: make setup");
            return eprintln!("skipped: no openssl: make setup");
        }
        assert!(made.status.success(), "{said}");
        let path = |name: &str| dir.path().join(name);
        let with = |name: &str, check: &dyn Fn(&PemFiles<'_>) -> bool| {
            let [certificate, key, ca] = [path(&format!("{name}.pem")), path(&format!("{name}.key")), path("ca.pem")];
            check(&PemFiles { certificate: ("certificate", &certificate), key: ("key", &key), ca: ("ca", &ca) })
        };
        let is_operators =
            |name: &str| is_operator(&certificates(("certificate", &path(&format!("{name}.pem")))).unwrap()[0]);
        assert!(with("alice", &|files| api_client(files).is_ok() && switch(files, "alice").is_err()));
        assert!(with("prometheus", &|files| api_client(files).is_ok() && switch(files, "prometheus").is_err()));
        assert_eq!(["alice", "prometheus", "switch1"].map(is_operators), [true, false, false]);
        assert!(with("switch1", &|files| api_client(files).is_err() && switch(files, "switch1").is_ok()));
        assert!(with("switch1", &|files| server(files, Clients::OfApi).is_ok()));
        assert!(with("controller", &|files| server(files, Clients::Switches).is_ok() && api_client(files).is_err()));
    }
}
