//! The words of `pktgen conversations`.

use std::path::PathBuf;
use std::time::Duration;

use pktgen::conversations::{Clients, Limits, Link, Prefix, Scripts, Settings, longest_frame};
use pktgen::engine::Setup;
use pktgen::pace::{Arrivals, Pace, Rate};
use pktgen::words;
use weir::port::{Dev, FaultSpec};
use weir::wire::Mac;

use crate::Failure;

/// Groups of options.
const DEVICES: &str = "Devices and cores";
const TRAFFIC: &str = "What is said";
const TCP: &str = "TCP";
const PACE: &str = "How fast and how long";
const OUTPUT: &str = "Output";

#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "pktgen conversations --pcap FILE --client DEV --server DEV [OPTIONS]")]
#[command(after_long_help = "\
Both ends of each conversation are pktgen's: clients at one port, servers at
the other, with what is tested between them. Both ports may be one that gives
back what is sent, as a ring does. What the capture has and what is left out
of it is said before the run.

EXAMPLES
  pktgen conversations --pcap web.pcap --client ring:a --server ring:a
  pktgen conversations --pcap web.pcap --client veth:h1 --server veth:h2 \\
      --rate 100/s --duration 10s
  pktgen conversations --pcap web.pcap --client veth:h1 --server veth:h2 \\
      --rate 1k/s --conversations 50k --clients 10.1.0.0/16 --pauses 1s")]
pub struct Arguments {
    /// The capture whose TCP conversations are held: pcap or pcapng, compressed or not
    #[arg(long, value_name = "FILE", help_heading = TRAFFIC)]
    pub pcap: PathBuf,
    /// The device of the clients: tap:NAME, veth:IFACE, xdp:IFACE, pci:ADDR, memif:ID, vhost:PATH,
    /// virtio-user:PATH, ring:NAME
    #[arg(long, value_name = "DEV", help_heading = DEVICES)]
    client: Dev,
    /// The device of the servers; that of the clients if it is the same
    #[arg(long, value_name = "DEV", help_heading = DEVICES)]
    server: Dev,
    /// The core that holds both ends [one that the kernel chooses]
    #[arg(long, value_name = "N", help_heading = DEVICES)]
    core: Option<usize>,
    /// Addresses that clients have instead of those of the capture; one prefix of each IP version
    /// [198.19.0.0/16 and 2001:2::/112]
    #[arg(long, value_name = "PREFIX", help_heading = TRAFFIC)]
    clients: Vec<Prefix>,
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", help_heading = TRAFFIC)]
    client_mac: Mac,
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02", help_heading = TRAFFIC)]
    server_mac: Mac,
    /// A VLAN tag on all frames
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..4095), help_heading = TRAFFIC)]
    vlan: Option<u16>,
    /// Waits before each turn as in the capture, but no longer than this [does not wait]
    #[arg(long, value_name = "LENGTH", value_parser = words::time, help_heading = TRAFFIC)]
    pauses: Option<Duration>,
    /// The same seed gives the same sequence numbers
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRAFFIC)]
    pub seed: u64,
    /// Conversations that are started in a second: 100/s, 2k/s, or max, as many as may be open
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "max", help_heading = PACE)]
    rate: Rate,
    /// How gaps between starts vary around their mean: constant, poisson, or on-off:ON,OFF
    #[arg(long, value_name = "ARRIVALS", default_value = "constant", requires = "rate", help_heading = PACE)]
    arrivals: Arrivals,
    /// Starts none after this time
    #[arg(long, value_name = "LENGTH", value_parser = words::time, help_heading = PACE)]
    pub duration: Option<Duration>,
    /// As many conversations, those of the capture in turn [each of the capture once; with --duration
    /// without end]
    #[arg(long, value_name = "N", value_parser = words::count, help_heading = PACE)]
    conversations: Option<u64>,
    /// Most conversations that are open at a time. What is due meanwhile is not started, and counted
    #[arg(long, value_name = "N", value_parser = max_open, default_value = "10k", help_heading = PACE)]
    max_open: u32,
    /// How long conversations that are open behind the last start are waited for
    #[arg(long, value_name = "LENGTH", value_parser = words::time, default_value = "15s", help_heading = PACE)]
    pub drain: Duration,
    /// Largest payload of a segment over IPv4; over IPv6 it is 20 bytes less
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(100..=8900), default_value = "1460", help_heading = TCP)]
    mss: u16,
    /// Bytes that an end sends ahead of their acknowledgement
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1000..), default_value = "65535", help_heading = TCP)]
    window: u16,
    /// How long an acknowledgement is waited for before a segment is sent again; it doubles each time,
    /// up to eight times the length
    #[arg(long, value_name = "LENGTH", value_parser = timeout, default_value = "200ms", help_heading = TCP)]
    timeout: Duration,
    /// How often a segment is sent again before its conversation is given up
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), default_value = "8", help_heading = TCP)]
    tries: u8,
    /// Faults of the own ports, as with `weir run`: tx:drop=1%;rx:delay=5ms
    #[arg(long, value_name = "SPEC", help_heading = DEVICES)]
    fault: Option<FaultSpec>,
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

/// Most conversations at a time: they take about 600 MB.
const MAX_OPEN: u64 = 1 << 20;
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(10)];

impl Arguments {
    pub fn settings(&self, scripts: &Scripts) -> Result<Settings, Failure> {
        let clients = Clients::new(&self.clients, self.max_open, scripts);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Settings {
            max_open: self.max_open,
            limits: Limits {
                mss: self.mss,
                window: self.window,
                timeout_ns: nanoseconds(self.timeout),
                tries: self.tries,
            },
            longest_pause_ns: self.pauses.map_or(0, nanoseconds),
            clients: clients.map_err(|error| Failure::Usage(error.to_string()))?,
            link: Link { client: self.client_mac, server: self.server_mac, vlan: self.vlan },
            seed: self.seed,
        })
    }

    pub fn setup(&self) -> Setup {
        Setup {
            tx: self.client.clone(),
            rx: Some(self.server.clone()),
            cores: vec![self.core],
            longest: longest_frame(self.mss),
            fault: self.fault.clone(),
            huge_pages: !self.no_huge_pages,
            buffers: self.buffers,
            eal: self.eal.clone(),
        }
    }

    pub fn pace(&self) -> Pace {
        Pace::Rate(self.rate, self.arrivals)
    }

    /// Conversations in a second; none where as many as may be are open.
    pub fn asked(&self) -> Option<f64> {
        match self.rate {
            Rate::Packets(n) => Some(n),
            Rate::Max | Rate::Bits(..) => None,
        }
    }

    /// How many are started, of a capture with as many.
    pub fn conversations(&self, captured: usize) -> u64 {
        self.conversations.unwrap_or(if self.duration.is_some() { u64::MAX } else { captured as u64 })
    }
}

/// Conversations in a second. A schedule's packet is the start of a conversation here.
fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let wrong = || format!("{text:?}: write 100/s, 2k/s or max; 1/s to 10M/s");
    let number = weir::text::scaled(text, "/s").filter(|n| (1..=10_000_000).contains(n)).ok_or_else(wrong)?;
    Ok(Rate::Packets(number as f64))
}

fn max_open(text: &str) -> Result<u32, String> {
    let number = words::count(text)?;
    u32::try_from(number).ok().filter(|_| number <= MAX_OPEN).ok_or_else(|| format!("1 to {MAX_OPEN}"))
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = words::time(text)?;
    let [least, most] = TIMEOUTS;
    if (least..=most).contains(&time) { Ok(time) } else { Err(format!("{least:?} to {most:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_conversations() {
        assert_eq!(
            (rate("100/s"), rate("2k/s"), rate("max")),
            (Ok(Rate::Packets(100.0)), Ok(Rate::Packets(2e3)), Ok(Rate::Max))
        );
        for wrong in ["", "100", "0/s", "100pps", "11M/s", "-1/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!((max_open("10k"), timeout("1s")), (Ok(10_000), Ok(Duration::from_secs(1))));
        assert!(max_open("2M").is_err() && timeout("1us").is_err() && timeout("1m").is_err());
    }
}
