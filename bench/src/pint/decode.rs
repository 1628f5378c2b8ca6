//! From digests to a path, with hops that are drawn by hashes and by bit vectors.

use std::time::{Duration, Instant};

use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::{Code, Coded, MAX_CODED_HOPS};
use weir::program::pint::encoding::Layers;
use weir::program::pint::inference::{Inference, Universe};
use weir::program::pint::query::PathActs;
use weir::trace::SplitMix64;

use super::{Times, micros};

/// Switches on the longest path.
pub const MAX_LENGTH: usize = MAX_CODED_HOPS;

const LENGTHS: [usize; 9] = [2, 5, 8, 16, 32, 62, 128, 192, MAX_LENGTH];

/// Lengths from this on make the fit: on shorter ones the first digest takes most of the time.
const FIT_FROM: usize = 8;

/// Times that each path is decoded. Of the times of a packet the least counts, because in the others
/// the kernel may have given the core to somebody else.
const REPETITIONS: usize = 3;

/// The forms of digests that are decoded: bits and instances.
const FORMS: [[u32; 2]; 2] = [[8, 2], [4, 1]];

/// Packets whose hops are read at once, and times that this is done: the least counts.
const READ_PACKETS: u32 = 2000;
const READ_TIMES: usize = 20;

/// Lengths whose packets are counted, families of hashes and paths of each for one run.
const COUNTED: [usize; 3] = [5, 25, 59];
const FAMILIES: u64 = 10;

/// The code of paths of about `length` switches.
fn code(acts: PathActs, [bits, instances]: [u32; 2], length: usize, seed: u64) -> Code {
    let code = Code::new(bits, instances, &Layers::of_length(length as u32, bits), &HashFamily::reproducible(seed));
    if acts == PathActs::Vectors { code.with_vectors() } else { code }
}

/// What a path takes until it is decided: packets, and the time that inference takes of a core.
struct Taken {
    packets: usize,
    time: Duration,
}

pub fn run(runs: usize, switches: usize, seed: u64) {
    println!("Inference of a path out of {switches} switches until it is decided, {runs} runs each.\n");
    println!(
        "| acts | bits | switches on the path | packets, mean | µs, median | µs, 99 % | µs a packet | µs a switch |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (acts, [bits, instances]) in PathActs::ALL.into_iter().flat_map(|acts| FORMS.map(|form| (acts, form))) {
        let mut points = Vec::new();
        let name = acts.name();
        for length in LENGTHS {
            let taken = measure(runs, &code(acts, [bits, instances], length, seed), switches, length, seed);
            let packets = taken.iter().map(|taken| taken.packets).sum::<usize>() as f64 / taken.len() as f64;
            let Times { median, tail } = Times::of(taken.iter().map(|taken| taken.time).collect());
            let [median, tail] = [median, tail].map(micros);
            let (each, hop) = (median / packets, median / length as f64);
            println!(
                "| {name} | {instances} × {bits} | {length} | {packets:.1} | {median:.1} | {tail:.1} | {each:.2} | \
                 {hop:.2} |"
            );
            points.push((length, packets, median));
        }
        points.retain(|(length, ..)| *length >= FIT_FROM);
        let by_length = exponent(points.iter().map(|(length, _, time)| (*length as f64, *time)));
        let by_packets = exponent(points.iter().map(|(_, packets, time)| (*packets, *time)));
        println!("| {name} | {instances} × {bits} | exponent {by_length:.2} | of packets {by_packets:.2} | | | | |");
    }
    read(seed);
    count(runs, switches, seed);
}

/// How long it takes to find the hops that wrote a packet.
fn read(seed: u64) {
    println!("\nHops that wrote a packet of 2 × 8 bits: ns a packet, the least of {READ_TIMES}.\n");
    println!("| switches on the path | hashes | vectors |");
    println!("| --- | --- | --- |");
    for length in LENGTHS {
        let times = PathActs::ALL.map(|acts| {
            let code = code(acts, FORMS[0], length, seed);
            let once = || {
                let started = Instant::now();
                let written: usize = (0..READ_PACKETS)
                    .map(|packet| packet.wrapping_mul(0x9e37_79b9))
                    .flat_map(|packet| [0, 1].map(|instance| code.read(instance, length, packet, 0)))
                    .map(|read| read.map_or(0, |read| read.hops.len()))
                    .sum();
                assert!(std::hint::black_box(written) > 0);
                started.elapsed()
            };
            let least = (0..READ_TIMES).map(|_| once()).min().unwrap_or_default();
            least.as_secs_f64() * 1e9 / f64::from(READ_PACKETS)
        });
        println!("| {length} | {:.0} | {:.0} |", times[0], times[1]);
    }
}

/// Packets that paths take in both forms.
fn count(runs: usize, switches: usize, seed: u64) {
    let paths = runs * FAMILIES as usize;
    println!(
        "\nPackets until a path is decided, {paths} paths with {FAMILIES} families of hashes: mean ± its \
              standard error, median, 99 %.\n"
    );
    println!("| bits | switches on the path | hashes | vectors |");
    println!("| --- | --- | --- | --- |");
    for ([bits, instances], length) in FORMS.into_iter().flat_map(|form| COUNTED.map(|length| (form, length))) {
        let told = PathActs::ALL.map(|acts| {
            let of = |family| {
                let code = code(acts, [bits, instances], length, seed + family);
                measure(runs, &code, switches, length, seed + family).into_iter().map(|taken| taken.packets)
            };
            let mut packets: Vec<usize> = (0..FAMILIES).flat_map(of).collect();
            packets.sort_unstable();
            let number = packets.len() as f64;
            let mean = packets.iter().sum::<usize>() as f64 / number;
            let variance = packets.iter().map(|taken| (*taken as f64 - mean).powi(2)).sum::<f64>() / number;
            let at = |share: f64| packets[((share * number).ceil() as usize).clamp(1, packets.len()) - 1];
            format!("{mean:.2} ± {:.2}, {}, {}", (variance / number).sqrt(), at(0.5), at(0.99))
        });
        println!("| {instances} × {bits} | {length} | {} | {} |", told[0], told[1]);
    }
}

/// Random paths through this many of the switches.
fn measure(runs: usize, code: &Code, switches: usize, length: usize, seed: u64) -> Vec<Taken> {
    let ids: Vec<_> = (0..switches as u32).map(|id| id.wrapping_mul(0x9e37_79b9)).collect();
    let universe = Universe::new(code, ids.iter().copied(), None);
    let coded: Vec<Coded> = ids.iter().map(|id| code.switch(*id)).collect();
    let mut rng = SplitMix64::new(seed);
    let run = |_| {
        let mut path = Vec::with_capacity(length);
        while path.len() < length {
            let next = rng.below(switches as u64) as usize;
            if !path.contains(&next) {
                path.push(next);
            }
        }
        let on_path: Vec<_> = path.iter().map(|switch| coded[*switch].clone()).collect();
        let mut packets = Vec::new();
        let mut times: Vec<Duration> = Vec::new();
        for repetition in 0..REPETITIONS {
            let mut inference = Inference::new(code, &universe, length);
            for number in 0.. {
                if repetition == 0 {
                    let identity = rng.next_u64() as u32;
                    packets.push((identity, code.digest(&on_path, identity)));
                    times.push(Duration::MAX);
                }
                let (identity, digest) = packets[number];
                let started = Instant::now();
                inference.add(identity, digest);
                let found = inference.path();
                times[number] = times[number].min(started.elapsed());
                if let Some(found) = found {
                    assert_eq!(found, path, "a decided path is the true one");
                    break;
                }
            }
        }
        Taken { packets: packets.len(), time: times.into_iter().sum() }
    };
    (0..runs).map(run).collect()
}

/// The exponent of the power that fits best: least squares of logarithms.
fn exponent(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let logs = points.map(|(x, y)| (x.ln(), y.ln()));
    let number = logs.clone().count() as f64;
    let [x, y] = [logs.clone().map(|log| log.0).sum::<f64>(), logs.clone().map(|log| log.1).sum::<f64>()];
    let (x, y) = (x / number, y / number);
    let along = logs.clone().map(|log| (log.0 - x) * (log.1 - y)).sum::<f64>();
    along / logs.map(|log| (log.0 - x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_is_that_of_the_power() {
        let points = [1.0, 2.0, 8.0, 64.0].map(|x: f64| (x, 3.0 * x.powf(1.25)));
        assert!((exponent(points.into_iter()) - 1.25).abs() < 1e-9);
    }
}
