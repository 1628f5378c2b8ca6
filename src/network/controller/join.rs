//! Switches that join and leave.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::finality::Pending;
use super::local::WHOLE_RUN;
use super::{Controller, Member, ParameterUpdate};
use crate::program::{Clash, Difference, Foreign, ProgramConfig};
use crate::switch::{KeyHeaders, TelemetryHeader};
use crate::telemetry::epoch::Nanos;

/// Most bytes of a switch's name.
pub const MAX_NAME: usize = 64;
/// Most switches of a network, unless the [settings](super::ControllerSettings) say otherwise.
pub const MAX_SWITCHES: usize = 1024;

/// What all switches of a network that report have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkProfile {
    /// The program that measures; what its configurations must have in common is its own to say.
    pub program: ProgramConfig,
    /// Nanoseconds of an epoch.
    pub length: Nanos,
    /// Time after the end of an epoch in which its packets may leave, in nanoseconds.
    pub transit: Nanos,
    /// What carries a packet's class and epoch between switches.
    #[serde(default)]
    pub header: TelemetryHeader,
    /// The headers that name a packet's flow.
    #[serde(default)]
    pub key: KeyHeaders,
}

/// A switch that joins.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    pub name: String,
    pub profile: NetworkProfile,
    /// Parameters in use until an update takes effect.
    pub parameters: Vec<u8>,
    /// The first epoch that it measures from its beginning.
    pub first_epoch: u64,
}

/// Why a switch may not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("switch {name}: {key} is {value}, and the network's is {expected}; all edge switches must have the same")]
    Differs { name: String, key: &'static str, value: String, expected: String },
    #[error("{name:?} is no name of a switch: it has 1 to {max} bytes and no control characters", max = MAX_NAME)]
    Name { name: String },
    #[error("switch {name}: the network has {max} switches already")]
    Full { name: String, max: usize },
    #[error("switch {name}: {why}")]
    Parameters { name: String, why: String },
    #[error("switch {name}: {clash}")]
    Clash { name: String, clash: Clash },
}

/// Why a switch is not evicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictError {
    #[error("there is no switch {0}")]
    Unknown(String),
    #[error("{0} is connected; stop it, or take the controller out of its configuration, first")]
    Connected(String),
    #[error("{0} is expected; take it out of the controller's --switch or switches first")]
    Expected(String),
}

/// Why parameters are not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("the network does not run {0}")]
    Unknown(String),
    #[error("the parameters of {0} follow the state of the network; shift = false leaves them to you")]
    Shifts(&'static str),
    #[error("{program}: {key} is {ours} in this network, not {value}, and stays so")]
    Differs { program: &'static str, key: &'static str, value: String, ours: String },
    #[error("{0}")]
    Parameters(String),
}

pub(super) fn check_name(name: &str) -> Result<(), JoinError> {
    let right = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    // What is said of it goes into logs.
    let told = || name.chars().take(MAX_NAME).collect();
    if right { Ok(()) } else { Err(JoinError::Name { name: told() }) }
}

impl NetworkProfile {
    /// Whether a switch of a network can be like that, in words if not.
    pub(super) fn validate(&self) -> Result<(), String> {
        self.program.validate().map_err(|error| error.to_string())?;
        if !self.program.is_networked() {
            return Err(format!("no controller takes the records of {}", self.program.name()));
        }
        if self.length == 0 || self.transit > self.length {
            return Err(format!("epochs of {} ns with {} ns of transit time", self.length, self.transit));
        }
        Ok(())
    }

    /// The first thing that differs and may not.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let numbers = |profile: &Self| {
            [
                ("the epoch's length in ns", profile.length.to_string()),
                ("the transit time in ns", profile.transit.to_string()),
                ("telemetry_header", profile.header.name().to_owned()),
                ("key", profile.key.name().to_owned()),
            ]
        };
        let number = Difference::first(numbers(self), numbers(other));
        self.program.difference(&other.program).or(number)
    }
}

impl Controller {
    /// Takes a switch in, or again after it started again or could not be reached. The updates are
    /// those that it must have: the one in force, and those for later epochs. The first switch that
    /// joins says what the network has in common, and its parameters hold until the first update.
    ///
    /// # Errors
    /// If the switch is not like the others, or cannot exist.
    pub fn join(&mut self, request: &JoinRequest, now: Nanos) -> Result<Vec<ParameterUpdate>, JoinError> {
        check_name(&request.name)?;
        let wrong = |why: String| JoinError::Parameters { name: request.name.clone(), why };
        request.profile.validate().map_err(wrong)?;
        self.admit(request, now)
    }

    /// Takes a switch in whose profile is right. Of a simulated network that may be one with any
    /// program.
    ///
    /// # Errors
    /// If the switch is not like the others, or there are too many.
    pub fn admit(&mut self, request: &JoinRequest, now: Nanos) -> Result<Vec<ParameterUpdate>, JoinError> {
        let JoinRequest { name, profile, parameters, first_epoch } = request;
        let wrong = |why: String| JoinError::Parameters { name: name.clone(), why };
        profile.program.fits(parameters).map_err(|error| wrong(error.to_string()))?;
        match &self.profile {
            None => self.agree(profile.clone(), parameters.clone()).map_err(|error| wrong(error.to_string()))?,
            Some(network) => {
                if let Some(Difference { key, value, other: expected }) = profile.difference(network) {
                    return Err(JoinError::Differs { name: name.clone(), key, value, expected });
                }
            }
        }
        let running = self.running(now);
        // The parameters are the network's, and this switch may be configured for others.
        let misfit = self.updates(running).iter().find_map(|update| profile.program.fits(&update.parameters).err());
        if let Some(error) = misfit {
            return Err(wrong(format!("it cannot measure with the network's parameters: {error}")));
        }
        self.begin(now);
        let max = self.settings.switches;
        let full = self.members.len() >= max;
        match self.members.get_mut(name.as_str()) {
            Some(member) => {
                (member.joined, member.joined_in) = (true, running);
                member.offsets.clear();
                if *first_epoch > member.first_epoch {
                    member.first_epoch = *first_epoch;
                    let name = self.name(name);
                    self.next_parts.forget(name.as_ref(), first_epoch.saturating_sub(1));
                }
            }
            None if full => return Err(JoinError::Full { name: name.clone(), max }),
            None => {
                let names: Vec<_> = self.members.keys().map(|name| &**name).chain([name.as_str()]).collect();
                if let Some(clash) = profile.program.clash(&names) {
                    return Err(JoinError::Clash { name: name.clone(), clash });
                }
                self.members.insert(name.as_str().into(), Member::new(true, running, *first_epoch));
                self.revision += 1;
            }
        }
        if let Some(member) = self.members.get_mut(name.as_str()) {
            member.program = Some(profile.program.clone());
        }
        Ok(self.updates(running))
    }

    /// The network has this profile from now on.
    ///
    /// # Errors
    /// If it runs another program than the controller is for.
    pub(super) fn agree(&mut self, profile: NetworkProfile, parameters: Vec<u8>) -> Result<(), Foreign> {
        self.keep();
        self.analyser.configure(&profile.program)?;
        self.next_parts.forget(None, 0);
        self.updates = [ParameterUpdate { epoch: 0, parameters }].into();
        self.history.set_length(if profile.length == WHOLE_RUN { 0 } else { profile.length });
        self.profile = Some(profile);
        self.history.set_lost_after(self.lost_after());
        self.revision += 1;
        Ok(())
    }

    /// The switch cannot be reached: epochs no longer wait for it, but it is a gap until it joins
    /// again or is [evicted](Self::evict).
    pub fn leave(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.joined = false;
        }
    }

    /// The switch has been taken out of the network: it is no gap any more. Behind the last one the
    /// network may agree on something else.
    ///
    /// # Errors
    /// If no switch has that name, or it can be reached.
    pub fn evict(&mut self, name: &str) -> Result<(), EvictError> {
        match self.members.get(name) {
            None => return Err(EvictError::Unknown(name.into())),
            Some(member) if member.joined => return Err(EvictError::Connected(name.into())),
            Some(_) => self.members.remove(name),
        };
        self.revision += 1;
        if self.members.is_empty() {
            self.profile = None;
            self.updates.clear();
            self.open.clear();
            self.pending = Pending::default();
            self.begun = false;
        }
        Ok(())
    }

    /// The names of switches are shared by all that is said of them.
    pub(super) fn name(&self, name: &str) -> Option<Arc<str>> {
        self.members.get_key_value(name).map(|(name, _)| name.clone())
    }
}
