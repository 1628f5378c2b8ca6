//! The parameters that programs measure with, epoch by epoch, as people read them.

use super::output::{self, Cell, Table};
use crate::api::view;

/// The parameters that any of the epochs has, by unit, without what decisions were made from.
pub fn parameter_keys<'a>(epochs: impl Iterator<Item = &'a view::EpochAttention>) -> Vec<String> {
    let mut keys = Vec::new();
    for epoch in epochs {
        let parameters = epoch.parameters.iter().filter(|(key, _)| UNITS.iter().any(|unit| key.ends_with(unit)));
        keys.extend(parameters.map(|(key, _)| key.clone()).filter(|key| !keys.contains(key)).collect::<Vec<_>>());
    }
    keys.sort_by_key(|key| UNITS.iter().position(|unit| key.ends_with(unit)));
    keys
}

/// The parameters of epochs, a row each. `epoch_ns` makes epochs times of day; epochs of a
/// simulation keep their numbers. The last columns are the facts behind decisions, with `facts`, or
/// else the decisions.
pub fn attention_table(epochs: &[view::EpochAttention], epoch_ns: Option<u64>, facts: bool) -> Table {
    let mut keys = parameter_keys(epochs.iter());
    let others = epochs.iter().flat_map(|epoch| epoch.parameters.keys()).filter(|_| facts);
    others.for_each(|key| {
        if !keys.contains(key) {
            keys.push(key.clone())
        }
    });
    let parameters = keys.iter().map(|key| format!(">{}|{key}", parameter_name(key)));
    let epoch = if epoch_ns.is_some() { output::EPOCH_START } else { ">epoch" };
    let why = (!facts).then(|| "what changes, and why|why".into());
    let columns = [epoch.into(), "state".into()].into_iter().chain(parameters).chain(why);
    let row = |epoch: &view::EpochAttention| {
        let value = |key: &String| Cell::or("", epoch.parameters.get(key).map(|value| parameter_cell(key, value)));
        let number = epoch.epoch.number;
        let time = epoch_ns.map_or_else(|| number.to_string().into(), |length| output::epoch(number, length));
        let first = [time, Cell::from(&epoch.state)].into_iter();
        let why = (!facts).then(|| Cell::from(&epoch.why));
        first.chain(keys.iter().map(value)).chain(why).collect()
    };
    Table::new(columns, epochs.iter().map(row))
}

fn parameter_cell(key: &str, value: &serde_json::Value) -> Cell {
    Cell { text: parameter(key, value), values: vec![if value.is_null() { String::new() } else { value.to_string() }] }
}

/// The units that a parameter's name may end with.
const UNITS: [&str; 3] = ["_buckets", "_packets", "_share"];

/// A parameter's name without its unit.
pub fn parameter_name(key: &str) -> String {
    let unit = UNITS.iter().find_map(|unit| key.strip_suffix(unit));
    unit.unwrap_or(key).replace('_', " ")
}

/// A parameter's value as people read it.
pub fn parameter(key: &str, value: &serde_json::Value) -> String {
    match value.as_f64() {
        None if value.is_null() => "-".into(),
        None => value.to_string(),
        Some(share) if key.ends_with("_share") => output::percent(share),
        Some(number) => output::grouped(number.round() as u64),
    }
}
