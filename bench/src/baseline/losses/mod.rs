//! The sketches that ChameleMon's paper compares on packet losses (§5.1), as that section sets them
//! up: 32-bit flow IDs, three hash functions, one sketch where packets enter a link and one where
//! they leave it. For figures only.
//!
//! Left open by the paper: whether the functions share one array of cells or have a third of it
//! each. Here a third each, which is what FermatSketch has, and what the memory that the authors'
//! programs need agrees with.

mod fermat;
mod flow_radar;
mod loss_radar;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

pub use fermat::{Fermat, FermatFingerprint, FermatSketch};
pub use flow_radar::FlowRadar;
pub use loss_radar::LossRadar;

use crate::heavy::{FoldHasher, slot};

/// Hash functions, and arrays of cells.
pub const ARRAYS: usize = 3;

/// Packets of each flow.
pub type Packets = HashMap<u32, i64, BuildHasherDefault<FoldHasher>>;

/// The cells of an item in arrays of `width` cells that lie one behind the other. A seed stands for
/// a choice of hash functions.
#[inline]
fn cells(item: u64, seed: u64, width: usize) -> [usize; ARRAYS] {
    std::array::from_fn(|array| array * width + slot(item ^ seed, array, width))
}

#[cfg(test)]
mod tests;
