//! Switches that join and leave.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Controller, Member, Order};
use crate::epoch::Nanos;
use crate::program::chamelemon::attention::Attention;
use crate::program::chamelemon::{Config, Runtime, Shape, TowerShape};
use crate::switch::TelemetryHeader;

/// Most bytes of a switch's name.
pub const MAX_NAME: usize = 64;
/// Most switches of a network, unless the [settings](super::Settings) say otherwise.
pub const MAX_SWITCHES: usize = 1024;

/// What all edge switches of a network have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub shape: Shape,
    pub tower: TowerShape,
    /// Nanoseconds of an epoch.
    pub length: Nanos,
    /// For so many nanoseconds after the end of an epoch its packets may leave.
    pub transit: Nanos,
    /// What carries a packet's class and epoch bit between switches.
    #[serde(default)]
    pub carrier: TelemetryHeader,
}

/// A switch that joins.
#[derive(Clone, Debug)]
pub struct Joining {
    pub name: String,
    pub terms: Terms,
    /// What it measures with until an order takes effect.
    pub runtime: Runtime,
    /// The first epoch that it measures from its beginning.
    pub first_epoch: u64,
}

/// Why a switch may not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("switch {name}: {key} is {value}, and the network's is {expected}; all edge switches must have the same")]
    Differs { name: String, key: &'static str, value: String, expected: String },
    #[error("{name:?} is no name of a switch: it has 1 to {most} bytes and no control characters", most = MAX_NAME)]
    Name { name: String },
    #[error("switch {name}: the network has {most} switches already")]
    Full { name: String, most: usize },
    #[error("switch {name}: {why}")]
    Parameters { name: String, why: String },
}

/// Why a switch is not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    #[error("there is no switch {0}")]
    Unknown(String),
    #[error("{0} is connected; stop it, or take the controller out of its configuration, first")]
    Connected(String),
    #[error("{0} is expected; take it out of the controller's --switch or switches first")]
    Expected(String),
}

pub(super) fn check_name(name: &str) -> Result<(), JoinError> {
    let right = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    // What is said of it goes into logs.
    let told = || name.chars().take(MAX_NAME).collect();
    if right { Ok(()) } else { Err(JoinError::Name { name: told() }) }
}

impl Terms {
    /// Whether a switch can be like that, in words if not.
    pub(super) fn validate(&self) -> Result<(), String> {
        let Shape { arrays, small, upstream, downstream } = self.shape;
        let config = Config { tower: self.tower.clone(), arrays, small, upstream, downstream, ..Config::default() };
        config.validate().map_err(|error| error.to_string())?;
        if self.length == 0 || self.transit > self.length {
            return Err(format!("epochs of {} ns with {} ns of transit time", self.length, self.transit));
        }
        Ok(())
    }

    /// The first thing that differs: its name, and both values.
    fn differs(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let numbers = |terms: &Self| {
            let Shape { arrays, small, upstream, downstream } = terms.shape;
            [
                ("arrays", arrays.into()),
                ("small", small.into()),
                ("upstream", upstream.into()),
                ("downstream", downstream.into()),
                ("the epoch's length in ns", terms.length),
                ("the transit time in ns", terms.transit),
            ]
        };
        let mut pairs = numbers(self).into_iter().zip(numbers(other));
        let number = pairs.find(|((_, mine), (_, theirs))| mine != theirs);
        let number =
            number.map(|((key, mine), (_, theirs)): (_, (_, Nanos))| (key, mine.to_string(), theirs.to_string()));
        let tower = (self.tower != other.tower).then(|| ("tower", self.tower.to_string(), other.tower.to_string()));
        let carriers = || ("carrier", self.carrier.name().to_owned(), other.carrier.name().to_owned());
        number.or(tower).or_else(|| (self.carrier != other.carrier).then(carriers))
    }
}

impl Controller {
    /// Takes a switch in, or again after it started again or could not be reached. The orders are those that it must have: the one in
    /// force, and those for later epochs. The first switch that joins says what the network has in common, and its parameters
    /// hold until the first order.
    ///
    /// # Errors
    /// If the switch is not like the others, or cannot exist.
    pub fn join(&mut self, joining: &Joining, now: Nanos) -> Result<Vec<Order>, JoinError> {
        let Joining { name, terms, runtime, first_epoch } = joining;
        check_name(name)?;
        let wrong = |why: String| JoinError::Parameters { name: name.clone(), why };
        terms.validate().map_err(wrong)?;
        runtime.validate(&terms.shape).map_err(|error| wrong(error.to_string()))?;
        match &self.terms {
            None => self.agree(terms.clone(), *runtime),
            Some(network) => {
                if let Some((key, value, expected)) = terms.differs(network) {
                    return Err(JoinError::Differs { name: name.clone(), key, value, expected });
                }
            }
        }
        let running = self.running(now);
        self.begin(now);
        let most = self.settings.switches;
        let full = self.members.len() >= most;
        match self.members.get_mut(name.as_str()) {
            Some(member) => {
                (member.joined, member.joined_in) = (true, running);
                member.offsets.clear();
                if *first_epoch > member.first_epoch {
                    member.first_epoch = *first_epoch;
                    member.early.retain(|&of, _| of + 1 < *first_epoch);
                }
            }
            None if full => return Err(JoinError::Full { name: name.clone(), most }),
            None => {
                self.members.insert(name.as_str().into(), Member::new(true, running, *first_epoch));
                self.revision += 1;
            }
        }
        Ok(self.orders(running))
    }

    pub(super) fn agree(&mut self, terms: Terms, runtime: Runtime) {
        self.attention = Some(Attention::new(terms.shape, terms.tower.most(), self.settings.salt));
        self.orders = [Order { epoch: 0, runtime }].into();
        self.terms = Some(terms);
        self.revision += 1;
    }

    /// The switch cannot be reached: epochs no longer wait for it, but it is a gap until it joins again or is
    /// [forgotten](Self::forget).
    pub fn leave(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.joined = false;
        }
    }

    /// The switch has been taken out of the network: it is no gap any more. Behind the last one the network may agree on something
    /// else.
    ///
    /// # Errors
    /// If there is none of that name, or it can be reached.
    pub fn forget(&mut self, name: &str) -> Result<(), ForgetError> {
        match self.members.get(name) {
            None => return Err(ForgetError::Unknown(name.into())),
            Some(member) if member.joined => return Err(ForgetError::Connected(name.into())),
            Some(_) => self.members.remove(name),
        };
        self.revision += 1;
        if self.members.is_empty() {
            (self.terms, self.attention) = (None, None);
            self.orders.clear();
            self.open.clear();
            self.begun = false;
        }
        Ok(())
    }

    /// The names of switches are shared by all that is said of them.
    pub(super) fn name(&self, name: &str) -> Option<Arc<str>> {
        self.members.get_key_value(name).map(|(name, _)| name.clone())
    }
}
