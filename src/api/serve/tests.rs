//! Peers that must be refused, and the control socket, which answers all the while.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType, date_time_ymd};

use super::*;
use crate::api::client::{Client, ClientError};
use crate::api::tests::fake;
use crate::api::{self, Service, metrics};
use crate::config::PemFiles;
use crate::network::socket;
use crate::network::tls::Clients;

/// A CA and what it signs, as files.
pub(crate) struct Ca {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) certificate: PathBuf,
}

/// A certificate with its key.
pub(crate) struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

struct Lab {
    dir: tempfile::TempDir,
    ca: Ca,
    address: SocketAddr,
    socket: socket::SocketFile,
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    path.into()
}

fn entitle(params: &mut CertificateParams, role: &str) {
    params.subject_alt_names.push(SanType::URI(role.try_into().unwrap()));
}

/// The roles that a certificate has, in place of an operator's.
pub(crate) fn roles<'a>(roles: &'a [&'a str]) -> impl FnOnce(&mut CertificateParams) + 'a {
    move |params| {
        params.subject_alt_names.pop();
        roles.iter().for_each(|role| entitle(params, role));
    }
}

pub(crate) fn ca(dir: &Path, name: &str) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let certificate = write(&dir.join(format!("{name}.pem")), &issuer.pem());
    Ca { issuer, certificate }
}

impl Ca {
    /// An operator's certificate, unless it is changed.
    pub(crate) fn signs(&self, dir: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
        entitle(&mut params, "weir:operator");
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity {
            certificate: write(&dir.join(format!("{name}.crt")), &certificate),
            key: write(&dir.join(format!("{name}.key")), &key.serialize_pem()),
        }
    }
}

pub(crate) fn files<'a>(identity: &'a Identity, ca: &'a Path) -> PemFiles<'a> {
    PemFiles { certificate: ("certificate", &identity.certificate), key: ("key", &identity.key), ca: ("ca", ca) }
}

impl Lab {
    /// A switch called localhost whose clients are those of its own CA.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = ca(dir.path(), "ca");
        let identity = ca.signs(dir.path(), "localhost", roles(&[]));
        let config = tls::server(&files(&identity, &ca.certificate), Clients::OfApi).unwrap();
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
    fn connections(&self) -> view::Api {
        Client::connect(self.socket.path.clone()).unwrap().get("/v1/api").unwrap()
    }

    /// The same once so many handshakes have failed, or none fails any more: a connection is counted
    /// just after it is closed.
    fn connections_after(&self, failed: u64) -> view::Api {
        let end = Instant::now() + Duration::from_secs(20);
        while self.connections().failed_handshakes < failed && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.connections()
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
    let connections = lab.connections();
    assert_eq!((connections.tls_connections, connections.failed_handshakes), (2, 0));
}

#[test]
fn metrics_are_for_those_who_may_ask_over_tls() {
    let lab = Lab::new();
    let format = metrics::Format::Prometheus;
    let text = lab.good().text("/metrics", format.content_type()).unwrap();
    assert_eq!(text, metrics::text(&fake().status(), Vec::new(), Default::default(), format));
    let nobody = lab.ca.signs(lab.dir.path(), "nobody", roles(&[]));
    let refused =
        lab.client(&nobody, &lab.ca, "localhost").text("/metrics", format.content_type()).unwrap_err().to_string();
    assert!(refused.contains("CertificateUnknown"), "{refused}");
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
    // What checks a switch's or an operator's own files sees it at once, and says the day.
    for (identity, date) in [(&expired, "expired on 2020-01-01 00:00:00 UTC"), (&early, "not valid before 4000-01-01")]
    {
        let files = files(identity, &lab.ca.certificate);
        for said in [tls::server(&files, Clients::OfApi).err(), tls::api_client(&files).err()] {
            let said = said.expect("refused").to_string();
            assert!(said.contains(date) && said.starts_with("certificate = "), "{said}");
        }
    }
    // The switch must show its own certificate too: of the CA that the client trusts, and for the
    // name that it asked for.
    let me = lab.ca.signs(dir, "me", |_| ());
    lab.refused(&lab.client(&me, &other, "localhost"), "UnknownIssuer");
    lab.refused(&lab.client(&me, &lab.ca, "127.0.0.1"), "not valid for name");
    // Of the last ones the client says so, and the switch hears of it.
    let connections = lab.connections_after(5);
    assert_eq!((connections.tls_connections, connections.failed_handshakes), (0, 5));
}

/// A reader's certificate asks everything and changes nothing, by whatever path.
#[test]
fn readers_ask_and_change_nothing() {
    let lab = Lab::new();
    let reader = lab.ca.signs(lab.dir.path(), "reader", roles(&["weir:reader"]));
    assert!(tls::api_client(&files(&reader, &lab.ca.certificate)).is_ok());
    let client = lab.client(&reader, &lab.ca, "localhost");
    assert_eq!(client.get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    let format = metrics::Format::Openmetrics;
    let text = client.text("/metrics", format.content_type()).unwrap();
    assert_eq!(text, metrics::text(&fake().status(), Vec::new(), Default::default(), format));
    let flows = serde_json::json!({"flows": ["10.0.0.1:1 -> *"]});
    assert_eq!(client.post::<view::Frequencies>("/v1/frequency?seconds=60", &flows).unwrap().frequencies.len(), 1);
    type Value = serde_json::Value;
    let body = serde_json::json!({"up": false, "mtu_bytes": 1400, "changes": []});
    let refused = |answer: Result<Value, ClientError>| {
        let error = answer.unwrap_err().to_string();
        assert!(error.ends_with("a reader's certificate may ask and change nothing"), "{error}");
    };
    for path in ["/v1/reset", "/v1/ports/a/link", "/v1/ports/a/mtu", "/v1/ports/a/fault", "/v1/parameters"] {
        refused(client.put::<Value>(path, &body));
    }
    for path in
        ["/v1/reload", "/v1/ports", "/v1/tables/numbers", "/v1/trace", "/v1/registers", "/v1/capture", "/v1/none"]
    {
        refused(client.post::<Value>(path, &body));
    }
    ["/v1/ports/a", "/v1/captures/1", "/v1/frequency"].iter().for_each(|path| refused(client.delete::<Value>(path)));
    // One that is an operator's as well may change it.
    let both = lab.ca.signs(lab.dir.path(), "both", roles(&["weir:reader", "weir:operator"]));
    let both = lab.client(&both, &lab.ca, "localhost");
    assert!(both.put::<view::SinceReset>("/v1/reset", &()).is_ok());
}

/// A switch's key, and that of a certificate without a role, commands no switch.
#[test]
fn only_an_operators_certificate_commands_a_switch() {
    let lab = Lab::new();
    let dir = lab.dir.path();
    let wrong = [&[][..], &["weir:switch:localhost"], &["weir:operator2", "weir:operator/", "https://weir:operator"]];
    for (n, uris) in wrong.into_iter().enumerate() {
        let identity = lab.ca.signs(dir, &format!("wrong{n}"), roles(uris));
        lab.refused(&lab.client(&identity, &lab.ca, "localhost"), "CertificateUnknown");
        let said = tls::api_client(&files(&identity, &lab.ca.certificate)).unwrap_err().to_string();
        assert!(said.contains("subjectAltName has no URI:weir:operator"), "{said}");
    }
    // The switch's own, which is of the same CA.
    let own = Identity { certificate: dir.join("localhost.crt"), key: dir.join("localhost.key") };
    lab.refused(&lab.client(&own, &lab.ca, "localhost"), "CertificateUnknown");
    let both = lab.ca.signs(dir, "both", roles(&["weir:switch:edge1", "weir:operator"]));
    assert!(tls::api_client(&files(&both, &lab.ca.certificate)).is_ok());
    assert!(tls::switch(&files(&both, &lab.ca.certificate), "edge1").is_ok());
    assert!(tls::switch(&files(&both, &lab.ca.certificate), "edge2").is_err());
    assert_eq!(lab.client(&both, &lab.ca, "localhost").get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    let connections = lab.connections_after(4);
    assert_eq!((connections.tls_connections, connections.failed_handshakes), (1, 4));
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
    assert_eq!(lab.connections_after(1).failed_handshakes, 1);
}

#[test]
fn plain_http_is_refused() {
    let lab = Lab::new();
    let mut stream = lab.plain();
    stream.write_all(b"GET /v1/ports HTTP/1.1\r\nhost: weir\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"), "{answer:?}");
    assert_eq!(lab.connections_after(1).failed_handshakes, 1);
}

/// Peers that connect and say nothing hold 16 places for 5 s. Then they are thrown out, and the
/// right client gets its answer; the control socket answers meanwhile.
#[test]
fn half_open_connections_go() {
    let lab = Lab::new();
    let good = lab.good();
    let mut idle: Vec<_> = (0..15).map(|_| lab.plain()).collect();
    let started = Instant::now();
    assert_eq!(good.get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    assert!(started.elapsed() < Duration::from_secs(4), "a place is left: {:?}", started.elapsed());
    idle.push(lab.plain());
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(lab.connections().failed_handshakes, 0);
    assert_eq!(good.get::<view::Ports>("/v1/ports").unwrap(), fake().ports());
    let waited = started.elapsed().as_secs_f64();
    assert!((4.8..9.0).contains(&waited), "none is left for 5 s: {waited} s");
    for mut stream in &idle {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "thrown out");
    }
    assert_eq!(lab.connections_after(16).failed_handshakes, 16);
}

/// An authenticated client may still send too much, or nothing at all. 16 KiB, 64 lines and 1 MiB
/// are the last that are read.
#[test]
fn oversized_and_unfinished_requests_are_refused() {
    let lab = Lab::new();
    let ask = |request: &[u8]| {
        let mut stream = UnixStream::connect(&lab.socket.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let status = |answer: String| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let head = "GET /v1/ports HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n";
    let headers = |bytes: usize| format!("{head}x: {}\r\n\r\n", "y".repeat(bytes - head.len() - "x: \r\n\r\n".len()));
    assert_eq!(status(ask(headers(16 << 10).as_bytes())), "200");
    assert_eq!(status(ask(headers((16 << 10) + 1).as_bytes())), "431");
    let lines = |lines: usize| format!("{head}{}\r\n", "x: y\r\n".repeat(lines - 2));
    assert_eq!(status(ask(lines(64).as_bytes())), "200");
    assert_eq!(status(ask(lines(65).as_bytes())), "431");

    let json = "HTTP/1.1\r\nhost: weir\r\nconnection: close\r\ncontent-type: application/json\r\n";
    for place in ["PUT /v1/ports/a/link", "POST /v1/tables/numbers", "POST /v1/ports", "POST /v1/trace"] {
        let whole = |bytes: usize| format!("{place} {json}content-length: {bytes}\r\n\r\n{}", "x".repeat(bytes));
        let max = ask(whole(1 << 20).as_bytes());
        assert!(max.starts_with("HTTP/1.1 400") && max.contains("expected value at line 1"), "{place}: {max}");
        assert_eq!(status(ask(whole((1 << 20) + 1).as_bytes())), "413", "{place}");
        let piece = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
        let chunked =
            |last| format!("{place} {json}transfer-encoding: chunked\r\n\r\n{}{last}0\r\n\r\n", piece.repeat(16));
        assert!(ask(chunked("").as_bytes()).contains("expected value at line 1"), "{place}");
        assert!(ask(chunked("1\r\nx\r\n").as_bytes()).contains("length limit exceeded"), "{place}");
    }
    assert_eq!(status(ask(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello \r\n\r\n")), "400");
    // Headers that never end: closed after 10 s, with or without a word.
    let started = Instant::now();
    assert!(!ask(b"GET /v1/ports HTTP/1.1\r\nhost:").contains(" 200 "));
    let waited = started.elapsed().as_secs_f64();
    assert!((9.8..15.0).contains(&waited), "{waited} s");
    lab.connections();
}

/// 64 connections are answered at a time; the places of clients that leave are given on.
#[test]
fn connections_are_bounded() {
    let lab = Lab::new();
    let ask = || {
        let socket = lab.socket.path.clone();
        std::thread::spawn(move || Client::connect(socket).unwrap().get::<view::Api>("/v1/api").unwrap())
    };
    let mut idle: Vec<_> = (0..63).map(|_| UnixStream::connect(&lab.socket.path).unwrap()).collect();
    assert_eq!(ask().join().unwrap().socket_connections, 64);
    idle.push(UnixStream::connect(&lab.socket.path).unwrap());
    let asked = ask();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!asked.is_finished(), "there is no place left");
    drop(idle);
    assert_eq!(asked.join().unwrap().socket_connections, 66);
}

/// By TLS the 65th client is sent away, and counted.
#[test]
fn tls_connections_are_bounded() {
    use tokio_rustls::rustls::{ClientConnection, pki_types::ServerName};
    let lab = Lab::new();
    let identity = lab.ca.signs(lab.dir.path(), "many", |_| ());
    let config = tls::client(&files(&identity, &lab.ca.certificate)).unwrap();
    let idle: Vec<_> = (1..=64)
        .map(|n| {
            let mut tcp = lab.plain();
            let name = ServerName::try_from("localhost").unwrap();
            let mut tls = ClientConnection::new(config.clone(), name).unwrap();
            while tls.is_handshaking() || tls.wants_write() {
                tls.complete_io(&mut tcp).unwrap();
            }
            let end = Instant::now() + Duration::from_secs(10);
            while lab.connections().tls_connections < n && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(2));
            }
            (tls, tcp)
        })
        .collect();
    let connections = lab.connections();
    assert_eq!((connections.tls_connections, connections.refused_connections), (64, 0));
    assert!(lab.good().get::<view::Ports>("/v1/ports").is_err());
    let connections = lab.connections();
    assert_eq!((connections.tls_connections, connections.refused_connections), (64, 1));
    drop(idle);
    let end = Instant::now() + Duration::from_secs(10);
    while lab.good().get::<view::Ports>("/v1/ports").is_err() {
        assert!(Instant::now() < end, "the places are not given on");
    }
}

#[test]
fn files_that_will_not_do_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let ca = ca(dir.path(), "ca");
    let identity = ca.signs(dir.path(), "localhost", |_| ());
    let other = ca.signs(dir.path(), "other", |_| ());
    let refused = |files: &PemFiles<'_>| tls::server(files, Clients::OfApi).expect_err("refused").to_string();
    let good = files(&identity, &ca.certificate);
    let missing = dir.path().join("missing");
    let error = refused(&PemFiles { ca: ("api.client_ca", &missing), ..good });
    assert!(
        error.starts_with("api.client_ca = /") && error.ends_with("No such file or directory (os error 2)"),
        "{error}"
    );
    let error = refused(&PemFiles { certificate: ("api.certificate", &identity.key), ..good });
    assert!(error.contains("holds no certificate; it should begin with -----BEGIN"), "{error}");
    let error = refused(&PemFiles { key: ("api.key", &identity.certificate), ..good });
    assert!(error.contains("holds no private key"), "{error}");
    let error = refused(&PemFiles { key: ("api.key", &other.key), ..good });
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
