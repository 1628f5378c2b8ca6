//! Switches of a simulated network whose programs are configured otherwise than those of the others.

use std::fmt;
use std::str::FromStr;

use super::{Setup, SimError};
use crate::program::{Difference, ProgramConfig};

/// One `--switch` of the command line: a program of one switch has settings of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSettings {
    /// The switch's name in the topology.
    pub switch: String,
    /// The program's name in results.
    pub program: String,
    /// `key=value,…`
    pub settings: String,
}

impl FromStr for OwnSettings {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':').map(str::to_owned).filter(|part| !part.is_empty());
        match [parts.next(), parts.next(), parts.next()] {
            [Some(switch), Some(program), Some(settings)] => Ok(Self { switch, program, settings }),
            _ => Err("write SWITCH:PROGRAM:KEY=VALUE[,KEY=VALUE…]"),
        }
    }
}

impl fmt::Display for OwnSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.switch, self.program, self.settings)
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
            let OwnSettings { program, settings, .. } = own;
            let wrong = |why: String| SimError::Own { own: own.clone(), why };
            let names = || ProgramConfig::named(&self.programs).map(|(name, _)| name);
            let Some(place) = names().position(|name| name == *program) else {
                let names = names().collect::<Vec<_>>().join(", ");
                return Err(wrong(format!("no such program; the switches run {names}")));
            };
            let configured = programs[place].with(settings).map_err(wrong)?;
            if let Some(Difference { key, value, other }) = configured.difference(&self.programs[place]) {
                return Err(wrong(format!("{key} = {value}: it has to be {other}, as in the other switches")));
            }
            programs[place] = configured;
        }
        Ok(programs)
    }

    /// Checks that each switch with settings of its own is there and runs programs.
    pub(super) fn check_own(&self) -> Result<(), SimError> {
        let (topology, everywhere) = (&self.topology, self.runs_everywhere());
        for own in &self.fabric.own {
            let wrong = |why: &str| Err(SimError::Own { own: own.clone(), why: why.into() });
            let mut named = (0..).zip(topology.switches()).filter(|(_, name)| **name == own.switch).peekable();
            if named.peek().is_none() {
                return wrong("the topology has no such switch");
            }
            if !everywhere && named.all(|(switch, _)| topology.hosts_of(switch).is_empty()) {
                return wrong("the switch has no hosts, so it runs no program; --everywhere lets it");
            }
            self.programs_of(&own.switch)?;
        }
        Ok(())
    }
}
