//! Controllers in a switch's own process.

use std::sync::Mutex;

use super::*;
use crate::answers::HeavyFlows;
use crate::program::hashpipe::{Counts, HashPipe};
use crate::telemetry::{Closed, Sink};
use crate::wire::Flow;

/// A switch with one program.
struct Switch {
    local: LocalControllers,
    settings: Arc<Mutex<LocalSettings>>,
    answers: LocalAnswers,
    now: Nanos,
}

impl Switch {
    fn of(schedules: &[AnySchedule], is_linked: bool, transit: Nanos, history: usize) -> Self {
        let settings =
            LocalSettings { length: LENGTH, transit, history: local_room(history), fabric: false, replays: false };
        let (settings, answers) = (Arc::new(Mutex::new(settings)), LocalAnswers::default());
        let local = LocalControllers::new("alone", settings.clone(), schedules, is_linked, answers.clone(), 3);
        Self { local, settings, answers, now: 0 }
    }

    /// Its counts add.
    fn adding(history: usize) -> Self {
        Self::of(&hashpipe(), false, TRANSIT, history)
    }

    /// It measures losses.
    fn losing(transit: Nanos) -> (Self, Edge) {
        let edge = Edge::new("alone", 100, config().parameters());
        (Self::of(&[Arc::new(edge.schedule.clone())], false, transit, 100), edge)
    }

    fn report(&mut self, report: &Report, now: Nanos) {
        let Report { first_epoch: first, epoch: last, whole, record, .. } = report;
        self.local.take(Closed { program: 0, first: *first, last: *last, late: 0, record }, *whole, now);
    }

    /// The collector hands the counts of these epochs on.
    fn take(&mut self, first: u64, last: u64, whole: bool, counts: &[(u32, u64)]) {
        self.now = self.now.max((last + 1) * LENGTH);
        self.report(&Report { first_epoch: first, epoch: last, whole, late: 0, record: record(counts) }, self.now);
    }

    fn push(&mut self, epoch: u64, counts: &[(u32, u64)]) {
        self.take(epoch, epoch, true, counts);
    }

    fn history(&self) -> Arc<dyn Queryable> {
        self.answers.find(|_| true).unwrap().1
    }

    fn heavy(&self, window: Window) -> Claimed<HeavyFlows> {
        let query = Query { provisional: false, ..Query::new(Task::Heavy, window) };
        self.history().ask(&query).unwrap().into_document().unwrap()
    }

    /// The epochs that were answered, with what is missing of each.
    fn answered(&self) -> Vec<(u64, Vec<Gap>)> {
        let gaps = |entry: &Entry<()>| entry.gaps.iter().map(|gap| gap.gap).collect();
        self.history().outlines().iter().map(|entry| (entry.epoch, gaps(entry))).collect()
    }

    fn window(&self, epochs: u64) -> Counted {
        counted(&self.heavy(Window::Last { seconds: (epochs.min(1000) * LENGTH) as f64 / 1e9 }))
    }
}

/// Counts by flow, epochs and omitted flows.
type Counted = (Vec<(u32, u64)>, Option<(u64, u64)>, u64);

fn counted(heavy: &Claimed<HeavyFlows>) -> Counted {
    let number = |flow: Flow| match flow.src {
        Some(std::net::IpAddr::V4(ip)) => ip.into(),
        _ => unreachable!(),
    };
    let mut counts: Vec<_> =
        heavy.heavy.iter().map(|heavy| (number(heavy.name.flow().unwrap()), heavy.count())).collect();
    counts.sort_unstable();
    (counts, heavy.claim.first_epoch.zip(heavy.claim.last_epoch), heavy.omitted_flows)
}

fn hashpipe() -> [AnySchedule; 1] {
    [ProgramConfig::new::<HashPipe>(Default::default()).schedule()]
}

fn record(counts: &[(u32, u64)]) -> AnyRecord {
    let flow = |n| Flow { src: Some(std::net::Ipv4Addr::from(n).into()), ..Flow::default() };
    Box::new(counts.iter().map(|&(n, count)| (flow(n), count.into())).collect::<Counts>())
}

/// Some flows, of which one loses a packet.
fn traffic(edge: &mut Edge, epoch: u64) {
    for flow in 0..30 {
        let phv = edge.enter(flow, epoch);
        if flow > 0 {
            edge.leave(phv);
        }
    }
}

/// However far the collector is behind, what it has a record of is answered; what it has none of is
/// a gap.
#[test]
fn records_that_waited() {
    let (mut switch, mut edge) = Switch::losing(TRANSIT);
    let mut records: Vec<_> = (100..106)
        .map(|epoch| {
            traffic(&mut edge, epoch);
            edge.end(epoch, |_| {})
        })
        .collect();
    records.remove(3);
    records.iter().for_each(|record| switch.report(record, 120 * LENGTH));
    let expected = [
        (100, vec![Gap::Started]),
        (101, vec![]),
        (102, vec![]),
        (103, vec![Gap::Missing]),
        (104, vec![Gap::Before]),
        (105, vec![]),
    ];
    assert_eq!(switch.answered(), expected);
    let newest: Claimed<Losses> = switch.history().ask(&last(Task::Losses, 0.0)).unwrap().into_document().unwrap();
    assert!(newest.claim.complete && newest.lost_packets == 1);
}

#[test]
fn the_longest_transit_time() {
    let (mut switch, mut edge) = Switch::losing(LENGTH / 2);
    for epoch in 100..110 {
        traffic(&mut edge, epoch);
        let record = edge.end_prepared(epoch, |_| {});
        edge.program.prepare(epoch + 2);
        switch.report(&record, (epoch + 1) * LENGTH + LENGTH / 2 + 1_000_000);
    }
    let answered = switch.answered();
    assert!(answered[1..].iter().all(|(_, gaps)| gaps.is_empty()), "{answered:?}");
    let epochs = switch.history().outlines();
    let first = config().parameters().describe();
    assert!(
        epochs.iter().any(|epoch| Some(&epoch.adaptation.as_ref().unwrap().measured) != first.as_ref()),
        "updates take effect"
    );
}

/// A part of an epoch is no answer. Strays that it counts are still gaps of their own epochs.
#[test]
fn a_part_is_a_gap_where_counts_do_not_just_add() {
    let (mut switch, mut edge) = Switch::losing(TRANSIT);
    for epoch in 100..106 {
        traffic(&mut edge, epoch);
        let mut report = edge.end(epoch, |_| {});
        if epoch == 103 {
            assert!(report.record.strays_mut().unwrap().add(102, 7));
        }
        report.whole = epoch != 103;
        switch.report(&report, (epoch + 1) * LENGTH);
    }
    let expected = [
        (100, vec![Gap::Started]),
        (101, vec![]),
        (102, vec![Gap::Strays { packets: 7 }]),
        (103, vec![Gap::Part]),
        (104, vec![Gap::Before]),
        (105, vec![]),
    ];
    assert_eq!(switch.answered(), expected);
}

#[test]
fn epochs_are_followed_one_by_one() {
    let mut switch = Switch::adding(10);
    for (first, last) in [(3, 3), (4, 5), (6, 6)] {
        switch.take(first, last, true, &[(1, 1)]);
    }
    switch.take(5, 5, false, &[(1, 1)]);
    let next = |after| counted(&switch.heavy(Window::Next { after }));
    assert_eq!(next(0), (vec![(1, 1)], Some((3, 3)), 0));
    assert_eq!(next(3), (vec![(1, 2)], Some((4, 5)), 0));
    assert_eq!(next(5), (vec![(1, 1)], Some((6, 6)), 0));
    assert_eq!(next(6), (vec![], None, 0));
}

#[test]
fn windows_add_up_and_the_oldest_goes() {
    let mut switch = Switch::adding(3);
    assert_eq!(switch.window(5), (vec![], None, 0));
    for epoch in 1..=5 {
        switch.push(epoch, &[(1, 10), (epoch as u32 + 100, 1)]);
    }
    assert_eq!(switch.window(1), (vec![(1, 10), (105, 1)], Some((5, 5)), 0));
    assert_eq!(switch.window(0), switch.window(1));
    assert_eq!(switch.window(2), (vec![(1, 20), (104, 1), (105, 1)], Some((4, 5)), 0));
    assert_eq!(switch.window(u64::MAX), (vec![(1, 30), (103, 1), (104, 1), (105, 1)], Some((3, 5)), 0));
    switch.settings.lock().unwrap().history = local_room(2);
    switch.push(6, &[]);
    assert_eq!(switch.window(9).1, Some((5, 6)), "fewer are kept from now on");
}

#[test]
fn a_restart_forgets_and_counts() {
    let mut switch = Switch::adding(2);
    (1..=5).for_each(|epoch| switch.push(epoch, &[(1, 10)]));
    assert_eq!((switch.window(9).1, switch.answers.forgotten()), (Some((4, 5)), 0));
    let read = switch.history();
    switch.local.renewed(&hashpipe());
    assert_eq!((switch.window(9).1, switch.answers.forgotten(), read.outlines().len()), (None, 2, 0));
    switch.push(1, &[(1, 10)]);
    assert_eq!(switch.window(9), (vec![(1, 10)], Some((1, 1)), 0));
    switch.local.renewed(&hashpipe());
    assert_eq!(switch.answers.forgotten(), 3);
}

#[test]
fn numbers_that_come_again_are_forgotten() {
    let mut switch = Switch::adding(9);
    (1..=5).for_each(|epoch| switch.push(epoch, &[(1, 10)]));
    switch.local.set_back(0, 3);
    switch.now = 3 * LENGTH;
    switch.push(3, &[(2, 1)]);
    assert_eq!((switch.window(9).1, switch.window(1).0, switch.answers.forgotten()), (Some((1, 3)), vec![(2, 1)], 3));
    (4..=9).for_each(|epoch| switch.push(epoch, &[(2, 1)]));
    assert_eq!((switch.window(9), switch.answers.forgotten()), ((vec![(1, 20), (2, 7)], Some((1, 9)), 0), 3));
}

/// An answer over a window is made of all flows of its records.
#[test]
fn no_flow_is_left_out() {
    const FLOWS: u32 = 5000;
    let mut switch = Switch::adding(2);
    let many: Vec<_> = (0..FLOWS).map(|n| (n, u64::from(n) + 1)).collect();
    (1..3).for_each(|epoch| switch.push(epoch, &many));
    let (counts, _, omitted) = switch.window(2);
    assert_eq!((counts.len(), counts[0], omitted), (FLOWS as usize, (0, 2), 0));
    let query = last(Task::Heavy, 0.1).limited(10, 1);
    let top: Claimed<HeavyFlows> = switch.history().ask(&query).unwrap().into_document().unwrap();
    assert_eq!(
        (top.heavy.len(), top.heavy[0].count(), top.omitted_flows),
        (10, 2 * u64::from(FLOWS), u64::from(FLOWS) - 10)
    );
}

/// Long histories keep their flows: what bounds them is their epochs.
#[test]
fn flows_of_all_epochs_are_kept() {
    let mut switch = Switch::adding(1300);
    let many: Vec<_> = (0..1024).map(|n| (n, 1)).collect();
    (1..=1301).for_each(|epoch| switch.push(epoch, &many));
    assert_eq!(switch.history().outlines().len(), 1300);
}

#[test]
fn a_late_record_finds_its_place() {
    let mut switch = Switch::adding(3);
    for epoch in [5, 7, 6] {
        switch.push(epoch, &[(epoch as u32, 1)]);
    }
    assert_eq!(switch.heavy(Window::Last { seconds: 0.0 }).claim.last_epoch, Some(7));
    assert_eq!(switch.window(2), (vec![(6, 1), (7, 1)], Some((6, 7)), 0));
    switch.take(1, 1, false, &[(1, 1)]);
    assert_eq!(switch.window(9).1, Some((5, 7)), "older than all that is kept");
}

/// Records of parts and of several epochs are answers, and say what they lack.
#[test]
fn counts_add_whatever_records_cover() {
    let mut switch = Switch::adding(9);
    switch.take(1, 1, true, &[(1, 1)]);
    switch.take(2, 2, true, &[(1, 10)]);
    switch.take(3, 5, true, &[(1, 100)]);
    switch.take(4, 4, false, &[(1, 1000)]);
    switch.take(6, 6, false, &[(1, 10_000)]);
    switch.take(8, 8, true, &[(1, 100_000)]);
    assert_eq!(switch.window(9), (vec![(1, 111_111)], Some((1, 8)), 0));
    let expected = [
        (1, vec![Gap::Started]),
        (2, vec![]),
        (4, vec![Gap::Part]),
        (5, vec![Gap::Spans { first_epoch: 3 }]),
        (6, vec![Gap::Part]),
        (7, vec![Gap::Missing]),
        (8, vec![]),
    ];
    assert_eq!(switch.answered(), expected);
    assert_eq!(switch.heavy(Window::Last { seconds: 1.0 }).claim.missing_epochs, 0, "3 is in 5");
    let lacks = |epoch: &u64| switch.heavy(Window::Epoch(*epoch)).claim.incomplete.contains(Reason::Gap);
    let epochs = switch.history().outlines().into_iter().map(|entry| entry.epoch);
    let lacking: Vec<_> = epochs.filter(lacks).collect();
    assert_eq!(lacking, [1, 4, 5, 6, 7]);
}

/// Each program has its own answers, but the one that reports to the controller of a network.
#[test]
fn every_program_has_answers_of_its_own() {
    let schedules = [ProgramConfig::networked().schedule(), hashpipe()[0].clone()];
    let of = |linked| {
        let mut switch = Switch::of(&schedules, linked, TRANSIT, 9);
        switch.local.take(
            Closed { program: 1, first: 4, last: 4, late: 0, record: &record(&[(1, 1)]) },
            true,
            5 * LENGTH,
        );
        switch.answers
    };
    let epochs = |answers: &LocalAnswers, name| {
        answers.find(|program| program.name() == name).map(|(_, history)| history.outlines().len())
    };
    let own = of(false);
    assert_eq!([epochs(&own, "chamelemon"), epochs(&own, "hashpipe"), epochs(&own, "other")], [Some(0), Some(1), None]);
    let linked = of(true);
    assert_eq!([epochs(&linked, "chamelemon"), epochs(&linked, "hashpipe")], [None, Some(1)]);
}

/// Of several programs the one answers whose task it is first of all.
#[test]
fn programs_answer_their_tasks() {
    let ranks = |task| [hashpipe()[0].program(), ProgramConfig::networked()].map(|program| program.rank(task));
    assert!(ranks(Task::Heavy).is_sorted() && ranks(Task::Heavy)[0] == Some(0));
    assert!(ranks(Task::Flows)[0] > ranks(Task::Flows)[1] && ranks(Task::Flows)[1].is_some());
    for task in [Task::Losses, Task::Changes, Task::Cardinality, Task::Attention] {
        assert!(ranks(task)[0].is_none() && ranks(task)[1].is_some(), "{task:?}");
    }
}
