//! The words of `pktgen run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pktgen::engine::{MAX_BURST, Setup};
use pktgen::pace::{Arrivals, Pace, Rate};
use pktgen::traffic::{FCS, FlowPlan, HeaderOptions, Incast, Protocol, Recording, Response, Shape, Sizes};
use pktgen::truth::{EpochTime, Scorer};
use pktgen::words;
use weir::api::client::Client;
use weir::network::socket;
use weir::port::{Dev, FaultSpec};
use weir::trace::{Keys, Lengths, MAX_FLOWS, Workload};
use weir::wire::Mac;

use super::metrics;
use super::report::Recorded;
use crate::Failure;

/// Groups of options.
const DEVICES: &str = "Devices and cores";
const TRAFFIC: &str = "What is sent";
const PACE: &str = "How fast and how long";
const TRUTH: &str = "Truth, scores and thresholds";
const OUTPUT: &str = "Output";

#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
RATE is one of
  max                    as fast as the core and the device can
  1Mpps                  packets per second
  1Gbps-l2               bits per second of frames with FCS
  1Gbps-l1               the same with preamble and gap, as on the wire
  50%of10Gbps            a part of a line rate (L1)
SIZE counts the FCS: 64 to 9216, imix (64:7,594:4,1518:1), or lengths and
weights of one's own. A frame that is too short for its headers and the
signature of 18 bytes is as long as they need.
WORKLOAD is as for `pktgen trace`; its rate= is of files, and --rate holds
here.

EXAMPLES
  pktgen run --tx ring:a --rx ring:a --flows 1000 --rate 100kpps --duration 2s
  pktgen run --tx veth:eth1 --rx veth:eth2 --size imix --rate 500Mbps-l2 \\
      --workload isp/burst,flows=50k,packets=2M
  pktgen run --tx pci:0000:03:00.0 --rx pci:0000:03:00.1 --core 2 --core 3 \\
      --rate 100%of10Gbps --max-loss 0.1%
  pktgen run --tx veth:h1 --rx veth:h2 --flows 200 --score weir")]
pub struct Arguments {
    /// The device to send by: tap:NAME, veth:IFACE, xdp:IFACE, pci:ADDR, memif:ID, vhost:PATH,
    /// virtio-user:PATH, pcap:,OUT, ring:NAME, null
    #[arg(long, value_name = "DEV", help_heading = DEVICES)]
    pub tx: Dev,
    /// The device to receive by; the one to send by if it is the same
    #[arg(long, value_name = "DEV", help_heading = DEVICES)]
    pub rx: Option<Dev>,
    /// A core that sends and receives; may be given several times [one that the kernel chooses]
    #[arg(long = "core", value_name = "N", help_heading = DEVICES)]
    cores: Vec<usize>,
    /// As many flows, one packet of each in turn
    #[arg(long, value_name = "N", value_parser = words::count, default_value = "1", conflicts_with_all = ["workload", "pcap"], help_heading = TRAFFIC)]
    flows: u64,
    /// Flow sizes and order of a workload: SIZES[/ORDER][,KEY=VALUE]…
    #[arg(long, value_name = "WORKLOAD", conflicts_with = "pcap", help_heading = TRAFFIC)]
    workload: Option<Workload>,
    /// The frames of a capture, as they are
    #[arg(long, value_name = "FILE", help_heading = TRAFFIC)]
    pcap: Option<PathBuf>,
    /// With --pcap and without --rate: its own timing, as many times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "pcap", help_heading = PACE)]
    speed: f64,
    /// With --pcap in its own timing: a gap of the capture that is longer, as where its clock was set,
    /// is sent as one of this length
    #[arg(long, value_name = "LENGTH", value_parser = words::time, default_value = "1m", requires = "pcap", conflicts_with = "rate")]
    max_gap: Duration,
    /// With --pcap: how often it is sent; 0: until the run ends
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pcap", help_heading = TRAFFIC)]
    loops: u64,
    /// Incast: SENDERS answer one receiver at the same time, each with BYTES of payload, again every
    /// INTERVAL; --rate is that within a burst
    #[arg(long, value_name = "SENDERS,BYTES,INTERVAL", conflicts_with_all = ["flows", "workload", "pcap", "keys", "arrivals", "malformed"], help_heading = TRAFFIC)]
    incast: Option<Incast>,
    /// Protocol of the flows: udp, tcp, or mixed as workloads have them [udp; with --workload mixed]
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "pcap", help_heading = TRAFFIC)]
    protocol: Option<Protocol>,
    /// With --flows: five-tuples, random, scan, range or clients
    #[arg(long, value_name = "MODEL", value_parser = keys, default_value = "random", conflicts_with_all = ["workload", "pcap"], help_heading = TRAFFIC)]
    keys: Keys,
    /// With --flows: share of the flows that are IPv6
    #[arg(long, value_name = "SHARE", value_parser = words::share, default_value = "0", conflicts_with_all = ["workload", "pcap"], help_heading = TRAFFIC)]
    ipv6: f64,
    /// With --flows: the same seed gives the same frames
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRAFFIC)]
    pub seed: u64,
    /// Frame sizes [64; with --workload those of its len=; with --incast 1518]
    #[arg(long, value_name = "SIZE", conflicts_with = "pcap", help_heading = TRAFFIC)]
    size: Option<Sizes>,
    /// How much is sent [max; with --pcap its own timing]
    #[arg(long, value_name = "RATE", help_heading = PACE)]
    rate: Option<Rate>,
    /// How gaps vary around their mean: constant, poisson, or on-off:ON,OFF such as on-off:10ms,90ms
    #[arg(long, value_name = "ARRIVALS", default_value = "constant", requires = "rate", help_heading = PACE)]
    arrivals: Arrivals,
    /// Length of the run [10s; with --packets or --pcap until all are sent]
    #[arg(long, value_name = "LENGTH", value_parser = words::time, help_heading = PACE)]
    pub duration: Option<Duration>,
    /// Number of packets
    #[arg(long, value_name = "N", value_parser = words::count, conflicts_with = "pcap", help_heading = PACE)]
    packets: Option<u64>,
    /// Most frames that are sent at once
    #[arg(long, value_name = "N", default_value_t = MAX_BURST, value_parser = burst, help_heading = PACE)]
    pub burst: usize,
    /// A VLAN tag on all frames
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..4095), conflicts_with = "pcap", help_heading = TRAFFIC)]
    vlan: Option<u16>,
    /// The DSCP of all packets
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..64), conflicts_with = "pcap", help_heading = TRAFFIC)]
    dscp: u8,
    /// TCP flags of all packets: fin, syn, rst, psh, ack, urg, ece, cwr, with + between them
    #[arg(long, value_name = "FLAGS", value_parser = tcp_flags, default_value = "ack", conflicts_with = "pcap", help_heading = TRAFFIC)]
    tcp_flags: u8,
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", conflicts_with = "pcap", help_heading = TRAFFIC)]
    src_mac: Mac,
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02", conflicts_with = "pcap", help_heading = TRAFFIC)]
    dst_mac: Mac,
    /// Share of frames with a wrong IP header; they come from 198.51.100.1
    #[arg(long, value_name = "SHARE", value_parser = words::share, default_value = "0", conflicts_with = "pcap", help_heading = TRAFFIC)]
    malformed: f64,
    /// Silence after which all that is to come back has come, at most 1h
    #[arg(long, value_name = "LENGTH", value_parser = drain, default_value = "200ms", help_heading = PACE)]
    pub drain: Duration,
    /// Faults of the own ports, as with `weir run`: tx:drop=1%;rx:delay=5ms
    #[arg(long, value_name = "SPEC", help_heading = DEVICES)]
    fault: Option<FaultSpec>,
    /// Writes what was sent and received of each flow in each epoch, as lines of JSON, or as Parquet
    /// when the name ends in .parquet
    #[arg(long, value_name = "FILE", requires = "rx", conflicts_with = "pcap", help_heading = TRUTH)]
    pub truth: Option<PathBuf>,
    /// Asks the switch or controller of this name while it sends, and shows recall, error and whether
    /// losses are exact
    #[arg(long, value_name = "NAME", group = "switch", requires = "rx", conflicts_with = "pcap", help_heading = TRUTH)]
    score: Option<String>,
    /// The control socket of the switch that is asked, when it is not at the usual place
    #[arg(long, value_name = "PATH", group = "switch", requires = "rx", conflicts_with = "pcap", help_heading = TRUTH)]
    score_socket: Option<PathBuf>,
    /// With --score: how many of the heaviest flows are scored
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = TRUTH)]
    score_top: usize,
    /// With --score: ends with exit code 3 if the mean relative error of heavy flows, or that of all
    /// lost packets, is larger
    #[arg(long, value_name = "SHARE", value_parser = words::share, requires_all = ["switch", "rx"], help_heading = TRUTH)]
    pub max_error: Option<f64>,
    /// With --truth or --score: length of an epoch [that of the switch, else 67108864ns]
    #[arg(long, value_name = "LENGTH", value_parser = words::time, help_heading = TRUTH)]
    epoch: Option<Duration>,
    /// With --truth or --score: nothing is sent for so long before an epoch ends [0; with --score 2ms]
    #[arg(long, value_name = "LENGTH", value_parser = words::time, help_heading = TRUTH)]
    epoch_pause: Option<Duration>,
    /// Writes the latencies' percentiles for HdrHistogram's plotter
    #[arg(long, value_name = "FILE", requires = "rx", conflicts_with = "pcap", help_heading = OUTPUT)]
    pub hgrm: Option<PathBuf>,
    /// Writes the latencies as an HdrHistogram log
    #[arg(long, value_name = "FILE", requires = "rx", conflicts_with = "pcap", help_heading = OUTPUT)]
    pub hlog: Option<PathBuf>,
    /// Ends with exit code 3 if a larger share of the frames is lost
    #[arg(long, value_name = "SHARE", value_parser = words::share, requires = "rx", conflicts_with = "pcap", help_heading = TRUTH)]
    pub max_loss: Option<f64>,
    /// Serves the run's numbers for Prometheus at /metrics while it goes on: a port of 127.0.0.1, or a
    /// loopback address and a port
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address, help_heading = OUTPUT)]
    pub metrics: Option<SocketAddr>,
    /// A full screen that follows the run, where stdout is a terminal; q ends the run
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub live: bool,
    /// One JSON document in place of text
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// No line that follows the run
    #[arg(long, short, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Do without huge pages even if there are any
    #[arg(long, help_heading = DEVICES)]
    no_huge_pages: bool,
    /// Packet buffers
    #[arg(long, value_name = "N", help_heading = DEVICES)]
    buffers: Option<u32>,
    /// Arguments for DPDK's EAL, passed on as they are
    #[arg(last = true, value_name = "EAL")]
    eal: Vec<String>,
}

/// What is sent.
pub enum Traffic {
    Flows(Box<FlowPlan>, Box<Shape>),
    /// And how often.
    Capture(Arc<Recording>, u64),
}

impl Traffic {
    /// The longest frame, without FCS.
    pub fn longest(&self) -> u16 {
        match self {
            Self::Flows(_, shape) => shape.longest(),
            Self::Capture(recording, _) => recording.longest(),
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Self::Flows(plan, shape) => match &shape.response {
                Some(response) => response.to_string(),
                None => format!("{} flows, frames of {} bytes", plan.flows(), shape.sizes),
            },
            Self::Capture(recording, _) => {
                format!("{} packets of {} flows of a capture", recording.packets(), recording.flows().len())
            }
        }
    }

    /// How the frames sent differ from the capture.
    pub fn recorded(&self) -> Option<Recorded> {
        match self {
            Self::Flows(..) => None,
            Self::Capture(recording, _) => Some(Recorded {
                cut_packets: recording.cut(),
                time_jumps: recording.jumps(),
                said: recording.said().clone(),
            }),
        }
    }
}

/// weir's default.
const EPOCH: Duration = Duration::from_nanos(1 << 26);
const SCORED_PAUSE: Duration = Duration::from_millis(2);
/// Frames of an incast, with FCS.
const INCAST_SIZE: &str = "1518";
const DURATION: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

impl Arguments {
    pub fn traffic(&self) -> Result<Traffic, Failure> {
        if let Some(path) = &self.pcap {
            if !(self.speed.is_finite() && self.speed > 0.0) {
                return Err(Failure::Usage(format!("--speed {}: a number above 0", self.speed)));
            }
            let recording = Recording::open(path, self.max_gap).with_context(|| path.display().to_string())?;
            let loops = if self.loops == 0 { u64::MAX } else { self.loops };
            return Ok(Traffic::Capture(Arc::new(recording), loops));
        }
        let sizes = |lengths: Lengths| match lengths {
            Lengths::Fixed(length) => (length + FCS).to_string(),
            Lengths::Imix => "imix".into(),
        };
        let own = self.workload.as_ref().map(|workload| sizes(workload.lengths));
        let own = own.or_else(|| self.incast.map(|_| INCAST_SIZE.into()));
        let own = own.map_or_else(|| Ok(Sizes::default()), |text| text.parse()).map_err(Failure::Usage)?;
        let shape = Shape {
            headers: HeaderOptions {
                src_mac: self.src_mac,
                dst_mac: self.dst_mac,
                vlan: self.vlan,
                dscp: self.dscp,
                tcp_flags: self.tcp_flags,
            },
            sizes: self.size.clone().unwrap_or(own),
            response: None,
            malformed: self.malformed,
            packets: self.packets,
        };
        if let Some(incast) = self.incast {
            return self.incast(incast, shape);
        }
        let plan = match &self.workload {
            Some(workload) => FlowPlan::of_workload(workload.clone(), self.protocol.unwrap_or(Protocol::Mixed)),
            None => {
                let flows = u32::try_from(self.flows).ok().filter(|flows| *flows <= MAX_FLOWS);
                let wrong = || Failure::Usage(format!("--flows {}: at most {MAX_FLOWS}", self.flows));
                let (keys, ipv6, seed) = (self.keys, self.ipv6, self.seed);
                let workload = Workload { keys, ipv6, seed, ..Workload::default() };
                FlowPlan::in_turn(flows.ok_or_else(wrong)?, workload, self.protocol.unwrap_or(Protocol::Udp))
            }
        };
        Ok(Traffic::Flows(Box::new(plan), Box::new(shape)))
    }

    pub fn setup(&self, longest: u16) -> Setup {
        let cores = self.cores.iter().copied().map(Some).collect();
        Setup {
            tx: self.tx.clone(),
            rx: self.rx.clone(),
            cores: if self.cores.is_empty() { vec![None] } else { cores },
            longest,
            fault: self.fault.clone(),
            huge_pages: !self.no_huge_pages,
            buffers: self.buffers,
            eal: self.eal.clone(),
        }
    }

    fn incast(&self, incast: Incast, shape: Shape) -> Result<Traffic, Failure> {
        let protocol = self.protocol.unwrap_or(Protocol::Udp);
        if protocol == Protocol::Mixed || self.ipv6 != 0.0 && self.ipv6 != 1.0 {
            let wrong = "--incast: all senders are of one --protocol, and IPv4, or IPv6 with --ipv6 100%";
            return Err(Failure::Usage(wrong.into()));
        }
        let workload = Workload { seed: self.seed, ipv6: self.ipv6, ..Workload::default() };
        let plan = FlowPlan::incast(incast.senders, workload, protocol);
        let response = Response::new(incast, &plan, &shape).map_err(Failure::Usage)?;
        let per_second = response.burst() as f64 / incast.interval.as_secs_f64();
        if let Some(rate) = self.rate.and_then(|rate| rate.packets(response.mean()))
            && rate < per_second
        {
            let wrong =
                format!("--rate: {response} need {per_second:.0} packets per second, and {rate:.0} are asked for");
            return Err(Failure::Usage(wrong));
        }
        Ok(Traffic::Flows(Box::new(plan), Box::new(Shape { response: Some(response), ..shape })))
    }

    pub fn pace(&self, traffic: &Traffic) -> Pace {
        let response = match traffic {
            Traffic::Capture(..) if self.rate.is_none() => return Pace::Own(self.speed),
            Traffic::Capture(..) => None,
            Traffic::Flows(_, shape) => shape.response,
        };
        let rate = self.rate.unwrap_or(Rate::Max);
        match response {
            Some(response) => {
                let packets = response.burst();
                Pace::Bursts { rate, packets, interval: response.incast.interval }
            }
            None => Pace::Rate(rate, self.arrivals),
        }
    }

    pub fn duration(&self) -> Option<Duration> {
        let ends = self.packets.is_some() || self.pcap.is_some() && self.loops != 0;
        self.duration.or((!ends).then_some(DURATION))
    }

    /// The longest gap of a capture that is waited for, where its own timing is.
    pub fn longest_gap(&self) -> Option<Duration> {
        self.rate.is_none().then_some(self.max_gap)
    }

    /// Whether anything about truth is asked for.
    pub fn has_truth(&self) -> bool {
        let kept = self.truth.is_some() || self.score.is_some() || self.score_socket.is_some();
        kept || self.epoch.is_some() || self.epoch_pause.is_some()
    }

    /// The epochs that truth is kept of, and who is asked about them; `None` without --truth and
    /// --score.
    pub fn epochs(&self) -> Result<Option<(EpochTime, Option<Scorer>)>, Failure> {
        let mut scorer = self.scorer()?;
        if self.truth.is_none() && scorer.is_none() {
            let alone = self.epoch.is_some() || self.epoch_pause.is_some();
            let wrong = "--epoch, --epoch-pause: with --truth or --score";
            return if alone { Err(Failure::Usage(wrong.into())) } else { Ok(None) };
        }
        let switch = scorer.as_mut().map(Scorer::epoch_ns).transpose().context("--score")?;
        let length = self.epoch.or(switch.map(Duration::from_nanos)).unwrap_or(EPOCH);
        let pause = self.epoch_pause.unwrap_or(if scorer.is_some() { SCORED_PAUSE } else { Duration::ZERO });
        if switch.is_some_and(|switch| u128::from(switch) != length.as_nanos()) {
            return Err(Failure::Usage(format!("--epoch {length:?}: those of the switch are {switch:?} ns")));
        }
        let range = Duration::from_millis(1)..=HOUR;
        if !range.contains(&length) || pause > length / 2 {
            let given = format!("--epoch {length:?} --epoch-pause {pause:?}");
            return Err(Failure::Usage(format!("{given}: an epoch is 1ms to 1h, a pause at most half of it")));
        }
        Ok(Some((EpochTime { length, pause }, scorer)))
    }

    fn scorer(&self) -> Result<Option<Scorer>, Failure> {
        Ok(self.switch()?.map(|client| Scorer::new(client, self.score_top)))
    }

    /// The switch or controller that is asked, if one is.
    pub fn switch(&self) -> Result<Option<Client>, Failure> {
        let path = match (&self.score_socket, &self.score) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) => socket::path(name).with_context(|| format!("--score {name}"))?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Client::connect(path).context("--score")?))
    }
}

fn keys(text: &str) -> Result<Keys, String> {
    Keys::ALL.into_iter().find(|keys| keys.name() == text).ok_or_else(|| "random, scan, range or clients".into())
}

fn drain(text: &str) -> Result<Duration, String> {
    words::time(text).and_then(|time| if time > HOUR { Err("at most 1h".into()) } else { Ok(time) })
}

fn burst(text: &str) -> Result<usize, String> {
    let burst = text.parse().ok().filter(|n| (1..=MAX_BURST).contains(n));
    burst.ok_or_else(|| format!("1 to {MAX_BURST}"))
}

fn tcp_flags(text: &str) -> Result<u8, String> {
    const NAMES: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    text.split('+').try_fold(0, |flags, name| {
        let bit = NAMES.iter().position(|known| *known == name);
        bit.map(|bit| flags | 1 << bit).ok_or_else(|| format!("{name:?}: flags are {}", NAMES.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_their_bits() {
        assert_eq!((tcp_flags("syn"), tcp_flags("syn+ack"), tcp_flags("fin")), (Ok(2), Ok(0x12), Ok(1)));
        assert!(tcp_flags("x").is_err() && tcp_flags("").is_err());
    }
}
