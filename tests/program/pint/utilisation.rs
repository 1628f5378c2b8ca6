//! The utilisation query: a digest tells of the busiest link on a packet's way, whatever else leaves
//! by it, and simulated networks answer with the loads that their links have.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir::answers::Utilisation;
use weir::history::Reason;
use weir::pisa::hash::HashFamily;
use weir::pisa::{AccessTrace, BatchOrder, Disposition, LookupTrace, Phv, Probe};
use weir::program::pint::query::Value;
use weir::program::pint::utilisation::Scale;
use weir::program::pint::utilisation::code::{LARGEST, SMALLEST};
use weir::program::pint::{Config, Pint};
use weir::program::{Dataplane, ProgramConfig};
use weir::sim::Simulation;
use weir::trace::SplitMix64;
use weir::wire::{FlowKey, Fragment, Headers, Net, Shim};

use super::network::setup;

/// On links of 1 Gbit/s, as the query has them.
const BYTES_PER_NS: f64 = 0.125;
const PERIOD_NS: u32 = 1_000_000;
const PORTS: u16 = 3;
/// Bytes that have room in a queue.
const QUEUE_ROOM: u32 = 1 << 17;

fn config(queries: &str) -> Config {
    Config { queries: queries.parse().unwrap(), ..Config::default() }
}

/// The average of a link in real numbers (§4.3).
#[derive(Clone, Copy, Default)]
struct Link {
    last_ns: u64,
    average: f64,
}

impl Link {
    fn packet(&mut self, now_ns: u64, bytes: u32, queue: u32) -> f64 {
        let period = f64::from(PERIOD_NS);
        let gap = ((now_ns - self.last_ns) as f64).min(period);
        self.last_ns = now_ns;
        let volume = BYTES_PER_NS * period;
        let kept = (period - gap) / period * self.average;
        self.average = kept + f64::from(queue) * gap / (volume * period) + f64::from(bytes) / volume;
        self.average
    }
}

/// The arrays that a traced packet met.
#[derive(Default)]
struct Accesses(Vec<String>);

impl Probe for Accesses {
    fn stage(&mut self) {}

    fn access(&mut self, access: AccessTrace) {
        assert!(access.cell.is_some());
        self.0.push(access.array);
    }

    fn lookup(&mut self, _: LookupTrace) {}
}

/// A switch, and what its links carry in truth.
struct Switch {
    replica: Box<dyn Dataplane>,
    links: [Link; PORTS as usize],
    hop: u8,
}

impl Switch {
    /// Lets a packet leave, traced or not. Gives the true utilisation of its link, and its digest.
    fn send(&mut self, mut phv: Phv) -> (f64, u16) {
        let shim = if phv.disposition == Disposition::ToFabric { 6 } else { 0 };
        let truth = self.links[usize::from(phv.egress)].packet(
            phv.egress_ns,
            phv.wire_bytes + shim,
            u32::from(phv.queue_used) * (QUEUE_ROOM >> 16),
        );
        if phv.identity.is_multiple_of(5) {
            let mut accesses = Accesses::default();
            self.replica.trace_egress(&mut phv, &mut accesses);
            assert_eq!(accesses.0[..2], ["last sent", "utilisation"]);
        } else {
            self.replica.egress(std::slice::from_mut(&mut phv), BatchOrder::PacketMajor);
        }
        (truth, phv.digest)
    }

    fn phv(&self, egress_ns: u64, rng: &mut SplitMix64) -> Phv {
        let dispositions = [Disposition::ToHost, Disposition::ToFabric, Disposition::Unmarked];
        let headers = Headers { net: Net::Ipv4, proto: 17, shim: self.hop > 1, ..Headers::default() };
        Phv {
            headers,
            wire_bytes: 60 + rng.below(1455) as u32,
            egress: rng.below(PORTS.into()) as u16,
            disposition: dispositions[rng.below(3) as usize],
            enters: self.hop == 1,
            shim: Shim::default().with_hop(self.hop),
            identity: rng.below(1 << 32) as u32,
            egress_ns,
            queue_used: (rng.below(2) * rng.below(1 << 16)) as u16,
            ..Phv::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// A packet that carries the query tells of the largest utilisation of its way, within the
    /// factor that is stated. The other packets are counted too: those of other queries, fragments,
    /// and those without a shim.
    #[test]
    fn a_digest_is_that_of_the_busiest_link(
        seed: u64, hops in 1u8..8, load in 0.01f64..3.0,
        (queries, bits) in prop::sample::select(vec![
            ("utilisation:bits=8:rate=1Gbps:period=1ms", 8),
            ("path:bits=8+utilisation:bits=8:frequency=1/16:rate=1Gbps:period=1ms", 8),
            ("latency:bits=9:frequency=1/2+utilisation:bits=5:frequency=1/2:rate=1Gbps:period=1ms", 5),
        ]),
    ) {
        let (config, family) = (config(queries), HashFamily::reproducible(seed % 8));
        let scheme = config.parameters().scheme(&family);
        let value = scheme.value(&config.parameters().query(Value::Utilisation).unwrap()).unwrap();
        let (scale, program) = (Scale::new(bits), ProgramConfig::new::<Pint>(config));
        let mut switches: Vec<_> = (1..=hops).map(|hop| {
            let mut replica = program.build("", &family).unwrap();
            replica.allocate();
            replica.set_queue_room(QUEUE_ROOM.into());
            Switch { replica, links: Default::default(), hop }
        }).collect();
        let mut rng = SplitMix64::new(seed);
        let (mut now, mut carriers) = (0.0, 0);
        for _ in 0..1500 {
            // As many packets at each switch as load its three ports, one of them the one that is
            // followed.
            let others = rng.below(8);
            now += (others + 1) as f64 * 787.0 / BYTES_PER_NS / load / f64::from(PORTS) * 2.0 * rng.unit();
            let (mut busiest, mut digest, identity) = (0.0f64, 0xffff, rng.below(1 << 32) as u32);
            for switch in &mut switches {
                for _ in 0..others {
                    let mut phv = switch.phv(now as u64, &mut rng);
                    phv.headers.fragment = if rng.below(4) == 0 { Fragment::Later } else { Fragment::Whole };
                    phv.headers.shim &= rng.below(4) > 0;
                    switch.send(phv);
                }
                let phv = Phv { identity, digest, ..switch.phv(now as u64, &mut rng) };
                let (truth, after) = switch.send(phv);
                (busiest, digest) = (busiest.max(truth), after);
            }
            let Some(code) = value.part(identity, digest) else { continue };
            carriers += 1;
            let exact = busiest.clamp(SMALLEST, LARGEST);
            let (off, factor) = (scale.decode(code as u8) / exact, scale.error_factor());
            prop_assert!((1.0 / factor..=factor).contains(&off), "{exact} becomes {off} as much");
        }
        prop_assert!(carriers >= 50);
    }
}

/// The median of each flow is the load of the links that it crosses, with few flows and with many,
/// and four times as many packets show as four times as much.
#[test]
fn a_simulated_network_knows_its_loads() {
    // An epoch of 50 ms on links of 1 Gbit/s.
    let capacity = 0.05 * 125e6;
    let queries = "path:bits=8:frequency=15/16+utilisation:bits=8:frequency=1/2:rate=1Gbps:period=4ms";
    let mut medians = Vec::new();
    for (flows, packets) in [(1, 2000), (1, 8000), (12, 4000), (12, 12_000)] {
        let workload = format!("isp/uniform,flows={flows},packets={packets},seed=7");
        // All packets are reported: the first ones of a flow leave while its links were just idle.
        let config = Config { packets: 1 << 14, ..config(queries) };
        let setup = setup("line:5", &workload, config);
        let mut simulation = Simulation::new(&setup).unwrap();
        simulation.epoch(&setup.workload, None);
        // Hosts are at the ends, so all links of a direction carry the same packets; those between
        // switches also their shims.
        let (mut truths, mut loads) = (BTreeMap::new(), [0.0; 2]);
        let generation = simulation.network().generation(0);
        for flow in &generation.flows {
            let direction = usize::from(flow.src < flow.dst);
            truths.insert(flow.tuple.flow(), direction);
            loads[direction] += f64::from(flow.sent * (generation.packet_bytes + 6)) / capacity;
        }
        let report = simulation.finish().pop().unwrap();
        let answers = simulation.answers(0, 0).unwrap().answer::<Utilisation>(usize::MAX).unwrap();
        let lack = answers.claim.incomplete.clone().without(Reason::Provisional);
        assert!(lack.is_empty() && answers.flows == flows && answers.evicted_flows == 0, "{answers:?}");
        let counts = report.programs["pint"].utilisation.clone().unwrap();
        assert_eq!(counts.packets, answers.utilisations.iter().map(|flow| flow.packets).sum::<u64>());
        for flow in &answers.utilisations {
            let (median, max) = (flow.median_utilisation, flow.max_utilisation);
            let off = median / loads[truths[&flow.name.flow().unwrap()]];
            assert!((0.9..1.1).contains(&off) && max >= median, "{off}: {flow:?}");
            assert!(counts.max_utilisation >= Some(max));
        }
        medians.push(answers.utilisations[0].median_utilisation);
    }
    let times = medians[1] / medians[0];
    assert!((3.6..4.4).contains(&times), "{medians:?}");
}

/// Where a link gets a ninth more than it takes, what waits for it counts as well: it is up to twice
/// what the link sends in a period, and without a rate there is no queue.
#[test]
fn what_waits_counts() {
    let run = |rate: Option<u64>, of_query: u64| {
        let queries = format!("utilisation:bits=8:rate={of_query}bps:period=10ms");
        let config = Config { packets: 1 << 14, ..config(&queries) };
        let mut setup = setup("line:4", "isp/uniform,flows=12,packets=12000,seed=6", config);
        (setup.epoch, setup.transit, setup.queue_timeout) = (200_000_000, 88_000_000, 28_000_000);
        setup.rate = rate;
        let mut simulation = Simulation::new(&setup).unwrap();
        simulation.epoch(&setup.workload, None);
        let generation = simulation.network().generation(0);
        let mut sent = [0u64; 2];
        generation.flows.iter().for_each(|flow| sent[usize::from(flow.src < flow.dst)] += u64::from(flow.sent));
        // An Ethernet frame has 20 bytes beside its own and its FCS, and packets the shim.
        let bytes = u64::from(generation.packet_bytes) + 6 + 24;
        simulation.finish();
        let answers = simulation.answers(0, 0).unwrap().answer::<Utilisation>(usize::MAX).unwrap();
        let max = answers.utilisations.iter().map(|flow| flow.max_utilisation).fold(0.0, f64::max);
        (max, sent.into_iter().max().unwrap() * bytes * 8 * 5 * 9 / 10)
    };
    let (_, rate) = run(None, 1_000_000_000);
    let (without, _) = run(None, rate);
    assert!((0.7..1.2).contains(&without), "{without}");
    // A packet waits for some 22 ms at the end, which are 2.2 periods.
    let (with, _) = run(Some(rate), rate);
    assert!((1.7..2.5).contains(&(with - without)), "{with}, and {without} without a queue");
}
