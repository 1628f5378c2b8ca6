//! The packets of flows and of patterns of flows, over several epochs: bounds hold, for all programs
//! that answer.

use weir::answers::{Exact, Frequency, HeavyFlows, Query, Task};
use weir::config::{Config, ForwardMode, PortConfig};
use weir::history::{Reason, Window};
use weir::program::ProgramConfig;
use weir::replay::Replayer;
use weir::trace::{Frames, Trace, Workload};
use weir::wire::{Flow, Pattern};

const EPOCH_NS: u64 = 20_000_000;

/// Crowded sketches, so that flows collide, and one in which counters are full.
const PROGRAMS: [&str; 9] = [
    "hashpipe:stages=2,slots=100,slots6=50",
    "hashpipe:stages=2,slots=100,slots6=50,count=bytes",
    "chamelemon:tower=8x2048+16x1024",
    "chamelemon:tower=8x512+16x256,attention=fixed,hh_threshold=20",
    "chamelemon:tower=8x512+8x300,attention=fixed,hh_threshold=200",
    "disketch:memory=4KB",
    "disketch:memory=4KB,max_sub_epochs=1,decode=median",
    "disketch:memory=4KB,max_sub_epochs=1,sketch=cms",
    "disketch:memory=1KB,max_sub_epochs=1,sketch=cms,counter_bits=8,count=bytes",
];

fn replayed(program: &str, trace: &Trace, seed: u64) -> (Replayer, ProgramConfig) {
    let program: ProgramConfig = program.parse().unwrap();
    let ports = ["a", "b"].map(|name| PortConfig::new(name, weir::port::Dev::Memory));
    let mut config = Config { ports: ports.into(), programs: vec![program.clone()], ..Config::default() };
    config.switch.reproducible = Some(seed);
    config.switch.forward = ForwardMode::Xconnect;
    config.switch.epoch = weir::config::Length(std::time::Duration::from_nanos(EPOCH_NS));
    let mut replayer = Replayer::new(config).unwrap();
    let packets = trace.sequence.len() as u64;
    let mut number = 0;
    let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |_, frame| {
        // Four epochs and a half.
        replayer.packet(0, number * (9 * EPOCH_NS / 2) / packets, frame);
        number += 1;
        Ok(())
    });
    taken.unwrap();
    replayer.finish();
    (replayer, program)
}

fn about(flow: Pattern) -> Query {
    Query { flow: Some(flow), ..Query::new(Task::Frequency, Window::All) }
}

/// Exact counts as the program names flows.
fn exact(program: &ProgramConfig, trace: &Trace) -> Box<dyn Exact> {
    let mut exact = program.exact();
    let taken: Result<(), std::convert::Infallible> = trace.for_each_frame(&Frames::default(), |_, frame| {
        let mut headers = weir::wire::Headers::default();
        weir::wire::parse(frame, &mut headers).unwrap();
        exact.packet(&headers, frame.len());
        Ok(())
    });
    taken.unwrap();
    exact
}

fn patterns(flows: &[Flow]) -> Vec<Pattern> {
    let one = flows.iter().step_by(6).map(ToString::to_string);
    let source = flows.iter().take(40).map(|flow| format!("{}/16 → *", flow.src.unwrap()));
    let few = ["* → * udp", "* → *:443", "10.0.0.0/8 → * tcp", "* → *", "::/0 → *", "192.0.2.1:1 → 192.0.2.2:2 udp"];
    one.chain(source).chain(few.map(str::to_owned)).map(|text| text.parse().unwrap()).collect()
}

#[test]
fn bounds_hold_for_flows_and_patterns() {
    let trace = "isp/burst,flows=3000,packets=60000,ipv6=0.2".parse::<Workload>().unwrap().generate();
    let flows: Vec<Flow> = trace.truth().flows().iter().map(|flow| flow.flow).collect();
    let patterns = patterns(&flows);
    for program in PROGRAMS {
        let (mut counted, mut missed, mut sure) = (0, 0, 0);
        for seed in 0..2 {
            let (replayer, config) = replayed(program, &trace, seed);
            let (history, exact) = (&replayer.histories()[0], exact(&config, &trace));
            for pattern in &patterns {
                let query = about(*pattern);
                let answer = history.answer::<Frequency>(&query).unwrap();
                assert_eq!((answer.claim.gaps.len(), answer.claim.missing_epochs), (0, 0));
                let count = (*answer).clone().scored(&query, &*exact).count();
                let truth = count.truth.unwrap();
                assert!(count.upper_bound.is_none_or(|most| truth <= most), "{program}: {pattern}: {count:?}");
                let is_missed = truth < count.lower_bound;
                assert!(!is_missed || answer.confidence < 1.0, "{program}: {pattern}: {count:?}");
                assert!(
                    count.lower_bound <= count.estimate && count.upper_bound.is_none_or(|most| count.estimate <= most)
                );
                (counted, missed) = (counted + 1, missed + usize::from(is_missed));
                sure += usize::from(count.upper_bound.is_some() && count.lower_bound > 0);
            }
        }
        assert!(missed * 100 <= counted, "{program}: {missed} of {counted}");
        assert_eq!(sure > 0, program.starts_with("chamelemon"), "{program}: bounds on both sides");
    }
}

/// The count of a heavy flow is the one that the task heavy has, also over several epochs.
#[test]
fn heavy_flows_have_the_count_of_the_list() {
    let trace = "isp/burst,flows=2000,packets=40000".parse::<Workload>().unwrap().generate();
    for program in ["hashpipe", "chamelemon:attention=fixed,hh_threshold=20"] {
        let (replayer, _) = replayed(program, &trace, 1);
        let history = &replayer.histories()[0];
        let heavy = history.answer::<HeavyFlows>(&Query::new(Task::Heavy, Window::All).limited(50, 1)).unwrap();
        assert_eq!(heavy.heavy.len(), 50);
        for flow in &heavy.heavy {
            let pattern: Pattern = flow.name.to_string().parse().unwrap();
            let count = history.answer::<Frequency>(&about(pattern)).unwrap().count();
            assert_eq!(count.estimate, flow.count(), "{program}: {pattern}");
        }
    }
}

/// Where there is room for all, counts are exact and the answer is complete.
#[test]
fn what_is_known_whole_is_complete() {
    let trace = "isp/burst,flows=100,packets=2000".parse::<Workload>().unwrap().generate();
    let (replayer, config) = replayed("chamelemon:attention=fixed,hh_threshold=1", &trace, 1);
    let exact = exact(&config, &trace);
    for flow in trace.truth().flows() {
        let query = about(flow.flow.to_string().parse().unwrap());
        let answer = replayer.histories()[0].answer::<Frequency>(&query).unwrap();
        assert!(answer.claim.complete, "{:?}", answer.claim.incomplete);
        let count = (*answer).clone().scored(&query, &*exact).count();
        assert_eq!((Some(count.estimate), count.lower_bound), (count.truth, count.estimate));
        assert_eq!((count.upper_bound, answer.confidence), (count.truth, 1.0));
    }
    let all = replayer.histories()[0].answer::<Frequency>(&about("* → *".parse().unwrap())).unwrap();
    assert_eq!((all.count().lower_bound, all.count().upper_bound), (2000, Some(2000)));
    let (replayer, _) = replayed("hashpipe", &trace, 1);
    let all = replayer.histories()[0].answer::<Frequency>(&about("* → *".parse().unwrap())).unwrap();
    assert!(all.claim.incomplete.contains(Reason::Evicted));
}
