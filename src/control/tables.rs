//! Match-action tables that are read and changed while the switch runs.
//!
//! A table's control half implements [`Table`]; the API and the command line speak to all of them alike, in JSON rows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One change of one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub op: Op,
    /// The entry, or for [`Op::Remove`] at least the fields that name it.
    pub entry: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// A new entry; an error when there is one of this key.
    Add,
    /// A new entry, or a new action for an old one.
    Set,
    /// An error when there is none of this key.
    Remove,
}

/// A table as the API sees it: calls come from a control thread, one at a time, never from a worker.
pub trait Table: Send {
    /// What it is called in paths, commands and reports.
    fn name(&self) -> &'static str;
    /// All entries in their order: the fields that match, the action, and the entry's counters.
    fn rows(&self) -> Vec<Value>;
    /// Applies all changes, in order, or none of them; workers see the result as a whole.
    fn change(&mut self, changes: &[Change]) -> Result<(), String>;
}
