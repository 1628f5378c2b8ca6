//! Whoever looks changes nothing: with captures and traces open a switch does to every packet what
//! it does without, and what was captured is what came in, went out and was dropped.

use proptest::prelude::*;
use weir::assemble::{Assembly, assemble};
use weir::config::{BatchOrderConfig, Config, ForwardMode, PortConfig};
use weir::observe::{Capture, CaptureOptions, Direction, Observers, Opened, PacketTrace, TraceOnce};
use weir::pisa::{DropReason, PortId};
use weir::port::Dev;
use weir::program::ProgramConfig;
use weir::switch::{BURST, Burst, Role, Switch, TxBursts};
use weir::telemetry::Collector;
use weir::wire::{Frame, HeapFrame};

#[path = "common/records.rs"]
#[allow(dead_code, reason = "some of it is for other tests")]
mod records;

use records::Records;

const PORTS: usize = 3;

/// The second has egress stages.
const PROGRAMS: [&str; 2] = [
    "hashpipe:stages=3,slots=4",
    "chamelemon:tower=8x64+16x32,upstream=64,downstream=48,hl=16,ll=16,hh_threshold=4,hl_threshold=2",
];

/// A frame between a few hosts and flows; some are runts, some carry a foreign shim.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    (0..5u8, 1..5u8, 0..8u8, prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x0806), Just(0x88b5)], 0..1600usize)
        .prop_map(|(to, from, flow, ethertype, length)| {
            let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from];
            bytes.extend(ethertype.to_be_bytes());
            let ip =
                [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, flow, 0, flow, 0, 53, 0, 20, 0, 0];
            bytes.extend(ip);
            bytes.resize(length.max(10), 0);
            bytes
        })
}

/// With the first so many of the programs.
fn config(learn: bool, fabric: bool, programs: usize, stage_major: bool) -> Config {
    let port = |n: usize| PortConfig {
        role: if fabric && n == 2 { Role::Fabric } else { Role::Host },
        mtu: if n == 1 { 1000 } else { 1500 },
        ..PortConfig::new(format!("p{n}"), Dev::Memory)
    };
    let mut config = Config { ports: (0..PORTS).map(port).collect(), ..Config::default() };
    config.switch.forward = if learn { ForwardMode::Learn } else { ForwardMode::Xconnect };
    config.switch.order = if stage_major { BatchOrderConfig::Stage } else { BatchOrderConfig::Packet };
    config.switch.reproducible = Some(1);
    let program = |words: &&str| words.parse::<ProgramConfig>().unwrap();
    config.programs = PROGRAMS[..programs].iter().map(program).collect();
    config
}

struct World {
    switch: Switch,
    collector: Collector,
    learning: Option<weir::tables::Learning>,
    run: Records,
    tx_bursts: TxBursts<HeapFrame>,
}

impl World {
    fn new(config: &Config) -> Self {
        let Assembly { mut switches, mut collector, learning, .. } = assemble(config, None, 1).unwrap();
        let run = Records::of(&mut collector);
        let tx_bursts = TxBursts::new(PORTS);
        Self { switch: switches.remove(0), collector, learning, run, tx_bursts }
    }

    /// What went out of each port.
    fn burst(&mut self, port: PortId, frames: &[Vec<u8>], now: u64) -> Vec<(PortId, Vec<u8>)> {
        let mut burst: Burst<HeapFrame> = frames.iter().map(|bytes| HeapFrame::new(bytes)).collect();
        self.switch.process(port, &mut burst, now, &mut self.tx_bursts);
        assert!(burst.is_empty());
        if let Some(learning) = &mut self.learning {
            learning.serve(now);
        }
        let mut sent = Vec::new();
        for (port, queue) in self.tx_bursts.queues() {
            sent.extend(queue.drain(..).map(|frame| (port, frame.bytes().to_vec())));
        }
        sent
    }

    fn counts(&self) -> Vec<u64> {
        let port = |stats: &weir::stats::PortStats| {
            let drops = DropReason::ALL.map(|reason| stats.dropped(reason));
            [
                stats.rx_packets.get(),
                stats.rx_bytes.get(),
                stats.copies.get(),
                stats.without_shim.get(),
                stats.remarked.get(),
            ]
            .into_iter()
            .chain(drops)
            .collect::<Vec<_>>()
        };
        let stats = self.switch.stats();
        (0..PORTS as PortId).flat_map(|id| port(stats.port(id))).chain([stats.unmeasured.get()]).collect()
    }

    /// The byte form of what each program measured.
    fn finish(mut self) -> Vec<Vec<u8>> {
        self.switch.finish();
        self.collector.finish();
        (0..PROGRAMS.len()).map_while(|program| Some(self.run.any(program)?.encode())).collect()
    }
}

fn captured(capture: &Opened<Capture>) -> Vec<(PortId, Direction, Vec<u8>)> {
    std::iter::from_fn(|| capture.observer.take())
        .map(|record| {
            let packet = (record.port, record.direction, record.bytes.clone());
            capture.observer.give_back(record);
            packet
        })
        .collect()
}

/// What a trace says of a packet, beside what was seen of it.
fn hold(trace: &PacketTrace, port: PortId, frames: &[Vec<u8>], sent: &[(PortId, Vec<u8>)]) {
    assert_eq!(trace.ingress, port);
    assert!(frames.contains(&trace.bytes));
    for out in &trace.sent {
        assert!(sent.contains(&(out.port, out.bytes.clone())), "it was not sent: {out:?}");
    }
    assert!(!trace.sent.is_empty() || !trace.drops.is_empty(), "it is nowhere: {trace:?}");
}

proptest! {
    #[test]
    fn an_observed_switch_is_the_same_switch(
        (learn, fabric, stage_major) in any::<(bool, bool, bool)>(),
        programs in 0..=PROGRAMS.len(),
        drops: bool,
        bursts in proptest::collection::vec(
            (0..PORTS as PortId, proptest::collection::vec(frame(), 0..BURST), any::<bool>()), 1..12),
    ) {
        let config = config(learn, fabric, programs, stage_major);
        let (mut plain, mut tapped) = (World::new(&config), World::new(&config));
        let observers = Observers::default();
        tapped.switch.attach(&observers);
        let all = CaptureOptions { rx: true, tx: true, drops, snaplen: 2000, ..CaptureOptions::default() };
        let capture = observers.capture(all).unwrap();
        for (now, (port, frames, trace)) in (1..).zip(&bursts) {
            let once = trace.then(|| observers.trace(TraceOnce::new("udp or arp".parse().unwrap(), None)).unwrap());
            let before = tapped.counts();
            let expected = plain.burst(*port, frames, now);
            let sent = tapped.burst(*port, frames, now);
            prop_assert_eq!(&sent, &expected);
            prop_assert_eq!(plain.counts(), tapped.counts());
            if let Some(told) = once.and_then(|once| once.observer.told()) {
                hold(&told, *port, frames, &sent);
            }

            let seen = captured(&capture);
            let of = |direction| seen.iter().filter(move |seen| seen.1 == direction);
            prop_assert!(of(Direction::Rx).map(|seen| (seen.0, &seen.2)).eq(frames.iter().map(|frame| (*port, frame))));
            prop_assert!(of(Direction::Tx).map(|seen| (seen.0, &seen.2)).eq(sent.iter().map(|sent| (sent.0, &sent.1))));
            let after = tapped.counts();
            for (i, reason) in DropReason::ALL.into_iter().enumerate().filter(|_| drops && !learn) {
                let at = usize::from(*port) * (5 + DropReason::ALL.len()) + 5 + i;
                prop_assert_eq!(of(Direction::Dropped(reason)).count() as u64, after[at] - before[at], "{:?}", reason);
            }
            prop_assert!(drops || seen.iter().all(|seen| !matches!(seen.1, Direction::Dropped(_))));
        }
        prop_assert_eq!(capture.observer.missed(0), 0);
        let measured = plain.finish();
        prop_assert_eq!(measured.len(), programs);
        prop_assert_eq!(measured, tapped.finish());
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    let mut world = World::new(&config(false, false, 0, false));
    let observers = Observers::default();
    world.switch.attach(&observers);
    let options = CaptureOptions { rx: true, snaplen: 1 << 20, ports: vec![0], ..CaptureOptions::default() };
    let capture = observers.capture(options).unwrap();
    let frames = vec![vec![7; 100]; BURST];
    (1..=10).for_each(|now| drop(world.burst(0, &frames, now)));
    let kept = captured(&capture).len() as u64;
    assert!(kept > 0 && capture.observer.missed(0) > 0);
    assert_eq!(kept + capture.observer.missed(0), 10 * BURST as u64);
    world.burst(0, &frames, 11);
    assert_eq!(captured(&capture).len(), BURST, "records that were given back are used again");
    world.burst(1, &frames, 12);
    capture.observer.end();
    world.burst(0, &frames, 13);
    assert!(captured(&capture).is_empty(), "another port, and an end");
}

#[test]
fn what_is_closed_is_open_no_more() {
    let observers = Observers::default();
    let mut worker = observers.of_worker();
    assert!(!worker.is_open());
    let options = || CaptureOptions { rx: true, snaplen: 64, ..CaptureOptions::default() };
    let captures: Vec<_> = (0..weir::observe::MAX_CAPTURES).map(|_| observers.capture(options()).unwrap()).collect();
    assert!(observers.capture(options()).is_err() && worker.is_open());
    let ids: Vec<_> = captures.iter().map(|capture| capture.observer.id()).collect();
    assert!(observers.end_capture(ids[2]) && captures[2].observer.has_ended() && !captures[1].observer.has_ended());
    drop(captures);
    assert!(!worker.is_open() && !observers.end_capture(ids[0]));
    let once = observers.trace(TraceOnce::new("arp".parse().unwrap(), Some(1))).unwrap();
    assert!(worker.is_open() && worker.looks_at_each());
    drop(once);
    assert!(!worker.is_open());
    let trace = || observers.trace(TraceOnce::new("arp".parse().unwrap(), None));
    let traces: Vec<_> = (0..weir::observe::MAX_TRACES).map(|_| trace().unwrap()).collect();
    assert!(trace().is_err());
    drop(traces);
    assert!(trace().is_ok());
}

/// What a port did not take: the driver shows it, with the port that it was for.
#[test]
fn what_a_port_did_not_take_is_captured() {
    let mut world = World::new(&config(false, false, 0, false));
    let frames: Vec<_> = (0..3u8).map(|n| HeapFrame::new(&[n; 70])).collect();
    let now = 5;
    world.switch.observers().dropped(1, &frames, DropReason::TxFull, now);
    let observers = Observers::default();
    world.switch.attach(&observers);
    let options = CaptureOptions { drops: true, snaplen: 64, ports: vec![1], ..CaptureOptions::default() };
    let capture = observers.capture(options).unwrap();
    world.switch.observers().dropped(1, &frames, DropReason::TxFull, now);
    world.switch.observers().dropped(2, &frames, DropReason::TxFull, now);
    let seen = captured(&capture);
    assert!(seen.iter().all(|seen| (seen.0, seen.1) == (1, Direction::Dropped(DropReason::TxFull))));
    assert_eq!(seen.iter().map(|seen| &seen.2[..]).collect::<Vec<_>>(), [[0; 64], [1; 64], [2; 64]]);
}
