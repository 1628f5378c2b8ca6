//! The count-min sketch (Cormode and Muthukrishnan 2005), and CU: the same with conservative update
//! (Estan and Varghese 2002).
//!
//! As ChameleMon's appendix C has them: 3 rows of 32-bit counters.

use weir::wire::Tuple4;

use crate::heavy::{fold, slot};
use crate::summary::Summary;

pub const ROWS: usize = 3;
const COUNTER_BYTES: usize = 4;

pub struct Cm<const CONSERVATIVE: bool> {
    rows: [Vec<u32>; ROWS],
    seed: u64,
}

/// Only the smallest of a flow's counters grow.
pub type Cu = Cm<true>;

impl<const CONSERVATIVE: bool> Cm<CONSERVATIVE> {
    pub fn new(bytes: usize, seed: u64) -> Self {
        let width = bytes / COUNTER_BYTES / ROWS;
        Self { rows: std::array::from_fn(|_| vec![0; width.max(1)]), seed }
    }

    fn slots(&self, key: Tuple4) -> [usize; ROWS] {
        let folded = fold(key) ^ self.seed;
        std::array::from_fn(|row| slot(folded, row, self.rows[row].len()))
    }

    fn min(&self, slots: &[usize; ROWS]) -> u32 {
        self.rows.iter().zip(slots).map(|(row, &slot)| row[slot]).min().unwrap_or(0)
    }
}

impl<const CONSERVATIVE: bool> Summary for Cm<CONSERVATIVE> {
    fn burst(&mut self, keys: &[Tuple4]) {
        for &key in keys {
            let slots = self.slots(key);
            let min = if CONSERVATIVE { self.min(&slots) } else { u32::MAX };
            for (row, slot) in self.rows.iter_mut().zip(slots) {
                if row[slot] <= min {
                    row[slot] += 1;
                }
            }
        }
    }

    fn size(&self, key: Tuple4) -> u64 {
        self.min(&self.slots(key)).into()
    }
}
