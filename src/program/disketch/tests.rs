//! The program against a naive oracle, and its records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::composite;
use super::hashes::KeyCrcs;
use super::path::PathPlace;
use super::record::{Fragment, Part, Shape};
use super::*;
use crate::pisa::{BatchOrder, Disposition, Phv};
use crate::program::{Coverage, Record, SubEpoch};
use crate::wire::shim::Shim;
use crate::wire::{FlowKey, Headers, Net, Tuple4, Tuple6};

const EPOCH: u64 = 4711;

fn family() -> HashFamily {
    HashFamily::reproducible(3)
}

fn config(counters: u64) -> Config {
    Config { memory: Memory(4 * counters), ..Config::default() }
}

/// A packet: its headers' address family, flow and length, whether it enters and leaves here, and the
/// sub-epoch in 64 of its epoch in which it comes.
#[derive(Clone, Copy, Debug)]
struct Packet {
    is_ipv6: bool,
    flow: u8,
    bytes: u32,
    is_single_hop: bool,
    time: u32,
    /// Place of the switch on the packet's path.
    hop: u8,
}

fn packets(number: usize) -> impl Strategy<Value = Vec<Packet>> {
    let packet = (any::<bool>(), any::<u8>(), 60..1500u32, any::<bool>(), 0..64u32, 1..10u8).prop_map(
        |(is_ipv6, flow, bytes, is_single_hop, time, hop)| Packet { is_ipv6, flow, bytes, is_single_hop, time, hop },
    );
    prop::collection::vec(packet, 0..number)
}

impl Packet {
    fn headers(&self) -> Headers {
        let net = if self.is_ipv6 { Net::Ipv6 } else { Net::Ipv4 };
        let src_ip = u128::from(self.flow) << if self.is_ipv6 { 64 } else { 0 };
        Headers { net, src_ip, dst_ip: 9, proto: 17, sport: self.flow.into(), dport: 53, ..Headers::default() }
    }

    fn phv(&self) -> Phv {
        let disposition = if self.is_single_hop { Disposition::ToHost } else { Disposition::ToFabric };
        let shim = Shim::new(self.hop, 0, 0, 0);
        Phv { headers: self.headers(), wire_bytes: self.bytes, enters: true, disposition, shim, ..Phv::default() }
    }

    /// As a query hashes the flow.
    fn crcs(&self) -> KeyCrcs {
        let headers = Headers::of_flow(&self.headers().flow().unwrap()).unwrap();
        Hashes::new(&Config::default(), "", &family()).of_headers(&headers).unwrap()
    }
}

/// What the switch reports of an epoch that is cut like this.
fn measured(config: &Config, packets: &[Packet], cuts: u32, order: BatchOrder) -> Fragment {
    let schedule = Schedule::<DiSketch>::new(config.clone(), DiSketch::start(config));
    // An epoch with large errors makes the switch cut a later one once more.
    if let Some(before) = cuts.checked_sub(1) {
        let shape = DiSketch::shape(config, "s1", &family());
        let counters = vec![9999; config.width().get() as usize];
        schedule.settle(EPOCH - 2, &fragment(&shape, &[(1 << before, 0, &counters)]));
    }
    let mut replica = DiSketch::dataplane(config, "s1", &family(), &schedule).unwrap();
    replica.allocate();
    replica.enter(EPOCH, true);
    let of = replica.sub_epochs();
    assert_eq!(of, 1 << cuts);
    let mut sum: Option<Fragment> = None;
    for index in 0..of {
        replica.enter_sub_epoch(SubEpoch { index, of }, true);
        let now = packets.iter().filter(|packet| packet.time >> (6 - cuts) == index);
        let mut phvs: Vec<_> = now.map(Packet::phv).collect();
        replica.ingress(&mut phvs, order);
        replica.egress(&mut phvs, order);
        let mut bank = replica.spare();
        replica.exchange(bank.as_mut());
        replica.exchange_egress(bank.as_mut());
        let record = *bank.record().into::<Fragment>().unwrap();
        match &mut sum {
            Some(sum) => Record::append(sum, &record).unwrap(),
            None => sum = Some(record),
        }
    }
    sum.unwrap()
}

/// The counters of the sub-epochs, from the definitions alone.
fn oracle(config: &Config, packets: &[Packet], cuts: u32) -> BTreeMap<(u32, u32), i64> {
    let hashes = Hashes::new(config, "s1", &family());
    let (mut counters, constants) = (BTreeMap::new(), hashes.constants(EPOCH));
    for packet in packets {
        let naming = config.naming();
        let headers = naming.headers(&naming.narrow(&packet.headers().flow().unwrap())).unwrap();
        let crcs = match headers.net {
            Net::Ipv4 => hashes.key_crcs(Tuple4::of(&headers)),
            _ => hashes.key_crcs(Tuple6::of(&headers)),
        };
        let place = hashes.join(crcs, constants);
        let place = if config.cover { place.moved(packet.hop) } else { place };
        let now = packet.time >> (6 - cuts);
        let own = place.sub_epoch(cuts);
        let half = 1 << cuts >> 1;
        let twice = config.single_hop && packet.is_single_hop && cuts > 0 && (own + half) % (1 << cuts) == now;
        if own != now && !twice {
            continue;
        }
        let weight = if config.count == Unit::Packets { 1 } else { i64::from(packet.bytes) };
        let deepest = if config.sketch == SketchKind::UnivMon { crcs.depth() } else { 0 };
        for level in 0..=deepest {
            let place = hashes.place_in(level as usize, crcs, constants);
            let is_negative = config.sketch != SketchKind::CountMin && place.is_negative;
            let slot = level * config.width().get() + place.slot;
            *counters.entry((now, slot)).or_default() += if is_negative { -weight } else { weight };
        }
    }
    counters.retain(|_, count| *count != 0);
    counters
}

fn counters(fragment: &Fragment) -> BTreeMap<(u32, u32), i64> {
    let part = |part: &Part| {
        let index = part.coverage.sub_epochs.trailing_zeros();
        let cells = part.counters.to_vec();
        (0..).zip(cells).map(move |(slot, count)| ((index, slot), i64::from(count)))
    };
    fragment.parts.iter().flat_map(part).filter(|(_, count)| *count != 0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fragments_are_the_oracles(
        packets in packets(300), counters_of in 1..200u64, cuts in 0..=6u32,
        sketch in prop::sample::select(&[SketchKind::Count, SketchKind::CountMin, SketchKind::UnivMon][..]),
        key in prop::sample::select(&[Key::Tuple, Key::Pair, Key::Source, Key::Destination][..]),
        in_bytes: bool, single_hop: bool, cover: bool,
    ) {
        let count = if in_bytes { Unit::Bytes } else { Unit::Packets };
        let (prefix, prefix6) = if key == Key::Tuple { (32, 128) } else { (30, 64) };
        let naming = Config { key, prefix, prefix6, ..Config::default() };
        let Config { memory, .. } = config(counters_of * u64::from(sketch.levels()));
        let config = Config { memory, sketch, count, single_hop, cover, ..naming };
        let fragment = measured(&config, &packets, cuts, BatchOrder::Fastest);
        prop_assert_eq!(counters(&fragment), oracle(&config, &packets, cuts));
        prop_assert_eq!(&measured(&config, &packets, cuts, BatchOrder::PacketMajor), &fragment);
        prop_assert_eq!((fragment.cuts(), fragment.parts.len()), (Some(cuts), 1 << cuts));
        // What is written is read.
        let read = Fragment::decode(&fragment.shape, &fragment.encode());
        prop_assert_eq!(read.as_ref(), Ok(&fragment));
        prop_assert!(fragment.encode().len() <= DiSketch::longest(&config));
    }

    /// Each flow is counted in one sub-epoch, with all of its packets there, and in no other.
    #[test]
    fn sub_epochs_partition_the_flows(packets in packets(200), cuts in 0..=6u32) {
        let config = Config { sketch: SketchKind::CountMin, ..config(100) };
        let everywhere: Vec<_> = (0..64).flat_map(|time| packets.iter().map(move |packet| Packet { time, ..*packet })).collect();
        let fragment = measured(&config, &everywhere, cuts, BatchOrder::Fastest);
        let total: i64 = counters(&fragment).values().sum();
        prop_assert_eq!(total, ((packets.len() * 64) >> cuts) as i64);
    }

    /// A query of merged records is the query of a record of all packets.
    #[test]
    fn merged_records_are_records_of_all(
        packets in packets(200), split in 0..200usize, cuts in 0..=6u32, flow: u8, is_ipv6: bool,
    ) {
        let (config, at) = (config(50), split.min(packets.len()));
        let whole = measured(&config, &packets, cuts, BatchOrder::Fastest);
        let [mut one, other] = [&packets[..at], &packets[at..]].map(|part| measured(&config, part, cuts, BatchOrder::Fastest));
        Record::merge(&mut one, &other).unwrap();
        prop_assert_eq!(&one, &whole);
        let key = Packet { is_ipv6, flow, bytes: 60, is_single_hop: false, time: 0, hop: 1 }.crcs();
        let estimate = |fragment: &Fragment| {
            let mut samples = Vec::new();
            fragment.samples(key, EPOCH, PathPlace::ALONE, &mut samples);
            composite::epoch(SketchKind::Count, &samples)
        };
        prop_assert_eq!(estimate(&one), estimate(&whole));
    }

    /// Any bytes are a fragment or an error, and a fragment has one encoding.
    #[test]
    fn other_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..60), cut in 0..1000usize, at in 0..1000usize, byte: u8) {
        let shape = DiSketch::shape(&config(3), "s1", &family());
        let mut bytes = [vec![1, 1], bytes].concat();
        if let Ok(fragment) = Fragment::decode(&shape, &bytes) {
            prop_assert_eq!(fragment.encode(), bytes.clone());
        }
        let packet = Packet { is_ipv6: false, flow: 1, bytes: 60, is_single_hop: false, time: 5, hop: 1 };
        let good = measured(&config(3), &[packet], 3, BatchOrder::Fastest).encode();
        prop_assert!(Fragment::decode(&shape, &good[..cut % good.len()]).is_err());
        bytes = good;
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(fragment) = Fragment::decode(&shape, &bytes) {
            prop_assert_eq!(fragment.encode(), bytes);
        }
    }
}

fn part(of: u32, index: u32, counters: &[i32]) -> Part {
    let mut coverage = Coverage::default();
    coverage.enter(SubEpoch { index, of }, true);
    Part::new(coverage, false, counters.into())
}

fn fragment(shape: &Arc<Shape>, parts: &[(u32, u32, &[i32])]) -> Fragment {
    let mut fragment = Fragment::new(shape.clone());
    for &(of, index, counters) in parts {
        let mut one = Fragment::new(shape.clone());
        one.parts.push(part(of, index, counters));
        Record::merge(&mut fragment, &one).unwrap();
    }
    fragment
}

#[test]
fn a_golden_vector() {
    let shape = DiSketch::shape(&config(3), "s1", &family());
    let record = fragment(&shape, &[(2, 1, &[-1, 0, 300]), (2, 0, &[1, -70_000, 0])]);
    let hex: String = record.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "01020201000002dfc508000002020000010000d804");
    let refused = |bytes: &[u8]| Fragment::decode(&shape, bytes).unwrap_err().to_string();
    assert_eq!(refused(&[2, 0]), "version 2, and 1 is understood");
    let right = "some sub-epochs of a power of two, each once, in ascending order";
    assert_eq!(refused(&[1, 1, 3, 1, 0, 0, 0, 0, 0]), format!("a part before byte 5: {right}"));
    assert_eq!(refused(&[1, 1, 2, 4, 0, 0, 0, 0, 0]), format!("a part before byte 5: {right}"));
    assert_eq!(refused(&[1, 1, 1, 1, 0, 2, 0, 0, 0]), "whether a counter was full before byte 6: 0 or 1");
    let right = "all in a row together, as many as the switch has counters";
    assert_eq!(refused(&[1, 1, 1, 1, 0, 0, 0, 3]), format!("zeros before byte 8: {right}"));
    assert_eq!(refused(&[1, 1, 1, 1, 0, 0, 0, 0, 0, 1]), format!("zeros before byte 10: {right}"));
    assert_eq!(refused(&[1, 1, 1, 1, 0, 0, 0, 0]), "it ends after 8 bytes, in a counter");
}

/// Records that come twice, in another order or not at all: sub-epochs add up whatever their order, and
/// one that is missing is known to be.
#[test]
fn parts_come_in_any_order() {
    let shape = DiSketch::shape(&config(1), "s1", &family());
    let whole = fragment(&shape, &[(2, 0, &[5]), (2, 1, &[-7])]);
    assert_eq!(whole, fragment(&shape, &[(2, 1, &[-7]), (2, 0, &[5])]));
    let lacking = fragment(&shape, &[(2, 1, &[-7])]);
    assert_eq!((lacking.cuts(), lacking.parts.len()), (Some(1), 1));
    let mut seen = BTreeSet::new();
    for flow in 0..=255 {
        let key = Packet { is_ipv6: false, flow, bytes: 60, is_single_hop: false, time: 0, hop: 1 }.crcs();
        let [all, some] = [&whole, &lacking].map(|fragment| {
            let mut samples = Vec::new();
            fragment.samples(key, EPOCH, PathPlace::ALONE, &mut samples);
            samples.iter().map(|sample| (sample.sub_epoch, sample.count.abs())).collect::<Vec<_>>()
        });
        let expected = if all == [(1, 7)] { vec![(1, 7)] } else { vec![] };
        assert!(all.len() == 1 && some == expected, "{all:?} {some:?}");
        seen.insert(all);
    }
    assert_eq!(seen.len(), 2);
    // Replicas that cut the epoch otherwise: nothing can be told from their sum.
    let mixed = fragment(&shape, &[(2, 0, &[5]), (4, 1, &[1])]);
    assert_eq!(mixed.cuts(), None);
    let mut full = fragment(&shape, &[(1, 0, &[i32::MAX - 1])]);
    Record::merge(&mut full, &fragment(&shape, &[(1, 0, &[2])])).unwrap();
    assert!(full.is_full() && full.parts[0].counters[0] == i32::MAX);
    let other = DiSketch::shape(&config(1), "s2", &family());
    assert!(Record::merge(&mut full, &fragment(&other, &[(1, 0, &[2])])).is_err());
}

/// Counters of 8 and 16 bits stay at their ends and say so; below they count as wide ones do.
#[test]
fn narrow_counters_say_when_they_are_full() {
    let packet = Packet { is_ipv6: false, flow: 1, bytes: 60, is_single_hop: false, time: 0, hop: 1 };
    for sketch in [SketchKind::Count, SketchKind::CountMin] {
        for (counter_bits, packets, is_full) in [(8, 126, false), (8, 300, true), (16, 300, false), (16, 70_000, true)]
        {
            let config = Config { counter_bits, sketch, memory: Memory(64), ..Config::default() };
            let fragment = measured(&config, &vec![packet; packets], 0, BatchOrder::Fastest);
            let counted: i64 = counters(&fragment).values().map(|count| count.abs()).sum();
            assert_eq!(
                (fragment.is_full(), counted == packets as i64),
                (is_full, !is_full),
                "{counter_bits} {packets}"
            );
            assert_eq!(fragment.parts[0].counters.len(), 64 * 8 / counter_bits as usize);
        }
    }
}

/// The switch decides from its own record: finer above twice the target, coarser below half of it, and no
/// change from what is not one epoch's.
#[test]
fn switches_settle_their_sub_epochs() {
    let config = Config { rho_target: Some(2.0), max_sub_epochs: 8, ..config(4) };
    let shape = DiSketch::shape(&config, "s1", &family());
    let target = DiSketch::start(&config);
    let settle = |parts: &[(u32, u32, &[i32])]| DiSketch::settle(&fragment(&shape, parts), &target).0;
    assert_eq!(settle(&[(1, 0, &[9, -9, 9, 9])]), 1);
    assert_eq!(settle(&[(2, 0, &[3, 3, 3, 3]), (2, 1, &[-3, 0, 3, 3])]), 1);
    assert_eq!(settle(&[(2, 0, &[0, 0, 0, 1]), (2, 1, &[0; 4])]), 0);
    assert_eq!(settle(&[(8, 0, &[9, -9, 9, 9])]), 3, "no more than configured");
    assert_eq!(settle(&[(2, 0, &[99; 4]), (4, 1, &[99; 4])]), 0, "parts that do not fit");
    assert_eq!(DiSketch::settle(&fragment(&shape, &[(4, 0, &[99; 4])]), &Target::UNKNOWN).0, 2);
}

/// Estimates of Count Sketch have no bias, whatever the sub-epochs: flows with packets at any time, over
/// many epochs and hash functions.
#[test]
fn composite_estimates_have_no_bias() {
    use crate::trace::SplitMix64;
    const FLOWS: u64 = 120;
    const EPOCHS: u64 = 1600;
    let mut random = SplitMix64::new(5);
    let shapes: Vec<_> = ["a", "b", "c"].map(|name| DiSketch::shape(&config(40), name, &family())).into();
    let (cuts, mut error) = ([0u32, 1, 2], 0.0);
    for epoch in 0..EPOCHS {
        let mut fragments: Vec<_> = shapes
            .iter()
            .zip(cuts)
            .map(|(shape, cuts)| {
                let parts: Vec<_> = (0..1 << cuts).map(|index| part(1 << cuts, index, &[0; 40])).collect();
                Fragment { shape: shape.clone(), parts }
            })
            .collect();
        for flow in 0..FLOWS {
            for _ in 0..=flow % 8 {
                let time = random.below(64) as u32;
                for (fragment, cuts) in fragments.iter_mut().zip(cuts) {
                    let hashes = &fragment.shape.hashes;
                    let place = hashes.place(Tuple4(u128::from(flow)), hashes.constants(epoch));
                    let now = time >> (6 - cuts);
                    if place.sub_epoch(cuts) == now {
                        fragment.parts[now as usize].counters[place.slot as usize] +=
                            if place.is_negative { -1 } else { 1 };
                    }
                }
            }
        }
        for flow in 0..FLOWS {
            let mut samples = Vec::new();
            fragments.iter().for_each(|fragment| {
                fragment.samples(
                    fragment.shape.hashes.key_crcs(Tuple4(u128::from(flow))),
                    epoch,
                    PathPlace::ALONE,
                    &mut samples,
                )
            });
            error += composite::epoch(SketchKind::Count, &samples).unwrap() - (flow % 8 + 1) as f64;
        }
    }
    let bias = error / (FLOWS * EPOCHS) as f64;
    assert!(bias.abs() < 0.12, "{bias}");
}
