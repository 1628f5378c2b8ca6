//! A physical stage, and what it has room for.

use serde::Serialize;

use super::{Excess, Target};
use crate::pisa::layout::{ArrayUse, DrawUse, HashUse, JoinUse, TableNeed};

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
    pub(super) fn named(&self, name: &str) -> String {
        format!("{}.{name} of stage {}", self.program, self.logical)
    }
}

impl Placed<ArrayUse> {
    /// Whether it is touched at the address of the array before it in a stage.
    fn has_address_of(&self, before: &Self) -> bool {
        let of = |placed: &Self| (placed.program, placed.logical, placed.usage.name);
        self.usage.is_grouped && of(self) == of(before)
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
    /// Its key is the entry's address, by a hash unit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
}

impl PlacedTable {
    fn of_switch(table: &'static str, entries: u64, sram_bits: u64, tcam_blocks: u32) -> Self {
        Self { program: None, logical: None, table, entries, sram_bits, tcam_blocks, direct: false }
    }
}

/// One physical stage and what stands in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhysicalStage {
    pub arrays: Vec<Placed<ArrayUse>>,
    pub hashes: Vec<Placed<HashUse>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<Placed<JoinUse>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<Placed<DrawUse>>,
    pub tables: Vec<PlacedTable>,
}

impl PhysicalStage {
    /// Register arrays and match tables, as this target keeps them.
    pub fn sram_bits(&self, target: &Target) -> u64 {
        let registers: u64 = self.arrays.iter().map(|placed| target.register_bits(&placed.usage)).sum();
        registers + self.tables.iter().map(|table| table.sram_bits).sum::<u64>()
    }

    /// Cells of register arrays, each once.
    pub fn register_bits(&self) -> u64 {
        self.arrays.iter().map(|placed| placed.usage.sram_bits()).sum()
    }

    pub fn tcam_blocks(&self) -> u32 {
        self.tables.iter().map(|table| table.tcam_blocks).sum()
    }

    /// As many of a table's entries as this stage has room for.
    pub(super) fn share(&self, need: &TableNeed, left: u64, target: &Target) -> PlacedTable {
        let sram = target.sram_bits.saturating_sub(self.sram_bits(target));
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

    /// Hash units: of hashes and joined parts for the PHV, of addresses of registers, and of tables
    /// whose key is an address.
    pub fn hash_units(&self, target: &Target) -> u32 {
        self.hash_units_of(target, |_| true)
    }

    /// Those of some programs, or of the switch.
    pub(super) fn hash_units_of(&self, target: &Target, is_its: impl Fn(Option<&str>) -> bool) -> u32 {
        let hashes = self.hashes.iter().filter(|placed| is_its(Some(placed.program)));
        let joins = self.joins.iter().filter(|placed| is_its(Some(placed.program)));
        let direct = self.tables.iter().filter(|table| table.direct && is_its(table.program));
        let before = std::iter::once(None).chain(self.arrays.iter().map(Some));
        let arrays = self.arrays.iter().zip(before).filter(|(placed, _)| is_its(Some(placed.program)));
        let addresses = arrays.map(|(placed, before)| self.address_units(placed, before, target));
        let hashes = hashes.map(|placed| target.units(placed.usage.bits));
        let joins = joins.map(|placed| target.units(placed.usage.bits));
        hashes.chain(joins).chain(addresses).sum::<u32>() + direct.count() as u32
    }

    /// The hash units of an array behind another one: on a chip that takes stages apart each address of
    /// registers passes one, and arrays of a group share it; on others each index hash is one.
    fn address_units(&self, placed: &Placed<ArrayUse>, before: Option<&Placed<ArrayUse>>, target: &Target) -> u32 {
        if target.takes_apart {
            u32::from(before.is_none_or(|before| !placed.has_address_of(before)))
        } else {
            u32::from(placed.usage.slot.hash_bits() > 0)
        }
    }

    /// Whether hash units are left.
    pub(super) fn has_units(&self, units: u32, target: &Target) -> bool {
        self.hash_units(target) + units <= target.hash_units
    }

    /// The first limit that one more array would pass.
    pub(super) fn over(&self, placed: &Placed<ArrayUse>, target: &Target) -> Option<(Excess, String)> {
        let salus = self.arrays.len() as u32 + 1;
        let sram = self.sram_bits(target) + target.register_bits(&placed.usage);
        let hashes = self.hash_units(target) + self.address_units(placed, self.arrays.last(), target);
        let over = |excess, what: &str, need: u64, limit: u64| {
            (need > limit).then(|| (excess, format!("{what} {need} of {limit}")))
        };
        over(Excess::Stages, "stateful ALUs", salus.into(), target.salus.into())
            .or_else(|| over(Excess::Memory, "SRAM bits", sram, target.sram_bits))
            .or_else(|| over(Excess::Stages, "hash units", hashes.into(), target.hash_units.into()))
    }
}
