//! Stages in order, and the two orders in which a burst may run through them.
//!
//! No stage can reach another stage's memory, and the packets of a burst keep their order within a
//! stage, so running a burst stage by stage leaves the same registers and PHVs, bit for bit, as
//! packet by packet. `tests/pisa_order.rs` holds the two equal for random programs.

use super::registers::Alu;
use super::{Array, ArrayCells, ArrayGroup, GroupRegisters, GroupSalu, Pairs, Probe, Registers, Salu, Slot, StageUse};

/// Which loop is the outer one. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchOrder {
    /// The one that takes the program less time: stage by stage, unless it knows better.
    #[default]
    Fastest,
    /// Each packet through all stages, then the next packet.
    PacketMajor,
    /// The whole burst through a stage, then the next stage. A stage's loop is short, and the cells of
    /// many packets are on their way at once.
    StageMajor,
}

/// Packets that run stage by stage together.
pub const BATCH: usize = 64;

/// The packets of a batch that later stages may still touch: the places of `len` packets, in order.
#[derive(Clone)]
pub struct Members {
    len: usize,
    places: [u8; BATCH],
}

const _: () = assert!(BATCH <= 1 << u8::BITS && BATCH.is_power_of_two());

impl Members {
    const NONE: Self = Self { len: 0, places: [0; BATCH] };

    /// All of a batch; of one that is too long the first [`BATCH`].
    #[inline(always)]
    pub fn all(len: usize) -> Self {
        Self { len: len.min(BATCH), places: std::array::from_fn(|place| place as u8) }
    }

    /// Adds a packet behind the others if `there`, without a branch on that: which packets go on is
    /// not to be predicted.
    #[inline(always)]
    fn push(&mut self, place: usize, there: bool) {
        self.places[self.len % BATCH] = place as u8;
        self.len += usize::from(there);
    }

    #[inline(always)]
    fn places(&self) -> &[u8] {
        &self.places[..self.len.min(BATCH)]
    }

    /// Does this with each of them, in order.
    #[inline(always)]
    pub(super) fn each<V>(&self, phvs: &mut [V], mut does: impl FnMut(usize, &mut V)) {
        if self.len == phvs.len() {
            for (place, phv) in phvs.iter_mut().enumerate() {
                does(place, phv);
            }
            return;
        }
        for &place in self.places() {
            if let Some(phv) = phvs.get_mut(usize::from(place)) {
                does(usize::from(place), phv);
            }
        }
    }

    /// Does this with the slot and the field of each of them, in order.
    #[inline(always)]
    pub(super) fn each_slot<T>(&self, slots: &[Slot], fields: &mut [T], mut does: impl FnMut(Slot, &mut T)) {
        if self.len == slots.len() {
            return in_fours(slots, fields, does);
        }
        for place in self.places().iter().copied().map(usize::from) {
            if let (Some(slot), Some(field)) = (slots.get(place), fields.get_mut(place)) {
                does(*slot, field);
            }
        }
    }

    /// Those of a batch of `len` packets for which `keep` holds.
    #[inline(always)]
    pub fn of(len: usize, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::NONE;
        (0..len.min(BATCH)).for_each(|place| kept.push(place, keep(place)));
        kept
    }

    /// Those for which `keep` holds.
    #[inline(always)]
    pub(super) fn only<V>(&self, phvs: &mut [V], keep: impl Fn(&V) -> bool) -> Self {
        let mut kept = Self::NONE;
        self.each(phvs, |place, phv| kept.push(place, keep(phv)));
        kept
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Does this with each slot and its field, in order. Four to a round of the loop, for what it does
/// is as short as the loop itself.
#[inline(always)]
fn in_fours<T>(slots: &[Slot], fields: &mut [T], mut does: impl FnMut(Slot, &mut T)) {
    let len = slots.len().min(fields.len());
    let (slots, last_slots) = slots[..len].as_chunks::<4>();
    let (fields, last_fields) = fields[..len].as_chunks_mut::<4>();
    for (slots, fields) in slots.iter().zip(fields) {
        for (slot, field) in slots.iter().zip(fields) {
            does(*slot, field);
        }
    }
    for (slot, field) in last_slots.iter().zip(last_fields) {
        does(*slot, field);
    }
}

/// A stretch of the pipeline: one stage or several in order.
pub trait Pipeline<V> {
    /// Takes one packet through.
    fn packet(&mut self, phv: &mut V);
    /// Takes one packet through and tells of each step, also of the stages that have no more to do
    /// with it.
    fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe);
    /// Takes the members of a batch through, stage by stage, and leaves those that have not ended.
    /// `slots` are of no meaning before and after.
    fn batch(&mut self, phvs: &mut [V], members: &mut Members, slots: &mut [Slot; BATCH]);
    /// Adds what each stage uses, in order.
    fn usage(&self, stages: &mut Vec<StageUse>);

    /// Whether nothing of this kind has any more to do with the packet.
    #[inline(always)]
    fn ended(_phv: &V) -> bool {
        false
    }

    #[inline(always)]
    fn run(&mut self, phvs: &mut [V], order: BatchOrder) {
        match order {
            BatchOrder::PacketMajor => {
                for phv in phvs {
                    self.packet(phv);
                }
            }
            BatchOrder::StageMajor | BatchOrder::Fastest => {
                let mut slots = [Slot(0); BATCH];
                for batch in phvs.chunks_mut(BATCH) {
                    self.batch(batch, &mut Members::all(batch.len()), &mut slots);
                }
            }
        }
    }
}

/// A stretch of the pipeline whose registers are swapped as a whole at the end of an epoch.
pub trait Banked {
    /// All its registers.
    type Bank: Send + 'static;
    /// Cleared registers of the right length.
    fn zeroed(&self) -> Self::Bank;
    /// Swaps the registers with `spare`, which came from a stretch of the same shape.
    fn exchange(&mut self, spare: &mut Self::Bank);
    fn clear(bank: &mut Self::Bank);
    /// Copies the content of each array, in the order of [`Pipeline::usage`].
    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>);
}

impl<S: Salu> Banked for Stage<Array<S>> {
    type Bank = Registers<S::Cell>;

    fn zeroed(&self) -> Self::Bank {
        Registers::zeroed(self.0.len())
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.exchange(spare);
    }

    fn clear(bank: &mut Self::Bank) {
        bank.clear();
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        to.push(bank.read());
    }
}

impl<S: GroupSalu<N>, const N: usize> Banked for Stage<ArrayGroup<S, N>> {
    type Bank = GroupRegisters<S::Cell, N>;

    fn zeroed(&self) -> Self::Bank {
        GroupRegisters::zeroed(self.0.len())
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.exchange(spare);
    }

    fn clear(bank: &mut Self::Bank) {
        bank.clear();
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        to.extend(bank.read());
    }
}

impl<P: Banked> Banked for Repeat<P> {
    type Bank = Vec<P::Bank>;

    fn zeroed(&self) -> Self::Bank {
        self.0.iter().map(P::zeroed).collect()
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.iter_mut().zip(spare).for_each(|(stage, spare)| stage.exchange(spare));
    }

    fn clear(bank: &mut Self::Bank) {
        bank.iter_mut().for_each(P::clear);
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        bank.iter().for_each(|bank| P::read(bank, to));
    }
}

impl<A: Banked, B: Banked> Banked for Then<A, B> {
    type Bank = (A::Bank, B::Bank);

    fn zeroed(&self) -> Self::Bank {
        (self.0.zeroed(), self.1.zeroed())
    }

    fn exchange(&mut self, spare: &mut Self::Bank) {
        self.0.exchange(&mut spare.0);
        self.1.exchange(&mut spare.1);
    }

    fn clear(bank: &mut Self::Bank) {
        A::clear(&mut bank.0);
        B::clear(&mut bank.1);
    }

    fn read(bank: &Self::Bank, to: &mut Vec<ArrayCells>) {
        A::read(&bank.0, to);
        B::read(&bank.1, to);
    }
}

/// One stage: register arrays that work side by side on the PHV as it entered the stage.
#[derive(Clone, Debug)]
pub struct Stage<A>(pub A);

impl<S: Salu> Pipeline<S::Phv> for Stage<Array<S>> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut S::Phv) {
        self.0.alu().packet(phv);
    }

    fn trace(&mut self, phv: &mut S::Phv, probe: &mut dyn Probe) {
        probe.stage();
        let out = self.0.traced(phv, probe);
        self.0.alu().commit(out, phv);
    }

    /// All slots first, so that they are hashed together and the cells are on their way; then the
    /// cells in packet order. A slot depends on the PHV alone, so it may be taken early.
    #[inline(always)]
    fn batch(&mut self, phvs: &mut [S::Phv], members: &mut Members, slots: &mut [Slot; BATCH]) {
        let mut alu = self.0.alu();
        if S::ALWAYS {
            let salu = *alu.salu;
            alu.salu = &salu;
            return members.each(phvs, |_, phv| alu.packet(phv));
        }
        let enabled = members.only(phvs, |phv| alu.salu.enabled(phv));
        alu.batch(phvs, &enabled, slots);
        *members = members.only(phvs, |phv| !S::ended(phv));
    }

    #[inline(always)]
    fn ended(phv: &S::Phv) -> bool {
        S::ended(phv)
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        stages.push(StageUse::of(vec![self.0.usage()]));
    }
}

impl<S: Salu> Alu<'_, S> {
    /// Takes enabled packets through.
    #[inline(always)]
    fn batch(&mut self, phvs: &mut [S::Phv], enabled: &Members, slots: &mut [Slot; BATCH]) {
        let places = enabled.places();
        if enabled.len == phvs.len() {
            self.salu.slots(phvs, slots);
        } else {
            for (slot, &place) in slots.iter_mut().zip(places) {
                if let Some(phv) = phvs.get(usize::from(place)) {
                    *slot = self.salu.slot(phv);
                }
            }
        }
        for slot in &slots[..places.len()] {
            self.prefetch(*slot);
        }
        for (&place, slot) in places.iter().zip(slots.iter()) {
            if let Some(phv) = phvs.get_mut(usize::from(place)) {
                let out = self.access_at(*slot, phv);
                self.commit(out, phv);
            }
        }
    }
}

impl<S: Salu> Stage<Array<S>> {
    /// Takes packets through whose slots are there already, one each, in order. The stateful ALU
    /// sees the same of all of them. Its outputs go into `outs`, where a packet that touches
    /// nothing leaves what is there.
    #[inline(always)]
    pub fn with_slots(&mut self, slots: &[Slot], phv: &S::Phv, outs: &mut [S::Out]) {
        const { assert!(S::ALWAYS) };
        let mut alu = self.0.alu();
        let salu = *alu.salu;
        alu.salu = &salu;
        in_fours(slots, outs, |slot, room| {
            if let Some(out) = alu.access_at(slot, phv) {
                *room = out;
            }
        });
    }
}

impl<S: Salu> Stage<Array<S>>
where
    S::Phv: Copy,
{
    /// Takes the first `len` packets of a batch through, none of which has ended, shows the output
    /// for each to `seen`, and moves those that have not ended to the front, in their order.
    /// Returns how many these are; what stands behind them is of no meaning. `slots` are of none
    /// before and after.
    ///
    /// The PHV of each packet is moved, whether the packet goes on or not, and only those that go
    /// on are counted: a branch on it could not be predicted. The next stage finds their PHVs side
    /// by side.
    #[inline(always)]
    pub fn sift(
        &mut self,
        phvs: &mut [S::Phv; BATCH],
        len: usize,
        slots: &mut [Slot; BATCH],
        mut seen: impl FnMut(usize, &S::Out),
    ) -> usize {
        const { assert!(S::UNTIL_END) };
        let mut alu = self.0.alu();
        let len = len.min(BATCH);
        match Pairs::here().filter(|_| S::PAIRS) {
            Some(pairs) => alu.sift(phvs, len, slots, &mut seen, |salu, cell, phv| salu.rmw_of_pairs(pairs, cell, phv)),
            None => alu.sift(phvs, len, slots, &mut seen, S::rmw),
        }
    }
}

impl<S: Salu> Alu<'_, S>
where
    S::Phv: Copy,
{
    /// See [`Stage::sift`].
    #[inline(always)]
    fn sift(
        &mut self,
        phvs: &mut [S::Phv; BATCH],
        len: usize,
        slots: &mut [Slot; BATCH],
        seen: &mut impl FnMut(usize, &S::Out),
        rmw: impl Fn(&S, S::Cell, &S::Phv) -> (S::Cell, S::Out),
    ) -> usize {
        self.salu.slots(&phvs[..len], slots);
        for slot in &slots[..len] {
            self.prefetch(*slot);
        }
        let mut left = 0;
        for at in 0..len {
            debug_assert!(self.salu.enabled(&phvs[at]), "a packet that is not enabled");
            let (phv, place) = (phvs[at], left % BATCH);
            // Asked in each case, so that it need not be read back: the next place depends on it.
            let ended = match self.access_by(slots[at], &phvs[at], &rmw) {
                Some(out) => {
                    seen(at, &out);
                    self.salu.pass_on(out, &phv, &mut phvs[place]);
                    S::ended(&phvs[place])
                }
                None => {
                    phvs[place] = phv;
                    S::ended(&phv)
                }
            };
            left += usize::from(!ended);
        }
        left
    }
}

impl<S: Salu> Repeat<Stage<Array<S>>>
where
    S::Phv: Copy,
{
    /// As [`Stage::sift`], through all stages in order.
    #[inline(always)]
    pub fn sift(&mut self, phvs: &mut [S::Phv; BATCH], mut len: usize, slots: &mut [Slot; BATCH]) -> usize {
        for stage in &mut self.0 {
            if len == 0 {
                break;
            }
            len = stage.sift(phvs, len, slots, |_, _| {});
        }
        len
    }
}

macro_rules! stage_of_several {
    ($($s:ident $field:tt $out:ident),+) => {
        impl<V, $($s: Salu<Phv = V>),+> Pipeline<V> for Stage<($(Array<$s>,)+)> {
            #[inline(always)]
            fn packet(&mut self, phv: &mut V) {
                $(let $out = self.0.$field.alu().access(phv);)+
                $(self.0.$field.alu().commit($out, phv);)+
            }

            fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe) {
                probe.stage();
                $(let $out = self.0.$field.traced(phv, probe);)+
                $(self.0.$field.alu().commit($out, phv);)+
            }

            #[inline(always)]
            fn batch(&mut self, phvs: &mut [V], members: &mut Members, _: &mut [Slot; BATCH]) {
                members.each(phvs, |_, phv| self.packet(phv));
            }

            fn usage(&self, stages: &mut Vec<StageUse>) {
                stages.push(StageUse::of(vec![$(self.0.$field.usage()),+]));
            }
        }
    };
}

stage_of_several!(A 0 a, B 1 b);
stage_of_several!(A 0 a, B 1 b, C 2 c);
stage_of_several!(A 0 a, B 1 b, C 2 c, D 3 d);
stage_of_several!(A 0 a, B 1 b, C 2 c, D 3 d, E 4 e);

/// Stages of one kind, their number known when the switch is built.
#[derive(Clone, Debug)]
pub struct Repeat<P>(pub Vec<P>);

impl<V, P: Pipeline<V>> Pipeline<V> for Repeat<P> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut V) {
        for stage in &mut self.0 {
            if P::ended(phv) {
                break;
            }
            stage.packet(phv);
        }
    }

    fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe) {
        self.0.iter_mut().for_each(|stage| stage.trace(phv, probe));
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [V], members: &mut Members, slots: &mut [Slot; BATCH]) {
        for stage in &mut self.0 {
            if members.is_empty() {
                break;
            }
            stage.batch(phvs, members, slots);
        }
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        self.0.iter().for_each(|stage| stage.usage(stages));
    }
}

/// One stretch behind another.
#[derive(Clone, Debug)]
pub struct Then<A, B>(pub A, pub B);

impl<V, A: Pipeline<V>, B: Pipeline<V>> Pipeline<V> for Then<A, B> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut V) {
        self.0.packet(phv);
        self.1.packet(phv);
    }

    fn trace(&mut self, phv: &mut V, probe: &mut dyn Probe) {
        self.0.trace(phv, probe);
        self.1.trace(phv, probe);
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [V], members: &mut Members, slots: &mut [Slot; BATCH]) {
        self.0.batch(phvs, members, slots);
        self.1.batch(phvs, members, slots);
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        self.0.usage(stages);
        self.1.usage(stages);
    }
}
