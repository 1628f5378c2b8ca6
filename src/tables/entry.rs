//! Entries as people write them, and lists of them that are changed as a whole.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Change, Op, refused};
use crate::forward::text::Wrong;

/// An entry as its type.
pub fn read<T: DeserializeOwned>(entry: &Value) -> Result<T, String> {
    T::deserialize(entry).map_err(|e| e.to_string())
}

/// An entry as a row: the fields that are set.
pub fn shown(entry: &impl Serialize) -> Value {
    let mut row = serde_json::to_value(entry).unwrap_or_default();
    if let Some(fields) = row.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    row
}

/// The entries after all changes, or the first error. `same`: two entries have one key.
/// Counters of a row that was shown (`…_packets`, `…_bytes`) are passed over, so that it can be
/// given back.
pub fn edited<E: DeserializeOwned + Clone>(
    entries: &[E],
    changes: &[Change],
    same: impl Fn(&E, &E) -> bool,
    check: impl Fn(&E) -> Result<(), Wrong>,
) -> Result<Vec<E>, String> {
    let mut next = entries.to_vec();
    for (i, change) in changes.iter().enumerate() {
        let fail = |why: String| refused(i, change, why);
        let entry: E = read(&without_counters(&change.entry)).map_err(fail)?;
        let known = next.iter().position(|other| same(other, &entry));
        if change.op != Op::Remove {
            check(&entry).map_err(|wrong| fail(wrong.to_string()))?;
        }
        match (change.op, known) {
            (Op::Remove, Some(at)) => drop(next.remove(at)),
            (Op::Remove, None) => return Err(fail("there is no such entry".into())),
            (Op::Add, Some(_)) => return Err(fail("there is such an entry already".into())),
            (Op::Set, Some(at)) => next[at] = entry,
            (Op::Add | Op::Set, None) => next.push(entry),
        }
    }
    Ok(next)
}

pub fn without_counters(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(fields) = entry.as_object_mut() {
        fields.retain(|key, _| !key.ends_with("_packets") && !key.ends_with("_bytes"));
    }
    entry
}
