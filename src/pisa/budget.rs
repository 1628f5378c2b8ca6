//! What a pipeline takes of a named hardware target: placement of logical stages on physical ones, and its limits.
//!
//! Programs are chains of logical stages. Chains do not depend on each other and share physical stages; within a chain a
//! stage stands behind the one before it. Each array goes to the first physical stage that has room.

use serde::Serialize;

/// What one register array uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArrayUse {
    pub name: &'static str,
    pub cells: u64,
    pub cell_bits: u32,
    /// PHV fields that its stateful ALU fills.
    pub outputs: u32,
    pub hash_bits: u32,
    /// Its output decides what the next stage does.
    pub decides: bool,
}

impl ArrayUse {
    pub fn sram_bits(&self) -> u64 {
        self.cells * u64::from(self.cell_bits)
    }
}

/// What one logical stage uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageUse {
    pub arrays: Vec<ArrayUse>,
}

/// A program as the budget sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramUse {
    pub program: &'static str,
    /// Chains of stages that do not depend on each other.
    pub chains: Vec<Vec<StageUse>>,
}

/// The limits of a hardware pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    pub name: &'static str,
    pub stages: u32,
    /// Stateful ALUs, so register arrays, a stage.
    pub salus: u32,
    /// Register memory a stage, in bits.
    pub sram_bits: u64,
    /// Index hashes a stage.
    pub hash_units: u32,
    /// The widest cell that one stateful ALU reads and writes.
    pub cell_bits: u32,
    /// PHV fields that one stateful ALU can fill.
    pub outputs: u32,
    /// Stages between a stateful ALU whose output decides what comes next and the stage that obeys.
    pub decision_stages: u32,
}

impl Target {
    /// Tofino: 12 stages of 4 stateful ALUs over pairs of 32 bits with one output, 80 SRAM blocks of 128 Kbit a stage.
    pub const TOFINO: Self = Self {
        name: "tofino",
        stages: 12,
        salus: 4,
        sram_bits: 80 * 128 * 1024,
        hash_units: 6,
        cell_bits: 64,
        outputs: 1,
        decision_stages: 1,
    };
    /// Tofino 2: 20 stages, else as Tofino, with up to four outputs of a stateful ALU. A chain of six HashPipe stages
    /// with 32-bit keys takes 11 of them (tried with the open compiler).
    pub const TOFINO2: Self = Self { name: "tofino2", stages: 20, outputs: 4, ..Self::TOFINO };
    /// The model that HashPipe is written for (§2.1, after RMT): 16 stages, each with one wide array, 106 SRAM blocks of
    /// 1024 × 112 bits (1.4 MB) a stage, and a match on what was read within the stage.
    pub const RMT: Self = Self {
        name: "rmt",
        stages: 16,
        salus: 1,
        sram_bits: 106 * 1024 * 112,
        hash_units: 1,
        cell_bits: 640,
        outputs: u32::MAX,
        decision_stages: 0,
    };
    /// No hardware: programs side by side that no one of these chips would hold. It bounds memory only, to 1 GiB.
    pub const SOFTWARE: Self = Self {
        name: "software",
        stages: 64,
        salus: 64,
        sram_bits: 1 << 27,
        hash_units: 64,
        cell_bits: 640,
        outputs: u32::MAX,
        decision_stages: 0,
    };
    pub const ALL: [Self; 4] = [Self::TOFINO, Self::TOFINO2, Self::RMT, Self::SOFTWARE];

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name == name)
    }
}

/// Why a pipeline does not fit its target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error("{array}: {what} is {need}, and one stage of {target} has at most {limit}")]
    Array { array: String, what: &'static str, need: u64, limit: u64, target: &'static str },
    #[error(
        "{array} does not fit: it may stand in stages {from} to {last} of {target} at the earliest, and {last_full}"
    )]
    Stages { array: String, from: u32, last: u32, last_full: String, target: &'static str },
    #[error("{array} would stand in stage {stage}, and {target} has {limit} stages")]
    TooLong { array: String, stage: u32, limit: u32, target: &'static str },
}

/// An array in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed {
    pub program: &'static str,
    /// Logical stage within the program, from 1.
    pub logical: u32,
    #[serde(flatten)]
    pub usage: ArrayUse,
}

/// One physical stage and what stands in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhysicalStage {
    pub arrays: Vec<Placed>,
}

impl PhysicalStage {
    pub fn sram_bits(&self) -> u64 {
        self.arrays.iter().map(|placed| placed.usage.sram_bits()).sum()
    }

    pub fn hash_units(&self) -> u32 {
        self.arrays.iter().filter(|placed| placed.usage.hash_bits > 0).count() as u32
    }

    /// The first limit that one more array would pass.
    fn over(&self, array: &ArrayUse, target: &Target) -> Option<String> {
        let salus = self.arrays.len() as u32 + 1;
        let sram = self.sram_bits() + array.sram_bits();
        let hashes = self.hash_units() + u32::from(array.hash_bits > 0);
        let over = |what: &str, need: u64, limit: u64| (need > limit).then(|| format!("{what} {need} of {limit}"));
        over("stateful ALUs", salus.into(), target.salus.into())
            .or_else(|| over("SRAM bits", sram, target.sram_bits))
            .or_else(|| over("hash units", hashes.into(), target.hash_units.into()))
    }
}

/// A pipeline placed on a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    pub target: Target,
    pub stages: Vec<PhysicalStage>,
}

impl Placement {
    /// Places all programs, or says which array passes which limit in which stage.
    pub fn new(target: Target, programs: &[ProgramUse]) -> Result<Self, BudgetError> {
        let mut placement = Self { target, stages: vec![PhysicalStage::default(); target.stages as usize] };
        for program in programs {
            for chain in &program.chains {
                placement.place_chain(program.program, chain)?;
            }
        }
        Ok(placement)
    }

    fn place_chain(&mut self, program: &'static str, chain: &[StageUse]) -> Result<(), BudgetError> {
        let mut from = 0;
        for (logical, stage) in (1..).zip(chain) {
            let mut next = from;
            for usage in &stage.arrays {
                let placed = Placed { program, logical, usage: usage.clone() };
                let decision = if usage.decides { self.target.decision_stages } else { 0 };
                next = next.max(self.place(placed, from)? + 1 + decision);
            }
            from = next;
        }
        Ok(())
    }

    /// The physical stage, from 0, that takes the array.
    fn place(&mut self, placed: Placed, from: u32) -> Result<u32, BudgetError> {
        let target = self.target;
        let array = format!("{}.{} of stage {}", placed.program, placed.usage.name, placed.logical);
        for (what, need, limit) in [
            ("the cell's width in bits", u64::from(placed.usage.cell_bits), u64::from(target.cell_bits)),
            ("the number of outputs of its stateful ALU", placed.usage.outputs.into(), target.outputs.into()),
            ("its memory in bits", placed.usage.sram_bits(), target.sram_bits),
        ] {
            if need > limit {
                return Err(BudgetError::Array { array, what, need, limit, target: target.name });
            }
        }
        if from >= target.stages {
            return Err(BudgetError::TooLong { array, stage: from + 1, limit: target.stages, target: target.name });
        }
        let mut last_full = String::new();
        for (index, stage) in (from..).zip(&mut self.stages[from as usize..]) {
            match stage.over(&placed.usage, &target) {
                None => {
                    stage.arrays.push(placed);
                    return Ok(index);
                }
                Some(over) => last_full = format!("stage {} would be over its limit: {over}", index + 1),
            }
        }
        Err(BudgetError::Stages { array, from: from + 1, last: target.stages, last_full, target: target.name })
    }

    /// Physical stages up to the last one in use.
    pub fn stages_used(&self) -> u32 {
        self.stages.iter().rposition(|stage| !stage.arrays.is_empty()).map_or(0, |last| last as u32 + 1)
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
}
