//! Properties of queues, flows and windows.

use weir::pisa::hash::HashFamily;
use weir::program::pint::query::Value;
use weir::sim::transport::report::{self, SizeClass};
use weir::sim::{Fabric, Setup, Shape, Simulation};
use weir::trace::{Arrival, Cdf};

use super::*;

const BOTH: [Telemetry; 2] = [Telemetry::Int { bytes: 42 }, Telemetry::Pint { one_in: 1 }];
const SHARED: [Telemetry; 2] = [Telemetry::Alone, Telemetry::Shared];
/// A full packet without and with its headers, which a flow's rate does not count.
const PAYLOAD: f64 = 1000.0;

fn run(telemetry: Telemetry, arrivals: &[Arrival], seed: u64) -> (Vec<Completion>, Totals) {
    let parameters = parameters(Tree::SMALL.host_byte);
    let (flows, totals, _) = Network::new(Tree::SMALL, telemetry, parameters, arrivals, seed).run();
    (flows, totals)
}

/// Bytes on the wire of a full packet.
fn wire(telemetry: Telemetry) -> f64 {
    match telemetry {
        Telemetry::Int { bytes } => 1048.0 + f64::from(bytes),
        Telemetry::Pint { .. } => 1049.0,
        Telemetry::Alone | Telemetry::Shared => 1050.0,
    }
}

/// The share of the host's link that a flow had, headers included.
fn share(telemetry: Telemetry, flow: &Completion) -> f64 {
    let picos = f64::from(flow.arrival.bytes) / PAYLOAD * wire(telemetry) * Tree::SMALL.host_byte as f64;
    picos / flow.time as f64
}

fn flow(at: Picos, from: u32, to: u32, bytes: u32) -> Arrival {
    Arrival { at, from, to, bytes }
}

#[test]
fn one_flow_takes_the_target_of_its_link() {
    for telemetry in BOTH.into_iter().chain(SHARED) {
        let (flows, totals) = run(telemetry, &[flow(0, 0, 63, 20_000_000)], 1);
        let share = share(telemetry, &flows[0]);
        assert!((0.93..0.97).contains(&share), "{telemetry:?}: {share}");
        assert!(totals.longest_queue < 5000, "{totals:?}");
    }
}

/// A flow of one packet has no queue before it, and takes the sum of its links' times.
#[test]
fn a_flow_of_one_packet_takes_its_way_and_back() {
    let places = [(1, 2), (9, 4), (63, 6)];
    for (to, links) in places {
        let (flows, totals) = run(BOTH[1], &[flow(5, 0, to, 100)], 1);
        let delays = 2 * links * Tree::SMALL.delay;
        // Two links of hosts, and those between switches; a digest of one byte, and an
        // acknowledgement of 60.
        let bytes = (149 + 60) * (2 * Tree::SMALL.host_byte + (links - 2) * Tree::SMALL.fabric_byte);
        assert_eq!((flows[0].time, totals.packets), (delays + bytes, 1));
        assert_eq!(flows[0].alone, flows[0].time - 2 * Tree::SMALL.host_byte - (links - 2) * Tree::SMALL.fabric_byte);
    }
    // §6.1: 12 µs, without the times of packets.
    assert_eq!(2 * 6 * Tree::PAPER.delay, 12_000_000);
    assert_eq!(Tree::PAPER.hosts(), 320);
}

/// The second flow begins when the first one has the whole link. With ten times the increase their
/// windows even out in a hundred round-trip times, a fortieth of the flows' time.
#[test]
fn flows_share_a_link_equally() {
    let parameters = Parameters { increase: 800.0, ..parameters(Tree::SMALL.host_byte) };
    let flows = [flow(0, 0, 63, 200_000_000), flow(100_000_000, 20, 63, 200_000_000)];
    for telemetry in BOTH {
        let (flows, ..) = Network::new(Tree::SMALL, telemetry, parameters, &flows, 1).run();
        let shares = [0, 1].map(|number| share(telemetry, &flows[number]));
        assert!(shares.iter().all(|share| (0.45..0.5).contains(share)), "{telemetry:?}: {shares:?}");
    }
}

/// The senders that begin at once fill the queue of their common receiver once. Flows that begin
/// when it is empty find it so.
#[test]
fn queues_drain_and_stay_empty() {
    for telemetry in BOTH {
        let long: Vec<_> = (0..8).map(|number| flow(0, 8 * number, 63, 10_000_000)).collect();
        let late = flow(3_000_000_000, 17, 63, 100);
        let (flows, totals) = run(telemetry, &[&long[..], &[late]].concat(), 1);
        assert!(totals.longest_queue > 500_000, "{totals:?}");
        let slowdown = flows[8].time as f64 / flows[8].alone as f64;
        assert!(slowdown < 1.15, "{telemetry:?}: {slowdown}");
    }
}

#[test]
fn no_byte_is_lost_and_a_seed_decides_all() {
    let arrivals = poisson(&Tree::SMALL, Cdf::Hadoop, 0.6, 250_000_000, 7);
    let sent: u64 = arrivals.iter().map(|flow| u64::from(flow.bytes)).sum();
    for telemetry in [BOTH[0], BOTH[1], SHARED[1], Telemetry::Pint { one_in: 16 }] {
        let (flows, totals) = run(telemetry, &arrivals, 3);
        assert_eq!((totals.received, flows.len()), (sent, arrivals.len()));
        assert!(flows.iter().all(|flow| flow.time >= flow.alone * 99 / 100), "no flow is faster than alone");
        assert_eq!(run(telemetry, &arrivals, 3), (flows.clone(), totals));
        assert_ne!(run(telemetry, &arrivals, 4).0, flows);
    }
}

/// Feedback on one packet of many fills the link as well. How two flows that begin at once share it
/// evens out too slowly to be compared here.
#[test]
fn a_link_is_as_full_however_many_packets_tell() {
    let flows = [flow(0, 0, 63, 30_000_000), flow(0, 20, 63, 30_000_000)];
    let last = |one_in| run(Telemetry::Pint { one_in }, &flows, 1).0.iter().map(|flow| flow.time).max();
    let all = last(1).unwrap() as f64;
    for one_in in [16, 256] {
        let ratio = last(one_in).unwrap() as f64 / all;
        assert!((0.97..1.08).contains(&ratio), "one in {one_in}: {ratio}");
    }
}

#[test]
fn flows_come_as_often_as_the_load_says() {
    let duration = 20_000_000_000;
    let flows = poisson(&Tree::SMALL, Cdf::Hadoop, 0.5, duration, 1);
    let bytes: f64 = flows.iter().map(|flow| f64::from(flow.bytes)).sum();
    let room = duration as f64 / Tree::SMALL.host_byte as f64 * f64::from(Tree::SMALL.hosts());
    assert!((bytes / room - 0.5).abs() < 0.03, "{}", bytes / room);
    assert!(flows.is_sorted_by_key(|flow| flow.at) && flows.iter().all(|flow| flow.from != flow.to));
}

/// Three queries share a packet. The receiver reads of each what that query's own code writes, and
/// each query has its share of the packets.
#[test]
fn queries_share_a_digest_without_harm() {
    let tree = Tree::SMALL;
    let bytes = 2_000_000;
    let arrivals = [
        flow(1_000_000, 0, 63, bytes),
        flow(1_000_000, 20, 62, bytes),
        flow(1_000_000, 33, 5, 3_000),
        flow(1_500_000, 8, 3, bytes),
        flow(2_000_000, 40, 7, bytes),
    ];
    let parameters = parameters(tree.host_byte);
    let (_, _, kept) = Network::new(tree, Telemetry::Shared, parameters, &arrivals, 7).keep(1000).run();
    // The third flow is too short, the fourth stays in its pod, and the last one is too late.
    assert_eq!(kept.iter().map(|kept| kept.packets.len()).collect::<Vec<_>>(), [1000; 2]);
    let shared = Shared::new(&tree, &HashFamily::reproducible(7));
    let (path, latency) =
        (shared.scheme().path().unwrap(), shared.scheme().value(&shared::query(Value::Latency, 8)).unwrap());
    let ids: Vec<_> = identifiers(&tree).collect();
    let (mut asked, mut told) = (0, 0);
    for Kept { path: switches, packets } in &kept {
        let [first, up, core, down, last] = *switches;
        assert!(first < 8 && last == 7 && (8..16).contains(&up) && (8..16).contains(&down) && (16..20).contains(&core));
        let coded = switches.map(|switch| path.switch(ids[switch as usize]));
        for packet in packets {
            let [high, low] = packet.digest.to_be_bytes();
            assert_eq!(u16::from(low), path.digest(&coded, packet.identity));
            let latencies = (1..).zip(packet.latencies);
            let code =
                latencies.fold(0, |code, (hop, time)| latency.code().encode(hop, packet.identity, time.into(), code));
            match shared.asks(packet.identity) {
                true => asked += usize::from(high > 0),
                false => assert_eq!(u16::from(high), code),
            }
            told += usize::from(!shared.asks(packet.identity));
            assert!(packet.latencies.iter().all(|time| *time >= 1000));
        }
    }
    assert!((1_830..1_915).contains(&told), "15 of 16: {told}");
    assert_eq!(asked, 2000 - told, "a link that sends is in use");
}

/// The latencies that are kept are those of the queues: two senders fill the queue before their
/// receiver, and links between switches have room for both.
#[test]
fn kept_latencies_are_those_of_the_queues() {
    let tree = Tree::SMALL;
    let arrivals = [flow(1_000_000, 0, 63, 2_000_000), flow(1_000_000, 20, 63, 2_000_000), flow(2_000_000, 40, 7, 100)];
    let network = || Network::new(tree, Telemetry::Alone, parameters(tree.host_byte), &arrivals, 7);
    let (flows, totals, kept) = network().keep(1500).run();
    assert_eq!(kept.iter().map(|kept| kept.packets.len()).collect::<Vec<_>>(), [1500; 2]);
    let latencies = || kept.iter().flat_map(|kept| &kept.packets).map(|packet| packet.latencies);
    assert!(latencies().all(|latencies| latencies[..4].iter().all(|time| (1000..1100).contains(time))));
    let longest = latencies().map(|latencies| latencies[4] - 1000).max().unwrap();
    let queue = totals.longest_queue * tree.host_byte as u32 / 1000;
    assert!(longest > 5000 && longest.abs_diff(queue) < 200, "{longest} ns, {queue} ns");
    // To keep packets changes nothing.
    assert_eq!(network().keep(0).run(), (flows, totals, Vec::new()));
}

/// weir's simulated network, which forwards real frames through real switches, and this one say the
/// same of the same flows, on INT and on a digest: two simulations that share the sender alone.
fn simulations_agree(feedback: &str, telemetry: Telemetry) {
    let duration = 45_000_000;
    let query = "pint:queries=utilisation:bits=8:rate=10Gbps:period=17514ns";
    let setup = Setup {
        topology: "fat-tree:4".parse::<Shape>().unwrap().build().unwrap(),
        programs: vec![query.parse().unwrap()],
        everywhere: false,
        workload: "hadoop/uniform,seed=5".parse().unwrap(),
        losses: Vec::new(),
        epoch: duration,
        transit: 8_000_000,
        latency: 1_000_000,
        shifts: false,
        delay: 1000,
        rate: Some(10_000_000_000),
        queue_timeout: 1_000_000,
        faults: Vec::new(),
        transport: Some(format!("hpcc,feedback={feedback},load=50%,rtt=17514ns").parse().unwrap()),
        wait: None,
        patterns: Vec::new(),
        watched: false,
        fabric: Fabric::default(),
    };
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    let ours = simulation.network().transport().unwrap();
    let all = setup.transport.as_ref().unwrap().arrivals(&setup).unwrap();
    let arrivals: Vec<_> = all.take_while(|flow| flow.at < duration * 1000).collect();
    let tree = Tree { pods: 4, half: 2, cores: 2, hosts: 2, host_byte: 800, fabric_byte: 800, delay: 1_000_000 };
    let parameters = Parameters::new(800, 17_514_000);
    let (flows, ..) = Network::new(tree, telemetry, parameters, &arrivals, 5).run();
    let ended = |flow: &&Completion| flow.arrival.at + flow.time <= duration * 1000;
    let of = |flow: &Completion| report::Completion {
        bytes: flow.arrival.bytes,
        time: flow.time / 1000,
        alone: flow.alone / 1000,
    };
    let theirs: Vec<_> = flows.iter().filter(ended).map(of).collect();
    let apart = ours.finished_flows.abs_diff(theirs.len() as u64);
    assert!(ours.flows == arrivals.len() as u64 && apart * 100 < ours.flows, "{ours:?}, {} flows", theirs.len());
    for (ours, theirs) in ours.sizes.iter().zip(SizeClass::of(&theirs)) {
        // The 95th percentile of fewer than 100 flows rests on four of them or fewer.
        let tail = if ours.flows < 100 { 1.5 } else { 1.25 };
        let pairs = [
            (ours.slowdown_p50, theirs.slowdown_p50, 1.25),
            (ours.slowdown_p95, theirs.slowdown_p95, tail),
            (ours.goodput_bits_per_second, theirs.goodput_bits_per_second, 1.25),
        ];
        let close = |&(a, b, factor): &(f64, f64, f64)| (1.0 / factor..factor).contains(&(a / b));
        assert!(pairs.iter().all(close), "{feedback}: {ours:?}, {theirs:?}");
    }
}

#[test]
fn two_simulations_agree_on_int() {
    simulations_agree("int", Telemetry::Int { bytes: 42 });
}

#[test]
fn two_simulations_agree_on_a_digest() {
    simulations_agree("digest", Telemetry::Pint { one_in: 1 });
}
