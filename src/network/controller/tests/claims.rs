//! What answers claim to be all of.

use std::collections::BTreeMap;

use super::finality::waits;
use super::*;
use crate::answers::HeavyFlows;
use crate::program::chamelemon::Partition;

/// The answer about the last seconds, with these limits.
fn answer<A: Document>(network: &Network, seconds: f64, (top, threshold): (usize, u64)) -> Claimed<A> {
    asked(&network.controller, last(A::TASK, seconds).limited(top, threshold))
}

/// A network whose answers are final at once.
fn at_once(names: &[&str]) -> Network {
    Network::with(waits(0), config().parameters(), TRANSIT, names, 6)
}

/// A network whose parameters stay, with T_h = 20.
fn steady(parameters: EncoderParameters) -> Network {
    let settings = ControllerSettings { shifts: false, horizon: Some(0), ..settings() };
    Network::with(settings, parameters, TRANSIT, &["a", "b"], 6)
}

/// Of 80 flows 2 have each number of packets from 1 to 40: 42 are candidates.
#[test]
fn heavy_flows_are_all_when_none_was_cut_and_none_too_small() {
    let mut network = steady(config().parameters());
    (0..2).for_each(|_| drop(network.epoch(80, &[])));
    let flows = |network: &Network, top, threshold| {
        let flows: Claimed<FlowSizes> = answer(network, 0.0, (top, threshold));
        assert_eq!((flows.named_from_packets, flows.heavy_candidates), (20, 42));
        (flows.heavy.len(), flows.omitted_flows, flows.claim.complete)
    };
    assert_eq!(flows(&network, 100, 20), (42, 0, true));
    assert_eq!(flows(&network, 100, 19), (42, 0, false), "flows of 19 packets are no candidates");
    assert_eq!(flows(&network, 10, 20), (10, 32, true), "as short as was asked for");
    assert_eq!(flows(&network, 10, 39), (4, 0, true));
    assert_eq!(flows(&network, 100, 34), (14, 0, true));
}

/// Changes are all when both epochs know all candidates of the same switches.
#[test]
fn heavy_changes_are_all_when_both_epochs_are_whole() {
    let mut network = steady(config().parameters());
    let changes = |network: &Network, threshold| answer::<HeavyChanges>(network, 0.0, (16, threshold));
    network.epoch(80, &[]);
    let first = changes(&network, 20).claim;
    assert_eq!((first.missing_epochs, first.complete), (1, false), "{first:?}");
    network.epoch(80, &[]);
    assert!(!changes(&network, 20).claim.complete, "the switches started during the epoch before");
    network.epoch(100, &[]);
    let more = changes(&network, 20);
    assert_eq!((more.changes.len(), more.omitted_flows, more.claim.complete), (1, 0, true), "{more:?}");
    assert_eq!((more.claim.first_epoch, more.claim.last_epoch), (Some(7), Some(8)));
    assert!(!changes(&network, 19).claim.complete, "a flow may have come with 19 packets");
    network.epoch(0, &[]);
    let gone = changes(&network, 20);
    assert_eq!((gone.changes.len(), gone.omitted_flows, gone.claim.complete), (16, 27, true), "{gone:?}");
    network.epoch(0, &["b"]);
    network.epoch(0, &[]);
    let silent = changes(&network, 20).claim;
    assert!(
        !silent.complete && silent.gaps.iter().any(|gap| gap.epoch.number == 10 && gap.switch == "b"),
        "{silent:?}"
    );
    network.epoch(0, &[]);
    assert!(changes(&network, 20).claim.complete);
    network.controller.leave("b");
    network.controller.evict("b").unwrap();
    network.edges.pop();
    network.epoch(0, &[]);
    assert!(!changes(&network, 20).claim.complete, "b was in the epoch before");
}

/// Victims that are not named are counted.
#[test]
fn victims_that_are_not_named() {
    let mut network = at_once(&["a", "b"]);
    (0..3).for_each(|_| drop(network.epoch(100, &[])));
    let losses: Claimed<Losses> = answer(&network, 0.1, (4, 1));
    assert_eq!((losses.losses.len(), losses.victims, losses.omitted_flows, losses.claim.complete), (4, 10, 6, true));
}

/// Flows that are measured by sample lose packets that nobody sees.
#[test]
fn sampled_losses_are_not_all() {
    let partition = Partition { hh: 128, hl: 256, ll: 128 };
    let ill =
        EncoderParameters { partition, hl_threshold: 10, sample: EncoderParameters::ALL / 2, ..config().parameters() };
    let mut network = steady(ill);
    (0..2).for_each(|_| drop(network.epoch(100, &[])));
    let newest = network.newest();
    assert!(newest.gaps.is_empty() && newest.losses().is_some(), "{:?}", newest.entry);
    assert_eq!(newest.losses_lack(), [Reason::Sampled].into_iter().collect());
    let told: Claimed<Losses> = answer(&network, 0.0, (100, 1));
    assert_eq!(told.claim.incomplete.iter().collect::<Vec<_>>(), [Reason::Sampled]);
    assert!(told.losses.iter().all(|lost| lost.exact), "lost as light ones, they are in the sample: {told:?}");
}

/// Without the names of all edge switches a packet that left by another one seems lost.
#[test]
fn edges_that_nobody_named() {
    let mut network = at_once(&["a", "b"]);
    network.controller.settings.edges_named = false;
    (0..3).for_each(|_| drop(network.epoch(100, &[])));
    let losses: Claimed<Losses> = answer(&network, 0.0, (10, 1));
    let lack: Vec<_> = losses.claim.incomplete.iter().collect();
    assert_eq!((losses.claim.complete, lack), (false, vec![Reason::EdgesUnnamed]));
    assert_eq!(losses.claim.switches, ["a", "b"]);
    assert!(losses.losses.iter().all(|lost| !lost.exact) && losses.victims > 0);
}

/// Time is what selects epochs, and those that are not there are counted.
#[test]
fn epochs_between_that_are_not_there() {
    let mut network = at_once(&["a"]);
    (0..3).for_each(|_| drop(network.epoch(50, &[])));
    network.controller.tick(100 * LENGTH);
    network.epoch = 100;
    (0..2).for_each(|_| drop(network.epoch(50, &[])));
    let numbers = |seconds| {
        let covered = answer::<Losses>(&network, seconds, (10, 1)).claim;
        assert!(!covered.complete || covered.missing_epochs == 0);
        (covered.first_epoch.unwrap(), covered.last_epoch.unwrap(), covered.missing_epochs)
    };
    let told: Vec<_> = shown(&network.controller).iter().map(|answers| answers.epoch).collect();
    assert_eq!(told, [6, 7, 8, 98, 99, 100, 101]);
    assert_eq!(numbers(0.0), (101, 101, 0));
    assert_eq!(numbers(0.2), (98, 101, 0));
    assert_eq!(numbers(0.5), (92, 101, 6));
    assert_eq!(numbers(f64::MAX), (6, 101, 89));
    let next = |after| {
        let covered = asked::<Losses>(&network.controller, Query::new(Task::Losses, Window::Next { after })).claim;
        (covered.first_epoch, covered.last_epoch, covered.missing_epochs)
    };
    assert_eq!(next(0), (Some(6), Some(6), 0), "nothing has been seen yet");
    assert_eq!(next(7), (Some(8), Some(8), 0));
    assert_eq!(next(8), (Some(9), Some(98), 89));
    assert_eq!(next(101), (None, None, 0));
}

/// A flow with 19 packets in each of two epochs has no name, though it has 38 in both.
#[test]
fn sums_say_from_which_count_on_flows_are_named() {
    let mut network = steady(config().parameters());
    (0..3).for_each(|_| drop(network.epoch(80, &[])));
    let complete = |threshold| answer::<HeavyFlows>(&network, 0.1, (100, threshold)).claim.complete;
    assert_eq!((complete(38), complete(39)), (false, true));
}

/// Where older epochs are kept without their classifiers, sums are lower bounds, and changes are from
/// T_h - 1 where a flow was no candidate. Both say so.
#[test]
fn older_epochs_without_their_classifiers() {
    let mut network = steady(config().parameters());
    (0..6).for_each(|_| drop(network.epoch(80, &[])));
    let heavy = |seconds| answer::<HeavyFlows>(&network, seconds, (100, 1));
    let changes = || {
        let next = Query::new(Task::Changes, Window::Next { after: 7 }).limited(100, 20);
        asked::<HeavyChanges>(&network.controller, next).claim.incomplete
    };
    let whole = heavy(0.3);
    assert!(!whole.claim.incomplete.contains(Reason::Forgotten) && !changes().contains(Reason::Forgotten));
    let mut bytes = HISTORY_BYTES;
    while !heavy(0.3).claim.incomplete.contains(Reason::Forgotten) {
        bytes = bytes * 15 / 16;
        network.controller.history.resize(Room { epochs: 9, bytes });
    }
    let part = heavy(0.3);
    assert_eq!((part.claim.missing_epochs, network.controller.history.outlines().len()), (0, 6), "all are kept");
    let counts = |flows: &HeavyFlows| flows.counts().map(|heavy| (heavy.flow, heavy.count)).collect::<BTreeMap<_, _>>();
    let (whole, part) = (counts(&whole), counts(&part));
    assert!(part.iter().all(|(flow, count)| *count <= whole[flow]));
    assert!(!heavy(0.1).claim.incomplete.contains(Reason::Forgotten), "the newest are kept whole");
    assert!(changes().contains(Reason::Forgotten));
}
