//! The program of `examples/coco_sketch.rs`: what it guarantees, and the pieces that it is made of, arrays
//! side by side, a stage without memory and random numbers, on their way through a switch.

#[path = "../examples/coco_sketch.rs"]
#[allow(dead_code, reason = "its main function")]
mod coco_sketch;
#[path = "common/layout.rs"]
mod layout_check;

#[path = "common/frames.rs"]
#[allow(dead_code)]
mod frames;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use coco_sketch::{By, CocoSketch, Config, Sketch, draws, slots};
use proptest::prelude::*;
use weir::answers::FlowCount;
use weir::assemble::place;
use weir::forward::{Forward, Xconnect};
use weir::pisa::hash::{HashFamily, HashLayout};
use weir::pisa::{ArrayCells, BatchOrder, Layout, Phv, Probe, chance};
use weir::program::{AnyRecord, Bank, Counted, Dataplane, Needs, Program, ProgramConfig, Record};
use weir::replay::Replayer;
use weir::switch::{Burst, PortInfo, Role, Switch, Telemetry, TxBursts};
use weir::telemetry::epoch::EpochClock;
use weir::trace::{Frames, Workload};
use weir::wire::{FiveTuple, Flow, Headers, HeapFrame, parse};

/// The packets of a workload as the switch has parsed them, with the random numbers of this family.
fn packets(workload: &str, family: &HashFamily) -> Vec<Phv> {
    let (mut packets, mut generator) = (Vec::new(), family.generator("s", 0));
    let trace = workload.parse::<Workload>().unwrap().generate();
    let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |_, frame| {
        let mut phv = Phv { wire_bytes: frame.len() as u32, ..Phv::of_port(0) };
        parse(frame, &mut phv.headers).unwrap();
        phv.set_draw(generator.draw());
        packets.push(phv);
        Ok(())
    });
    taken.unwrap();
    packets
}

/// What a replica has measured of these packets.
fn measured(config: &Config, packets: &[Phv], family: &HashFamily, order: BatchOrder) -> Sketch {
    let mut replica = ProgramConfig::new::<CocoSketch>(config.clone()).build("s", family).unwrap();
    assert!(replica.needs().contains(Needs::DRAW));
    replica.allocate();
    packets.to_vec().chunks_mut(100).for_each(|burst| replica.ingress(burst, order));
    let mut bank = replica.spare();
    replica.exchange(bank.as_mut());
    *bank.record().into::<Sketch>().unwrap()
}

fn config() -> impl Strategy<Value = Config> {
    (1..=4u32, 1..60u32).prop_map(|(arrays, buckets)| Config { arrays, buckets, by: By::Flow })
}

fn counts(sketch: &Sketch, by: By) -> HashMap<Flow, u64> {
    let named = |FlowCount { flow, count }: FlowCount| (flow.flow().unwrap(), count.number);
    sketch.found(by).heaviest(usize::MAX).into_iter().map(named).collect()
}

fn truth(packets: &[Phv], by: By) -> HashMap<Flow, u64> {
    let mut truth = HashMap::new();
    let flows = packets.iter().map(|phv| FiveTuple::of(&phv.headers).unwrap().flow());
    flows.for_each(|flow| *truth.entry(by.name(&flow)).or_default() += 1);
    truth
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// The registers are those of the paper's algorithm, taken packet by packet from maps, in either order.
    #[test]
    fn registers_equal_a_naive_oracle(config in config(), seed: u64) {
        let family = HashFamily::reproducible(seed);
        let packets = packets(&format!("isp/burst,flows=150,packets=3000,ipv6=0.4,seed={}", seed % 1000), &family);
        let (slots, draws) = (slots(&config, &family), draws(&config, &family));
        let mut buckets = vec![BTreeMap::<u32, (FiveTuple, u32)>::new(); config.arrays as usize];
        for phv in &packets {
            let tuple = FiveTuple::of(&phv.headers).unwrap();
            let (slots, draws) = (slots.slots(tuple.bytes()), draws.of(phv));
            for (array, (slot, draw)) in buckets.iter_mut().zip(slots.into_iter().zip(draws)) {
                let (key, count) = array.entry(slot).or_default();
                *count += 1;
                if chance::happens(draw, 1, *count) {
                    *key = tuple;
                }
            }
        }
        let mut expected = Sketch::new(&config);
        for (array, buckets) in expected.arrays.iter_mut().zip(buckets) {
            buckets.into_values().for_each(|(key, count)| *array.entry(key).or_default() += u64::from(count).into());
        }
        for order in [BatchOrder::PacketMajor, BatchOrder::StageMajor] {
            prop_assert_eq!(&measured(&config, &packets, &family, order), &expected);
        }
    }

    /// A record has one byte form, and other bytes are refused.
    #[test]
    fn the_byte_form_is_canonical(config in config(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let family = HashFamily::reproducible(3);
        let packets = packets("isp/burst,flows=20,packets=300,ipv6=0.5", &family);
        let mut sketch = measured(&config, &packets, &family, BatchOrder::PacketMajor);
        if let Some(mut first) = sketch.arrays[0].first_entry() {
            *first.get_mut() = Counted::of_register(u32::MAX);
        }
        let read = CocoSketch::reader(&config, "s", &family);
        let mut bytes = sketch.encode();
        prop_assert!(bytes.len() <= CocoSketch::longest(&config));
        prop_assert_eq!(read(&bytes), Ok(sketch));
        prop_assert!(read(&bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(other) = read(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }
}

/// Over seeds of hashes and random numbers, estimates of flows and of sources are right in the mean, and
/// their mean squared error is at most what the variance f N / w of an array allows, divided by the two
/// arrays.
#[test]
fn errors_keep_to_the_bound() {
    const SEEDS: u64 = 30;
    let config = Config { arrays: 2, buckets: 100, by: By::Flow };
    for by in [By::Flow, By::Source] {
        let (mut squares, mut errors, mut bounds) = (0.0, 0.0, 0.0);
        for seed in 0..SEEDS {
            let family = HashFamily::reproducible(seed);
            let packets = packets("isp/burst,flows=1000,packets=20000", &family);
            let counts = counts(&measured(&config, &packets, &family, BatchOrder::StageMajor), by);
            let mut truth: Vec<_> = truth(&packets, by).into_iter().collect();
            truth.sort_by_key(|(flow, packets)| (std::cmp::Reverse(*packets), *flow));
            for (flow, true_packets) in &truth[..40] {
                let error = counts.get(flow).map_or(0.0, |count| *count as f64) - *true_packets as f64;
                let bound = *true_packets as f64 * packets.len() as f64 / 100.0 / 2.0;
                (squares, errors, bounds) = (squares + error * error, errors + error, bounds + bound);
            }
        }
        let share = squares / bounds;
        assert!((0.3..1.15).contains(&share), "{by:?}: {share} of the bound");
        // Errors of the flows of one sketch are not independent, of sketches they are.
        let deviation = (bounds * 40.0).sqrt();
        assert!(errors.abs() < 3.0 * deviation, "{by:?}: the mean is off by {errors} of {deviation}");
        assert!(errors.abs() / SEEDS as f64 / 40.0 < 12.0, "{by:?}: {errors}");
    }
}

#[test]
fn heavy_flows_and_sources_are_found_in_isp_traffic() {
    const HEAVY: usize = 50;
    let family = HashFamily::reproducible(7);
    let packets = packets("isp/burst,flows=50000,packets=500000", &family);
    let sketch = measured(&Config::default(), &packets, &family, BatchOrder::StageMajor);
    for by in [By::Flow, By::Source] {
        let found: Vec<_> =
            sketch.found(by).heaviest(HEAVY).into_iter().map(|flow| flow.flow.flow().unwrap()).collect();
        let mut heavy: Vec<_> = truth(&packets, by).into_iter().collect();
        heavy.sort_by_key(|(flow, packets)| (std::cmp::Reverse(*packets), *flow));
        let right = heavy[..HEAVY].iter().filter(|(flow, _)| found.contains(flow)).count();
        assert!(right >= HEAVY * 4 / 5, "{by:?}: {right} of {HEAVY}");
    }
}

#[test]
fn replicas_add_up() {
    let family = HashFamily::reproducible(5);
    let (config, packets) = (Config::default(), packets("isp/uniform,flows=100,packets=9000,ipv6=0.5", &family));
    let (some, others): (Vec<_>, Vec<_>) = packets.iter().partition(|phv| phv.headers.sport % 3 == 0);
    let [mut merged, other] =
        [some, others].map(|packets| measured(&config, &packets, &family, BatchOrder::PacketMajor));
    merged.merge(&other).unwrap();
    let sum: u64 = merged.arrays[0].values().map(|count| count.number).sum();
    assert_eq!(sum, packets.len() as u64, "each packet is in one bucket of each array");
    assert_eq!(counts(&merged, By::Flow), truth(&packets, By::Flow), "few flows in many buckets are alone");
    let other = Sketch::new(&Config { buckets: 7, ..config });
    assert!(merged.merge(&other).is_err());
}

/// Its layout follows from the chain of stages alone, random numbers included.
#[test]
fn it_is_as_its_layout_describes_it() {
    let program = ProgramConfig::new::<CocoSketch>(Config { arrays: 3, buckets: 100, by: By::Flow });
    let layout = layout_check::is_what_is_built(&program);
    let arrays: Vec<_> = layout.arrays().iter().map(|place| (place.usage.name, place.index, place.stage)).collect();
    let counts = (0..3).map(|array| ("counts", array, 4));
    assert_eq!(arrays, counts.chain((0..15).map(|word| ("keys", word, 6))).collect::<Vec<_>>());
    let packets = layout_check::packets();
    let key = |_: &Layout, hash: &HashLayout, headers: &Headers| layout_check::key(&hash.key, headers);
    assert!(layout_check::names_slots(&program, &packets, key, |array, _| array == "counts") == 3 * packets.len());
}

/// Two arrays side by side take seven stages of Tofino: two for hashes, whose halves are joined on the way to
/// the registers, one for counts, one for the decision, three for the ten words of keys.
#[test]
fn two_arrays_take_seven_stages() {
    let placed = |arrays: u32| {
        let program = ProgramConfig::new::<CocoSketch>(Config { arrays, ..Config::default() });
        let mut config = weir::config::Config { programs: vec![program], ..weir::config::Config::default() };
        config.switch.target = "tofino".into();
        config.switch.forward = weir::config::ForwardMode::Xconnect;
        place(&config, &HashFamily::reproducible(1)).unwrap()
    };
    let placement = placed(2);
    assert_eq!((placement.stages_used(), placement.salus_used()), (7, 2 + 10));
    let draws: Vec<_> = placement.stages.iter().map(|stage| stage.draws.len()).collect();
    assert_eq!((draws[0], draws.iter().sum::<usize>()), (2, 2), "random numbers are declared");
    assert_eq!(placed(3).stages_used(), 8);
}

fn replayer(seed: Option<u64>) -> Replayer {
    let ports = ["a", "b"].map(|name| weir::config::PortConfig::new(name, weir::port::Dev::Memory));
    let program = ProgramConfig::new::<CocoSketch>(Config { arrays: 2, buckets: 64, by: By::Flow });
    let mut config = weir::config::Config { ports: ports.into(), programs: vec![program], ..Default::default() };
    config.switch.reproducible = seed;
    config.switch.forward = weir::config::ForwardMode::Xconnect;
    Replayer::single_epoch(config).unwrap()
}

/// A trace shows the packet's random number and what was decided by it, in the budget's stages; with a seed
/// it is the same again.
#[test]
fn a_trace_shows_the_random_number() {
    let frame = frames::udp(1, 2, frames::host_mac(2), 80, 10);
    let traces = |seed| {
        let mut replayer = replayer(seed);
        [0, 1, 2].map(|_| replayer.trace(0, 5, &frame, frame.len()).programs.remove(0))
    };
    let traced = traces(Some(7));
    assert_eq!(traced, traces(Some(7)));
    assert_ne!(traced[0].draw, traced[1].draw);
    assert!(traced.iter().zip(traces(Some(8))).all(|(one, other)| one.draw != other.draw));
    assert_ne!(traces(None)[0].draw, traces(None)[0].draw);
    let [first, ..] = &traced;
    assert!(first.draw.is_some() && first.egress_draw.is_none());
    let stages: Vec<_> = first.stages.iter().map(|stage| (stage[0].logical, stage.len())).collect();
    assert_eq!(stages, [(Some(4), 2), (Some(5), 1), (Some(6), 10)]);
    let step = &first.stages[1][0];
    assert_eq!((&*step.array, &step.cell), ("take", &None));
    assert_eq!(step.computed.as_deref(), Some("the buckets of arrays [1, 2]"), "an empty bucket is taken");
}

/// The random numbers that ingress and egress stages see.
type Seen = Arc<Mutex<[Vec<u32>; 2]>>;

/// Notes them, and measures nothing.
struct Noting(Seen);

impl Noting {
    fn note(&self, at_egress: usize, phvs: &[Phv]) {
        self.0.lock().unwrap()[at_egress].extend(phvs.iter().map(Phv::draw));
    }
}

impl Bank for Noting {
    fn clear(&mut self) {}

    fn record(&self) -> AnyRecord {
        unreachable!("nobody collects")
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        Vec::new()
    }
}

impl Dataplane for Noting {
    fn ingress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.note(0, phvs);
    }

    fn trace(&mut self, phv: &mut Phv, _: &mut dyn Probe) {
        self.note(0, std::slice::from_ref(phv));
    }

    fn needs(&self) -> Needs {
        Needs::DRAW | Needs::EGRESS
    }

    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.note(1, phvs);
    }

    fn trace_egress(&mut self, phv: &mut Phv, _: &mut dyn Probe) {
        self.note(1, std::slice::from_ref(phv));
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(Self(Seen::default()))
    }

    fn exchange(&mut self, _: &mut dyn Bank) {}

    fn layout(&self) -> Layout {
        Layout::new("noting")
    }
}

/// Each packet has its own, before ingress and before egress stages, however packets come in bursts and
/// whether they are traced.
#[test]
fn random_numbers_do_not_depend_on_bursts() {
    const PACKETS: usize = 128;
    let drawn = |burst: usize| {
        let seen = Seen::default();
        let clock = EpochClock::new(None);
        let (telemetry, _collecting) = Telemetry::new(vec![Box::new(Noting(seen.clone()))], clock, 1);
        let telemetry = telemetry.drawing(&HashFamily::reproducible(9), "s", 0);
        let port = || PortInfo {
            role: Role::Host,
            mtu: 1600,
            up: Arc::new(AtomicBool::new(true)),
            mac: Arc::default(),
            inside: Arc::default(),
        };
        let forward = Forward::Xconnect(Xconnect::new(&[(0, 1)]).unwrap());
        let mut switch = Switch::new(vec![port(), port()], telemetry, forward, BatchOrder::Fastest);
        let frame = || HeapFrame::new(&frames::udp(1, 2, frames::host_mac(2), 80, 10));
        for number in 0..PACKETS / burst.max(1) {
            let mut out = TxBursts::new(2);
            if burst == 1 && number % 2 == 1 {
                switch.trace(0, frame(), 1, &mut out);
            } else {
                switch.process(0, &mut (0..burst).map(|_| frame()).collect::<Burst<_>>(), 1, &mut out);
            }
        }
        seen.lock().unwrap().clone()
    };
    let [one, some, full] = [1, 16, 64].map(drawn);
    assert!(one == some && some == full);
    let mut all = one.concat();
    assert_eq!(all.len(), 2 * PACKETS);
    all.sort_unstable();
    all.dedup();
    assert!(all.len() >= 2 * PACKETS - 1, "each packet has its own number, at egress another one");
}
