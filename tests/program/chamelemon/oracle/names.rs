//! Victims and heavy flows of IPv6 have the names that the switch reports where they enter.

use std::collections::BTreeMap;

use weir::answers::{Claimed, FlowName, HeavyFlows, Losses, Query, Queryable as _, Task};
use weir::history::{Entry, History, Room, Window};
use weir::program::{Analysis as _, Before, Program, Reported};
use weir::wire::Flow;

use super::*;

/// An epoch of two switches: the first takes these frames in, the link loses one of thirteen, and
/// what is left leaves by the second. Their records, as bytes, and the packets lost by flow.
fn epoch(
    config: &Config,
    hashes: &HashFamily,
    frames: &[(Flow, Vec<u8>)],
    number: u64,
) -> ([Vec<u8>; 2], BTreeMap<Flow, u64>) {
    let (mut first, from_first) = switch([Role::Host, Role::Fabric], config, hashes, TelemetryHeader::Shim);
    let (mut last, from_last) = switch([Role::Fabric, Role::Host], config, hashes, TelemetryHeader::Shim);
    let entered = frames.iter().map(|(_, bytes)| HeapFrame::new(bytes)).collect();
    let on_link = through(&mut first, entered, number * EPOCH + 1);
    let (mut lost, mut arriving) = (BTreeMap::new(), Vec::new());
    for (place, (frame, (flow, _))) in on_link.into_iter().zip(frames).enumerate() {
        if place % 13 == 5 {
            *lost.entry(*flow).or_insert(0) += 1;
        } else {
            arriving.push(frame);
        }
    }
    through(&mut last, arriving, number * EPOCH + 2);
    let records = [records(&mut first, &from_first), records(&mut last, &from_last)];
    (records.map(|records| records[&number].encode()), lost)
}

/// What a controller makes of the records.
fn answers(
    analysis: &mut <ChameleMon as Program>::Analysis,
    config: &Config,
    hashes: &HashFamily,
    number: u64,
    records: &[Vec<u8>],
) -> (Claimed<Losses>, Claimed<HeavyFlows>) {
    let reader = ChameleMon::reader(config, "s", hashes);
    let reported = records.iter().map(|bytes| Reported {
        switch: "s".into(),
        record: Ok(Box::new(reader(bytes).unwrap())),
        before: Before::Nothing,
    });
    let epoch = analysis.epoch(number, &config.parameters(), reported.collect());
    let history = History::new(Room { epochs: 9, bytes: usize::MAX });
    history.push(Entry { switches: epoch.switches.clone(), ..Entry::new(number, analysis.keep(epoch)) });
    let ask = |task| history.ask(&Query::new(task, Window::All)).unwrap();
    (ask(Task::Losses).into_document().unwrap(), ask(Task::Heavy).into_document().unwrap())
}

/// The lost packets of each flow, as the answers name it.
fn victims((losses, _): &(Claimed<Losses>, Claimed<HeavyFlows>)) -> BTreeMap<FlowName, u64> {
    assert_eq!(losses.unknown_epochs, 0);
    losses.losses.iter().map(|loss| (loss.name, loss.packets)).collect()
}

fn by_name(lost: &BTreeMap<Flow, u64>) -> BTreeMap<FlowName, u64> {
    lost.iter().map(|(flow, packets)| (FlowName::Flow(*flow), *packets)).collect()
}

#[test]
fn victims_of_both_families_are_named() {
    for seed in 1..4 {
        let config = Config { hh_threshold: 20, ll: 512, hl: Some(1024), hl_threshold: 4, ..Config::default() };
        let (hashes, frames) = (HashFamily::reproducible(seed), frames(seed));
        let (records, lost) = epoch(&config, &hashes, &frames, 4);
        let mut analysis = ChameleMon::analysis(&config, 0);
        let found = answers(&mut analysis, &config, &hashes, 4, &records);
        assert_eq!(victims(&found), by_name(&lost));
        let mut sizes = BTreeMap::<Flow, u64>::new();
        frames.iter().for_each(|(flow, _)| *sizes.entry(*flow).or_default() += 1);
        let heavy: BTreeMap<_, _> = found.1.heavy.iter().map(|heavy| (heavy.name, heavy.count())).collect();
        for (flow, packets) in sizes.into_iter().filter(|(_, packets)| *packets >= 20) {
            assert!(heavy[&FlowName::Flow(flow)] >= packets, "{flow}");
        }
        let is_ipv6 = |name: &&FlowName| name.flow().is_some_and(|flow| flow.src.is_some_and(|ip| ip.is_ipv6()));
        assert!(heavy.keys().filter(is_ipv6).count() > 5 && lost.len() > 100);
    }
}

/// Where a record has no room for a name, a digest stands in its place, with the same packets. What
/// has been named stays so in later epochs.
#[test]
fn what_is_not_named_is_a_digest() {
    let config = Config { names: 8, ..Config::default() };
    let (hashes, all) = (HashFamily::reproducible(7), frames(7));
    let ipv6: Vec<_> = all.into_iter().filter(|(flow, _)| flow.src.is_some_and(|ip| ip.is_ipv6())).collect();
    let named: Vec<Flow> = ipv6.iter().fold(Vec::new(), |mut named, (flow, _)| {
        if named.len() < 8 && !named.contains(flow) {
            named.push(*flow);
        }
        named
    });
    let mut analysis = ChameleMon::analysis(&config, 0);
    let (records, lost) = epoch(&config, &hashes, &ipv6, 4);
    let found = victims(&answers(&mut analysis, &config, &hashes, 4, &records));
    let is_named = |flow: &Flow| named.contains(flow);
    let expected = lost.iter().filter(|(flow, _)| is_named(flow)).map(|(flow, packets)| (*flow, *packets)).collect();
    let (names, digests): (BTreeMap<_, _>, BTreeMap<_, _>) = found.iter().partition(|(name, _)| name.flow().is_some());
    assert_eq!(names, by_name(&expected).iter().collect());
    assert_eq!(digests.len(), lost.len() - expected.len());
    assert_eq!(found.values().sum::<u64>(), lost.values().sum::<u64>());
    assert!(!names.is_empty() && !digests.is_empty());

    // Others come first in the next epoch, and take the room.
    let turned: Vec<_> = ipv6.iter().rev().cloned().collect();
    let (records, lost) = epoch(&config, &hashes, &turned, 5);
    let found = victims(&answers(&mut analysis, &config, &hashes, 5, &records));
    for (flow, packets) in lost.iter().filter(|(flow, _)| is_named(flow)) {
        assert_eq!(found.get(&FlowName::Flow(*flow)), Some(packets), "{flow}");
    }
}
