//! The registers of an average: for each port the time at which the last packet left, and the average.

use std::fmt::Debug;

use super::dataplane::Meta;
use crate::pisa::{Array, ArrayCells, Banked, Registers, Salu, Stage, Word};

/// What names the cell of a packet.
const PORT: &str = "phv.egress";

/// Both arrays, a cell for each port.
#[derive(Debug)]
pub struct AverageRegisters<L: Salu<Cell: Debug>, A: Salu<Cell: Debug>> {
    pub last: Stage<Array<L>>,
    pub average: Stage<Array<A>>,
}

/// A copy of the registers.
#[derive(Debug)]
pub struct Memory<C: Word + Debug> {
    last: Registers<C>,
    average: Registers<u32>,
}

impl<C: Word + Debug> Memory<C> {
    /// The arrays, in the order of the stages.
    pub fn read(&self) -> [ArrayCells; 2] {
        [self.last.read(), self.average.read()]
    }

    pub fn clear(&mut self) {
        self.last.clear();
        self.average.clear();
    }
}

impl<L: Salu<Phv = Meta, Cell: Debug>, A: Salu<Phv = Meta, Cell = u32>> AverageRegisters<L, A> {
    /// Without memory, until [`Self::allocate`] takes it.
    pub fn planned(last: L, average: A, cells: u32) -> Self {
        Self {
            last: Stage(Array::planned("last sent", last, cells).at(PORT)),
            average: Stage(Array::planned("utilisation", average, cells).at(PORT)),
        }
    }

    /// Takes zeroed registers.
    pub fn allocate(&mut self) {
        self.last.exchange(&mut self.last.zeroed());
        self.average.exchange(&mut self.average.zeroed());
    }

    /// Zeroed registers for [`Self::copy_to`].
    pub fn zeroed(&self) -> Memory<L::Cell> {
        Memory { last: self.last.zeroed(), average: self.average.zeroed() }
    }

    /// Copies the registers.
    pub fn copy_to(&self, memory: &mut Memory<L::Cell>) {
        memory.last.copy_from(self.last.0.registers());
        memory.average.copy_from(self.average.0.registers());
    }
}
