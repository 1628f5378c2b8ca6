//! Packets that left while another epoch was counted.

use super::finality::waits;
use super::*;
use crate::program::chamelemon::Strays;
use crate::switch::TelemetryHeader;

/// The epochs that are not complete, each with its gaps.
fn incomplete(network: &Network) -> Vec<(u64, Vec<(String, Gap)>)> {
    let gaps = |answers: &Shown| answers.gaps.iter().map(|gap| (gap.switch.to_string(), gap.gap)).collect();
    let all = shown(&network.controller);
    let incomplete = all.iter().filter(|answers| !answers.has_all_losses());
    incomplete.map(|answers| (answers.epoch, gaps(answers))).collect()
}

/// However late a packet leaves within the horizon, its own epoch's answer is called incomplete, and
/// no other.
#[test]
fn a_stray_spoils_its_own_epoch_alone() {
    for late in 1..20 {
        let mut network = Network::with(waits(late), config().parameters(), TRANSIT, &["a", "b"], 6);
        (0..2).for_each(|_| drop(network.epoch(90, &[])));
        let stray = network.edges[0].enter(5000, 8);
        network.epoch(90, &[]);
        assert!(network.newest().has_all_losses(), "it seems lost");
        (1..late).for_each(|_| drop(network.epoch(90, &[])));
        network.edges[1].leave(stray);
        (0..3).for_each(|_| drop(network.epoch(90, &[])));
        let spoilt = vec![("b".to_owned(), Gap::Strays { packets: 1 })];
        assert_eq!(incomplete(&network)[1..], [(8, spoilt)], "{late} epochs late");
    }
}

/// A packet of an epoch that begins later, from a switch whose clock is ahead.
#[test]
fn a_stray_of_an_epoch_to_come() {
    for ahead in 1..5 {
        let mut network = Network::new(&["a", "b"], 6);
        (0..2).for_each(|_| drop(network.epoch(90, &[])));
        let stray = network.edges[0].enter(5000, 8);
        network.edges[1].leave(Phv { shim: stray.shim.with_epoch(stray.shim.epoch() + ahead), ..stray });
        (0..8).for_each(|_| drop(network.epoch(90, &[])));
        let spoilt = vec![("b".to_owned(), Gap::Strays { packets: 1 })];
        assert_eq!(incomplete(&network)[1..], [(8 + u64::from(ahead), spoilt)], "{ahead} epochs ahead");
    }
}

/// With one bit the epoch before the running one and the one after it are not told apart.
#[test]
fn a_stray_with_one_bit_spoils_two_epochs() {
    let mut network = Network::new(&[], 6);
    let request = |name: &str| {
        let edge = Edge::new(name, 6, config().parameters());
        (
            JoinRequest { profile: NetworkProfile { header: TelemetryHeader::Dscp, ..profile() }, ..edge.request(7) },
            edge,
        )
    };
    for name in ["a", "b"] {
        let (request, edge) = request(name);
        network.controller.join(&request, 6 * LENGTH + 1).unwrap();
        network.edges.push(edge);
    }
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let stray = network.edges[0].enter(5000, 8);
    network.epoch(90, &[]);
    network.edges[1].leave(stray);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    assert_eq!(incomplete(&network)[1..].iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(), [8, 10]);
}

/// So do those that a record tells of before the epoch has closed, and those of a record that comes
/// too late, too early or twice.
#[test]
fn strays_told_early_or_late() {
    let mut network = Network::new(&["a", "b"], 6);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let [a8, b8] = network.records(90).try_into().unwrap();
    network.epoch = 9;
    let [_a9, mut b9] = network.records(90).try_into().unwrap();
    assert!(b9.record.strays_mut().unwrap().add(8, 2));
    let now = 10 * LENGTH + TRANSIT;
    network.controller.report("b", b8, now).unwrap();
    network.controller.report("b", b9, now).unwrap();
    network.controller.report("a", a8, now).unwrap();
    network.controller.keep();
    assert_eq!((network.newest().epoch, network.gaps()), (8, vec![("b".to_owned(), Gap::Strays { packets: 2 })]));
    network.epoch = 10;
    let [mut a10, _b10] = network.records(90).try_into().unwrap();
    assert!(a10.record.strays_mut().unwrap().add(9, u64::MAX));
    for now in [10 * LENGTH, 20 * LENGTH, 20 * LENGTH] {
        if now > 10 * LENGTH {
            network.controller.tick(now);
        }
        let (record, first_epoch, epoch) = (a10.record.clone(), a10.first_epoch, a10.epoch);
        let refused = network.controller.report("a", Report { record, first_epoch, epoch, whole: true, late: 0 }, now);
        assert!(matches!(refused, Err(ReportError::Late { .. } | ReportError::Early { .. })));
    }
    network.controller.keep();
    let nine = shown(&network.controller).into_iter().find(|answers| answers.epoch == 9).unwrap();
    let strays: Vec<_> = nine.gaps.iter().filter(|gap| matches!(gap.gap, Gap::Strays { .. })).collect();
    assert!(matches!(strays[..], [SwitchGap { gap: Gap::Strays { packets: u64::MAX }, .. }]), "{strays:?}");
}

/// Of packets whose epochs are too many to be told apart any answer may lack some.
#[test]
fn strays_of_too_many_epochs_spoil_all() {
    let mut network = Network::new(&["a", "b"], 6);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    let [a10, mut b10] = network.records(90).try_into().unwrap();
    let mut strays = Strays::default();
    strays.add_elsewhere(7);
    *b10.record.strays_mut().unwrap() = strays;
    for (name, report) in [("b", b10), ("a", a10)] {
        network.controller.report(name, report, 11 * LENGTH + TRANSIT).unwrap();
    }
    network.controller.keep();
    let unplaced = ("b".to_owned(), Gap::Unplaced { packets: 7 });
    let spoilt = incomplete(&network);
    assert_eq!(spoilt.iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(), [6, 7, 8, 9, 10]);
    assert!(spoilt.iter().all(|(_, gaps)| gaps.contains(&unplaced)), "{spoilt:?}");
    network.epoch = 11;
    network.epoch(90, &[]);
    assert!(network.newest().has_all_losses(), "what comes later is not meant");
}
