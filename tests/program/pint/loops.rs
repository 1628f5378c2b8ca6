//! The loop query: packets that go in a circle are reported where Algorithm 2 reports them, and
//! others as seldom as the formula says.

use proptest::prelude::*;
use weir::answers::Task;
use weir::pisa::hash::{Global, HashFamily};
use weir::program::pint::dataplane::Measured;
use weir::program::pint::loops::dataplane::{Carried, LoopCode};
use weir::program::pint::loops::false_alarms;
use weir::program::pint::{Config, Pint};
use weir::program::{Program, ProgramConfig};
use weir::sim::Simulation;
use weir::sim::report::LoopCounts;

use super::naive::rounded;
use super::network::setup;

fn config(queries: &str) -> Config {
    Config { queries: queries.parse().unwrap(), ..Config::default() }
}

/// Algorithm 2 as the paper writes it: the hops at which it says LOOP. Probabilities are rounded to 16
/// bits, as the module says.
fn naive(family: &HashFamily, way: &[u32], identity: u32, bits: u32, threshold: u32) -> Vec<usize> {
    let global = |label: &str| Global::derive(family, label, 0);
    let [g, h] = ["pint/loops/acts", "pint/loops/values"].map(global);
    let hash = |of: &Global, argument: u32| of.join(identity, of.argument(&argument.to_be_bytes()));
    let (mut digest, mut c, mut reports) = (None, 0, Vec::new());
    for (i, switch) in (1u32..).zip(way) {
        let own = hash(&h, *switch) % (1 << bits);
        if digest == Some(own) {
            if c == threshold {
                reports.push(i as usize);
                continue;
            }
            c += 1;
        }
        if c == 0 && f64::from(hash(&g, i)) / 2f64.powi(32) < rounded(1.0 / f64::from(i), 16) {
            digest = Some(own);
        }
    }
    reports
}

/// The hops at which the code reports a packet on this way.
fn reports(code: &LoopCode, way: &[u32], identity: u32) -> Vec<usize> {
    let mut carried = Carried { digest: 0, matches: 3 };
    let mut reports = Vec::new();
    for (hop, switch) in (1..).zip(way) {
        let checked = code.check(code.switch(*switch), hop, identity, carried);
        carried = checked.carried;
        if checked.is_loop {
            reports.push(usize::from(hop));
        }
    }
    reports
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// On a way into a circle, and around it as far as hops are counted.
    #[test]
    fn a_loop_is_seen_as_by_the_paper(
        seed in 0..5u64,
        identity: u32,
        (before, circle) in (0..6usize, 1..9usize),
        (bits, threshold) in (4..=16u32, 0..=3u32),
    ) {
        let family = HashFamily::reproducible(seed);
        let way: Vec<u32> = (0..62).map(|hop| if hop < before { hop } else { before + (hop - before) % circle })
            .map(|switch| 1000 + switch as u32).collect();
        let code = LoopCode::new(bits, threshold, &family);
        prop_assert_eq!(reports(&code, &way, identity), naive(&family, &way, identity, bits, threshold));
    }
}

/// A packet that loops is found by the first switch that finds its hash `threshold` + 1 times, so
/// not before as many rounds; and nearly all packets are found within the hops that are counted.
#[test]
fn looping_packets_are_found() {
    const CIRCLE: usize = 3;
    let way: Vec<u32> = (0..62).map(|hop| hop % CIRCLE as u32).collect();
    for threshold in 0..=3u32 {
        let code = LoopCode::new(16, threshold, &HashFamily::reproducible(7));
        let first: Vec<_> = (0..4000).map(|identity| reports(&code, &way, identity).first().copied()).collect();
        let found: Vec<_> = first.iter().flatten().copied().collect();
        assert!(found.len() >= 3980, "threshold {threshold}: {}", found.len());
        let least = 1 + CIRCLE * (threshold as usize + 1);
        // A match by chance, one in 65 536, would come sooner.
        assert!(found.iter().filter(|hop| **hop < least).count() <= 2, "threshold {threshold}");
        assert!(found.contains(&least), "threshold {threshold}");
    }
}

/// Each switch of a path without a loop is the last that wrote the digest of the same share of packets,
/// for every length that the shim counts, told by chi-square: at most five standard deviations over its
/// mean.
#[test]
fn hashes_are_of_uniform_hops() {
    const PACKETS: u32 = 10_000;
    for seed in 0..3 {
        let code = LoopCode::new(16, 3, &HashFamily::reproducible(20 + seed));
        let switches: Vec<_> = (1..=62).map(|id| code.switch(id)).collect();
        // The last writer behind each hop, by packet.
        let mut writers = vec![vec![0u32; 62]; 62];
        for identity in 0..PACKETS {
            let (mut carried, mut writer) = (Carried { digest: 0, matches: 0 }, 0);
            for (at, switch) in switches.iter().enumerate() {
                let after = code.check(*switch, at as u8 + 1, identity, carried).carried;
                if at == 0 || after.digest != carried.digest {
                    writer = at;
                }
                carried = after;
                writers[at][writer] += 1;
            }
        }
        for (counts, length) in writers.iter().zip(1..) {
            let expected = f64::from(PACKETS) / f64::from(length);
            let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let (chi2, degrees) = (counts[..length as usize].iter().map(square).sum::<f64>(), f64::from(length - 1));
            assert!(chi2 <= degrees + 5.0 * (2.0 * degrees).sqrt(), "{length} hops: {chi2}");
        }
    }
}

/// Packets on a path without a loop are reported as often as chance has it (within six standard
/// deviations).
#[test]
fn false_alarms_are_as_rare_as_the_formula() {
    const PACKETS: u32 = 60_000;
    for (bits, threshold, length) in [(4, 0, 5), (4, 1, 20), (6, 1, 62), (4, 3, 40), (8, 0, 32), (16, 3, 62)] {
        let way: Vec<u32> = (1..=length).collect();
        let code = LoopCode::new(bits, threshold, &HashFamily::reproducible(2));
        let found = (0..PACKETS).filter(|identity| !reports(&code, &way, *identity).is_empty()).count() as f64;
        let share = false_alarms(length, bits, threshold);
        let (expected, spread) = (f64::from(PACKETS) * share, (f64::from(PACKETS) * share * (1.0 - share)).sqrt());
        let text = format!("{bits} bits, threshold {threshold}, {length} hops: {found} and {expected:.2}");
        assert!((found - expected).abs() <= 6.0 * spread + 1.0, "{text}");
    }
    // The numbers of the paper's text.
    let near = |found: f64, paper: f64| assert!((0.85..1.0).contains(&(found / paper)), "{found} and {paper}");
    near(false_alarms(32, 16, 0), 5e-4);
    near(false_alarms(32, 15, 1), 5e-7);
    near(false_alarms(32, 14, 3), 5e-13);
}

/// The loop query takes nothing from the others, and they nothing from it.
#[test]
fn queries_share_a_digest() {
    let family = HashFamily::reproducible(4);
    let both = config("path:bits=4+loops:bits=8:threshold=1+latency:bits=4").scheme(&family);
    let alone = config("path:bits=4+latency:bits=4:frequency=1").scheme(&family);
    let loops = LoopCode::new(8, 1, &family);
    for identity in 0..2000 {
        let (mut digest, mut carried, mut matches) = (0, Carried { digest: 0, matches: 0 }, 0);
        let mut others = 0;
        for hop in 1..=20 {
            let id = u32::from(hop) % 4;
            let measured = Measured { hop, identity, latency_ns: 1 << hop, ..Measured::default() };
            digest = both.encode(&both.switch(id), measured, digest);
            let checked = both.check_loop(&both.switch(id), measured, Carried { digest, matches }).unwrap();
            (digest, matches) = (checked.carried.digest, checked.carried.matches);
            let expected = loops.check(loops.switch(id), hop, identity, carried);
            carried = expected.carried;
            assert_eq!(
                (digest >> 4 & 0xff, matches, checked.is_loop),
                (carried.digest, carried.matches, expected.is_loop)
            );
            others = alone.encode(&alone.switch(id), measured, others);
            assert_eq!((digest & 0xf, digest >> 12), (others & 0xf, others >> 4 & 0xf));
        }
    }
}

/// In a simulated network no packet comes back, and the few that seem to are told.
#[test]
fn a_simulated_network_has_false_alarms_alone() {
    let counts = |queries: &str| {
        let setup = setup("line:5", "isp/uniform,flows=40,packets=20000,seed=3", config(queries));
        let mut simulation = Simulation::new(&setup).unwrap();
        simulation.epoch(&setup.workload, None);
        let reports = simulation.finish();
        let counts = reports.iter().filter_map(|report| report.programs["pint"].loops);
        counts.fold(LoopCounts::default(), |sum, counts| LoopCounts {
            flows: sum.flows.max(counts.flows),
            packets: sum.packets.max(counts.packets),
        })
    };
    let LoopCounts { flows, packets } = counts("loops:bits=8:threshold=0");
    // Paths have one to five switches: at most four comparisons, each with one chance in 256.
    assert!(flows > 20 && (20..400).contains(&packets), "{flows} and {packets}");
    assert_eq!(counts("path:bits=4+loops:bits=12:threshold=3"), LoopCounts::default());
    assert!(ProgramConfig::new::<Pint>(config("loops")).rank(Task::Loops).is_some());
    assert!(Pint::validate(&config("path:bits=8+loops:bits=8")).is_ok());
    assert!(Pint::validate(&config("path:bits=8+loops:bits=9")).is_err());
}
