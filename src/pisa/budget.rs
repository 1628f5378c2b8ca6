//! What a pipeline takes of a named hardware target: placement of logical stages on physical ones,
//! and its limits.
//!
//! Programs are chains of logical stages. Chains do not depend on each other and share physical
//! stages; within a chain a stage stands behind the one before it. Each array goes to the first
//! physical stage that has room.

mod target;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use target::Target;

use super::layout::{ArrayUse, DrawUse, HashUse, Layout, LookupUse, MatchUse, ReportUse, StageUse, TableNeed};

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

/// An array or a hash in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed<U> {
    pub program: &'static str,
    /// Logical stage within the program, from 1.
    pub logical: u32,
    #[serde(flatten)]
    pub usage: U,
}

impl<U> Placed<U> {
    /// Name in errors.
    fn named(&self, name: &str) -> String {
        format!("{}.{name} of stage {}", self.program, self.logical)
    }
}

/// A match table, or the part of it that stands in one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedTable {
    /// The program and its logical stage, from 1, of a program's match; none of a switch's table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical: Option<u32>,
    pub table: &'static str,
    pub entries: u64,
    pub sram_bits: u64,
    pub tcam_blocks: u32,
}

impl PlacedTable {
    fn of_switch(table: &'static str, entries: u64, sram_bits: u64, tcam_blocks: u32) -> Self {
        Self { program: None, logical: None, table, entries, sram_bits, tcam_blocks }
    }
}

/// One physical stage and what stands in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhysicalStage {
    pub arrays: Vec<Placed<ArrayUse>>,
    pub hashes: Vec<Placed<HashUse>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<Placed<DrawUse>>,
    pub tables: Vec<PlacedTable>,
}

impl PhysicalStage {
    /// Register arrays and match tables.
    pub fn sram_bits(&self) -> u64 {
        self.register_bits() + self.tables.iter().map(|table| table.sram_bits).sum::<u64>()
    }

    pub fn register_bits(&self) -> u64 {
        self.arrays.iter().map(|placed| placed.usage.sram_bits()).sum()
    }

    pub fn tcam_blocks(&self) -> u32 {
        self.tables.iter().map(|table| table.tcam_blocks).sum()
    }

    /// As many of a table's entries as this stage has room for.
    fn share(&self, need: &TableNeed, left: u64, target: &Target) -> PlacedTable {
        let sram = target.sram_bits.saturating_sub(self.sram_bits());
        let entry = if need.ternary { need.action_bits } else { need.action_bits + need.key_bits };
        let by_sram = sram / u64::from(entry.max(1));
        if !need.ternary {
            let entries = left.min(by_sram);
            let sram_bits = entries * u64::from(entry);
            return PlacedTable::of_switch(need.table, entries, sram_bits, 0);
        }
        let width = need.key_bits.div_ceil(target.tcam_bits).max(1);
        let deep = (target.tcam_blocks - self.tcam_blocks()) / width;
        let entries = left.min(u64::from(deep * target.tcam_rows)).min(by_sram);
        let tcam_blocks = entries.div_ceil(target.tcam_rows.into()) as u32 * width;
        PlacedTable::of_switch(need.table, entries, entries * u64::from(entry), tcam_blocks)
    }

    /// Index hashes of arrays, and hashes that are computed into the PHV.
    pub fn hash_units(&self) -> u32 {
        let of_arrays = self.arrays.iter().filter(|placed| placed.usage.slot.hash_bits() > 0).count();
        (of_arrays + self.hashes.len()) as u32
    }

    /// The first limit that one more array would pass.
    fn over(&self, array: &ArrayUse, target: &Target) -> Option<(Excess, String)> {
        let salus = self.arrays.len() as u32 + 1;
        let sram = self.sram_bits() + array.sram_bits();
        let hashes = self.hash_units() + u32::from(array.slot.hash_bits() > 0);
        let over = |excess, what: &str, need: u64, limit: u64| {
            (need > limit).then(|| (excess, format!("{what} {need} of {limit}")))
        };
        over(Excess::Stages, "stateful ALUs", salus.into(), target.salus.into())
            .or_else(|| over(Excess::Memory, "SRAM bits", sram, target.sram_bits))
            .or_else(|| over(Excess::Stages, "hash units", hashes.into(), target.hash_units.into()))
    }
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
    actions: u32,
}

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
        let mut placement = Self { target, stages, reports, refused: Vec::new(), actions: 0 };
        let mut from = 0;
        for table in tables.iter().filter(|table| table.before_programs) {
            from = from.max(placement.place_table(table)?);
        }
        for program in programs {
            for chain in &program.chains {
                placement.place_chain(program.program, &chain.stages, from)?;
            }
        }
        for table in tables.iter().filter(|table| !table.before_programs) {
            placement.place_table(table)?;
        }
        Ok(placement)
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

    fn place_chain(&mut self, program: &'static str, chain: &[StageUse], mut from: u32) -> Result<(), BudgetError> {
        for (logical, stage) in (1..).zip(chain) {
            from = from.max(self.behind(program, &stage.needs));
            let mut next = from;
            if stage.is_empty() {
                // Actions alone take a stage, too.
                self.begins(&format!("{program}.actions of stage {logical}"), from)?;
                next = from + 1;
                self.actions = self.actions.max(next);
            }
            for usage in &stage.arrays {
                let placed = Placed { program, logical, usage: usage.clone() };
                let decision = if usage.decides { self.target.decision_stages } else { 0 };
                next = next.max(self.place(placed, from)? + 1 + decision);
            }
            for usage in &stage.hashes {
                let placed = Placed { program, logical, usage: usage.clone() };
                next = next.max(self.place_hash(placed, from)? + 1);
            }
            for usage in &stage.draws {
                let placed = Placed { program, logical, usage: usage.clone() };
                next = next.max(self.place_draw(placed, from)? + 1);
            }
            for MatchUse { name, entries, key_bits } in &stage.matches {
                let need = TableNeed::in_stage(name, *entries, *key_bits, None);
                next = next.max(self.place_whole(program, logical, &need, from)? + 1);
            }
            for LookupUse { name, entries, key_bits, action_bits } in &stage.lookups {
                let need = TableNeed::in_stage(name, *entries, *key_bits, Some(*action_bits));
                next = next.max(self.place_whole(program, logical, &need, from)? + 1);
            }
            from = next;
        }
        Ok(())
    }

    /// The physical stage, from 0, that takes the hash.
    fn place_hash(&mut self, placed: Placed<HashUse>, from: u32) -> Result<u32, BudgetError> {
        let target = self.target;
        let array = placed.named(placed.usage.name);
        self.begins(&array, from)?;
        let free = (from..).zip(self.stages.iter_mut().skip(from as usize));
        let mut free = free.filter(|(_, stage)| stage.hash_units() < target.hash_units);
        if let Some((index, stage)) = free.next() {
            stage.hashes.push(placed);
            return Ok(index);
        }
        let last_full = format!("all {} hash units of each of these are taken", target.hash_units);
        Err(self.full(array, from, Excess::Stages, last_full))
    }

    /// The physical stage, from 0, of a random number: the first. No limit of a chip is known.
    fn place_draw(&mut self, placed: Placed<DrawUse>, from: u32) -> Result<u32, BudgetError> {
        self.begins(&placed.named(placed.usage.name), from)?;
        self.stages[from as usize].draws.push(placed);
        Ok(from)
    }

    /// The first physical stage, from 0, behind all hashes and matches of these names.
    fn behind(&self, program: &'static str, names: &[&'static str]) -> u32 {
        let has = |stage: &PhysicalStage| {
            let hash = |placed: &Placed<HashUse>| placed.program == program && names.contains(&placed.usage.name);
            let table = |placed: &PlacedTable| placed.program == Some(program) && names.contains(&placed.table);
            stage.hashes.iter().any(hash) || stage.tables.iter().any(table)
        };
        self.stages.iter().rposition(has).map_or(0, |last| last as u32 + 1)
    }

    /// The physical stage, from 0, that takes the whole table of a program.
    fn place_whole(
        &mut self,
        program: &'static str,
        logical: u32,
        need: &TableNeed,
        from: u32,
    ) -> Result<u32, BudgetError> {
        let TableNeed { table, entries, key_bits, ternary, .. } = *need;
        let target = self.target;
        let named = format!("{program}.{table} of stage {logical}");
        self.begins(&named, from)?;
        for (index, stage) in (from..).zip(self.stages.iter_mut().skip(from as usize)) {
            let whole = stage.share(need, entries, &target);
            if whole.entries == entries {
                stage.tables.push(PlacedTable { program: Some(program), logical: Some(logical), ..whole });
                return Ok(index);
            }
        }
        let memory = if ternary { "TCAM" } else { "SRAM" };
        let last_full = format!("none of these has {memory} for its {entries} entries of {key_bits} bits");
        Err(self.full(named, from, Excess::Memory, last_full))
    }

    /// Refuses what would stand behind the last stage.
    fn begins(&self, array: &str, from: u32) -> Result<(), BudgetError> {
        let Target { name: target, stages: limit, .. } = self.target;
        if from < limit {
            return Ok(());
        }
        Err(BudgetError::TooLong { array: array.into(), stage: from + 1, limit, target })
    }

    fn full(&self, array: String, from: u32, excess: Excess, last_full: String) -> BudgetError {
        let Target { name: target, stages: last, .. } = self.target;
        BudgetError::Stages { array, from: from + 1, last, excess, last_full, target }
    }

    /// The physical stage, from 0, that takes the array.
    fn place(&mut self, placed: Placed<ArrayUse>, from: u32) -> Result<u32, BudgetError> {
        let target = self.target;
        let array = placed.named(placed.usage.name);
        if let (Some(computes), true) = (placed.usage.beyond_chips, target.chip) {
            return Err(BudgetError::Beyond { array, computes, target: target.name });
        }
        for (excess, need, limit) in [
            (Excess::Width, u64::from(placed.usage.cell_bits), u64::from(target.cell_bits)),
            (Excess::Outputs, placed.usage.outputs.into(), target.outputs.into()),
            (Excess::Memory, placed.usage.sram_bits(), target.sram_bits),
        ] {
            if need > limit {
                return Err(BudgetError::Array { array, excess, need, limit, target: target.name });
            }
        }
        self.begins(&array, from)?;
        let (mut excess, mut last_full) = (Excess::Stages, String::new());
        for (index, stage) in (from..).zip(&mut self.stages[from as usize..]) {
            match stage.over(&placed.usage, &target) {
                None => {
                    stage.arrays.push(placed);
                    return Ok(index);
                }
                Some((what, over)) => {
                    excess = what;
                    last_full = format!("stage {} would be over its limit: {over}", index + 1);
                }
            }
        }
        Err(self.full(array, from, excess, last_full))
    }

    /// Physical stages up to the last one in use.
    pub fn stages_used(&self) -> u32 {
        let used = |stage: &PhysicalStage| {
            let memory = !stage.arrays.is_empty() || !stage.tables.is_empty();
            memory || !stage.hashes.is_empty() || !stage.draws.is_empty()
        };
        let last = self.stages.iter().rposition(used).map_or(0, |last| last as u32 + 1);
        last.max(self.actions)
    }

    pub fn salus_used(&self) -> u32 {
        self.stages.iter().map(|stage| stage.arrays.len() as u32).sum()
    }

    pub fn hash_units_used(&self) -> u32 {
        self.stages.iter().map(PhysicalStage::hash_units).sum()
    }

    pub fn sram_bits_used(&self) -> u64 {
        self.stages.iter().map(PhysicalStage::sram_bits).sum()
    }

    /// Memory of the programs alone.
    pub fn register_bits_used(&self) -> u64 {
        self.stages.iter().map(PhysicalStage::register_bits).sum()
    }

    pub fn tcam_blocks_used(&self) -> u32 {
        self.stages.iter().map(PhysicalStage::tcam_blocks).sum()
    }
}
