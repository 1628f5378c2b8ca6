//! A packet of a large frame, whose payload is not beside its headers, is to the switch what the
//! same packet in one buffer is: every program, table and port does and counts the same.

use etherparse::PacketBuilder;
use proptest::prelude::*;
use weir::assemble::{Assembly, assemble};
use weir::config::Config;
use weir::observe::{CaptureOptions, Direction, Observers};
use weir::pisa::{DropReason, PortId};
use weir::program::ProgramConfig;
use weir::switch::{BURST, Burst, TxBursts};
use weir::wire::{Frame, HeapFrame};

#[path = "common/records.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod records;
#[path = "common/frames.rs"]
#[allow(dead_code)]
mod frames;

use frames::{address, host_mac, mend, own, port};
use records::Records;

const PORTS: usize = 4;
const NOW: u64 = 1_790_000_000_000_000_000;
/// Bytes of payload that such a packet has beside its headers.
const BESIDE: usize = 16;

/// In the order of their names.
const PROGRAMS: [&str; 3] = [
    "chamelemon:tower=8x64+16x32,upstream=64,downstream=48,hl=16,ll=16,hh_threshold=4,hl_threshold=2",
    "hashpipe:stages=3,slots=64",
    "pint:queries=path:bits=8+latency:bits=8",
];

/// A frame in two places, as an mbuf that refers to a large frame's buffer.
#[derive(Clone)]
struct Scattered {
    head: HeapFrame,
    rest: Vec<u8>,
}

impl Scattered {
    fn new(bytes: &[u8]) -> Self {
        let (head, rest) = bytes.split_at((headers_of(bytes) + BESIDE).min(bytes.len()));
        Self { head: HeapFrame::new(head), rest: rest.to_vec() }
    }
}

impl Frame for Scattered {
    fn bytes(&self) -> &[u8] {
        self.head.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.head.bytes_mut()
    }

    fn wire_len(&self) -> usize {
        self.head.wire_len() + self.rest.len()
    }

    fn headroom(&self) -> usize {
        self.head.headroom()
    }

    fn grow_front(&mut self, n: usize) -> bool {
        self.head.grow_front(n)
    }

    fn shrink_front(&mut self, n: usize) -> bool {
        self.head.shrink_front(n)
    }

    fn resize(&mut self, length: usize) -> bool {
        self.gather() && self.head.resize(length)
    }

    fn gather(&mut self) -> bool {
        let rest = std::mem::take(&mut self.rest);
        let head = self.head.bytes().len();
        let grown = self.head.resize(head + rest.len());
        self.head.bytes_mut()[head..].copy_from_slice(&rest);
        grown
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// Bytes of headers of a frame that this test has made.
fn headers_of(bytes: &[u8]) -> usize {
    let l3 = if bytes[12..14] == [0x81, 0] { 18 } else { 14 };
    let (l4, proto) = if bytes[l3 - 2] == 0x08 { (l3 + 20, bytes[l3 + 9]) } else { (l3 + 40, bytes[l3 + 6]) };
    l4 + if proto == 6 { usize::from(bytes[l4 + 12] >> 4) * 4 } else { 8 }
}

/// A large frame.
#[derive(Clone, Debug)]
struct Large {
    ingress: PortId,
    from: u8,
    to: u8,
    v6: bool,
    tcp: bool,
    broadcast: bool,
    /// The VLAN that a tag names, if there is one.
    tag: Option<u16>,
    dport: u16,
    ttl: u8,
    dont_fragment: bool,
    segments: usize,
    segment: usize,
    last: usize,
}

impl Large {
    /// The packets that it becomes.
    fn packets(&self, routes: bool) -> Vec<Vec<u8>> {
        (0..self.segments).map(|i| self.packet(i, routes)).collect()
    }

    fn packet(&self, i: usize, routes: bool) -> Vec<u8> {
        let Self { from, to, ttl, .. } = *self;
        let mac = match () {
            () if self.broadcast => [0xff; 6],
            () if routes => own(self.ingress as u8),
            () => host_mac(to),
        };
        let link = PacketBuilder::ethernet2(host_mac(from), mac);
        let ip = match self.v6 {
            true => link.ipv6([from; 16], [to; 16], ttl),
            false => link.ipv4(address(from).octets(), address(to).octets(), ttl),
        };
        let payload: Vec<u8> = (0..if i + 1 == self.segments { self.last } else { self.segment })
            .map(|at| (at * 7 + i * 31 + usize::from(self.dport)) as u8)
            .collect();
        let mut bytes = Vec::new();
        match self.tcp {
            true => {
                let tcp = ip.tcp(4000, self.dport, (i * self.segment) as u32, 100).ack(7);
                let stamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
                tcp.options_raw(&stamps).unwrap().write(&mut bytes, &payload).unwrap();
            }
            false => ip.udp(4000, self.dport).write(&mut bytes, &payload).unwrap(),
        }
        if !self.v6 {
            bytes[18..20].copy_from_slice(&(i as u16 + self.dport).to_be_bytes());
            bytes[20] = if self.dont_fragment { 0x40 } else { 0 };
            mend(&mut bytes);
        }
        if let Some(vid) = self.tag {
            bytes.splice(12..12, [0x81, 0, 0x40, vid as u8]);
        }
        bytes
    }
}

fn large() -> impl Strategy<Value = Large> {
    let place = (0..PORTS as PortId, 0..4u8, 0..5u8);
    let tag = prop_oneof![3 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(5)), 1 => Just(Some(6))];
    let kind = (any::<bool>(), any::<bool>(), proptest::bool::weighted(0.1), any::<bool>(), tag);
    let size = (1..=BURST, 1..1500usize, 1..1500usize);
    (place, kind, 1..6u16, prop_oneof![Just(1u8), Just(64)], size).prop_map(
        |((ingress, from, to), (v6, tcp, broadcast, dont_fragment, tag), dport, ttl, (segments, segment, last))| {
            Large {
                ingress,
                from,
                to,
                v6,
                tcp,
                broadcast,
                tag,
                dport,
                ttl,
                dont_fragment,
                segments,
                segment,
                last: last.min(segment),
            }
        },
    )
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    forward: &'static str,
    fabric: bool,
    features: bool,
    /// Access ports, trunks and a port of both; the one that may be a fabric port is a QinQ port.
    vlans: bool,
    captures: bool,
}

impl Setting {
    fn routes(self) -> bool {
        self.forward == "route"
    }

    fn config(self) -> Config {
        let fabric = if self.fabric { "fabric" } else { "host" };
        let roles = [("host", 1500), ("host", 900), (fabric, 1600), ("host", 1500)];
        let ports = (0..).zip(roles).map(|(n, (role, mtu))| {
            let addresses = if self.routes() { format!("addresses = [\"10.0.{n}.1/24\"]\n") } else { String::new() };
            let limits = match n {
                3 if self.features => "tx_limit = \"1Mbps,burst=20KB\"\n",
                _ => "",
            };
            let vlans = match n {
                _ if !self.vlans => "",
                0 => "vlan = 5\n",
                1 => "trunk = [5, 6]\n",
                2 if self.fabric => "",
                2 => "qinq = 5\n",
                _ => "vlan = 6\ntrunk = [5]\n",
            };
            port(&format!("p{n}"), role, mtu, &(addresses + limits + vlans))
        });
        let neighbours = (0..PORTS).filter(|_| self.routes()).map(|n| {
            format!("[[neighbour]]\naddress = \"10.0.{n}.10\"\nport = \"p{n}\"\nmac = \"02:01:00:00:00:0{n}\"\n")
        });
        let features = "[[mirror]]\nfrom = \"p0\"\nto = \"p3\"\ndirection = \"rx\"\n\
                        [[acl]]\nname = \"deny\"\naction = \"deny\"\ndport = 3\n";
        let head = format!("[switch]\nforward = \"{}\"\nreproducible = 1\n", self.forward);
        let text: String = std::iter::once(head).chain(ports).chain(neighbours).collect();
        let text = text + if self.features { features } else { "" };
        let mut config = Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        config.programs = PROGRAMS.map(|words| words.parse::<ProgramConfig>().unwrap()).into();
        config
    }
}

/// All that can be known of a switch after these frames.
#[derive(Debug, PartialEq)]
struct Outcome {
    sent: Vec<(PortId, Vec<u8>)>,
    captured: Vec<(PortId, Direction, u32, Vec<u8>)>,
    counts: Vec<u64>,
    records: Vec<Vec<u8>>,
}

fn run<F: Frame>(setting: Setting, frames: &[Large], make: impl Fn(&[u8]) -> F) -> Outcome {
    let config = setting.config();
    let assembly = assemble(&config, None, 1).unwrap();
    let Assembly { mut switches, mut collector, mut learning, .. } = assembly;
    let mut switch = switches.remove(0);
    let programs = Records::of(&mut collector);
    let observers = Observers::default();
    switch.attach(&observers);
    let options = CaptureOptions { rx: true, tx: true, drops: true, snaplen: 2000, ..CaptureOptions::default() };
    let capture = setting.captures.then(|| observers.capture(options).unwrap());
    let mut out = TxBursts::new(PORTS);
    let (mut sent, mut captured) = (Vec::new(), Vec::new());
    for (now, large) in (NOW..).step_by(1000).zip(frames) {
        let mut burst: Burst<F> = large.packets(setting.routes()).iter().map(|bytes| make(bytes)).collect();
        while !burst.is_empty() {
            switch.process(large.ingress, &mut burst, now, &mut out);
            if let Some(learning) = &mut learning {
                learning.serve(now);
            }
            for (port, queue) in out.queues() {
                sent.extend(queue.drain(..).map(|mut frame| {
                    assert!(frame.gather());
                    (port, frame.bytes().to_vec())
                }));
            }
        }
        while let Some(record) = capture.as_ref().and_then(|capture| capture.observer.take()) {
            captured.push((record.port, record.direction, record.wire_bytes, record.bytes.clone()));
            capture.as_ref().unwrap().observer.give_back(record);
        }
    }
    let stats = switch.stats().clone();
    let port = |id: PortId| {
        let stats = stats.port(id);
        let drops = DropReason::ALL.map(|reason| stats.dropped(reason));
        [stats.rx_packets.get(), stats.rx_bytes.get(), stats.copies.get(), stats.without_shim.get()]
            .into_iter()
            .chain(drops)
            .collect::<Vec<_>>()
    };
    let counts = (0..PORTS as PortId).flat_map(port).chain([stats.unmeasured.get()]).collect();
    switch.finish();
    collector.finish();
    let records = (0..PROGRAMS.len()).map(|program| programs.any(program).unwrap().encode()).collect();
    Outcome { sent, captured, counts, records }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn payload_that_lies_elsewhere_changes_nothing(
        forward in prop_oneof![Just("learn"), Just("xconnect"), Just("route")],
        (fabric, features, vlans) in any::<(bool, bool, bool)>(),
        captures in proptest::bool::weighted(0.2),
        frames in proptest::collection::vec(large(), 1..12),
    ) {
        let setting = Setting { forward, fabric, features, vlans, captures };
        let whole = run(setting, &frames, HeapFrame::new);
        let scattered = run(setting, &frames, Scattered::new);
        prop_assert_eq!(&whole.counts, &scattered.counts);
        prop_assert_eq!(&whole.records, &scattered.records);
        prop_assert_eq!(&whole.captured, &scattered.captured);
        prop_assert_eq!(&whole.sent, &scattered.sent);
        prop_assert!(whole.counts[0] + whole.counts.iter().sum::<u64>() > 0);
    }
}
