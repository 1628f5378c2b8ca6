//! Resources that a stage uses: arrays, hashes, random numbers and tables.

use serde::{Serialize, Serializer};

use crate::pisa::hash::HashLayout;

/// What names the slot of an array that a packet touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotSource {
    /// A field of the PHV.
    Field(&'static str),
    Hash(HashLayout),
}

impl SlotSource {
    /// Bits of the hash, 0 for a field.
    pub fn hash_bits(&self) -> u32 {
        match self {
            Self::Field(_) => 0,
            Self::Hash(hash) => hash.bits(),
        }
    }
}

impl Default for SlotSource {
    fn default() -> Self {
        Self::Field("")
    }
}

impl From<&'static str> for SlotSource {
    fn from(field: &'static str) -> Self {
        Self::Field(field)
    }
}

impl From<HashLayout> for SlotSource {
    fn from(hash: HashLayout) -> Self {
        Self::Hash(hash)
    }
}

/// One register array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArrayUse {
    pub name: &'static str,
    pub cells: u64,
    pub cell_bits: u32,
    /// Bits of each field of a cell, in the order in which a cell is dumped.
    #[serde(skip)]
    pub field_bits: Vec<u32>,
    /// PHV fields that its stateful ALU fills.
    pub outputs: u32,
    #[serde(rename = "hash_bits", serialize_with = "hash_bits")]
    pub slot: SlotSource,
    /// Its output decides what the next stage does.
    pub decides: bool,
    /// Fields of the PHV that may hold the next stage's key, among which its output chooses.
    #[serde(skip)]
    pub keys: u32,
    /// It shares match and slot with the array before it.
    #[serde(skip)]
    pub is_grouped: bool,
    /// It has a half for each value of an epoch's lowest bit, so a chip needs no second copy of it.
    #[serde(skip)]
    pub is_halved: bool,
    /// What its stateful ALU does and no chip's does ([`Salu::BEYOND_CHIPS`](crate::pisa::Salu)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond_chips: Option<&'static str>,
}

fn hash_bits<S: Serializer>(slot: &SlotSource, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(slot.hash_bits())
}

impl ArrayUse {
    /// Bits of its cells.
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
    /// It is added to something, by an action of the same stage.
    #[serde(serialize_with = "is_added")]
    pub added: Added,
    /// The hash that this CRC is a part of; `None` for one that several hashes share.
    #[serde(skip)]
    pub of: Option<HashLayout>,
}

/// The addend of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    No,
    /// A constant, or a number from a table.
    Constant,
    /// A field of the PHV, which the stage before has computed.
    Field,
}

fn is_added<S: Serializer>(added: &Added, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(*added != Added::No)
}

impl HashUse {
    pub fn new(name: &'static str, bits: u32, added: Added, of: Option<&HashLayout>) -> Self {
        Self { name, bits, added, of: of.cloned() }
    }
}

/// A random number that a stage draws into the PHV.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrawUse {
    pub name: &'static str,
    pub bits: u32,
    /// The hash that stands for it here: a chip has a generator.
    #[serde(skip)]
    pub of: HashLayout,
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

/// What a stage computes beside sums, comparisons and selections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Computation {
    /// A random number.
    Draw,
    /// A logarithm to base 2, looked up.
    Logarithm,
    /// A power of 2, looked up.
    Power,
    /// A number that a table gives for another one.
    Code,
}

impl Computation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Draw => "draw",
            Self::Logarithm => "logarithm",
            Self::Power => "power",
            Self::Code => "code",
        }
    }
}
