//! What one packet does on its way, told step by step.
//!
//! Tracing runs the same stateful ALUs on the same registers as
//! [`Pipeline::packet`](super::Pipeline::packet), and leaves both and the PHV as that would, bit
//! for bit (`tests/pisa_order.rs`). What is told has been formatted, so it allocates: never on the
//! fast path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PortId;

/// Hears of each step. A match in front of a table, then stages, in the order in which the packet
/// meets them.
pub trait Probe {
    /// A stage of a program begins.
    fn stage(&mut self);
    /// The packet met an array of the stage.
    fn access(&mut self, access: AccessTrace);
    /// The packet was looked up in a match-action table.
    fn lookup(&mut self, lookup: LookupTrace);
}

/// One register array, met once, or one step without memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessTrace {
    pub array: String,
    // Filled in by `Layout::number`.
    /// The program's stage that the array stands in, from 1, as the budget numbers it; null of what no
    /// stage of the budget has.
    pub logical: Option<u32>,
    /// Bits of the hash that named the slot. The hash itself is not told: from some of them one
    /// could work the secret polynomial out.
    pub hash_bits: u32,
    /// The cell that was read and written. None when the match in front of the ALU kept the packet
    /// off the array.
    pub cell: Option<CellTrace>,
    /// What a step computed, which has no array.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub computed: Option<String>,
}

/// The one read-modify-write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellTrace {
    pub slot: u32,
    pub before: String,
    pub after: String,
    /// What the ALU gave the packet to take along.
    pub output: String,
}

/// One look-up in a match-action table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupTrace {
    pub table: &'static str,
    /// What was looked for, field by field.
    pub key: String,
    /// The entry that was found, in words; none on a miss.
    pub entry: Option<String>,
    /// The port that the entry names.
    pub port: Option<PortId>,
    /// What follows from it.
    pub action: String,
}
