//! HashPipe's dataplane against the paper's Algorithm 3, slot by slot.

use proptest::prelude::*;
use weir::observe::{Observer, Recorder, Unobserved};
use weir::pisa::hash::{Crc, Digest, HashFamily, INIT, Polynomial, XOROUT, bitwise};
use weir::pisa::{BatchOrder, Phv};
use weir::program::hashpipe::{
    Config, Counts, Estimate, HashPipe, HashPipeBank, HashPipeDataplane, Key, SlotKey, Unit,
};
use weir::program::{Bank, Dataplane, ProgramConfig};
use weir::wire::{Flow, FlowKey, Headers, Net, Tuple4, Tuple6};

use super::naive::Oracle;

/// A packet of one of a few flows of either family, so that they collide.
fn packet() -> impl Strategy<Value = Phv> {
    (0..40u128, any::<bool>(), 60..1500u32).prop_map(|(flow, six, wire_bytes)| {
        let net = if six { Net::Ipv6 } else { Net::Ipv4 };
        // Flow 0 is the all-zero key, which an empty slot also holds.
        let headers = Headers { net, src_ip: flow, dst_ip: flow / 7, sport: flow as u16, ..Headers::default() };
        Phv { headers, wire_bytes, ..Phv::default() }
    })
}

/// Index hash by the module's bitwise oracle: nothing of the dataplane's own is used.
fn slot<K: FlowKey>(polynomial: Polynomial, slots: u32, key: K) -> usize {
    let crc = bitwise::crc(polynomial, INIT, XOROUT, key.bytes().as_ref());
    (crc % slots) as usize
}

/// What a sequence leaves in the oracle's tables of one family.
fn oracle<K: FlowKey>(config: &Config, slots: u32, hashes: &HashFamily, packets: &[Phv]) -> Vec<Vec<Option<(K, u32)>>> {
    let label = if K::NET == Net::Ipv6 { "hashpipe/ipv6/stage" } else { "hashpipe/ipv4/stage" };
    let polynomials: Vec<_> = (0..config.stages).map(|stage| hashes.derive(label, stage)).collect();
    let hash = |stage: usize, key: K| slot(polynomials[stage], slots, key);
    let mut oracle = Oracle::new(config.stages as usize, slots as usize, hash);
    for phv in packets.iter().filter(|phv| phv.headers.net == K::NET) {
        let weight = if config.count == Unit::Bytes { phv.wire_bytes } else { 1 };
        oracle.packet(K::of(&phv.headers), weight);
    }
    oracle.tables
}

fn run<A: SlotKey, B: SlotKey, const OWN: usize>(
    config: &Config,
    hashes: &HashFamily,
    packets: &mut [Phv],
    burst: usize,
    order: BatchOrder,
) -> HashPipeBank<A, B> {
    let mut program = HashPipeDataplane::<A, B, OWN>::new(config, hashes);
    program.allocate();
    packets.chunks_mut(burst).for_each(|burst| program.run_ingress(burst, order));
    let mut bank = HashPipeBank::<A, B>::zeroed(config);
    program.exchange(&mut bank);
    bank
}

/// The flows of the packets with which a count in the first stage reaches the number, in their order.
fn reports(config: &Config, hashes: &HashFamily, packets: &[Phv]) -> Vec<Flow> {
    fn reaches<K: FlowKey>(first: &mut [Option<(K, u32)>], slots: u32, hashes: &HashFamily, phv: &Phv) -> u32 {
        let label = if K::NET == Net::Ipv6 { "hashpipe/ipv6/stage" } else { "hashpipe/ipv4/stage" };
        let key = K::of(&phv.headers);
        let cell = &mut first[slot(hashes.derive(label, 0), slots, key)];
        let count = cell.filter(|(stored, _)| *stored == key).map_or(1, |(_, count)| count + 1);
        *cell = Some((key, count));
        count
    }
    let (slots, slots6) = (config.slots, config.slots6());
    let (mut v4, mut v6) = (vec![None; slots as usize], vec![None; slots6 as usize]);
    let reached = packets.iter().filter(|phv| {
        let count = match phv.headers.net {
            Net::Ipv6 => reaches::<Digest<true>>(&mut v6, slots6, hashes, phv),
            _ => reaches::<Digest<false>>(&mut v4, slots, hashes, phv),
        };
        Some(count) == config.report_at
    });
    reached.map(|phv| phv.headers.flow().unwrap()).collect()
}

fn config() -> impl Strategy<Value = Config> {
    (1..7u32, 1..12u32, 1..6u32, any::<bool>()).prop_map(|(stages, slots, slots6, bytes)| Config {
        stages,
        slots,
        slots6: Some(slots6),
        count: if bytes { Unit::Bytes } else { Unit::Packets },
        ..Config::default()
    })
}

fn tables<K: FlowKey + weir::pisa::Word>(tables: &weir::program::hashpipe::Tables<K>) -> Vec<Vec<Option<(K, u32)>>> {
    let occupied = |cell: &(K, u32)| (cell.1 > 0).then_some(*cell);
    tables.0.iter().map(|table| table.cells().iter().map(occupied).collect()).collect()
}

proptest! {
    // Each case makes two tables of digests and names their flows, which takes a quarter of a second.
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Digests stand in the slots as keys do, and what is reported are the flows whose count in the first
    /// stage reaches the number, each once, as far as there is room.
    #[test]
    fn slots_of_digests_are_the_oracles(
        config in config(),
        seed: u64,
        mut packets in proptest::collection::vec(packet(), 0..600),
        burst in 1..130usize,
        stage_major: bool,
        report_at in 1..20u32,
        names in 0..12u32,
    ) {
        let config = Config { key: Key::Digest32, report_at: Some(report_at), names: Some(names), ..config };
        let hashes = HashFamily::reproducible(seed);
        let order = if stage_major { BatchOrder::StageMajor } else { BatchOrder::PacketMajor };
        let v4 = oracle::<Digest<false>>(&config, config.slots, &hashes, &packets);
        let v6 = oracle::<Digest<true>>(&config, config.slots6(), &hashes, &packets);
        let bank = run::<Digest<false>, Digest<true>, 0>(&config, &hashes, &mut packets, burst, order);
        prop_assert_eq!(tables(&bank.v4), v4);
        prop_assert_eq!(tables(&bank.v6), v6);

        let (reached, mut reported, mut missed) = (reports(&config, &hashes, &packets), Vec::new(), 0);
        for flow in reached.into_iter().filter(|_| config.count == Unit::Packets) {
            match reported.contains(&flow) {
                true => {}
                false if reported.len() < names as usize => reported.push(flow),
                false => missed += 1,
            }
        }
        let digests = bank.record().into::<Counts>().unwrap().digests.unwrap();
        if config.count == Unit::Packets {
            let mut named: Vec<_> = digests.names.kept().iter().map(|name| name.0.flow()).collect();
            named.sort_unstable();
            reported.sort_unstable();
            prop_assert_eq!((named, digests.names.overflow()), (reported, missed));
        }
        fn sum<K>(tables: &[Vec<Option<(K, u32)>>]) -> u64 {
            tables.iter().flatten().flatten().map(|(_, count)| u64::from(*count)).sum()
        }
        let counted = digests.counts.each_ref().map(|counts| counts.values().map(|count| count.number).sum::<u64>());
        prop_assert_eq!(counted, [sum(&tables(&bank.v4)), sum(&tables(&bank.v6))]);
    }
}

proptest! {
    #[test]
    fn every_slot_is_the_oracles(
        config in config(),
        seed: u64,
        mut packets in proptest::collection::vec(packet(), 0..600),
        burst in 1..130usize,
        sum: bool,
        stage_major: bool,
    ) {
        let hashes = HashFamily::reproducible(seed);
        let order = if stage_major { BatchOrder::StageMajor } else { BatchOrder::PacketMajor };
        let v4 = oracle::<Tuple4>(&config, config.slots, &hashes, &packets);
        let v6 = oracle::<Tuple6>(&config, config.slots6(), &hashes, &packets);
        let bank = if sum {
            run::<Tuple4, Tuple6, 1>(&config, &hashes, &mut packets, burst, order)
        } else {
            run::<Tuple4, Tuple6, 0>(&config, &hashes, &mut packets, burst, order)
        };
        prop_assert_eq!(tables(&bank.v4), v4);
        prop_assert_eq!(tables(&bank.v6), v6);
    }

    /// Traced packets among others leave the registers and the PHVs that they leave untraced.
    #[test]
    fn tracing_changes_nothing(
        config in config(),
        seed: u64,
        packets in proptest::collection::vec((packet(), any::<bool>()), 0..300),
        sum: bool,
    ) {
        let config = Config { estimate: if sum { Estimate::Sum } else { Estimate::First }, ..config };
        let program = || {
            let mut program = ProgramConfig::new::<HashPipe>(config.clone()).build("s", &HashFamily::reproducible(seed)).unwrap();
            program.allocate();
            program
        };
        let (mut plain, mut traced) = (program(), program());
        for (mut phv, trace) in packets {
            let (before, mut told) = (phv, phv);
            plain.ingress(std::slice::from_mut(&mut phv), BatchOrder::PacketMajor);
            let mut recorder = Recorder::default();
            let watch: &mut dyn Observer = if trace { &mut recorder } else { &mut Unobserved };
            watch.program(traced.as_mut(), std::slice::from_mut(&mut told), BatchOrder::PacketMajor);
            prop_assert_eq!(phv, told);
            if trace {
                let stages = &recorder.programs[0].stages;
                let own = config.naming().narrow(&before.headers.flow().unwrap()).to_string();
                prop_assert_eq!(stages.len(), config.stages as usize);
                // The first stage always takes the packet's own key in.
                prop_assert!(stages[0][0].cell.as_ref().unwrap().after.starts_with(&own));
            }
        }
        let (mut a, mut b) = (plain.spare(), traced.spare());
        plain.exchange(a.as_mut());
        traced.exchange(b.as_mut());
        let tables = |bank: &dyn Bank| {
            let bank: &dyn std::any::Any = bank;
            let bank = bank.downcast_ref::<HashPipeBank<Tuple4, Tuple6>>().unwrap();
            (tables(&bank.v4), tables(&bank.v6))
        };
        prop_assert_eq!(tables(a.as_ref()), tables(b.as_ref()));
    }

    /// A count that is read out, and the dataplane's own estimate, never exceed what the flow has
    /// sent so far.
    #[test]
    fn nothing_is_overestimated(
        config in config(),
        mut packets in proptest::collection::vec(packet(), 1..400),
        sum: bool,
    ) {
        let config = Config { estimate: if sum { Estimate::Sum } else { Estimate::First }, ..config };
        let hashes = HashFamily::reproducible(1);
        let mut program = ProgramConfig::new::<HashPipe>(config.clone()).build("s", &hashes).unwrap();
        program.allocate();
        let mut truth = Counts::default();
        for phv in packets.iter_mut() {
            program.ingress(std::slice::from_mut(phv), BatchOrder::PacketMajor);
            let weight = if config.count == Unit::Bytes { phv.wire_bytes } else { 1 };
            let sent = truth.flows.entry(config.naming().narrow(&phv.headers.flow().unwrap())).or_default();
            *sent += u64::from(weight).into();
            prop_assert!(phv.flow_estimate >= weight && u64::from(phv.flow_estimate) <= sent.number);
        }
        let mut bank = program.spare();
        program.exchange(bank.as_mut());
        let counts = bank.record().into::<Counts>().expect("HashPipe's record");
        for (flow, count) in &counts.flows {
            prop_assert!(count <= &truth.flows[flow], "{flow} reads {count}");
        }
    }
}

/// The paper's Figure 1: K takes B's place in the first stage, B evicts E, E loses to L and leaves
/// the table.
#[test]
fn figure_1_of_the_paper() {
    let names = ["A", "B", "C", "E", "K", "L"];
    let slot_of = |_: usize, key: &str| usize::from(key == "A" || key == "C");
    let mut oracle = Oracle::new(3, 2, slot_of);
    oracle.tables =
        vec![vec![Some(("B", 5)), Some(("A", 4))], vec![Some(("E", 3)), Some(("C", 3))], vec![Some(("L", 10)), None]];
    oracle.packet("K", 1);
    assert_eq!(oracle.tables[0][0], Some(("K", 1)));
    assert_eq!(oracle.tables[1][0], Some(("B", 5)));
    assert_eq!(oracle.tables[2][0], Some(("L", 10)));
    let left: Vec<_> = oracle.tables.iter().flatten().flatten().map(|cell| cell.0).collect();
    assert!(!left.contains(&"E") && left.iter().all(|key| names.contains(key)));
}

/// `Crc` is what the dataplane uses; it and the bitwise form are held equal in the hash unit's own
/// tests too.
#[test]
fn the_bitwise_hash_is_the_units() {
    let polynomial = Polynomial::STANDARD[0];
    assert_eq!(Crc::new(polynomial).hash(b"123456789"), 0xcbf4_3926);
    assert_eq!(bitwise::crc(polynomial, INIT, XOROUT, b"123456789"), 0xcbf4_3926);
}

/// A golden vector for P4 targets: in the standard family stage 1 hashes with zlib's `crc32`.
#[test]
fn the_standard_family_hashes_as_published() {
    let config = Config { stages: 1, slots: 4096, slots6: Some(0), ..Config::default() };
    let (src_ip, dst_ip) = (0x0102_0304, 0x0506_0708);
    let headers =
        Headers { net: Net::Ipv4, src_ip, dst_ip, sport: 0x090a, dport: 0x0b0c, proto: 0x0d, ..Headers::default() };
    let family = HashFamily::standard("hashpipe/ipv4/stage");
    let bank = run::<Tuple4, Tuple6, 0>(
        &config,
        &family,
        &mut [Phv { headers, ..Phv::default() }],
        1,
        BatchOrder::PacketMajor,
    );
    let at = tables(&bank.v4)[0].iter().position(Option::is_some);
    // crc32(bytes 1 to 13), from Python's zlib.
    assert_eq!(at, Some(0xb720_698d % 4096));
}
