//! Which epochs close, when, and what is said of those that do not.

use super::*;

/// A switch may be slower than the others by many epochs, when the controller is patient.
#[test]
fn record_timeout_over_many_epochs_loses_nothing() {
    let patient = ControllerSettings { record_timeout: 40 * LENGTH, ..settings() };
    let mut network = Network::with(patient, config().parameters(), TRANSIT, &["a", "b"], 6);
    let mut late = Vec::new();
    for epoch in 6..36 {
        network.epoch = epoch;
        let now = (epoch + 1) * LENGTH + TRANSIT;
        let [a, b] = network.records(20).try_into().unwrap();
        assert_eq!(network.controller.report("a", a, now), Ok(None));
        assert_eq!(network.controller.tick(now + LENGTH / 2), None);
        late.push(b);
    }
    for b in late {
        network.controller.report("b", b, 36 * LENGTH + TRANSIT).unwrap();
    }
    network.controller.keep();
    let answers = shown(&network.controller);
    let exact = answers.iter().filter(|answers| answers.has_all_losses()).map(|answers| answers.epoch);
    assert_eq!(exact.collect::<Vec<_>>(), (7..36).collect::<Vec<_>>());
    assert_eq!((network.controller.history().passed_over(), network.controller.open.len()), (0, 0));
}

/// A controller that stood still answers what it has records of, and counts what it does not go
/// through.
#[test]
fn standing_still() {
    let mut network = Network::new(&["a", "b"], 6);
    network.epoch(50, &[]);
    let [a, _b] = network.records(50).try_into().unwrap();
    assert_eq!(network.controller.report("a", a, 8 * LENGTH), Ok(None));
    assert!(network.controller.tick(1_000_000 * LENGTH).is_some());
    network.controller.keep();
    let answers: Vec<_> =
        shown(&network.controller).iter().map(|answers| (answers.epoch, answers.switches.len())).collect();
    assert_eq!(answers, [(6, 0), (7, 1), (999_998, 0)]);
    assert_eq!(network.controller.history().passed_over(), 999_998 - 8);
    assert_eq!(network.gaps(), ["a", "b"].map(|name| (name.to_owned(), Gap::Missing)));
    let losses: Claimed<Losses> = asked(&network.controller, Query::new(Task::Losses, Window::All));
    assert_eq!((losses.claim.first_epoch, losses.claim.missing_epochs), (Some(6), 999_990));
    assert_eq!((network.controller.history().passed_over(), losses.claim.complete), (999_990, false));
}

/// What had been reported when all connections broke is answered, and what is no longer waited for
/// is not kept.
#[test]
fn all_connections_break() {
    let mut network = Network::new(&["a", "b"], 6);
    network.epoch(90, &[]);
    network.epoch(90, &[]);
    let [a, _b] = network.records(90).try_into().unwrap();
    network.controller.report("a", a, 9 * LENGTH + TRANSIT).unwrap();
    network.controller.leave("a");
    network.controller.leave("b");
    for edge in &network.edges {
        network.controller.join(&edge.request(9), 9 * LENGTH + TRANSIT + 1).unwrap();
    }
    let update = network.controller.tick(9 * LENGTH + TRANSIT + LENGTH / 4).unwrap();
    network.edges.iter().for_each(|edge| edge.update(&update));
    network.controller.keep();
    let newest = network.newest();
    assert_eq!((newest.epoch, newest.switches.len()), (8, 1), "a's flows");
    assert_eq!(network.gaps(), [("b".to_owned(), Gap::Missing)]);
    assert!(network.controller.open.is_empty());
    network.epoch = 9;
    network.epoch(90, &[]);
    assert_eq!(network.gaps(), ["a", "b"].map(|name| (name.to_owned(), Gap::Before)));
    network.epoch(90, &[]);
    network.assert_exact(90);
}

/// What a switch reported before it started again helps with the epochs that are still open.
#[test]
fn a_switch_starts_again_while_epochs_are_open() {
    let mut network = Network::new(&["a", "b"], 6);
    network.epoch(90, &[]);
    network.epoch(90, &[]);
    let [a, b] = network.records(90).try_into().unwrap();
    network.controller.report("a", a, 9 * LENGTH + TRANSIT).unwrap();
    network.controller.leave("a");
    network.controller.join(&network.edges[0].request(10), 9 * LENGTH + TRANSIT + 1).unwrap();
    network.controller.report("b", b, 9 * LENGTH + TRANSIT + 2).unwrap();
    network.controller.keep();
    assert_eq!(network.newest().epoch, 8);
    network.assert_exact(90);
}

/// After a restart epochs count from the running one, and after the last switch was evicted they
/// may have another length.
#[test]
fn epochs_are_counted_anew() {
    let network = Network::new(&["a"], 6);
    let mut again = Controller::restore(&profile().program, settings(), &network.controller.save()).unwrap();
    assert_eq!(again.tick(1000 * LENGTH + 1), None);
    assert_eq!(again.deadline(), Some(1001 * LENGTH + TRANSIT + LENGTH / 4));
    assert_eq!((again.history().passed_over(), again.history().outlines().len()), (0, 0));
    again.evict("a").unwrap();
    let mut edge = Edge::new("a", 500, config().parameters());
    let longer = NetworkProfile { length: 2 * LENGTH, ..profile() };
    again.join(&JoinRequest { profile: longer, ..edge.request(501) }, 1000 * LENGTH).unwrap();
    let report = edge.end(500, |_| {});
    assert!(matches!(again.report("a", report, 1002 * LENGTH + TRANSIT), Ok(Some(_))));
}

/// With the longest transit time parameters are looked up when the last record of the epoch before
/// has just been made.
#[test]
fn updates_are_in_time_for_the_longest_transit_time() {
    let mut network = Network::with(settings(), config().parameters(), LENGTH / 2, &["a", "b"], 6);
    network.epoch(200, &[]);
    for _ in 0..6 {
        let results = network.epoch(200, &[]);
        let update = results.iter().find_map(|result| result.clone().ok().flatten()).unwrap();
        assert_eq!(update.epoch, network.epoch + 2, "the next epoch but one is being prepared");
        network.assert_exact(200);
    }
    assert_eq!(network.newest().adaptation.as_ref().unwrap().measured.parameters["hh_threshold_packets"], 1);
}

/// The update goes out before the epoch is added to the history, which takes as long again.
#[test]
fn updates_do_not_wait_for_the_history() {
    let mut network = Network::new(&["a"], 6);
    network.epoch(50, &[]);
    let newest = |network: &Network| network.controller.history().newest();
    let before = newest(&network);
    let [a] = network.records(50).try_into().unwrap();
    let epoch = a.epoch;
    assert!(network.controller.report("a", a, (epoch + 1) * LENGTH + TRANSIT).unwrap().is_some());
    assert_eq!(newest(&network), before);
    network.controller.keep();
    assert_eq!(newest(&network), Some(epoch));
}
