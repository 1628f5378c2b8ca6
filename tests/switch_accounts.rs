//! Whatever comes in, at whatever port: every packet goes out or is counted, and hosts see no
//! telemetry shim.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use weir::config::SwitchConfig;
use weir::forward::{Forward, Xconnect};
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, DropReason, PortId};
use weir::program::ProgramConfig;
use weir::switch::{BURST, Burst, PortInfo, Role, Switch, Telemetry, TelemetryHeader, TxBursts};
use weir::tables::Learning;
use weir::telemetry::epoch::EpochClock;
use weir::wire::{Frame, HeapFrame, Shim, shim};

/// Over the MTU: an Ethernet header and four tags.
const L2: usize = 30;

#[derive(Clone, Debug)]
struct World {
    ports: Vec<(Role, u32)>,
    forwarding: Forwarding,
    program: bool,
    stage_major: bool,
    telemetry_header: TelemetryHeader,
    bursts: Vec<Incoming>,
}

#[derive(Clone, Debug)]
enum Forwarding {
    Learn,
    /// Pairs; some name ports that do not exist.
    Xconnect(Vec<(PortId, PortId)>),
}

#[derive(Clone, Debug)]
struct Incoming {
    /// May be a port that does not exist.
    port: PortId,
    now: u64,
    /// Links, a bit each.
    up: u8,
    /// The hop count in all shims of the burst.
    hop: u8,
    frames: Vec<Packet>,
}

#[derive(Clone, Debug)]
struct Packet {
    to: u8,
    from: u8,
    shim: ShimKind,
    tags: usize,
    ethertype: u16,
    length: usize,
    /// Bytes of the frame that are there.
    cut: usize,
    noise: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ShimKind {
    None,
    Known,
    UnknownVersion,
    Twice,
}

impl Packet {
    fn bytes(&self, hop: u8) -> Vec<u8> {
        let host_mac = |n: u8| match n {
            6 => [0xff; 6],
            7 => [0x01, 0x80, 0xc2, 0, 0, 0],
            n => [2, 0, 0, 0, 0, n],
        };
        let mut bytes = [host_mac(self.to), host_mac(self.from % 6)].concat();
        let mut words = vec![0; shim::LEN];
        Shim::new(hop, 2, 0xbeef7, 0).emit(&mut words).unwrap();
        match self.shim {
            ShimKind::None => {}
            ShimKind::Known => bytes.extend(&words),
            ShimKind::UnknownVersion => {
                words[3] |= 0xc0;
                bytes.extend(&words);
            }
            ShimKind::Twice => bytes.extend([&words[..], &words].concat()),
        }
        for tag in 0..self.tags {
            bytes.extend([0x81, 0x00, 0, tag as u8 + 1]);
        }
        bytes.extend(self.ethertype.to_be_bytes());
        bytes.extend([0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, self.from, 10, 0, 0, self.to]);
        bytes.resize(bytes.len() + self.length, self.noise);
        bytes.truncate(self.cut);
        bytes
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let shims = prop_oneof![
        4 => Just(ShimKind::None),
        4 => Just(ShimKind::Known),
        1 => Just(ShimKind::UnknownVersion),
        1 => Just(ShimKind::Twice),
    ];
    let ethertype =
        prop_oneof![4 => Just(0x0800), 1 => Just(0x86dd), 1 => Just(0x88b5), 1 => Just(0x0806), 1 => any::<u16>()];
    let length = prop_oneof![4 => 0usize..100, 2 => 1420usize..1520, 1 => 0usize..3000];
    let cut = prop_oneof![1 => 0usize..40, 6 => Just(usize::MAX)];
    (0u8..8, 0u8..6, shims, 0usize..4, ethertype, length, cut, any::<u8>()).prop_map(
        |(to, from, shim, tags, ethertype, length, cut, noise)| Packet {
            to,
            from,
            shim,
            tags,
            ethertype,
            length,
            cut,
            noise,
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let role = prop_oneof![Just(Role::Host), Just(Role::Fabric)];
    let mtu = prop_oneof![Just(68u32), Just(1500), Just(9216), 68u32..2000];
    let forwarding = prop_oneof![
        Just(Forwarding::Learn),
        Just(Forwarding::Xconnect(vec![(0, 1), (2, 3)])),
        Just(Forwarding::Xconnect(vec![(0, 200), (1, PortId::MAX)])),
    ];
    let incoming = (0u16..6, 0u64..1000, any::<u8>(), 0u8..=shim::MAX_HOP, prop::collection::vec(packet(), 0..BURST));
    let incoming =
        incoming.prop_map(|(port, now, up, hop, frames)| Incoming { port, now: now * 1_000_000, up, hop, frames });
    let bursts = prop::collection::vec(incoming, 1..8);
    let telemetry_header = prop_oneof![Just(TelemetryHeader::Shim), Just(TelemetryHeader::Dscp)];
    (prop::collection::vec((role, mtu), 1..5), forwarding, any::<bool>(), any::<bool>(), telemetry_header, bursts)
        .prop_map(|(ports, forwarding, program, stage_major, telemetry_header, bursts)| World {
            ports,
            forwarding,
            program,
            stage_major,
            telemetry_header,
            bursts,
        })
}

struct Bench {
    switch: Switch,
    learning: Option<Learning>,
    ports: Vec<PortInfo>,
    /// All packets of a port have one way. The switch then trusts the port they came from to have
    /// kept its MTU.
    fixed: bool,
    /// It does not even look into the frames.
    blind: bool,
    telemetry_header: TelemetryHeader,
    now: u64,
    received: u64,
    queued: u64,
    bare: u64,
}

impl Bench {
    fn new(world: &World) -> Self {
        let port = |&(role, mtu): &(Role, u32)| PortInfo {
            role,
            mtu,
            up: Arc::new(AtomicBool::new(true)),
            mac: Arc::new(AtomicU64::new(0)),
            inside: Arc::default(),
        };
        let ports: Vec<_> = world.ports.iter().map(port).collect();
        let hashes = HashFamily::reproducible(1);
        let (learning, forward) = match &world.forwarding {
            Forwarding::Xconnect(pairs) => (None, Forward::Xconnect(Xconnect::new(pairs).unwrap())),
            Forwarding::Learn => {
                let (learning, mut forwards) =
                    Learning::new(&SwitchConfig::default(), hashes.derive("forward/stations", 0), 1);
                (Some(learning), forwards.remove(0))
            }
        };
        let program: ProgramConfig = "hashpipe:stages=2,slots=8".parse().unwrap();
        let programs = world.program.then(|| program.build("s", &hashes).unwrap()).into_iter().collect();
        let order = if world.stage_major { BatchOrder::StageMajor } else { BatchOrder::PacketMajor };
        // Nobody collects: every epoch runs on into the next.
        let (telemetry, _) = Telemetry::new(programs, EpochClock::new(Some(50_000_000)), 0);
        let switch = Switch::new(ports.clone(), telemetry, forward, order);
        let switch = switch.with_telemetry_header(world.telemetry_header);
        let fixed = learning.is_none() && ports.iter().all(|port| port.role == Role::Host);
        Self {
            switch,
            learning,
            ports,
            fixed,
            blind: fixed && !world.program,
            telemetry_header: world.telemetry_header,
            now: 0,
            received: 0,
            queued: 0,
            bare: 0,
        }
    }

    fn burst(&mut self, incoming: &Incoming) {
        for (i, port) in self.ports.iter().enumerate() {
            port.up.store(incoming.up >> i & 1 == 1, Relaxed);
        }
        self.now += incoming.now;
        let mut burst: Burst<_> = incoming.frames.iter().map(|p| HeapFrame::new(&p.bytes(incoming.hop))).collect();
        let mut out = TxBursts::new(self.ports.len());
        self.switch.process(incoming.port, &mut burst, self.now, &mut out);
        assert!(burst.is_empty());
        if usize::from(incoming.port) < self.ports.len() {
            self.received += incoming.frames.len() as u64;
        }
        for (id, queue) in out.queues() {
            let port = &self.ports[usize::from(id)];
            assert!(port.up.load(Relaxed), "nothing leaves by a port that is down");
            assert_ne!(id, incoming.port, "nothing goes back");
            self.queued += queue.len() as u64;
            for frame in queue.iter() {
                let limited = !self.fixed || port.mtu < self.ports[usize::from(incoming.port)].mtu;
                let longest = port.mtu as usize + L2 + if port.role == Role::Fabric { shim::LEN } else { 0 };
                assert!(!limited || frame.wire_len() <= longest);
                self.bare += look(frame, port, incoming.hop, self.blind, self.telemetry_header);
            }
        }
        if let Some(learning) = &mut self.learning {
            learning.serve(self.now);
        }
    }

    fn check(&self) {
        let sum = |count: &dyn Fn(&weir::stats::PortStats) -> u64| self.switch.stats().ports().map(count).sum::<u64>();
        let dropped = |port: &weir::stats::PortStats| DropReason::ALL.iter().map(|&reason| port.dropped(reason)).sum();
        assert_eq!(sum(&|port| port.rx_packets.get()), self.received);
        assert_eq!(self.received + sum(&|port| port.copies.get()), self.queued + sum(&dropped));
        assert_eq!(sum(&|port| port.without_shim.get()), self.bare);
        assert_eq!(sum(&|port| port.dropped(DropReason::NoBuffer) + port.dropped(DropReason::TxFull)), 0);
    }
}

/// What a frame may look like where it leaves. 1 when it goes to a fabric port without a shim.
fn look(frame: &HeapFrame, port: &PortInfo, hop: u8, blind: bool, telemetry_header: TelemetryHeader) -> u64 {
    if blind {
        return 0;
    }
    let bytes = frame.bytes();
    assert!(bytes.len() >= 14);
    if telemetry_header == TelemetryHeader::Dscp {
        assert_ne!(bytes[12..14], [0x88, 0xb5], "a shim where there are none");
        return 0;
    }
    let carried = shim::peek(bytes);
    match port.role {
        Role::Host => {
            assert_ne!(bytes[12..14], [0x88, 0xb5], "a host sees a shim");
            0
        }
        Role::Fabric => {
            let Ok(shim) = carried else { return 1 };
            let next = (hop + 1).min(shim::MAX_HOP);
            assert!(
                (shim.hop(), shim.loops()) == (1, 0) || (shim.hop(), shim.loops(), shim.epoch()) == (next, 2, 0xbeef7),
                "{shim:?} after {hop}"
            );
            assert_ne!(bytes[18..20], [0x88, 0xb5], "a shim upon a shim");
            0
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_accounted_for(world in world()) {
        let mut bench = Bench::new(&world);
        for incoming in &world.bursts {
            bench.burst(incoming);
            bench.check();
        }
        bench.switch.finish();
        bench.check();
    }
}

#[test]
fn a_verdict_that_names_no_port_is_counted() {
    for program in [false, true] {
        let world = World {
            ports: vec![(Role::Host, 1500)],
            forwarding: Forwarding::Xconnect(vec![(0, PortId::MAX)]),
            program,
            stage_major: false,
            telemetry_header: TelemetryHeader::Shim,
            bursts: Vec::new(),
        };
        let mut bench = Bench::new(&world);
        let packet =
            Packet { to: 1, from: 2, shim: ShimKind::None, tags: 0, ethertype: 0x0800, length: 60, cut: 99, noise: 0 };
        bench.burst(&Incoming { port: 0, now: 0, up: 1, hop: 0, frames: vec![packet; 3] });
        bench.check();
        assert_eq!(bench.switch.stats().port(0).dropped(DropReason::NoRoute), 3);
    }
}

#[test]
fn what_no_program_measures_is_counted() {
    let world = World {
        ports: vec![(Role::Host, 1500), (Role::Host, 1500)],
        forwarding: Forwarding::Xconnect(vec![(0, 1)]),
        program: true,
        stage_major: false,
        telemetry_header: TelemetryHeader::Shim,
        bursts: Vec::new(),
    };
    let mut bench = Bench::new(&world);
    let packet =
        |ethertype| Packet { to: 1, from: 2, shim: ShimKind::None, tags: 0, ethertype, length: 60, cut: 99, noise: 0 };
    let frames = [0x0800, 0x0806, 0x88cc, 0x0800, 0x0806].map(packet).to_vec();
    bench.burst(&Incoming { port: 0, now: 0, up: 3, hop: 0, frames });
    bench.check();
    assert_eq!(bench.switch.stats().unmeasured.get(), 3);
}

#[test]
fn a_packet_crosses_a_fabric_hop_by_hop() {
    let bench = |a, b| {
        Bench::new(&World {
            ports: vec![(a, 1500), (b, 1500)],
            forwarding: Forwarding::Xconnect(vec![(0, 1)]),
            program: true,
            stage_major: false,
            telemetry_header: TelemetryHeader::Shim,
            bursts: Vec::new(),
        })
    };
    let path = [(Role::Host, Role::Fabric), (Role::Fabric, Role::Fabric), (Role::Fabric, Role::Host)];
    let packet =
        Packet { to: 1, from: 2, shim: ShimKind::None, tags: 1, ethertype: 0x0800, length: 60, cut: 99, noise: 7 };
    let sent = packet.bytes(0);
    let mut frame = HeapFrame::new(&sent);
    for (hop, (a, b)) in (1..).zip(path) {
        let mut bench = bench(a, b);
        let mut out = TxBursts::new(2);
        let mut burst = Burst::new();
        burst.push(frame);
        bench.switch.process(0, &mut burst, 0, &mut out);
        let (id, queue) = out.queues().next().expect("it goes on");
        assert_eq!((id, queue.len()), (1, 1));
        frame = queue.remove(0);
        assert_eq!(shim::peek(frame.bytes()).ok().map(Shim::hop), (hop < 3).then_some(hop));
    }
    assert_eq!(frame.bytes(), sent, "the host gets what the other sent");
}
