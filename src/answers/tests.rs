//! Answers put together from epochs, and what their documents and pages say.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::*;
use crate::history::{Adaptation, Described, Entry, Finality, Gap as Missing, Reason, Room, SwitchGap};
use crate::json::{Epoch, Time, span};
use crate::output::{Page, Style};
use crate::wire::Flow;

/// What a program keeps that answers whatever a test wants.
#[derive(Clone, Default)]
struct Showed {
    losses: Option<LossesFound>,
    paths: Option<PathAnswers>,
    loops: Option<LoopAnswers>,
    values: Vec<ValueAnswers>,
}

impl Kept for Showed {
    fn bytes(&self) -> usize {
        0
    }

    fn lost_packets(&self) -> u64 {
        self.losses.as_ref().map_or(0, |losses| losses.lost_packets)
    }
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        Some(match query.task {
            Task::Heavy => HeavyFlows::over("p", epochs, query, |_| FoundFlows::default()),
            Task::Frequency => Frequency::told("p", Unit::Packets, query, Estimate::exact(0), Reasons::default()),
            Task::Flows => FlowSizes::told(Sizes::default(), query),
            Task::Cardinality => Numbers::over(epochs, |_| EpochNumbers::default()),
            Task::Losses => Losses::over(epochs, query, |entry| (entry.showed.losses.as_ref(), Reasons::default())),
            Task::Changes => HeavyChanges::to_newest(epochs, query, |_, _| Changed::default()),
            Task::Paths => Paths::over(epochs, query, |showed| showed.paths.as_ref()),
            Task::Latency => Latency::over(epochs, query, |showed| &showed.values),
            Task::Loops => Loops::over(epochs, query, |showed| showed.loops.as_ref()),
            Task::Utilisation => Utilisation::over(epochs, query, |showed| &showed.values),
            Task::Values => Values::over(epochs, query, |showed| &showed.values),
            Task::Places => ProgramAnswer::new(Places::default(), Reasons::default()),
            _ => return None,
        })
    }
}

const LENGTH: u64 = 50_000_000;

/// A history of these epochs, numbered from 1 on.
fn history(epochs: impl IntoIterator<Item = Showed>) -> History<Showed> {
    let history = History::new(Room { epochs: 999, bytes: usize::MAX });
    history.set_length(LENGTH);
    (1..).zip(epochs).for_each(|(epoch, showed)| history.push(Entry::new(epoch, showed)));
    history
}

/// The answer about all epochs, with at most `top` flows of at least `threshold` packets.
fn asked<A: Document>(history: &History<Showed>, (top, threshold): (usize, u64)) -> Claimed<A> {
    let query = Query::new(A::TASK, Window::All).limited(top, threshold);
    history.ask(&query).unwrap().into_document().unwrap()
}

/// Answers to a query: a number that names each flow, its samples, and what these are.
fn values(task: Task, query: &'static str, flows: &[(u16, u64, f64)]) -> ValueAnswers {
    let flow = |&(sport, samples, number): &(u16, u64, f64)| {
        let quantiles = Some(Quantiles { p50: number, p99: number, max: number, ..Quantiles::default() });
        let mean = Some(Mean { mean: number, error: 0.5 });
        let told = vec![HopNumbers { switch: Some("a".into()), samples, quantiles, mean, ..HopNumbers::default() }];
        let flow = FlowName::Flow(Flow { sport: Some(sport), ..Flow::default() });
        FlowValues { flow, sink: "a".into(), checksum: None, path: Vec::new(), told }
    };
    let samples = |&(_, samples, number): &(u16, u64, f64)| SwitchSamples {
        switch: Some("a".into()),
        counts: vec![(number, samples)],
    };
    ValueAnswers {
        task,
        value: query.into(),
        aggregation: "quantiles".into(),
        flow_definition: None,
        query: query.into(),
        unit: ValueUnit::Packets,
        of_hops: true,
        flows: flows.iter().map(flow).collect(),
        switches: flows.iter().map(samples).collect(),
        evicted: 4,
        error: 0.0,
        error_factor: 1.5,
        largest: Some(9.0),
        window_ns: None,
        lack: Reasons::default(),
    }
}

fn of(values: Vec<ValueAnswers>) -> Showed {
    Showed { values, ..Showed::default() }
}

fn port(name: &FlowName) -> u16 {
    name.flow().unwrap().sport.unwrap()
}

/// Queries change places, and one goes away: the table of a task has the answers to one of them,
/// that of the newest epoch, also where it was not the first before. It says which, and that
/// epochs without it are missing. The others have tables of values.
#[test]
fn a_table_is_of_one_query() {
    for task in [Task::Latency, Task::Utilisation] {
        let epoch = |queries: &[(&'static str, u16)]| {
            let query = |(place, &(query, flow)): (usize, &(&'static str, u16))| {
                values(if place == 0 { task } else { Task::Values }, query, &[(flow, 9, 1.0)])
            };
            of(queries.iter().enumerate().map(query).collect())
        };
        let epochs: [&[_]; 4] = [&[("a", 1), ("b", 2)], &[("b", 12), ("a", 11)], &[("a", 21), ("b", 22)], &[("c", 33)]];
        let tables = |epochs: &[&[(&'static str, u16)]]| {
            let history = history(epochs.iter().map(|queries| epoch(queries)));
            let (claim, query, ports) = match task {
                Task::Latency => {
                    let of: Claimed<Latency> = asked(&history, (9, 0));
                    let ports: Vec<_> = of.latencies.iter().map(|flow| port(&flow.name)).collect();
                    (of.claim.clone(), of.query.clone(), ports)
                }
                _ => {
                    let of: Claimed<Utilisation> = asked(&history, (9, 0));
                    let ports = of.utilisations.iter().map(|flow| port(&flow.name)).collect();
                    (of.claim.clone(), of.query.clone(), ports)
                }
            };
            let others: Claimed<Values> = asked(&history, (9, 0));
            let others = others.values.iter().map(|of| {
                let ports = of.told.iter().map(|flow| port(&flow.name));
                (of.query.clone(), ports.collect::<Vec<_>>())
            });
            (query.unwrap_or_default(), ports, claim.incomplete.contains(Reason::NotAsked), others.collect::<Vec<_>>())
        };
        let of = |query: &str, ports: &[u16]| (query.to_owned(), ports.to_vec());
        let expected = |(query, ports): (String, Vec<u16>), lacks, others: &[(String, Vec<u16>)]| {
            (query, ports, lacks, others.to_vec())
        };
        assert_eq!(tables(&epochs[..1]), expected(of("a", &[1]), false, &[of("b", &[2])]));
        assert_eq!(tables(&epochs[..2]), expected(of("b", &[2, 12]), false, &[of("a", &[1, 11])]));
        assert_eq!(tables(&epochs[..3]), expected(of("a", &[1, 11, 21]), false, &[of("b", &[2, 12, 22])]));
        let gone = [of("a", &[1, 11, 21]), of("b", &[2, 12, 22])];
        assert_eq!(tables(&epochs), expected(of("c", &[33]), true, &gone));
        assert_eq!(tables(&[&[]]), expected(of("", &[]), true, &[]));
    }
}

/// Each value has the newest answer of each flow, as far as it is asked for; those of another
/// value say nothing of it.
#[test]
fn values_are_told_apart() {
    let queue = |flows: &[(u16, u64, f64)]| values(Task::Values, "queue", flows);
    let history = history([
        of(vec![queue(&[(1, 50, 1.0), (2, 40, 2.0), (3, 1, 3.0)])]),
        of(vec![queue(&[(1, 10, 7.0)]), values(Task::Values, "congestion", &[(9, 5, 0.5)])]),
    ]);
    let found: Claimed<Values> = asked(&history, (1, 2));
    let told = |value: &Value| {
        let flow = |flow: &ValueFlow| (port(&flow.name), flow.told[0].hop, flow.told[0].p50);
        (value.value.clone(), value.flows, value.omitted_flows, value.told.iter().map(flow).collect::<Vec<_>>())
    };
    let expected = [
        ("queue".to_owned(), 3, 1, vec![(2, Some(1), Some(2.0))]),
        ("congestion".to_owned(), 1, 0, vec![(9, Some(1), Some(0.5))]),
    ];
    assert_eq!(found.values.iter().map(told).collect::<Vec<_>>(), expected);
    let none: Claimed<Values> = asked(&super::tests::history([Showed::default()]), (2, 2));
    assert!(none.claim.incomplete.contains(Reason::NotAsked) && none.values.is_empty());
}

/// What is stated holds of all answers that are named, whatever plans they are of: not of those
/// that a newer answer took the place of, and of the newest where none is named.
#[test]
fn bounds_hold_of_all_plans() {
    let epoch = |error, error_factor, largest, window_ns, flows: &[u16]| {
        let flows: Vec<_> = flows.iter().map(|flow| (*flow, 5, 1.0)).collect();
        of(vec![ValueAnswers { error, error_factor, largest, window_ns, ..values(Task::Values, "queue", &flows) }])
    };
    let epochs = [
        epoch(99.0, 99.0, Some(1.0), None, &[1]),
        epoch(0.5, 1.0, Some(9.0), Some(70), &[2]),
        epoch(0.0, 1.5, Some(7.0), Some(90), &[3]),
        epoch(0.0, 1.2, None, Some(80), &[1]),
    ];
    let stated = |epochs: &[Showed], top| {
        let values: Claimed<Values> = asked(&history(epochs.iter().cloned()), (top, 0));
        let Value { error, error_factor, largest, window_ns, .. } = values.values[0];
        (error, error_factor, largest, window_ns)
    };
    assert_eq!(stated(&epochs, 9), (0.5, 1.5, Some(7.0), Some(90)));
    assert_eq!(stated(&epochs[..3], 9), (99.0, 99.0, Some(1.0), None));
    assert_eq!(stated(&epochs, 0), (0.0, 1.2, None, Some(80)));
}

#[test]
fn each_flow_has_its_newest_answer() {
    let epoch = |number: u64, flows: &[(u16, u64)]| {
        let flows: Vec<_> = flows.iter().map(|&(flow, packets)| (flow, packets, number as f64)).collect();
        let of_epoch = values(Task::Utilisation, "utilisation", &flows);
        of(vec![ValueAnswers { evicted: number, error_factor: 1.0 + number as f64, ..of_epoch }])
    };
    let epochs = [epoch(1, &[(1, 50), (2, 40), (3, 1)]), epoch(2, &[(1, 10)]), epoch(3, &[(4, 30)])];
    let history = history(epochs);
    let found: Claimed<Utilisation> = asked(&history, (2, 2));
    let named = found.utilisations.iter().map(|of| (port(&of.name), of.packets, of.median_utilisation));
    assert_eq!(named.collect::<Vec<_>>(), [(2, 40, 1.0), (4, 30, 3.0)]);
    let none: Claimed<Utilisation> = asked(&history, (9, 99));
    assert_eq!((found.error_factor, none.error_factor), (4.0, 4.0));
    // Flow 1 is not named because of `top`, and flow 3 was not asked for.
    assert_eq!((found.flows, found.omitted_flows, found.evicted_flows), (4, 1, 3));
}

/// A question names flows, and switches that their paths cross in this order.
#[test]
fn flows_and_paths_can_be_asked_for() {
    let path = |sport: u16, switches: &[&str]| FlowPath {
        flow: FlowName::Flow(Flow { sport: Some(sport), ..Flow::default() }),
        sink: "z".into(),
        checksum: None,
        switches: switches.iter().map(|switch| Some((*switch).into())).collect(),
        certainty: Certainty::Decided,
        packets: 9,
        sure: None,
        repeated: 0,
        least_digests: 1,
        contradictions: 0,
    };
    let flows = vec![path(1, &["a", "b", "z"]), path(2, &["b", "a", "z"]), path(3, &["a", "z"])];
    let paths = Some(PathAnswers { flows, ..PathAnswers::default() });
    let history = history([Showed { paths, ..Showed::default() }]);
    let named = |flow: Option<&str>, path: &[&str]| {
        let flow = flow.map(|flow| flow.parse().unwrap());
        let path = path.iter().map(|switch| (*switch).to_owned()).collect();
        let query = Query { flow, path, ..Query::new(Task::Paths, Window::All) };
        let found: Claimed<Paths> = history.ask(&query).unwrap().into_document().unwrap();
        found.paths.iter().map(|path| port(&path.flow)).collect::<Vec<_>>()
    };
    assert_eq!(named(None, &[]), [1, 2, 3]);
    assert_eq!(named(None, &["a", "z"]), [1, 2, 3]);
    assert_eq!((named(None, &["a", "b"]), named(None, &["b", "a"])), (vec![1], vec![2]));
    assert_eq!((named(Some("*:3 → *"), &[]), named(Some("*:3 → *"), &["b"])), (vec![3], vec![]));
}

/// Of additive codes an answer states a time, of multiplicative ones a factor; of both where a flow's
/// answer is of the one and another's of the other.
#[test]
fn errors_are_told() {
    let epoch = |flow, error, error_factor| {
        of(vec![ValueAnswers { error, error_factor, ..values(Task::Latency, "a", &[(flow, 9, 1.0)]) }])
    };
    let epochs = [epoch(1, 65_536.0, 1.0), epoch(2, 0.0, 1.25)];
    let told = |epochs: &[Showed]| {
        let latency: Claimed<Latency> = asked(&history(epochs.iter().cloned()), (9, 0));
        (latency.error_ns, latency.error_factor)
    };
    assert_eq!([&epochs[..1], &epochs[1..], &epochs].map(told), [(65_536, 1.0), (0, 1.25), (65_536, 1.25)]);
}

fn written<A>(page: fn(&Claimed<A>) -> Page, document: &Claimed<A>) -> String {
    page(document).to_text(Style::Plain)
}

/// The document of each task about flows that packets answer, and its text.
fn documents(showed: Showed) -> Vec<(Json, String)> {
    fn of<A: Document + Serialize>(history: &History<Showed>, page: fn(&Claimed<A>) -> Page) -> (Json, String) {
        let answer: Claimed<A> = asked(history, (9, 0));
        (serde_json::to_value(&answer).unwrap(), written(page, &answer))
    }
    let history = history([showed]);
    vec![
        of(&history, Paths::page),
        of(&history, Loops::page),
        of(&history, Latency::page),
        of(&history, Utilisation::page),
        of(&history, Values::page),
    ]
}

/// What no query asks for is said to be so, and not to be nowhere.
#[test]
fn what_is_not_asked_for_is_told() {
    for (document, text) in documents(Showed::default()) {
        assert!(document["incomplete"].as_array().unwrap().contains(&"not_asked".into()), "{document}");
        assert!(text.starts_with("not asked for: no query for "), "{text}");
        for wrong in ["no packet", "no flow"] {
            assert!(!text.contains(wrong), "{text}");
        }
    }
    let (paths, loops) = (Some(PathAnswers::default()), Some(LoopAnswers::default()));
    let asked = documents(Showed { paths, loops, ..Showed::default() });
    for ((document, text), found) in asked.iter().zip(["no flow left the network", "no packet came back to a switch"]) {
        assert!(document["asked"] == true, "{document}");
        assert!(!document["incomplete"].as_array().unwrap().contains(&"not_asked".into()), "{document}");
        assert!(text.starts_with(found), "{text}");
    }
}

/// The number of the last code stands for larger ones, and where a table has it the line below says so.
#[test]
fn the_last_code_means_that_or_more() {
    let epoch = |number: f64| {
        let query = |(task, query)| values(task, query, &[(1, 50, number)]);
        of([(Task::Latency, "l"), (Task::Utilisation, "u")].map(query).into())
    };
    let [_, _, latency, utilisation, _] = documents(epoch(9.0)).try_into().unwrap();
    assert_eq!((&latency.0["largest_ns"], &utilisation.0["largest"]), (&9.into(), &9.0.into()));
    assert!(latency.1.contains("; 9 ns means that or more\n"), "{}", latency.1);
    assert!(utilisation.1.contains("; 900.00 % means that or more\n"), "{}", utilisation.1);
    for (_, text) in documents(epoch(8.0)) {
        assert!(!text.contains("or more"), "{text}");
    }
}

/// When nothing was lost in the epochs that were asked for, the answer says when something was.
/// Packets that only came late are none.
#[test]
fn the_last_loss_is_said_though_it_was_before() {
    let history = History::new(Room { epochs: 100, bytes: usize::MAX });
    history.set_length(500_000_000);
    for epoch in 10..50u64 {
        let lost_packets = [(20, 7), (25, 40), (27, 3)].into_iter().find(|(lossy, _)| *lossy == epoch);
        let lost_packets = lost_packets.map_or(0, |(_, lost)| lost);
        let losses = Some(LossesFound { lost_packets, ..LossesFound::default() });
        let finality = Finality { is_final: epoch < 48, ..Finality::default() };
        history.push(Entry { finality, ..Entry::new(epoch, Showed { losses, ..Showed::default() }) });
    }
    history.count_late(27, 3);
    let answer = |seconds: f64| -> Claimed<Losses> {
        let query = Query { provisional: false, ..Query::new(Task::Losses, Window::Last { seconds }) };
        history.ask(&query).unwrap().into_document().unwrap()
    };
    let ten = answer(10.0);
    let last = LastLoss { epoch: Epoch::new(25, 500_000_000), lost_packets: 40 };
    assert_eq!((ten.lost_packets, &ten.last_loss), (0, &Some(last)));
    let text = written(Losses::page, &ten);
    assert!(
        text.contains("the last loss before: 40 packets in the epoch from 00:00:12.500 UTC, 1.5 s earlier"),
        "{text}"
    );
    let all = answer(20.0);
    assert_eq!((all.lost_packets, all.last_loss.as_ref().map(|last| last.epoch.number)), (50, Some(25)));
    assert!(!written(Losses::page, &all).contains("the last loss before"), "it is among these");
    assert_eq!(answer(1.0).last_loss, ten.last_loss);
    history.forget_from(20);
    assert_eq!(answer(1.0).last_loss, None);
    assert!(!written(Losses::page, &answer(1.0)).contains("the last loss"));
}

/// An epoch with a gap, that lost packets and changes what later ones are measured with.
fn eventful(epoch: u64) -> Entry<Showed> {
    let described = || Described { state: "ill".into(), parameters: serde_json::Map::new() };
    let losses = Some(LossesFound { lost_packets: 3, ..LossesFound::default() });
    Entry {
        switches: vec!["near".into()],
        gaps: vec![SwitchGap { switch: "far".into(), gap: Missing::Foreign }],
        adaptation: Some(Adaptation {
            measured: described(),
            facts: serde_json::Map::new(),
            update: Some((epoch + 2, described())),
            why: String::new(),
        }),
        ..Entry::new(epoch, Showed { losses, ..Showed::default() })
    }
}

/// Checks that each epoch number has its times of day beside it, and counts the numbers by key.
fn dated(value: &Json, found: &mut BTreeMap<String, u32>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| dated(item, found)),
        Json::Object(object) => {
            let number = |key: &str| object.get(key).and_then(Json::as_u64);
            let time = |key: &str| object[key].as_str().map(|text| text.parse::<Time>().unwrap());
            let mut count = |key: &str| *found.entry(key.into()).or_default() += 1;
            if let Some(epoch) = number("epoch") {
                let Epoch { start, end, .. } = Epoch::new(epoch, LENGTH);
                assert_eq!((time("start"), time("end")), (start, end), "{object:?}");
                count("epoch");
            }
            if let (Some(first), Some(last)) = (number("first_epoch"), number("last_epoch")) {
                assert_eq!((time("start"), time("end")), span((first, last), LENGTH), "{object:?}");
                count("first_epoch");
            }
            if let Some(from) = number("update_epoch") {
                assert_eq!(time("update_start"), Epoch::new(from, LENGTH).start, "{object:?}");
                count("update_epoch");
            }
            object.values().for_each(|below| dated(below, found));
        }
        _ => {}
    }
}

#[test]
fn epoch_numbers_have_times_of_day() {
    let history = history([]);
    (700..704).for_each(|epoch| history.push(eventful(epoch)));
    let mut found = BTreeMap::new();
    for task in Task::ALL {
        let flow = task.needs_flows().then(|| "10.0.0.1:80 → *".parse().unwrap());
        let document = history.ask(&Query { flow, ..Query::new(task, Window::All) }).unwrap();
        let document = serde_json::to_value(document).unwrap();
        assert!(document["first_epoch"].is_u64() && document["start"].is_string(), "{task:?}: {document}");
        dated(&document, &mut found);
    }
    let gaps_and_others = found["epoch"];
    assert!(gaps_and_others > 20, "{found:?}");
    assert_eq!((found["first_epoch"], found["update_epoch"]), (Task::ALL.len() as u32, 4));
}

/// Without an epoch, and where their length is not known, there is no time of day.
#[test]
fn what_has_no_time_of_day_has_null() {
    let history = history([]);
    let document = || serde_json::to_value(history.ask(&Query::new(Task::Losses, Window::All)).unwrap()).unwrap();
    let none = document();
    assert!(none["first_epoch"].is_null() && none["start"].is_null() && none["end"].is_null());
    history.push(eventful(7));
    history.set_length(0);
    let whole = document();
    assert!(whole["last_epoch"] == 7 && whole["start"].is_null() && whole["gaps"][0]["start"].is_null(), "{whole}");
    let claim = serde_json::from_value::<Claim>(whole).unwrap().of_capture((Time(5), Time(9)));
    assert_eq!((claim.start, claim.end), (Some(Time(5)), Some(Time(9))));
    let live = Claim { epoch_ns: LENGTH, ..claim.clone() }.of_capture((Time(1), Time(2)));
    assert_eq!((live.start, live.end), (claim.start, claim.end));
}

/// A choice of flows that a task cannot make is refused: an answer that ignored it would be about others.
#[test]
fn what_a_task_cannot_choose_by_is_refused() {
    let history = history([Showed::default()]);
    let why = |task, flow: bool, path: bool| {
        let query = Query {
            flow: flow.then(|| "10.0.0.1:80 → 10.0.0.0/24:* tcp".parse().unwrap()),
            path: if path { vec!["s1".into()] } else { Vec::new() },
            ..Query::new(task, Window::All)
        };
        history.ask(&query).map(drop)
    };
    for task in Task::ALL {
        assert_eq!(why(task, true, false) == Err(NoAnswer::Flow(task)), !task.names_flows(), "{task:?}");
        let (knows, takes) = (task.knows_paths(), task.takes_routes());
        assert_eq!(why(task, false, true) == Err(NoAnswer::Path(task)), !knows && !takes, "{task:?}");
        assert_eq!(why(task, false, true) == Err(NoAnswer::NoRoutes(task)), takes, "{task:?}");
        assert!(!matches!(why(task, false, false), Err(NoAnswer::Flow(_) | NoAnswer::Path(_))), "{task:?}");
        assert_eq!(why(task, false, false) == Err(NoAnswer::NoFlow(task)), task.needs_flows(), "{task:?}");
    }
}

/// Latencies of switches are the samples of the epochs of the window, each once, of the query that the answer is of.
#[test]
fn switches_have_the_samples_of_the_window() {
    let history = History::new(Room { epochs: 9, bytes: usize::MAX });
    history.push(Entry::new(1, of(vec![values(Task::Latency, "a", &[(1, 5, 256.0), (2, 3, 512.0)])])));
    history.push(Entry::new(2, of(vec![values(Task::Latency, "a", &[(1, 2, 256.0)])])));
    history.push(Entry::new(3, of(vec![values(Task::Values, "b", &[(1, 7, 256.0)])])));
    let counts = |window| {
        let query = Query::new(Task::Latency, window).limited(0, 1);
        let latency: Claimed<Latency> = history.ask(&query).unwrap().into_document().unwrap();
        latency.switch_latencies.iter().map(|of| (of.switch.clone(), of.samples, of.counts.clone())).collect::<Vec<_>>()
    };
    let count = |latency_ns, samples| LatencyCount { latency_ns, samples };
    assert_eq!(counts(Window::All), [(Some("a".into()), 10, vec![count(256, 7), count(512, 3)])]);
    assert_eq!(counts(Window::Between { from: 2, until: 2 }), [(Some("a".into()), 2, vec![count(256, 2)])]);
    assert_eq!(counts(Window::Epoch(3)), []);
}
