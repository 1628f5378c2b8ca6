//! Histories that are followed, of a fake program and of a simulated network.

use std::collections::BTreeSet;

use super::super::placed::{Placed, Placing};
use super::*;
use crate::answers::{
    Answers, Claimed, FlowName, Latency, Loss, LossPlace, Losses, LossesFound, ProgramAnswer, Query, Task,
};
use crate::api::tests::places::Network;
use crate::api::{Answering, HeavyQuery};
use crate::history::{AnyHistory, Entry, Epochs, Gap, History, Kept, Reason, Reasons, Room, SwitchGap, Window};
use crate::sim::{Setup, Shape, Simulation};
use crate::trace::Workload;
use crate::wire::Flow;

/// The losses of an epoch; `None` where they are not known.
struct Showed(Option<LossesFound>);

impl Kept for Showed {
    fn bytes(&self) -> usize {
        0
    }
}

impl Answers for Showed {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        let losses = |query| Losses::over(epochs, query, |entry| (entry.showed.0.as_ref(), Reasons::default()));
        (query.task == Task::Losses).then(|| losses(query))
    }
}

/// Two flows that lost packets, and this number in all.
fn showed(lost_packets: u64) -> LossesFound {
    let flow = |port| Loss { flow: FlowName::Flow(Flow::from_port(port)), lost: 1, gained: 0, exact: true };
    LossesFound { flows: vec![flow(1), flow(2)], lost_packets, gained_packets: 1 }
}

const LENGTH: u64 = 1_000_000_000;

/// A history that has room for some epochs, and its metrics.
fn followed(epochs: usize) -> (History<Showed>, Measured) {
    let history = History::new(Room { epochs, bytes: usize::MAX });
    history.set_length(LENGTH);
    let program = ProgramConfig::defaults().find(|program| program.rank(Task::Losses).is_some()).unwrap().clone();
    let queryable: Arc<dyn Queryable> = Arc::new(history.clone());
    let source = Box::new(move || vec![(program.clone(), queryable.clone())]);
    (history, Measured::new(source, Links::default(), 3))
}

fn push(history: &History<Showed>, epoch: u64, lost: Option<u64>, is_final: bool) {
    let mut entry = Entry { switches: vec!["s1".into()], ..Entry::new(epoch, Showed(lost.map(showed))) };
    entry.finality.is_final = is_final;
    history.push(entry);
}

fn totals(measured: &Measured) -> Totals {
    measured.follow();
    measured.programs().remove(0).totals
}

/// An epoch is counted once, when its answers are final, however often it is looked; what is known later is not
/// counted again, and late packets are by themselves.
#[test]
fn final_epochs_are_counted_once() {
    let (history, measured) = followed(9);
    assert_eq!(measured.programs(), [], "no program has been followed yet");
    assert_eq!(totals(&measured).final_epochs, 0);
    assert_eq!(measured.programs()[0].lag_seconds, None);
    push(&history, 1, Some(3), true);
    push(&history, 2, None, true);
    push(&history, 3, Some(5), false);
    for _ in 0..2 {
        let totals = totals(&measured);
        let losses = totals.losses.unwrap();
        assert_eq!((totals.final_epochs, losses.lost_packets, losses.unknown_epochs), (2, 3, 1));
        assert_eq!((losses.gained_packets, totals.missing_epochs, totals.incomplete_epochs), (1, 0, 0));
    }
    let stray = SwitchGap { switch: "s2".into(), gap: Gap::Strays { packets: 4 } };
    history.finalise(3, &[stray], &|_| true);
    history.count_late(1, 2);
    let all = totals(&measured);
    let losses = all.losses.unwrap();
    assert_eq!((all.final_epochs, losses.lost_packets, losses.late_packets), (3, 8, 2));
    assert_eq!((all.incomplete_epochs, &all.gaps.0), (1, &[(("s2".into(), "strays"), 1)].into()));
    assert_eq!(losses.strays.0, [("s1".into(), 0), ("s2".into(), 4)].into());
}

/// Epochs that were not analysed, or were forgotten before anybody looked, are counted as missing.
#[test]
fn epochs_that_are_not_there_are_counted() {
    let (history, measured) = followed(2);
    push(&history, 5, Some(1), true);
    assert_eq!(totals(&measured).missing_epochs, 0, "nothing is missing before the first");
    push(&history, 8, Some(1), true);
    assert_eq!(totals(&measured).missing_epochs, 2);
    (9..=13).for_each(|epoch| push(&history, epoch, Some(1), true));
    let all = totals(&measured);
    assert_eq!((all.final_epochs, all.missing_epochs, all.losses.unwrap().lost_packets), (4, 5, 4));
    // The clock is set back, and numbers come again.
    history.forget_from(13);
    measured.follow();
    (13..=14).for_each(|epoch| push(&history, epoch, Some(10), true));
    assert_eq!(totals(&measured).losses.unwrap().lost_packets, 24);
}

/// Gauges are of the last final epoch, and say nothing where it is not known.
#[test]
fn the_last_final_epoch_is_asked() {
    let (history, measured) = followed(9);
    push(&history, 1, Some(3), true);
    push(&history, 2, Some(5), false);
    measured.follow();
    let [of] = &measured.programs()[..] else { panic!("one program") };
    let newest = of.newest.as_ref().unwrap();
    assert_eq!((newest.victims, newest.flows), (Some(2), None));
    assert_eq!(newest.lacks, [(Task::Losses, vec![])].into());
    assert!(of.lag_seconds.is_some_and(|lag| lag > 1e9), "{:?}", of.lag_seconds);
    push(&history, 3, None, true);
    history.finalise(2, &[SwitchGap { switch: "s1".into(), gap: Gap::Missing }], &|_| true);
    measured.follow();
    assert_eq!(measured.programs()[0].newest.as_ref(), Some(newest), "a second has not passed");
    *measured.newest.hold() = NewestAnswers::default();
    let newest = measured.programs()[0].newest.clone().unwrap();
    assert_eq!((newest.victims, &newest.lacks[&Task::Losses]), (None, &vec![]));
    let (history, measured) = followed(9);
    let gap = SwitchGap { switch: "s1".into(), gap: Gap::Missing };
    history.push(Entry { gaps: vec![gap], ..Entry::new(1, Showed(Some(showed(1)))) });
    measured.follow();
    assert_eq!(measured.programs()[0].newest.clone().unwrap().lacks[&Task::Losses], [Reason::Gap]);
}

/// Four switches, a link of which loses packets: totals are those of the truth, in all and by link.
#[test]
fn totals_are_those_of_a_network() {
    const EPOCHS: usize = 5;
    let topology = "line:4".parse::<Shape>().unwrap().build().unwrap();
    let workload: Workload = "keyvalue/uniform,flows=300,seed=7".parse().unwrap();
    let programs = ["chamelemon", "hopcounters", "disketch:memory=8KB"].map(|program| program.parse().unwrap());
    let losses = vec!["link=1,rate=20%".parse().unwrap()];
    let setup = Setup { losses, watched: true, shifts: false, ..Setup::new(topology, programs.into(), workload) };
    let mut simulation = Simulation::new(&setup).unwrap();
    let programs: Vec<_> = setup.programs.iter().cloned().zip(simulation.histories()).collect();
    let measured = Measured::new(Box::new(move || programs.clone()), simulation.network().links(), 3);
    let (mut reports, mut last) = (Vec::new(), 0);
    for _ in 0..EPOCHS {
        reports.extend(simulation.epoch(&setup.workload, None));
        measured.follow();
        let lost = measured.programs()[0].totals.losses.clone().unwrap().lost_packets;
        assert!(lost >= last, "a total does not go back");
        last = lost;
    }
    reports.extend(simulation.finish());
    measured.follow();
    *measured.newest.hold() = NewestAnswers::default();
    let metrics = measured.programs();
    let of = |program: &str| metrics.iter().find(|of| of.program == program).unwrap();

    let lost: u64 = reports.iter().map(|report| report.lost_packets).sum();
    let losses = of("chamelemon").totals.losses.clone().unwrap();
    assert_eq!((reports.len(), losses.lost_packets, losses.unknown_epochs), (EPOCHS, lost, 0));
    assert!(lost > 50);

    let places = of("hopcounters").totals.places.clone().unwrap();
    let mut by_place = BTreeMap::<_, u64>::new();
    for (place, packets) in reports.iter().flat_map(|report| &report.lost_by_place) {
        *by_place.entry(place.clone()).or_default() += packets;
    }
    assert_eq!((places.links.0.len(), places.switches.0.len()), (6, 4), "all are there, those without losses too");
    for ([from, _], total) in &places.links.0 {
        let (switch, port) = from.split_once(':').unwrap();
        let truth = by_place.remove(&(switch.to_owned(), Some(port.to_owned()))).unwrap_or_default();
        assert_eq!((total.known_packets, total.unexplained_packets, total.unknown_epochs), (0, truth, 0), "{from}");
    }
    assert_eq!(by_place, BTreeMap::new());
    assert!(places.switches.0.values().all(|total| total.known_packets + total.unexplained_packets == 0));

    let newest = of("chamelemon").newest.as_ref().unwrap();
    assert!(newest.flows.is_some_and(|flows| (250.0..=350.0).contains(&flows)), "{newest:?}");
    assert!(newest.victims.is_some_and(|victims| victims > 0) && newest.entropy_bits.is_some());

    // Parameters and facts about each switch, which no answer has.
    let facts = |program| &of(program).totals.facts;
    assert!(facts("chamelemon").of_network.contains_key("hh_buckets"), "{:?}", facts("chamelemon"));
    for switch in ["s0", "s1", "s2", "s3"] {
        let fact = |name: &str| facts("disketch").of_switches.get(&[switch.to_owned(), name.to_owned()]).copied();
        assert_eq!(fact("memory_bytes"), Some(8000.0), "{:?}", facts("disketch"));
        assert!(fact("sub_epochs") >= Some(1.0) && fact("error_packets").is_some());
    }
}

/// Answers about places, one after another as epochs become final, have all the packets that each direction of a link
/// lost.
#[test]
fn places_that_are_counted_have_all_their_packets() {
    let topology = "fat-tree:4".parse::<Shape>().unwrap().build().unwrap();
    let workload: Workload = "keyvalue/uniform,flows=300,seed=7".parse().unwrap();
    let programs = ["chamelemon", "hopcounters"].map(|program| program.parse().unwrap());
    let losses = vec!["link=9,rate=20%".parse().unwrap()];
    let setup = Setup { losses, watched: true, shifts: false, ..Setup::new(topology, programs.into(), workload) };
    let mut simulation = Simulation::new(&setup).unwrap();
    let programs: Vec<_> = setup.programs.iter().cloned().zip(simulation.histories()).collect();
    let length = Duration::from_nanos(programs[0].1.length());
    let (mut placing, mut now) = (Placing::new(length), Instant::now());
    let (mut placed, mut answers, mut truth) = (Placed::default(), 0, BTreeMap::<_, u64>::new());
    for epoch in 0..5 {
        let reports = match epoch {
            0..4 => simulation.epoch(&setup.workload, None).into_iter().collect(),
            _ => simulation.finish(),
        };
        for ((switch, port), packets) in reports.iter().flat_map(|report| &report.lost_by_place) {
            *truth.entry(format!("{switch}:{}", port.as_deref().unwrap())).or_default() += packets;
        }
        now += Duration::from_secs(3600);
        if let Some((_, newer)) = placing.look(&programs, &simulation.network().links(), now) {
            (placed, answers) = (newer, answers + 1);
        }
    }
    let found = placed.lost.0.iter().map(|(labels, lost)| {
        assert_eq!((&*labels.kind, labels.evidence), ("link", "counted"), "{labels:?}");
        (labels.place.split(" → ").next().unwrap().to_owned(), *lost)
    });
    assert_eq!(truth.len(), 2);
    assert_eq!(found.collect::<BTreeMap<_, _>>(), truth);
    assert!(answers > 1);
    assert_eq!((placed.skipped_epochs, placed.omitted, placed.unlisted), (0, 0, 0));
    let newest = placed.newest.unwrap();
    let is_right = |place: &LossPlace| place.failed == (place.lost_packets >= 3);
    assert!(!newest.places.is_empty() && newest.places.iter().all(is_right), "{:?}", newest.places);
}

#[test]
fn places_that_are_not_counted_are_inferred() {
    let network = Network { has_paths: true };
    let programs = [("chamelemon", Task::Losses), ("pint", Task::Paths)].map(|(program, task)| {
        (program.parse::<ProgramConfig>().unwrap(), network.history(task, &HeavyQuery::default()).unwrap())
    });
    let mut placing = Placing::new(Duration::from_nanos(1));
    let (program, placed) = placing.look(&programs, &Links::default(), Instant::now()).unwrap();
    let lost: Vec<_> = placed.lost.0.iter().collect();
    let [(labels, lost)] = &lost[..] else { panic!("one place: {lost:?}") };
    assert_eq!((&*program, &*labels.kind, labels.evidence), ("chamelemon", "group", "inferred"));
    let members: BTreeSet<_> = labels.place.split(" or ").collect();
    assert_eq!(members, ["a → b", "b → d", "in b"].into());
    assert!((379..=382).contains(*lost) && placed.unplaced_packets == 382 - *lost, "{placed:?}");
    let [place] = &placed.newest.as_ref().unwrap().places[..] else { panic!("{placed:?}") };
    assert!(place.failed && place.confidence > 0.5, "{place:?}");
}

/// An answer waits for epochs enough and for the end of a pause. Epochs that it leaves out are counted, and packets
/// that it finds no place for; no epoch is in two answers.
#[test]
fn answers_about_places_take_turns_with_pauses() {
    let (history, _) = followed(99);
    let programs = ["chamelemon", "pint"].map(|name| name.parse::<ProgramConfig>().unwrap());
    let programs = programs.map(|program| (program, Arc::new(history.clone()) as Arc<dyn Queryable>));
    let (mut placing, start) = (Placing::new(Duration::from_nanos(2 * LENGTH)), Instant::now());
    let mut look = |hours: u64| placing.look(&programs, &Links::default(), start + Duration::from_secs(3600 * hours));
    push(&history, 1, Some(3), true);
    assert_eq!(look(0), None, "one epoch of two");
    push(&history, 2, Some(3), true);
    let (program, placed) = look(0).unwrap();
    let newest = placed.newest.unwrap();
    assert_eq!((&*program, newest.first_epoch, newest.last_epoch), ("chamelemon", 1, 2));
    assert_eq!((newest.unplaced_packets, newest.end_ns), (4, 3 * LENGTH), "two flows of each epoch");
    (3..=22).for_each(|epoch| push(&history, epoch, Some(3), true));
    assert_eq!(look(0), None, "a pause");
    let (_, placed) = look(1).unwrap();
    let newest = placed.newest.unwrap();
    assert_eq!((newest.first_epoch, newest.last_epoch, placed.skipped_epochs), (11, 22, 8));
    assert_eq!(placed.unplaced_packets, 4 + 24);
    assert_eq!(look(2), None, "nothing new");
    assert_eq!(placing.look(&programs[1..], &Links::default(), start), None, "nothing that names lost packets");
}

/// Each packet that reported the time of a switch is in the switch's histogram once, by its path.
#[test]
fn times_are_by_switch() {
    let topology = "line:4".parse::<Shape>().unwrap().build().unwrap();
    let program = "pint:queries=path:bits=8+latency:bits=8".parse().unwrap();
    let workload: Workload = "isp/uniform,flows=12,packets=6000,seed=3".parse().unwrap();
    let setup = Setup { watched: true, ..Setup::new(topology, vec![program], workload) };
    let mut simulation = Simulation::new(&setup).unwrap();
    let programs: Vec<_> = setup.programs.iter().cloned().zip(simulation.histories()).collect();
    let measured = Measured::new(Box::new(move || programs.clone()), simulation.network().links(), 3);
    for _ in 0..3 {
        simulation.epoch(&setup.workload, None);
        measured.follow();
    }
    simulation.finish();
    measured.follow();
    let latencies = measured.programs().remove(0).totals.latencies.unwrap();
    let query = Query::new(Task::Latency, Window::All);
    let all: Claimed<Latency> = simulation.histories()[0].answer(&query).unwrap();
    let sums: BTreeMap<_, _> =
        all.switch_latencies.iter().map(|of| (of.switch.clone().unwrap_or_default(), of.samples)).collect();
    let counted: BTreeMap<_, _> = latencies.0.iter().map(|(switch, times)| (switch.clone(), times.samples())).collect();
    assert_eq!(counted, sums);
    assert!(
        ["s0", "s1", "s2", "s3"].iter().all(|switch| counted.get(*switch).is_some_and(|n| *n > 100)),
        "{counted:?}"
    );
}
