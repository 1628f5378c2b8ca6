//! The program of `examples/count_min.rs`, which is not weir's: what it guarantees, and that weir
//! runs it as its own.

#[path = "../examples/count_min.rs"]
#[allow(dead_code, reason = "its main function")]
mod count_min;
#[path = "common/layout.rs"]
mod layout_check;

use std::collections::{HashMap, HashSet};

use count_min::{Config, CountMin, Sketch, slots};
use proptest::prelude::*;
use weir::answers::{FlowCount, Frequency, Query, Task};
use weir::assemble::place;
use weir::history::Window;
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Phv};
use weir::program::{Counted, Program, ProgramConfig, Programs, Record};
use weir::replay::Replayer;
use weir::trace::{Frames, Trace, Workload};
use weir::wire::{FiveTuple, Flow, parse};

const FAMILY: u64 = 7;

fn trace(workload: &str) -> Trace {
    workload.parse::<Workload>().unwrap().generate()
}

/// The packets of a trace as the switch has parsed them.
fn packets(trace: &Trace) -> Vec<Phv> {
    let mut packets = Vec::new();
    let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |_, frame| {
        let mut phv = Phv { wire_bytes: frame.len() as u32, ..Phv::of_port(0) };
        parse(frame, &mut phv.headers).unwrap();
        packets.push(phv);
        Ok(())
    });
    taken.unwrap();
    packets
}

/// What a replica has measured of these packets.
fn measured(config: &Config, packets: &[Phv], order: BatchOrder) -> Sketch {
    let mut replica =
        ProgramConfig::new::<CountMin>(config.clone()).build("s", &HashFamily::reproducible(FAMILY)).unwrap();
    replica.allocate();
    packets.to_vec().chunks_mut(100).for_each(|burst| replica.ingress(burst, order));
    let mut bank = replica.spare();
    replica.exchange(bank.as_mut());
    *bank.record().into::<Sketch>().unwrap()
}

fn counts(sketch: &Sketch) -> Vec<(Flow, u64)> {
    let named = |FlowCount { flow, count }: FlowCount| (flow.flow().unwrap(), count.number);
    sketch.found().heaviest(usize::MAX).into_iter().map(named).collect()
}

fn truth(trace: &Trace) -> HashMap<Flow, u64> {
    trace.truth().flows().iter().map(|flow| (flow.flow, flow.packets)).collect()
}

/// A counter that is full says nothing of a flow whose other counters are not, and where all are the
/// flow has at least as many packets.
#[test]
fn full_counters_are_left_out() {
    let config = Config { rows: 2, columns: 10, flows: 4 };
    let family = HashFamily::reproducible(FAMILY);
    let flow = FiveTuple::of(&packets(&trace("isp/burst,flows=1,packets=1"))[0].headers).unwrap();
    let at = |row: usize| 10 * row + slots(&config, &family).slots(flow.bytes())[row] as usize;
    let mut sketch = Sketch::new(&config, &family);
    sketch.flows.insert(flow);
    (sketch.counters[at(0)], sketch.counters[at(1)]) = (u64::MAX, 5_000_000_000);
    let count = |sketch: &Sketch| sketch.found().heaviest(1)[0].count;
    assert_eq!(count(&sketch), 5_000_000_000.into());
    let mut sum = sketch.clone();
    sketch.counters[at(1)] = u64::MAX;
    sum.merge(&sketch).unwrap();
    assert_eq!(count(&sum), Counted { number: u32::MAX.into(), at_least: true });
    assert_eq!(sketch.clone().decode(&sketch.encode()).unwrap(), sketch);
}

/// Its layout follows from the chain of stages alone.
#[test]
fn it_is_as_its_layout_describes_it() {
    let program = ProgramConfig::new::<CountMin>(Config { rows: 3, columns: 100, flows: 64 });
    let arrays = layout_check::is_what_is_built(&program);
    let arrays: Vec<_> = arrays.arrays().iter().map(|place| (place.usage.name, place.index, place.stage)).collect();
    let words = (0..5).map(|word| ("words", word, 8));
    let rows = (0..3).map(|row| ("counters", row, 4 + row));
    assert_eq!(arrays, rows.chain([("largest", 0, 7)]).chain(words).collect::<Vec<_>>());
    let packets = layout_check::packets();
    let compared = layout_check::names_slots(
        &program,
        &packets,
        |_, hash, headers| layout_check::key(&hash.key, headers),
        |array, _| array != "words",
    );
    assert_eq!(compared, 4 * packets.len());
}

/// Also where many flows share a counter, in both address families. And few are far above the
/// truth.
#[test]
fn estimates_are_never_below_the_truth() {
    let trace = trace("isp/burst,flows=3000,packets=60000,ipv6=0.3");
    let (truth, packets) = (truth(&trace), packets(&trace));
    let crowded = [Config { rows: 2, columns: 50, flows: 1000 }, Config { rows: 4, columns: 64, flows: 4096 }];
    for config in crowded.into_iter().chain([Config::default()]) {
        let counts = counts(&measured(&config, &packets, BatchOrder::PacketMajor));
        assert!(counts.len() > 100);
        let below = counts.iter().find(|(flow, count)| *count < truth[flow]);
        assert_eq!(below, None);
        let bound = 2 * packets.len() as u64 / u64::from(config.columns);
        let far = counts.iter().filter(|(flow, count)| count - truth[flow] > bound).count();
        let max = counts.len() >> config.rows;
        assert!(far <= max, "{far} of {} exceed the bound, and {max} may", counts.len());
    }
}

#[test]
fn heavy_flows_are_found_in_isp_traffic() {
    const HEAVY: usize = 300;
    let trace = trace("isp/burst,flows=100000,packets=1000000");
    let found = counts(&measured(&Config::default(), &packets(&trace), BatchOrder::StageMajor));
    let found: HashSet<_> = found.iter().take(HEAVY).map(|(flow, _)| *flow).collect();
    let mut heavy: Vec<_> = truth(&trace).into_iter().collect();
    heavy.sort_by_key(|(flow, packets)| (std::cmp::Reverse(*packets), *flow));
    let min = heavy[HEAVY - 1].1;
    let right = heavy.iter().filter(|(flow, packets)| *packets >= min && found.contains(flow)).count();
    assert!(right >= HEAVY * 9 / 10, "{right} of {HEAVY}");
}

#[test]
fn replicas_add_up_to_one() {
    let packets = packets(&trace("isp/uniform,flows=500,packets=20000,ipv6=0.5"));
    let config = Config { rows: 3, columns: 300, flows: 200 };
    let (some, others): (Vec<_>, Vec<_>) = packets.iter().partition(|phv| phv.headers.sport % 3 == 0);
    let [mut merged, other] =
        [some, others.clone()].map(|packets| measured(&config, &packets, BatchOrder::PacketMajor));
    let flows = &merged.flows | &other.flows;
    merged.merge(&other).unwrap();
    assert_eq!(merged.counters, measured(&config, &packets, BatchOrder::PacketMajor).counters);
    assert_eq!(merged.flows, flows);
    let before = merged.clone();
    let other = measured(&Config { columns: 301, ..config }, &others, BatchOrder::PacketMajor);
    assert!(merged.merge(&other).is_err() && merged == before, "an error changes nothing");
}

#[test]
fn stage_by_stage_is_packet_by_packet() {
    let packets = packets(&trace("isp/burst,flows=800,packets=20000,ipv6=0.5"));
    let config = Config { rows: 5, columns: 100, flows: 37 };
    let [a, b] = [BatchOrder::PacketMajor, BatchOrder::StageMajor].map(|order| measured(&config, &packets, order));
    assert!(a == b);
}

#[test]
fn a_default_sketch_fits_tofino() {
    let programs = vec![ProgramConfig::new::<CountMin>(Config::default())];
    let mut config = weir::config::Config { programs, ..weir::config::Config::default() };
    config.switch.target = "tofino".into();
    config.switch.forward = weir::config::ForwardMode::Xconnect;
    let placement = place(&config, &HashFamily::reproducible(FAMILY)).unwrap();
    assert_eq!((placement.target.name, placement.salus_used()), ("tofino", 4 + 1 + 5));
}

/// docs/program.md shows parts of the examples and of the fourth program; `…` stands for what is left out.
#[test]
fn the_page_shows_what_there_is() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let examples = read("examples/count_min.rs") + &read("examples/coco_sketch.rs") + &read("examples/egress.rs");
    let programs = examples + &read("tests/fourth_program/program.rs");
    let page = read("docs/program.md");
    let shown =
        page.split("```rust\n").skip(1).flat_map(|part| part.lines().take_while(|line| !line.starts_with("```")));
    let parts: Vec<_> = shown.flat_map(|line| line.split('…')).map(str::trim).filter(|part| !part.is_empty()).collect();
    assert!(parts.len() > 40);
    let other: Vec<_> = parts.into_iter().filter(|part| !programs.contains(part)).collect();
    assert_eq!(other, [""; 0]);
}

#[test]
fn errors_name_its_parameters() {
    Programs::of_weir().with::<CountMin>().install();
    let refused = |text: &str| text.parse::<ProgramConfig>().unwrap_err().to_string();
    assert!(refused("count_min:rows=9").ends_with("rows = 9: a whole number from 1 to 8"));
    assert!(refused("count_min:colums=9").ends_with("no such key, there are columns, flows, rows"));
    assert!(refused("count_mean").ends_with("one of hashpipe, chamelemon, pint, disketch, hopcounters, count_min"));
    let schema = serde_json::to_string(&weir::config::Config::schema()).unwrap();
    assert!(schema.contains("Counters a row."));
}

proptest! {
    /// A record has one byte form, and other bytes are refused.
    #[test]
    fn the_byte_form_is_canonical(flows in 0..50usize, at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let config = Config { rows: 2, columns: 9, flows: 16 };
        let packets: Vec<Phv> = packets(&trace("isp/burst,flows=20,packets=300,ipv6=0.5")).into_iter().take(flows).collect();
        let sketch = measured(&config, &packets, BatchOrder::PacketMajor);
        let read = CountMin::reader(&config, "s", &HashFamily::reproducible(FAMILY));
        let mut bytes = sketch.encode();
        prop_assert!(bytes.len() <= CountMin::longest(&config));
        prop_assert_eq!(read(&bytes), Ok(sketch));
        prop_assert!(read(&bytes[..cut.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(other) = read(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }
}

/// Also one that the table has no room for, in several epochs: the history keeps the counters.
#[test]
fn any_flow_has_a_count() {
    let trace = trace("isp/burst,flows=2000,packets=40000,ipv6=0.3");
    let ports = ["a", "b"].map(|name| weir::config::PortConfig::new(name, weir::port::Dev::Memory));
    let program = ProgramConfig::new::<CountMin>(Config { rows: 4, columns: 256, flows: 8 });
    let mut config = weir::config::Config { ports: ports.into(), programs: vec![program], ..Default::default() };
    config.switch.reproducible = Some(FAMILY);
    config.switch.forward = weir::config::ForwardMode::Xconnect;
    config.switch.epoch = weir::config::Length(std::time::Duration::from_millis(10));
    let mut replayer = Replayer::new(config).unwrap();
    let mut number = 0;
    let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |_, frame| {
        replayer.packet(0, 1000 * number, frame);
        number += 1;
        Ok(())
    });
    taken.unwrap();
    replayer.finish();
    let history = &replayer.histories()[0];
    let (mut missed, mut light) = (0, 0);
    for (flow, packets) in truth(&trace) {
        let flow = Some(flow.to_string().parse().unwrap());
        let query = Query { flow, ..Query::new(Task::Frequency, Window::All) };
        let answer = history.answer::<Frequency>(&query).unwrap();
        assert!(answer.claim.complete && answer.claim.last_epoch == Some(3), "{:?}", answer.claim);
        let count = answer.count();
        assert!(packets <= count.upper_bound.unwrap() && count.estimate == count.upper_bound.unwrap());
        missed += usize::from(packets < count.lower_bound);
        light += usize::from(packets < 20);
    }
    assert!(missed <= 20 && light > 1000, "{missed} of 2000 below the bound, {light} light flows");
}
