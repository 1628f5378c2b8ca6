//! How many counters of a record have which magnitude: what a query has to know of those that it does not
//! read.

use super::config::{Rho, SketchKind};
use super::equalise;
use crate::program::bytes::{Reader, Writer};

/// Magnitudes that have a class of their own; larger ones share one with others, four to an octave.
const EXACT: u32 = 32;
pub const CLASSES: usize = (EXACT + 4 * (u32::BITS - EXACT.ilog2())) as usize;

pub fn class(magnitude: u32) -> usize {
    if magnitude < EXACT {
        return magnitude as usize;
    }
    let octave = magnitude.ilog2();
    (EXACT + 4 * (octave - EXACT.ilog2()) + (magnitude >> (octave - 2) & 3)) as usize
}

/// Number of magnitudes of a class.
pub fn breadth(class: usize) -> f64 {
    let class = class as u32;
    if class < EXACT { 1.0 } else { f64::from((class - EXACT) / 4 + EXACT.ilog2() - 2).exp2() }
}

/// The counters of a record, by class of their magnitude.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Numbers of counters up to the last class that has any, as LEB128 numbers.
    numbers: Box<[u8]>,
    /// Equation 4: the root mean square of the counters.
    pub deviation: f64,
    /// The sum of the counters' magnitudes.
    pub total: u64,
    pub width: u64,
}

impl Histogram {
    pub fn of(counters: &[i32]) -> Self {
        let mut numbers = [0u32; CLASSES];
        for counter in counters {
            numbers[class(counter.unsigned_abs())] += 1;
        }
        let used = numbers.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
        let mut bytes = Writer::default();
        numbers.iter().take(used).for_each(|number| bytes.number((*number).into()));
        Self {
            numbers: bytes.0.into(),
            deviation: equalise::error(SketchKind::Count, Rho::Paper, counters),
            total: counters.iter().map(|counter| u64::from(counter.unsigned_abs())).sum(),
            width: counters.len() as u64,
        }
    }

    /// Number of counters of each class.
    pub fn numbers(&self) -> [u32; CLASSES] {
        let mut from = Reader::new(&self.numbers);
        std::array::from_fn(|_| if from.remaining() > 0 { from.u32("counters").unwrap_or_default() } else { 0 })
    }

    /// Memory on the heap, in bytes.
    pub fn bytes(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes of magnitude cover all numbers, each once.
    #[test]
    fn every_magnitude_has_a_class() {
        let mut last = 0;
        for magnitude in (0..5000).chain([1 << 20, 1 << 31, u32::MAX]) {
            let class = class(magnitude);
            assert!(class == last || class == last + 1 || magnitude >= 5000);
            last = class;
        }
        assert_eq!(last, CLASSES - 1);
        let total: f64 = (0..CLASSES).map(breadth).sum();
        assert_eq!(total, 2f64.powi(32));
    }

    /// Every counter is in the class of its magnitude, and few classes take few bytes.
    #[test]
    fn numbers_are_those_of_the_counters() {
        let counters: Vec<i32> = (0..1000).map(|at| if at % 3 == 0 { 0 } else { at - 500 }).chain([i32::MIN]).collect();
        let histogram = Histogram::of(&counters);
        for (at, number) in histogram.numbers().into_iter().enumerate() {
            let right = counters.iter().filter(|counter| class(counter.unsigned_abs()) == at).count();
            assert_eq!(number as usize, right);
        }
        assert_eq!((histogram.width, histogram.bytes()), (1001, CLASSES + 1 - 3));
        assert_eq!(Histogram::of(&[0; 99]).bytes(), 1);
        assert_eq!(Histogram::of(&[]).numbers(), [0; CLASSES]);
    }
}
