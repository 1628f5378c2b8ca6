//! The hash unit's forms, in time per burst of 64 keys: `cargo bench -p bench --features micro
//! --no-default-features --bench hash`.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use weir::pisa::hash::{Crc, Global, HashFamily, HighRange, IndexBank, LANES, Lanes, Polynomial, Range};
use weir::wire::{FlowKey, Tuple4};

const BURST: usize = 64;

fn keys<const N: usize>() -> [[u8; N]; BURST] {
    std::array::from_fn(|k| std::array::from_fn(|i| (k * 167 + i * 59) as u8))
}

/// Times batches of 16 bursts and takes the median batch, so that being preempted on a busy machine
/// does not count.
fn time(group: &mut BenchmarkGroup<WallTime>, name: String, mut burst: impl FnMut()) {
    const BATCH: u32 = 16;
    group.bench_function(name, |b| {
        b.iter_custom(|bursts| {
            let mut batch = || {
                let start = Instant::now();
                (0..BATCH).for_each(|_| burst());
                start.elapsed()
            };
            let mut batches: Vec<Duration> = (0..bursts.div_ceil(u64::from(BATCH))).map(|_| batch()).collect();
            batches.sort();
            batches[batches.len() / 2].mul_f64(bursts as f64 / f64::from(BATCH))
        })
    });
}

/// Independent keys.
fn single<const N: usize>(group: &mut BenchmarkGroup<WallTime>, name: &str, crc: &Crc) {
    let keys = keys::<N>();
    time(group, format!("{name}/{N}"), || {
        black_box(black_box(&keys).iter().fold(0u32, |sum, key| sum.wrapping_add(crc.hash(key))));
    });
}

/// Each key waits for the hash before it, as in a stage whose key is what the last stage gave out:
/// the latency.
fn chain(group: &mut BenchmarkGroup<WallTime>, name: &str, crc: &Crc) {
    let keys: [u128; BURST] = std::array::from_fn(|k| k as u128 * 0x9e37_79b9_7f4a_7c15);
    time(group, format!("{name}-chain/13"), || {
        let last = black_box(&keys).iter().fold(0, |last, key| crc.hash(&Tuple4(*key ^ u128::from(last)).bytes()));
        black_box(last);
    });
}

fn singles(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc");
    group.throughput(Throughput::Elements(BURST as u64));
    let polynomial = HashFamily::reproducible(1).derive("bench", 0);
    for (name, crc) in [("fastest", Crc::new(polynomial)), ("portable", Crc::portable(polynomial))] {
        single::<4>(&mut group, name, &crc);
        single::<8>(&mut group, name, &crc);
        single::<13>(&mut group, name, &crc);
        single::<16>(&mut group, name, &crc);
        single::<32>(&mut group, name, &crc);
        single::<37>(&mut group, name, &crc);
        chain(&mut group, name, &crc);
    }
}

fn sixteen<const N: usize>(group: &mut BenchmarkGroup<WallTime>, name: &str, bank: &IndexBank) {
    let keys = keys::<N>();
    let mut out = Lanes::default();
    time(group, format!("{name}/{N}"), || {
        bank.hash_burst(black_box(&keys), BURST, &mut out);
        black_box(&mut out);
    });
}

fn banks(c: &mut Criterion) {
    let mut group = c.benchmark_group("bank");
    group.throughput(Throughput::Elements(BURST as u64));
    let family = HashFamily::reproducible(1);
    let all: Vec<_> = (0..LANES as u32).map(|i| family.derive("bench", i)).collect();
    let (shared, own) = (all[0], &all[1..]);
    let forms = [
        ("fastest", IndexBank::new as fn(Polynomial, &[Polynomial]) -> IndexBank),
        ("without-gfni", IndexBank::without_affine),
        ("portable", IndexBank::portable),
    ];
    for (name, form) in forms {
        for used in [4, 8, 12] {
            sixteen::<13>(&mut group, &format!("{name}-{used}"), &form(shared, &own[..used - 1]));
        }
        let bank = form(shared, own);
        sixteen::<4>(&mut group, name, &bank);
        sixteen::<8>(&mut group, name, &bank);
        sixteen::<13>(&mut group, name, &bank);
        sixteen::<16>(&mut group, name, &bank);
        sixteen::<32>(&mut group, name, &bank);
        sixteen::<37>(&mut group, name, &bank);
    }
}

fn rest(c: &mut Criterion) {
    let mut group = c.benchmark_group("rest");
    group.throughput(Throughput::Elements(BURST as u64));
    let words: [u32; BURST] = std::array::from_fn(|i| i as u32 * 0x9e37_79b9);
    for slots in [4096, 750] {
        let slots = NonZeroU32::new(slots).unwrap();
        let range = Range::new(slots);
        time(&mut group, format!("range/{slots}"), || {
            let range = black_box(range);
            black_box(black_box(&words).iter().fold(0u32, |sum, &h| sum.wrapping_add(range.index(h))));
        });
        let range = HighRange::new(slots, 2);
        time(&mut group, format!("high-range/{slots}"), || {
            let range = black_box(range);
            black_box(black_box(&words).iter().fold(0u32, |sum, &h| sum.wrapping_add(range.slot(h))));
        });
    }
    let family = HashFamily::reproducible(1);
    let global = Global::derive(&family, "bench", 0);
    let hop = global.argument(&[5]);
    time(&mut group, "global-join".to_string(), || {
        black_box(black_box(&words).iter().fold(0u32, |sum, &packet| sum.wrapping_add(global.join(packet, hop))));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .without_plots();
    targets = singles, banks, rest
}
criterion_main!(benches);
