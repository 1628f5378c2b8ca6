//! Plans that change: each packet is written, and decoded, by the plan of its epoch.

use std::sync::Arc;

use proptest::prelude::*;
use weir::answers::{Certainty, Claimed, Document, Latency, Paths, Query, Queryable, Values};
use weir::history::{Entry, Gap, History, Reason, Room, SwitchGap, Window};
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::pint::dataplane::Measured;
use weir::program::pint::encoding::switch_id;
use weir::program::pint::record::{self, Arrival, PlanUse, PlanUses};
use weir::program::pint::{Config, Digests, Pint, PlanParameters};
use weir::program::{Analysis, Before, Dataplane, Parameters, Program, ReportBuffer, Reported, Schedule};
use weir::wire::{FiveTuple, Headers, Net, Shim};

const FAMILY: u64 = 5;

/// Different queries within 16 bits.
const QUERIES: [&str; 5] = [
    "path:bits=8:instances=2",
    "path:bits=8+latency:bits=8",
    "path:bits=4+latency:bits=8:frequency=15/16",
    "latency:bits=8+path:bits=8",
    "path:bits=8:instances=2:acts=vectors",
];

fn config(plan: usize) -> Config {
    Config { queries: QUERIES[plan].parse().unwrap(), ..Config::default() }
}

fn parameters(plan: usize) -> PlanParameters {
    config(plan).parameters()
}

/// A switch that began with a plan, and what sets others.
fn switch(name: &str, plan: usize) -> (Box<dyn Dataplane>, Schedule<Pint>) {
    let schedule = Schedule::<Pint>::new(config(plan), parameters(plan));
    let mut switch = Pint::dataplane(&config(plan), name, &HashFamily::reproducible(FAMILY), &schedule).unwrap();
    switch.allocate();
    (switch, schedule)
}

fn packet(epoch: u64, identity: u32, hop: u8) -> Phv {
    let headers = Headers { net: Net::Ipv4, src_ip: 1, dst_ip: 2, proto: 17, shim: hop > 1, ..Headers::default() };
    Phv {
        headers,
        identity,
        shim: Shim::new(hop, 0, weir::wire::shim::epoch_of(epoch), 0),
        latency_ns: 1 << 20,
        disposition: Disposition::ToFabric,
        enters: hop == 1,
        ..Phv::default()
    }
}

fn record(switch: &mut dyn Dataplane) -> Digests {
    let mut bank = switch.spare();
    switch.exchange_egress(bank.as_mut());
    bank.record().get::<Digests>().unwrap().clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the epoch, a packet of it, of the one before and of the one that is prepared is
    /// written by its own epoch's plan; the record says which plans these were.
    #[test]
    fn a_packet_has_the_plan_of_its_epoch(
        first in prop_oneof![0..100u64, (1u64 << 20) - 4..(1 << 20) + 4],
        changes in prop::collection::vec(prop::option::of(0..QUERIES.len()), 1..12),
        identities in prop::collection::vec(any::<u32>(), 3),
    ) {
        let family = HashFamily::reproducible(FAMILY);
        let (mut switch, schedule) = switch("a", 0);
        let mut plan_of = std::collections::BTreeMap::from([(first, 0)]);
        switch.enter(first, true);
        for (epoch, change) in (first..).zip(changes) {
            if let Some(plan) = change {
                schedule.update(epoch + 1, parameters(plan)).unwrap();
            }
            plan_of.insert(epoch + 1, change.unwrap_or(plan_of[&epoch]));
            switch.prepare(epoch + 1);
            let mut written = |of: u64, identity: u32| {
                let Some(plan) = plan_of.get(&of) else { return Ok(()) };
                let mut phvs = [Phv { disposition: Disposition::ToHost, ..packet(of, identity, 1) }];
                switch.egress(&mut phvs, BatchOrder::PacketMajor);
                let scheme = config(*plan).scheme(&family);
                let measured = Measured { hop: 1, identity, latency_ns: 1 << 20, ..Measured::default() };
                let expected = scheme.encode(&scheme.switch(switch_id("a")), measured, 0);
                prop_assert_eq!(phvs[0].digest, expected, "epoch {} in {}", of, epoch);
                Ok(())
            };
            if epoch > first {
                written(epoch - 1, identities[0])?;
            }
            written(epoch, identities[1])?;
            written(epoch + 1, identities[2])?;
            let mut bank = switch.spare();
            switch.exchange(bank.as_mut());
            switch.enter(epoch + 1, true);
            let record = record(switch.as_mut());
            let id = |epoch: u64| parameters(plan_of[&epoch]).id();
            prop_assert_eq!(record.plans().epoch, PlanUse::All(id(epoch)));
            prop_assert_eq!(record.plans().next, PlanUse::All(id(epoch + 1)));
            let mut plans: Vec<_> = (epoch.saturating_sub(1).max(first)..=epoch + 1).map(id).collect();
            plans.sort_unstable();
            plans.dedup();
            let found: Vec<_> = record.streams().keys().map(|stream| stream.plan).collect();
            prop_assert_eq!(found, plans);
        }
        // Long after the last change, and when the clock has been set back.
        let last = *plan_of.keys().last().unwrap();
        for epoch in [last + 20, last + (1 << 19), last + (3 << 18), last + 30, first] {
            switch.prepare(epoch);
            let mut bank = switch.spare();
            switch.exchange(bank.as_mut());
            switch.enter(epoch, true);
            let mut phvs = [Phv { disposition: Disposition::ToHost, ..packet(epoch, identities[0], 1) }];
            switch.egress(&mut phvs, BatchOrder::PacketMajor);
            let parameters = schedule.at(epoch);
            let scheme = parameters.scheme(&family);
            let measured = Measured { hop: 1, identity: identities[0], latency_ns: 1 << 20, ..Measured::default() };
            let expected = scheme.encode(&scheme.switch(switch_id("a")), measured, 0);
            prop_assert_eq!(phvs[0].digest, expected, "epoch {}", epoch);
            let streams = record(switch.as_mut()).streams().keys().map(|stream| stream.plan).collect::<Vec<_>>();
            prop_assert_eq!(streams, [parameters.id()]);
        }
    }

    /// A chain of switches that learn of plans at different times, or start again with another one:
    /// no wrong path is sure, and each latency has the hop that it was injected at. What is not
    /// decoded is counted.
    #[test]
    fn a_late_switch_makes_no_wrong_answer(
        lags in prop::collection::vec(0..3u64, 4),
        plans in prop::collection::vec(0..QUERIES.len(), 3),
        restarts in prop::option::of((0..4usize, 1..12u64)),
        silent in prop::option::of((0..4usize, 1..12u64)),
    ) {
        const PACKETS: u32 = 40;
        let names: [Arc<str>; 4] = ["a", "b", "c", "d"].map(Into::into);
        let mut switches: Vec<_> = names.iter().map(|name| switch(name, plans[0])).collect();
        switches.iter_mut().for_each(|(switch, _)| switch.enter(0, true));
        // The controller's plan by epoch: it changes in epochs 4 and 8.
        let plan_at = |epoch: u64| plans[(epoch / 4).min(2) as usize];
        let mut analysis = Pint::analysis(&config(plans[0]), 0);
        let mut sent = 0;
        for epoch in 0..14u64 {
            if let Some((place, _)) = restarts.filter(|(_, at)| *at == epoch) {
                // It asks nothing until its controller has told it what.
                let schedule = Schedule::<Pint>::new(config(plans[0]), Pint::waiting(&config(plans[0])));
                let hashes = HashFamily::reproducible(FAMILY);
                let mut started = Pint::dataplane(&config(plans[0]), &names[place], &hashes, &schedule).unwrap();
                started.allocate();
                started.enter(epoch, true);
                switches[place] = (started, schedule);
            }
            // Packets of this epoch, and some of the next one by switches whose clocks are ahead.
            for (of, packets) in [(epoch, PACKETS), (epoch + 1, PACKETS / 8)] {
                if of > epoch {
                    for ((switch, schedule), lag) in switches.iter_mut().zip(&lags) {
                        schedule.update(of, parameters(plan_at(of.saturating_sub(*lag)))).unwrap();
                        switch.prepare(of);
                        let mut bank = switch.spare();
                        switch.exchange(bank.as_mut());
                        switch.enter(of, true);
                    }
                }
                for identity in sent..sent + packets {
                    let (mut digest, mut hops) = (0, 0);
                    for (hop, (switch, _)) in (1..).zip(&mut switches) {
                        hops = weir::wire::shim::MAX_HOP.min(hops + 1);
                        let disposition = if hop == 4 { Disposition::ToHost } else { Disposition::ToFabric };
                        let latency_ns = if hop == 2 { 1 << 24 } else { 1 << 12 };
                        let mut phvs = [Phv { digest, disposition, latency_ns, ..packet(of, identity * 77, hops) }];
                        switch.egress(&mut phvs, BatchOrder::PacketMajor);
                        (digest, hops) = (phvs[0].digest, phvs[0].shim.hop());
                    }
                }
                sent += packets;
            }
            let records: Vec<_> = switches.iter_mut().map(|(switch, _)| record(switch.as_mut())).collect();
            let in_records: u64 = records.iter().flat_map(|r| r.streams().values()).map(|packets| packets.seen().len() as u64).sum();
            let differs = records.iter().any(|record| record.plans().epoch != PlanUse::All(parameters(plan_at(epoch)).id()));
            let is = |what: Option<(usize, u64)>, place: usize| what == Some((place, epoch));
            let differs = differs && restarts.is_none_or(|(_, at)| at != epoch) && silent.is_none_or(|(_, at)| at != epoch);
            let reported = names.iter().zip(records).enumerate();
            let reported = reported.map(|(place, (name, record))| Reported {
                switch: name.clone(),
                record: match (is(restarts, place), is(silent, place)) {
                    (true, _) => Err(Gap::Started),
                    (_, true) => Err(Gap::Missing),
                    _ => Ok(Box::new(record)),
                },
                before: Before::Nothing,
            });
            let network = analysis.epoch(epoch, &parameters(plan_at(epoch)), reported.collect());
            let unread = |gap: &SwitchGap| match gap.gap {
                Gap::Unread { reports } => reports,
                _ => 0,
            };
            let unread: u64 = network.gaps.iter().map(unread).sum();
            if differs {
                prop_assert!(network.gaps.iter().any(|gap| gap.gap == Gap::Parameters));
                prop_assert!(unread >= in_records, "{} of {}", unread, in_records);
            }
            let history = history();
            history.push(Entry::new(epoch, analysis.keep(network)));
            for path in &asked::<Paths>(&history).paths {
                let found: Vec<_> = path.switches.iter().map(Option::as_deref).collect();
                let right = found.iter().zip(&names).all(|(found, name)| found.is_none_or(|found| found == &**name));
                prop_assert!(path.certainty != Certainty::Sure || right, "{:?}", found);
            }
            for latency in asked::<Latency>(&history).latencies.iter().flat_map(|flow| &flow.hops) {
                let expected = f64::from(if latency.hop == 2 { 1u32 << 24 } else { 1 << 12 });
                for time in [latency.p50_ns, latency.p99_ns].into_iter().flatten() {
                    let off = time as f64 / expected;
                    prop_assert!((0.8..1.25).contains(&off), "{:?}", latency);
                }
            }
        }
    }
}

type Kept = History<<<Pint as Program>::Analysis as Analysis>::Kept>;

fn history() -> Kept {
    History::new(Room { epochs: 9, bytes: usize::MAX })
}

/// The answer about all epochs.
fn asked<A: Document>(history: &Kept) -> Claimed<A> {
    history.ask(&Query::new(A::TASK, Window::All).limited(10, 0)).unwrap().into_document().unwrap()
}

/// Packets of an epoch wait for the next one's records where a switch is silent. What their epoch
/// lacked is lacked by the answer that has them, and by later ones about the same samples.
#[test]
fn what_waits_lacks_what_its_epoch_did() {
    let (config, family) = (config(1), HashFamily::reproducible(FAMILY));
    let (parameters, all) = (config.parameters(), PlanUse::All(config.parameters().id()));
    // Of one flow, and of this number of packets one that finds room.
    let record = |epoch: u32, packets: u32| {
        let mut buffer = ReportBuffer::with_capacity(1);
        for identity in epoch..epoch + packets {
            let (flow, plan) = (FiveTuple([4 << 40, 0, 1, 0, 2]), parameters.id());
            buffer.push(Arrival { time_ns: identity.into(), plan, flow, hops: 1, identity, digest: 0 });
        }
        let digests = Digests::of(&family, record::Room::of(&config), &buffer.read(), 0);
        Box::new(digests.planned(PlanUses { epoch: all, next: all }))
    };
    let mut analysis = Pint::analysis(&config, 0);
    let mut epoch = |epoch: u32, packets: u32, is_silent: bool| {
        let of_b = if is_silent { Err(Gap::Missing) } else { Ok(record(epoch, 0)) };
        let reported = [("a", Ok(record(epoch, packets))), ("b", of_b)];
        let reported = reported.map(|(name, record)| {
            let (switch, before) = (name.into(), Before::Nothing);
            Reported { switch, record, before }
        });
        let network = analysis.epoch(epoch.into(), &parameters, reported.into());
        let history = history();
        history.push(Entry::new(epoch.into(), analysis.keep(network)));
        let latency = asked::<Latency>(&history);
        let samples: u64 = latency.latencies.iter().flat_map(|flow| &flow.hops).map(|hop| hop.samples).sum();
        (samples, latency.claim.incomplete.contains(Reason::Overflow))
    };
    assert_eq!((epoch(1, 0, false), epoch(2, 2, true)), ((0, false), (0, true)));
    assert_eq!((epoch(3, 0, false), epoch(4, 1, false)), ((1, true), (2, true)));
}

const WAITING: u16 = 41;
const TOOK_NS: u32 = 1 << 16;

/// The answers of one switch's epochs, each with other queries and with 64 packets of one flow, which
/// all waited and took as long.
fn epochs(queries: &[String]) -> Kept {
    let config = |queries: &String| Config { queries: queries.parse().unwrap(), ..Config::default() };
    let plans: Vec<_> = queries.iter().map(config).collect();
    let schedule = Schedule::<Pint>::new(plans[0].clone(), plans[0].parameters());
    let mut switch = Pint::dataplane(&plans[0], "a", &HashFamily::reproducible(FAMILY), &schedule).unwrap();
    switch.allocate();
    switch.enter(0, true);
    let mut analysis = Pint::analysis(&plans[0], 0);
    let epochs = history();
    for (epoch, plan) in (0..).zip(&plans) {
        let mut phvs: Vec<_> = (0..64)
            .map(|identity| {
                let packet = packet(epoch, identity * 77, 1);
                let headers = Headers { src_ip: epoch as u128, ..packet.headers };
                Phv { headers, disposition: Disposition::ToHost, queue_depth: WAITING, latency_ns: TOOK_NS, ..packet }
            })
            .collect();
        switch.egress(&mut phvs, BatchOrder::PacketMajor);
        let next = plans.get(epoch as usize + 1).unwrap_or(plan);
        schedule.update(epoch + 1, next.parameters()).unwrap();
        switch.prepare(epoch + 1);
        let mut bank = switch.spare();
        switch.exchange(bank.as_mut());
        switch.enter(epoch + 1, true);
        let record = Ok(Box::new(record(switch.as_mut())));
        let reported = vec![Reported { switch: "a".into(), record, before: Before::Nothing }];
        let network = analysis.epoch(epoch, &plan.parameters(), reported);
        epochs.push(Entry::new(epoch, analysis.keep(network)));
    }
    epochs
}

/// Two queries that differ in bits alone change places, and one goes away: each table has the answers
/// of one of them.
#[test]
fn answers_stay_with_their_query() {
    let (exact, rough) = ("queue:bits=8:to=60", "queue:bits=4:to=60");
    let epochs = epochs(&[format!("{exact}+{rough}"), format!("{rough}+{exact}"), rough.to_owned()]);
    let values = asked::<Values>(&epochs).values.clone();
    let tables: Vec<_> = values
        .iter()
        .map(|of| {
            let numbers = of.told.iter().map(|flow| flow.told[0].p50 == Some(WAITING.into()));
            numbers.collect::<Vec<_>>()
        })
        .collect();
    // Eight bits tell the number exactly, and four do not have it.
    assert_eq!(tables, [vec![false; 3], vec![true; 2]]);
}

/// The same of two queries for latencies: the table of the task is that of the newest epoch's first
/// one, in all epochs, and says so; the other query's is among the values.
#[test]
fn latencies_stay_with_their_query() {
    let (exact, rough) = ("latency:bits=8", "latency:bits=3");
    let [first, second] = [format!("{exact}+{rough}"), format!("{rough}+{exact}")];
    for (newest, other, queries) in [(rough, exact, [&first, &second]), (exact, rough, [&second, &first])] {
        let epochs = epochs(&queries.map(String::clone));
        let (latency, values) = (asked::<Latency>(&epochs), asked::<Values>(&epochs).values.clone());
        assert_eq!(latency.query.as_deref(), Some(newest));
        let [value] = &values[..] else { panic!("{values:?}") };
        assert_eq!(value.query, other);
        let is_exact = |ns: f64| (0.9..1.1).contains(&(ns / f64::from(TOOK_NS)));
        let latencies = latency.latencies.iter().map(|flow| is_exact(flow.hops[0].p50_ns.unwrap() as f64));
        let values = value.told.iter().map(|flow| is_exact(flow.told[0].p50.unwrap()));
        assert_eq!(latencies.collect::<Vec<_>>(), [newest == exact; 2]);
        assert_eq!(values.collect::<Vec<_>>(), [other == exact; 2]);
    }
}

/// Parameters have one byte form, and wrong bytes are refused.
#[test]
fn parameters_have_one_byte_form() {
    for plan in 0..QUERIES.len() {
        let bytes = parameters(plan).encode();
        assert_eq!(PlanParameters::decode(&bytes), Ok(parameters(plan)));
        assert!((0..bytes.len()).all(|end| PlanParameters::decode(&bytes[..end]).is_err()));
        assert!(PlanParameters::decode(&[&bytes[..], b" "].concat()).is_err());
    }
    let golden: String = parameters(1).encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(golden, format!("0510051a{}", hex("path:bits=8+latency:bits=8")));
    let golden: String = parameters(4).encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(golden, format!("05100524{}", hex("path:bits=8:instances=2:acts=vectors")));
    let text = "latency:bits=4:instances=2:to=10ms:compression=additive";
    let of_text = PlanParameters { queries: text.parse().unwrap(), ..parameters(0) };
    let golden: String = of_text.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(golden, format!("05100537{}", hex(text)));
    // What weir would not write so is refused: defaults, keys in another order, keys that make no sense.
    for text in [
        "latency:bits=4:instances=1",
        "latency:bits=4:instances=02",
        "latency:bits=4:instances=5",
        "latency:bits=4:compression=multiplicative",
        "latency:bits=4:compression=additive:to=10ms",
        "congestion:bits=4:compression=additive",
        "congestion:bits=2:compression=multiplicative",
        "utilisation:bits=4:instances=2",
        "loops:bits=4:instances=2",
    ] {
        let bytes = [&[5, 16, 5, text.len() as u8][..], text.as_bytes()].concat();
        assert!(PlanParameters::decode(&bytes).is_err(), "{text}");
    }
    // As long as eight queries can be.
    let longest = |number: u64| {
        format!(
            "queue:bits=12:aggregation=frequent:frequency=65535/65536:flow=pair:from=524287:to=1048575\
             :compression=additive:space=65536:window=86399999999{number}ns"
        )
    };
    let queries = (101..109).map(longest).collect::<Vec<_>>().join("+").parse().unwrap();
    let longest = PlanParameters { queries, ..parameters(0) };
    assert_eq!(PlanParameters::decode(&longest.encode()), Ok(longest));
    assert_ne!(parameters(4).id(), parameters(0).id());
    // Queries that no plan meets are refused where they come in.
    let wrong = PlanParameters { budget: 4, ..parameters(1) };
    assert!(Schedule::<Pint>::new(config(0), parameters(0)).update(3, wrong).is_err());
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
