//! From digests to a path.

use std::time::{Duration, Instant};

use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::{Code, Coded, MAX_CODED_HOPS};
use weir::program::pint::encoding::Layers;
use weir::program::pint::inference::{Inference, Universe};
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

/// What a path takes until it is decided: packets, and the time that inference takes of a core.
struct Taken {
    packets: usize,
    time: Duration,
}

pub fn run(runs: usize, switches: usize, seed: u64) {
    println!("Inference of a path out of {switches} switches until it is decided, {runs} runs each.\n");
    println!("| bits | switches on the path | packets, mean | µs, median | µs, 99 % | µs a packet | µs a switch |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (bits, instances) in [(8, 2), (4, 1)] {
        let mut points = Vec::new();
        for length in LENGTHS {
            let taken = measure(runs, [bits, instances], switches, length, seed);
            let packets = taken.iter().map(|taken| taken.packets).sum::<usize>() as f64 / taken.len() as f64;
            let Times { median, tail } = Times::of(taken.iter().map(|taken| taken.time).collect());
            let [median, tail] = [median, tail].map(micros);
            let (each, hop) = (median / packets, median / length as f64);
            println!(
                "| {instances} × {bits} | {length} | {packets:.1} | {median:.1} | {tail:.1} | {each:.2} | {hop:.2} |"
            );
            points.push((length, packets, median));
        }
        points.retain(|(length, ..)| *length >= FIT_FROM);
        let by_length = exponent(points.iter().map(|(length, _, time)| (*length as f64, *time)));
        let by_packets = exponent(points.iter().map(|(_, packets, time)| (*packets, *time)));
        println!("| {instances} × {bits} | exponent {by_length:.2} | of packets {by_packets:.2} | | | | |");
    }
}

/// Random paths through this many of the switches, their codes made for the length.
fn measure(runs: usize, [bits, instances]: [u32; 2], switches: usize, length: usize, seed: u64) -> Vec<Taken> {
    let code = Code::new(bits, instances, &Layers::of_length(length as u32), &HashFamily::reproducible(seed));
    let ids: Vec<_> = (0..switches as u32).map(|id| id.wrapping_mul(0x9e37_79b9)).collect();
    let universe = Universe::new(&code, ids.iter().copied(), None);
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
            let mut inference = Inference::new(&code, &universe, length);
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
