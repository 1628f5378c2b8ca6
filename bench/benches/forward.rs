//! The forwarding tables, in time per burst of 64 packets: `cargo bench -p bench --features micro
//! --no-default-features --bench forward`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use weir::forward::learn::{Config, Control};
use weir::forward::{Forward, Xconnect};
use weir::pisa::Phv;
use weir::pisa::hash::HashFamily;
use weir::wire::{Headers, Mac};

const BURST: usize = 64;

/// MAC addresses in pairs, on port 0 and port 1.
fn burst(macs: usize, first: usize) -> Vec<Phv> {
    let mac = |i: usize| Mac([2, 0, 0, 0, (i >> 8) as u8, i as u8]);
    let frame = |i: usize| {
        let mac_number = (first + i) % macs;
        let headers = Headers { src: mac(mac_number), dst: mac(mac_number ^ 1), ..Headers::default() };
        Phv { headers, ingress: (mac_number % 2) as u16, ..Phv::default() }
    };
    (0..BURST).map(frame).collect()
}

/// A learning switch that knows `macs`.
fn learned(macs: usize) -> Forward {
    let mut control = Control::new(Config::default(), HashFamily::reproducible(1).derive("bench", 0));
    let mut learn = control.dataplane();
    for first in (0..macs).step_by(BURST) {
        learn.decide(&mut burst(macs, first), 0);
        control.serve(0);
    }
    Forward::Learn(learn)
}

fn forward(c: &mut Criterion) {
    let mut group = c.benchmark_group("forward");
    group.throughput(Throughput::Elements(BURST as u64));
    let xconnect = Forward::Xconnect(Xconnect::new(&[(0, 1)]).unwrap());
    let cases = [("xconnect", xconnect, 2), ("learn-2", learned(2), 2), ("learn-8192", learned(8192), 8192)];
    for (name, mut forward, macs) in cases {
        let mut bursts: Vec<Vec<Phv>> = (0..macs.max(BURST)).step_by(BURST).map(|first| burst(macs, first)).collect();
        group.bench_function(name, |b| {
            b.iter_custom(|rounds| {
                // The median burst, so that being preempted on a busy machine does not count.
                let mut one = |round: u64| {
                    let index = round as usize % bursts.len();
                    let start = Instant::now();
                    forward.decide(black_box(&mut bursts[index]), 1);
                    start.elapsed()
                };
                let mut times: Vec<Duration> = (0..rounds).map(&mut one).collect();
                times.sort();
                times[times.len() / 2] * rounds as u32
            })
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .without_plots();
    targets = forward
}
criterion_main!(benches);
