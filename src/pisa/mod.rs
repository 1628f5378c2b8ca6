//! The emulated switch ASIC: a PHV, stages with register arrays and stateful ALUs, hash units and
//! match-action tables.

mod budget;
mod cells;
mod count;
pub mod cpu;
mod group;
pub mod hash;
mod drops;
mod layout;
mod phv;
mod pipeline;
mod prefetch;
mod probe;
mod registers;
mod salu;
pub mod table;
mod vectors;
mod wide;
mod word;

pub use budget::{BudgetError, Excess, PhysicalStage, Placed, PlacedTable, Placement, Target};
pub use cells::ArrayCells;
pub use count::Count;
pub use drops::DropReason;
pub use group::{ArrayGroup, GroupRegisters, GroupSalu};
pub use layout::{
    ArrayPlace, ArrayUse, Chain, Computation, HashUse, Layout, LookupUse, MatchUse, ReportUse, Side, SlotSource,
    StageUse, TableNeed, range_entries,
};
pub use phv::{Disposition, MAX_PORTS, Phv, PortId, Verdict};
pub use pipeline::{BATCH, Banked, BatchOrder, Members, Pipeline, Repeat, Stage, Then};
pub use probe::{AccessTrace, CellTrace, LookupTrace, Probe};
pub use registers::{Array, Registers};
pub use salu::{Salu, Slot};
pub use vectors::Pairs;
pub(crate) use vectors::{Picks, Vectors, highest_bits};
pub(crate) use wide::{Wide, wide, wide_to_avx2};
pub use word::Word;
