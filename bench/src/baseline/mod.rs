//! The algorithms that HashPipe is compared with, as its paper describes them (§3, §5.3), and in [`losses`] those that find lost
//! packets. For figures only.

mod count_min;
mod hash_parallel;
pub mod losses;
mod sample_and_hold;
mod space_saving;

pub use count_min::CountMin;
pub use hash_parallel::HashParallel;
pub use sample_and_hold::SampleAndHold;
pub use space_saving::SpaceSaving;

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
mod tests;
