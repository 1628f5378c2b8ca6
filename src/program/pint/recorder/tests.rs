mod reroutes;

use super::*;
use crate::pisa::hash::HashFamily;
use crate::program::ReportBuffer;
use crate::program::pint::dataplane::Measured;
use crate::program::pint::encoding::switch_id;
use crate::program::pint::record::{Arrival, Room};
use crate::wire::FiveTuple;

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
        self.copies(flow, path, packets, 1)
    }

    /// The same where each of them left so often.
    fn copies(&mut self, flow: u64, path: &str, packets: u32, copies: u64) -> Vec<FlowPath> {
        let coded: Vec<_> = path.chars().map(|name| self.coding.scheme.switch(switch_id(&name.to_string()))).collect();
        let mut buffer = ReportBuffer::with_capacity(self.config.reports as usize);
        for identity in self.packets..self.packets + packets {
            let hops = path.len() as u8;
            let flow = FiveTuple([4 << 40 | flow, 0, 1, 0, 2]);
            let digest = (1..).zip(&coded).fold(0, |digest, (hop, switch)| {
                self.coding.scheme.encode(switch, Measured { hop, identity, ..Measured::default() }, digest)
            });
            for copy in 0..copies {
                let time_ns = u64::from(identity) + copy * 10_000;
                buffer.push(Arrival { time_ns, plan: self.coding.id, flow, hops, identity, digest });
            }
        }
        self.packets += packets;
        self.take(path, &buffer)
    }

    fn take(&mut self, path: &str, buffer: &ReportBuffer<Arrival>) -> Vec<FlowPath> {
        let record = Digests::of(&self.family, Room::of(&self.config), &buffer.read(), 0);
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
        assert_eq!(path.sure.is_some(), path.certainty == Certainty::Sure);
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

/// A path changes to one of another length within an epoch: the answer is the path of the newest
/// packets, and the change counts once. Late packets and copies of another length are no change,
/// and take a path that is sure from nobody.
#[test]
fn paths_of_other_lengths_are_told_by_time() {
    for (old, new) in [("abcde", "ace"), ("ace", "abcde")] {
        let mut network = Network::new(Config::default());
        let mut next = 0;
        let mut arrive = |network: &mut Network, ways: &[(&'static str, u32)]| {
            let packets = ways.iter().flat_map(|(way, number)| {
                next += number;
                (next - number..next).map(|identity| (*way, identity))
            });
            let packets: Vec<_> = packets.collect();
            let [path] = &network.arrive(&packets)[..] else { panic!("one path") };
            (named(path), path.certainty, path.packets, path.contradictions)
        };
        let sure = |way: &str, packets, contradictions| (way.to_owned(), Certainty::Sure, packets, contradictions);
        assert_eq!(arrive(&mut network, &[(old, 200)]), sure(old, 200, 0));
        assert_eq!(arrive(&mut network, &[(old, 150), (new, 150)]), sure(new, 150, 1));
        // One packet is late, at the end of the epoch, in its middle or at its beginning.
        for (number, at) in (2..).zip([0u32, 50, 98, 100]) {
            let found = arrive(&mut network, &[(new, 100 - at), (old, 1), (new, at)]);
            assert_eq!(found, sure(new, 150 + 100 * (number - 1), number), "{at} behind the late one");
        }
    }
}

/// A packet that was doubled on its way counts once, before the path is sure and from then on.
#[test]
fn doubled_packets_count_once() {
    let mut network = Network::new(Config::default());
    let path = network.copies(1, "abcde", 200, 2).remove(0);
    assert_eq!((named(&path), path.certainty, path.packets), ("abcde".into(), Certainty::Sure, 200));
    for (copies, packets) in [(2, 250), (1, 300), (3, 350)] {
        let path = network.copies(1, "abcde", 50, copies).remove(0);
        assert_eq!((path.certainty, path.packets, path.contradictions), (Certainty::Sure, packets, 0), "{path:?}");
    }
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
    let kept: BTreeSet<_> = network.recorder.flows.iter().map(|(route, _)| route.key.flow.0[0] & 0xff).collect();
    assert_eq!(kept, (7..12).collect(), "those that were heard of last");
    // A record keeps as many of a flow, and the recorder no more over several epochs.
    for _ in 0..10 {
        let path = network.epoch(1, "abcdefg", 30).remove(0);
        assert!(path.packets <= 20 || path.certainty == Certainty::Sure, "{path:?}");
    }
    assert!(network.recorder.flows.iter().all(|(_, known)| known.seen.len() <= 20));
}

/// A network whose packets carry checksums.
fn with_checksums(bits: u32) -> Network {
    let queries = format!("path:bits=5:instances=2:checksum={bits}").parse().unwrap();
    Network::new(Config { queries, packets: 4096, ..Config::default() })
}

impl Network {
    fn checksum(&self, path: &str) -> Option<u16> {
        let code = self.coding.scheme.path().unwrap();
        let coded: Vec<_> = path.chars().map(|name| code.switch(switch_id(&name.to_string()))).collect();
        code.checksum_of(&coded)
    }

    /// An epoch of flow 1, with packets by their paths, as they arrive at one sink.
    fn arrive(&mut self, arrivals: &[(&str, u32)]) -> Vec<FlowPath> {
        let mut buffer = ReportBuffer::with_capacity(self.config.reports as usize);
        for (time_ns, (path, identity)) in (self.epoch << 32..).zip(arrivals) {
            let (identity, hops) = (*identity, path.len() as u8);
            let digest = (1..).zip(path.chars()).fold(0, |digest, (hop, name)| {
                let switch = self.coding.scheme.switch(switch_id(&name.to_string()));
                self.coding.scheme.encode(&switch, Measured { hop, identity, ..Measured::default() }, digest)
            });
            let flow = FiveTuple([4 << 40 | 1, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns, plan: self.coding.id, flow, hops, identity, digest });
        }
        self.take(arrivals[0].0, &buffer)
    }
}

/// Paths to one sink, of five and of three switches.
const WAYS: [&str; 6] = ["abcde", "abgde", "afcde", "ahije", "ace", "ajhge"];

/// The packets of one flow by 2 and 4 paths at once, each drawn by itself or in flowlets, with paths
/// that come and go within an epoch, and packets that are lost, doubled and out of order. Paths
/// whose checksum no other one has get an answer of their own, true as far as it goes, and sure with
/// enough packets. Where two have one checksum no mixture of them is sure.
#[test]
fn paths_of_one_flow_are_told_apart() {
    let mut rng = crate::trace::SplitMix64::new(8);
    let (mut apart, mut shared) = (0, 0);
    for round in 0..24u32 {
        let mut network = with_checksums([6, 4, 2, 1][round as usize % 4]);
        let ways = if round % 8 < 4 { 2 } else { 4 };
        let ways: Vec<_> = (0..ways).map(|way| WAYS[(round as usize + way) % 6]).collect();
        let flowlet = [1, 1, 7, 40][rng.below(4) as usize];
        let mut counts = std::collections::BTreeMap::<&str, u64>::new();
        let mut last = std::collections::BTreeMap::new();
        for epoch in 0..8 {
            let mut arrivals = Vec::new();
            let mut way = 0;
            for number in 0..400 {
                // The first way is taken in the first half alone, the last one from the middle of an
                // epoch on.
                if number % flowlet == 0 {
                    way = rng.below(ways.len() as u64) as usize;
                }
                let way = match (epoch, number) {
                    (4.., _) if way == 0 => 1,
                    (0..3, _) | (3, 0..200) if way + 1 == ways.len() => 0,
                    _ => way,
                };
                network.packets += 1;
                let copies = [1, 1, 1, 0, 2][rng.below(5) as usize];
                (0..copies).for_each(|_| arrivals.push((ways[way], network.packets)));
                *counts.entry(ways[way]).or_default() += copies;
            }
            for at in 1..arrivals.len() {
                arrivals.swap(at, at - (rng.below(30) as usize).min(at));
            }
            for path in network.arrive(&arrivals) {
                let key = (path.switches.len(), path.checksum);
                let same = ways.iter().filter(|way| (way.len(), network.checksum(way)) == key);
                let same: Vec<_> = same.collect();
                let fits = |way: &&&str| named(&path).chars().zip(way.chars()).all(|(a, b)| a == '?' || a == b);
                let is_true = same.iter().any(|way| named(&path) == **way);
                assert!(path.certainty < Certainty::Sure || is_true, "{path:?} of {ways:?}");
                if let [only] = same[..] {
                    assert!(fits(&only) && path.packets <= counts[only] && path.contradictions == 0, "{path:?}");
                }
                last.insert(key, path);
            }
        }
        for way in &ways {
            let key = (way.len(), network.checksum(way));
            if ways.iter().filter(|other| (other.len(), network.checksum(other)) == key).count() > 1 {
                shared += 1;
                continue;
            }
            apart += 1;
            assert_eq!((named(&last[&key]), last[&key].certainty), ((*way).into(), Certainty::Sure), "{ways:?}");
        }
    }
    assert!(apart > 30 && shared > 10, "{apart} and {shared}");
}

/// A path that is decided and has another checksum than its packets is not believed.
#[test]
fn a_wrong_checksum_contradicts() {
    let network = with_checksums(6);
    let code = network.coding.scheme.path().unwrap();
    let names = "abcdefghij".chars().map(|name| name.to_string().into()).collect();
    let switches = Switches::new(code, &names, &network.config);
    let coded: Vec<_> = "abcde".chars().map(|name| code.switch(switch_id(&name.to_string()))).collect();
    let seen = |identity| Seen { time_ns: 0, identity, digest: code.digest(&coded, identity) };
    let seen: Vec<_> = (0..200).map(seen).collect();
    let right = network.checksum("abcde").unwrap();
    for checksum in [right, right ^ 1] {
        assert_eq!(switches.infer("e", Some(checksum), 5, &seen).is_some(), checksum == right);
    }
}

/// Flows are bounded also where checksums make many paths of one, and those of another checksum are
/// given up.
#[test]
fn paths_of_a_flow_are_bounded() {
    let mut network = with_checksums(6);
    network.recorder.flows = Kept::new(5, |known| known.last_epoch, 0);
    let coded: Vec<_> = (0..64).map(|way| format!("a{way}")).collect();
    for first in &coded {
        network.packets += 2;
        let mut buffer = ReportBuffer::with_capacity(2);
        for identity in network.packets - 2..network.packets {
            let digest = network.coding.scheme.switch(switch_id(first));
            let digest = network.coding.scheme.encode(&digest, Measured { hop: 1, identity, ..Measured::default() }, 0);
            let flow = FiveTuple([4 << 40 | 1, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns: 0, plan: network.coding.id, flow, hops: 1, identity, digest });
        }
        network.take("e", &buffer);
    }
    assert_eq!(network.recorder.flows.len(), 5);
    let before = network.recorder.evicted();
    assert!(before > 20, "{before}");
    let other = with_checksums(5);
    network.coding = other.coding;
    network.arrive(&[("abcde", 1)]);
    assert_eq!((network.recorder.flows.len(), network.recorder.evicted()), (1, before + 5));
}

/// With fragments a recorder names switches that it knows, and gives the identifiers of others, sure
/// of them too; with hashes it could not tell them.
#[test]
fn fragments_need_no_names() {
    let queries = "path:bits=8:instances=2:coding=fragments".parse().unwrap();
    let mut network = Network::new(Config { queries, ..Config::default() });
    let mut paths = Vec::new();
    for _ in 0..20 {
        paths = network.epoch(1, "axbyc", 25);
    }
    let [path] = &paths[..] else { panic!("{paths:?}") };
    let id = |name: &str| format!("0x{:08x}", switch_id(name));
    assert_eq!(named(path), format!("a{}b{}c", id("x"), id("y")));
    assert_eq!((path.certainty, path.contradictions), (Certainty::Sure, 0));
    // It is followed when it changes, unknown switches and all.
    for _ in 0..30 {
        paths = network.epoch(1, "azbyc", 25);
    }
    let [path] = &paths[..] else { panic!("{paths:?}") };
    assert_eq!(named(path), format!("a{}b{}c", id("z"), id("y")));
    assert_eq!((path.certainty, path.contradictions), (Certainty::Sure, 1));
}

/// Packets that carry no path are no path of their own.
#[test]
fn packets_without_a_path_are_no_path() {
    let queries = "path:bits=8:checksum=4:frequency=1/2+latency:bits=8:frequency=1/2".parse().unwrap();
    let mut network = Network::new(Config { queries, budget: 12, ..Config::default() });
    let arrivals: Vec<_> = (0..400).map(|identity| ("abcde", identity)).collect();
    let [path] = &network.arrive(&arrivals)[..] else { panic!("one path") };
    assert_eq!((named(path), path.certainty), ("abcde".into(), Certainty::Sure));
    assert!((150..250).contains(&path.packets), "{path:?}");
}
