use super::*;
use crate::pisa::hash::HashFamily;
use crate::program::ReportBuffer;
use crate::program::pint::dataplane::Measured;
use crate::program::pint::record::{Arrival, Room};

/// A network of switches `a` to `j`, whose packets are numbered.
struct Network {
    recorder: Recorder,
    family: HashFamily,
    coding: Coding,
    config: Config,
    packets: u32,
    epoch: u64,
}

impl Network {
    fn new(config: Config) -> Self {
        let mut recorder = Recorder::new(&config);
        "abcdefghij".chars().for_each(|name| recorder.name(&name.to_string().into()));
        let family = HashFamily::reproducible(3);
        let coding = Coding::new(config.parameters(), &family);
        Self { recorder, family, coding, config, packets: 0, epoch: 0 }
    }

    /// An epoch in which so many packets of a flow took a path.
    fn epoch(&mut self, flow: u64, path: &str, packets: u32) -> Vec<FlowPath> {
        let coded: Vec<_> = path.chars().map(|name| self.coding.scheme.switch(switch_id(&name.to_string()))).collect();
        let mut buffer = ReportBuffer::with_capacity(self.config.reports as usize);
        for identity in self.packets..self.packets + packets {
            let (time_ns, hops) = (identity.into(), path.len() as u8);
            let flow = FiveTuple([4 << 40 | flow, 0, 1, 0, 2]);
            let digest = (1..).zip(&coded).fold(0, |digest, (hop, switch)| {
                self.coding.scheme.encode(switch, Measured { hop, identity, ..Measured::default() }, digest)
            });
            buffer.push(Arrival { time_ns, plan: self.coding.id, flow, hops, identity, digest });
        }
        self.packets += packets;
        self.take(path, &buffer)
    }

    fn take(&mut self, path: &str, buffer: &ReportBuffer<Arrival>) -> Vec<FlowPath> {
        let record = Digests::of(&self.family, Room::of(&self.config), &buffer.read());
        self.epoch += 1;
        self.recorder.epoch(self.epoch, &self.coding, &[(path[path.len() - 1..].into(), &record)])
    }
}

fn named(path: &FlowPath) -> String {
    path.switches.iter().map(|name| name.as_deref().unwrap_or("?")).collect()
}

#[test]
fn a_path_takes_packets_of_several_epochs() {
    let mut network = Network::new(Config::default());
    let mut before = Certainty::Undecided;
    for epoch in 1..=30 {
        let paths = network.epoch(1, "abcde", 4);
        let [path] = &paths[..] else { panic!("{paths:?}") };
        assert!(path.certainty >= before, "what is decided stays");
        assert_eq!((path.packets, path.contradictions, &*path.sink), (4 * epoch, 0, "e"));
        assert!(named(path).chars().zip("abcde".chars()).all(|(found, truth)| found == truth || found == '?'));
        before = path.certainty;
    }
    assert_eq!(before, Certainty::Sure);
}

#[test]
fn another_path_is_noticed() {
    let mut network = Network::new(Config::default());
    let path = network.epoch(1, "abcde", 200).remove(0);
    assert_eq!((named(&path), path.certainty), ("abcde".into(), Certainty::Sure));
    let path = network.epoch(1, "abfde", 30).remove(0);
    assert_eq!(path.contradictions, 1, "{path:?}");
    assert!(path.packets <= 30 && (path.certainty < Certainty::Sure || named(&path) == "abfde"));
    let path = network.epoch(1, "abfde", 200).remove(0);
    assert_eq!((named(&path), path.certainty), ("abfde".into(), Certainty::Sure));
    // One of another length.
    let path = network.epoch(1, "abe", 200).remove(0);
    assert_eq!((named(&path), path.certainty, path.contradictions), ("abe".into(), Certainty::Sure, 2));
}

/// Packets on two paths within an epoch, before anything is known: no mixture is sure.
#[test]
fn a_mixture_is_never_sure() {
    for changes in [1, 3, 10, 40] {
        let mut network = Network::new(Config::default());
        for _ in 0..20 {
            for path in ["abcde", "afghe"] {
                for found in network.epoch(1, path, changes) {
                    let right = ["abcde", "afghe"].contains(&&*named(&found));
                    assert!(right || found.certainty < Certainty::Sure, "{found:?}");
                }
            }
        }
    }
}

/// A switch that nobody has heard of is on the path.
#[test]
fn an_unknown_switch_leaves_the_path_undecided() {
    let mut network = Network::new(Config::default());
    for _ in 0..10 {
        let path = network.epoch(1, "abxde", 50).remove(0);
        assert!(path.certainty < Certainty::Sure, "{path:?}");
    }
    network.recorder.name(&"x".into());
    let path = (0..5).map(|_| network.epoch(1, "abxde", 50).remove(0)).last().unwrap();
    assert_eq!((named(&path), path.certainty), ("abxde".into(), Certainty::Sure));
}

#[test]
fn packets_that_come_twice_count_once() {
    let mut network = Network::new(Config::default());
    let first = network.epoch(1, "abcde", 10).remove(0);
    let mut same = Vec::new();
    for _ in 0..20 {
        network.packets = 0;
        same = network.epoch(1, "abcde", 10);
    }
    assert_eq!((same[0].packets, same[0].certainty), (10, first.certainty));
}

#[test]
fn memory_is_bounded() {
    let mut network = Network::new(Config { flows: 5, packets: 20, ..Config::default() });
    for flow in 0..12 {
        network.epoch(flow, "abcdefg", 9);
    }
    assert_eq!((network.recorder.flows.len(), network.recorder.evicted()), (5, 7));
    let kept: BTreeSet<_> = network.recorder.flows.iter().map(|(key, _)| key.flow.0[0] & 0xff).collect();
    assert_eq!(kept, (7..12).collect(), "those that were heard of last");
    // A record keeps as many of a flow, and the recorder no more over several epochs.
    for _ in 0..10 {
        let path = network.epoch(1, "abcdefg", 30).remove(0);
        assert!(path.packets <= 20 || path.certainty == Certainty::Sure, "{path:?}");
    }
    assert!(network.recorder.flows.iter().all(|(_, known)| known.seen.len() <= 20));
}
