//! Metrics of a switch or a controller for Prometheus, as OpenMetrics 1.0 or in its older text format 0.0.4.
//!
//! Labels are bounded: at most 256 ports, a fixed list of reasons, one core a worker, the programs
//! that weir has, 16 384 switches or links, and as many flows as are configured. `weir stats reset`
//! does not reset these totals.

mod exposed;
mod ipfix;
mod measured;
mod network;
mod newest;
mod otlp;
mod placed;
mod totals;

use std::fmt::{Error, Write};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::view::{Exported, Otlp, Port, Status, Worker, WorkerProgram};

pub use measured::{Measured, ProgramMetrics, Source};
pub use network::Network;
pub use placed::PlacesAnswer;

/// The text formats. The node exporter's textfile collector and `promtool check metrics` read the
/// second alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// OpenMetrics 1.0
    #[default]
    Openmetrics,
    /// Prometheus' own text format 0.0.4
    Prometheus,
}

impl Format {
    /// The text's media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Openmetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The format for a request with this Accept header: OpenMetrics where it is named and not
    /// liked less than plain text, as in Prometheus' own libraries; else the format that every
    /// client reads.
    pub fn accepted(accept: &str) -> Self {
        let best = |types: &[&str], versions: &[&str]| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let name = parts.next()?.to_ascii_lowercase();
                let (mut version, mut quality) = (None, 1.0);
                for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                    match key.trim().to_ascii_lowercase().as_str() {
                        "version" => version = Some(value.trim().trim_matches('"')),
                        "q" => quality = value.trim().parse::<f32>().unwrap_or(0.0),
                        _ => {}
                    }
                }
                let fits = types.contains(&name.as_str()) && version.is_none_or(|version| versions.contains(&version));
                fits.then_some(quality)
            });
            ranges.fold(0.0, f32::max)
        };
        let open = best(&["application/openmetrics-text"], &["1.0.0", "0.0.1"]);
        let plain = best(&["text/plain", "text/*", "*/*"], &["0.0.4"]);
        if open > 0.0 && open >= plain { Self::Openmetrics } else { Self::Prometheus }
    }
}

/// How the exports of a switch or a controller stand.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    pub ipfix: Option<Exported>,
    pub otlp: Option<Otlp>,
}

/// All metrics of a switch at this moment, with what its programs measured.
pub fn text(status: &Status, programs: Vec<ProgramMetrics>, exports: Exports, format: Format) -> String {
    exposed(Exposed { status: Some(status.clone()), network: None, programs, exports }, format)
}

/// All metrics of a controller.
pub fn network_text(network: Network, programs: Vec<ProgramMetrics>, exports: Exports, format: Format) -> String {
    exposed(Exposed { status: None, network: Some(network), programs, exports }, format)
}

fn exposed(exposed: Exposed, format: Format) -> String {
    let mut registry = Registry::with_prefix("weir");
    registry.register_collector(Box::new(exposed));
    encoded(&registry, format)
}

/// The same in format 0.0.4, where a family has the name of its samples, an info is a gauge, and
/// nothing marks the end. Escapes in labels are the same; help texts have none.
fn plain(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                other => ("", other),
            };
            let _ = writeln!(text, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// All metrics of a registry at this moment.
pub fn encoded(registry: &Registry, format: Format) -> String {
    let mut text = String::new();
    if prometheus_client::encoding::text::encode(&mut text, registry).is_err() {
        // Writing to a string does not fail.
        text.clear();
        let _ = text.write_str("# EOF\n");
    }
    match format {
        Format::Openmetrics => text,
        Format::Prometheus => plain(&text),
    }
}

#[derive(Debug)]
struct Exposed {
    status: Option<Status>,
    network: Option<Network>,
    programs: Vec<ProgramMetrics>,
    exports: Exports,
}

impl Collector for Exposed {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut family = Families(encoder);
        if let Some(status) = &self.status {
            family.switch(status)?;
            family.ports(&status.totals.ports)?;
            family.losses(&status.totals.ports)?;
            family.workers(&status.workers)?;
        }
        if let Some(network) = &self.network {
            family.network(network)?;
        }
        if let Some(exported) = &self.exports.ipfix {
            family.exported(exported)?;
        }
        if let Some(otlp) = &self.exports.otlp {
            family.otlp(otlp)?;
        }
        family.measured(&self.programs)
    }
}

type PortCounter = (&'static str, &'static str, fn(&Port) -> u64);

const PORT_COUNTERS: [PortCounter; 7] = [
    ("port_receive_packets", "Packets that came in", |port| port.counts.rx_packets),
    ("port_receive_bytes", "Bytes that came in, from the destination MAC on, without FCS", |port| port.counts.rx_bytes),
    ("port_transmit_packets", "Packets that went out", |port| port.counts.tx_packets),
    ("port_transmit_bytes", "Bytes that went out, from the destination MAC on, without FCS", |port| {
        port.counts.tx_bytes
    }),
    ("port_copied_packets", "Packets that flooding made beyond those that came in", |port| port.counts.copied_packets),
    (
        "port_without_shim_packets",
        "Packets sent to a fabric port without a shim, which would have passed its MTU",
        |port| port.counts.without_shim_packets,
    ),
    ("port_remarked_packets", "Packets of hosts whose DSCP lost its low three bits, which the fabric needs", |port| {
        port.counts.remarked_packets
    }),
];

const PORT_GAUGES: [PortCounter; 3] = [
    ("port_up", "Whether packets can leave", |port| u64::from(port.link_up)),
    ("port_enabled", "Whether the port is meant to be up", |port| u64::from(port.enabled)),
    ("port_mtu_bytes", "Largest IP packet", |port| u64::from(port.mtu_bytes)),
];

type WorkerCounter = (&'static str, &'static str, fn(&Worker) -> u64);

const WORKER_COUNTERS: [WorkerCounter; 5] = [
    ("worker_polls", "Rounds of the poll loop", |worker| worker.polls),
    ("worker_busy_polls", "Rounds of the poll loop that found packets", |worker| worker.busy_polls),
    ("worker_packets", "Packets that came in", |worker| worker.packets),
    ("worker_busy_cycles", "Cycles in rounds of the poll loop that found packets", |worker| worker.busy_cycles),
    ("worker_idle_cycles", "Cycles in the other rounds, sleep included", |worker| worker.idle_cycles),
];

type ProgramCounter = (&'static str, &'static str, fn(&WorkerProgram) -> u64);

const PROGRAM_COUNTERS: [ProgramCounter; 2] = [
    ("program_packets", "Packets that went through a program", |program| program.packets),
    ("program_cycles", "Cycles that a program's stages took, estimated from a part of the bursts", |program| {
        program.cycles
    }),
];

/// Writes one family after another.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    /// The name and version of what runs, and the time of its start.
    fn build(&mut self, version: &str, (kind, name): (&str, &str), start_time_seconds: f64) -> Result<(), Error> {
        let labels = [("version", version), (kind, name)];
        self.0.encode_descriptor("build", "The name and the version", None, MetricType::Info)?.encode_info(&labels)?;
        let help = "When it started, since 1970-01-01 UTC";
        let mut start = self.0.encode_descriptor("start_time_seconds", help, None, MetricType::Gauge)?;
        start.encode_gauge(&start_time_seconds)
    }

    fn switch(&mut self, status: &Status) -> Result<(), Error> {
        self.build(&status.version, ("switch", &status.name), status.start_time_seconds)?;
        let counted = &status.totals.measurement;
        for (name, help, total) in [
            ("unmeasured_packets", "Packets that are neither IPv4 nor IPv6", counted.unmeasured_packets),
            (
                "too_many_tags_packets",
                "Packets that are not measured because they have more than four VLAN tags",
                counted.too_many_tags_packets,
            ),
            (
                "no_ip_header_packets",
                "Packets that are not measured because their IP header is cut or wrong",
                counted.lacking.no_ip_header_packets,
            ),
            ("no_ports_packets", "Packets whose ports are cut off or out of reach", counted.lacking.no_ports_packets),
            (
                "later_fragment_packets",
                "Fragments but the first, which have no ports",
                counted.lacking.later_fragment_packets,
            ),
            ("portless_packets", "Packets of protocols without ports", counted.lacking.portless_packets),
            ("tunnel_read_packets", "Packets of tunnels that count with the flow inside", counted.tunnels.read_packets),
            ("tunnel_cut_packets", "Packets of tunnels that end before the inner ports", counted.tunnels.cut_packets),
            ("tunnel_fragment_packets", "Fragments of tunnels but the first", counted.tunnels.fragment_packets),
            (
                "tunnel_too_deep_packets",
                "Packets of tunnels with too many labels, tags or extension headers",
                counted.tunnels.too_deep_packets,
            ),
            ("tunnel_other_packets", "Packets of tunnels without known IP inside", counted.tunnels.other_packets),
            (
                "epochs_late",
                "Epochs whose record also covers the next, the collector being behind",
                counted.late_epochs,
            ),
            (
                "sub_epochs_late",
                "Sub-epochs whose record also covers the next, the collector being behind",
                counted.late_sub_epochs,
            ),
            ("epochs_lost", "Epochs whose record the collector did not take", counted.lost_epochs),
            ("epochs_forgotten", "Epochs dropped early by a reload", counted.forgotten_epochs),
            ("learn_digests_lost", "Learn digests that found their queue full", counted.lost_learn_digests),
            ("macs_refused", "Times a new MAC address found the table full", counted.refused_macs),
            ("macs_moved", "Times a MAC address was heard behind another port than before", counted.moved_macs),
            ("neighbours_refused", "Times a new neighbour found the table full", counted.refused_neighbours),
            ("messages_suppressed", "ICMP errors and questions above their rate", counted.suppressed_messages),
        ] {
            let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&total, None)?;
        }
        Ok(())
    }

    fn ports(&mut self, ports: &[Port]) -> Result<(), Error> {
        for (name, help, read) in PORT_COUNTERS {
            self.counters(name, help, ports.iter().map(|port| ([("port", port.name.clone())], read(port))))?;
        }
        for (name, help, read) in PORT_GAUGES {
            let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for port in ports {
                metric.encode_family(&[("port", port.name.as_str())])?.encode_gauge(&read(port))?;
            }
        }
        Ok(())
    }

    fn losses(&mut self, ports: &[Port]) -> Result<(), Error> {
        let each = |device: bool| {
            ports.iter().flat_map(move |port| {
                let losses = if device { &port.counts.device } else { &port.counts.drops };
                let labels = |why: &String| [("port", port.name.clone()), ("reason", why.clone())];
                losses.iter().map(move |(why, &packets)| (labels(why), packets))
            })
        };
        self.counters("drops", "Packets that came in or were copied and did not go out", each(false))?;
        self.counters("device_drops", "Packets that devices lost by themselves, outside the balance", each(true))
    }

    fn workers(&mut self, workers: &[Worker]) -> Result<(), Error> {
        for (name, help, read) in WORKER_COUNTERS {
            let core = |worker: &Worker| [("core", worker.core.to_string())];
            self.counters(name, help, workers.iter().map(|worker| (core(worker), read(worker))))?;
        }
        for (name, help, read) in PROGRAM_COUNTERS {
            let samples = workers.iter().flat_map(|worker| {
                worker.programs.iter().map(move |program| {
                    let labels = [("core", worker.core.to_string()), ("program", program.program.clone())];
                    (labels, read(program))
                })
            });
            self.counters(name, help, samples)?;
        }
        Ok(())
    }

    /// A family of counters, one sample for each set of labels.
    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = ([(&'static str, String); N], u64)>,
    ) -> Result<(), Error> {
        let mut samples = samples.peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, total) in samples {
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&total, None)?;
        }
        Ok(())
    }

    /// A family of gauges.
    fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = ([(&'static str, String); N], f64)>,
    ) -> Result<(), Error> {
        let mut samples = samples.filter(|(_, value)| value.is_finite()).peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in samples {
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
