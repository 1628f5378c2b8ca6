//! Queries of kept records: on paths, of named flows, and their bounds.

use super::super::config::SketchKind;
use super::super::record::Part;
use super::super::{Config, Memory};
use super::*;
use crate::answers::{AnsweredRoutes, FlowSizes, HeavyChanges, HeavyFlows, Numbers};
use crate::answers::{Certainty, Claimed, FlowPath, LowerBounds, NamedFlows, Queryable, Route, Routes};
use crate::history::{Entry, History, Room, Window};
use crate::output::Style;
use crate::pisa::hash::HashFamily;
use crate::program::{Coverage, Key, SubEpoch};
use crate::wire::Headers;

fn flow(sport: u16) -> Flow {
    Flow::from_port(sport)
}

/// The record of a switch that saw these flows, each with a number of packets.
fn record(switch: &str, epoch: u64, config: &Config, flows: &[(u16, i32)]) -> (Arc<str>, Box<Fragment>) {
    let shape = DiSketch::shape(config, switch, &HashFamily::reproducible(1));
    let mut fragment = Fragment::new(shape.clone());
    let mut counters = vec![0; config.counters()];
    for (sport, packets) in flows {
        let crcs = shape.hashes.of_headers(&Headers::of_flow(&flow(*sport)).unwrap()).unwrap();
        for level in 0..=crcs.level_of(config.sketch) {
            let place = shape.hashes.place_in(level, crcs, shape.hashes.constants(epoch));
            let is_negative = place.is_negative && config.sketch.is_signed();
            let slot = level * config.width().get() as usize + place.slot as usize;
            counters[slot] += if is_negative { -packets } else { *packets };
        }
    }
    let is_full = flows.iter().any(|(_, packets)| *packets == i32::MAX);
    let mut coverage = Coverage::default();
    coverage.enter(SubEpoch::WHOLE, true);
    fragment.parts.push(Part::new(coverage, is_full, counters.into()));
    (switch.into(), Box::new(fragment))
}

fn history(config: &Config, epochs: Vec<Vec<(Arc<str>, Box<Fragment>)>>, expected: usize) -> History<KeptFragments> {
    let history = History::new(Room { epochs: 99, bytes: 1 << 20 });
    for (number, records) in (1..).zip(epochs) {
        let switches = records.iter().map(|(switch, _)| switch.clone()).collect();
        let kept = KeptFragments::new(config.count, config.decode, number, expected, records);
        history.push(Entry { switches, ..Entry::new(number, kept) });
    }
    history
}

fn routes(paths: &[(u16, &[&str])]) -> ByRoute {
    let path = |(sport, switches): &(u16, &[&str])| {
        let switches = switches.iter().map(|name| (*name != "?").then(|| Arc::from(*name))).collect();
        FlowPath { switches, certainty: Certainty::Decided, ..FlowPath::of(FlowName::Flow(flow(*sport))) }
    };
    let answered = AnsweredRoutes::new(&paths.iter().map(path).collect::<Vec<_>>());
    ByRoute::new(Arc::new(NamedFlows {
        flows: vec![flow(9)],
        routes: Some(Arc::new(answered)),
        ..NamedFlows::default()
    }))
}

fn ask(history: &History<KeptFragments>, sport: u16, routes: Option<ByRoute>) -> (u64, bool, Vec<Reason>) {
    let pattern = Some(flow(sport).to_string().parse().unwrap());
    let query = Query { flow: pattern, routes, ..Query::new(Task::Frequency, Window::All) };
    let found: Claimed<Frequency> = (history as &dyn Queryable).answer(&query).unwrap();
    let reasons = Reason::ALL.into_iter().filter(|reason| found.claim.incomplete.contains(*reason)).collect();
    (found.count().estimate, found.count().upper_bound.is_some() || found.confidence < 1.0, reasons)
}

/// A flow is counted where it passes: on the switches of its path, and after a change of it on those
/// that all its paths share. What is not known of a path is said.
#[test]
fn flows_are_counted_on_their_paths() {
    for decode in [Decode::Median, Decode::Likelihood] {
        let config = Config { memory: Memory(4000), decode, ..Config::default() };
        let epoch = |number, by_b: bool| {
            let (own, other) = if by_b { ("b", "c") } else { ("c", "b") };
            vec![
                record("a", number, &config, &[(1, 10), (2, 5)]),
                record(own, number, &config, &[(1, 10)]),
                record(other, number, &config, &[(2, 5)]),
                record("d", number, &config, &[(1, 10)]),
            ]
        };
        let history = history(&config, vec![epoch(1, true), epoch(2, true), epoch(3, false)], 4);
        let ask = |paths: &[(u16, &[&str])]| ask(&history, 1, Some(routes(paths)));
        assert_eq!(ask(&[(1, &["a", "b", "d"]), (1, &["a", "c", "d"])]), (30, true, vec![]));
        // The path before the change alone: one epoch is seen by the ends of the path only.
        assert!((28..=30).contains(&ask(&[(1, &["a", "b", "d"])]).0));
        assert_eq!(ask(&[(1, &["a", "?", "d"])]), (0, false, vec![Reason::PathsUnknown]));
        assert_eq!(ask(&[(1, &["a", "?", "d"]), (1, &["a", "d"])]), (30, false, vec![Reason::PathsUnknown]));
        assert_eq!(ask(&[(2, &["a", "b", "d"])]), (0, false, vec![Reason::PathsUnknown]));
    }
}

/// The switches are told whose records were used, each with the number of epochs: not those off the path,
/// and none of an epoch whose record is missing or lacks the flow's sub-epoch. A pattern rests on the records of
/// all its flows.
#[test]
fn the_records_behind_a_count_are_told() {
    let config = Config { memory: Memory(4000), ..Config::default() };
    let of = |switches: &[&str], number| -> Vec<_> {
        switches.iter().map(|name| record(name, number, &config, &[(1, 10)])).collect()
    };
    let mut second = of(&["a", "b", "d"], 2);
    second[1].1.parts.clear();
    let history = history(&config, vec![of(&["a", "b", "c", "d"], 1), second, of(&["b", "c"], 3)], 4);
    let routes = || Some(routes(&[(1, &["a", "b", "d"]), (2, &["a", "c", "d"])]));
    let ask = |flow: &str| {
        let query =
            Query { flow: Some(flow.parse().unwrap()), routes: routes(), ..Query::new(Task::Frequency, Window::All) };
        let found: Claimed<Frequency> = (&history as &dyn Queryable).answer(&query).unwrap();
        (found.rests_on.clone().into_iter().collect::<Vec<_>>(), Frequency::page(&found).to_text(Style::default()))
    };
    let told =
        |switches: &[(&str, u64)]| switches.iter().map(|(name, epochs)| ((*name).into(), *epochs)).collect::<Vec<_>>();
    let (alone, page) = ask(&flow(1).to_string());
    assert_eq!(alone, told(&[("a", 2), ("b", 2), ("d", 2)]));
    assert!(page.contains("records used: a in 2 epochs, b in 2 epochs, d in 2 epochs"), "{page}");
    assert_eq!(ask("10.0.0.1 → *").0, told(&[("a", 2), ("b", 2), ("c", 2), ("d", 2)]));

    assert_eq!(ask("10.0.0.9:1 → 10.0.0.2:80 tcp").0, []);
}

/// Paths of one epoch each, and in the second one two with as many packets.
#[derive(Debug)]
struct Rerouted;

impl Routes for Rerouted {
    fn of(&self, _: &Flow) -> Vec<Route> {
        Vec::new()
    }

    fn in_epoch(&self, _: &Flow, epoch: u64) -> Vec<Route> {
        let route = |switches: &[&str]| Route {
            switches: switches.iter().map(|name| Some(Arc::from(*name))).collect(),
            certainty: Certainty::Sure,
            packets: Some(500),
        };
        let (old, new) = (route(&["a", "b", "d"]), route(&["a", "c", "d"]));
        match epoch {
            1 => vec![old],
            2 => vec![old, new],
            _ => vec![new],
        }
    }
}

/// After a change of the path each epoch is answered by the switches of its own path, and the epoch of
/// the change by all of both, each for its share of the packets.
#[test]
fn paths_may_change_in_mid_epoch() {
    for (decode, sketch) in [
        (Decode::Median, SketchKind::Count),
        (Decode::Likelihood, SketchKind::Count),
        (Decode::Median, SketchKind::CountMin),
    ] {
        let config = Config { memory: Memory(4000), decode, sketch, ..Config::default() };
        // A flow beside it makes the ends of the path useless, but for an epoch.
        let epoch = |number, b, c| {
            let noisy = if number == 3 { 0 } else { 70 };
            let crowd: Vec<_> = (0..2000).map(|sport| (1000 + sport, noisy)).chain([(1, 10)]).collect();
            vec![
                record("a", number, &config, &crowd),
                record("b", number, &config, &[(1, b)]),
                record("c", number, &config, &[(1, c)]),
                record("d", number, &config, &[(1, 10)]),
            ]
        };
        let history = history(&config, vec![epoch(1, 10, 0), epoch(2, 5, 5), epoch(3, 0, 10)], 4);
        let (count, is_bounded, lack) = ask(&history, 1, Some(ByRoute::new(Arc::new(Rerouted))));
        assert_eq!((count, is_bounded, lack), (30, false, vec![]), "{decode:?} {sketch:?}");
    }
}

/// A table of another program, by source port.
#[derive(Clone)]
struct Table(Unit, Vec<(u16, u64)>);

impl Kept for Table {
    fn bytes(&self) -> usize {
        0
    }
}

impl Answers for Table {
    fn answer(_: &Epochs<Self>, _: &Query) -> Option<ProgramAnswer> {
        None
    }

    fn certain(&self) -> Option<FoundFlows> {
        let flow =
            |(sport, number): &(u16, u64)| FlowCount { flow: FlowName::Flow(flow(*sport)), count: (*number).into() };
        Some(FoundFlows { unit: self.0, flows: self.1.iter().map(flow).collect(), ..FoundFlows::default() })
    }
}

/// What another program is certain of is a lower bound of the answer, which crowded records then exceed by
/// far less. Bytes say nothing about packets, the paper's decoding takes no bounds, and a table that does not
/// know the flow changes nothing at all.
#[test]
fn certain_counts_of_others_bound_the_answer() {
    let ask = |config: &Config, epochs: usize, table: Option<Table>| {
        let crowd: Vec<_> = (1..4000).map(|sport| (sport, if sport == 1 { 5000 } else { 40 })).collect();
        let records = (1..=3)
            .map(|number| if number <= epochs as u64 { vec![record("a", number, config, &crowd)] } else { Vec::new() });
        let history = history(config, records.collect(), 1);
        let bounds = table.map(|table| {
            let tables = History::new(Room { epochs: 9, bytes: 1 << 20 });
            (1..=3).for_each(|number| {
                tables.push(Entry { switches: vec!["a".into()], ..Entry::new(number, table.clone()) })
            });
            LowerBounds::among([&tables as &dyn Queryable].into_iter(), &Query::new(Task::Frequency, Window::All))
        });
        let named = NamedFlows { bounds: bounds.unwrap_or_default(), ..NamedFlows::default() };
        let (pattern, routes) = (flow(1).to_string().parse().unwrap(), Some(ByRoute::new(Arc::new(named))));
        let query = Query { flow: Some(pattern), routes, ..Query::new(Task::Frequency, Window::All) };
        (&history as &dyn Queryable).answer::<Frequency>(&query).unwrap()
    };
    let packets = |flows: &[(u16, u64)]| Some(Table(Unit::Packets, flows.to_vec()));
    for sketch in [SketchKind::Count, SketchKind::CountMin] {
        let config = Config { memory: Memory(400), sketch, ..Config::default() };
        let (without, with) = (ask(&config, 3, None), ask(&config, 3, packets(&[(1, 5000), (2, 40)])));
        let error = |found: &Claimed<Frequency>| found.count().estimate.abs_diff(15_000);
        assert!(error(&with) < error(&without), "{sketch:?} {with:?} {without:?}");
        assert_eq!((with.count().lower_bound, with.confidence), (15_000, 1.0));
        assert!(with.count().estimate >= 15_000);
        for nothing in [packets(&[(2, 40)]), Some(Table(Unit::Bytes, vec![(1, 5000)]))] {
            assert_eq!(ask(&config, 3, nothing), without);
        }
        // No record of the last epoch.
        let short = ask(&config, 2, packets(&[(1, 5000)]));
        assert!(short.count().lower_bound == 15_000 && short.claim.incomplete.contains(Reason::NotAnalysed));
        let median = Config { decode: Decode::Median, ..config };
        assert_eq!(ask(&median, 3, packets(&[(1, 5000)])), ask(&median, 3, None));
    }
}

/// One switch needs no path. Flows are named by others, and a full counter is said.
#[test]
fn flows_of_one_switch_need_names_alone() {
    let config = Config { memory: Memory(4000), ..Config::default() };
    let history = history(&config, vec![vec![record("a", 1, &config, &[(9, 7), (3, 4)])]], 1);
    assert_eq!(ask(&history, 3, None), (4, true, vec![]));
    let heavy = |routes| {
        let query = Query { routes, ..Query::new(Task::Heavy, Window::All) };
        let found: Claimed<HeavyFlows> = (&history as &dyn Queryable).answer(&query).unwrap();
        (
            found.counts().map(|heavy| (heavy.flow, heavy.count)).collect::<Vec<_>>(),
            found.claim.incomplete.contains(Reason::Unnamed),
        )
    };
    assert_eq!(heavy(Some(routes(&[]))), (vec![(flow(9), 7)], false));
    assert_eq!(heavy(None), (vec![], true));
    let full = self::history(&config, vec![vec![record("a", 1, &config, &[(9, i32::MAX)])]], 1);
    assert_eq!(ask(&full, 9, None).2, [Reason::Saturated]);
}

/// Flows that are named are summed up for each epoch and for all together, and compared with the epoch
/// before. Without names nothing is known, and the answer says so.
#[test]
fn named_flows_are_summed_up_and_compared() {
    for sketch in [SketchKind::Count, SketchKind::CountMin, SketchKind::UnivMon] {
        let config = Config { memory: Memory(262_144), sketch, ..Config::default() };
        let epochs = [[(1, 8), (2, 4), (3, 4)], [(1, 8), (2, 0), (3, 24)]];
        let records = (1..).zip(&epochs).map(|(number, flows)| vec![record("a", number, &config, flows)]).collect();
        let history = history(&config, records, 1);
        let named = NamedFlows { flows: (1..9).map(flow).collect(), ..NamedFlows::default() };
        let ask = |task, window, routes| Query { routes, ..Query::new(task, window) };
        let routes = Some(ByRoute::new(Arc::new(named)));
        let history: &dyn Queryable = &history;
        // 16, 4 and 28 packets of 48.
        let entropy = [16.0, 4.0, 28.0].map(|size: f64| -size / 48.0 * (size / 48.0).log2()).iter().sum::<f64>();
        for window in [Window::All, Window::Last { seconds: 60.0 }] {
            let sizes: Claimed<FlowSizes> = history.answer(&ask(Task::Flows, window, routes.clone())).unwrap();
            assert_eq!((sizes.flows, sizes.heavy.len()), (Some(3.0), 3), "{sketch:?}, {window:?}");
            assert!((sizes.entropy_bits.unwrap() - entropy).abs() < 1e-9);
        }
        let numbers: Claimed<Numbers> = history.answer(&ask(Task::Cardinality, Window::All, routes.clone())).unwrap();
        let flows: Vec<_> = numbers.epochs.iter().map(|epoch| epoch.flows.unwrap()).collect();
        assert_eq!((flows, numbers.epochs[0].entropy_bits), (vec![3.0, 2.0], Some(1.5)));
        let changes: Claimed<HeavyChanges> = history.answer(&ask(Task::Changes, Window::All, routes)).unwrap();
        let changed: Vec<_> = changes.changes.iter().map(|of| (of.name, of.before_packets, of.after_packets)).collect();
        assert_eq!(changed, [(FlowName::Flow(flow(3)), 4, 24), (FlowName::Flow(flow(2)), 4, 0)]);
        assert!(changes.claim.incomplete.contains(Reason::BelowThreshold));
        let sizes: Claimed<FlowSizes> = history.answer(&ask(Task::Flows, Window::All, None)).unwrap();
        assert_eq!((sizes.flows, sizes.claim.incomplete.contains(Reason::Unnamed)), (Some(0.0), true));
    }
    let bytes = Config { count: Unit::Bytes, ..Config::default() };
    let history = history(&bytes, vec![vec![record("a", 1, &bytes, &[])]], 1);
    assert!((&history as &dyn Queryable).ask(&Query::new(Task::Changes, Window::All)).is_err());
}

/// On one switch flows may be named by fewer fields. A query for one of them needs no names, and names
/// with more fields are narrowed.
#[test]
fn flows_have_the_fields_of_the_key() {
    let config = Config { key: Key::Source, ..Config::default() };
    let history = history(&config, vec![vec![record("a", 1, &config, &[(1, 5), (2, 2)])]], 1);
    let history: &dyn Queryable = &history;
    let ask = |pattern: &str| {
        let query = Query { flow: Some(pattern.parse().unwrap()), ..Query::new(Task::Frequency, Window::All) };
        let found: Claimed<Frequency> = history.answer(&query).unwrap();
        (found.count().estimate, found.claim.incomplete.contains(Reason::Unnamed))
    };
    assert_eq!(ask("10.0.0.1 → *"), (7, false));
    assert_eq!(ask("10.0.0.2 → *"), (0, false));
    assert_eq!(ask("10.0.0.1:1 → 10.0.0.2:80 tcp"), (0, true));
    let routes = Some(ByRoute::new(Arc::new(NamedFlows { flows: vec![flow(1), flow(2)], ..NamedFlows::default() })));
    let heavy: Claimed<HeavyFlows> = history.answer(&Query { routes, ..Query::new(Task::Heavy, Window::All) }).unwrap();
    let counts: Vec<_> = heavy.counts().map(|heavy| (heavy.flow.to_string(), heavy.count)).collect();
    assert_eq!(counts, [("10.0.0.1 → *".to_string(), 7)]);
}

/// Count-Min's upper bound is certain where no epoch is cut.
#[test]
fn count_min_has_an_upper_bound() {
    let config = Config { memory: Memory(40), sketch: SketchKind::CountMin, ..Config::default() };
    let flows: Vec<_> = (0..40).map(|sport| (sport, 1 + i32::from(sport) % 7)).collect();
    let history = history(&config, vec![vec![record("a", 1, &config, &flows)]], 1);
    for (sport, packets) in flows {
        let query =
            Query { flow: Some(flow(sport).to_string().parse().unwrap()), ..Query::new(Task::Frequency, Window::All) };
        let found: Claimed<Frequency> = (&history as &dyn Queryable).answer(&query).unwrap();
        assert!(found.count().upper_bound.unwrap() >= packets as u64);
    }
}
