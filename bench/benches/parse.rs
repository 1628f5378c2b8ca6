//! The fast path's parser, over bursts of 64 frames that differ in addresses and ports.
//!
//! A sample is the fastest of its batches, each some ten microseconds long, so that other work on
//! the machine does not count.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir::wire::{Headers, Runt, parse};

const BURST: usize = 64;

/// Frames of 64 bytes in buffers 2 KB and some apart, as in a mempool.
struct Burst {
    pool: Vec<u8>,
    len: usize,
}

impl Burst {
    const STRIDE: usize = 2048 + 256 + 64;

    fn new(link: &[u8], ip: &[u8]) -> Self {
        let mut pool = vec![0; Self::STRIDE * BURST];
        for (i, buffer) in pool.chunks_exact_mut(Self::STRIDE).enumerate() {
            let i = i as u8;
            let macs = [2, 0, 0, 0, 0, i, 2, 0, 0, 0, 1, i];
            let frame = [&macs, link, ip, &[i, 1, 2, 3, 4, 5, 6, 7]].concat();
            buffer[..frame.len()].copy_from_slice(&frame);
        }
        Self { pool, len: 64.max(link.len() + ip.len() + 20) }
    }

    fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.pool.chunks_exact(Self::STRIDE).map(|buffer| &buffer[..self.len])
    }
}

const UDP4: [u8; 20] = [0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
const OPTIONS4: [u8; 24] = [0x46, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 0];

fn udp6(next: u8, extensions: &[u8]) -> Vec<u8> {
    let mut ip = [0x60, 0, 0, 0, 0, 8 + extensions.len() as u8, next, 64].to_vec();
    ip.extend([0x20; 32]);
    ip.extend(extensions);
    ip
}

fn run(c: &mut Criterion, name: &str, burst: &Burst, parser: impl Fn(&[u8], &mut Headers) -> Result<(), Runt>) {
    let mut headers = [Headers::default(); BURST];
    let mut group = c.benchmark_group("parse");
    group.throughput(Throughput::Elements(BURST as u64));
    group.bench_function(name, |b| {
        b.iter_custom(|bursts| {
            let batch = bursts.min(64);
            let fastest = (0..bursts.div_ceil(batch)).map(|_| {
                let start = Instant::now();
                for _ in 0..batch {
                    let both = black_box(burst).frames().zip(&mut headers);
                    black_box(both.filter_map(|(frame, headers)| parser(frame, headers).err()).count());
                    black_box(&headers);
                }
                start.elapsed()
            });
            fastest.min().unwrap_or_default().mul_f64(bursts as f64 / batch as f64)
        })
    });
}

fn benches(c: &mut Criterion) {
    let plain = Burst::new(&[8, 0], &UDP4);
    run(c, "ipv4 udp", &plain, parse);
    run(c, "ipv4 udp, one tag", &Burst::new(&[0x81, 0, 0, 5, 8, 0], &UDP4), parse);
    let shim = [0x88, 0xb5, 0, 0x40, 0, 0, 8, 0];
    run(c, "ipv4 udp, shim", &Burst::new(&shim, &UDP4), parse);
    run(c, "ipv4 udp, options", &Burst::new(&[8, 0], &OPTIONS4), parse);
    run(c, "ipv6 udp", &Burst::new(&[0x86, 0xdd], &udp6(17, &[])), parse);
    let chain = [60, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0];
    run(c, "ipv6 udp, two extensions", &Burst::new(&[0x86, 0xdd], &udp6(0, &chain)), parse);
    run(c, "other", &Burst::new(&[8, 6], &UDP4), parse);
}

criterion_group! {
    name = parse_bench;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = benches
}
criterion_main!(parse_bench);
