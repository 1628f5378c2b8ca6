//! Peers that must be refused, and the control socket, which answers all the while.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

use super::*;
use crate::control::api::tests::fake;
use crate::control::api::{self, Service};
use crate::control::client::{Client, ClientError};
use crate::control::socket;
use crate::control::tls::Files;

/// A CA and what it signs, as files.
struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    certificate: PathBuf,
}

/// A certificate with its key.
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

struct Lab {
    dir: tempfile::TempDir,
    ca: Ca,
    address: SocketAddr,
    socket: PathBuf,
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    path.into()
}

fn ca(dir: &Path, name: &str) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let certificate = write(&dir.join(format!("{name}.pem")), &issuer.pem());
    Ca { issuer, certificate }
}

impl Ca {
    fn signs(&self, dir: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity {
            certificate: write(&dir.join(format!("{name}.crt")), &certificate),
            key: write(&dir.join(format!("{name}.key")), &key.serialize_pem()),
        }
    }
}

fn files<'a>(identity: &'a Identity, ca: &'a Path) -> Files<'a> {
    Files { certificate: ("certificate", &identity.certificate), key: ("key", &identity.key), ca: ("ca", ca) }
}

impl Lab {
    /// A switch called localhost whose clients are those of its own CA.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = ca(dir.path(), "ca");
        let identity = ca.signs(dir.path(), "localhost", |_| ());
        let config = tls::server(&files(&identity, &ca.certificate)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (unix, socket) = socket::listen("weir", Some(dir.path().join("s")), Default::default()).unwrap();
        api::serve(unix, Some(TlsListener { listener, config }), Arc::new(fake())).unwrap();
        Self { dir, ca, address, socket }
    }

    fn client(&self, identity: &Identity, ca: &Ca, host: &str) -> Client {
        let config = tls::client(&files(identity, &ca.certificate)).unwrap();
        Client::connect_tls(&format!("{host}:{}", self.address.port()), config).unwrap()
    }

    fn refused(&self, client: &Client, why: &str) {
        match client.get::<view::Ports>("/v1/ports") {
            Err(ClientError::Broken { why: said, .. }) => assert!(said.contains(why), "{said}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("not refused: {why}"),
        }
    }

    /// What the control socket says, which it must whatever goes on.
    fn doors(&self) -> view::Api {
        Client::connect(self.socket.clone()).unwrap().get("/v1/api").unwrap()
    }

    fn good(&self) -> Client {
        let identity = self.ca.signs(self.dir.path(), "me", |_| ());
        self.client(&identity, &self.ca, "localhost")
    }

    fn plain(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }
}

#[test]
fn the_right_client_is_answered() {
    let lab = Lab::new();
    let client = lab.good();
    assert_eq!(client.get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    assert!(matches!(client.get::<view::Ports>("/v1/weather"), Err(ClientError::Refused { .. })));
    let doors = lab.doors();
    assert_eq!((doors.tls_connections, doors.failed_handshakes), (2, 0));
}

#[test]
fn wrong_certificates_are_refused() {
    let lab = Lab::new();
    let dir = lab.dir.path();
    let other = ca(dir, "other");
    let stranger = other.signs(dir, "stranger", |_| ());
    lab.refused(&lab.client(&stranger, &lab.ca, "localhost"), "UnknownCA");
    let past = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let expired = lab.ca.signs(dir, "expired", past);
    lab.refused(&lab.client(&expired, &lab.ca, "localhost"), "CertificateExpired");
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    let early = lab.ca.signs(dir, "early", future);
    lab.refused(&lab.client(&early, &lab.ca, "localhost"), "received fatal alert");
    // The switch must show its own certificate too: of the CA that the client trusts, and for the name that it asked for.
    let me = lab.ca.signs(dir, "me", |_| ());
    lab.refused(&lab.client(&me, &other, "localhost"), "UnknownIssuer");
    lab.refused(&lab.client(&me, &lab.ca, "127.0.0.1"), "not valid for name");
    // Of the last ones the client says so, and the switch hears of it.
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while lab.doors().failed_handshakes < 5 && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let doors = lab.doors();
    assert_eq!((doors.tls_connections, doors.failed_handshakes), (0, 5));
}

#[test]
fn no_certificate_is_refused() {
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, Stream, crypto::ring, version::TLS13};
    let lab = Lab::new();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&lab.ca.certificate).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13]).unwrap();
    let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
    let mut tls = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut tcp = lab.plain();
    let mut stream = Stream::new(&mut tls, &mut tcp);
    let _ = stream.write_all(b"GET /v1/ports HTTP/1.1\r\nhost: weir\r\n\r\n");
    let mut answer = Vec::new();
    let error = stream.read_to_end(&mut answer).unwrap_err();
    assert!(answer.is_empty() && error.to_string().contains("CertificateRequired"), "{error}");
    assert_eq!(lab.doors().failed_handshakes, 1);
}

#[test]
fn plain_http_is_refused() {
    let lab = Lab::new();
    let mut stream = lab.plain();
    stream.write_all(b"GET /v1/ports HTTP/1.1\r\nhost: weir\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"), "{answer:?}");
    assert_eq!(lab.doors().failed_handshakes, 1);
}

/// Peers that connect and say nothing are more than there is room for. They are thrown out, and then the right client
/// gets its answer; the control socket answers meanwhile.
#[test]
fn half_open_connections_go() {
    let lab = Lab::new();
    let idle: Vec<_> = (0..2 * HANDSHAKES).map(|_| lab.plain()).collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(lab.doors().failed_handshakes, 0);
    for mut stream in &idle {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "thrown out");
    }
    assert_eq!(lab.good().get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    assert_eq!(lab.doors().failed_handshakes, 2 * HANDSHAKES as u64);
}

/// An authenticated client may still send too much, or nothing at all.
#[test]
fn oversized_and_unfinished_requests_are_refused() {
    let lab = Lab::new();
    let ask = |request: &[u8]| {
        let mut stream = UnixStream::connect(&lab.socket).unwrap();
        stream.set_read_timeout(Some(2 * HEADERS)).unwrap();
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    };
    let long = format!("GET /v1/ports HTTP/1.1\r\nhost: weir\r\nx: {}\r\n\r\n", "y".repeat(HEADER_BYTES));
    assert!(ask(long.as_bytes()).contains(" 431 "), "{}", ask(long.as_bytes()));
    let many = format!("GET /v1/ports HTTP/1.1\r\nhost: weir\r\n{}\r\n", "x: y\r\n".repeat(100));
    assert!(ask(many.as_bytes()).contains(" 431 "));
    let head = "PUT /v1/ports/a/link HTTP/1.1\r\nhost: weir\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let body = format!("{head}content-length: {}\r\n\r\n{}", BODY_BYTES + 1, "x".repeat(BODY_BYTES + 1));
    assert!(!ask(body.as_bytes()).contains(" 200 "));
    assert!(ask(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello \r\n\r\n").contains(" 400 "));
    // Headers that never end: closed, with or without a word.
    assert!(!ask(b"GET /v1/ports HTTP/1.1\r\nhost:").contains(" 200 "));
    lab.doors();
}

/// No more connections are answered at a time than there are places; those of clients that leave are given on.
#[test]
fn connections_are_bounded() {
    let lab = Lab::new();
    let idle: Vec<_> = (0..CONNECTIONS).map(|_| UnixStream::connect(&lab.socket).unwrap()).collect();
    let asked = std::thread::spawn({
        let socket = lab.socket.clone();
        move || Client::connect(socket).unwrap().get::<view::Api>("/v1/api").unwrap()
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!asked.is_finished(), "there is no place left");
    drop(idle);
    assert_eq!(asked.join().unwrap().socket_connections, CONNECTIONS as u64 + 1);
}

#[test]
fn files_that_will_not_do_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let ca = ca(dir.path(), "ca");
    let identity = ca.signs(dir.path(), "localhost", |_| ());
    let other = ca.signs(dir.path(), "other", |_| ());
    let refused = |files: &Files<'_>| tls::server(files).expect_err("refused").to_string();
    let good = files(&identity, &ca.certificate);
    let missing = dir.path().join("missing");
    let error = refused(&Files { ca: ("api.client_ca", &missing), ..good });
    assert!(
        error.starts_with("api.client_ca = /") && error.ends_with("No such file or directory (os error 2)"),
        "{error}"
    );
    let error = refused(&Files { certificate: ("api.certificate", &identity.key), ..good });
    assert!(error.contains("holds no certificate; it should begin with -----BEGIN"), "{error}");
    let error = refused(&Files { key: ("api.key", &identity.certificate), ..good });
    assert!(error.contains("holds no private key"), "{error}");
    let error = refused(&Files { key: ("api.key", &other.key), ..good });
    assert!(error.starts_with("api.key = ") && error.contains("keys may not be consistent"), "{error}");
    std::fs::set_permissions(&identity.key, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(refused(&good).contains("everyone may read or write it (mode 0644)"));
}

#[test]
fn failures_are_logged_at_a_bounded_rate() {
    let log = Log::new();
    let said = |milliseconds| log.due(Duration::from_millis(milliseconds));
    assert_eq!([0, 1, 500, 999].map(said), [Some(0), None, None, None]);
    assert_eq!([1000, 1999, 2000].map(said), [Some(3), None, Some(1)]);
}
