//! ChameleMon's stateful ALUs, and the match-action tables between them (§3.2, appendix D.1,
//! Algorithm 3).

use std::fmt::Debug;
use std::marker::PhantomData;

use arrayvec::ArrayVec;

use super::field::P;
use super::id::{FRAGMENTS, FlowId};
use crate::pisa::hash::{Four, HighRange, HighRanges, LANES, Sixteen, Which};
use crate::pisa::{GroupSalu, Salu, Slot, Word};

/// Most counter arrays of the classifier.
pub const MAX_LEVELS: usize = 8;
/// Most bucket arrays of an encoder, a small one included.
pub const MAX_ROWS: usize = 5;

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

/// The PHV as ChameleMon sees it, behind the hash units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The counter in each array of the classifier.
    pub counters: [Slot; MAX_LEVELS],
    /// The flow's size by the classifier; before it the largest number.
    pub estimate: u32,
    /// Whether the encoder takes the packet.
    pub encoded: bool,
    /// The bucket in each row.
    pub buckets: [Slot; MAX_ROWS],
    /// The additive inverses modulo p of the ID's fragments.
    pub inverses: [u32; FRAGMENTS],
}

/// The additive inverses modulo p of the fragments of IDs with these hashes. Sixteen at a time, which a
/// compiler takes into columns and back.
#[inline(always)]
pub fn invert(ids: &[[u32; 4]; 16], hashes: &Sixteen, inverses: &mut [[u32; FRAGMENTS]; 16]) {
    for ((inverses, id), hash) in inverses.iter_mut().zip(ids).zip(hashes) {
        *inverses = FlowId::of_words(*id).fragments(*hash).map(|fragment| P - fragment);
    }
}

/// A saturating counter of the classifier. All ones is infinity.
pub trait Counter: Word + Debug {
    const INFINITY: Self;

    /// The count with a packet more.
    fn incremented(self) -> Self;
    /// The size that it tells: the largest number for infinity.
    fn size(self) -> u32;
}

macro_rules! counter {
    ($word:ty) => {
        impl Counter for $word {
            const INFINITY: Self = Self::MAX;

            /// By arithmetic: which counters are full is not to be predicted, and a compiler makes a
            /// branch of a saturating sum.
            #[inline(always)]
            fn incremented(self) -> Self {
                self.wrapping_add(Self::from(self < Self::MAX))
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

/// The counter array of the TowerSketch with this number. What it reports is the count with this
/// packet.
#[derive(Clone, Copy, Debug)]
pub struct Tower<C> {
    level: u8,
    counter: PhantomData<fn() -> C>,
}

impl<C> Tower<C> {
    pub fn new(level: u8) -> Self {
        Self { level, counter: PhantomData }
    }
}

impl<C: Counter> Salu for Tower<C> {
    type Phv = Meta;
    type Cell = C;
    type Out = C;
    const DECIDES: bool = true;
    const ALWAYS: bool = true;

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        phv.counters.get(usize::from(self.level)).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn rmw(&self, cell: C, _: &Meta) -> (C, C) {
        let count = cell.incremented();
        (count, count)
    }

    #[inline(always)]
    fn commit(&self, count: C, phv: &mut Meta) {
        phv.estimate = phv.estimate.min(count.size());
    }

    fn describe(&self, count: &C) -> String {
        if *count == C::INFINITY { "more than it can say".into() } else { format!("a size of {}", count.size()) }
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

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        phv.buckets.get(usize::from(self.0)).copied().unwrap_or_default()
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

/// One row of an encoder's parts, by class.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartRow {
    ranges: HighRanges,
    offsets: Four,
}

impl PartRow {
    /// The bucket of a packet with this class and index hash; unspecified where the class has no
    /// part.
    #[inline(always)]
    pub fn bucket(&self, class: Which, hash: u32) -> Slot {
        Slot(self.ranges.slot(class, hash).wrapping_add(self.offsets.choose(class)))
    }
}

/// A match-action table: by a packet's class the part that encodes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartTable {
    /// All ones for a class that has a part.
    encodes: Four,
    rows: [PartRow; MAX_ROWS],
    /// Number of rows in use.
    number: usize,
}

impl PartTable {
    pub fn new(parts: &[Part; 4]) -> Self {
        let row = |row: usize| {
            let places = parts.each_ref().map(|part| part.get(row));
            let ranges = HighRanges::new(places.map(|place| Some(place?.range)));
            PartRow { ranges, offsets: Four::new(places.map(|place| place.map_or(0, |place| place.offset))) }
        };
        Self {
            encodes: Four::new(parts.each_ref().map(|part| u32::from(!part.is_empty()).wrapping_neg())),
            rows: std::array::from_fn(row),
            number: parts.iter().map(|part| part.len()).max().unwrap_or(0),
        }
    }

    /// All ones if packets of this class are encoded.
    #[inline(always)]
    pub fn encodes(&self, class: Which) -> u32 {
        self.encodes.choose(class)
    }

    #[inline(always)]
    pub fn rows(&self) -> &[PartRow] {
        &self.rows[..self.number.min(MAX_ROWS)]
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
    pub parts: PartTable,
    /// What a packet of each class carries on: none where no part counts it when it leaves.
    pub carried: Four,
}

impl ClassTable {
    /// What packets carry on, by class. Heavy-hitter candidates leave as heavy-loss candidates.
    pub fn carried(parts: &[Part; 4]) -> Four {
        let counted = |part: u8| !parts[usize::from(part & 3)].is_empty();
        let carried = |part: u8, counted: bool| u32::from(if counted { part } else { class::NONE });
        Four::new([
            carried(class::NONE, true),
            carried(class::LL, counted(class::LL)),
            carried(class::HL, counted(class::HL)),
            carried(class::HL, counted(class::HH) && counted(class::HL)),
        ])
    }

    /// From the flow's size and the sampling hash to the class, and to that which the packet
    /// carries on.
    #[inline(always)]
    pub fn classify(&self, estimate: u32, sample: u32) -> (u32, u32) {
        let sampled = samples(sample, self.sample, self.sample_seed);
        let light = if sampled { class::LL } else { class::NONE };
        let below = if estimate >= self.hl_threshold { class::HL } else { light };
        let class = u32::from(if estimate >= self.hh_threshold { class::HH } else { below });
        (class, self.carried.choose(Which::of(class)))
    }
}

#[cfg(test)]
mod tests;
