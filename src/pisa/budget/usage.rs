//! What programs and tables declare that they use of a pipeline.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::pisa::AccessTrace;

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
    /// What its stateful ALU does and no chip's does ([`Salu::BEYOND_CHIPS`](crate::pisa::Salu)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond_chips: Option<&'static str>,
}

impl ArrayUse {
    pub fn sram_bits(&self) -> u64 {
        self.cells * u64::from(self.cell_bits)
    }
}

/// A hash that is computed into the PHV for later stages. An index hash of an array's own stage is
/// counted with the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HashUse {
    pub name: &'static str,
    pub bits: u32,
    /// It is added to a field of the PHV, by an action of the same stage.
    pub added: bool,
}

/// A match in TCAM whose actions are the stage's work. It stands in one stage as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchUse {
    pub name: &'static str,
    /// A range of numbers takes [`range_entries`].
    pub entries: u64,
    pub key_bits: u32,
}

/// A table of numbers that a stage looks up, in SRAM. It stands in one stage as a whole, and is
/// looked into once a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookupUse {
    pub name: &'static str,
    pub entries: u64,
    pub key_bits: u32,
    /// Bits of what stands in an entry.
    pub action_bits: u32,
}

/// Entries of a TCAM that match the numbers from `first` to `last` and no others. An entry is a
/// range whose length is a power of two and divides its start.
pub fn range_entries(first: u32, last: u32) -> u64 {
    let (mut from, end, mut entries) = (u64::from(first), u64::from(last) + 1, 0);
    while from < end {
        let aligned = if from == 0 { 1 << u32::BITS } else { from & from.wrapping_neg() };
        from += aligned.min(1 << (end - from).ilog2());
        entries += 1;
    }
    entries
}

/// What one logical stage uses. One that uses nothing has actions alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageUse {
    pub arrays: Vec<ArrayUse>,
    pub hashes: Vec<HashUse>,
    pub matches: Vec<MatchUse>,
    pub lookups: Vec<LookupUse>,
    /// Names of hashes and matches of the same program, in this chain or chains before it, that stand
    /// in stages before this one.
    #[serde(skip)]
    pub needs: Vec<&'static str>,
}

impl StageUse {
    /// Arrays alone.
    pub fn of(arrays: Vec<ArrayUse>) -> Self {
        Self { arrays, ..Self::default() }
    }

    /// Hashes alone.
    pub fn hashing(hashes: Vec<HashUse>) -> Self {
        Self { hashes, ..Self::default() }
    }

    /// A match alone.
    pub fn matching(name: &'static str, entries: u64, key_bits: u32) -> Self {
        Self { matches: vec![MatchUse { name, entries, key_bits }], ..Self::default() }
    }

    /// The same behind these hashes and matches.
    #[must_use]
    pub fn behind(self, needs: &[&'static str]) -> Self {
        Self { needs: needs.to_vec(), ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrays.is_empty() && self.hashes.is_empty() && self.matches.is_empty() && self.lookups.is_empty()
    }
}

/// A program as the budget sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramUse {
    pub program: &'static str,
    /// Chains of stages that do not depend on each other.
    pub chains: Vec<Vec<StageUse>>,
    /// The reports about single packets that a bank has room for, by kind. They take no register
    /// memory: a hardware switch sends each as a digest.
    pub reports: Vec<ReportUse>,
}

impl ProgramUse {
    /// Numbers the stages of a traced packet, which met those of `before` already, as the budget
    /// does, and puts accesses of one stage together. Arrays of one name stand in the order in which
    /// packets meet them.
    pub fn number(&self, before: &[Vec<AccessTrace>], stages: &mut Vec<Vec<AccessTrace>>) {
        let mut met = BTreeMap::<String, usize>::new();
        before.iter().flatten().for_each(|access| *met.entry(access.array.clone()).or_default() += 1);
        let mut numbered: Vec<Vec<AccessTrace>> = Vec::new();
        for mut access in stages.drain(..).flatten() {
            let place = met.entry(access.array.clone()).or_default();
            access.logical = access.logical.or_else(|| self.stage_of(&access.array, *place));
            *place += 1;
            match numbered.last_mut().filter(|stage| stage.last().is_some_and(|last| last.logical == access.logical)) {
                Some(stage) => stage.push(access),
                None => numbered.push(vec![access]),
            }
        }
        *stages = numbered;
    }

    /// The stage, from 1, of an array: of several with its name of that in this place, and of the last
    /// one where there are not as many.
    fn stage_of(&self, array: &str, place: usize) -> Option<u32> {
        let stages = self.chains.iter().flat_map(|chain| (1..).zip(chain));
        let named = |(logical, stage): (u32, &StageUse)| {
            let number = stage.arrays.iter().filter(|of| of.name == array).count();
            std::iter::repeat_n(logical, number)
        };
        stages.flat_map(named).take(place + 1).last()
    }

    /// Whether it computes what no chip does.
    pub fn is_beyond_chips(&self) -> bool {
        let mut arrays = self.chains.iter().flatten().flat_map(|stage| &stage.arrays);
        arrays.any(|array| array.beyond_chips.is_some())
    }
}

/// Reports about single packets of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReportUse {
    pub reports: u32,
    pub report_bits: u32,
}

/// A match table as the budget sees it. It may be spread over stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNeed {
    pub table: &'static str,
    pub entries: u64,
    pub key_bits: u32,
    /// Action data and counters of an entry, in SRAM.
    pub action_bits: u32,
    /// Keys in TCAM; else they are hashed and stand in SRAM. Hashing for a match is the table's own
    /// and no index hash.
    pub ternary: bool,
    /// Programs stand behind it: they do not see what it stops.
    pub before_programs: bool,
}

impl TableNeed {
    /// A program's table: in SRAM, with a number of `numbers` bits an entry; without one, in TCAM.
    pub(super) fn in_stage(table: &'static str, entries: u64, key_bits: u32, numbers: Option<u32>) -> Self {
        let (action_bits, ternary) = (numbers.unwrap_or(0), numbers.is_none());
        Self { table, entries, key_bits, action_bits, ternary, before_programs: false }
    }
}
