//! A pipeline that fits no target: which key of the configuration asks for too much, and what would
//! be enough.

use crate::config::{Config, ConfigError};
use crate::pisa::{BudgetError, Excess};

/// The key to blame, with the ways out: a smaller value, or one of the targets that the pipeline
/// `fits` as it is.
pub(super) fn refusal(config: &Config, error: &BudgetError, fits: &[&str]) -> ConfigError {
    let (key, value, smaller) = blame(config, error);
    let targets: String = fits.iter().map(|name| format!(", or switch.target = {name:?}")).collect();
    ConfigError::Value { key, value, right: format!("{error}; write {smaller}{targets}") }
}

/// The key, its value, and what would be less.
fn blame(config: &Config, error: &BudgetError) -> (String, String, String) {
    let of_switch = |key: &str, value: u32| (format!("switch.{key}"), value.to_string(), "fewer".to_owned());
    let (array, excess) = match error {
        BudgetError::Table { table, .. } => {
            return match table.split('.').next() {
                Some("acl") => of_switch("acl_rows", config.switch.acl_rows),
                Some("macs") => of_switch("mac_table", config.switch.mac_table),
                Some("neighbours") => of_switch("neighbour_table", config.switch.neighbour_table),
                _ => of_switch("route_table", config.switch.route_table),
            };
        }
        BudgetError::Array { array, excess, .. } | BudgetError::Stages { array, excess, .. } => (array, *excess),
        BudgetError::TooLong { array, .. } => (array, Excess::Stages),
        BudgetError::Beyond { array, .. } => (array, Excess::Computation),
    };
    let (program, array) = array.split_once('.').unwrap_or((array, ""));
    let found = config.programs.iter().enumerate().find(|(_, configured)| configured.name() == program);
    let Some((i, program)) = found else { return ("program".into(), program.into(), "fewer programs".into()) };
    let (key, smaller) = program.blame(array.split(' ').next().unwrap_or_default(), excess);
    let value = program.fields().get(key).map_or_else(String::new, ToString::to_string);
    (format!("program[{i}].{key}"), value, smaller.into())
}
