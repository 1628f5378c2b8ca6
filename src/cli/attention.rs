//! The parameters that programs measure with, epoch by epoch, as people read them.

use super::output;
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
pub fn attention_table(epochs: &[view::EpochAttention], epoch_ns: Option<u64>, facts: bool) -> String {
    let mut keys = parameter_keys(epochs.iter());
    let others = epochs.iter().flat_map(|epoch| epoch.parameters.keys()).filter(|_| facts);
    others.for_each(|key| {
        if !keys.contains(key) {
            keys.push(key.clone())
        }
    });
    let headings = keys.iter().map(|key| format!(">{}", parameter_name(key)));
    let epoch = if epoch_ns.is_some() { output::EPOCH_START } else { ">epoch" };
    let headings = [epoch.into(), "state".into()].into_iter().chain(headings);
    let row = |epoch: &view::EpochAttention| {
        let value = |key: &String| epoch.parameters.get(key).map_or_else(String::new, |value| parameter(key, value));
        let number = epoch.epoch.number;
        let time = epoch_ns.map_or(number.to_string(), |length| output::epoch_start(number, length));
        let first = [time, epoch.state.clone()].into_iter();
        first.chain(keys.iter().map(value)).chain((!facts).then(|| epoch.why.clone())).collect()
    };
    let headings: Vec<_> = headings.chain((!facts).then(|| "what changes, and why".into())).collect();
    output::wide_table(&headings, epochs.iter().map(row))
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
