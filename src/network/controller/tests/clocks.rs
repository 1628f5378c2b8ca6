//! Clocks that differ, jump, and go back.

use super::*;

impl Network {
    /// An epoch in which a switch's clock is off.
    fn epoch_off(&mut self, name: &str, ahead: i64) {
        let now = (self.epoch + 1) * LENGTH + self.transit;
        self.controller.clock(name, now.saturating_add_signed(ahead), now);
        self.epoch(90, &[]);
    }
}

/// A switch whose clock is off is named, with what it is off; a record that is late for another
/// reason says nothing of a clock.
#[test]
fn clocks_that_are_off_are_named() {
    for (ahead, text) in [(-130_000_000, "its clock is 0.13 s behind"), (40_000_000, "its clock is 0.04 s ahead")] {
        let mut network = Network::new(&["a", "b"], 6);
        (0..2).for_each(|_| network.epoch_off("b", 1_000_000));
        network.assert_exact(90);
        (0..4).for_each(|_| network.epoch_off("b", ahead));
        assert_eq!(network.gaps(), [("b".to_owned(), Gap::Clock { ahead })]);
        assert_eq!(network.gaps()[0].1.to_string(), text);
        assert!(!network.newest().has_all_losses() && network.newest().losses().is_some());
        (0..4).for_each(|_| network.epoch_off("b", -1_000_000));
        network.assert_exact(90);
        network.epoch_off("b", -130_000_000);
        network.assert_exact(90);
    }
}

/// An update comes before a switch prepares the epoch that it is for, also when the switch's clock
/// is ahead by the transit time.
#[test]
fn updates_reach_a_switch_whose_clock_is_ahead() {
    let ControllerSettings { lead_time, .. } = settings();
    for phase in 0..50 {
        let mut network = Network::new(&["a", "b"], 6);
        network.epoch(90, &[]);
        let [a, b] = network.records(90).try_into().unwrap();
        let now = 8 * LENGTH + TRANSIT + phase * LENGTH / 50;
        let first = network.controller.report("a", a, now).unwrap();
        let update = first.or(network.controller.report("b", b, now).unwrap()).unwrap();
        let prepared = update.epoch * LENGTH - TRANSIT - TRANSIT;
        assert!(now + lead_time <= prepared, "phase {phase}: {update:?}");
        assert!(update.epoch <= now / LENGTH + 2, "and not later than needed");
    }
}

/// With one clock there is no such switch.
#[test]
fn one_clock_needs_no_room() {
    let settings = ControllerSettings { one_clock: true, ..settings() };
    let mut network = Network::with(settings, config().parameters(), LENGTH / 2, &["a"], 6);
    network.epoch(90, &[]);
    let [a] = network.records(90).try_into().unwrap();
    let update = network.controller.report("a", a, 8 * LENGTH + LENGTH / 4).unwrap().unwrap();
    assert_eq!(update.epoch, 9);
}

/// A controller whose clock is set back goes on within some epochs, and answers of numbers that
/// come again are not taken for new ones.
#[test]
fn a_clock_that_is_set_back() {
    let mut network = Network::new(&["a", "b"], 60);
    (0..9).for_each(|_| drop(network.epoch(90, &[])));
    network.assert_exact(90);
    network.epoch = 64;
    network.edges.iter_mut().for_each(|edge| edge.program.enter(64, true));
    (0..6).for_each(|_| drop(network.epoch(90, &[])));
    network.assert_exact(90);
    let epochs: Vec<_> = shown(&network.controller).iter().map(|answers| answers.epoch).collect();
    assert_eq!(epochs, (60..70).collect::<Vec<_>>(), "each number once, in their order");
    assert_eq!(network.controller.history().passed_over(), 69 - 65, "those that are told no more");
    let all = shown(&network.controller);
    let incomplete = all.iter().filter(|answers| !answers.has_all_losses());
    let incomplete: Vec<_> = incomplete.map(|answers| answers.epoch).collect();
    assert!(incomplete.iter().all(|epoch| *epoch == 60 || (64..68).contains(epoch)), "{incomplete:?}");
    let updates = network.controller.updates(70);
    assert!(updates.iter().all(|update| update.epoch < 75), "{updates:?}");
}

/// A switch that joined when its clock was ahead is whole as soon as its clock is right.
#[test]
fn a_switch_that_joined_with_its_clock_ahead() {
    let mut network = Network::new(&["a"], 6);
    let edge = Edge::new("b", 6, config().parameters());
    network.controller.join(&edge.request(1_000_000), 6 * LENGTH + 1).unwrap();
    network.edges.push(edge);
    network.epoch(90, &[]);
    assert_eq!(network.newest().losses(), None);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    network.assert_exact(90);
}

/// A switch whose clock was set back reports an epoch twice: its packets of both times carry the
/// same number.
#[test]
fn an_epoch_that_is_measured_twice() {
    for others_wait in [false, true] {
        let mut network = Network::new(&["a", "b"], 6);
        (0..2).for_each(|_| drop(network.epoch(90, &[])));
        let [a, b] = network.records(90).try_into().unwrap();
        let again = Report { first_epoch: 8, epoch: 8, whole: true, late: 0, record: b.record.clone() };
        let now = 9 * LENGTH + TRANSIT;
        network.controller.report("b", b, now).unwrap();
        if !others_wait {
            network.controller.report("a", a, now).unwrap();
            network.controller.keep();
            network.assert_exact(90);
            assert!(matches!(network.controller.report("b", again, now), Err(ReportError::Late { .. })));
        } else {
            assert!(matches!(network.controller.report("b", again, now), Err(ReportError::Twice { .. })));
            network.controller.report("a", a, now).unwrap();
            network.controller.keep();
        }
        assert_eq!((network.newest().epoch, network.gaps()), (8, vec![("b".to_owned(), Gap::Repeated)]));
        assert!(!network.newest().has_all_losses() && !network.newest().flows_lack().is_empty());
    }
}

/// Answers that are older than what was asked for say so, and are not all that there was.
#[test]
fn old_answers_are_called_old() {
    let mut network = Network::with(super::finality::waits(0), config().parameters(), TRANSIT, &["a", "b"], 6);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    let losses = |now, seconds| {
        let window = Window::Last { seconds };
        let query = Query { now: Some(now), ..Query::new(Task::Losses, window) };
        asked::<Losses>(&network.controller, query).claim
    };
    let end = 10 * LENGTH;
    let fresh = losses(end + LENGTH / 2, 0.1);
    assert_eq!((fresh.age_seconds, fresh.outdated, fresh.complete), (Some(0.025), false, true));
    let old = losses(end + 83 * LENGTH, 3.0);
    assert_eq!((old.age_seconds, old.outdated, old.complete), (Some(4.15), true, false));
    assert!(old.incomplete.contains(Reason::Outdated));
    assert!(!losses(end + 83 * LENGTH, 10.0).outdated, "it is of the last ten seconds");
}
