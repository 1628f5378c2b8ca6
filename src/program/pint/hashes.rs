//! PINT's hashes, as its layout and its hash units know them: global hashes of a packet's identity
//! and a second word, the number of a hop, the identifier of a switch, or a constant.

use super::query::Value;
use crate::pisa::hash::HashLayout;
use crate::wire::{KeyField, identity};

/// What is hashed. The identity is a hash itself ([`identity()`]).
const KEY: &[KeyField] = &[KeyField::new("identity", 32), KeyField::new("argument", 32)];

fn global(label: impl Into<std::borrow::Cow<'static, str>>, index: u32) -> HashLayout {
    HashLayout::global(label, index).over(KEY)
}

/// The packet's identity, a CRC that all switches know.
pub fn identity() -> HashLayout {
    HashLayout::standard(0).over(identity::FIELDS)
}

/// Which set of queries a packet carries.
pub fn plan() -> HashLayout {
    global("pint/plan", 0)
}

/// The layer of an instance's packet, and whether a hop acts.
pub fn acts(instance: u32) -> HashLayout {
    global("pint/acts", instance)
}

/// What an instance's packet carries of a switch.
pub fn values(instance: u32) -> HashLayout {
    global("pint/values", instance)
}

/// The terms of a path's checksum.
pub fn checksum() -> HashLayout {
    global("pint/checksum", 0)
}

/// Whether a hop writes a value.
pub fn code(value: Value, instance: u32) -> HashLayout {
    global(format!("pint/{}", value.name()), instance)
}

/// How a value's code is rounded.
pub fn rounding(instance: u32) -> HashLayout {
    global("pint/rounding", instance)
}

/// Whether a hop writes its hash for the loop query.
pub fn loop_acts() -> HashLayout {
    global("pint/loops/acts", 0)
}

/// What a packet carries of a switch for the loop query.
pub fn loop_values() -> HashLayout {
    global("pint/loops/values", 0)
}

/// Which packets a sink reports, and which a record keeps.
pub fn sample() -> HashLayout {
    global("pint/sample", 0)
}
