//! When answers are final, and what amends them.

use super::*;
use crate::history::Finality;
use crate::switch::TelemetryHeader;

/// Settings with this horizon.
pub(super) fn waits(horizon: u64) -> ControllerSettings {
    ControllerSettings { horizon: Some(horizon), ..settings() }
}

fn network(horizon: u64) -> Network {
    Network::with(waits(horizon), config().parameters(), TRANSIT, &["a", "b"], 6)
}

fn answers(network: &Network, epoch: u64) -> Shown {
    shown(&network.controller).into_iter().find(|answers| answers.epoch == epoch).unwrap()
}

fn finality(network: &Network, epoch: u64) -> Finality {
    answers(network, epoch).finality.clone()
}

fn gaps(network: &Network, epoch: u64) -> Vec<(String, Gap)> {
    answers(network, epoch).gaps.iter().map(|gap| (gap.switch.to_string(), gap.gap)).collect()
}

/// The losses that were published or changed first after this number.
fn next(network: &Network, sequence: u64) -> Claimed<Losses> {
    let query = Query::new(Task::Losses, Window::Since { sequence });
    asked(&network.controller, Query { provisional: false, ..query })
}

/// An epoch is final when the epochs of the horizon have closed, not before.
#[test]
fn answers_are_final_a_horizon_later() {
    for horizon in [0, 1, 2, 5] {
        let mut network = network(horizon);
        for closed in 6..20 {
            network.epoch(90, &[]);
            for answers in shown(&network.controller) {
                let is_final = answers.epoch + horizon <= closed;
                assert_eq!(answers.finality.is_final, is_final, "{} of {closed}, {horizon}", answers.epoch);
                assert!(!is_final || answers.epoch < 7 || answers.has_all_losses(), "{:?}", answers.entry);
            }
        }
    }
}

/// An answer is never called complete before it is final, and clients are given final ones alone
/// unless they ask for more.
#[test]
fn what_is_provisional_is_not_complete() {
    let mut network = network(2);
    (0..6).for_each(|_| drop(network.epoch(90, &[])));
    let covered = |window, provisional| {
        asked::<Losses>(&network.controller, Query { provisional, ..Query::new(Task::Losses, window) }).claim
    };
    let newest = covered(Window::Last { seconds: 0.0 }, true);
    assert_eq!((newest.last_epoch, newest.complete, newest.is_final), (Some(11), false, false));
    assert_eq!(newest.incomplete.iter().collect::<Vec<_>>(), [Reason::Provisional]);
    let last = covered(Window::Last { seconds: 0.0 }, false);
    assert_eq!((last.last_epoch, last.complete, last.is_final), (Some(9), true, true));
    assert_eq!(covered(Window::Next { after: 9 }, false).last_epoch, None);
    assert_eq!(covered(Window::Next { after: 9 }, true).last_epoch, Some(10));
    assert_eq!(last.lost_after_ns, Some(TRANSIT + 2 * LENGTH));
}

/// A packet within the horizon is a gap before its epoch is final. One beyond it is late: the answer
/// keeps its numbers and is amended.
#[test]
fn late_packets_amend_final_answers() {
    for late in 1..6 {
        let mut network = network(2);
        (0..2).for_each(|_| drop(network.epoch(90, &[])));
        let stray = network.edges[0].enter(5000, 8);
        network.epoch(90, &[]);
        let nets = |network: &Network| answers(network, 8).losses().map(|losses| losses.nets());
        let lost = nets(&network);
        (1..late).for_each(|_| drop(network.epoch(90, &[])));
        let before = asked::<Losses>(&network.controller, last(Task::Losses, 0.0)).claim.sequence;
        network.edges[1].leave(stray);
        (0..3).for_each(|_| drop(network.epoch(90, &[])));
        assert_eq!(nets(&network), lost, "numbers stay");
        let Finality { is_final, amendments, late_packets, .. } = finality(&network, 8);
        assert!(is_final);
        if late <= 2 {
            assert_eq!((amendments, late_packets), (0, 0), "{late}");
            assert_eq!(gaps(&network, 8), [("b".to_owned(), Gap::Strays { packets: 1 })]);
        } else {
            assert_eq!((amendments, late_packets, gaps(&network, 8)), (1, 1, vec![]), "{late}");
            assert_eq!(network.controller.history().late_packets(), 1);
        }
        let mut sequence = before;
        let mut followed = Vec::new();
        loop {
            let next = next(&network, sequence);
            let Some(epoch) = next.claim.last_epoch else { break };
            assert!(next.claim.sequence > sequence);
            sequence = next.claim.sequence;
            followed.push(epoch);
        }
        assert!(followed.contains(&8), "an amendment is published: {followed:?}");
    }
}

/// A follower gets each final answer, and each change of it, in the order of publication.
#[test]
fn followers_see_every_change() {
    let mut network = network(1);
    let mut known = std::collections::BTreeMap::new();
    let mut sequence = 0;
    for round in 0..30u32 {
        let stray = network.edges[0].enter(5000 + round, network.epoch);
        network.epoch(40, if round % 7 == 3 { &["b"] } else { &[] });
        if round % 3 == 0 {
            (0..round % 5).for_each(|_| drop(network.epoch(40, &[])));
            network.edges[1].leave(stray);
        }
        loop {
            let next = next(&network, sequence);
            let Some(epoch) = next.claim.last_epoch else { break };
            sequence = next.claim.sequence;
            if let Some(earlier) = known.insert(epoch, next.clone()) {
                let earlier: Claimed<Losses> = earlier;
                assert!(next.claim.amendments > earlier.claim.amendments, "changed without an amendment");
                assert_eq!(next.losses, earlier.losses);
            }
        }
    }
    for answers in shown(&network.controller).iter().filter(|answers| answers.finality.is_final) {
        let followed = &known[&answers.epoch];
        assert_eq!(
            (&followed.claim.gaps, &followed.losses),
            (&answers.answer::<Losses>().claim.gaps, &answers.answer::<Losses>().losses)
        );
    }
    assert!(known.len() > 30);
}

/// A record that would have counted late packets and does not come leaves a gap.
#[test]
fn an_unconfirmed_answer_is_not_complete() {
    let mut network = network(2);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    network.epoch(90, &["b"]);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    let unconfirmed = vec![("b".to_owned(), Gap::Unconfirmed { epoch: 10 })];
    assert_eq!([7, 8, 9].map(|epoch| gaps(&network, epoch)), [vec![], unconfirmed.clone(), unconfirmed]);
    for epoch in 8..=9 {
        let answers = answers(&network, epoch);
        assert!(answers.losses().is_some() && !answers.has_all_losses() && answers.finality.is_final);
    }
    assert_eq!(gaps(&network, 12), []);
}

/// Epochs that were passed over confirm nothing.
#[test]
fn a_controller_that_stood_still_confirms_nothing() {
    let mut network = network(2);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    network.epoch = 100;
    network.controller.tick(100 * LENGTH);
    (0..4).for_each(|_| drop(network.epoch(90, &[])));
    for epoch in 8..=9 {
        assert!(finality(&network, epoch).is_final);
        let unconfirmed = ["a", "b"].map(|name| (name.to_owned(), Gap::Unconfirmed { epoch: 10 }));
        assert_eq!(gaps(&network, epoch), unconfirmed);
    }
}

/// A switch that stood still says so in the record that it spoils. Its next records say how many
/// packets were late, and the mark goes.
#[test]
fn a_mark_lasts_until_later_records_say_more() {
    for stray in [false, true] {
        let mut network = network(2);
        (0..2).for_each(|_| drop(network.epoch(90, &[])));
        let packet = network.edges[0].enter(5000, 8);
        let [a, b] = network.records(90).try_into().unwrap();
        let now = 9 * LENGTH + 2 * TRANSIT;
        network.controller.report("a", a, now).unwrap();
        network.controller.report("b", Report { late: 20_000_000, ..b }, now).unwrap();
        network.controller.keep();
        network.epoch += 1;
        let mark = SwitchGap { switch: "b".into(), gap: Gap::StoodStill { nanos: 20_000_000 } };
        assert_eq!(finality(&network, 8).waiting, std::slice::from_ref(&mark));
        let shown = asked::<Losses>(&network.controller, last(Task::Losses, 0.0)).claim;
        assert_eq!((shown.complete, shown.gaps.len()), (false, 1));
        assert_eq!(shown.gaps[0].gap, mark.gap.to_string());
        if stray {
            network.edges[1].leave(packet);
        }
        (0..2).for_each(|_| drop(network.epoch(90, &[])));
        assert!(finality(&network, 8).is_final && finality(&network, 8).waiting.is_empty());
        let expected = if stray { vec![("b".to_owned(), Gap::Strays { packets: 1 })] } else { vec![] };
        assert_eq!(gaps(&network, 8), expected);
    }
    let mut network = network(2);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let [a, b] = network.records(90).try_into().unwrap();
    network.controller.report("a", a, 9 * LENGTH + TRANSIT).unwrap();
    network.controller.report("b", Report { late: 20_000_000, ..b }, 9 * LENGTH + TRANSIT).unwrap();
    network.epoch += 1;
    network.epoch(90, &["b"]);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let gaps: Vec<_> = gaps(&network, 8).into_iter().map(|(_, gap)| gap).collect();
    assert_eq!(gaps, [Gap::Unconfirmed { epoch: 9 }, Gap::StoodStill { nanos: 20_000_000 }], "nothing says more");
}

/// With one bit a packet that waits for two epochs leaves as one of a later epoch. The losses of its
/// own epoch are doubted before they are final.
#[test]
fn gains_of_one_bit_doubt_earlier_losses() {
    let mut network = Network::with(waits(2), config().parameters(), TRANSIT, &[], 6);
    for name in ["a", "b"] {
        let edge = Edge::new(name, 6, config().parameters());
        let request =
            JoinRequest { profile: NetworkProfile { header: TelemetryHeader::Dscp, ..profile() }, ..edge.request(7) };
        network.controller.join(&request, 6 * LENGTH + 1).unwrap();
        network.edges.push(edge);
    }
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let late = network.edges[0].enter(5000, 8);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    assert!(answers(&network, 8).has_all_losses() && !finality(&network, 8).is_final);
    // The bit says 10.
    network.edges[1].leave(Phv { shim: late.shim.with_epoch(10), ..late });
    network.epoch(90, &[]);
    assert!(finality(&network, 8).is_final);
    assert_eq!(answers(&network, 8).losses_lack(), [Reason::OneBit].into_iter().collect());
    assert!(answers(&network, 9).has_all_losses());
    assert_eq!(answers(&network, 10).losses_lack(), [Reason::Gained].into_iter().collect());
}
