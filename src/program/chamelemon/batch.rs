//! The packets of a batch that are measured, in columns: what the hash units find of them, and what
//! the match-action tables make of it, many packets at a time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use arrayvec::ArrayVec;

use super::dataplane::{self, ClassTable, MAX_LEVELS, MAX_ROWS, Meta, PartTable, class, lane};
use super::hashes::Hashes;
use super::id::{FRAGMENTS, FlowId, KEY};
use super::names::{Name, Names};
use super::replica::{Encoder, TowerStage};
use crate::pisa::hash::burst::Words;
use crate::pisa::hash::{HighRange, IndexBank, LANES, Lanes, Which};
use crate::pisa::{BATCH, Disposition, Members, Phv, Slot, Vectors};
use crate::wire::{FlowKey, Net, Shim, Tuple6};

/// The packets of a batch that are measured, and what is known of each; `len` of all are valid.
#[repr(align(64))]
pub(super) struct Batch {
    pub len: usize,
    /// Whether some of them are IPv6.
    pub has_digests: bool,
    /// The index hashes of their IDs: for arrays and rows, fingerprint, sampling.
    hashes: Lanes,
    /// The words of their IDs, which are hashed.
    ids: [[u32; 4]; BATCH],
    /// The additive inverses modulo p of the IDs' fragments.
    inverses: [[u32; FRAGMENTS]; BATCH],
    /// The counter in each array of the classifier.
    counters: [[Slot; BATCH]; MAX_LEVELS],
    /// The flow's size by the arrays so far; the largest number before the first one.
    estimates: Words,
    /// The class by which an encoder's part is looked up.
    classes: Words,
    /// All ones if an encoder takes the packet, else 0.
    encoded: Words,
    /// The class that each packet carries on.
    carried: Words,
    /// The shim with which each packet leaves.
    shims: [Shim; BATCH],
    /// The bucket in each row.
    buckets: [[Slot; BATCH]; MAX_ROWS],
    /// The packets' places among the PHVs; on the way out [`NOWHERE`] for those that do not leave.
    pub places: [u8; BATCH],
}

const ZERO: Words = [[0; 16]; BATCH / 16];

/// The shim of a packet that does not leave, or leaves without a class.
const NONE: Shim = Shim::new(0, 0, 0, class::NONE);

/// No place.
pub(super) const NOWHERE: u8 = u8::MAX;

/// The places of a batch of which all packets are measured.
const IN_ORDER: [u8; BATCH] = {
    let mut places = [0; BATCH];
    let mut at = 0;
    while at < BATCH {
        places[at] = at as u8;
        at += 1;
    }
    places
};

impl Batch {
    const EMPTY: Self = Self {
        len: 0,
        has_digests: false,
        hashes: [ZERO; LANES],
        ids: [[0; 4]; BATCH],
        inverses: [[0; FRAGMENTS]; BATCH],
        counters: [[Slot(0); BATCH]; MAX_LEVELS],
        estimates: ZERO,
        classes: ZERO,
        encoded: ZERO,
        carried: ZERO,
        shims: [NONE; BATCH],
        buckets: [[Slot(0); BATCH]; MAX_ROWS],
        places: [0; BATCH],
    };

    /// The PHV of packet number `at`.
    #[inline(always)]
    pub fn meta(&self, at: usize) -> Meta {
        let at = at % BATCH;
        Meta {
            counters: self.counters.each_ref().map(|counters| counters[at]),
            estimate: self.estimates.as_flattened()[at],
            encoded: self.is_encoded(at),
            buckets: self.buckets.each_ref().map(|buckets| buckets[at]),
            inverses: self.inverses[at],
        }
    }

    #[inline(always)]
    pub fn is_encoded(&self, at: usize) -> bool {
        self.encoded.as_flattened()[at % BATCH] != 0
    }

    #[inline(always)]
    pub fn set_estimate(&mut self, at: usize, estimate: u32) {
        self.estimates.as_flattened_mut()[at % BATCH] = estimate;
    }

    /// Counts these packets in the classifier, array by array.
    #[inline(always)]
    pub fn count(&mut self, tower: &mut [TowerStage], packets: Range<usize>) {
        let Self { counters, estimates, .. } = self;
        let estimates = part_mut(estimates, &packets);
        for (stage, counters) in tower.iter_mut().zip(counters) {
            stage.count(&counters[packets.clone()], estimates);
        }
    }

    /// Classifies these packets by their sizes, and finds their buckets.
    #[inline(always)]
    pub fn classify(&mut self, gate: &ClassTable, packets: Range<usize>) {
        let Self { hashes, estimates, classes, encoded, carried, .. } = self;
        let known = part(estimates, &packets).iter().zip(part(&hashes[lane::SAMPLE], &packets));
        let found = part_mut(classes, &packets).iter_mut().zip(part_mut(carried, &packets));
        for ((class, carried), (&estimate, &hash)) in found.zip(known) {
            (*class, *carried) = gate.classify(estimate, hash);
        }
        part_mut(encoded, &packets).fill(0);
        self.locate(&gate.parts, packets);
    }

    /// Finds the buckets of these packets for whose class there is a part.
    #[inline(always)]
    fn locate(&mut self, parts: &PartTable, packets: Range<usize>) {
        let Self { hashes, classes, encoded, buckets, .. } = self;
        // A copy, whose fields loops keep in CPU registers.
        let parts = *parts;
        let classes = &classes.as_flattened()[packets.clone()];
        for (encoded, &class) in encoded.as_flattened_mut()[packets.clone()].iter_mut().zip(classes) {
            *encoded |= parts.encodes(Which::of(class));
        }
        for (&row, (hashes, buckets)) in parts.rows().iter().zip(hashes[lane::ROW..].iter().zip(buckets)) {
            let hashes = hashes.as_flattened()[packets.clone()].iter();
            for (bucket, (&class, &hash)) in buckets[packets.clone()].iter_mut().zip(classes.iter().zip(hashes)) {
                let class = Which::of(class);
                let there = parts.encodes(class);
                *bucket = Slot(row.bucket(class, hash).0 & there | bucket.0 & !there);
            }
        }
    }

    /// Writes the classes of these packets into their shims.
    #[inline(always)]
    pub fn mark(&self, packets: Range<usize>, phvs: &mut [Phv]) {
        let carried = &self.carried.as_flattened()[packets.clone()];
        let mark = |phv: &mut Phv, class: u32| {
            phv.shim = phv.shim.with_class(class as u8);
            one_by_one();
        };
        if packets.len() == phvs.len() {
            for (phv, &class) in phvs.iter_mut().zip(carried) {
                mark(phv, class);
            }
        } else {
            for (&place, &class) in self.places[packets].iter().zip(carried) {
                if let Some(phv) = phvs.get_mut(usize::from(place)) {
                    mark(phv, class);
                }
            }
        }
    }

    /// Reports the IPv6 flows of the packets that are encoded. Out of line, as few batches have any.
    #[cold]
    #[inline(never)]
    pub fn name(&self, phvs: &[Phv], names: &mut Names) {
        for (at, (id, &place)) in self.ids.iter().zip(&self.places).enumerate().take(self.len) {
            let Some(phv) = phvs.get(usize::from(place)) else { continue };
            if self.is_encoded(at) && phv.headers.net == Net::Ipv6 {
                names.see(FlowId::of_words(*id).hash(), Name(Tuple6::of(&phv.headers)));
            }
        }
    }

    /// Reads the shims of those packets that leave.
    #[inline(always)]
    pub fn read_shims(&mut self, phvs: &[Phv]) {
        for (shim, &place) in self.shims.iter_mut().zip(&self.places) {
            *shim = phvs.get(usize::from(place)).map_or(NONE, |phv| phv.shim);
        }
    }

    /// Finds the buckets of packets that leave, by epoch bit, and returns whether all of these are
    /// encoded.
    #[inline(always)]
    pub fn locate_leaving(&mut self, parts: &[PartTable; 2], open: [u32; 2]) -> bool {
        let len = self.len.min(BATCH);
        self.encoded.as_flattened_mut()[..len].fill(0);
        for (parts, open) in parts.iter().zip(open) {
            let mut any = 0;
            for (class, shim) in self.classes.as_flattened_mut()[..len].iter_mut().zip(&self.shims) {
                *class = u32::from(shim.class()) & u32::from(shim.epoch() == open).wrapping_neg();
                any |= *class;
            }
            if any != 0 {
                self.locate(parts, 0..len);
            }
        }
        let leaving = self.shims[..len].iter().zip(self.encoded.as_flattened());
        leaving.fold(0, |strays, (shim, encoded)| strays | u32::from(shim.class()) & !encoded) == 0
    }

    #[inline(always)]
    fn all_encoded(&self, packets: &Range<usize>) -> bool {
        part(&self.encoded, packets).iter().fold(u32::MAX, |all, encoded| all & encoded) != 0
    }

    /// Encodes those of these packets that are to be, row by row.
    #[inline(always)]
    pub fn encode(&mut self, encoder: &mut Encoder, packets: Range<usize>) {
        let members = if self.all_encoded(&packets) {
            Members::all(packets.len())
        } else {
            Members::of(packets.len(), |at| self.is_encoded(packets.start + at))
        };
        let phv = |inverses: &[u32; FRAGMENTS]| Meta { inverses: *inverses, encoded: true, ..Meta::default() };
        for (stage, buckets) in encoder.0.iter_mut().zip(&self.buckets) {
            stage.with_slots(&members, &buckets[packets.clone()], &mut self.inverses[packets.clone()], phv);
        }
    }
}

/// In a loop over what lies far apart: keeps the compiler from taking several through at a time,
/// which would load and store each by itself all the same, by slower instructions.
#[inline(always)]
fn one_by_one() {
    compiler_fence(Ordering::SeqCst);
}

/// The words of these packets.
#[inline(always)]
fn part<'a>(words: &'a Words, packets: &Range<usize>) -> &'a [u32] {
    &words.as_flattened()[packets.clone()]
}

#[inline(always)]
fn part_mut<'a>(words: &'a mut Words, packets: &Range<usize>) -> &'a mut [u32] {
    &mut words.as_flattened_mut()[packets.clone()]
}

/// The hash units, and the batch that they have worked for.
pub(super) struct Hashing {
    pub hashes: Arc<Hashes>,
    bank: IndexBank,
    /// The lane of the first classifier array; the others follow.
    tower_lane: usize,
    /// From the hashes in these lanes to counters.
    ranges: ArrayVec<HighRange, MAX_LEVELS>,
    pub batch: Box<Batch>,
    /// The packets of the batch, if these are all that ingress stages saw last.
    entered: usize,
}

impl Hashing {
    pub fn new(hashes: Arc<Hashes>, ranges: ArrayVec<HighRange, MAX_LEVELS>) -> Self {
        let (bank, tower_lane) = hashes.bank();
        Self { hashes, bank, tower_lane, ranges, batch: Box::new(Batch::EMPTY), entered: 0 }
    }

    /// Begins a batch of the packets of a burst that ingress stages see and for which `wanted` holds.
    #[inline(always)]
    pub fn enter(&mut self, phvs: &[Phv], wanted: impl Fn(&Phv) -> bool) {
        self.take(phvs, wanted);
        let Batch { len, places, .. } = &*self.batch;
        let is_whole = *len == phvs.len() && !self.batch.has_digests && places[..*len] == IN_ORDER[..*len];
        self.entered = if is_whole { *len } else { 0 };
    }

    /// Begins a batch of the packets for which `wanted` holds.
    #[inline(always)]
    pub fn take(&mut self, phvs: &[Phv], wanted: impl Fn(&Phv) -> bool) {
        self.entered = 0;
        let Batch { len, has_digests, ids, places, .. } = &mut *self.batch;
        let mut next = 0;
        *has_digests = false;
        let plain = |phv: &Phv| wanted(phv) & (phv.headers.net == Net::Ipv4);
        // Nearly always either all are, or the first one is not.
        let mut all = phvs.first().is_some_and(plain);
        if all {
            let packets = phvs.iter().zip(ids.iter_mut());
            match Vectors::here().picks() {
                Some(picks) => {
                    for (phv, id) in packets {
                        all &= plain(phv);
                        *id = FlowId::picked(picks, &phv.headers).words();
                    }
                }
                None => {
                    for (phv, id) in packets {
                        all &= plain(phv);
                        *id = FlowId::of_ipv4(&phv.headers).words();
                    }
                }
            }
        }
        if all {
            *places = IN_ORDER;
            next = phvs.len().min(BATCH);
        } else {
            let naming = self.hashes.naming();
            for (i, phv) in phvs.iter().take(BATCH).enumerate().filter(|(_, phv)| wanted(phv)) {
                let Some(id) = naming.id(&phv.headers) else { continue };
                if next >= BATCH {
                    break;
                }
                *has_digests |= phv.headers.net == Net::Ipv6;
                ids[next] = id.words();
                places[next] = i as u8;
                next += 1;
            }
        }
        *len = next;
        self.hash();
    }

    /// Begins a batch of the packets for which `wanted` holds. Packets that come from hosts and
    /// leave to hosts are hashed once: where all of these stand in the last batch, in their order,
    /// that goes on.
    #[inline(always)]
    pub fn take_again(&mut self, phvs: &[Phv], wanted: impl Fn(&Phv) -> bool) {
        let Batch { len, ids, places, .. } = &mut *self.batch;
        self.entered = 0;
        places.fill(NOWHERE);
        let (naming, len) = (self.hashes.naming(), (*len).min(BATCH));
        let mut next = 0;
        for (i, phv) in phvs.iter().take(BATCH).enumerate() {
            if !wanted(phv) {
                continue;
            }
            while next < len && !naming.is_id(FlowId::of_words(ids[next]), &phv.headers) {
                next += 1;
            }
            if next >= len {
                return self.take(phvs, wanted);
            }
            places[next] = i as u8;
            next += 1;
        }
    }

    /// Whether these are the packets of the last batch, each where it was then, and all of them
    /// IPv4 and leave to hosts. So it is in a switch between hosts. Reads their shims on the way,
    /// which are of no meaning if they are not. `as_entered`: ingress stages saw them last, in these places.
    #[inline(always)]
    pub fn all_leave_again(&mut self, phvs: &[Phv], as_entered: bool) -> bool {
        if as_entered && self.entered == phvs.len() {
            let mut differ = 0;
            for (phv, shim) in phvs.iter().zip(&mut self.batch.shims) {
                differ |= phv.disposition as u8 ^ Disposition::ToHost as u8;
                *shim = phv.shim;
            }
            return differ == 0;
        }
        let Batch { len, ids, places, shims, .. } = &mut *self.batch;
        let len = (*len).min(BATCH);
        // Any bits in which a packet differs from one that does.
        let kind =
            |phv: &Phv| (phv.headers.net as u8 ^ Net::Ipv4 as u8) | (phv.disposition as u8 ^ Disposition::ToHost as u8);
        // Nearly always either all do, or the first one does not.
        let first = phvs.first().is_some_and(|phv| kind(phv) == 0);
        if !first || phvs.len() != len || places[..len] != IN_ORDER[..len] {
            return false;
        }
        let (mut kinds, mut differ) = (0, [0; 4]);
        let packets = phvs.iter().zip(ids[..len].iter().zip(shims.iter_mut()));
        // A loop for each kind of CPU: in one that decides for each packet, the compiler takes IDs
        // apart.
        match Vectors::here().picks() {
            Some(picks) => {
                for (phv, (id, shim)) in packets {
                    kinds |= kind(phv);
                    *shim = phv.shim;
                    add_difference(&mut differ, FlowId::picked(picks, &phv.headers).words(), id);
                }
            }
            None => {
                for (phv, (id, shim)) in packets {
                    kinds |= kind(phv);
                    *shim = phv.shim;
                    add_difference(&mut differ, FlowId::of_ipv4(&phv.headers).words(), id);
                }
            }
        }
        (kinds == 0) & (differ == [0; 4])
    }

    /// The batch is only the last one of those that ingress stages saw.
    pub fn forget_entered(&mut self) {
        self.entered = 0;
    }

    /// Hashes the batch, and finds the inverses of its fragments.
    #[inline(always)]
    fn hash(&mut self) {
        let Batch { len, ids, inverses, hashes, .. } = &mut *self.batch;
        let len = (*len).min(BATCH);
        if len == 0 {
            return;
        }
        self.bank.hash_burst::<KEY, _>(ids, len, hashes);
        let (inverses, _) = inverses.as_chunks_mut();
        let (ids, _) = ids.as_chunks();
        let packets = inverses.iter_mut().zip(ids.iter().zip(&hashes[lane::FINGERPRINT]));
        for (inverses, (ids, hashes)) in packets.take(len.div_ceil(16)) {
            dataplane::invert(ids, hashes, inverses);
        }
    }

    /// Finds the batch's counters in the classifier.
    #[inline(always)]
    pub fn find_counters(&mut self) {
        let Batch { len, hashes, counters, estimates, .. } = &mut *self.batch;
        let len = (*len).min(BATCH);
        let tower = hashes.iter().skip(self.tower_lane);
        for (range, (hashes, counters)) in self.ranges.iter().zip(tower.zip(counters)) {
            range.slots_of(&hashes.as_flattened()[..len], &mut counters[..len]);
        }
        estimates.as_flattened_mut()[..len].fill(u32::MAX);
    }
}

/// Adds the bits in which these words differ.
#[inline(always)]
fn add_difference(differ: &mut [u32; 4], words: [u32; 4], others: &[u32; 4]) {
    *differ = std::array::from_fn(|i| differ[i] | words[i] ^ others[i]);
}
