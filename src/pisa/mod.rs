//! The emulated switch ASIC: a PHV, stages with register arrays and stateful ALUs, hash units and
//! match-action tables.

mod banked;
mod beside;
mod budget;
mod cells;
pub mod chance;
mod count;
pub mod cpu;
mod draw;
mod drops;
mod group;
pub mod hash;
mod layout;
mod members;
mod phv;
mod pipeline;
mod prefetch;
mod probe;
mod registers;
mod salu;
mod step;
pub mod table;
mod vectors;
mod wide;
mod word;

pub use banked::Banked;
pub use budget::{BudgetError, Excess, PhysicalStage, Placed, PlacedTable, Placement, Target};
pub use cells::ArrayCells;
pub use count::Count;
pub use draw::{Draws, Generator};
pub use drops::{DropAt, DropReason};
pub use group::{ArrayGroup, GroupRegisters, GroupSalu};
pub use layout::{
    Added, ArrayPlace, ArrayUse, COPY, Chain, ChipForm, ChipStep, Computation, DrawUse, HashUse, JoinUse, Layout,
    LookupUse, MatchUse, ReportUse, Side, SlotSource, StageUse, StepTable, TableNeed, range_entries,
};
pub use members::{BATCH, Members};
pub use phv::{Disposition, MAX_PORTS, Phv, PortId, Verdict};
pub use pipeline::{BatchOrder, Pipeline, Repeat, Stage, Then};
pub use probe::{AccessTrace, CellTrace, LookupTrace, Probe};
pub use registers::{Array, Registers};
pub use salu::{Salu, Slot};
pub use step::{Compute, Step};
pub use vectors::Pairs;
pub(crate) use vectors::{Picks, Vectors};
pub(crate) use wide::{Wide, wide, wide_to_avx2};
pub use word::Word;
