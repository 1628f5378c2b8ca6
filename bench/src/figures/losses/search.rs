//! How often a sketch decodes, and the least length of its arrays with which it does in 99.9 % of
//! trials.

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// What a search found, in cells an array.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    pub width: usize,
    /// The longest arrays that did not do.
    pub too_short: usize,
    pub trials: u32,
    pub failures: u32,
}

/// Sketches of fewer items fail less and less the longer they are, slowly; larger ones have a sharp
/// threshold.
const FEW: usize = 3000;

/// Lengths this close to each other, as a share, are not told apart.
fn resolution(items: usize) -> f64 {
    if items < FEW { 0.02 } else { 0.004 }
}

/// Trials for a sketch of so many items: fewer for large ones, for which 99 and 99.9 % lie no
/// further apart than the resolution. Below a thousand trials none may fail.
pub fn trials(max: u32, items: usize) -> u32 {
    (1000 * max as usize / items.max(1)).clamp(MIN_TRIALS.min(max as usize), max as usize) as u32
}

const MIN_TRIALS: usize = 300;

/// The trials of numbers below `trials` that fail, on all cores. Once more than `max` did, the rest
/// is left out.
pub fn failures(trials: u32, max: u32, decodes: impl Fn(u64) -> bool + Sync) -> u32 {
    let (next, failed) = (AtomicU32::new(0), AtomicU32::new(0));
    let work = || {
        while failed.load(Ordering::Relaxed) <= max {
            let trial = next.fetch_add(1, Ordering::Relaxed);
            if trial >= trials {
                break;
            }
            if !decodes(trial.into()) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    failed.into_inner()
}

/// The least length of three arrays that take `items`, of which `decodes(length, trial)` in 99.9 %
/// of the trials.
pub fn min(items: usize, trials: u32, decodes: impl Fn(usize, u64) -> bool + Sync) -> Least {
    let max = trials / 1000;
    let failures = |width| failures(trials, max, |trial| decodes(width, trial));
    let (mut low, mut high) = bracket(items);
    let mut found = None;
    loop {
        while high - low > 1.max((high as f64 * resolution(items)) as usize) {
            let middle = (((low * high) as f64).sqrt() as usize).clamp(low + 1, high - 1);
            match failures(middle) {
                failed if failed > max => low = middle,
                failed => (high, found) = (middle, Some(failed)),
            }
        }
        match found {
            Some(failures) => return Least { width: high, too_short: low, trials, failures },
            None => (low, high) = (high, 2 * high),
        }
    }
}

/// A length below the peeling threshold of 1.22 cells an item, and one above both it and the length
/// with which two items share all three cells once in a thousand times.
fn bracket(items: usize) -> (usize, usize) {
    let n = items as f64;
    let twins = (n * n / 2.0 / 0.001).cbrt();
    ((n * 1.21 / 3.0) as usize, (n * 1.27 / 3.0).max(1.15 * twins) as usize + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_found() {
        // 1 in 2000 fails whatever the length, all below 4150.
        let found = min(10_000, 4000, |width, trial| width >= 4150 && trial % 2000 != 7);
        assert!((4150..4168).contains(&found.width) && found.too_short < 4150, "{found:?}");
        assert_eq!((found.trials, found.failures), (4000, 2));
        let beyond = min(10, 1000, |width, _| width >= 5000);
        assert!((5000..5101).contains(&beyond.width), "{beyond:?}");
        assert_eq!(failures(5000, 5000, |trial| trial % 5 > 0), 1000);
        assert!((6..10).contains(&failures(5000, 5, |trial| trial % 5 > 0)));
    }

    #[test]
    fn large_sketches_take_fewer_trials() {
        assert_eq!([100, 4000, 400_000].map(|items| trials(10_000, items)), [10_000, 2500, 300]);
        assert_eq!(trials(50, 400_000), 50);
    }
}
