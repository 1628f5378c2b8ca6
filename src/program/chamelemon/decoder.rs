//! Reading ChameleMon out: registers as sketches, and what they answer.

mod candidates;
pub mod encoding;
pub mod estimate;
pub mod fermat;
mod series;
pub mod tasks;
#[cfg(test)]
mod tests;
mod twins;

use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;

pub use crate::answers::Distribution;
pub use candidates::{Candidates, Expected};
pub use fermat::{Bucket, Decoded, Fermat, Mismatch, Verify};
pub use tasks::{Analysis, Change, Delta, Loss, Losses, Sized, Victims};

use super::bank::{ChameleMonBank, RowRegisters};
use super::dataplane::{MAX_LEVELS, Part};
use super::hashes::Hashes;
use super::id::FlowId;
use super::names::{Known, Name};
use super::parameters::{EncoderParameters, Shape, counter_range};
use crate::pisa::hash::HashFamily;
use crate::program::{MergeError, Record, Reports, Strays};
use crate::wire::{Flow, Tuple4, Tuple6};

/// The parts of both encoders, the downstream one's for either epoch bit.
const PARTS: usize = 7;

/// A counter that is full: the flow is larger than it can say.
pub const INFINITE: u32 = u32::MAX;

/// One counter array of the classifier, read out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Bits of a counter.
    pub bits: u32,
    /// Packets in each counter; [`INFINITE`] when it was full.
    pub sizes: Vec<u32>,
}

impl Level {
    pub fn new(bits: u32, sizes: Vec<u32>) -> Self {
        Self { bits, sizes }
    }

    /// The smallest size that the array cannot say: 2^bits − 1.
    pub fn max(&self) -> u32 {
        u32::MAX >> (u32::BITS - self.bits.clamp(1, u32::BITS))
    }

    fn merge(&mut self, other: &Self) {
        self.sizes.iter_mut().zip(&other.sizes).for_each(|(a, b)| *a = a.saturating_add(*b));
    }
}

/// The encoders for packets that left, of one epoch bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownstreamParts {
    pub hl: Fermat,
    pub ll: Fermat,
}

/// One epoch's registers as sketches. Those of replicas and of switches add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketches {
    /// What packets that entered were measured with.
    pub parameters: EncoderParameters,
    pub shape: Shape,
    pub tower: Vec<Level>,
    pub hh: Fermat,
    pub hl: Fermat,
    pub ll: Fermat,
    /// What left, by the epoch bit that it carried.
    pub downstream_parts: [DownstreamParts; 2],
    /// The epoch bit of the packets that entered.
    pub bit: bool,
    /// Packets that left and were not encoded: more than the transit time after their epoch's end,
    /// or ahead of it, or in a class that has no memory here.
    pub strays: Strays,
    /// Packets that went on to another switch without their class, so that it cannot count them
    /// where they leave.
    pub unmarked: u64,
    /// Packets that became copies or fragments, of which some went on to other switches or could
    /// not be sent, and copies and fragments that left here and were made by a switch that does not
    /// measure.
    pub unfollowed: u64,
    /// Five-tuples of IPv6 flows that entered and were encoded.
    pub(super) names: Reports<Name>,
    /// Sketches of different parameters were to be merged: nothing can be decoded.
    pub mixed: bool,
    hashes: Arc<Hashes>,
}

impl Sketches {
    pub(super) fn read(bank: &ChameleMonBank, shape: &Shape, hashes: &Arc<Hashes>) -> Self {
        let ChameleMonBank { parameters_by_bit, bit, unmarked, unfollowed, .. } = *bank;
        let parameters = parameters_by_bit[usize::from(bit)];
        let [_, ll, hl, hh] = parameters.upstream(shape).map(|part| part_of(&bank.upstream, part, hashes));
        let left = |bit: bool| {
            parameters_by_bit[usize::from(bit)]
                .downstream(shape, bit)
                .map(|part| part_of(&bank.downstream, part, hashes))
        };
        let ([_, ll0, hl0, _], [_, ll1, hl1, _]) = (left(false), left(true));
        let tower = bank.tower.iter().map(|counters| counters.read()).collect();
        let parts = [hh, hl, ll, hl0, ll0, hl1, ll1];
        Self {
            bit,
            strays: bank.strays.read(),
            unmarked,
            unfollowed,
            names: bank.names.read(),
            ..Self::new(parameters, *shape, tower, parts, hashes.clone())
        }
    }

    /// Of an epoch of bit 0 in which every packet could be followed, without names. `parts` are in
    /// the order of [`Self::parts`].
    pub(super) fn new(
        parameters: EncoderParameters,
        shape: Shape,
        tower: Vec<Level>,
        [hh, hl, ll, hl0, ll0, hl1, ll1]: [Fermat; PARTS],
        hashes: Arc<Hashes>,
    ) -> Self {
        let downstream_parts = [DownstreamParts { hl: hl0, ll: ll0 }, DownstreamParts { hl: hl1, ll: ll1 }];
        let (strays, unmarked, unfollowed) = (Strays::default(), 0, 0);
        let (bit, mixed, names) = (false, false, Reports::none(0));
        Self {
            parameters,
            shape,
            tower,
            hh,
            hl,
            ll,
            downstream_parts,
            bit,
            strays,
            unmarked,
            unfollowed,
            names,
            mixed,
            hashes,
        }
    }

    /// A classifier without encoders.
    pub(super) fn of_classifier(
        parameters: EncoderParameters,
        shape: Shape,
        tower: Vec<Level>,
        hashes: Arc<Hashes>,
    ) -> Self {
        let parts = std::array::from_fn(|_| Fermat::new(hashes.clone(), Part::new()));
        Self::new(parameters, shape, tower, parts, hashes)
    }

    pub(super) fn hashes(&self) -> &Arc<Hashes> {
        &self.hashes
    }

    /// HH, HL and LL of what entered, HL and LL of what left by either epoch bit.
    pub(super) fn parts(&self) -> [&Fermat; PARTS] {
        let Self { hh, hl, ll, downstream_parts: [left, left1], .. } = self;
        [hh, hl, ll, &left.hl, &left.ll, &left1.hl, &left1.ll]
    }

    fn parts_mut(&mut self) -> [&mut Fermat; PARTS] {
        let Self { hh, hl, ll, downstream_parts: [left, left1], .. } = self;
        [hh, hl, ll, &mut left.hl, &mut left.ll, &mut left1.hl, &mut left1.ll]
    }

    /// Adds another replica's, switch's or epoch's sketches. Those that were measured with other
    /// parameters do not fit: the result is then [mixed](Self::mixed).
    ///
    /// # Errors
    /// If they have other lengths. These sketches are then as they were.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        let lengths = |sketches: &Self| sketches.tower.iter().map(|level| level.sizes.len()).collect::<Vec<_>>();
        if self.shape != other.shape || lengths(self) != lengths(other) {
            return Err(MergeError::Shape { program: Self::PROGRAM, what: "lengths" });
        }
        if self.parameters != other.parameters || other.mixed || self.try_merge(other).is_err() {
            self.mixed = true;
        }
        self.strays.merge(&other.strays);
        self.unmarked = self.unmarked.saturating_add(other.unmarked);
        self.names.merge_distinct(&other.names);
        Ok(())
    }

    fn try_merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.parts_mut().into_iter().zip(other.parts()).try_for_each(|(mine, theirs)| mine.add(theirs))?;
        self.add_classifier(other);
        self.unfollowed = self.unfollowed.saturating_add(other.unfollowed);
        Ok(())
    }

    /// Adds the packets of another classifier with arrays of the same lengths.
    pub(super) fn add_classifier(&mut self, other: &Self) {
        self.tower.iter_mut().zip(&other.tower).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// Whether packets are known to be missing of what left, or all is because cores disagree.
    pub fn has_gaps(&self) -> bool {
        !self.strays.is_empty() || self.unmarked > 0 || self.unfollowed > 0 || self.mixed
    }

    /// Whether they were made with the hash functions of this deployment.
    pub fn is_hashed_with(&self, hashes: &HashFamily) -> bool {
        self.hashes.are_of(hashes)
    }

    /// T_h as it was in effect: at least 1, and at most what makes all of a flow's counters full.
    pub fn hh_threshold(&self) -> u32 {
        let max = self.tower.iter().map(Level::max).max().unwrap_or(1);
        self.parameters.hh_threshold.clamp(1, max)
    }

    /// Splits off what left with the next epoch's bit. `None` if the replicas do not agree.
    pub(super) fn split_next(&mut self) -> Option<Self> {
        let mut next = Self::of_classifier(self.parameters, self.shape, Vec::new(), self.hashes.clone());
        (next.bit, next.unmarked, next.unfollowed) = (!self.bit, self.unmarked, self.unfollowed);
        let parts = usize::from(next.bit);
        std::mem::swap(&mut next.downstream_parts[parts], &mut self.downstream_parts[parts]);
        (!self.mixed).then_some(next)
    }

    /// The classifier's answer for a flow, never below its size; [`INFINITE`] when all its counters
    /// are full.
    pub fn query(&self, id: FlowId) -> u32 {
        self.size_at(&self.counters(id))
    }

    /// Where the classifiers of switches like this one count a flow.
    pub fn counters(&self, id: FlowId) -> ArrayVec<usize, MAX_LEVELS> {
        let key = self.hashes.key(id);
        let counter = |(number, level): (usize, &Level)| {
            counter_range(level.sizes.len() as u32).slot(self.hashes.tower(number, &key)) as usize
        };
        self.tower.iter().enumerate().map(counter).collect()
    }

    /// The size of a flow that is [counted there](Self::counters).
    pub fn size_at(&self, counters: &[usize]) -> u32 {
        let sizes = self.tower.iter().zip(counters).filter_map(|(level, &counter)| level.sizes.get(counter).copied());
        sizes.min().unwrap_or(INFINITE)
    }

    /// The ID of a five-tuple.
    pub fn id(&self, flow: &Flow) -> Option<FlowId> {
        let ports = u64::from(flow.sport?) << 24 | u64::from(flow.dport?) << 8 | u64::from(flow.proto?);
        match (flow.src?, flow.dst?) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let addresses = u128::from(src.to_bits()) << 72 | u128::from(dst.to_bits()) << 40;
                Some(FlowId::of_v4(Tuple4(addresses | u128::from(ports))))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Some(self.hashes.naming().digest(Tuple6(src.to_bits(), dst.to_bits(), ports)))
            }
            _ => None,
        }
    }

    /// Adds the IPv6 flows that it names.
    pub(super) fn add_names(&self, known: &mut Known) {
        known.add(self.hashes.naming(), &self.names);
    }

    /// Whether a light loss of this flow would have been sampled.
    pub fn samples(&self, id: FlowId) -> bool {
        self.parameters.samples(self.hashes.sample(id))
    }
}

/// A part of an encoder as a sketch of its own.
fn part_of(rows: &[RowRegisters], part: Part, hashes: &Arc<Hashes>) -> Fermat {
    let mut sketch = Fermat::new(hashes.clone(), part.clone());
    for (number, (place, registers)) in part.iter().zip(rows).enumerate() {
        let cells = registers.cells().iter().skip(place.offset as usize);
        for (bucket, &[ids @ .., count]) in sketch.row_mut(number).iter_mut().zip(cells) {
            *bucket = Bucket { ids, count: count.into() };
        }
    }
    sketch
}
