//! Register arrays that a packet touches at the same slot: in hardware one beside the other, each
//! with a stateful ALU of its own, in memory cell by cell, so that a packet finds all of them on
//! one cache line.

use super::{
    AccessTrace, ArrayUse, BATCH, CellTrace, Members, Pipeline, Probe, Slot, SlotSource, Stage, StageUse, Word,
};

/// The cells of `N` arrays of one length, by slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRegisters<C, const N: usize>(Box<[[C; N]]>);

impl<C: Word, const N: usize> GroupRegisters<C, N> {
    /// `N` arrays of so many cells.
    pub fn zeroed(len: u32) -> Self {
        Self(vec![[C::default(); N]; len as usize].into())
    }

    pub fn cells(&self) -> &[[C; N]] {
        &self.0
    }

    pub fn clear(&mut self) {
        self.0.fill([C::default(); N]);
    }
}

/// The stateful ALUs of a group: what they have in common is the match and the slot. Each sees its
/// own cell alone. They give the packet nothing to take along.
pub trait GroupSalu<const N: usize>: Copy + Send + 'static {
    /// The PHV as this program sees it.
    type Phv;
    type Cell: Word;

    /// Whether the packet touches the arrays at all.
    #[inline(always)]
    fn enabled(&self, _phv: &Self::Phv) -> bool {
        true
    }

    /// The slot that an enabled packet touches. One past the arrays' end reads and writes nothing.
    fn slot(&self, phv: &Self::Phv) -> Slot;
    /// The successor of the cell in array number `array`.
    fn rmw(&self, array: usize, cell: Self::Cell, phv: &Self::Phv) -> Self::Cell;
}

/// `N` register arrays with their stateful ALUs.
#[derive(Clone, Debug)]
pub struct ArrayGroup<S: GroupSalu<N>, const N: usize> {
    name: &'static str,
    salu: S,
    cells: u32,
    slot: SlotSource,
    registers: GroupRegisters<S::Cell, N>,
}

impl<S: GroupSalu<N>, const N: usize> ArrayGroup<S, N> {
    pub fn new(name: &'static str, salu: S, cells: u32) -> Self {
        Self { registers: GroupRegisters::zeroed(cells), ..Self::planned(name, salu, cells) }
    }

    /// Arrays that take memory only with their first [`Self::exchange`]. Until then no packet
    /// touches them.
    pub fn planned(name: &'static str, salu: S, cells: u32) -> Self {
        Self { name, salu, cells, slot: SlotSource::default(), registers: GroupRegisters(Box::default()) }
    }

    /// See [`Array::at`](super::Array::at).
    pub fn at(self, slot: impl Into<SlotSource>) -> Self {
        Self { slot: slot.into(), ..self }
    }

    /// Number of cells.
    #[allow(clippy::len_without_is_empty, reason = "an array has cells")]
    pub fn len(&self) -> u32 {
        self.cells
    }

    pub fn registers(&self) -> &GroupRegisters<S::Cell, N> {
        &self.registers
    }

    /// Swaps the memory with `spare`, which must be of the arrays' length (debug-asserted).
    pub fn exchange(&mut self, spare: &mut GroupRegisters<S::Cell, N>) {
        debug_assert_eq!(self.cells as usize, spare.0.len());
        std::mem::swap(&mut self.registers, spare);
    }

    fn usage(&self) -> ArrayUse {
        ArrayUse {
            name: self.name,
            cells: self.cells.into(),
            cell_bits: S::Cell::BITS,
            field_bits: S::Cell::fields(),
            outputs: 0,
            slot: self.slot.clone(),
            decides: false,
            keys: 1,
            is_grouped: false,
            is_halved: false,
            beyond_chips: None,
        }
    }

    /// What all of its arrays use.
    pub(super) fn usages(&self) -> Vec<ArrayUse> {
        (0..N).map(|array| ArrayUse { is_grouped: array > 0, ..self.usage() }).collect()
    }

    /// Match and read-modify-write, and tells what they did.
    pub(super) fn traced(&mut self, phv: &S::Phv, probe: &mut dyn Probe) {
        let ArrayGroup { name, salu, slot: source, registers, .. } = &*self;
        let slot = salu.enabled(phv).then(|| salu.slot(phv).0);
        let told = |cell: Option<S::Cell>| cell.map_or("outside the array".into(), |cell| cell.describe());
        let access = |array: usize| {
            let cell = slot.map(|slot| {
                let before = registers.0.get(slot as usize).map(|cells| cells[array]);
                let after = before.map(|cell| salu.rmw(array, cell, phv));
                CellTrace { slot, before: told(before), after: told(after), output: "nothing".into() }
            });
            AccessTrace { array: (*name).into(), logical: None, hash_bits: source.hash_bits(), cell, computed: None }
        };
        (0..N).map(access).for_each(|access| probe.access(access));
        self.alu().packet(phv);
    }

    #[inline(always)]
    pub(super) fn alu(&mut self) -> GroupAlu<'_, S, N> {
        GroupAlu { salu: &self.salu, cells: &mut self.registers.0 }
    }
}

/// A group at work: see [`Alu`](super::registers::Alu).
pub(super) struct GroupAlu<'a, S: GroupSalu<N>, const N: usize> {
    salu: &'a S,
    cells: &'a mut [[S::Cell; N]],
}

impl<S: GroupSalu<N>, const N: usize> GroupAlu<'_, S, N> {
    /// Match and read-modify-write.
    #[inline(always)]
    pub(super) fn packet(&mut self, phv: &S::Phv) {
        if self.salu.enabled(phv) {
            self.access(phv);
        }
    }

    #[inline(always)]
    fn access(&mut self, phv: &S::Phv) {
        self.access_at(self.salu.slot(phv), phv);
    }

    #[inline(always)]
    fn access_at(&mut self, slot: Slot, phv: &S::Phv) {
        if let Some(cells) = self.cells.get_mut(slot.0 as usize) {
            *cells = std::array::from_fn(|array| self.salu.rmw(array, cells[array], phv));
        }
    }
}

impl<S: GroupSalu<N>, const N: usize> Stage<ArrayGroup<S, N>> {
    /// Takes the members of a batch through, whose slots are there already: the packets that are
    /// enabled, and nobody asks again. `phv` is what the stateful ALUs see of a packet with this
    /// field.
    #[inline(always)]
    pub fn with_slots<T>(&mut self, members: &Members, slots: &[Slot], fields: &mut [T], phv: impl Fn(&T) -> S::Phv) {
        let mut alu = self.0.alu();
        let salu = *alu.salu;
        alu.salu = &salu;
        members.each_slot(slots, fields, |slot, field| alu.access_at(slot, &phv(field)));
    }
}

impl<S: GroupSalu<N>, const N: usize> Pipeline<S::Phv> for Stage<ArrayGroup<S, N>> {
    #[inline(always)]
    fn packet(&mut self, phv: &mut S::Phv) {
        self.0.alu().packet(phv);
    }

    fn trace(&mut self, phv: &mut S::Phv, probe: &mut dyn Probe) {
        probe.stage();
        self.0.traced(phv, probe);
    }

    #[inline(always)]
    fn batch(&mut self, phvs: &mut [S::Phv], members: &mut Members, _: &mut [Slot; BATCH]) {
        let mut alu = self.0.alu();
        let salu = *alu.salu;
        alu.salu = &salu;
        let enabled = members.only(phvs, |phv| alu.salu.enabled(phv));
        enabled.each(phvs, |_, phv| alu.access(phv));
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        stages.push(StageUse::of(self.0.usages()));
    }
}
