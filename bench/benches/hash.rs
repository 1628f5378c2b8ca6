//! The hash unit's forms, in time per burst of 64 keys: `cargo bench -p bench --no-default-features --bench hash`.

use std::hint::black_box;
use std::num::NonZeroU32;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use weir::pisa::hash::{Crc, CrcBank, Global, LANES, Polynomials, Range};

const BURST: usize = 64;

fn keys<const N: usize>() -> [[u8; N]; BURST] {
    std::array::from_fn(|k| std::array::from_fn(|i| (k * 167 + i * 59) as u8))
}

/// Independent keys, and a chain in which each key holds the hash before it, as when one stage waits for the last.
fn single<const N: usize>(group: &mut BenchmarkGroup<WallTime>, name: &str, crc: &Crc) {
    let keys = keys::<N>();
    group.bench_function(format!("{name}/{N}"), |b| {
        b.iter(|| black_box(&keys).iter().fold(0u32, |sum, key| sum.wrapping_add(crc.hash(key))))
    });
    group.bench_function(format!("{name}-chain/{N}"), |b| {
        b.iter(|| {
            black_box(&keys).iter().fold(0u8, |last, key| {
                let mut key = *key;
                key[N - 1] ^= last;
                crc.hash(&key) as u8
            })
        })
    });
}

fn singles(c: &mut Criterion) {
    let mut group = c.benchmark_group("crc");
    group.throughput(Throughput::Elements(BURST as u64));
    let polynomial = Polynomials::reproducible(1).get(0);
    for (name, crc) in [("fastest", Crc::new(polynomial)), ("portable", Crc::portable(polynomial))] {
        single::<4>(&mut group, name, &crc);
        single::<8>(&mut group, name, &crc);
        single::<13>(&mut group, name, &crc);
        single::<16>(&mut group, name, &crc);
        single::<32>(&mut group, name, &crc);
        single::<37>(&mut group, name, &crc);
    }
}

fn sixteen<const N: usize>(group: &mut BenchmarkGroup<WallTime>, name: &str, bank: &CrcBank) {
    let keys = keys::<N>();
    let mut out = [[0; LANES]; BURST];
    group.bench_function(format!("{name}/{N}"), |b| {
        b.iter(|| {
            bank.hash_burst(black_box(&keys), &mut out);
            black_box(&mut out);
        })
    });
}

fn banks(c: &mut Criterion) {
    let mut group = c.benchmark_group("bank");
    group.throughput(Throughput::Elements(BURST as u64));
    let family = Polynomials::reproducible(1);
    let sixteen_of = &family.as_slice()[..LANES];
    for (name, bank) in [("fastest", CrcBank::new(sixteen_of)), ("portable", CrcBank::portable(sixteen_of))] {
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
        let range = Range::new(NonZeroU32::new(slots).unwrap());
        group.bench_function(format!("range/{slots}"), |b| {
            b.iter(|| black_box(&words).iter().fold(0u32, |sum, &h| sum.wrapping_add(black_box(range).index(h))))
        });
    }
    let family = Polynomials::reproducible(1);
    let global = Global::new([0, 1, 2, 3].map(|i| family.get(i)));
    let hop = global.argument(&[5]);
    group.bench_function("global-join", |b| {
        b.iter(|| black_box(&words).iter().fold(0u32, |sum, &packet| sum.wrapping_add(global.join(packet, hop))))
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(300)).measurement_time(std::time::Duration::from_secs(1));
    targets = singles, banks, rest
}
criterion_main!(benches);
