//! MAC addresses, and match-action tables of every kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `weir show macs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MacTable {
    pub macs: Vec<MacEntry>,
}

/// A MAC address that L2 learning knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MacEntry {
    pub mac: String,
    pub vlan: u16,
    pub port: String,
    /// Since it was last heard.
    pub age_seconds: u64,
    /// Set by the operator: it neither moves nor ages.
    #[serde(rename = "static", default)]
    pub fixed: bool,
    /// Times it was heard behind another port than before.
    #[serde(default)]
    pub moves: u64,
}

/// `weir table list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tables {
    pub tables: Vec<Table>,
}

/// A match-action table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    pub name: String,
    pub entries: usize,
    pub capacity_entries: Option<usize>,
    /// The fields that name an entry.
    pub key: Vec<String>,
    pub sram_bits: Option<u64>,
    pub tcam_bits: Option<u64>,
}

/// `weir table show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRows {
    #[serde(flatten)]
    pub table: Table,
    pub rows: Vec<serde_json::Value>,
    /// The action for packets that match no entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
}

/// The result of a change of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableChanged {
    pub changed: usize,
    #[serde(flatten)]
    pub table: Table,
}
