//! Register memory, and the array that joins it with its stateful ALU.

use super::prefetch::prefetch;
use super::{AccessTrace, ArrayUse, CellTrace, Probe, Salu, Slot, SlotSource, Word};

/// The cells of one register array. Whoever holds it may read it; only the engine writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers<C>(Box<[C]>);

impl<C: Word> Registers<C> {
    pub fn zeroed(len: u32) -> Self {
        Self(vec![C::default(); len as usize].into())
    }

    fn none() -> Self {
        Self(Box::default())
    }

    pub fn cells(&self) -> &[C] {
        &self.0
    }

    pub fn clear(&mut self) {
        self.0.fill(C::default());
    }

    /// Takes over the content of an array of the same length; of another one nothing.
    pub fn copy_from(&mut self, other: &Self) {
        if self.0.len() == other.0.len() {
            self.0.copy_from_slice(&other.0);
        }
    }

    /// Memory in hardware bits.
    pub fn bits(&self) -> u64 {
        self.0.len() as u64 * u64::from(C::BITS)
    }
}

/// A register array with its stateful ALU.
#[derive(Clone, Debug)]
pub struct Array<S: Salu> {
    name: &'static str,
    salu: S,
    cells: u32,
    slot: SlotSource,
    registers: Registers<S::Cell>,
}

impl<S: Salu> Array<S> {
    pub fn new(name: &'static str, salu: S, cells: u32) -> Self {
        Self { registers: Registers::zeroed(cells), ..Self::planned(name, salu, cells) }
    }

    /// An array that takes memory only with its first [`Self::exchange`]. Until then no packet
    /// touches it.
    pub fn planned(name: &'static str, salu: S, cells: u32) -> Self {
        Self { name, salu, cells, slot: SlotSource::default(), registers: Registers::none() }
    }

    /// Says what names the slot: a hash, or a field of the PHV.
    pub fn at(self, slot: impl Into<SlotSource>) -> Self {
        Self { slot: slot.into(), ..self }
    }

    /// Number of cells.
    #[allow(clippy::len_without_is_empty, reason = "an array has cells")]
    pub fn len(&self) -> u32 {
        self.cells
    }

    pub fn registers(&self) -> &Registers<S::Cell> {
        &self.registers
    }

    pub fn salu(&self) -> &S {
        &self.salu
    }

    /// Swaps the memory with `spare`, which must be of the array's length (debug-asserted).
    pub fn exchange(&mut self, spare: &mut Registers<S::Cell>) {
        debug_assert_eq!(self.cells as usize, spare.0.len());
        std::mem::swap(&mut self.registers, spare);
    }

    pub fn usage(&self) -> ArrayUse {
        ArrayUse {
            name: self.name,
            cells: self.cells.into(),
            cell_bits: S::Cell::BITS,
            field_bits: S::Cell::fields(),
            outputs: S::OUTPUTS,
            slot: self.slot.clone(),
            decides: S::DECIDES,
            keys: S::KEYS,
            is_grouped: false,
            is_halved: false,
            beyond_chips: S::BEYOND_CHIPS,
        }
    }

    #[inline(always)]
    pub(super) fn alu(&mut self) -> Alu<'_, S> {
        Alu { salu: &self.salu, cells: &mut self.registers.0 }
    }

    /// As [`Alu::access`], and tells what it did.
    pub(super) fn traced(&mut self, phv: &S::Phv, probe: &mut dyn Probe) -> Option<S::Out> {
        let slot = self.salu.enabled(phv).then(|| self.salu.slot(phv));
        let read = |array: &Self| {
            slot.and_then(|slot| array.registers.0.get(slot.0 as usize))
                .map_or("outside the array".into(), Word::describe)
        };
        let before = read(self);
        let out = slot.and_then(|slot| self.alu().access_at(slot, phv));
        let cell = slot.map(|Slot(slot)| CellTrace {
            slot,
            before,
            after: read(self),
            output: out.map_or("nothing".into(), |out| self.salu.describe(&out)),
        });
        probe.access(AccessTrace {
            array: self.name.into(),
            logical: None,
            hash_bits: self.slot.hash_bits(),
            cell,
            computed: None,
        });
        out
    }
}

/// An array at work: its stateful ALU and its cells. A loop over packets keeps the cells' address
/// in a CPU register, which it cannot do with what it reaches through the array; and what a small
/// stateful ALU holds as well, where the loop has a copy of its own.
pub(super) struct Alu<'a, S: Salu> {
    pub salu: &'a S,
    cells: &'a mut [S::Cell],
}

impl<S: Salu> Alu<'_, S> {
    /// Match, read-modify-write, and what of it goes into the PHV.
    #[inline(always)]
    pub(super) fn packet(&mut self, phv: &mut S::Phv) {
        let out = self.access(phv);
        self.commit(out, phv);
    }

    /// Match and read-modify-write: `None` when the packet does not touch the array.
    #[inline(always)]
    pub(super) fn access(&mut self, phv: &S::Phv) -> Option<S::Out> {
        if !self.salu.enabled(phv) {
            return None;
        }
        self.access_at(self.salu.slot(phv), phv)
    }

    #[inline(always)]
    pub(super) fn access_at(&mut self, slot: Slot, phv: &S::Phv) -> Option<S::Out> {
        self.access_by(slot, phv, S::rmw)
    }

    /// As [`Self::access_at`], by this form of the stateful ALU's `rmw`.
    #[inline(always)]
    pub(super) fn access_by(
        &mut self,
        slot: Slot,
        phv: &S::Phv,
        rmw: impl Fn(&S, S::Cell, &S::Phv) -> (S::Cell, S::Out),
    ) -> Option<S::Out> {
        let cell = self.cells.get_mut(slot.0 as usize)?;
        let (next, out) = rmw(self.salu, *cell, phv);
        *cell = next;
        Some(out)
    }

    /// Asks for the cell's memory.
    #[inline(always)]
    pub(super) fn prefetch(&self, Slot(slot): Slot) {
        prefetch(self.cells, slot);
    }

    #[inline(always)]
    pub(super) fn commit(&self, out: Option<S::Out>, phv: &mut S::Phv) {
        if let Some(out) = out {
            self.salu.commit(out, phv);
        }
    }
}
