//! Places the stages of a chain.

use super::stage::{Placed, PlacedTable};
use super::{BudgetError, Excess, Placement, Target};
use crate::pisa::hash::HashForm;
use crate::pisa::layout::{
    Added, ArrayUse, COPY, ChipForm, ChipStep, DrawUse, HashUse, JoinUse, LookupUse, MatchUse, SlotSource, StageUse,
    StepTable, TableNeed,
};

/// A logical stage of a program.
#[derive(Clone, Copy)]
struct Of {
    program: &'static str,
    logical: u32,
}

impl Of {
    fn placed<U>(self, usage: U) -> Placed<U> {
        Placed { program: self.program, logical: self.logical, usage }
    }

    fn named(self, name: &str) -> String {
        format!("{}.{name} of stage {}", self.program, self.logical)
    }
}

/// Where a chain ends, as far as it is placed.
#[derive(Clone, Copy)]
struct End {
    /// The first stage behind it, from 0.
    next: u32,
    /// The same behind the stages in which a stateful ALU's output decides.
    obeys: u32,
    /// Fields of the PHV that may hold the key.
    keys: u32,
}

impl End {
    /// The same behind what ends here.
    fn with(self, next: u32) -> Self {
        Self { next: self.next.max(next), obeys: self.obeys.max(next), ..self }
    }
}

/// The name of a hash that stands in front of an array.
const SLOT: &str = "slot";

impl Placement {
    /// Places a chain, at this stage at the earliest.
    pub(super) fn place_chain(
        &mut self,
        program: &'static str,
        chain: &[StageUse],
        begin: u32,
    ) -> Result<(), BudgetError> {
        let mut end = End { next: begin, obeys: begin, keys: 1 };
        for (logical, stage) in (1..).zip(chain) {
            let placed = self.place_stage(Of { program, logical }, stage, end, begin)?;
            end = End { next: end.next.max(placed.next), obeys: end.obeys.max(placed.obeys), ..placed };
        }
        Ok(())
    }

    fn place_stage(&mut self, of: Of, stage: &StageUse, before: End, begin: u32) -> Result<End, BudgetError> {
        let own = ChipForm::default();
        let chip = if self.target.takes_apart { &stage.chip } else { &own };
        let mut from = match &chip.waits_for {
            Some(needs) => self.behind(of, needs, begin),
            None => {
                let from = if chip.is_decided() { before.next } else { before.obeys };
                self.behind(of, &stage.needs, from)
            }
        };
        for step in &chip.before {
            from = self.place_step(of, step, from)?;
        }
        let mut end = self.place_arrays(of, stage, from, before)?;
        if stage.is_empty() && !chip.is_on_the_way {
            // Actions alone take a stage, too.
            end = end.with(self.place_actions(of, from)?);
        }
        for usage in &stage.hashes {
            end = end.with(self.place_hash(of, usage, from)?);
        }
        for usage in &stage.draws {
            end = end.with(self.place_draw(of.placed(usage.clone()), from)? + 1);
        }
        end = end.with(self.place_tables(of, stage, from)?);
        for step in &chip.behind {
            end = end.with(self.place_step(of, step, end.next)?);
        }
        Ok(end)
    }

    /// The stage behind the arrays of a stage.
    fn place_arrays(&mut self, of: Of, stage: &StageUse, from: u32, before: End) -> Result<End, BudgetError> {
        let mut end = End { next: from, obeys: from, keys: 1 };
        let mut slot_known = from;
        for usage in &stage.arrays {
            if !usage.is_grouped {
                slot_known = self.place_slot(of, usage, from, before)?;
            }
            let behind = self.place(of.placed(usage.clone()), slot_known)? + 1;
            let decision = if usage.decides { self.target.decision_stages } else { 0 };
            end.next = end.next.max(behind);
            end.obeys = end.obeys.max(behind + decision);
            end.keys = end.keys.max(usage.keys);
            self.is_ready(of, usage.name, behind);
        }
        Ok(end)
    }

    /// The first stage in which the slot of an array is known. On a chip that takes stages apart a CRC of
    /// a key goes to the PHV first, with the copy of the registers behind it: of each field that may
    /// hold the key, in the stage in which that is decided. Sums of hashes are joined on the way to the
    /// registers.
    fn place_slot(&mut self, of: Of, usage: &ArrayUse, from: u32, before: End) -> Result<u32, BudgetError> {
        let SlotSource::Hash(hash) = &usage.slot else { return Ok(from.max(self.copy_of(usage))) };
        if !self.target.takes_apart {
            return Ok(from);
        }
        if !matches!(hash.form, HashForm::Crc | HashForm::Standard) {
            return Ok(from.max(self.copy_of(usage)));
        }
        let is_decided = before.obeys > before.next && from == before.obeys;
        let hashed_from = if is_decided { before.next } else { from.saturating_sub(1) };
        let mut known = from;
        for _ in 0..if is_decided { before.keys } else { 1 } {
            let slot = HashUse::new(SLOT, hash.bits(), Added::No, None);
            known = known.max(self.place_units(of.placed(slot), hashed_from)? + 1);
        }
        let written = if usage.is_halved { 0 } else { self.copy_known + 1 };
        Ok(known.max(written))
    }

    /// The first stage in which the copy of an array is known.
    fn copy_of(&self, usage: &ArrayUse) -> u32 {
        if usage.is_halved { 0 } else { self.copy_known }
    }

    /// The stage behind the matches and look-ups of a stage.
    fn place_tables(&mut self, of: Of, stage: &StageUse, from: u32) -> Result<u32, BudgetError> {
        let mut next = from;
        for MatchUse { name, entries, key_bits } in &stage.matches {
            let need = TableNeed::in_stage(name, *entries, *key_bits, None);
            next = next.max(self.place_whole(of, &need, from, false)? + 1);
        }
        for LookupUse { name, entries, key_bits, action_bits } in &stage.lookups {
            let need = TableNeed::in_stage(name, *entries, *key_bits, Some(*action_bits));
            next = next.max(self.place_whole(of, &need, from, false)? + 1);
        }
        Ok(next)
    }

    /// The stage behind a step.
    fn place_step(&mut self, of: Of, step: &ChipStep, from: u32) -> Result<u32, BudgetError> {
        let from = self.behind(of, &step.needs, from);
        if step.joins.is_empty() && step.tables.is_empty() {
            return self.place_actions(of, from);
        }
        let mut next = from;
        for join in &step.joins {
            next = next.max(self.place_join(of.placed(join.clone()), from)? + 1);
        }
        for StepTable { name, entries, key_bits, action_bits, is_ternary, is_direct } in &step.tables {
            let numbers = (!is_ternary).then_some(*action_bits);
            // An address takes no memory.
            let key_bits = if *is_direct { 0 } else { *key_bits };
            let need = TableNeed::in_stage(name, *entries, key_bits, numbers);
            next = next.max(self.place_whole(of, &need, from, *is_direct)? + 1);
        }
        Ok(next)
    }

    /// The stage behind one with actions alone.
    fn place_actions(&mut self, of: Of, from: u32) -> Result<u32, BudgetError> {
        self.begins(&of.named("actions"), from)?;
        self.actions = self.actions.max(from + 1);
        Ok(from + 1)
    }

    /// The stage behind a hash. On a chip that takes stages apart the CRC of a sum with a field stands beside
    /// what computes that field, where hash units are left, and is added in the next stage.
    fn place_hash(&mut self, of: Of, usage: &HashUse, from: u32) -> Result<u32, BudgetError> {
        let units = self.target.units(usage.bits);
        let is_early = self.target.takes_apart && usage.added == Added::Field && from > 0;
        let before = self.stages.get_mut(from.saturating_sub(1) as usize).filter(|_| is_early);
        let next = match before.filter(|stage| stage.has_units(units, &self.target)) {
            Some(stage) => {
                stage.hashes.push(of.placed(usage.clone()));
                from + 1
            }
            None => self.place_units(of.placed(usage.clone()), from)? + 1,
        };
        self.is_ready(of, usage.name, next);
        Ok(next)
    }

    /// The physical stage, from 0, that takes the hash.
    fn place_units(&mut self, placed: Placed<HashUse>, from: u32) -> Result<u32, BudgetError> {
        let index = self.with_units(placed.named(placed.usage.name), placed.usage.bits, from)?;
        self.stages[index as usize].hashes.push(placed);
        Ok(index)
    }

    fn place_join(&mut self, placed: Placed<JoinUse>, from: u32) -> Result<u32, BudgetError> {
        let index = self.with_units(placed.named(placed.usage.name), placed.usage.bits, from)?;
        self.is_ready(Of { program: placed.program, logical: placed.logical }, placed.usage.name, index + 1);
        self.stages[index as usize].joins.push(placed);
        Ok(index)
    }

    /// The first physical stage, from 0, with hash units for `bits` bits of the PHV.
    fn with_units(&self, named: String, bits: u32, from: u32) -> Result<u32, BudgetError> {
        let target = &self.target;
        self.begins(&named, from)?;
        let mut free = (from..).zip(self.stages.iter().skip(from as usize));
        let found = free.find(|(_, stage)| stage.has_units(target.units(bits), target));
        let last_full = || format!("too few of the {} hash units of each of these are left", target.hash_units);
        found.map(|(index, _)| index).ok_or_else(|| self.full(named, from, Excess::Stages, last_full()))
    }

    /// The physical stage, from 0, of a random number: the first. No limit of a chip is known.
    fn place_draw(&mut self, placed: Placed<DrawUse>, from: u32) -> Result<u32, BudgetError> {
        self.begins(&placed.named(placed.usage.name), from)?;
        self.stages[from as usize].draws.push(placed);
        Ok(from)
    }

    /// Results of this name can be used from this stage on.
    fn is_ready(&mut self, of: Of, name: &'static str, next: u32) {
        let ready = self.ready.entry((of.program, name)).or_default();
        *ready = next.max(*ready);
    }

    /// The first physical stage, from 0, behind all of these names, and not before `from`.
    fn behind(&self, of: Of, names: &[&'static str], from: u32) -> u32 {
        let ready = names.iter().filter_map(|name| self.ready.get(&(of.program, name)).copied());
        let copy = names.contains(&COPY).then_some(self.copy_known);
        ready.chain(copy).fold(from, u32::max)
    }

    /// The physical stage, from 0, that takes the whole table of a program.
    fn place_whole(&mut self, of: Of, need: &TableNeed, from: u32, is_direct: bool) -> Result<u32, BudgetError> {
        let TableNeed { table, entries, key_bits, ternary, .. } = *need;
        let target = self.target;
        let named = of.named(table);
        self.begins(&named, from)?;
        for (index, stage) in (from..).zip(self.stages.iter_mut().skip(from as usize)) {
            let whole = stage.share(need, entries, &target);
            if whole.entries == entries && stage.has_units(u32::from(is_direct), &target) {
                let (program, logical) = (Some(of.program), Some(of.logical));
                stage.tables.push(PlacedTable { program, logical, direct: is_direct, ..whole });
                self.is_ready(of, table, index + 1);
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
            (Excess::Memory, target.register_bits(&placed.usage), target.sram_bits),
        ] {
            if need > limit {
                return Err(BudgetError::Array { array, excess, need, limit, target: target.name });
            }
        }
        self.begins(&array, from)?;
        let (mut excess, mut last_full) = (Excess::Stages, String::new());
        for (index, stage) in (from..).zip(&mut self.stages[from as usize..]) {
            match stage.over(&placed, &target) {
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
}
