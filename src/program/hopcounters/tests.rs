//! Rows against exact counts, and their byte form.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::record::drop_index;
use super::*;
use crate::pisa::{BatchOrder, Disposition, DropAt, DropReason, Phv};
use crate::program::{AnyRecord, Memory, Record};
use crate::wire::{Flow, Fragment, Headers, Net, Shim, shim};

const PORTS: u16 = 3;

fn config(groups: u64) -> Config {
    let port = |name: &str| CountedPort { name: name.into(), fabric: true };
    Config { memory: Memory(4 * 4 * u64::from(PORTS) * groups), ports: ["a", "b", "c"].map(port).into() }
}

fn replica(config: &Config, family: &HashFamily) -> Box<dyn Dataplane> {
    let mut replica = HopCounters::dataplane(config, "s", family, &Schedule::new(config.clone(), ())).unwrap();
    replica.allocate();
    replica
}

/// A packet: flow, epoch, ports, and what becomes of it.
#[derive(Clone, Copy, Debug)]
struct Step {
    sport: u16,
    epoch: u64,
    ingress: u16,
    egress: u16,
    disposition: Disposition,
    made: bool,
    kind: u8,
}

fn phv(step: &Step) -> Phv {
    let mut headers = Headers::of_flow(&Flow::from_port(step.sport)).unwrap();
    match step.kind {
        0 => headers.fragment = Fragment::First,
        1 => headers.net = Net::Other,
        2 => headers.net = Net::Ipv6,
        _ => {}
    }
    headers.made = step.made;
    Phv {
        headers,
        ingress: step.ingress,
        egress: step.egress,
        disposition: step.disposition,
        shim: Shim::new(1, 0, shim::epoch_of(step.epoch), shim::NO_CLASS),
        ..Phv::default()
    }
}

fn step(epochs: std::ops::Range<u64>) -> impl Strategy<Value = Step> {
    let disposition = prop_oneof![
        4 => Just(Disposition::ToFabric),
        2 => Just(Disposition::ToHost),
        1 => Just(Disposition::Unmarked),
        1 => Just(Disposition::Ended),
        1 => Just(Disposition::Untracked),
    ];
    (1..40u16, epochs, 0..PORTS, 0..PORTS, disposition, prop::bool::weighted(0.2), 0..12u8).prop_map(
        |(sport, epoch, ingress, egress, disposition, made, kind)| Step {
            sport,
            epoch,
            ingress,
            egress,
            disposition,
            made,
            kind,
        },
    )
}

/// How packets pass the stages.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// All are of one kind, epoch and way.
    are_alike: bool,
    as_entered: bool,
    /// The first of them are seen to leave before, as packets are that the switch makes.
    between: usize,
}

fn way() -> impl Strategy<Value = Way> {
    let between = prop_oneof![2 => Just(0), 1 => 1..5usize];
    (any::<bool>(), any::<bool>(), between).prop_map(|(are_alike, as_entered, between)| Way {
        are_alike,
        as_entered,
        between,
    })
}

/// Packets of these flows that all are as the first one.
fn alike(steps: &[Step]) -> Vec<Step> {
    let first = steps.first().copied();
    steps.iter().filter_map(|step| Some(Step { sport: step.sport, ..first? })).collect()
}

/// Exact counts by epoch.
#[derive(Default)]
struct Truth {
    /// By epoch, whether they left, port and group.
    rows: BTreeMap<(u64, bool, u16, u32), u64>,
    balance: BTreeMap<(u64, u32), i64>,
    late: BTreeMap<(u64, bool, u16), u64>,
}

impl Truth {
    fn add(&mut self, step: &Step, group: u32, leaves: bool, open: &[u64]) {
        if step.kind < 2 {
            return;
        }
        let sent = matches!(step.disposition, Disposition::ToHost | Disposition::ToFabric);
        let mut count = |leaves: bool, port: u16| match open.contains(&step.epoch) {
            true => *self.rows.entry((step.epoch, leaves, port, group)).or_default() += 1,
            false => *self.late.entry((step.epoch, leaves, port)).or_default() += 1,
        };
        if !leaves {
            return count(false, step.ingress);
        }
        if sent {
            count(true, step.egress);
        }
        if step.made != sent {
            return;
        }
        match open.contains(&step.epoch) {
            true => *self.balance.entry((step.epoch, group)).or_default() += if step.made { -1 } else { 1 },
            false => *self.late.entry((step.epoch, !step.made, PORTS)).or_default() += 1,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each packet is counted once where it comes in and once where it leaves, in its own epoch's rows, or
    /// among the late ones of that epoch: through the rotation, in both orders, and traced.
    #[test]
    fn rows_are_exact(
        seed: u64,
        bits in 0..6u32,
        first in prop::collection::vec(step(8..11), 0..80),
        second in prop::collection::vec(step(8..12), 0..80),
        third in prop::collection::vec(step(8..12), 0..80),
        order in prop_oneof![Just(BatchOrder::PacketMajor), Just(BatchOrder::Fastest)],
        ways in [way(), way(), way()],
    ) {
        let (config, family) = (config(1 << bits), HashFamily::reproducible(seed));
        prop_assert_eq!(config.groups(), 1 << bits);
        let hashes = Hashes::new(&family);
        let mut replica = replica(&config, &family);
        let mut truth = Truth::default();
        let mut run = |replica: &mut dyn Dataplane, steps: &[Step], way: Way, open: &[u64]| {
            let steps = if way.are_alike { alike(steps) } else { steps.to_vec() };
            let mut phvs: Vec<Phv> = steps.iter().map(phv).collect();
            replica.ingress(&mut phvs, order);
            let between = &mut phvs[..way.between.min(steps.len())];
            replica.egress(between, order);
            let leaving = [&steps[..between.len()], &steps].concat();
            match way.as_entered {
                true => replica.egress_as_entered(&mut phvs, order),
                false => replica.egress(&mut phvs, order),
            }
            let group = |step: &Step| (u64::from(hashes.of_headers(&phv(step).headers)) >> (32 - bits)) as u32;
            steps.iter().for_each(|step| truth.add(step, group(step), false, open));
            leaving.iter().for_each(|step| truth.add(step, group(step), true, open));
        };
        // Epoch 10 runs, 11 is prepared and begins, and a transit time later 10 is sent off.
        replica.enter(10, true);
        run(replica.as_mut(), &first, ways[0], &[10]);
        replica.prepare(11);
        let mut bank = replica.spare();
        replica.exchange(bank.as_mut());
        replica.enter(11, true);
        run(replica.as_mut(), &second, ways[1], &[10, 11]);
        replica.exchange_egress(bank.as_mut());
        run(replica.as_mut(), &third, ways[2], &[11]);
        let mut last = replica.spare();
        replica.exchange(last.as_mut());
        replica.exchange_egress(last.as_mut());

        let typed = |record: AnyRecord| *record.into::<HopRecord>().unwrap();
        let (mut tenth, mut eleventh) = (typed(bank.record()), typed(last.record()));
        let shape = HopCounters::shape(&config, &family);
        for record in [&tenth, &eleventh] {
            prop_assert_eq!(&HopRecord::decode(&shape, &record.encode()).unwrap(), record);
            prop_assert!(record.encode().len() <= HopCounters::longest(&config));
        }
        let early = tenth.split_next().unwrap();
        eleventh.counted.add(&early.counted);
        for (epoch, counted) in [(10, &tenth.counted), (11, &eleventh.counted)] {
            for (leaves, rows) in [(false, &counted.received), (true, &counted.sent)] {
                for (place, count) in rows.iter().enumerate() {
                    let (port, group) = ((place >> bits) as u16, place as u32 & ((1 << bits) - 1));
                    let right = truth.rows.get(&(epoch, leaves, port, group)).copied().unwrap_or_default();
                    prop_assert_eq!(u64::from(*count), right, "{} {} {} {}", epoch, leaves, port, group);
                }
            }
            for (group, balance) in counted.balance.iter().enumerate() {
                let right = truth.balance.get(&(epoch, group as u32)).copied().unwrap_or_default();
                prop_assert_eq!(i64::from(*balance), right);
            }
            // Folded rows have the sums.
            let folded = counted.folded(4);
            prop_assert_eq!(folded.groups, 4.min(1 << bits));
            prop_assert_eq!(folded.sent.iter().sum::<u32>(), counted.sent.iter().sum::<u32>());
            prop_assert_eq!(folded.balance.iter().sum::<i32>(), counted.balance.iter().sum::<i32>());
        }
        let mut late = BTreeMap::new();
        for record in [&tenth, &eleventh] {
            for ((epoch, leaves, port), packets) in &record.late {
                *late.entry((u64::from(*epoch), *leaves, *port)).or_insert(0) += packets;
            }
        }
        prop_assert_eq!(late, truth.late);
        prop_assert!(tenth.strays.is_empty() && eleventh.strays.is_empty());
    }

    /// Bytes that are no record are refused.
    #[test]
    fn bytes_of_no_record_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..60usize) {
        let (config, family) = (config(4), HashFamily::reproducible(1));
        let shape = HopCounters::shape(&config, &family);
        if let Ok(record) = HopRecord::decode(&shape, &bytes) {
            prop_assert_eq!(record.encode(), bytes);
        }
        let zeroed = HopRecord::zeroed(&shape).encode();
        if cut < zeroed.len() {
            prop_assert!(HopRecord::decode(&shape, &zeroed[..cut]).is_err());
        }
    }
}

/// Drops are counted by place, port and reason; faults on purpose are not.
#[test]
fn drops_have_their_reasons() {
    let (config, family) = (config(4), HashFamily::reproducible(1));
    let mut replica = replica(&config, &family);
    replica.enter(10, true);
    let of = |epoch, kind| {
        phv(&Step { sport: 1, epoch, ingress: 2, egress: 1, disposition: Disposition::Lost, made: false, kind })
    };
    replica.dropped(&of(10, 9), DropReason::AclDeny, DropAt::Before);
    replica.dropped(&of(10, 9), DropReason::TtlExpired, DropAt::Inside);
    replica.dropped(&of(10, 9), DropReason::TxFull, DropAt::Behind);
    replica.dropped(&of(10, 9), DropReason::Fault, DropAt::Inside);
    replica.dropped(&of(10, 0), DropReason::TtlExpired, DropAt::Inside);
    replica.dropped(&of(9, 9), DropReason::TtlExpired, DropAt::Inside);
    let mut bank = replica.spare();
    replica.exchange(bank.as_mut());
    replica.exchange_egress(bank.as_mut());
    let record = *bank.record().into::<HopRecord>().unwrap();
    let right = [
        ((DropAt::Before, 2, drop_index(DropReason::AclDeny)), 1),
        ((DropAt::Inside, 2, drop_index(DropReason::TtlExpired)), 1),
        ((DropAt::Behind, 1, drop_index(DropReason::TxFull)), 1),
    ];
    assert_eq!(record.counted.drops, right.into());
    let shape = HopCounters::shape(&config, &family);
    assert_eq!(HopRecord::decode(&shape, &record.encode()), Ok(record));
}

/// Replicas' records add up.
#[test]
fn records_merge() {
    let (config, family) = (config(4), HashFamily::reproducible(1));
    let shape = HopCounters::shape(&config, &family);
    let mut one = HopRecord::zeroed(&shape);
    one.counted.received[3] = u32::MAX - 1;
    one.counted.balance[1] = -4;
    one.late.insert((7, true, 1), 5);
    let mut both = one.clone();
    both.merge(&one).unwrap();
    assert_eq!((both.counted.received[3], both.counted.balance[1], both.late[&(7, true, 1)]), (u32::MAX, -8, 10));
    assert!(both.counted.is_full() && !one.counted.is_full());
    let other = HopRecord::zeroed(&HopCounters::shape(&super::Config::default(), &family));
    assert!(both.merge(&other).is_err());
}
