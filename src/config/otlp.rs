//! `[otlp]`: the OpenTelemetry collector that metrics and log records are sent to.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, Length, check_length, check_range, host, wrong};

/// Where metrics and log records are sent, as OTLP over gRPC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpConfig {
    /// The collector, such as http://127.0.0.1:4317, or https:// with `ca`. Without it nothing is sent.
    #[schemars(regex(pattern = r"^https?://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}/?$"))]
    pub to: Option<String>,
    /// How often metrics are sent. Log records are sent within a second.
    pub every: Length,
    /// How long an answer of the collector is waited for, connecting included.
    pub timeout: Length,
    /// Maximum flows that lost packets, of each second and program, and maximum places in an answer, with a log record of
    /// their own. 0: none.
    #[schemars(range(max = MAX_FLOWS))]
    pub flows: u32,
    /// Headers of each request, such as one that authenticates the sender.
    #[schemars(extend("maxProperties" = MAX_ENTRIES, "propertyNames" = { "pattern": HEADER_PATTERN }))]
    pub headers: BTreeMap<String, OtlpHeader>,
    /// Resource attributes beside service.name, service.instance.id and service.version, or in place of these.
    #[schemars(extend("maxProperties" = MAX_ENTRIES))]
    pub resource: BTreeMap<String, String>,
    /// With https://: the CA that the collector's certificate is from (PEM).
    pub ca: Option<PathBuf>,
    /// With https://, where the collector demands one: a certificate and those between it and its CA (PEM).
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    pub key: Option<PathBuf>,
}

/// The value of a header. It may be a secret, so no output has it.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OtlpHeader(#[schemars(regex(pattern = r"^[ -~]{1,4096}$"))] pub String);

impl fmt::Debug for OtlpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LEFT_OUT)
    }
}

impl Serialize for OtlpHeader {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(LEFT_OUT)
    }
}

/// Stands for a value that may be a secret.
const LEFT_OUT: &str = "(left out)";

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtlpAddress<'a> {
    /// HOST:PORT.
    pub authority: &'a str,
    /// With TLS: the files for it.
    pub tls: Option<OtlpFiles<'a>>,
}

/// Files for TLS, each with its key in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtlpFiles<'a> {
    pub ca: (&'static str, &'a Path),
    /// The certificate and its key.
    pub identity: Option<[(&'static str, &'a Path); 2]>,
}

/// Maximum flows of a second and a program.
const MAX_FLOWS: u32 = 100;
/// Maximum headers, and maximum resource attributes.
const MAX_ENTRIES: usize = 32;
/// The form of a header's name.
const HEADER_PATTERN: &str = "^[a-z0-9_.-]{1,64}$";
/// Longest value of a header, and longest resource attribute.
const MAX_BYTES: usize = 4096;

impl Default for OtlpConfig {
    fn default() -> Self {
        Self {
            to: None,
            every: Length(Duration::from_secs(10)),
            timeout: Length(Duration::from_secs(10)),
            flows: 10,
            headers: BTreeMap::new(),
            resource: BTreeMap::new(),
            ca: None,
            certificate: None,
            key: None,
        }
    }
}

impl OtlpConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        check_length("otlp.every", self.every, Duration::from_secs(1), Duration::from_secs(3600))?;
        check_length("otlp.timeout", self.timeout, Duration::from_millis(100), Duration::from_secs(60))?;
        check_range("otlp.flows", self.flows, 0, MAX_FLOWS)?;
        for (key, entries) in [("otlp.headers", self.headers.len()), ("otlp.resource", self.resource.len())] {
            if entries > MAX_ENTRIES {
                return wrong(key, format!("{entries} entries"), format!("at most {MAX_ENTRIES}"));
            }
        }
        for (name, OtlpHeader(value)) in &self.headers {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.-".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) || name.ends_with("-bin") {
                return wrong("otlp.headers", name, "names of small letters, digits, '-', '_' and '.', without -bin");
            }
            if value.is_empty() || value.len() > MAX_BYTES || !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return wrong(format!("otlp.headers.{name}"), LEFT_OUT, "1 to 4096 characters of ASCII");
            }
        }
        if let Some((name, _)) =
            self.resource.iter().find(|(name, value)| name.is_empty() || name.len() + value.len() > MAX_BYTES)
        {
            return wrong("otlp.resource", format!("{name:?}"), "a name, and with its value at most 4096 bytes");
        }
        self.address().map(drop)
    }

    /// Where requests go, if anywhere.
    ///
    /// # Errors
    /// If it is no URL of this kind, or files for TLS are missing or of no use.
    pub fn address(&self) -> Result<Option<OtlpAddress<'_>>, ConfigError> {
        let files = [
            ("otlp.ca", self.ca.as_deref()),
            ("otlp.certificate", self.certificate.as_deref()),
            ("otlp.key", self.key.as_deref()),
        ];
        let given = |(key, path): (&'static str, Option<&'_ Path>)| Some((key, path?.to_owned()));
        let Some(to) = &self.to else {
            return match files.into_iter().find_map(given) {
                Some((key, path)) => wrong(key, path.display(), "only with otlp.to, the collector"),
                None => Ok(None),
            };
        };
        let (scheme, rest) = to.split_once("://").unwrap_or_default();
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "_.-:".contains(c);
        let is_right = ["http", "https"].contains(&scheme)
            && host(authority).is_ok_and(|host| host.chars().all(is_host))
            && !authority.ends_with(":0");
        if !is_right {
            return wrong("otlp.to", to, "http://HOST:PORT or https://HOST:PORT, as in http://127.0.0.1:4317");
        }
        if scheme == "http" {
            return match files.into_iter().find_map(given) {
                Some((key, path)) => wrong(key, path.display(), "only with https:// in otlp.to"),
                None => Ok(Some(OtlpAddress { authority, tls: None })),
            };
        }
        let Some(ca) = self.ca.as_deref() else {
            return wrong(
                "otlp.ca",
                "(missing)",
                "with https://, the CA that the collector's certificate is from (PEM)",
            );
        };
        let identity = match (self.certificate.as_deref(), self.key.as_deref()) {
            (Some(certificate), Some(key)) => Some([("otlp.certificate", certificate), ("otlp.key", key)]),
            (None, None) => None,
            (Some(_), None) => return wrong("otlp.key", "(missing)", "the certificate's private key (PEM)"),
            (None, Some(_)) => return wrong("otlp.certificate", "(missing)", "the certificate of the key (PEM)"),
        };
        Ok(Some(OtlpAddress { authority, tls: Some(OtlpFiles { ca: ("otlp.ca", ca), identity }) }))
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn a_collector_is_a_url() {
        let parse = |text: &str| Config::parse(&format!("[otlp]\n{text}"));
        assert_eq!(parse("").unwrap().otlp.address().unwrap(), None);
        for (right, authority) in [
            ("http://127.0.0.1:4317", "127.0.0.1:4317"),
            ("http://[::1]:4317/", "[::1]:4317"),
            ("http://collector.example:1", "collector.example:1"),
        ] {
            let config = parse(&format!("to = '{right}'")).unwrap();
            let address = config.otlp.address().unwrap().unwrap();
            assert_eq!((address.authority, address.tls), (authority, None));
        }
        let secure = parse("to = 'https://c:4317'\nca = 'a.pem'\ncertificate = 'c.pem'\nkey = 'k.pem'").unwrap();
        let files = secure.otlp.address().unwrap().unwrap().tls.unwrap();
        assert_eq!(files.identity.unwrap().map(|(key, _)| key), ["otlp.certificate", "otlp.key"]);
        for wrong in [
            "127.0.0.1:4317",
            "grpc://c:4317",
            "http://c",
            "http://c:4317/v1/metrics",
            "http://c:99999",
            "http://c:0",
            "http://a b:1",
            "http://u@c:1",
            "http://:1",
            "",
        ] {
            let error = parse(&format!("to = '{wrong}'")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("otlp.to = {wrong}: http://HOST:PORT")), "{error}");
        }
        for (text, starts) in [
            ("every = '999ms'", "otlp.every = 999ms: "),
            ("timeout = '61s'", "otlp.timeout = 1m 1s: "),
            ("flows = 101", "otlp.flows = 101: 0 to 100"),
            ("ca = 'a.pem'", "otlp.ca = a.pem: only with otlp.to"),
            ("to = 'http://c:1'\nca = 'a.pem'", "otlp.ca = a.pem: only with https://"),
            ("to = 'https://c:1'", "otlp.ca = (missing): "),
            ("to = 'https://c:1'\nca = 'a.pem'\nkey = 'k.pem'", "otlp.certificate = (missing): "),
            ("to = 'https://c:1'\nca = 'a.pem'\ncertificate = 'k.pem'", "otlp.key = (missing): "),
            ("headers = { Authorization = 'x' }", "otlp.headers = Authorization: names of small letters"),
            ("headers = { trace-bin = 'x' }", "otlp.headers = trace-bin: "),
            ("headers = { key = '' }", "otlp.headers.key = (left out): "),
            ("headers = { key = \"a\\nb\" }", "otlp.headers.key = (left out): "),
            ("resource = { '' = 'x' }", "otlp.resource = \"\": "),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(starts), "{error}");
        }
        let many: String = (0..33).map(|i| format!("a{i} = 'x'\n")).collect();
        let error = parse(&format!("[otlp.headers]\n{many}")).unwrap_err().to_string();
        assert!(error.starts_with("otlp.headers = 33 entries: at most 32"), "{error}");
    }

    /// A header may be a secret.
    #[test]
    fn no_output_has_the_value_of_a_header() {
        let config = Config::parse("[otlp]\nheaders = { authorization = 'Bearer secret' }").unwrap();
        assert!(!format!("{config:?}{}", serde_json::to_string(&config).unwrap()).contains("secret"));
    }
}
