//! `weir run`: the switch.

use std::path::PathBuf;

use clap::Args;

use super::output::Tables;
use super::page::LivePage;
use super::{Failure, Programs, help, overrule};
use crate::config::{BatchOrderConfig, Config, ForwardMode, Idle, Length, LinkLocal, PortConfig};
use crate::forward::route::Net;
use crate::port::{FaultError, FaultSpec};
use crate::switch::{KeyHeaders, TelemetryHeader};

/// Groups of options.
const PORTS: &str = "Ports";
const FORWARDING: &str = "Forwarding";
const CORES: &str = "Cores and memory";
const CONTROL: &str = "Name, sockets and controller";

/// These options overrule the configuration file.
#[derive(Clone, Debug, Args)]
#[command(after_help = help::examples(&[
    "weir run --port a=veth:port1 --port b=veth:port2 --program {program}",
    "weir run --rootless --port a=tap:a --port b=tap:b",
    "weir run -c weir.toml --core 2 --core 3",
    "weir run -c weir.toml --page 127.0.0.1:8080",
    "weir run -c weir.toml --ipfix 192.0.2.1:4739",
    "weir run -c weir.toml --otlp http://127.0.0.1:4317",
    "weir run --port a=tap:a --port b=tap:b --fault 'a=rx:drop=1%'",
    "weir run --forward route --port a=veth:port1 --address a=10.0.1.1/24",
    "weir run --port a=veth:port1 --port b=veth:port2 --program {networked} \\",
    "      --name edge1 --controller net",
]))]
pub struct Run {
    /// Configuration file (TOML; `weir config schema` describes it)
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A port and its device: tap:NAME, veth:IFACE, xdp:IFACE, pci:ADDR, memif:ID, vhost:PATH,
    /// virtio-user:PATH, pcap:IN,OUT, ring:NAME, null, memory
    #[arg(long = "port", value_name = "NAME=DEV", help_heading = PORTS)]
    ports: Vec<PortConfig>,
    /// Faults that packets meet at a port: a=rx:drop=1%,dst=10.0.0.2;tx:delay=5ms
    #[arg(long = "fault", value_name = "PORT=SPEC", value_parser = fault, help_heading = PORTS)]
    faults: Vec<(String, FaultSpec)>,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    tables: Tables,
    /// How the output port is chosen
    #[arg(long, value_enum, help_heading = FORWARDING)]
    forward: Option<ForwardMode>,
    /// With --forward learn: drop frames to 01:80:c2:00:00:00 to 0f, as of STP, LACP and LLDP, or
    /// forward them; PAUSE is dropped with either
    #[arg(long, value_enum, help_heading = FORWARDING)]
    link_local: Option<LinkLocal>,
    /// With --forward xconnect: two ports that are joined
    #[arg(long = "pair", value_name = "A,B", value_parser = pair, help_heading = FORWARDING)]
    pairs: Vec<[String; 2]>,
    /// With --forward route: an address of the switch on a port, and its network
    #[arg(long = "address", value_name = "PORT=ADDRESS/LENGTH", value_parser = port_address, help_heading = FORWARDING)]
    addresses: Vec<(String, Net)>,
    /// A core that polls; may be given several times
    #[arg(long = "core", value_name = "N", help_heading = CORES)]
    cores: Vec<usize>,
    /// Length of an epoch
    #[arg(long, value_name = "LENGTH", help_heading = help::MEASUREMENT)]
    epoch: Option<Length>,
    /// How a packet's class and epoch bit travel between switches
    #[arg(long, value_enum, help_heading = help::MEASUREMENT)]
    telemetry_header: Option<TelemetryHeader>,
    /// Which headers name a packet's flow: those of a tunnel, or of the packet inside
    #[arg(long, value_enum, help_heading = help::MEASUREMENT)]
    key: Option<KeyHeaders>,
    /// Packet buffers
    #[arg(long, value_name = "N", help_heading = CORES)]
    buffers: Option<u32>,
    /// Largest IP packet of the ports given by --port
    #[arg(long, value_name = "BYTES", help_heading = PORTS)]
    mtu: Option<u32>,
    /// Whether a burst goes through the stages packet by packet or stage by stage
    #[arg(long, value_enum, help_heading = help::MEASUREMENT)]
    order: Option<BatchOrderConfig>,
    #[arg(
        long,
        value_name = "TARGET",
        help_heading = help::MEASUREMENT,
        help = help::of_targets("The hardware whose limits the pipeline must keep"),
        add = help::targets(),
    )]
    target: Option<String>,
    /// Hash polynomials from this seed instead of secret ones
    #[arg(long, value_name = "SEED", help_heading = help::MEASUREMENT)]
    reproducible: Option<u64>,
    /// The longest that a packet may wait for a worker that sleeps because nothing came; or off
    #[arg(long, value_name = "LENGTH", help_heading = CORES)]
    idle: Option<Idle>,
    /// Workers never sleep: the same as --idle off
    #[arg(long, conflicts_with = "idle", help_heading = CORES)]
    busy_poll: bool,
    /// Do without huge pages even if there are any
    #[arg(long, help_heading = CORES)]
    no_huge_pages: bool,
    /// Names the switch and its control socket
    #[arg(long, value_name = "NAME", help_heading = CONTROL)]
    name: Option<String>,
    /// Path of the control socket
    #[arg(long, value_name = "PATH", help_heading = CONTROL)]
    socket: Option<PathBuf>,
    /// Serve /metrics over HTTP at this address of the loopback, such as 127.0.0.1:9469
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = CONTROL)]
    metrics: Option<String>,
    /// Export heavy flows, losses and drops to this IPFIX collector over UDP, such as 192.0.2.1:4739
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = CONTROL)]
    ipfix: Option<String>,
    /// Send metrics and log records to this OpenTelemetry collector, such as http://127.0.0.1:4317
    #[arg(long, value_name = "URL", help_heading = CONTROL)]
    otlp: Option<String>,
    #[command(flatten)]
    page: LivePage,
    /// Report to this controller: its name, the path of its socket for switches, or HOST:PORT with
    /// the certificates of `[controller]` in the configuration file
    #[arg(long, value_name = "ADDRESS", help_heading = CONTROL)]
    controller: Option<String>,
    /// Run in a user and a network namespace of your own: tap ports without root; `weir shell PORT`
    /// is a host there
    #[arg(long)]
    rootless: bool,
    /// Stop by itself after this long
    #[arg(long, value_name = "LENGTH")]
    duration: Option<Length>,
    /// Arguments for DPDK's EAL, passed on as they are
    #[arg(last = true, value_name = "EAL")]
    eal: Vec<String>,
}

fn pair(text: &str) -> Result<[String; 2], String> {
    let (a, b) = text.split_once(',').ok_or("write two port names with a comma between them")?;
    Ok([a.into(), b.into()])
}

fn port_address(text: &str) -> Result<(String, Net), String> {
    let (port, net) = text.split_once('=').ok_or("write PORT=ADDRESS/LENGTH, for example a=10.0.1.1/24")?;
    Ok((port.into(), net.parse()?))
}

fn fault(text: &str) -> Result<(String, FaultSpec), String> {
    let (port, spec) = text.split_once('=').ok_or("write PORT=SPEC, for example a=rx:drop=1%")?;
    Ok((port.into(), spec.parse().map_err(|error: FaultError| error.to_string())?))
}

impl Run {
    /// The file's configuration with the words of the command line on top.
    fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        let mut ports = self.ports.clone();
        if let Some(mtu) = self.mtu {
            ports.iter_mut().for_each(|port| port.mtu = mtu);
        }
        config.ports.extend(ports);
        for (name, net) in &self.addresses {
            let port = config.ports.iter_mut().find(|port| port.name == *name);
            let port =
                port.ok_or_else(|| Failure::Usage(format!("--address {name}={net}: there is no port {name}")))?;
            port.addresses.push(*net);
        }
        for (name, fault) in &self.faults {
            let port = config.ports.iter_mut().find(|port| port.name == *name);
            let port = port.ok_or_else(|| Failure::Usage(format!("--fault {name}: there is no port of this name")))?;
            port.fault = Some(fault.clone());
        }
        config.programs.extend(self.programs.parse()?);
        let switch = &mut config.switch;
        switch.pairs.extend(self.pairs.iter().cloned());
        if !self.cores.is_empty() {
            switch.cores.clone_from(&self.cores);
        }
        overrule(&mut switch.target, &self.target);
        overrule(&mut switch.name, &self.name);
        overrule(&mut switch.forward, &self.forward);
        overrule(&mut switch.link_local, &self.link_local);
        overrule(&mut switch.epoch, &self.epoch);
        overrule(&mut switch.telemetry_header, &self.telemetry_header);
        overrule(&mut switch.key, &self.key);
        overrule(&mut switch.order, &self.order);
        switch.buffers = self.buffers.or(switch.buffers);
        switch.reproducible = self.reproducible.or(switch.reproducible);
        switch.metrics = self.metrics.clone().or(switch.metrics.take());
        config.ipfix.collector = self.ipfix.clone().or(config.ipfix.collector.take());
        config.otlp.to = self.otlp.clone().or(config.otlp.to.take());
        self.page.overrule(&mut config.page);
        config.controller.at = self.controller.clone().or(config.controller.at.take());
        switch.idle = if self.busy_poll { Idle(None) } else { self.idle.unwrap_or(switch.idle) };
        if self.no_huge_pages {
            switch.huge_pages = Some(false);
        }
        if config.ports.is_empty() {
            return Err(Failure::Usage(
                "no port: give some with --port NAME=DEV, for example --port a=tap:tap0, or as [[port]] in the configuration file"
                    .into(),
            ));
        }
        config.validate()?;
        super::placed(&config, self.config.as_deref())?;
        Ok(config)
    }

    #[cfg(not(feature = "dpdk"))]
    pub fn run(self, _json: bool) -> Result<(), Failure> {
        self.config()?;
        Err(Failure::Failed("this weir was built without live ports; build it with the feature `dpdk`".into()))
    }

    #[cfg(feature = "dpdk")]
    pub fn run(self, json: bool) -> Result<(), Failure> {
        live::run(self, json)
    }
}

#[cfg(feature = "dpdk")]
mod live {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Instant;

    use serde::Serialize;
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    use signal_hook::flag;

    use super::Run;
    use crate::answers::{Claimed, HeavyFlows};
    use crate::api::view::{Drops, Ports};
    use crate::cli::notify::Notify;
    use crate::cli::output::Style;
    use crate::cli::{Failure, counts, log, output, reload, rootless};
    use crate::live::{Live, LiveError, Reread, Rights};
    use crate::privileges::PrivilegeError;

    #[derive(Serialize)]
    struct Totals {
        seconds: f64,
        #[serde(flatten)]
        ports: Ports,
        #[serde(skip_serializing_if = "Option::is_none")]
        heavy: Option<Claimed<HeavyFlows>>,
    }

    impl From<LiveError> for Failure {
        fn from(error: LiveError) -> Self {
            match error {
                LiveError::Assemble(error) => error.into(),
                LiveError::Config(error) => error.into(),
                LiveError::Usage(message) => Self::Usage(message),
                LiveError::Tls(error) => Self::Usage(error.to_string()),
                LiveError::Otlp(error) => Self::Usage(error.to_string()),
                LiveError::Privileges(error @ PrivilegeError::Unknown { .. }) => Self::Usage(error.to_string()),
                error => Self::failed(error),
            }
        }
    }

    /// The file once more, with the same words on top.
    fn reread(command: Run) -> Reread {
        Box::new(move || {
            command.config().map_err(|failure| match failure {
                Failure::Failed(why) | Failure::Usage(why) | Failure::Missed(why) => why,
            })
        })
    }

    /// Whether this process was started with the signal ignored.
    fn is_ignored(signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask >> (signal - 1) & 1 == 1
    }

    pub fn run(command: Run, json: bool) -> Result<(), Failure> {
        let format = command.tables.clone().format(json)?;
        let config = command.config()?;
        if command.rootless {
            if config.switch.metrics.is_some() {
                let why = "nobody outside reaches the namespace's loopback; `weir metrics` prints them";
                return Err(Failure::Usage(format!("switch.metrics: not with --rootless: {why}")));
            }
            if config.page.listen.is_some() {
                let why = "nobody outside reaches the namespace's loopback";
                return Err(Failure::Usage(format!("page.listen: not with --rootless: {why}")));
            }
            if config.ipfix.collector.is_some() {
                let why = "the namespace has no way to a collector";
                return Err(Failure::Usage(format!("ipfix.collector: not with --rootless: {why}")));
            }
            if config.otlp.to.is_some() {
                let why = "the namespace has no way to a collector";
                return Err(Failure::Usage(format!("otlp.to: not with --rootless: {why}")));
            }
            return Err(rootless::reenter(&config.switch.name, command.socket));
        }
        let enter = rootless::is_inside().then(|| rootless::how_to_enter(&config.switch.name, &config.ports));
        let stop = Arc::new(AtomicBool::new(false));
        let print = Arc::new(AtomicBool::new(false));
        let again = Arc::new(AtomicBool::new(false));
        let impatient = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // A second signal ends the process at once, should the drain hang. Not at first: a
            // terminal, make or timeout may send the first one twice.
            flag::register_conditional_shutdown(signal, 1, impatient.clone()).map_err(Failure::failed)?;
            flag::register(signal, stop.clone()).map_err(Failure::failed)?;
        }
        flag::register(SIGUSR1, print.clone()).map_err(Failure::failed)?;
        // Without a file there is nothing to read again: a terminal that closes ends the switch, but
        // not one that nohup started.
        if !is_ignored(SIGHUP) {
            let hung_up = if command.config.is_some() { &again } else { &stop };
            flag::register(SIGHUP, hung_up.clone()).map_err(Failure::failed)?;
        }

        if config.switch.reproducible.is_some() {
            tracing::warn!(
                "switch.reproducible: the hash polynomials follow from the seed, so whoever knows it can aim at the tables \
                 and hide flows"
            );
        }
        let reread = command.config.is_some().then(|| reread(command.clone()));
        let mut live = Live::start(config, reread, command.eal, command.socket, Rights::GiveUp)?;
        let name = live.name();
        log::ready(&name, &live.describe());
        enter.iter().for_each(|text| output::say(text));
        let mut notify = Notify::from_env();
        notify.ready(&live.describe());
        let started = Instant::now();
        let over = |started: Instant| command.duration.is_some_and(|max| started.elapsed() >= max.0);
        while !stop.load(Relaxed) && !over(started) && live.is_running() {
            live.round();
            notify.alive(Instant::now());
            // The switch says by itself why it refuses.
            if again.swap(false, Relaxed)
                && let Ok(reloaded) = live.reload()
            {
                log::reloaded(&name, &reload::text(&reloaded));
                notify.ready(&live.describe());
            }
            if print.swap(false, Relaxed) {
                output::say(&counts::ports_page(&live.ports()).to_text(Style::current()));
            }
        }
        notify.stopping();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_secs(1));
            impatient.store(true, Relaxed);
        });
        let seconds = started.elapsed().as_secs_f64();
        let (ports, heavy) = live.stop()?;
        log::stopped(&name, seconds, &ports.packets);
        let page = |totals: &Totals| counts::ports_page(&totals.ports).and(Drops::of(&totals.ports).page());
        output::page(&format, &Totals { seconds, ports, heavy }, page)
    }
}
