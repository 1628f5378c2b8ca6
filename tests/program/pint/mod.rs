//! PINT's switch against a naive one, and the paths of simulated networks against the truth.

mod latency;
mod loops;
mod naive;
mod network;
mod page;
mod plans;
mod utilisation;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use naive::Naive;
use proptest::prelude::*;
use weir::pisa::hash::{Global, HashFamily};
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::pint::loops::record::{LOOP_REPORTS, Looped};
use weir::program::pint::query::Queries;
use weir::program::pint::record::{Arrival, PlanUse, PlanUses, Room, Seen, Stream};
use weir::program::pint::{Config, Digests, Pint};
use weir::program::{Program, ProgramConfig, Record};
use weir::wire::{FiveTuple, Fragment, Headers, Net, Shim};

const FAMILY: u64 = 11;

/// A packet on its way out.
#[derive(Clone, Copy, Debug)]
struct Packet {
    flow: u16,
    identity: u32,
    digest: u16,
    latency_ns: u32,
    hop: u8,
    matches: u8,
    disposition: Disposition,
    enters: bool,
    shim: bool,
    fragment: Fragment,
}

impl Packet {
    fn phv(self, time_ns: u64) -> Phv {
        let headers = Headers {
            net: Net::Ipv4,
            src_ip: 0x0a00_0001,
            dst_ip: 0x0a00_0002,
            proto: 17,
            sport: self.flow,
            dport: 9,
            shim: self.shim,
            fragment: self.fragment,
            ..Headers::default()
        };
        Phv {
            headers,
            identity: self.identity,
            digest: self.digest,
            shim: Shim::default().with_hop(self.hop).with_loops(self.matches),
            latency_ns: self.latency_ns,
            disposition: self.disposition,
            enters: self.enters,
            egress_ns: time_ns,
            ..Phv::default()
        }
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let disposition = prop_oneof![Just(Disposition::ToHost), Just(Disposition::ToFabric), Just(Disposition::Unmarked)];
    let fragment = prop_oneof![8 => Just(Fragment::Whole), 1 => Just(Fragment::First), 1 => Just(Fragment::Later)];
    let hop = prop_oneof![8 => 1..12u8, 1 => 60..=63u8];
    let latency = (0..32u32, any::<u32>()).prop_map(|(short, latency)| latency >> short);
    let carried = (any::<u16>(), latency, 0..4u8);
    (0..4u16, any::<u32>(), carried, hop, disposition, any::<bool>(), any::<bool>(), fragment).prop_map(
        |(flow, identity, (digest, latency_ns, matches), hop, disposition, enters, shim, fragment)| Packet {
            flow,
            identity,
            digest,
            latency_ns,
            hop: if enters { 1 } else { hop },
            matches,
            disposition,
            enters,
            shim: shim && !enters,
            fragment,
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let shape = prop_oneof![Just((1, 1)), Just((4, 1)), Just((8, 2)), Just((16, 1)), Just((2, 8)), Just((5, 3))];
    let queries = prop::sample::select(vec![
        "path:bits=8+latency:bits=8:frequency=15/16",
        "latency:bits=4:frequency=0.3+path:bits=4:instances=3:frequency=0.6",
        "path:bits=12:frequency=1/2+latency:bits=12:frequency=1/3",
        "latency:bits=3:from=1us:to=100us:space=100",
        "latency:bits=8:instances=2",
        "latency:bits=3:instances=4:frequency=1/2+path:bits=6:instances=2:frequency=1/2+latency:bits=4",
        "path:bits=5:instances=2:checksum=6",
        "path:bits=8:coding=fragments:checksum=8",
        "path:bits=4:instances=3:coding=fragments",
        "path:bits=1:coding=fragments+latency:bits=4",
        "path:bits=16:coding=fragments",
        "path:bits=8:instances=2:acts=vectors",
        "path:bits=4:instances=3:coding=fragments:acts=vectors:checksum=4",
        "latency:bits=8:frequency=1/2+path:bits=8:acts=vectors+loops:bits=4:frequency=1/3",
        "latency:bits=4+path:bits=4:checksum=8:frequency=1/2",
        "loops:bits=4:threshold=0",
        "path:bits=8+loops:bits=4:threshold=1+latency:bits=4",
        "loops:bits=4:threshold=2:frequency=1/2+path:bits=15:frequency=1/3",
        "loops:bits=5",
    ]);
    let queries = queries.prop_map(|text| ((8, 2), text.parse().unwrap()));
    let shape = prop_oneof![shape.prop_map(|shape| (shape, Queries::default())), queries];
    (shape, 1..=62u32, 1..40u32, 1..9u32).prop_map(|(((bits, instances), queries), path_length, reports, packets)| {
        Config { queries, bits, instances, path_length, reports, packets, ..Config::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Digests, hop counts and reports are those of the naive switch. Where hosts do not read digests,
    /// that of a packet to a host is what its report says, and nothing else.
    #[test]
    fn a_switch_equals_a_naive_one(
        config in config(), packets in prop::collection::vec(packet(), 0..160), name in "[a-z]{1,9}", reads: bool,
    ) {
        let family = HashFamily::reproducible(FAMILY);
        let program = ProgramConfig::new::<Pint>(config.clone());
        let mut replica = program.build(&name, &family).unwrap();
        replica.allocate();
        if reads {
            replica.read_digests();
        }
        let mut naive = Naive::new(&config, &family, &name);
        let mut phvs: Vec<_> = (0..).zip(&packets).map(|(at, packet)| packet.phv(at)).collect();
        let before = phvs.clone();
        let half = phvs.len() / 2;
        replica.egress(&mut phvs[..half], BatchOrder::PacketMajor);
        replica.egress(&mut phvs[half..], BatchOrder::StageMajor);
        for (before, after) in before.iter().zip(&phvs) {
            let mut expected = *before;
            naive.packet(&mut expected);
            if !reads && before.disposition == Disposition::ToHost {
                expected.digest = after.digest;
            }
            prop_assert_eq!(&expected, after);
        }
        let mut bank = replica.spare();
        replica.exchange_egress(bank.as_mut());
        let record = bank.record();
        let record = record.get::<Digests>().unwrap();
        let streams = record.streams().iter();
        let streams = streams.map(|(stream, packets)| (*stream, (packets.seen().to_vec(), packets.left_out())));
        prop_assert_eq!(streams.collect::<BTreeMap<_, _>>(), naive.streams(&config));
        prop_assert_eq!(record.missing(), naive.missing(&config));
        prop_assert_eq!(record.loops().kept(), naive.loops());
    }

    /// Records of replicas and epochs merge whatever their order; they are bounded, and their byte
    /// form is canonical.
    #[test]
    fn records_add_up(
        parts in prop::collection::vec(prop::collection::vec((0..5u16, 1..4u8, 0..30u64, 0..9u32), 0..20), 1..5),
        flows in prop::sample::select(vec![1u16, 5]),
        looped in prop::sample::select(vec![0u64, 3, 500]),
        at: prop::sample::Index,
        byte: u8,
    ) {
        // Few flows have more packets than a stream has room for, many more than a record has.
        let mut parts = parts;
        parts.iter_mut().flatten().for_each(|(flow, ..)| *flow %= flows);
        let config = Config { reports: 24, packets: 5, ..Config::default() };
        let family = HashFamily::reproducible(FAMILY);
        let room = Room::of(&config);
        let record = |part: &Vec<(u16, u8, u64, u32)>| {
            let mut buffer = weir::program::ReportBuffer::with_capacity(config.reports as usize);
            for &(flow, hops, time_ns, identity) in part {
                let flow = FiveTuple([4 << 40 | u64::from(flow), 0, 1, 0, 2]);
                buffer.push(Arrival { time_ns, plan: u32::from(hops) / 2, flow, hops, identity, digest: identity as u16 });
            }
            let plans = PlanUses { epoch: PlanUse::All(part.len() as u32 / 9), next: PlanUse::Unknown };
            let mut loops = weir::program::ReportBuffer::with_capacity(LOOP_REPORTS);
            for (time_ns, &(flow, hops, _, identity)) in (0..looped).zip(part.iter().cycle()) {
                let flow = FiveTuple([4 << 40 | u64::from(flow), 0, 1, 0, 2]);
                loops.push(Looped { time_ns, flow, hops, identity });
            }
            Digests::of(&family, room, &buffer.read(), 0).with_loops(&loops.read()).planned(plans)
        };
        let records: Vec<_> = parts.iter().map(record).collect();
        let mut sum = Digests::none(&family, room);
        records.iter().for_each(|record| sum.merge(record).unwrap());
        let packets: usize = sum.streams().values().map(|packets| packets.seen().len()).sum();
        prop_assert!(packets <= 24);
        prop_assert!(sum.streams().values().all(|packets| packets.seen().len() <= 5 && packets.seen().is_sorted()));
        let loops = looped * parts.iter().filter(|part| !part.is_empty()).count() as u64;
        prop_assert!(sum.loops().kept().len() <= LOOP_REPORTS && sum.loops().kept().is_sorted());
        prop_assert_eq!(sum.loops().kept().len() as u64 + sum.loops().overflow(), loops);
        // With room for all streams, each keeps its packets with the smallest hashes, whatever the
        // order of merging, and counts others.
        if sum.missing() == 0 {
            let mut reversed = Digests::none(&family, room);
            records.iter().rev().for_each(|record| reversed.merge(record).unwrap());
            let hash = Global::derive(&family, "pint/sample", 0);
            let mut all = BTreeMap::<_, BTreeSet<_>>::new();
            for &(flow, hops, time_ns, identity) in parts.iter().flatten() {
                let hashed = hash.join(identity, hash.argument(&[0; 4]));
                all.entry((u64::from(flow), hops)).or_default().insert((hashed, time_ns, identity));
            }
            for sum in [&sum, &reversed] {
                prop_assert_eq!(sum.streams().len(), all.len());
                for (stream, packets) in sum.streams() {
                    let all = &all[&(stream.flow.0[0] & 0xff, stream.hops)];
                    let kept: BTreeSet<_> = all.iter().take(5).map(|(_, time, identity)| (*time, *identity)).collect();
                    let seen = packets.seen().iter().map(|seen| (seen.time_ns, seen.identity));
                    prop_assert!(seen.eq(kept));
                    prop_assert!(packets.left_out() >= all.len().saturating_sub(5) as u64);
                    prop_assert!(packets.left_out() == 0 || all.len() > 5);
                }
            }
        }
        let read = Pint::reader(&config, "s", &family);
        let mut bytes = sum.encode();
        prop_assert!(bytes.len() <= Pint::longest(&config));
        prop_assert_eq!(read(&bytes), Ok(sum));
        let at = at.index(bytes.len());
        prop_assert!(read(&bytes[..at]).is_err());
        bytes[at] = byte;
        if let Ok(other) = read(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }
}

/// Bytes of a record, as docs/record-format.md has them.
#[test]
fn a_golden_record() {
    let config = Config { packets: 2, ..Config::default() };
    let family = HashFamily::reproducible(FAMILY);
    let flow = FiveTuple([4 << 40 | 0x1234 << 24 | 80 << 8 | 6, 0, 0x0a00_0001, 0, 0x0a00_0002]);
    let mut buffer = weir::program::ReportBuffer::with_capacity(3);
    for time_ns in [300, 7, 800, 8] {
        buffer.push(Arrival { time_ns, plan: 300, flow, hops: 3, identity: 1 << 7, digest: 5 });
    }
    let plans = PlanUses { epoch: PlanUse::All(300), next: PlanUse::Several };
    let mut loops = weir::program::ReportBuffer::with_capacity(LOOP_REPORTS);
    loops.push(Looped { time_ns: 9, flow, hops: 14, identity: 6 });
    let record = Digests::of(&family, Room::of(&config), &buffer.read(), 3).with_loops(&loops.read()).planned(plans);
    let seen = |time_ns| Seen { time_ns, identity: 128, digest: 5 };
    let packets = &record.streams()[&Stream { plan: 300, flow, hops: 3 }];
    assert_eq!((packets.seen(), packets.left_out()), (&[seen(7), seen(300)][..], 1));
    let hex: String = record.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let flow = "0000041234005006000000000000000000000000 0a0000010000000000000000000000000a000002".replace(' ', "");
    assert_eq!(hex, format!("0402ac02010101ac02{flow}0303010207800105ac028001050109{flow}0e0600"));
    assert_eq!(record.missing(), 1);
}

/// Records of other hash functions do not merge, and are known as such.
#[test]
fn foreign_records_are_refused() {
    let config = Config::default();
    let [own, other] = [1, 2].map(HashFamily::reproducible);
    let none = |family: &HashFamily, config: &Config| Digests::none(family, Room::of(config));
    let mut record = none(&own, &config);
    assert!(record.merge(&none(&own, &config)).is_ok());
    assert!(record.merge(&none(&other, &config)).is_err());
    assert!(record.merge(&none(&own, &Config { packets: 4, ..config.clone() })).is_err());
    assert!(record.is_hashed_with(&own) && !record.is_hashed_with(&other));
}

#[test]
fn wrong_parameters_are_named() {
    let refused = |words: &str| words.parse::<ProgramConfig>().map(drop).unwrap_err().to_string();
    assert!(refused("pint:bits=8,instances=3").contains("bits × instances exceeds the 16 bits"));
    assert!(refused("pint:bits=17").contains("bits = 17: a whole number from 1 to 16"));
    assert!(refused("pint:path_length=63").contains("from 1 to 62"));
}
