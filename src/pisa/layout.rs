//! The description of a program's pipeline: its arrays, hashes and tables, stage by stage. The
//! budget places it, hash units are made of it, and traces and register dumps name things by it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::AccessTrace;
use super::hash::HashLayout;

mod chip;
mod uses;

pub use chip::{COPY, ChipForm, ChipStep, JoinUse, StepTable};
pub use uses::{Added, ArrayUse, Computation, DrawUse, HashUse, LookupUse, MatchUse, SlotSource, range_entries};

/// What one logical stage uses. One that uses nothing has actions alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageUse {
    pub arrays: Vec<ArrayUse>,
    pub hashes: Vec<HashUse>,
    pub matches: Vec<MatchUse>,
    pub lookups: Vec<LookupUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<DrawUse>,
    /// The name of a stage without memory in traces.
    #[serde(skip)]
    pub step: Option<&'static str>,
    /// In the order of the look-ups, where it looks numbers up.
    pub computes: Vec<Computation>,
    /// Names of hashes and matches of the same program, in this chain or chains before it, that stand
    /// in stages before this one.
    #[serde(skip)]
    pub needs: Vec<&'static str>,
    /// How chips do it that take stages apart.
    #[serde(skip)]
    pub chip: ChipForm,
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

    /// The same with this form on chips that take stages apart.
    #[must_use]
    pub fn on_chips(self, chip: ChipForm) -> Self {
        Self { chip, ..self }
    }

    /// The same with these random numbers.
    #[must_use]
    pub fn drawing(mut self, draws: Vec<DrawUse>) -> Self {
        self.computes.extend(draws.iter().map(|_| Computation::Draw));
        Self { draws, ..self }
    }

    /// The same beside what another stage does.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        self.arrays.extend(other.arrays);
        self.hashes.extend(other.hashes);
        self.matches.extend(other.matches);
        self.lookups.extend(other.lookups);
        self.draws.extend(other.draws);
        self.computes.extend(other.computes);
        self.needs.extend(other.needs);
        self.chip.extend(other.chip);
        self
    }

    /// Whether it has no hash, table or computation of its own.
    pub fn has_arrays_alone(&self) -> bool {
        self.hashes.is_empty() && self.matches.is_empty() && self.lookups.is_empty() && self.computes.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        let memory = self.arrays.is_empty() && self.matches.is_empty() && self.lookups.is_empty();
        memory && self.hashes.is_empty() && self.draws.is_empty()
    }

    /// How often a trace has it by this name.
    fn named(&self, name: &str) -> usize {
        self.arrays.iter().map(|array| array.name).chain(self.step).filter(|of| *of == name).count()
    }
}

/// Where stages stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Ingress,
    Egress,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// Stages in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    pub side: Side,
    pub stages: Vec<StageUse>,
}

/// A program's pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    pub program: &'static str,
    /// Chains of stages that do not depend on each other.
    pub chains: Vec<Chain>,
    /// Hashes that no stage computes: those of reports, and of what reads records.
    #[serde(skip)]
    pub other_hashes: Vec<HashLayout>,
    /// Fields of packets that are read beside those that are hashed, and fields that are written.
    pub reads: Vec<&'static str>,
    pub writes: &'static [&'static str],
    /// The reports about single packets that a bank has room for, by kind. They take no register
    /// memory: a hardware switch sends each as a digest.
    pub reports: Vec<ReportUse>,
}

/// An array in its place.
#[derive(Clone, Copy, Debug)]
pub struct ArrayPlace<'a> {
    /// Number among the arrays of its name, from 0, in the order in which packets meet them.
    pub index: u32,
    pub side: Side,
    /// Stage of its chain, from 1.
    pub stage: u32,
    pub usage: &'a ArrayUse,
}

impl Layout {
    /// A program without stages.
    pub fn new(program: &'static str) -> Self {
        let (chains, other_hashes, reports) = (Vec::new(), Vec::new(), Vec::new());
        Self { program, chains, other_hashes, reads: Vec::new(), writes: &[], reports }
    }

    /// The program with one more chain.
    #[must_use]
    pub fn with(mut self, side: Side, stages: Vec<StageUse>) -> Self {
        self.chains.push(Chain { side, stages });
        self
    }

    /// All stages, chain by chain.
    fn stages(&self) -> impl Iterator<Item = (Side, u32, &StageUse)> {
        self.chains.iter().flat_map(|chain| (1..).zip(&chain.stages).map(|(stage, of)| (chain.side, stage, of)))
    }

    /// All arrays, in the order in which a bank has them.
    pub fn arrays(&self) -> Vec<ArrayPlace<'_>> {
        let mut met = BTreeMap::<&str, u32>::new();
        let arrays =
            self.stages().flat_map(|(side, stage, of)| of.arrays.iter().map(move |usage| (side, stage, usage)));
        arrays
            .map(|(side, stage, usage)| {
                let next = met.entry(usage.name).or_default();
                *next += 1;
                ArrayPlace { index: *next - 1, side, stage, usage }
            })
            .collect()
    }

    /// All hashes, each once.
    pub fn hashes(&self) -> Vec<&HashLayout> {
        let of_arrays = self.stages().flat_map(|(.., stage)| &stage.arrays).filter_map(|array| match &array.slot {
            SlotSource::Hash(hash) => Some(hash),
            SlotSource::Field(_) => None,
        });
        let of_stages = self.stages().flat_map(|(.., stage)| &stage.hashes).filter_map(|hash| hash.of.as_ref());
        let mut hashes = Vec::<&HashLayout>::new();
        let of_draws = self.stages().flat_map(|(.., stage)| &stage.draws).map(|draw| &draw.of);
        for hash in of_arrays.chain(of_stages).chain(of_draws).chain(&self.other_hashes) {
            // An array's hash also names its slots.
            let same = |known: &&HashLayout| {
                (&known.form, &known.label, known.index, &known.switch)
                    == (&hash.form, &hash.label, hash.index, &hash.switch)
                    && (hash.range.is_none() || known.range == hash.range)
            };
            if !hashes.iter().any(same) {
                hashes.push(hash);
            }
        }
        hashes
    }

    /// The names of all polynomials, in order, each once.
    pub fn polynomials(&self) -> Vec<(String, u32)> {
        let mut names: Vec<_> = self.hashes().into_iter().flat_map(HashLayout::names).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The fields of packets that the program reads, each once, those that are hashed first.
    pub fn fields(&self) -> Vec<&'static str> {
        let hashed = self.hashes().into_iter().flat_map(|hash| hash.key.iter().map(|key| key.field));
        let slots = self.stages().flat_map(|(.., stage)| &stage.arrays).filter_map(|array| match array.slot {
            SlotSource::Field(field) => Some(field),
            SlotSource::Hash(_) => None,
        });
        let mut fields = Vec::new();
        for field in hashed.chain(slots).chain(self.reads.iter().copied()) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        fields
    }

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

    /// The stage, from 1, of an array or a step: of several with its name of that in this place, and of the last
    /// one where there are not as many.
    fn stage_of(&self, array: &str, place: usize) -> Option<u32> {
        let named = |(_, stage, of): (Side, u32, &StageUse)| std::iter::repeat_n(stage, of.named(array));
        self.stages().flat_map(named).take(place + 1).last()
    }

    /// Whether an array or a table of it is one of an epoch's.
    pub(super) fn has_copies(&self) -> bool {
        let of_epoch = |stage: &StageUse| {
            let ChipForm { before, behind, .. } = &stage.chip;
            let steps = before.iter().chain(behind).any(|step| step.needs.contains(&COPY));
            steps || stage.arrays.iter().any(|array| !array.is_halved)
        };
        self.stages().any(|(.., stage)| of_epoch(stage))
    }

    /// Whether it computes what no chip does.
    pub fn is_beyond_chips(&self) -> bool {
        let mut arrays = self.stages().flat_map(|(.., stage)| &stage.arrays);
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
