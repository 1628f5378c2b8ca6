//! The task attention: what each epoch was measured with, and why that changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cardinality::ROWS;
use super::{Claimed, ProgramAnswer, Task};
use crate::history::{Adaptation, Described, Entry, Epochs, Reason, Reasons};
use crate::json::{Epoch, Time};
use crate::output::{self, Cell, Page, Table};

/// `weir show attention`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attention {
    pub epochs: Vec<EpochAttention>,
}

/// The parameters of one epoch, and what was decided from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpochAttention {
    #[serde(flatten)]
    pub epoch: Epoch,
    /// The state of the network as the program calls it.
    pub state: String,
    /// The parameter update decided from it, the first epoch that it holds for with the time of day at
    /// which that starts, and the reason.
    pub update_epoch: Option<u64>,
    pub update_start: Option<Time>,
    pub update: Option<Map<String, Value>>,
    pub why: String,
    /// The parameters, with units in their names, and what the decision was made from.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

impl EpochAttention {
    /// The parameters of an epoch, without the decision that was made from it.
    pub fn new(epoch: Epoch, measured: Described) -> Self {
        Self { epoch, state: measured.state, parameters: measured.parameters, ..Self::default() }
    }
}

/// The fact that has an object of facts for each switch.
const SWITCHES: &str = "switches";

impl EpochAttention {
    /// Facts about single switches, by their names.
    pub fn switches(&self) -> Option<&Map<String, Value>> {
        self.parameters.get(SWITCHES)?.as_object()
    }
}

/// Facts about single switches, a row each.
pub fn switches_table(switches: &Map<String, Value>) -> Table {
    let mut keys: Vec<&String> = Vec::new();
    for key in switches.values().filter_map(Value::as_object).flat_map(Map::keys) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let row = |(switch, facts): (&String, &Value)| {
        let fact = |key: &&String| Cell::or("", facts.get(key.as_str()).map(|value| parameter_cell(key, value)));
        [Cell::from(switch)].into_iter().chain(keys.iter().map(fact)).collect()
    };
    let columns = keys.iter().map(|key| format!(">{}|{key}", parameter_name(key)));
    Table::new(["switch".to_owned()].into_iter().chain(columns), switches.iter().map(row)).keyed(1)
}

impl Attention {
    /// Of epochs of any program.
    pub fn over<K>(epochs: &Epochs<K>) -> ProgramAnswer {
        let of = |number| Epoch::new(number, epochs.length);
        let epoch = |entry: &Entry<K>| {
            let Adaptation { measured, facts, update, why } = entry.adaptation.clone()?;
            let (update_epoch, update) =
                update.map_or((None, None), |(from, update)| (Some(from), Some(update.parameters)));
            let (epoch, update_start) = (of(entry.epoch), update_epoch.and_then(|from| of(from).start));
            let Described { state, mut parameters } = measured;
            parameters.extend(facts);
            Some(EpochAttention { epoch, state, update_epoch, update_start, update, why, parameters })
        };
        let mut lack = Reasons::default();
        lack.add_if(epochs.iter().any(|entry| entry.adaptation.is_none()), Reason::NotAnalysed);
        ProgramAnswer::new(Self { epochs: epochs.iter().filter_map(|entry| epoch(entry)).collect() }, lack)
    }

    pub fn page(attention: &Claimed<Self>) -> Page {
        let newest = &attention.epochs[attention.epochs.len().saturating_sub(ROWS)..];
        let table = attention_table(newest, Some(attention.claim.epoch_ns), false);
        let page = Page::default().table("attention", table.beside(&attention.claim.columns()));
        let page = match newest.last().and_then(EpochAttention::switches) {
            Some(switches) => page.table("switches", switches_table(switches).beside(&attention.claim.columns())),
            None => page,
        };
        page.text(attention.claim.text(Task::Attention.all()))
    }
}

/// The parameters that any of the epochs has, by unit, without what decisions were made from.
pub fn parameter_keys<'a>(epochs: impl Iterator<Item = &'a EpochAttention>) -> Vec<String> {
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
pub fn attention_table(epochs: &[EpochAttention], epoch_ns: Option<u64>, facts: bool) -> Table {
    let mut keys = parameter_keys(epochs.iter());
    // Facts about single switches stand in JSON alone: they are objects.
    let others = epochs.iter().flat_map(|epoch| &epoch.parameters).filter(|(_, value)| facts && !value.is_object());
    others.for_each(|(key, _)| {
        if !keys.contains(key) {
            keys.push(key.clone())
        }
    });
    let parameters = keys.iter().map(|key| format!(">{}|{key}", parameter_name(key)));
    let epoch = if epoch_ns.is_some() { output::EPOCH_START } else { ">epoch" };
    let why = (!facts).then(|| "what changes, and why|why".into());
    let columns = [epoch.into(), "state".into()].into_iter().chain(parameters).chain(why);
    let row = |epoch: &EpochAttention| {
        let value = |key: &String| Cell::or("", epoch.parameters.get(key).map(|value| parameter_cell(key, value)));
        let number = epoch.epoch.number;
        let time = epoch_ns.map_or_else(|| Cell::plain(number), |length| output::epoch(number, length));
        let first = [time, Cell::from(&epoch.state)].into_iter();
        let why = (!facts).then(|| Cell::from(&epoch.why));
        first.chain(keys.iter().map(value)).chain(why).collect()
    };
    Table::new(columns, epochs.iter().map(row))
}

fn parameter_cell(key: &str, value: &serde_json::Value) -> Cell {
    Cell::new(parameter(key, value), value)
}

/// The units that a parameter's name may end with.
const UNITS: [&str; 3] = [SHARES_OF_MEMORY, "_packets", "_share"];
/// The end of the names of parameters that are parts of one memory.
pub const SHARES_OF_MEMORY: &str = "_buckets";

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
        Some(number) if number < 10.0 && number.fract() != 0.0 => format!("{number:.1}"),
        Some(number) => output::grouped(number.round() as u64),
    }
}
