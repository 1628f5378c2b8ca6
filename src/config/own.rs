//! The file of `weir sim --switches`: settings of single switches' programs.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::{ConfigError, load, words, wrong};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "program", default)]
    programs: Vec<Table>,
}

/// A table `[[program]]`: the settings of a program of one switch.
#[derive(Debug)]
pub struct OwnProgram {
    /// The switch's name in the topology.
    pub switch: String,
    /// The program's name in results.
    pub name: String,
    /// The other keys.
    pub settings: Table,
}

impl OwnProgram {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is no TOML, or has anything but these tables.
    pub fn load(path: &Path) -> Result<Vec<Self>, ConfigError> {
        load(path, |text| {
            let file: File = toml::from_str(text).map_err(|error| words::syntax(text, &error))?;
            let place = |(place, table)| {
                Self::of(table).map_err(|wrong: ConfigError| wrong.below(&format!("program[{place}]")))
            };
            file.programs.into_iter().enumerate().map(place).collect()
        })
    }

    fn of(mut settings: Table) -> Result<Self, ConfigError> {
        let mut take = |key, what: &str| match settings.remove(key) {
            Some(Value::String(name)) => Ok(name),
            other => wrong(key, other.map_or_else(|| "(missing)".into(), |value| value.to_string()), what),
        };
        let switch = take("switch", "the name of a switch of the topology")?;
        let name = take("name", "the name of a program of the switches")?;
        Ok(Self { switch, name, settings })
    }
}
