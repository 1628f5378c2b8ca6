//! Values of switches as packets tell of them: against a naive switch with real numbers, by
//! statistics, and in networks whose queues and ports are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir::answers::{FlowName, Value, ValueFlow, Values};
use weir::forward::{Forward, Xconnect};
use weir::history::{Reason, Reasons};
use weir::pisa::hash::{Global, HashFamily};
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::pint::compress::Approximation;
use weir::program::pint::query::{Query, Value as QueryValue};
use weir::program::pint::values::Aggregation;
use weir::program::pint::values::dataplane::ValueCode;
use weir::program::pint::{Config, Pint};
use weir::program::{Needs, Program, ProgramConfig, Schedule};
use weir::sim::{EpochReport, Simulation};
use weir::switch::{PortInfo, Role, Switch, Telemetry};
use weir::telemetry::epoch::EpochClock;
use weir::trace::SplitMix64;
use weir::wire::{Flow, Headers, Net, Shim};

use super::naive::rounded;
use super::network::setup;

/// With room for all packets of a flow.
fn config(queries: &str) -> Config {
    Config { queries: queries.parse().unwrap(), packets: 1 << 14, ..Config::default() }
}

/// The numbers of codes with so many bits: equal steps of `from` as far as a mantissa goes, then
/// twice as large ones with each power of two; the longest mantissa that reaches `to`.
fn grid(bits: u32, from: u32, to: u32) -> Vec<f64> {
    let of = |mantissa: u32| {
        let per = 1u32 << mantissa;
        let number = |code: u32| match code / per {
            0 => f64::from(code),
            exponent => f64::from(per + code % per) * 2f64.powi(exponent as i32 - 1),
        };
        (0..1 << bits).map(|code| number(code) * f64::from(from)).collect::<Vec<_>>()
    };
    let all = (0..=bits).rev().map(of);
    all.into_iter().find(|grid| *grid.last().unwrap() >= f64::from(to)).unwrap()
}

/// The numbers of codes in equal steps: of the least power of two with which they reach `to`, and no
/// less than `from` is.
fn equal_steps(bits: u32, from: u32, to: u32) -> Vec<f64> {
    let powers = (0..32).map(|log| 2f64.powi(log));
    let suffices = |step: &f64| 2.0 * step > f64::from(from) && f64::from((1 << bits) - 1) * step >= f64::from(to);
    let step = powers.into_iter().find(suffices).unwrap();
    (0..1 << bits).map(|code| f64::from(code) * step).collect()
}

/// The code of a number, and the number: the next one below it, or the next one above with the
/// probability that makes the mean right.
fn round(grid: &[f64], number: f64, random: u32) -> (u32, f64) {
    let Some(above) = grid.iter().position(|of| *of > number) else {
        return (grid.len() as u32 - 1, *grid.last().unwrap());
    };
    let step = grid[above] - grid[above - 1];
    let up = number - grid[above - 1] + f64::from(random) % step >= step;
    let code = if up { above } else { above - 1 };
    (code as u32, grid[code])
}

/// The hashes of a query, as §4.1 has them.
struct Naive {
    query: Query,
    acts: Global,
    rounds: Global,
    grid: Vec<f64>,
}

impl Naive {
    /// An instance of a query.
    fn new(query: Query, instance: u32, family: &HashFamily) -> Self {
        let global = |label: &str| Global::derive(family, label, instance);
        let Query { bits, range, compression, .. } = query;
        let grid = match (query.value, compression) {
            (QueryValue::Queue | QueryValue::Latency, Approximation::Additive) => {
                equal_steps(bits, range.from, range.to)
            }
            (QueryValue::Queue, Approximation::Multiplicative) => grid(bits, range.from, range.to),
            (QueryValue::Congestion, Approximation::Additive) => equal_steps(bits, 1 << (16 - bits), 1),
            // Seven doublings up to the whole, each with as many codes as are below the first.
            (QueryValue::Congestion, Approximation::Multiplicative) => grid(bits, 1 << (12 - bits), 1 << 15),
            _ => grid(bits, 1, 1),
        };
        Self { query, acts: global(&format!("pint/{}", query.value.name())), rounds: global("pint/rounding"), grid }
    }

    /// The hop whose value a packet holds behind so many hops: the last one that acts.
    fn hop(&self, identity: u32, hops: usize) -> usize {
        let hash = |hop: u32| self.acts.join(identity, self.acts.argument(&hop.to_be_bytes()));
        let acts = |hop: &u32| f64::from(hash(*hop)) / 2f64.powi(32) < rounded(1.0 / f64::from(*hop), 16);
        (1..=hops as u32).rev().find(acts).unwrap() as usize
    }

    /// What a packet carries behind hops with these values.
    fn way(&self, identity: u32, values: &[u32]) -> u32 {
        let hash = |hash: &Global, argument: u32| hash.join(identity, hash.argument(&argument.to_be_bytes()));
        // All hops of a packet round alike, but for sums.
        let alike = self.rounds.inner(identity, self.rounds.argument(&[0; 4]));
        let code = |value: &u32| round(&self.grid, f64::from(*value), alike).0;
        let hops = (1..).zip(values);
        match self.query.aggregation {
            Aggregation::Quantiles | Aggregation::Frequent => {
                let hop = self.hop(identity, values.len());
                code(&values[hop - 1])
            }
            Aggregation::Max => values.iter().map(code).max().unwrap(),
            Aggregation::Min => values.iter().map(code).min().unwrap(),
            Aggregation::Sum => {
                let add =
                    |sum: f64, hop: u32, value: u32| round(&self.grid, sum + f64::from(value), hash(&self.rounds, hop));
                hops.fold((0, 0.0), |(_, sum), (hop, value)| add(sum, hop, *value)).0
            }
        }
    }
}

/// A packet at a switch that has this value.
fn phv(value: QueryValue, number: u32, hop: u8, last: bool, identity: u32, digest: u16) -> Phv {
    let headers = Headers { net: Net::Ipv4, proto: 17, shim: hop > 1, ..Headers::default() };
    let disposition = if last { Disposition::ToHost } else { Disposition::ToFabric };
    let shim = Shim::default().with_hop(hop);
    let phv = Phv { headers, disposition, enters: hop == 1, shim, identity, digest, ..Phv::default() };
    match value {
        QueryValue::Latency => Phv { latency_ns: number, ..phv },
        QueryValue::Queue => Phv { queue_depth: number as u16, ..phv },
        QueryValue::Congestion => Phv { queue_used: number as u16, ..phv },
        QueryValue::IngressPort => Phv { ingress: number as u16, ..phv },
        QueryValue::EgressPort => Phv { egress: number as u16, ..phv },
        _ => unreachable!("of {value:?}"),
    }
}

/// Packets are hashed one by one, or in bursts where the CPU can.
fn order(identity: u32) -> BatchOrder {
    if identity.is_multiple_of(2) { BatchOrder::PacketMajor } else { BatchOrder::StageMajor }
}

const QUERIES: [&str; 17] = [
    "queue:bits=8",
    "queue:bits=3:aggregation=frequent:to=60",
    "queue:bits=6:aggregation=max:to=1000",
    "queue:bits=4:aggregation=min:from=4:to=900",
    "queue:bits=8:aggregation=sum:to=3000",
    "congestion:bits=5:aggregation=max",
    "congestion:bits=9",
    "ingress_port:bits=8",
    "egress_port:bits=3",
    "queue:bits=4:instances=3:to=15",
    "congestion:bits=6:instances=2:compression=multiplicative",
    "egress_port:bits=1:instances=13:space=64",
    "queue:bits=4:to=900:compression=additive",
    "queue:bits=6:aggregation=sum:from=5:to=2000:compression=additive",
    "latency:bits=5:from=16ns:to=50us:compression=additive:aggregation=max",
    "latency:bits=6:from=3ns:to=40us:compression=additive:instances=2",
    "congestion:bits=3:aggregation=min:compression=multiplicative",
];

/// Several queries on one value. Of some a packet has room for a part alone.
const SEVERAL: [&str; 9] = [
    "queue:bits=5:to=900+queue:bits=5:aggregation=max:to=900+queue:bits=6:aggregation=sum:to=1000",
    "path:bits=3+queue:bits=4:aggregation=min:from=4:to=900+queue:bits=4:aggregation=max:from=4:to=900",
    "egress_port:bits=8+egress_port:bits=8:flow=dst+ingress_port:bits=8",
    "congestion:bits=6+path:bits=4+congestion:bits=6:flow=src:space=400:window=1s+congestion:bits=6:aggregation=max",
    "queue:bits=8+queue:bits=8:aggregation=frequent:flow=pair+queue:bits=3:to=60+queue:bits=5:to=60",
    "queue:bits=8:frequency=1/2+queue:bits=8:aggregation=max:frequency=1/2\
     +queue:bits=8:aggregation=frequent:frequency=3/4+ingress_port:bits=8:frequency=1/2",
    "queue:bits=3:instances=2:to=60+queue:bits=3:to=60+queue:bits=3:aggregation=max:to=60\
     +queue:bits=3:instances=2:to=60:flow=dst:aggregation=frequent+egress_port:bits=2:instances=2",
    "congestion:bits=4:instances=4:frequency=1/2+path:bits=3:instances=2:checksum=2:frequency=1/2\
     +congestion:bits=4:compression=multiplicative:frequency=1/2+queue:bits=4:compression=additive:frequency=1/2",
    "queue:bits=12:frequency=1/4+queue:bits=12:aggregation=max:frequency=1/4+queue:bits=12:aggregation=min:frequency=1/4\
     +queue:bits=12:aggregation=sum:frequency=1/4",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A digest behind the last switch is that of naive switches, alone and beside the path.
    #[test]
    fn a_digest_is_that_of_naive_switches(
        text in prop::sample::select(QUERIES.to_vec()), beside: bool, seed in 0..4u64,
        hops in prop::collection::vec((0..16u32, any::<u16>()), 1..20), identities in prop::collection::vec(any::<u32>(), 40),
    ) {
        let config = config(&if beside { format!("path:bits=3+{text}") } else { text.to_owned() });
        let family = HashFamily::reproducible(seed);
        let query = *config.queries.0.last().unwrap();
        let naive: Vec<_> = (0..query.instances).map(|instance| Naive::new(query, instance, &family)).collect();
        let scheme = config.parameters().scheme(&family);
        let program = ProgramConfig::new::<Pint>(config);
        let mut replica = program.build("s", &family).unwrap();
        replica.allocate();
        let values: Vec<_> = hops.iter().map(|(shift, value)| {
            let number = u32::from(*value) >> shift;
            if matches!(query.value, QueryValue::IngressPort | QueryValue::EgressPort) { number % 256 } else { number }
        }).collect();
        for identity in identities {
            // What comes in with a packet from a host is no digest.
            let mut digest = 0xffff;
            for (hop, number) in (1..).zip(&values) {
                let last = usize::from(hop) == values.len();
                let mut phv = phv(query.value, *number, hop, last, identity, digest);
                replica.egress(std::slice::from_mut(&mut phv), order(identity));
                digest = phv.digest;
            }
            let shift = if beside { 3 } else { 0 };
            let mut told = BTreeMap::new();
            for (instance, naive) in naive.iter().enumerate() {
                let part = u32::from(digest) >> (shift + instance as u32 * query.bits) & ((1 << query.bits) - 1);
                prop_assert_eq!(part, naive.way(identity, &values), "{} {:?}", text, values);
                told.entry(naive.hop(identity, values.len())).or_insert(part as u16);
            }
            // Of two instances that hold one hop's value the first counts.
            if query.aggregation.is_of_hops() {
                let carried = scheme.value(&query).unwrap();
                let found: Vec<_> = carried.hops(identity, values.len() as u8, digest).collect();
                prop_assert_eq!(found.len(), told.len(), "{}", text);
                prop_assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), told, "{}", text);
            }
        }
    }

    /// Of several queries on one value each has what it has alone, in bits of its own or in those of
    /// the queries that ask switches for the same; packets that do not carry it tell nothing.
    #[test]
    fn queries_on_one_value_are_those_of_naive_switches(
        text in prop::sample::select(SEVERAL.to_vec()), seed in 0..4u64,
        hops in prop::collection::vec((0..16u32, any::<u16>()), 1..20), identities in prop::collection::vec(any::<u32>(), 40),
    ) {
        let (config, family) = (config(text), HashFamily::reproducible(seed));
        // The queries of which each has bits of its own: none before it asks switches for the same.
        let queries = &config.queries.0;
        let asked = |query: &Query| {
            let aggregation = match query.aggregation {
                Aggregation::Frequent => Aggregation::Quantiles,
                other => other,
            };
            (query.value, query.bits, query.instances, query.range.to, query.compression.name(), aggregation)
        };
        let is_own = |place: &usize| queries[..*place].iter().all(|query| asked(query) != asked(&queries[*place]));
        let own: Vec<_> = (0..queries.len()).filter(is_own).map(|place| &queries[place]).collect();
        let instances = |query: &Query| {
            let query = *query;
            (0..query.instances).map(|instance| Naive::new(query, instance, &family)).collect::<Vec<_>>()
        };
        let naive: Vec<_> = queries.iter().map(instances).collect();
        let q = Global::derive(&family, "pint/plan", 0);
        let (plan, scheme) = (config.parameters().plan().unwrap(), config.parameters().scheme(&family));
        let program = ProgramConfig::new::<Pint>(config.clone());
        let mut replica = program.build("s", &family).unwrap();
        replica.allocate();
        let values: Vec<_> = hops.iter().map(|(shift, value)| (u32::from(*value) >> shift) % 256).collect();
        for identity in identities {
            let mut digest = 0xffff;
            for (hop, number) in (1..).zip(&values) {
                let last = usize::from(hop) == values.len();
                let phv = phv(QueryValue::Queue, *number, hop, last, identity, digest);
                let number = *number as u16;
                let mut phv = Phv { queue_used: number, ingress: number, egress: number, ..phv };
                replica.egress(std::slice::from_mut(&mut phv), order(identity));
                digest = phv.digest;
            }
            let set = plan.set(q.join(identity, q.argument(&0u32.to_be_bytes())));
            for (naive, query) in naive.iter().zip(queries).filter(|(_, query)| query.value != QueryValue::Path) {
                let place = own.iter().position(|other| asked(other) == asked(query)).unwrap();
                let bits = |query: &Query| query.bits * query.instances + query.checksum;
                let bits = |place: usize| if set.contains(place) { bits(own[place]) } else { 0 };
                let shift = (0..place).map(bits).sum::<u32>();
                let part = |instance: u32| u32::from(digest) >> (shift + instance * query.bits) & ((1 << query.bits) - 1);
                let expected = |naive: &Naive| set.contains(place).then(|| naive.way(identity, &values));
                for (instance, naive) in (0..).zip(naive) {
                    let found = set.contains(place).then(|| part(instance));
                    prop_assert_eq!(found, expected(naive), "{} of {} {:?}", query, text, values);
                }
                let read = scheme.value(query).unwrap().part(identity, digest);
                prop_assert_eq!(read.map(u32::from), expected(&naive[0]), "{} of {}", query, text);
            }
        }
    }

    /// The largest and the smallest value of a way are told within the error that is stated, of all
    /// values that have these.
    #[test]
    fn extremes_are_within_their_error(
        text in prop::sample::select(vec![
            "queue:bits=8", "queue:bits=5", "congestion:bits=8", "latency:bits=8", "latency:bits=4:from=1us:to=1ms",
            "utilisation:bits=8", "utilisation:bits=5", "congestion:bits=8:compression=multiplicative",
            "congestion:bits=4:compression=multiplicative", "queue:bits=5:compression=additive",
            "latency:bits=8:to=1ms:compression=additive", "latency:bits=12:to=1s:compression=additive",
        ]),
        largest: bool, seed in 0..4u64, logs in prop::collection::vec(0.0..1.0f64, 1..10), identity: u32,
    ) {
        let mut query: Query = text.parse().unwrap();
        query.aggregation = if largest { Aggregation::Max } else { Aggregation::Min };
        let code = ValueCode::new(&query, &HashFamily::reproducible(seed)).unwrap();
        // Numbers that codes reach, and in which unit.
        let (from, to, unit): (f64, f64, f64) = match query.value {
            QueryValue::Queue => (1.0, 2000.0, 1.0),
            QueryValue::Congestion => (1.0, code.codes().largest(query.value).unwrap() * 65_536.0, 65_536.0),
            QueryValue::Latency => (query.range.from.into(), query.range.to.into(), 1.0),
            _ => (32_768.0, 67_108_864.0, 16_777_216.0),
        };
        let values: Vec<u64> = logs.iter().map(|log| (from * (to / from).powf(*log)).ceil() as u64).collect();
        let digest = (1..).zip(&values).fold(0, |digest, (hop, value)| code.encode(hop, identity, *value, digest));
        let extreme = if largest { values.iter().max() } else { values.iter().min() };
        let truth = *extreme.unwrap() as f64 / unit;
        let found = code.codes().number(query.value, digest);
        let (error, factor) = code.codes().errors(query.value);
        let bound = error.max(truth * (factor - 1.0)).max(truth * (1.0 - 1.0 / factor));
        prop_assert!((found - truth).abs() <= bound * 1.001 + 1.0 / unit, "{found} for {truth}: {query}");
    }
}

/// Sums are right on average, and as far off as randomised rounding makes them: the root mean square
/// of their errors is that of one rounding a hop at most.
#[test]
fn sums_are_right_on_average() {
    const PACKETS: u32 = 20_000;
    for (seed, text, values) in [
        (1, "queue:bits=8:aggregation=sum", vec![3u64, 150, 0, 77, 1, 1, 500, 9]),
        (2, "queue:bits=5:aggregation=sum:to=4000", vec![200; 12]),
        (3, "latency:bits=8:aggregation=sum", vec![900, 45_000, 1_200_000, 300, 7_777_777]),
        (4, "latency:bits=8:aggregation=sum", vec![33; 60]),
        (5, "queue:bits=8:aggregation=sum", vec![1; 62]),
        (
            6,
            "latency:bits=8:aggregation=sum:to=10ms:compression=additive",
            vec![900, 45_000, 1_200_000, 300, 7_777_777],
        ),
    ] {
        let query: Query = text.parse().unwrap();
        let code = ValueCode::new(&query, &HashFamily::reproducible(seed)).unwrap();
        let truth = values.iter().sum::<u64>() as f64;
        let (unit, factor) = code.codes().errors(query.value);
        let (error, most) = code.codes().errors_of(query.value, values.len() as u8);
        let mut rng = SplitMix64::new(seed);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..PACKETS {
            let identity = rng.next_u64() as u32;
            let digest = (1..).zip(&values).fold(0, |digest, (hop, value)| code.encode(hop, identity, *value, digest));
            let found = code.codes().number(query.value, digest);
            assert!((found - truth).abs() <= error.max(truth * (most - 1.0)), "{text}: {found}");
            sum += found;
            squares += (found - truth).powi(2);
        }
        let (mean, deviation) = (sum / f64::from(PACKETS), (squares / f64::from(PACKETS)).sqrt());
        // A step at the end of the way is twice what its factor says at most, and the variance of a
        // rounding a quarter of its square.
        let step = unit.max(2.0 * truth * (factor - 1.0));
        let bound = 0.5 * step * (values.len() as f64).sqrt();
        assert!(deviation <= bound, "{text}: {deviation} of {bound}");
        let off = (mean - truth).abs();
        // Six standard errors: one in 5 · 10⁸.
        let limit = 6.0 * deviation.max(1e-9) / f64::from(PACKETS).sqrt();
        assert!(off <= limit, "{text}: {mean}, not {truth}; {off} of {limit}");
        assert_eq!(deviation == 0.0, seed == 5, "62 packets are told exactly, and nothing else is: {text}");
    }
}

/// A switch is asked for queues, times and latencies only as long as a plan in force has queries for them.
#[test]
fn needs_follow_the_plan() {
    let family = HashFamily::reproducible(1);
    let of = |queries: &str| {
        let replica = ProgramConfig::new::<Pint>(config(queries)).build("s", &family).unwrap();
        [Needs::QUEUE_DEPTH, Needs::HELD, Needs::LATENCY].map(|need| replica.needs().contains(need))
    };
    assert_eq!(of("path+latency:bits=4"), [false, false, true]);
    assert_eq!(of("path+ingress_port:bits=4+egress_port:bits=4"), [false; 3]);
    assert_eq!(of("queue:bits=8+path"), [true, false, false]);
    assert_eq!(of("congestion:bits=4:aggregation=max"), [true, false, false]);
    assert_eq!(of("ingress_time"), [false, true, false]);
    // A later plan asks for queues, and one after that no more.
    let schedule = Schedule::<Pint>::new(config("path"), config("path").parameters());
    for (from, queries) in [(100, "path+queue:bits=8"), (200, "path")] {
        schedule.update(from, config(queries).parameters()).unwrap();
    }
    let replica = Pint::dataplane(&config("path"), "s", &family, &schedule).unwrap();
    const EPOCH: u64 = 1 << 20;
    let (telemetry, _collecting) = Telemetry::new(vec![replica], EpochClock::new(Some(EPOCH)), 400);
    let port =
        || PortInfo { role: Role::Host, mtu: 1500, up: Arc::default(), mac: Arc::default(), inside: Arc::default() };
    let forward = Forward::Xconnect(Xconnect::new(&[(0, 1)]).unwrap());
    let mut switch = Switch::new(vec![port(), port()], telemetry, forward, BatchOrder::PacketMajor);
    for epoch in 90..240 {
        switch.tick(epoch * EPOCH + 1);
        // A packet tells its epoch from those before by four bits.
        let needed = (100..216).contains(&epoch);
        assert_eq!(switch.needs_queues(), needed, "epoch {epoch}");
    }
}

/// The answer of the last simulated epoch for the only value.
fn only(simulation: &Simulation) -> Value {
    let answers = values(simulation);
    let [only] = &answers[..] else { panic!("{answers:?}") };
    assert!(only.evicted_flows == 0 && only.omitted_flows == 0, "{only:?}");
    only.clone()
}

/// The answers of the only simulated epoch, which lack nothing.
fn values(simulation: &Simulation) -> Vec<Value> {
    let values = simulation.answers(0, 0).unwrap().answer::<Values>(usize::MAX).unwrap();
    assert_eq!(values.claim.incomplete.clone().without(Reason::Provisional), Reasons::default());
    values.values.clone()
}

/// The switch at the other end of the link behind a port.
fn peer(simulation: &Simulation, switch: u32, port: u16) -> Option<u32> {
    let network = simulation.network();
    let place = network.crossed().map(|crossed| crossed.from).find(|place| network.owner(*place) == (switch, port));
    network.peer(place.unwrap_or_else(|| panic!("s{switch} has a port {port}")))
}

fn number(name: &str) -> u32 {
    name[1..].parse().unwrap()
}

/// In a row of switches packets come and go by the ports between them: each hop has one number, that
/// of the port to its neighbour on the path, or to a host.
#[test]
fn ports_are_those_of_the_links() {
    for (queries, before) in [("ingress_port:bits=8", true), ("egress_port:bits=8:space=64", false)] {
        let config = config(&format!("path:bits=8+{queries}"));
        let setup = setup("line:4", "isp/uniform,flows=20,packets=8000,seed=5", config);
        let mut simulation = Simulation::new(&setup).unwrap();
        simulation.epoch(&setup.workload, None);
        let report = simulation.finish().pop().unwrap();
        let answers = only(&simulation);
        assert_eq!((answers.error, answers.error_factor, answers.of_hops), (0.0, 1.0, true));
        let mut hops = 0;
        for ValueFlow { told, .. } in &answers.told {
            let names: Vec<_> = told.iter().map(|hop| hop.switch.as_deref().map(number)).collect();
            for (place, hop) in told.iter().enumerate().filter(|(_, hop)| hop.samples > 0) {
                let [only] = &hop.frequent[..] else { panic!("{hop:?}") };
                assert!(only.share == 1.0 && hop.share_error < Some(0.9), "{hop:?}");
                let neighbour = if before { place.checked_sub(1) } else { Some(place + 1) };
                let neighbour = neighbour.and_then(|place| names.get(place));
                if let (Some(switch), None | Some(Some(_))) = (names[place], neighbour) {
                    assert_eq!(peer(&simulation, switch, only.number as u16), neighbour.copied().flatten());
                    hops += 1;
                }
            }
        }
        assert!(hops > 40, "{hops}");
        let counts = &report.programs["pint"].values[0];
        assert_eq!((counts.flows, counts.unit.as_str(), counts.largest_p99), (20, "port", None));
        assert_eq!(counts.samples, answers.told.iter().map(ValueFlow::samples).sum::<u64>());
    }
}

/// A network whose first switches have queues after an epoch of these queries: the answers, the
/// report, and the packets of one direction.
fn with_queues(queries: &str) -> (Vec<Value>, EpochReport, f64) {
    let config = Config { packets: 1 << 14, ..config(queries) };
    let mut setup = setup("line:4", "isp/uniform,flows=12,packets=12000,seed=6", config);
    // One direction has a ninth more than the links take, so that the room of 28 ms is not full.
    (setup.epoch, setup.transit, setup.queue_timeout) = (200_000_000, 88_000_000, 28_000_000);
    let mut probe = Simulation::new(&setup).unwrap();
    probe.epoch(&setup.workload, None);
    let generation = probe.network().generation(0);
    let mut sent = [0u64; 2];
    generation.flows.iter().for_each(|flow| sent[usize::from(flow.src < flow.dst)] += u64::from(flow.sent));
    // An Ethernet frame has 20 bytes beside its own and its FCS, and packets the shim.
    let bytes = u64::from(generation.packet_bytes) + 6 + 24;
    let most = sent.into_iter().max().unwrap();
    setup.rate = Some(most * bytes * 8 * 5 * 9 / 10);
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    let report = simulation.finish().pop().unwrap();
    assert_eq!(report.lost_packets, 0, "{report:?}");
    (values(&simulation), report, most as f64)
}

/// The mean over all packets of whole ways.
fn mean(answers: &Value) -> f64 {
    let told: Vec<_> = answers.told.iter().map(|flow| &flow.told[0]).collect();
    let samples: u64 = told.iter().map(|told| told.samples).sum();
    told.iter().map(|told| told.mean.unwrap() * told.samples as f64).sum::<f64>() / samples as f64
}

/// Several queries on one value have answers of their own: by hop and by whole way, of flows and of
/// all that is sent to one host.
#[test]
fn queries_on_one_value_have_their_own_answers() {
    let queries = "path:bits=8:frequency=1/3+queue:bits=8:to=4000:frequency=1/3\
                   +queue:bits=8:to=4000:aggregation=max:frequency=1/3+queue:bits=8:to=4000:flow=dst:frequency=1/3\
                   +queue:bits=8:to=4000:aggregation=sum:frequency=1/3+queue:bits=8:to=4000:aggregation=min:frequency=1/3";
    let (answers, report, most) = with_queues(queries);
    let [hops, max, of_host, sum, min] = &answers[..] else { panic!("{answers:?}") };
    assert!(answers.iter().all(|of| of.value == "queue" && of.evicted_flows == 0), "{answers:?}");
    let names = [hops, max, of_host, sum, min].map(|of| (of.aggregation.as_str(), of.flow_definition.as_deref()));
    let quantiles = "quantiles";
    assert_eq!(names, [(quantiles, None), ("max", None), (quantiles, Some("dst")), ("sum", None), ("min", None)]);
    // What the first switch had, and the others nearly nothing.
    let means = [max, sum, min].map(mean);
    assert!(means[0] > 0.02 * most && (means[1] - means[0]).abs() < 0.1 * means[0] && means[2] <= 1.0, "{means:?}");
    let later =
        |of: &Value| of.told.iter().flat_map(|flow| &flow.told[1..]).filter_map(|told| told.max).fold(0.0, f64::max);
    let first = |of: &Value| of.told.iter().filter_map(|flow| flow.told[0].max).fold(0.0, f64::max);
    for of in [hops, of_host] {
        assert!((0.08..0.12).contains(&(first(of) / most)) && later(of) <= 2.0, "{} {}", first(of), later(of));
    }
    // Both are made of the same packets.
    let sums = |of: &Value| {
        let mut sums = BTreeMap::<_, u64>::new();
        for flow in &of.told {
            let FlowName::Flow(Flow { dst, .. }) = flow.name else { panic!("{flow:?}") };
            *sums.entry((dst, flow.sink.clone(), flow.told.len())).or_default() += flow.samples();
        }
        sums
    };
    assert_eq!(sums(hops), sums(of_host));
    assert!(of_host.told.len() < hops.told.len(), "{} of {}", of_host.told.len(), hops.told.len());
    let counts = &report.programs["pint"].values;
    let found: Vec<_> = counts.iter().map(|of| (of.aggregation.as_str(), of.flow_definition.as_deref())).collect();
    assert_eq!(found, names);
}

/// Where links are slower than what hosts send, the queue is at the first switch: it shows there and
/// only there, as long as it becomes; and on the whole way, in its share of the room.
#[test]
fn a_queue_shows_where_it_builds_up() {
    let run = |queries: &str| {
        let (mut answers, report, most) = with_queues(queries);
        assert_eq!(answers.len(), 1);
        (answers.remove(0), report, most)
    };
    let (answers, report, most) = run("path:bits=8+queue:bits=8:to=4000");
    let first = answers.told.iter().map(|flow| flow.told[0].max.unwrap());
    let largest = first.fold(0.0, f64::max);
    // A tenth of the packets waits in the end.
    assert!((0.08..0.12).contains(&(largest / most)), "{largest} of {most}");
    let later = answers.told.iter().flat_map(|flow| &flow.told[1..]).filter_map(|hop| hop.max);
    assert!(later.clone().count() > 20 && later.clone().all(|max| max <= 2.0), "{:?}", later.collect::<Vec<_>>());
    let counts = &report.programs["pint"].values[0];
    assert!(counts.largest_p99 >= Some(0.05 * most) && matches!(counts.largest_switch.as_deref(), Some("s0" | "s3")));
    // On the whole way: what the first switch had, and the others nearly nothing.
    let means: Vec<_> = ["max", "sum", "min"]
        .iter()
        .map(|aggregation| mean(&run(&format!("queue:bits=8:to=4000:aggregation={aggregation}")).0))
        .collect();
    assert!(means[0] > 0.02 * most && (means[1] - means[0]).abs() < 4.0 && means[2] <= 1.0, "{means:?}");
    // A packet waits for up to 22 ms, and there is room for 28 ms.
    let (answers, _, _) = run("congestion:bits=8:aggregation=max");
    let largest = answers.told.iter().map(|flow| flow.told[0].max.unwrap()).fold(0.0, f64::max);
    assert!((0.65..0.95).contains(&largest), "{largest}");
    // Links without a rate have no queue.
    let queries = config("path:bits=8+queue:bits=8");
    let setup = setup("line:4", "isp/uniform,flows=12,packets=4000,seed=6", queries);
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    simulation.finish();
    let hops = only(&simulation).told.into_iter().flat_map(|flow| flow.told);
    assert!(hops.filter_map(|hop| hop.max).all(|max| max == 0.0));
}

/// The time since each switch received a packet is that of the links that are left.
#[test]
fn times_are_those_of_the_links() {
    let mut setup =
        setup("line:5", "isp/uniform,flows=20,packets=12000,seed=8", config("path:bits=8+ingress_time:bits=8:to=8ms"));
    // A link takes a millisecond; packets of as much as that are in one burst.
    setup.delay = 1_000_000;
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.epoch(&setup.workload, None);
    simulation.finish();
    let answers = only(&simulation);
    let (mut hops, length) = (0, 1_000_000.0);
    for ValueFlow { told, .. } in &answers.told {
        for (left, hop) in told.iter().rev().enumerate().filter(|(_, hop)| hop.samples > 30) {
            let found = hop.p50.unwrap();
            assert!((found - left as f64 * length).abs() <= length / 2.0 + answers.error, "{left} links: {hop:?}");
            hops += 1;
        }
    }
    assert!(hops > 40, "{hops}");
}
