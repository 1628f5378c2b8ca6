//! Error equalisation (§4.2): a switch measures its own error at the end of an epoch, and cuts a later
//! one into more or fewer sub-epochs.

use super::config::{Rho, SketchKind};

/// The share of counters whose magnitude the robust measure is not below: one standard deviation of a
/// normal distribution.
const ROBUST_SHARE: f64 = 0.68;

/// A fragment's error over one sub-epoch, in packets or bytes. Equation 4, or the robust measure.
pub fn error(sketch: SketchKind, rho: Rho, counters: &[i32]) -> f64 {
    let width = counters.len().max(1) as f64;
    match (rho, sketch) {
        (Rho::Paper, SketchKind::Count | SketchKind::UnivMon) => {
            let squares: f64 = counters.iter().map(|&counter| f64::from(counter) * f64::from(counter)).sum();
            (squares / width).sqrt()
        }
        (Rho::Paper, SketchKind::CountMin) => counters.iter().map(|&counter| f64::from(counter)).sum::<f64>() / width,
        (Rho::Robust, _) => {
            let mut magnitudes: Vec<u32> = counters.iter().map(|counter| counter.unsigned_abs()).collect();
            let Some(last) = magnitudes.len().checked_sub(1) else { return 0.0 };
            let rank = (ROBUST_SHARE * last as f64).round() as usize;
            f64::from(*magnitudes.select_nth_unstable(rank).1)
        }
    }
}

/// Equation 6, with logarithms: sub-epochs are doubled where the error is more than twice the target,
/// and halved where it is less than half of it.
pub fn next_cuts(cuts: u32, error: f64, target: f64, most: u32) -> u32 {
    if error > 2.0 * target {
        (cuts + 1).min(most)
    } else if error < target / 2.0 {
        cuts.saturating_sub(1)
    } else {
        cuts.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_papers() {
        let counters = [3, -4, 0, 0];
        assert_eq!(error(SketchKind::Count, Rho::Paper, &counters), 2.5);
        assert_eq!(error(SketchKind::CountMin, Rho::Paper, &[3, 4, 0, 1]), 2.0);
        // One elephant does not change the robust measure.
        let mut counters: Vec<i32> = (0..100).map(|at| if at % 2 == 0 { at } else { -at }).collect();
        let without = error(SketchKind::Count, Rho::Robust, &counters);
        counters[99] = 1_000_000;
        assert_eq!((without, error(SketchKind::Count, Rho::Robust, &counters)), (67.0, 67.0));
        assert_eq!(error(SketchKind::Count, Rho::Robust, &[]), 0.0);
    }

    #[test]
    fn epochs_are_cut_by_equation_6() {
        assert_eq!(next_cuts(0, 4.1, 2.0, 6), 1);
        assert_eq!(next_cuts(6, 4.1, 2.0, 6), 6);
        assert_eq!((next_cuts(3, 4.0, 2.0, 6), next_cuts(3, 1.0, 2.0, 6)), (3, 3));
        assert_eq!((next_cuts(3, 0.9, 2.0, 6), next_cuts(0, 0.0, 2.0, 6)), (2, 0));
    }
}
