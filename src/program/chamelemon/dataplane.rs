//! ChameleMon's stateful ALUs, and the match-action tables between them (§3.2, appendix D.1,
//! Algorithm 3).

use std::marker::PhantomData;

use arrayvec::ArrayVec;

use super::field::P;
use super::id::FRAGMENTS;
use crate::pisa::hash::{HighRange, LANES};
use crate::pisa::{GroupSalu, Salu, Slot, Word};

/// Most counter arrays of the classifier.
pub const MAX_LEVELS: usize = 8;
/// Most bucket arrays of an encoder, a small one included.
pub const MAX_ROWS: usize = 5;

/// What the first switch took a packet for, and the two bits that tell the last switch of it.
pub mod class {
    /// Not encoded: not measured, or a light-loss candidate that is not sampled.
    pub const NONE: u8 = 0;
    /// A sampled light-loss candidate.
    pub const LL: u8 = 1;
    /// A heavy-loss candidate.
    pub const HL: u8 = 2;
    /// A heavy-hitter candidate. No packet carries it: it leaves as a heavy-loss candidate, and
    /// carries that.
    pub const HH: u8 = 3;
    /// In packets: one of several. It is counted where it leaves, and encoded nowhere.
    pub use crate::wire::shim::SEVERAL;
}

/// The PHV as ChameleMon sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The index hashes of the flow's ID: for arrays and rows, fingerprint, sampling.
    pub bases: [u32; LANES],
    /// The additive inverses modulo p of the ID's fragments.
    pub inverses: [u32; FRAGMENTS],
    /// The flow's size by the classifier; before it the largest number.
    pub estimate: u32,
    /// The bucket in each row.
    pub buckets: [u32; MAX_ROWS],
    /// Whether the encoder takes the packet.
    pub encoded: bool,
}

impl Meta {
    #[inline(always)]
    pub fn new(bases: [u32; LANES], fragments: [u32; FRAGMENTS]) -> Self {
        let inverses = fragments.map(|fragment| P - fragment);
        Self { bases, inverses, estimate: u32::MAX, ..Self::default() }
    }

    /// A lane of the hash units. Only four bits of a lane's number count.
    #[inline(always)]
    fn base(&self, lane: usize) -> u32 {
        self.bases[lane & (LANES - 1)]
    }
}

/// A saturating counter of the classifier. All ones is infinity.
pub trait Counter: Word {
    fn incremented(self) -> Self;
    fn size(self) -> u32;
}

macro_rules! counter {
    ($word:ty) => {
        impl Counter for $word {
            #[inline(always)]
            fn incremented(self) -> Self {
                self.saturating_add(1)
            }

            #[inline(always)]
            fn size(self) -> u32 {
                if self == Self::MAX { u32::MAX } else { self.into() }
            }
        }
    };
}

counter!(u8);
counter!(u16);
counter!(u32);

/// One counter array of the TowerSketch. What it reports is the count with this packet.
#[derive(Clone, Copy, Debug)]
pub struct Tower<C> {
    lane: u8,
    range: HighRange,
    counter: PhantomData<fn() -> C>,
}

impl<C> Tower<C> {
    pub fn new(lane: u8, range: HighRange) -> Self {
        Self { lane, range, counter: PhantomData }
    }
}

impl<C: Counter> Salu for Tower<C> {
    type Phv = Meta;
    type Cell = C;
    type Out = u32;
    const DECIDES: bool = true;

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(self.range.slot(phv.base(self.lane.into())))
    }

    #[inline(always)]
    fn rmw(&self, cell: C, _: &Meta) -> (C, u32) {
        let next = cell.incremented();
        (next, next.size())
    }

    #[inline(always)]
    fn commit(&self, out: u32, phv: &mut Meta) {
        phv.estimate = phv.estimate.min(out);
    }

    fn describe(&self, out: &u32) -> String {
        if *out == u32::MAX { "more than it can say".into() } else { format!("a size of {out}") }
    }
}

/// reg + fragment modulo p, within 32 bits (Algorithm 3), from the fragment's inverse p − f. The
/// paper compares reg + f < p; the same comparison without a sum that could overflow is reg < p −
/// f, which is the borrow of reg − (p − f). No branch: which way it goes is not to be predicted.
#[inline(always)]
pub fn add(reg: u32, inverse: u32) -> u32 {
    let (sum, below) = reg.overflowing_sub(inverse);
    sum.wrapping_add(P & u32::from(below).wrapping_neg())
}

/// Counters of a bucket: the sums of the ID's fragments, and the count of packets.
pub const COUNTERS: usize = FRAGMENTS + 1;

/// The bucket arrays of the row with this number.
#[derive(Clone, Copy, Debug)]
pub struct Row(pub u8);

impl GroupSalu<COUNTERS> for Row {
    type Phv = Meta;
    type Cell = u32;

    #[inline(always)]
    fn enabled(&self, phv: &Meta) -> bool {
        phv.encoded
    }

    /// A row past [`MAX_ROWS`] touches nothing.
    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(phv.buckets.get(usize::from(self.0)).copied().unwrap_or(u32::MAX))
    }

    #[inline(always)]
    fn rmw(&self, array: usize, cell: u32, phv: &Meta) -> u32 {
        match phv.inverses.get(array) {
            Some(&inverse) => add(cell, inverse),
            None => cell.wrapping_add(1),
        }
    }
}

/// Where one row of a part lies, and how an index hash becomes a bucket of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub offset: u32,
    pub range: HighRange,
}

impl Place {
    #[inline(always)]
    pub fn bucket(&self, base: u32) -> u32 {
        self.offset + self.range.slot(base)
    }
}

/// The rows of one part of an encoder; none when it has no memory.
pub type Part = ArrayVec<Place, MAX_ROWS>;

/// Whether a light-loss candidate is sampled: its hash's upper 16 bits against the threshold.
#[inline(always)]
pub fn samples(hash: u32, threshold: u32, seed: u16) -> bool {
    hash >> 16 ^ u32::from(seed) < threshold
}

/// The tables behind the classifier.
#[derive(Clone, Debug)]
pub struct ClassTable {
    pub hh_threshold: u32,
    pub hl_threshold: u32,
    pub sample: u32,
    pub sample_seed: u16,
    /// The hash lane that samples.
    pub sample_lane: u8,
    /// The hash lane of the first row; the others follow.
    pub row_lane: u8,
    /// The parts by class.
    pub parts: [Part; 4],
    /// What a packet of each class carries on: none where no part counts it when it leaves.
    pub carried: [u8; 4],
}

impl ClassTable {
    /// What packets carry on, by class. Heavy-hitter candidates leave as heavy-loss candidates.
    pub fn carried(parts: &[Part; 4]) -> [u8; 4] {
        let counted = |part: u8| !parts[usize::from(part & 3)].is_empty();
        let carried = |part: u8, counted: bool| if counted { part } else { class::NONE };
        [
            class::NONE,
            carried(class::LL, counted(class::LL)),
            carried(class::HL, counted(class::HL)),
            carried(class::HL, counted(class::HH) && counted(class::HL)),
        ]
    }

    /// From the flow's size to the class that the packet carries on, and its buckets.
    #[inline(always)]
    pub fn classify(&self, meta: &mut Meta) -> u8 {
        let candidate = if meta.estimate >= self.hh_threshold {
            class::HH
        } else if meta.estimate >= self.hl_threshold {
            class::HL
        } else if samples(meta.base(self.sample_lane.into()), self.sample, self.sample_seed) {
            class::LL
        } else {
            class::NONE
        };
        locate(meta, &self.parts[usize::from(candidate & 3)], self.row_lane);
        self.carried[usize::from(candidate & 3)]
    }
}

/// Finds the packet's bucket in each row of a part.
#[inline(always)]
pub fn locate(meta: &mut Meta, part: &Part, row_lane: u8) {
    meta.encoded = !part.is_empty();
    for (row, place) in part.iter().enumerate() {
        let base = meta.base(usize::from(row_lane) + row);
        if let Some(bucket) = meta.buckets.get_mut(row) {
            *bucket = place.bucket(base);
        }
    }
}

#[cfg(test)]
mod tests;
