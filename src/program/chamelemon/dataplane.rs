//! ChameleMon's stateful ALUs, and the match-action tables between them (§3.2, appendix D.1,
//! Algorithm 3).

use std::hint::select_unpredictable;
use std::marker::PhantomData;

use arrayvec::ArrayVec;

use super::field::P;
use super::id::{FRAGMENTS, FlowId, fingerprint};
use crate::pisa::hash::{HashLanes, HighRange, HighRanges, LANES};
use crate::pisa::{GroupSalu, Salu, Slot, Word};

/// Most counter arrays of the classifier.
pub const MAX_LEVELS: usize = 8;
/// Most bucket arrays of an encoder, a small one included.
pub const MAX_ROWS: usize = 5;
/// [`MAX_ROWS`] and some, so that a row's number needs no comparison.
const ROWS: usize = MAX_ROWS.next_power_of_two();

/// Lanes of a packet's index hashes. Those of the classifier's arrays stand behind the rows.
pub mod lane {
    pub const FINGERPRINT: usize = 1;
    pub const SAMPLE: usize = 2;
    /// That of the encoders' first row; the others follow.
    pub const ROW: usize = 3;
}

const _: () = assert!(lane::ROW + MAX_ROWS + MAX_LEVELS <= LANES);

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
#[repr(align(64))]
pub struct Meta {
    /// The index hashes of the flow's ID: for arrays and rows, fingerprint, sampling.
    pub bases: [u32; LANES],
    /// The additive inverses modulo p of the ID's fragments.
    pub inverses: [u32; FRAGMENTS],
    /// The flow's size by the classifier; before it the largest number.
    pub estimate: u32,
    /// The bucket in each row, a row past [`MAX_ROWS`] unused.
    pub buckets: [u32; ROWS],
    /// Whether the encoder takes the packet.
    pub encoded: bool,
}

impl HashLanes for Meta {
    #[inline(always)]
    fn lanes(&mut self) -> &mut [u32; LANES] {
        &mut self.bases
    }
}

impl Meta {
    /// Begins a packet. Its index hashes, or what is there, are of no meaning yet.
    #[inline(always)]
    pub fn begin(&mut self, id: FlowId) {
        self.inverses = id.fragments(0);
        self.estimate = u32::MAX;
    }

    /// Goes on when the index hashes are there.
    #[inline(always)]
    pub fn sign(&mut self) {
        self.inverses[FRAGMENTS - 1] |= fingerprint(self.bases[lane::FINGERPRINT]);
        self.inverses = self.inverses.map(|fragment| P - fragment);
    }
}

/// A saturating counter of the classifier. All ones is infinity.
pub trait Counter: Word {
    /// The count with a packet more, and the size that it tells: the largest number for infinity.
    fn incremented(self) -> (Self, u32);
    fn size(self) -> u32;
}

macro_rules! counter {
    ($word:ty, $wide:ty) => {
        impl Counter for $word {
            /// By arithmetic: which counters are full is not to be predicted, and a compiler makes a
            /// branch of a saturating sum. Of a counter that is or gets full all bits are set.
            #[inline(always)]
            fn incremented(self) -> (Self, u32) {
                let next = <$wide>::from(self) + 1;
                let full = (next + 1) >> Self::BITS;
                let size = next as u32 | (full as u32).wrapping_neg();
                (size as Self, size)
            }

            #[inline(always)]
            fn size(self) -> u32 {
                if self == Self::MAX { u32::MAX } else { self.into() }
            }
        }
    };
}

counter!(u8, u32);
counter!(u16, u32);
counter!(u32, u64);

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
    const ALWAYS: bool = true;

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        // Only four bits of a lane's number count.
        Slot(self.range.slot(phv.bases[usize::from(self.lane) & (LANES - 1)]))
    }

    #[inline(always)]
    fn rmw(&self, cell: C, _: &Meta) -> (C, u32) {
        cell.incremented()
    }

    #[inline(always)]
    fn commit(&self, out: u32, phv: &mut Meta) {
        // The smaller one, again by arithmetic.
        let (above, below) = out.overflowing_sub(phv.estimate);
        phv.estimate = phv.estimate.wrapping_add(above & u32::from(below).wrapping_neg());
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
    const UNIFORM: bool = true;

    #[inline(always)]
    fn enabled(&self, phv: &Meta) -> bool {
        phv.encoded
    }

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(phv.buckets[usize::from(self.0) & (ROWS - 1)])
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

/// Rows of a part that are looked up together.
const TOGETHER: usize = 4;

/// A match-action entry: a part as the dataplane looks it up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    rows: u8,
    ranges: HighRanges,
    offsets: [u32; TOGETHER],
    /// The last of [`MAX_ROWS`].
    last: Option<Place>,
}

const _: () = assert!(MAX_ROWS == TOGETHER + 1);

impl Entry {
    pub fn new(part: &Part) -> Self {
        let row = |row: usize| part.get(row);
        Self {
            rows: part.len() as u8,
            ranges: HighRanges::new(std::array::from_fn(|i| row(i).map(|place| place.range))),
            offsets: std::array::from_fn(|i| row(i).map_or(0, |place| place.offset)),
            last: row(TOGETHER).copied(),
        }
    }

    /// Finds the packet's bucket in each row.
    #[inline(always)]
    pub fn locate(&self, meta: &mut Meta) {
        meta.encoded = self.rows > 0;
        let slots = self.ranges.slots(&std::array::from_fn(|row| meta.bases[lane::ROW + row]));
        if let Some(last) = &self.last {
            meta.buckets[TOGETHER] = last.bucket(meta.bases[lane::ROW + TOGETHER]);
        }
        for (bucket, (slot, offset)) in meta.buckets.iter_mut().zip(slots.into_iter().zip(self.offsets)) {
            *bucket = slot.wrapping_add(offset);
        }
    }
}

/// Whether a light-loss candidate is sampled: its hash's upper 16 bits against the threshold.
#[inline(always)]
pub fn samples(hash: u32, threshold: u32, seed: u16) -> bool {
    hash >> 16 ^ u32::from(seed) < threshold
}

/// The tables behind the classifier.
#[derive(Clone, Copy, Debug)]
pub struct ClassTable {
    pub hh_threshold: u32,
    pub hl_threshold: u32,
    pub sample: u32,
    pub sample_seed: u16,
    /// The parts by class.
    pub parts: [Entry; 4],
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
        let sampled = samples(meta.bases[lane::SAMPLE], self.sample, self.sample_seed);
        let light = select_unpredictable(sampled, class::LL, class::NONE);
        let below = select_unpredictable(meta.estimate >= self.hl_threshold, class::HL, light);
        let candidate = select_unpredictable(meta.estimate >= self.hh_threshold, class::HH, below);
        self.parts[usize::from(candidate & 3)].locate(meta);
        self.carried[usize::from(candidate & 3)]
    }
}

#[cfg(test)]
mod tests;
