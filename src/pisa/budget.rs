//! What a pipeline takes of a named hardware target: placement of logical stages on physical ones,
//! and its limits.
//!
//! Programs are chains of logical stages. Chains do not depend on each other and share physical
//! stages; within a chain a stage stands behind the one before it. Each array goes to the first
//! physical stage that has room.
//!
//! A target that [takes stages apart](Target::takes_apart) places them as the compiler of Tofino does:
//! with the steps of each stage's [`ChipForm`](super::ChipForm), by what its hash units give to the
//! PHV, and with two copies of each register array. `tests/p4/placement.rs` holds this to its reports.

mod chain;
mod stage;
mod target;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub use stage::{PhysicalStage, Placed, PlacedTable};
pub use target::Target;

use super::layout::{COPY, Layout, ReportUse, TableNeed};

/// Why a pipeline does not fit its target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error("{array}: {excess} is {need}, and one stage of {target} has at most {limit}")]
    Array { array: String, excess: Excess, need: u64, limit: u64, target: &'static str },
    #[error(
        "{array} does not fit: it may stand in stages {from} to {last} of {target} at the earliest, and {last_full}"
    )]
    Stages { array: String, from: u32, last: u32, excess: Excess, last_full: String, target: &'static str },
    #[error("{table}: {left} of {entries} entries find no {what} in the {stages} stages of {target}")]
    Table { table: &'static str, left: u64, entries: u64, what: &'static str, stages: u32, target: &'static str },
    #[error("{array}: its stateful ALU {computes}, which no stateful ALU of a chip does")]
    Beyond { array: String, computes: &'static str, target: &'static str },
    #[error("{array} would stand in stage {stage}, and {target} has {limit} stages")]
    TooLong { array: String, stage: u32, limit: u32, target: &'static str },
}

impl BudgetError {
    /// The target that refuses.
    pub fn target(&self) -> &'static str {
        match self {
            Self::Array { target, .. }
            | Self::Stages { target, .. }
            | Self::Table { target, .. }
            | Self::Beyond { target, .. }
            | Self::TooLong { target, .. } => target,
        }
    }
}

/// What of an array is too much for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("the cell's width in bits")]
    Width,
    #[error("the number of outputs of its stateful ALU")]
    Outputs,
    #[error("its memory in bits")]
    Memory,
    #[error("the number of stages")]
    Stages,
    #[error("what its stateful ALU computes")]
    Computation,
}

/// A pipeline placed on a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    pub target: Target,
    pub stages: Vec<PhysicalStage>,
    /// By program.
    pub reports: Vec<(&'static str, ReportUse)>,
    /// Why each chip that was to be tried before refuses the pipeline.
    #[serde(skip)]
    pub refused: Vec<BudgetError>,
    /// Physical stages up to the last one with actions of a stage that has nothing else.
    #[serde(skip)]
    actions: u32,
    /// The first stage, from 0, behind what has this name in a program.
    #[serde(skip)]
    ready: BTreeMap<(&'static str, &'static str), u32>,
    /// The first stage, from 0, in which it is known which copy of the registers counts.
    #[serde(skip)]
    copy_known: u32,
}

/// Epochs that are known before they begin, bits of their numbers, and bits of an entry: the copy,
/// and whether it is in use.
const COPY_TABLE: TableNeed =
    TableNeed { table: COPY, entries: 64, key_bits: 16, action_bits: 2, ternary: false, before_programs: false };

impl Placement {
    /// Places all programs, or says which array passes which limit in which stage.
    pub fn new(target: Target, programs: &[Layout]) -> Result<Self, BudgetError> {
        Self::with_tables(target, programs, &[])
    }

    /// Places match tables with the programs: those that programs stand behind first, the others
    /// where they leave room.
    pub fn with_tables(target: Target, programs: &[Layout], tables: &[TableNeed]) -> Result<Self, BudgetError> {
        let reports =
            programs.iter().flat_map(|of| of.reports.iter().map(move |reports| (of.program, *reports))).collect();
        let stages = vec![PhysicalStage::default(); target.stages as usize];
        let (refused, ready) = (Vec::new(), BTreeMap::new());
        let mut placement = Self { target, stages, reports, refused, actions: 0, ready, copy_known: 0 };
        if target.copies > 1 && programs.iter().any(Layout::has_copies) {
            placement.copy_known = placement.place_table(&COPY_TABLE)?;
        }
        let mut from = 0;
        for table in tables.iter().filter(|table| table.before_programs) {
            from = from.max(placement.place_table(table)?);
        }
        for program in in_order(&target, programs) {
            placement.place_program(program, from)?;
        }
        for table in tables.iter().filter(|table| !table.before_programs) {
            placement.place_table(table)?;
        }
        Ok(placement)
    }

    fn place_program(&mut self, program: &Layout, from: u32) -> Result<(), BudgetError> {
        program.chains.iter().try_for_each(|chain| self.place_chain(program.program, &chain.stages, from))
    }

    /// Spreads a table over the first stages with room; gives the number of the stage behind its
    /// last.
    fn place_table(&mut self, need: &TableNeed) -> Result<u32, BudgetError> {
        let (target, mut left, mut behind) = (self.target, need.entries, 0);
        for (stage, number) in self.stages.iter_mut().zip(1..) {
            let share = stage.share(need, left, &target);
            if share.entries > 0 {
                left -= share.entries;
                behind = number;
                stage.tables.push(share);
            }
        }
        if left > 0 {
            let what = if need.ternary { "TCAM" } else { "SRAM" };
            let (table, entries) = (need.table, need.entries);
            return Err(BudgetError::Table { table, left, entries, what, stages: target.stages, target: target.name });
        }
        Ok(behind)
    }

    /// Physical stages up to the last one in use.
    pub fn stages_used(&self) -> u32 {
        let used = |stage: &PhysicalStage| {
            let memory = !stage.arrays.is_empty() || !stage.tables.is_empty();
            memory || !stage.hashes.is_empty() || !stage.joins.is_empty() || !stage.draws.is_empty()
        };
        let last = self.stages.iter().rposition(used).map_or(0, |last| last as u32 + 1);
        last.max(self.actions)
    }

    pub fn salus_used(&self) -> u32 {
        self.stages.iter().map(|stage| stage.arrays.len() as u32).sum()
    }

    pub fn hash_units_used(&self) -> u32 {
        self.stages.iter().map(|stage| stage.hash_units(&self.target)).sum()
    }

    /// Hash units of one program.
    pub fn hash_units_of(&self, program: &str) -> u32 {
        self.stages.iter().map(|stage| stage.hash_units_of(&self.target, |of| of == Some(program))).sum()
    }

    pub fn sram_bits_used(&self) -> u64 {
        self.stages.iter().map(|stage| stage.sram_bits(&self.target)).sum()
    }

    /// Cells of the programs' registers, each once.
    pub fn register_bits_used(&self) -> u64 {
        self.stages.iter().map(PhysicalStage::register_bits).sum()
    }

    pub fn tcam_blocks_used(&self) -> u32 {
        self.stages.iter().map(PhysicalStage::tcam_blocks).sum()
    }
}

/// The programs in the order in which they are placed: as they are given, or, as the compiler of Tofino does,
/// the one first whose stages depend on each other in the longest chain.
fn in_order<'a>(target: &Target, programs: &'a [Layout]) -> Vec<&'a Layout> {
    let mut ordered: Vec<_> = programs.iter().collect();
    if target.takes_apart && programs.len() > 1 {
        let length = |program: &Layout| {
            let alone = Placement::new(target.boundless(), std::slice::from_ref(program));
            alone.map_or(u32::MAX, |placement| placement.stages_used())
        };
        ordered.sort_by_cached_key(|program| std::cmp::Reverse(length(program)));
    }
    ordered
}
