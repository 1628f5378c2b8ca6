//! The bank of a replica: its registers over one epoch.

use std::sync::Arc;

use super::dataplane::{COUNTERS, Counter};
use super::decoder::{Level, Sketches};
use super::hashes::Hashes;
use super::names::Names;
use super::parameters::{EncoderParameters, Shape};
use crate::pisa::{ArrayCells, GroupRegisters, Registers};
use crate::program::{AnyRecord, Bank, StrayRegisters};

/// Does the same with what there is of either width of counters.
macro_rules! of_width {
    ($of:expr, $inner:ident => $does:expr) => {
        match $of {
            Self::Bits8($inner) => $does,
            Self::Bits16($inner) => $does,
            Self::Bits32($inner) => $does,
        }
    };
}
pub(super) use of_width;

/// The registers of one counter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counters {
    Bits8(Registers<u8>),
    Bits16(Registers<u16>),
    Bits32(Registers<u32>),
}

impl Counters {
    pub(super) fn clear(&mut self) {
        of_width!(self, registers => registers.clear());
    }

    pub(super) fn cells(&self) -> ArrayCells {
        of_width!(self, registers => registers.read())
    }

    /// The sizes that the counters report.
    pub fn read(&self) -> Level {
        fn sizes<C: Counter>(registers: &Registers<C>) -> Vec<u32> {
            registers.cells().iter().map(|cell| cell.size()).collect()
        }
        match self {
            Self::Bits8(registers) => Level::new(8, sizes(registers)),
            Self::Bits16(registers) => Level::new(16, sizes(registers)),
            Self::Bits32(registers) => Level::new(32, sizes(registers)),
        }
    }
}

/// The registers of one row: in each slot the four ID counters and the count.
pub type RowRegisters = GroupRegisters<u32, COUNTERS>;

/// The registers of one replica.
pub struct ChameleMonBank {
    pub tower: Vec<Counters>,
    pub upstream: Vec<RowRegisters>,
    /// Twice as long: the left half for packets of epoch bit 0, the right for 1.
    pub downstream: Vec<RowRegisters>,
    pub(super) shape: Shape,
    pub(super) hashes: Arc<Hashes>,
    pub(super) parameters_by_bit: [EncoderParameters; 2],
    pub(super) bit: bool,
    /// Packets that left in a class or epoch that had no part.
    pub(super) strays: StrayRegisters,
    /// Packets that went on without their class.
    pub(super) unmarked: u64,
    /// Packets that became several which nobody follows.
    pub(super) unfollowed: u64,
    /// Of IPv6 flows that entered.
    pub(super) names: Names,
}

impl ChameleMonBank {
    /// The registers as sketches.
    pub fn read(&self) -> Sketches {
        Sketches::read(self, &self.shape, &self.hashes)
    }
}

impl Bank for ChameleMonBank {
    fn clear(&mut self) {
        self.tower.iter_mut().for_each(Counters::clear);
        self.upstream.iter_mut().chain(&mut self.downstream).for_each(RowRegisters::clear);
        self.strays.clear();
        (self.unmarked, self.unfollowed) = (0, 0);
        self.names.clear();
    }

    fn record(&self) -> AnyRecord {
        Box::new(self.read())
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        let tower = self.tower.iter().map(Counters::cells);
        let rows = self.upstream.iter().chain(&self.downstream);
        tower.chain(rows.flat_map(RowRegisters::read)).collect()
    }
}
