//! `weir controller`: collects from the switches of a network, answers, and decides what they
//! measure.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::notify::Notify;
use super::page::LivePage;
use super::{Failure, Programs, help, log, overrule, page};
use crate::answers::Queryable;
use crate::api::controller::{self as api, ControllerApi, ExportsCounted};
use crate::api::exported::{ExportCounters, OtlpCounters};
use crate::api::metrics::Format;
use crate::api::serve::TlsListener;
use crate::archive::ArchiveThread;
use crate::config::TlsConfig;
use crate::config::{Length, NetworkConfig};
use crate::export::ipfix::{ExportThread, Source};
use crate::export::otlp::{self, OtlpThread};
use crate::lock::Hold;
use crate::network::controller::{ParameterUpdate, SAVED_VERSION, Saved};
use crate::network::rpc::socket_name;
use crate::network::server::{ControllerLoop, State, StateError, StateFile};
use crate::network::socket::{self, Access};
use crate::network::tls::{self, Clients};
use crate::pisa::hash::HashFamily;
use crate::program::ProgramConfig;
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::web;

/// How often it is looked whether the controller is to stop.
const ROUND: Duration = Duration::from_millis(50);

/// Groups of options.
const NETWORK: &str = "Network";
const SOCKETS: &str = "Name, sockets and state";

#[derive(Clone, Debug, Args)]
#[command(after_help = help::examples(&[
    "weir controller --switch edge1 --switch edge2",
    "weir controller --name net --program {networked} --epoch 100ms",
    "weir controller -c controller.toml",
    "weir controller -c controller.toml --page 127.0.0.1:8080",
]))]
pub struct Controller {
    /// Configuration file (TOML); what is given on the command line comes on top
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Names the controller, its control socket and the one for switches
    #[arg(long, value_name = "NAME", help_heading = SOCKETS)]
    name: Option<String>,
    /// A switch of the network that reports, by name; may be given several times. Without, those
    /// that have come so far
    #[arg(long = "switch", value_name = "NAME", help_heading = NETWORK)]
    switches: Vec<String>,
    #[command(flatten)]
    programs: Programs,
    /// Length of an epoch of all switches
    #[arg(long, value_name = "LENGTH", help_heading = help::MEASUREMENT)]
    epoch: Option<Length>,
    /// The switches' transit time
    #[arg(long, value_name = "LENGTH", help_heading = NETWORK)]
    transit: Option<Length>,
    /// How a packet's class and epoch bit travel between the switches
    #[arg(long, value_enum, help_heading = NETWORK)]
    telemetry_header: Option<TelemetryHeader>,
    /// Which headers name a packet's flow in the switches: those of a tunnel, or of the packet inside
    #[arg(long, value_enum, help_heading = NETWORK)]
    key: Option<KeyHeaders>,
    /// How long after the transit time a record is waited for
    #[arg(long, value_name = "LENGTH", help_heading = NETWORK)]
    record_timeout: Option<Length>,
    /// Epochs after the transit time within which a late packet is not lost, by default 2
    #[arg(long, value_name = "EPOCHS")]
    horizon: Option<u64>,
    /// Leave the parameters as they are, whatever the state of the network
    #[arg(long, help_heading = help::MEASUREMENT)]
    no_shift: bool,
    /// File of the state that a restart needs; a secret
    #[arg(long, value_name = "FILE", help_heading = SOCKETS)]
    state: Option<PathBuf>,
    /// Hash polynomials from this seed instead of secret ones
    #[arg(long, value_name = "SEED", help_heading = help::MEASUREMENT)]
    reproducible: Option<u64>,
    /// Address and port for switches on other machines; needs [tls] in the configuration file
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = SOCKETS)]
    listen: Option<String>,
    /// Address and port for clients on other machines; needs [tls] in the configuration file
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = SOCKETS)]
    api_listen: Option<String>,
    /// Serve /metrics over HTTP at this address of the loopback, such as 127.0.0.1:9473
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = SOCKETS)]
    metrics: Option<String>,
    /// Export to this IPFIX collector over UDP, such as 192.0.2.1:4739
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = SOCKETS)]
    ipfix: Option<String>,
    /// Send metrics and log records to this OpenTelemetry collector, such as http://127.0.0.1:4317
    #[arg(long, value_name = "URL", help_heading = SOCKETS)]
    otlp: Option<String>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH", help_heading = SOCKETS)]
    socket: Option<PathBuf>,
    /// Path of the socket for switches
    #[arg(long, value_name = "PATH", help_heading = SOCKETS)]
    switch_socket: Option<PathBuf>,
    #[command(flatten)]
    page: LivePage,
    /// Stop by itself after this long
    #[arg(long, value_name = "LENGTH")]
    duration: Option<Length>,
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Wrong { .. } => Self::Usage(error.to_string()),
            StateError::Io { .. } => Self::failed(error),
        }
    }
}

impl Controller {
    fn config(&self) -> Result<NetworkConfig, Failure> {
        let mut config = match &self.config {
            Some(path) => NetworkConfig::load(path)?,
            None => NetworkConfig::default(),
        };
        overrule(&mut config.name, &self.name);
        config.switches.extend(self.switches.iter().cloned());
        config.programs.extend(self.programs.parse()?);
        if config.programs.is_empty() {
            config.programs.push(ProgramConfig::networked());
        }
        overrule(&mut config.epoch, &self.epoch);
        overrule(&mut config.transit, &self.transit);
        overrule(&mut config.telemetry_header, &self.telemetry_header);
        overrule(&mut config.key, &self.key);
        config.record_timeout = self.record_timeout.or(config.record_timeout);
        overrule(&mut config.horizon, &self.horizon);
        config.shift &= !self.no_shift;
        config.reproducible = self.reproducible.or(config.reproducible);
        config.state = self.state.clone().or(config.state);
        config.listen = self.listen.clone().or(config.listen);
        config.api_listen = self.api_listen.clone().or(config.api_listen);
        config.metrics = self.metrics.clone().or(config.metrics);
        config.ipfix.collector = self.ipfix.clone().or(config.ipfix.collector.take());
        config.otlp.to = self.otlp.clone().or(config.otlp.to.take());
        self.page.overrule(&mut config.page);
        config.validate()?;
        Ok(config)
    }

    pub fn run(self) -> Result<(), Failure> {
        let config = self.config()?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, stop.clone()).map_err(Failure::failed)?;
        }
        let otlp_client = otlp::Client::new(&config.otlp).map_err(|error| Failure::Usage(error.to_string()))?;
        if otlp_client.is_some() {
            // What is logged from now on is sent.
            otlp::open();
        }
        let tcp = tcp(&config)?;
        let api_tcp = api_tcp(&config)?;
        let metrics = config.metrics()?.map(|address| bind("metrics", address)).transpose()?;
        let page = page::listener(&config.page)?;
        // Before the state is touched: a second controller of the name is not to.
        let listen =
            |name: &str, at: Option<PathBuf>| socket::listen(name, at, Access::default()).map_err(Failure::failed);
        let (api, api_file) = listen(&config.name, self.socket)?;
        let (switches, switches_file) = listen(&socket_name(&config.name), self.switch_socket)?;
        let file = StateFile::at(state_path(&config)?)?;
        let state = state(&config, &file)?;
        let program = |program| (config.profile(program), config.settings(program, state.salt));
        let programs = config.programs.iter().map(program).collect();
        let mut control_loop = ControllerLoop::new(programs, state, file.clone(), config.switches.clone())?;
        give_up_rights()?;
        let by_tls = config.listen.as_ref().map(|at| format!(" and {at} by TLS")).unwrap_or_default();
        let histories = control_loop.controllers().iter().map(|controller| controller.hold().history().clone());
        let programs: Vec<_> = config.programs.iter().cloned().zip(histories).collect();
        let archived = programs.clone();
        let archive = config.archive.settings().map(|settings| {
            ArchiveThread::start(settings, Box::new(move || archived.clone())).map_err(Failure::failed)
        });
        let _archive = archive.transpose()?;
        let (_export, ipfix) = export(&config, programs.clone())?.unzip();
        let otlp = otlp_client
            .map(|client| (client, Arc::new(OtlpCounters::to(config.otlp.to.as_deref().unwrap_or_default()))));
        let exports = ExportsCounted { ipfix, otlp: otlp.as_ref().map(|(_, counters)| counters.clone()) };
        let flows = config.metrics_flows as usize;
        let answers =
            ControllerApi::new(&config.name, &control_loop, config.links(), flows, exports).map_err(Failure::failed)?;
        let answers = Arc::new(answers);
        let otlp = otlp.map(|(client, counters)| send_otlp(&config, client, programs, answers.clone(), counters));
        let _otlp = otlp.transpose()?;
        if let Some(page) = page {
            web::serve(page, &config.page.hosts, answers.clone()).map_err(Failure::failed)?;
        }
        api::serve(api::Listeners { api, switches, tcp, api_tcp, metrics }, answers).map_err(Failure::failed)?;
        let asked_by_tls = config.api_listen.as_ref().map(|at| format!(" and {at} by TLS")).unwrap_or_default();
        let describe = format!(
            "{}: ready: switches at {}{by_tls}; control socket {}{asked_by_tls}; state in {}",
            config.name,
            switches_file.path.display(),
            api_file.path.display(),
            file.path().display(),
        );
        log::ready(&config.name, &describe);
        let mut notify = Notify::from_env();
        notify.ready(&describe);
        let started = Instant::now();
        while !stop.load(Relaxed) && self.duration.is_none_or(|max| started.elapsed() < max.0) {
            control_loop.round(ROUND);
            notify.alive(Instant::now());
        }
        notify.stopping();
        Ok(())
    }
}

/// Exports what the network's programs measure, if there is a collector.
fn export(
    config: &NetworkConfig,
    programs: Vec<(ProgramConfig, Arc<dyn Queryable>)>,
) -> Result<Option<(ExportThread, Arc<ExportCounters>)>, Failure> {
    let Some(collector) = config.ipfix.address()? else { return Ok(None) };
    let counters = Arc::new(ExportCounters::new(collector));
    let programs = Box::new(move || programs.clone());
    let source = Source { name: config.name.clone(), programs, drops: Box::new(Vec::new) };
    let thread = ExportThread::start(config.ipfix.clone(), collector, source, counters.clone());
    Ok(Some((thread.map_err(Failure::failed)?, counters)))
}

/// Sends metrics and log records by this client.
fn send_otlp(
    config: &NetworkConfig,
    client: otlp::Client,
    programs: Vec<(ProgramConfig, Arc<dyn Queryable>)>,
    answers: Arc<ControllerApi>,
    counters: Arc<OtlpCounters>,
) -> Result<OtlpThread, Failure> {
    let measured = answers.measurements().clone();
    let source = otlp::Source {
        name: config.name.clone(),
        programs: Box::new(move || programs.clone()),
        places: Box::new(move || measured.places()),
        metrics: Box::new(move || answers.metrics(Format::Openmetrics)),
        queue: otlp::open(),
    };
    OtlpThread::start(&config.otlp, client, source, counters).map_err(Failure::failed)
}

/// Nothing that it does from now on takes any; the threads that it starts inherit none.
fn give_up_rights() -> Result<(), Failure> {
    #[cfg(feature = "dpdk")]
    crate::dpdk::threads::strip_this()
        .map_err(|errno| Failure::Failed(format!("rights cannot be given up: {errno}")))?;
    Ok(())
}

fn tcp(config: &NetworkConfig) -> Result<Option<TlsListener>, Failure> {
    let Some(TlsConfig { listen, files }) = config.tls()? else { return Ok(None) };
    let mut server =
        (*tls::server(&files, Clients::Switches).map_err(|error| Failure::Usage(error.to_string()))?).clone();
    server.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsListener { listener: bind("listen", listen)?, config: Arc::new(server) }))
}

/// The listener of those who ask.
fn api_tcp(config: &NetworkConfig) -> Result<Option<TlsListener>, Failure> {
    let Some(TlsConfig { listen, files }) = config.api()? else { return Ok(None) };
    let config = tls::server(&files, Clients::OfApi).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(Some(TlsListener { listener: bind("api_listen", listen)?, config }))
}

fn bind(key: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| Failure::Usage(format!("{key} = {address}: {error}")))
}

/// The state file: in systemd's directory, or else in that of the system or of the user.
fn state_path(config: &NetworkConfig) -> Result<PathBuf, Failure> {
    if let Some(path) = &config.state {
        return Ok(path.clone());
    }
    let file = format!("{}.json", config.name);
    let given = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = given("STATE_DIRECTORY")
        .or_else(|| rustix::process::geteuid().is_root().then(|| "/var/lib/weir".into()))
        .or_else(|| given("XDG_STATE_HOME").map(|home| home.join("weir")))
        .or_else(|| given("HOME").map(|home| home.join(".local/state/weir")));
    let directory =
        directory.ok_or_else(|| Failure::Usage("--state FILE: there is no home directory to keep it".into()))?;
    Ok(directory.join(file))
}

/// The stored state, or a new one if nothing is stored.
fn state(config: &NetworkConfig, file: &StateFile) -> Result<State, Failure> {
    let mut state = match file.read()? {
        Some(stored) => stored,
        None => {
            let random = || HashFamily::random().map_err(Failure::failed);
            let hashes = config.reproducible.map_or_else(random, |seed| Ok(HashFamily::reproducible(seed)))?;
            let salt = config.reproducible.map_or_else(|| getrandom::u64().map_err(Failure::failed), Ok)?;
            State { hashes, salt, controllers: Vec::new() }
        }
    };
    if let Some(seed) = config.reproducible
        && state.hashes != HashFamily::reproducible(seed)
    {
        let why = format!("{}: it holds other hash functions; remove it", file.path().display());
        return Err(Failure::Usage(format!("reproducible = {seed}: {why}")));
    }
    state.controllers = config.programs.iter().map(|program| saved(config, program, &state.controllers)).collect();
    Ok(state)
}

/// The state of one program. Stored updates are ignored if they were made for another configuration
/// of the network, or if the parameters are configured to stay as they are.
fn saved(config: &NetworkConfig, program: &ProgramConfig, stored: &[Saved]) -> Saved {
    let profile = config.profile(program);
    let first = vec![ParameterUpdate { epoch: 0, parameters: program.start() }];
    let like = |saved: &&Saved| saved.profile.as_ref().is_some_and(|stored| profile.difference(stored).is_none());
    let mut saved = stored.iter().find(like).cloned().unwrap_or_else(|| Saved {
        version: SAVED_VERSION,
        profile: None,
        updates: first.clone(),
        switches: Vec::new(),
    });
    saved.profile = Some(profile);
    if !config.shifts(program) {
        saved.updates = first;
    }
    if !config.switches.is_empty() {
        saved.switches.clone_from(&config.switches);
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::controller;
    use crate::program::Parameters;
    use crate::program::chamelemon::EncoderParameters;

    /// With `shift = false` or `attention = fixed` what is configured holds, whatever was decided
    /// before the restart.
    #[test]
    fn a_restart_keeps_what_was_updated_or_what_is_configured() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::at(dir.path().join("state.json")).unwrap();
        const NAME: &str = "[[program]]\nname = 'chamelemon'";
        let config = |text: &str| toml::from_str::<NetworkConfig>(text).unwrap();
        let shifting = config(NAME);
        let mut stored = state(&shifting, &file).unwrap();
        let mut updated = EncoderParameters::decode(&shifting.programs[0].start()).unwrap();
        updated.hh_threshold += 1;
        let updated = updated.encode();
        stored.controllers[0].updates = vec![ParameterUpdate { epoch: 9, parameters: updated.clone() }];
        file.write(&stored).unwrap();
        let in_force = |config: &NetworkConfig, place: usize| {
            let settings = config.settings(&config.programs[place], 0);
            let saved = &state(config, &file).unwrap().controllers[place];
            let restored = controller::Controller::restore(&config.programs[place], settings, saved);
            restored.unwrap().updates(1 << 40).into_iter().map(|update| update.parameters).collect::<Vec<_>>()
        };
        assert_eq!(in_force(&shifting, 0), std::slice::from_ref(&updated));
        for text in [
            format!("shift = false\n{NAME}\nhh_threshold = 77"),
            format!("{NAME}\nattention = 'fixed'\nhh_threshold = 77"),
        ] {
            let fixed = config(&text);
            assert_eq!(in_force(&fixed, 0), [fixed.programs[0].start()], "{text}");
        }
        // Other programs beside it and their order make no difference.
        let several = config(&format!("[[program]]\nname = 'hashpipe'\nscope = 'network'\n{NAME}"));
        assert_eq!(in_force(&several, 1), [updated]);
        assert_eq!(in_force(&several, 0), [several.programs[0].start()]);
    }
}
