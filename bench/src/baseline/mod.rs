//! The algorithms that HashPipe (its §3, §5.3) and ChameleMon (its appendix C) are compared with,
//! and in [`losses`] those that find lost packets. For figures only.

mod cm;
mod coco;
mod count_heap;
mod count_min;
mod elastic;
mod fcm;
mod hash_parallel;
pub mod losses;
mod mrac;
mod pipe;
mod sample_and_hold;
mod space_saving;
mod top;
mod univmon;

pub use cm::{Cm, Cu};
pub use coco::Coco;
pub use count_heap::{CountHeap, HEAP, ROWS as COUNT_ROWS};
pub use count_min::CountMin;
pub use elastic::Elastic;
pub use fcm::Fcm;
pub use hash_parallel::HashParallel;
pub use mrac::Mrac;
pub use pipe::PipeTable;
pub use sample_and_hold::SampleAndHold;
pub use space_saving::SpaceSaving;
pub use univmon::UnivMon;

use weir::wire::Tuple4;

/// A table slot; a count of 0 says empty.
#[derive(Clone, Copy, Default)]
struct Entry {
    key: Tuple4,
    count: u64,
}

fn occupied(entries: impl IntoIterator<Item = Entry>) -> Vec<(Tuple4, u64)> {
    entries.into_iter().filter(|e| e.count > 0).map(|e| (e.key, e.count)).collect()
}

#[cfg(test)]
mod summary_tests;
#[cfg(test)]
mod tests;
