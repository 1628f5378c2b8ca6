//! The two forms of a link's average, by the key `filter` of the query.

use super::dataplane::Meta;
use super::link::Links;
use super::shifts::Shifts;
use super::{Utilisation, registers};
use crate::pisa::{ArrayCells, MAX_PORTS, Probe, StageUse};
use crate::text::named;

named! {
    /// How a switch keeps the average utilisation of a link.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Filter {
        /// By sums of logarithms from tables.
        #[default]
        Logarithms = "logarithms",
        /// By shifts, of integers alone.
        Shifts = "shifts",
    }
}

/// The averages of a switch's links.
#[derive(Debug)]
pub enum Averages {
    Logarithms(Utilisation),
    Shifts(Shifts),
}

/// A copy of their registers.
#[derive(Debug)]
pub enum Memory {
    Logarithms(registers::Memory<u64>),
    Shifts(registers::Memory<u32>),
}

impl Memory {
    /// The arrays, in the order of the stages.
    pub fn read(&self) -> [ArrayCells; 2] {
        match self {
            Self::Logarithms(memory) => memory.read(),
            Self::Shifts(memory) => memory.read(),
        }
    }

    pub fn clear(&mut self) {
        match self {
            Self::Logarithms(memory) => memory.clear(),
            Self::Shifts(memory) => memory.clear(),
        }
    }
}

impl Averages {
    /// Of all ports, without memory for registers. Until [`Self::allocate`] takes it, utilisations are 0.
    pub fn planned(links: Links) -> Self {
        let period_ns = links.period_ns();
        match links.filter {
            Filter::Logarithms => {
                Self::Logarithms(Utilisation::planned(&[links.bytes_per_second(); MAX_PORTS], period_ns))
            }
            Filter::Shifts => Self::Shifts(Shifts::planned(MAX_PORTS as u32, period_ns)),
        }
    }

    pub fn allocate(&mut self) {
        match self {
            Self::Logarithms(averages) => averages.allocate(),
            Self::Shifts(averages) => averages.allocate(),
        }
    }

    /// [`Meta::queue`] is the share of this room, in units of 2⁻¹⁶, that packets take.
    pub fn set_queue_room(&mut self, bytes: u64) {
        match self {
            Self::Logarithms(averages) => averages.set_queue_room(bytes),
            Self::Shifts(averages) => averages.set_queue_room(bytes),
        }
    }

    /// Takes a packet that leaves.
    #[inline(always)]
    pub fn packet(&mut self, phv: &mut Meta) {
        match self {
            Self::Logarithms(averages) => averages.packet(phv),
            Self::Shifts(averages) => averages.packet(phv),
        }
    }

    /// As [`Self::packet`], and reports each access to a register to `probe`.
    pub fn trace(&mut self, phv: &mut Meta, probe: &mut dyn Probe) {
        match self {
            Self::Logarithms(averages) => averages.trace(phv, probe),
            Self::Shifts(averages) => averages.trace(phv, probe),
        }
    }

    /// Zeroed registers for [`Self::copy_to`].
    pub fn zeroed(&self) -> Memory {
        match self {
            Self::Logarithms(averages) => Memory::Logarithms(averages.zeroed()),
            Self::Shifts(averages) => Memory::Shifts(averages.zeroed()),
        }
    }

    /// Copies the registers. Memory that was made for another filter is replaced.
    pub fn copy_to(&self, memory: &mut Memory) {
        match (self, memory) {
            (Self::Logarithms(averages), Memory::Logarithms(memory)) => averages.copy_to(memory),
            (Self::Shifts(averages), Memory::Shifts(memory)) => averages.copy_to(memory),
            (averages, memory) => {
                *memory = averages.zeroed();
                averages.copy_to(memory);
            }
        }
    }

    /// The eight stages.
    pub fn usage(&self) -> Vec<StageUse> {
        match self {
            Self::Logarithms(averages) => averages.usage(),
            Self::Shifts(averages) => averages.usage(),
        }
    }
}
