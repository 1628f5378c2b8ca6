//! Switches of a simulated network whose programs are configured otherwise than those of the others.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Setup, SimError};
use crate::config::{ConfigError, OwnProgram};
use crate::program::{Difference, ProgramConfig};

/// Switches that a message names.
const SHOWN: usize = 16;

/// A program of one switch has settings of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnSettings {
    /// The switch's name in the topology.
    pub switch: String,
    /// The program's name in results.
    pub program: String,
    settings: Settings,
}

#[derive(Clone, Debug, PartialEq)]
enum Settings {
    /// `key=value,…` of the command line.
    Words(String),
    /// A table of a file, and its place among the tables.
    Table(toml::Table, PathBuf, usize),
}

impl FromStr for OwnSettings {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':').map(str::to_owned).filter(|part| !part.is_empty());
        match [parts.next(), parts.next(), parts.next()] {
            [Some(switch), Some(program), Some(words)] => {
                Ok(Self { switch, program, settings: Settings::Words(words) })
            }
            _ => Err("write SWITCH:PROGRAM:KEY=VALUE[,KEY=VALUE…]"),
        }
    }
}

impl fmt::Display for OwnSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |(key, value): (&String, &toml::Value)| match value.as_str() {
            Some(text) => format!("{key}={text}"),
            None => format!("{key}={value}"),
        };
        let words = match &self.settings {
            Settings::Words(words) => words.clone(),
            Settings::Table(table, ..) => table.iter().map(word).collect::<Vec<_>>().join(","),
        };
        write!(f, "{}:{}:{words}", self.switch, self.program)
    }
}

impl OwnSettings {
    /// The settings of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or has not the form of [`OwnProgram`]s.
    pub fn load(file: &Path) -> Result<Vec<Self>, ConfigError> {
        let own = |(place, own): (usize, OwnProgram)| {
            let settings = Settings::Table(own.settings, file.into(), place);
            Self { switch: own.switch, program: own.name, settings }
        };
        Ok(OwnProgram::load(file)?.into_iter().enumerate().map(own).collect())
    }

    /// The program with these settings in place of its own.
    fn applied_to(&self, program: &ProgramConfig) -> Result<ProgramConfig, SimError> {
        match &self.settings {
            Settings::Words(words) => program.with(words).map_err(|why| self.refused(why)),
            Settings::Table(table, file, place) => {
                let in_file = |wrong: ConfigError| wrong.below(&format!("program[{place}]")).in_file(file);
                program.with_table(table).map_err(|wrong| in_file(wrong).into())
            }
        }
    }

    fn refused(&self, why: String) -> SimError {
        SimError::Own { own: self.to_string(), why }
    }

    /// A key has a value that cannot be.
    fn wrong(&self, key: &str, value: &str, right: String) -> SimError {
        match (&self.settings, key) {
            (Settings::Words(_), "switch" | "name") => self.refused(right),
            (Settings::Words(_), _) => self.refused(format!("{key} = {value}: {right}")),
            (Settings::Table(_, file, place), _) => {
                let (key, value) = (format!("program[{place}].{key}"), value.into());
                ConfigError::Value { key, value, right }.in_file(file).into()
            }
        }
    }
}

impl Setup {
    /// The programs of the switch of this name in the topology, where it runs them.
    ///
    /// # Errors
    /// If a program of its own is not there, or cannot be configured like that beside the others.
    pub(super) fn programs_of(&self, switch: &str) -> Result<Vec<ProgramConfig>, SimError> {
        let mut programs = self.programs.clone();
        for own in self.fabric.own.iter().filter(|own| own.switch == switch) {
            let names = || ProgramConfig::named(&self.programs).map(|(name, _)| name);
            let Some(place) = names().position(|name| name == own.program) else {
                let names = names().collect::<Vec<_>>().join(", ");
                let right = format!("no such program; the switches run {names}");
                return Err(own.wrong("name", &format!("{:?}", own.program), right));
            };
            let configured = own.applied_to(&programs[place])?;
            if let Some(Difference { key, value, other }) = configured.difference(&self.programs[place]) {
                return Err(own.wrong(key, &value, format!("it has to be {other}, as in the other switches")));
            }
            programs[place] = configured;
        }
        Ok(programs)
    }

    /// Checks that each switch with settings of its own is there and runs programs.
    pub(super) fn check_own(&self) -> Result<(), SimError> {
        let (topology, everywhere) = (&self.topology, self.runs_everywhere());
        for own in &self.fabric.own {
            let wrong = |right: &str| Err(own.wrong("switch", &format!("{:?}", own.switch), right.into()));
            let mut named = (0..).zip(topology.switches()).filter(|(_, name)| **name == own.switch).peekable();
            if named.peek().is_none() {
                let names = topology.switches();
                let more = if names.len() > SHOWN { " and others" } else { "" };
                let names = names[..names.len().min(SHOWN)].join(", ");
                return wrong(&format!("the topology has no such switch; it has {names}{more}"));
            }
            if !everywhere && named.all(|(switch, _)| topology.hosts_of(switch).is_empty()) {
                return wrong("the switch has no hosts, so it runs no program; --everywhere lets it");
            }
            self.programs_of(&own.switch)?;
        }
        Ok(())
    }
}
