//! The arithmetic of tables beside that of real numbers.

use proptest::prelude::*;

use super::code::LARGEST;
use super::dataplane::{FRACTION, Meta, UNIT_BITS};
use super::filter::{Averages, Filter};
use super::link::{Links, VOLUMES};
use super::shifts::{BYTE_BITS, ERROR};
use super::tables::TABLES;
use super::{Compression, SMALLEST, Scale, Utilisation};
use crate::pisa::hash::HashFamily;
use crate::trace::SplitMix64;

const ONE: f64 = (1u32 << UNIT_BITS) as f64;
const EPSILON: f64 = 0.025;

fn real(fixed: i32) -> f64 {
    f64::from(fixed) / f64::from(1 << FRACTION)
}

/// Digests with the paper's ε.
fn paper(bits: u32) -> Compression {
    Compression::new(Scale::of_epsilon(bits, EPSILON), &HashFamily::reproducible(1))
}

/// The utilisation in real numbers, as §4.3 has it.
struct Real {
    volume: f64,
    period: f64,
    last: f64,
    average: f64,
}

impl Real {
    fn new(bytes_per_second: u64, period_ns: u32) -> Self {
        let period = f64::from(period_ns);
        Self { volume: bytes_per_second as f64 * 1e-9 * period, period, last: 0.0, average: 0.0 }
    }

    fn packet(&mut self, now: f64, queue: f64, bytes: f64) -> f64 {
        let gap = (now - self.last).min(self.period);
        self.last = now;
        let kept = (self.period - gap) / self.period * self.average;
        self.average = kept + queue * gap / (self.volume * self.period) + bytes / self.volume;
        self.average
    }
}

proptest! {
    /// Appendix C's bound is 1.44 · 2⁻ᑫ; the middle of an entry has half of it. Small numbers have
    /// their own entries.
    #[test]
    fn logarithms_are_near(x in prop_oneof![1u32..2048, any::<u32>()]) {
        let x = x.max(1);
        let error = (real(TABLES.log2(x)) - f64::from(x).log2()).abs();
        let bound = if x < 1024 { 0.0 } else { 0.72 / 1024.0 };
        prop_assert!(error <= bound + 1e-5, "log2({x}) is wrong by {error}");
    }

    #[test]
    fn powers_are_near(exponent in -(1i32 << 20)..(34 << 16)) {
        let exact = real(exponent).exp2().min(f64::from(u32::MAX));
        let error = (f64::from(TABLES.exp2(exponent)) - exact).abs();
        prop_assert!(error <= exact * 0.000_36 + 1.0, "2^{} is wrong by {error}", real(exponent));
    }

    #[test]
    fn products_and_quotients_are_near(x in 1u32..60_000, y in 1u32..60_000) {
        let (a, b) = (TABLES.log2(x), TABLES.log2(y));
        let near = |found: u32, exact: f64| (f64::from(found) - exact).abs() <= exact * 0.0014 + 1.0;
        prop_assert!(near(TABLES.exp2(a + b), f64::from(x) * f64::from(y)), "{x} · {y}");
        prop_assert!(near(TABLES.exp2(a - b), f64::from(x) / f64::from(y)), "{x} / {y}");
    }

    /// Packets of all lengths, queues and gaps, on links of 1 to 400 Gbit/s. What comes in, and the
    /// smaller of what fades and what stays, is taken 0.15 % wrong at most; errors fade like the
    /// average.
    #[test]
    fn the_average_is_that_of_real_numbers(
        seed: u64, gigabits in prop::sample::select(vec![1u64, 10, 25, 100, 400]), period in 5_000u32..200_000,
        load in 0.05f64..1.0, queue in 0u32..100_000,
    ) {
        let rate = gigabits * 125_000_000;
        let (mut switch, mut real) = (Utilisation::new(&[1, rate], period), Real::new(rate, period));
        let mut rng = SplitMix64::new(seed);
        let (mut now_ns, mut bound) = (0, 0.0);
        for _ in 0..2000 {
            let bytes = 60 + rng.below(1441) as u32;
            let gap = f64::from(bytes) * 1e9 / rate as f64 / load * (0.5 + rng.unit());
            now_ns += gap as u64 + rng.below(2);
            let queue = rng.below(u64::from(queue) + 1) as u32;
            let mut phv = Meta { port: 1, now_ns, queue, bytes, ..Meta::default() };
            switch.packet(&mut phv);
            let weight = f64::from(phv.gap) / f64::from(period);
            let (faded, kept) = (weight * real.average, (1.0 - weight) * real.average);
            let exact = real.packet(now_ns as f64, queue.into(), bytes.into());
            bound = (1.0 - weight) * bound + 0.0015 * (faded.min(kept) + exact - kept) + 3.0 / ONE;
            prop_assume!(exact < 255.0);
            let found = f64::from(phv.utilisation) / ONE;
            prop_assert!((found - exact).abs() <= bound, "{found} for {exact}, {bound}");
        }
    }

    /// Rounded at random, a digest is at most one step away; its mean over hashes is the logarithm.
    #[test]
    fn digests_are_near_and_right_on_average(log in -8.9f64..9.0) {
        let compression = paper(8);
        let exact = log.exp2().min(255.9);
        let utilisation = (exact * ONE) as u32;
        let bound = (1.0 + EPSILON).powi(2) * 1.003;
        let mut sum = 0.0;
        for hash in 0..=255 {
            let ratio = compression.scale.decode(compression.codes.encode(utilisation, hash)) / exact;
            prop_assert!((1.0 / bound..bound).contains(&ratio), "{exact} becomes {ratio} as much");
            sum += ratio.log2();
        }
        prop_assert!((sum / 256.0).abs() < 0.005, "{exact} is {} octaves off", sum / 256.0);
    }

    /// All hops have one hash, so the order in which a digest meets them does not count.
    #[test]
    fn the_largest_utilisation_stays(hops in prop::collection::vec(any::<u32>(), 1..8), hash: u8) {
        let codes = paper(8).codes;
        let largest = hops.iter().map(|hop| codes.encode(*hop, hash)).max();
        prop_assert_eq!(largest, hops.iter().max().map(|hop| codes.encode(*hop, hash)));
    }
}

/// Links as a live switch takes them.
fn links() -> impl Strategy<Value = Links> {
    let rate = prop::sample::select(vec![1_000_000u64, 10_000_000, 1_000_000_000, 10_000_000_000, 400_000_000_000]);
    let links = |(bits_per_second, volume): (u64, f64)| {
        let period_ns = Some((volume * 8e9 / bits_per_second as f64) as u32);
        Links { bits_per_second, period_ns, ..Links::default() }
    };
    let volumes = (*VOLUMES.start() as f64).log2()..(*VOLUMES.end() as f64).log2();
    let any = (rate, volumes.prop_map(f64::exp2)).prop_map(links);
    any.prop_filter("a link that is refused", |links| links.check().is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the link, and whatever packets it carries, a digest is within the factor that is
    /// stated of the average in real numbers, from the smallest utilisation of the scale to the
    /// largest.
    #[test]
    fn digests_are_within_the_error_that_is_stated(
        seed: u64, links in links(), bits in 1u32..=8, load in 0.005f64..3.0, bursts in 1u64..64,
        queues in prop::sample::select(vec![0.0, 0.1, 3.0]),
    ) {
        let scale = Scale::new(bits);
        let compression = Compression::new(scale, &HashFamily::reproducible(1));
        let (rate, period) = (links.bytes_per_second(), links.period_ns());
        let (mut switch, mut real) = (Utilisation::new(&[rate], period), Real::new(rate, period));
        let mut rng = SplitMix64::new(seed);
        let (mut now, mut left, longest) = (0.0, 0, (real.volume * queues) as u64);
        for identity in 0..4000 {
            let bytes = 60 + rng.below(1455) as u32;
            if left == 0 {
                left = 1 + rng.below(bursts);
                // A burst leaves at once, and a time passes that makes up for it.
                now += left as f64 * 787.0 * 1e9 / rate as f64 / load * (0.5 + rng.unit());
            }
            left -= 1;
            let now_ns = now as u64;
            let queue = rng.below(longest + 1) as u32;
            let mut phv = Meta { now_ns, bytes, queue, ..Meta::default() };
            switch.packet(&mut phv);
            let exact = real.packet(now_ns as f64, queue.into(), bytes.into()).clamp(SMALLEST, LARGEST);
            let digest = compression.codes.encode(phv.utilisation, compression.hash(identity));
            prop_assert!(u32::from(digest) < 1 << bits);
            let off = scale.decode(digest) / exact;
            let factor = scale.error_factor();
            prop_assert!((1.0 / factor..=factor).contains(&off), "{exact} becomes {off} as much: {links:?}");
        }
    }
}

#[test]
fn links_are_described_in_words() {
    let period = |bits_per_second| Links { bits_per_second, ..Links::default() }.period_ns();
    assert_eq!([100_000, 10_000_000, 10_000_000_000].map(period), [4_000_000_000, 800_000_000, 800_000]);
    for bits_per_second in [100_000, 1_000_000_000, 800_000_000_000] {
        assert_eq!(Links { bits_per_second, ..Links::default() }.check(), Ok(()));
    }
}

/// A full link has a utilisation of 1, at any length of packets: hundreds of them fade within T,
/// and errors of each would add up.
#[test]
fn a_full_link_is_full() {
    for (gigabits, bytes) in [(400u64, 1050u32), (400, 100), (100, 1500), (25, 64)] {
        let mut switch = Utilisation::new(&[gigabits * 125_000_000], 13_000);
        let mut last = 0;
        let times = (0..).map(|number: u64| number * u64::from(bytes) * 8 / gigabits);
        for now_ns in times.take_while(|now_ns| *now_ns < 260_000) {
            let mut phv = Meta { now_ns, bytes, ..Meta::default() };
            switch.packet(&mut phv);
            last = phv.utilisation;
        }
        let found = f64::from(last) / ONE;
        assert!((found - 1.0).abs() < 0.002, "{gigabits} Gbit/s, {bytes} bytes: {found}");
    }
}

#[test]
fn an_idle_link_is_forgotten_and_a_port_without_link_has_none() {
    let mut switch = Utilisation::new(&[12_500_000_000], 13_000);
    let mut at = |now_ns, queue, port| {
        let mut phv = Meta { port, now_ns, queue, bytes: 1000, ..Meta::default() };
        switch.packet(&mut phv);
        f64::from(phv.utilisation) / ONE
    };
    assert!(at(13_000, 1_625_000, 0) > 10.0);
    assert!(at(40_000, 0, 0) < 0.02);
    assert_eq!(at(40_000, 0, 1), 0.0);
}

#[test]
fn digests_have_their_bits_and_their_ends() {
    for bits in 1..=8 {
        let compression = paper(bits);
        // The registers end at 256, which is digest 238.6.
        let largest = ((1 << bits) - 1).min(239);
        assert_eq!(u32::from(compression.codes.encode(u32::MAX, 255)), largest, "{bits} bits");
        assert_eq!(compression.codes.encode(0, 255), 0);
        assert_eq!(compression.scale.decode(0), SMALLEST);
    }
}

/// The paper counts six stages for U, one for its approximation and one for the digest. No chip
/// computes what two of the ALUs do.
#[test]
fn eight_stages_and_a_cell_for_each_port() {
    let stages = Utilisation::new(&[1; 64], 13_000).usage();
    let bits: u64 = stages.iter().flat_map(|stage| &stage.arrays).map(|array| array.sram_bits()).sum();
    assert_eq!((stages.len(), bits), (8, 64 * 96));
    // Six logarithms of two tables each, three powers, and the codes.
    let entries: Vec<u64> = stages.iter().map(|stage| stage.lookups.iter().map(|table| table.entries).sum()).collect();
    assert_eq!(entries, [0, 8 * 1024, 0, 2 * 1024, 0, 3 * 1024, 2 * 1024 + 4096, 0]);
    let beyond = stages.iter().flat_map(|stage| &stage.arrays).filter(|array| array.beyond_chips.is_some());
    assert_eq!(beyond.count(), 2);
}

/// Packets that carry the share of a queue's room give what those with its bytes give, but for the
/// errors of two logarithms; with room for nothing nothing waits.
#[test]
fn shares_of_a_queue_are_bytes() {
    let averages = |room: Option<u64>, queue: u32| {
        let mut utilisation = Utilisation::new(&[1_250_000_000], 100_000);
        room.into_iter().for_each(|room| utilisation.set_queue_room(room));
        let packet = |number: u64| {
            let mut meta = Meta { now_ns: 1000 * number, queue, bytes: 500, ..Meta::default() };
            utilisation.packet(&mut meta);
            f64::from(meta.utilisation)
        };
        (1..200).map(packet).collect::<Vec<_>>()
    };
    for (room, share) in [(3_000_000, 0x2000), (1_000_000, 700), (64_000, u16::MAX.into()), (1 << 20, 1)] {
        let bytes = (room * u64::from(share)) >> 16;
        let pairs = averages(Some(room), share).into_iter().zip(averages(None, bytes as u32));
        pairs.for_each(|(one, other)| assert!((one / other - 1.0).abs() < 0.004, "{one}, {other}: {share} of {room}"));
    }
    assert_eq!(averages(Some(0), 40_000), averages(None, 0));
    assert_eq!(averages(Some(1 << 40), 0), averages(None, 0));
    // Registers that a replica gives back may go to one whose queues have other room.
    let mut twice = Utilisation::new(&[1_250_000_000], 100_000);
    let links = twice.links.clone();
    [7, 3_000_000, 0, 1 << 16].into_iter().for_each(|room| twice.set_queue_room(room));
    assert_eq!(twice.links, links);
}

/// How far an average is off: by packets, the factor between it and the one in real numbers.
fn factors(filter: Filter, seed: u64, within_period: f64, bursts: u64) -> Vec<f64> {
    let links = Links { filter, period_ns: Some(1 << 20), ..Links::default() };
    let (rate, period) = (links.bytes_per_second(), links.period_ns());
    let (mut switch, mut real) = (Averages::planned(links), Real::new(rate, period));
    switch.allocate();
    let mut rng = SplitMix64::new(seed);
    let (mut now, mut left) = (0.0, 0);
    let packet = |_| {
        if left == 0 {
            left = 1 + rng.below(bursts);
            now += left as f64 * f64::from(period) / within_period * (0.5 + rng.unit());
        }
        left -= 1;
        let (now_ns, bytes) = (now as u64, 60 + rng.below(1455) as u32);
        let mut phv = Meta { now_ns, bytes, ..Meta::default() };
        switch.packet(&mut phv);
        let exact = real.packet(now_ns as f64, 0.0, bytes.into());
        let unit = if filter == Filter::Shifts { real.volume * f64::from(1 << BYTE_BITS) } else { ONE };
        f64::from(phv.utilisation) / unit / exact
    };
    // The first periods fill the average.
    let packets = 20 * within_period as usize;
    (0..packets + 20_000).map(packet).skip(packets).collect()
}

/// The mean is right, and what an average is off by is within the factor that is stated for 999 packets of 1000,
/// less the more gaps there are within the period.
#[test]
fn shifts_are_near() {
    for (within_period, bursts, spread) in [(20.0, 1, 0.04), (200.0, 16, 0.06), (700.0, 64, 0.06), (2000.0, 1, 0.005)] {
        let of = |filter| (0..4).flat_map(move |seed| factors(filter, seed, within_period, bursts)).collect::<Vec<_>>();
        let (factors, other) = (of(Filter::Shifts), of(Filter::Logarithms));
        let most = other.iter().fold(0.0, |most: f64, factor| most.max((factor - 1.0).abs()));
        let (number, mean) = (factors.len() as f64, factors.iter().sum::<f64>() / factors.len() as f64);
        let deviation = (factors.iter().map(|factor| (factor / mean - 1.0).powi(2)).sum::<f64>() / number).sqrt();
        let beyond = factors.iter().filter(|factor| !(1.0 / ERROR..=ERROR).contains(*factor)).count() as f64;
        println!("{within_period} within T, bursts of {bursts}: {mean:.4}, {deviation:.4}, {beyond} beyond; {most:.4}");
        assert!(most < 0.02, "{within_period}, {bursts}: {most} by logarithms");
        assert!((mean - 1.0).abs() < 0.02, "{within_period}, {bursts}: {mean} on average");
        assert!(deviation < spread, "{within_period}, {bursts}: {deviation}");
        assert!(beyond / number < 0.001, "{within_period}, {bursts}: {beyond} of {number}");
    }
}

/// The average is what stays, what waits and the bytes, each by a shift of integers.
#[test]
fn an_average_by_shifts_by_hand() {
    let links = Links { bits_per_second: 8_000_000_000, period_ns: Some(1 << 16), filter: Filter::Shifts };
    let mut averages = Averages::planned(links);
    averages.allocate();
    averages.set_queue_room(1 << 16);
    let mut at = |now_ns, queue, bytes| {
        let mut phv = Meta { now_ns, queue, bytes, ..Meta::default() };
        averages.packet(&mut phv);
        phv.utilisation
    };
    assert_eq!(at(1 << 20, 0, 1000), 1000 << 8);
    // No time has passed; then a quarter of T, half of it, 3 · 2¹³ ns that count as 2¹⁴ and as 2¹⁵, and T.
    assert_eq!(at(1 << 20, 5000, 24), 1024 << 8);
    assert_eq!(at((1 << 20) + (1 << 14), 4096, 0), (768 + 1024) << 8);
    assert_eq!(at((1 << 20) + (3 << 14), 0, 104), 1000 << 8);
    assert_eq!(at((1 << 20) + (3 << 14) + (3 << 13), 0, 0), 750 << 8);
    assert_eq!(at((1 << 20) + (3 << 14) + (6 << 13), 0, 0), 375 << 8);
    assert_eq!(at(3 << 20, 0, 60), 60 << 8);
}
