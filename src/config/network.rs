//! The configuration of `weir controller`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::PemKey;
use super::page::loopback;
use super::switch::{MAX_METRICS_FLOWS, METRICS_FLOWS};
use super::{
    ArchiveConfig, ConfigError, IpfixConfig, Length, OtlpConfig, PageConfig, TlsConfig, check_length, check_name,
    check_range, wrong,
};
use crate::answers::{Links, PortName};
use crate::json::{Form, large};
use crate::program::ProgramConfig;
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::telemetry::epoch;

/// A controller and its network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkConfig {
    /// Names the control socket, and the one for switches.
    pub name: String,
    /// The switches of the network that report, by name. A missing record of one of them makes the
    /// losses of an epoch unknown. Empty: the switches that have connected so far.
    pub switches: Vec<String>,
    /// The programs of the switches, each once; by default the first whose records a controller
    /// takes. Parameters that change begin with these values.
    #[serde(rename = "program")]
    pub programs: Vec<ProgramConfig>,
    /// Length of an epoch of all switches.
    pub epoch: Length,
    /// The switches' transit time.
    pub transit: Length,
    /// How a packet's class and epoch bit travel between the switches: shim or dscp.
    pub telemetry_header: TelemetryHeader,
    /// The headers that name a packet's flow in all switches: outer or inner.
    pub key: KeyHeaders,
    /// How long after the transit time a record of a connected switch is waited for: by default an
    /// epoch, at most 64. The others' records are kept meanwhile.
    pub record_timeout: Option<Length>,
    /// Number of epochs after the transit time within which a late packet is not lost, at most 64.
    /// Answers about losses are final when the records of these epochs are there.
    pub horizon: u64,
    /// How long the answers of past epochs are kept.
    pub history: Length,
    /// Whether the parameters follow the state of the network, or stay as they are.
    pub shift: bool,
    /// File of the state that a restart needs: a secret. By default `NAME.json` in the user's
    /// or system's directory for states.
    pub state: Option<PathBuf>,
    /// Hash polynomials from this seed instead of secret ones, for experiments.
    #[serde(with = "large")]
    #[schemars(with = "Option<Form>")]
    pub reproducible: Option<u64>,
    /// Address and port for switches on other machines. Needs `[tls]`.
    pub listen: Option<String>,
    /// Address and port for clients on other machines: what the control socket answers, to
    /// certificates of operators and readers. Needs `[tls]`.
    pub api_listen: Option<String>,
    /// Address of `/metrics` over HTTP: a loopback address and port, such as 127.0.0.1:9473.
    /// Left out: nowhere.
    #[schemars(regex(pattern = r"^(127(\.[0-9]{1,3}){3}|\[[0:]*:0*1\]):[0-9]{1,5}$"))]
    pub metrics: Option<String>,
    /// Number of heavy flows that metrics name, of each program. 0: metrics name no flows.
    #[schemars(range(max = 100))]
    pub metrics_flows: u32,
    /// The controller's certificate, and the CA of the switches that may report and the clients that
    /// may ask.
    pub tls: TlsFiles,
    /// The archive: the epochs of past days.
    pub archive: ArchiveConfig,
    /// The live page.
    pub page: PageConfig,
    /// Where measurements are exported to as IPFIX.
    pub ipfix: IpfixConfig,
    /// Where metrics and log records are sent as OTLP.
    pub otlp: OtlpConfig,
    /// The links between the switches, for the places of losses.
    #[serde(rename = "link")]
    pub links: Vec<LinkConfig>,
}

/// A link between two switches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// Its two ports, each as SWITCH:PORT.
    pub ports: [PortName; 2],
}

/// The files for serving TCP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsFiles {
    /// The controller's certificate and those between it and the CA (PEM).
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    pub key: Option<PathBuf>,
    /// The CA whose switches may report (PEM).
    pub client_ca: Option<PathBuf>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            name: "controller".into(),
            switches: Vec::new(),
            programs: Vec::new(),
            epoch: Length(Duration::from_nanos(epoch::DEFAULT_LENGTH)),
            transit: Length(Duration::from_nanos(epoch::DEFAULT_TRANSIT)),
            telemetry_header: TelemetryHeader::default(),
            key: KeyHeaders::default(),
            record_timeout: None,
            horizon: DEFAULT_HORIZON,
            history: Length(Duration::from_secs(60)),
            shift: true,
            state: None,
            reproducible: None,
            listen: None,
            api_listen: None,
            metrics: None,
            metrics_flows: METRICS_FLOWS,
            tls: TlsFiles::default(),
            archive: ArchiveConfig::default(),
            page: PageConfig::default(),
            ipfix: IpfixConfig::default(),
            otlp: OtlpConfig::default(),
            links: Vec::new(),
        }
    }
}

/// Maximum epochs that a record is waited for. It bounds the kept records of other switches.
const MAX_RECORD_TIMEOUT: u32 = 64;

/// Default number of epochs after the transit time within which a late packet is not lost.
pub const DEFAULT_HORIZON: u64 = 2;

/// Maximum of the horizon, in epochs: a record tells late packets of 64 epochs apart.
const MAX_HORIZON: u64 = 64;

/// Maximum number of programs of a switch that report to a controller.
pub const MAX_NETWORKED: usize = 8;

impl NetworkConfig {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        super::load(path, |text| {
            let config: Self = super::words::read(text)?;
            config.validate()?;
            Ok(config)
        })
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        check_name("name", &self.name)?;
        for (i, name) in self.switches.iter().enumerate() {
            check_name(&format!("switches[{i}]"), name)?;
            if self.switches[..i].contains(name) {
                return wrong(format!("switches[{i}]"), name, "each name once");
            }
        }
        let names: Vec<_> = self.programs.iter().map(|program| program.name()).collect();
        if names.len() > MAX_NETWORKED {
            return wrong("program", names.join(", "), format!("at most {MAX_NETWORKED}"));
        }
        for (i, program) in self.programs.iter().enumerate() {
            let twice = names[..i].contains(&program.name()).then_some("each program once");
            if let Some(why) = twice.or_else(|| program.local_only()) {
                return wrong(format!("program[{i}].name"), program.name(), why);
            }
        }
        super::words::check_programs(&self.programs)?;
        let switches: Vec<_> = self.switches.iter().map(String::as_str).collect();
        super::words::check_names("switches", &switches, &self.programs)?;
        check_length("epoch", self.epoch, Duration::from_millis(1), Duration::from_secs(3600))?;
        check_length("transit", self.transit, Duration::ZERO, self.epoch.0 / 2)?;
        if let Some(timeout) = self.record_timeout {
            check_length("record_timeout", timeout, Duration::ZERO, self.epoch.0.saturating_mul(MAX_RECORD_TIMEOUT))?;
        }
        if self.horizon > MAX_HORIZON {
            return wrong("horizon", self.horizon, format!("0 to {MAX_HORIZON} epochs"));
        }
        check_length("history", self.history, Duration::ZERO, Duration::from_secs(3600))?;
        self.archive.validate()?;
        if let Some(state) = &self.archive.state {
            return wrong("archive.state", state.display(), "left out: the controller's secret is in state");
        }
        self.page.address()?;
        self.ipfix.validate()?;
        self.otlp.validate()?;
        self.metrics()?;
        check_range("metrics_flows", self.metrics_flows, 0, MAX_METRICS_FLOWS)?;
        self.check_links()?;
        self.tls()?;
        self.api().map(drop)
    }

    /// The address of metrics over TCP. There is no authentication, so it must be a loopback address.
    pub fn metrics(&self) -> Result<Option<SocketAddr>, ConfigError> {
        self.metrics.as_deref().map(|text| loopback("metrics", text, 9473)).transpose()
    }

    /// Checks that each port ends one link.
    fn check_links(&self) -> Result<(), ConfigError> {
        let ends: Vec<_> =
            (0..).zip(&self.links).flat_map(|(i, link)| link.ports.iter().map(move |end| (i, end))).collect();
        let twice = ends.iter().enumerate().find(|(at, (_, end))| ends[..*at].iter().any(|(_, other)| other == end));
        match twice {
            Some((_, (i, end))) => wrong(format!("link[{i}].ports"), end, "each port ends one link"),
            None => Ok(()),
        }
    }

    /// The links between the switches.
    pub fn links(&self) -> Links {
        Links(self.links.iter().map(|link| link.ports.clone()).collect())
    }

    /// Address and files for serving switches by TCP, if that is configured: all of them, or none.
    pub fn tls(&self) -> Result<Option<TlsConfig<'_>>, ConfigError> {
        // Without switches the files may be for those who ask.
        if self.listen.is_none() && self.api_listen.is_some() {
            return Ok(None);
        }
        TlsConfig::of("listen", self.listen.as_deref(), self.pem_keys())
    }

    /// The same for those who ask.
    pub fn api(&self) -> Result<Option<TlsConfig<'_>>, ConfigError> {
        if self.api_listen.is_none() {
            return Ok(None);
        }
        TlsConfig::of("api_listen", self.api_listen.as_deref(), self.pem_keys())
    }

    fn pem_keys(&self) -> [PemKey<'_>; 3] {
        let TlsFiles { certificate, key, client_ca } = &self.tls;
        [
            ("tls.certificate", certificate.as_deref(), "the controller's certificate (PEM)"),
            ("tls.key", key.as_deref(), "the certificate's private key (PEM)"),
            ("tls.client_ca", client_ca.as_deref(), "the CA of those who may report or ask (PEM)"),
        ]
    }

    /// Whether the parameters of a program follow the state of the network.
    pub fn shifts(&self, program: &ProgramConfig) -> bool {
        self.shift && program.adapts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NetworkConfig, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("controller.toml");
        std::fs::write(&file, text).unwrap();
        NetworkConfig::load(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_file() {
        let text = "name = 'lab'\nswitches = ['edge1', 'edge2']\nepoch = '50ms'\ntransit = '5ms'\nrecord_timeout = '20ms'\nhorizon = 5\n\
                    shift = false\nlisten = '[::1]:9471'\n[[program]]\nname = 'chamelemon'\nupstream = 2048\n\
                    [[program]]\nname = 'hashpipe'\nscope = 'network'\n[tls]\ncertificate = 'c.pem'\nkey = 'k.pem'\nclient_ca = 'a.pem'\n";
        let config = read(text).unwrap();
        let profile = config.profile(&config.programs[0]);
        let upstream = profile.program.fields().remove("upstream").unwrap();
        assert_eq!((profile.length, profile.transit, upstream), (50_000_000, 5_000_000, 2048.into()));
        let settings = config.settings(&config.programs[0], 9);
        assert_eq!(config.programs[1].name(), "hashpipe");
        assert_eq!((settings.record_timeout, settings.history.epochs, settings.shifts), (20_000_000, 1205, false));
        assert_eq!(settings.horizon, Some(5));
        assert_eq!(config.tls().unwrap().unwrap().listen.port(), 9471);
        let both =
            read(&text.replace("[::1]:9471'", "[::1]:9471'\napi_listen = '[::1]:9472'\nmetrics = '127.0.0.1:9473'"));
        let both = both.unwrap();
        assert_eq!(
            (both.api().unwrap().unwrap().listen.port(), both.tls().unwrap().unwrap().listen.port()),
            (9472, 9471)
        );
        assert_eq!(both.metrics().unwrap().unwrap().port(), 9473);
        let alone = read(&text.replace("listen = '[::1]:9471'", "api_listen = '[::1]:9472'")).unwrap();
        assert!(alone.tls().unwrap().is_none() && alone.api().unwrap().is_some());
        assert_eq!(read("").unwrap(), NetworkConfig::default());
    }

    #[test]
    fn what_will_not_do_is_named() {
        let refused = |text: &str, with: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(with), "{error}");
        };
        refused("name = '../x'", "controller.toml:1: name = ");
        refused("api_listen = '[::1]:9472'", "tls.certificate = (missing): the controller's certificate");
        refused("metrics = '0.0.0.0:9473'", "metrics = 0.0.0.0:9473: a loopback address and a port");
        refused("metrics_flows = 101", "metrics_flows = 101: ");
        refused("switches = ['a', 'b', 'a']", "switches[2] = a: each name once");
        let hashpipe = "[[program]]\nname = 'hashpipe'\n";
        refused(hashpipe, "controller.toml:2: program[0].name = hashpipe: with scope = \"network\" alone");
        let networked = format!("{hashpipe}scope = 'network'\n");
        refused(&networked.repeat(2), "controller.toml:5: program[1].name = hashpipe: each program once");
        refused(&networked.repeat(9), "program = hashpipe, hashpipe, ");
        refused("[[program]]\nname = 'chamelemon'\narrays = 9", "controller.toml:3: program[0].arrays = 9");
        let alike = "switches = ['porto-spine5-37', 'b', 'tokyo-edge20-20']\n[[program]]\nname = 'pint'";
        refused(alike, "controller.toml:1: switches = porto-spine5-37, tokyo-edge20-20: pint cannot tell switches");
        refused(
            "[[program]]\nname = 'pint'\nneighbours = { porto-spine5-37 = ['tokyo-edge20-20'] }",
            "controller.toml:3: program[0].neighbours = porto-spine5-37, tokyo-edge20-20: pint cannot tell switches",
        );
        refused("[program]\nname = 'chamelemon'", "program = [program]: [[program]], once for each program");
        refused("epoch = '10ms'\ntransit = '6ms'", "transit = 6ms: 0s to 5ms");
        refused("epoch = '10ms'\ntransit = '1ms'\nrecord_timeout = '641ms'", "record_timeout = 641ms: 0s to 640ms");
        let link = "[[link]]\nports = ['a:x', 'b:y']\n";
        refused(&link.repeat(2), "controller.toml:4: link[1].ports = a:x: each port ends one link");
        refused("[[link]]\nports = ['a:x', 'b']", "write SWITCH:PORT");
        refused("horizon = 65", "controller.toml:1: horizon = 65: 0 to 64 epochs");
        refused("name = 'x'\nepochs = '10ms'", "controller.toml:2: unknown field `epochs`");
        refused("listen = '[::1]:9471'", "tls.certificate = (missing): ");
        refused("[tls]\nkey = 'k.pem'", "tls.key = k.pem: only with listen, the address to serve");
    }
}
