//! Times that are counted while others read them: sixteen cells an octave, so a quantile is right
//! to 3.2 %.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Cells of an octave, as a power of two.
const BITS: u32 = 4;
const PER_OCTAVE: usize = 1 << BITS;
/// Longer times count as 2³⁷ ns − 1, two minutes.
const LONGEST: u64 = (1 << 37) - 1;
const CELLS: usize = cell(LONGEST) + 1;

/// The cell of a time in nanoseconds.
#[inline(always)]
const fn cell(ns: u64) -> usize {
    if ns < PER_OCTAVE as u64 {
        return ns as usize;
    }
    let octave = 63 - ns.leading_zeros();
    (((octave - BITS + 1) as usize) << BITS) + ((ns >> (octave - BITS)) as usize & (PER_OCTAVE - 1))
}

/// The shortest time of a cell.
const fn first(cell: usize) -> u64 {
    if cell < PER_OCTAVE {
        return cell as u64;
    }
    ((PER_OCTAVE + cell % PER_OCTAVE) as u64) << (cell / PER_OCTAVE - 1)
}

/// Counts with one writer and any reader.
#[derive(Debug)]
pub struct LiveTimes {
    cells: [AtomicU64; CELLS],
    sum_ns: AtomicU64,
}

impl Default for LiveTimes {
    fn default() -> Self {
        Self { cells: [const { AtomicU64::new(0) }; CELLS], sum_ns: AtomicU64::new(0) }
    }
}

impl LiveTimes {
    #[inline(always)]
    pub fn record(&self, ns: u64) {
        self.record_n(ns, 1);
    }

    #[inline(always)]
    pub fn record_n(&self, ns: u64, n: u64) {
        let ns = ns.min(LONGEST);
        let cell = &self.cells[cell(ns)];
        // One writer: no read-modify-write is needed.
        cell.store(cell.load(Relaxed) + n, Relaxed);
        self.sum_ns.store(self.sum_ns.load(Relaxed).wrapping_add(ns.wrapping_mul(n)), Relaxed);
    }
}

/// Counts at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    cells: Box<[u64]>,
    sum_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { cells: vec![0; CELLS].into(), sum_ns: 0 }
    }
}

impl Times {
    /// The sum of several.
    pub fn of<'a>(all: impl Iterator<Item = &'a LiveTimes>) -> Self {
        let mut times = Self::default();
        for live in all {
            times.cells.iter_mut().zip(&live.cells).for_each(|(sum, cell)| *sum += cell.load(Relaxed));
            times.sum_ns = times.sum_ns.wrapping_add(live.sum_ns.load(Relaxed));
        }
        times
    }

    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// What came since an earlier moment.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let cells = self.cells.iter().zip(&before.cells).map(|(now, before)| now.saturating_sub(*before));
        Self { cells: cells.collect(), sum_ns: self.sum_ns.saturating_sub(before.sum_ns) }
    }

    /// The middle of the cell that has this quantile. `None` when nothing was counted.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let wanted = ((quantile * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let cell = self.cells.iter().position(|n| {
            seen += n;
            seen >= wanted
        })?;
        Some((first(cell) + first(cell + 1)) / 2)
    }

    /// Counts below powers of two: the bound in nanoseconds, and the times from the bound before on
    /// that are shorter.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        self.cells.chunks(PER_OCTAVE).zip(BITS..).map(|(cells, octave)| (1 << octave, cells.iter().sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_follow_each_other() {
        for at in 0..CELLS {
            assert_eq!((cell(first(at)), cell(first(at + 1) - 1)), (at, at));
        }
        assert_eq!(first(CELLS), LONGEST + 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_near(mut times in proptest::collection::vec(1u64..10_000_000_000, 1..500), at in 0.0f64..=1.0) {
            let live = LiveTimes::default();
            times.iter().for_each(|ns| live.record(*ns));
            let counted = Times::of([&live].into_iter());
            times.sort_unstable();
            let exact = times[((at * times.len() as f64).ceil() as usize).max(1) - 1] as f64;
            let told = counted.quantile_ns(at).unwrap() as f64;
            prop_assert!((told - exact).abs() <= exact * 0.0325 + 0.5, "{} {}", told, exact);
            prop_assert_eq!((counted.count(), counted.sum_ns()), (times.len() as u64, times.iter().sum()));
            for (bound, n) in counted.octaves() {
                let from = if bound == 16 { 0 } else { bound / 2 };
                prop_assert_eq!(n, times.iter().filter(|ns| (from..bound).contains(*ns)).count() as u64);
            }
        }
    }

    #[test]
    fn a_part_of_the_time() {
        let live = LiveTimes::default();
        live.record(100);
        let before = Times::of([&live].into_iter());
        live.record_n(u64::MAX, 3);
        let now = Times::of([&live].into_iter());
        assert_eq!((now.since(&before).count(), now.octaves().last()), (3, Some((1 << 37, 3))));
        assert_eq!(Times::default().quantile_ns(0.5), None);
    }
}
