//! Errors in a configuration, and the checks that many keys share.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Length;
use crate::forward::text::Wrong;
use crate::text::is_name;

/// An error in a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", place(path, *line))]
    InFile { path: PathBuf, line: Option<usize>, source: Box<ConfigError> },
    /// Not TOML, or a value of the wrong kind, with the line's text.
    #[error("{why}\n    {text}")]
    Syntax { line: usize, text: String, why: String },
    #[error("{key} = {value}: {right}")]
    Value { key: String, value: String, right: String },
    #[error("--program {text}: {why}")]
    Program { text: String, why: String },
}

impl ConfigError {
    /// The error of a value below the key `above`.
    pub fn below(self, above: &str) -> Self {
        match self {
            Self::Value { key, value, right } => Self::Value { key: format!("{above}.{key}"), value, right },
            other => other,
        }
    }
}

impl From<Wrong> for ConfigError {
    fn from(Wrong { key, value, right }: Wrong) -> Self {
        Self::Value { key: key.into(), value, right }
    }
}

fn place(path: &Path, line: Option<usize>) -> String {
    line.map_or_else(|| path.display().to_string(), |line| format!("{}:{line}", path.display()))
}

pub(super) fn wrong<T>(
    key: impl Into<String>,
    value: impl fmt::Display,
    right: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key: key.into(), value: value.to_string(), right: right.into() })
}

/// The form of a name, for the JSON Schema.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$";

pub(super) fn check_name(key: &str, name: &str) -> Result<(), ConfigError> {
    let right = "1 to 32 letters, digits, '-', '_' and '.', not starting with '-' or '.'";
    if is_name(name) { Ok(()) } else { wrong(key, format!("{name:?}"), right) }
}

pub(super) fn check_range(key: impl Into<String>, value: u32, min: u32, max: u32) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) { Ok(()) } else { wrong(key, value, format!("{min} to {max}")) }
}

pub(super) fn check_length(key: &str, value: Length, min: Duration, max: Duration) -> Result<(), ConfigError> {
    if (min..=max).contains(&value.0) {
        return Ok(());
    }
    wrong(key, value, format!("{} to {}", Length(min), Length(max)))
}
