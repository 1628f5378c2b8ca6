//! The controller of a network (§4): takes the switches' records, analyses each epoch, and decides
//! the parameters of a later one.
//!
//! It does no I/O and reads no clock: time is an argument, and its driver carries the updates to
//! the switches. A switch drives one for each of its programs in its own process.
//!
//! Epochs close one after the other: each when all switches that have joined have reported on it,
//! or at its deadline. What is missing then is a gap of that switch, and spoils no other. Losses
//! alone need all switches.

mod configured;
mod epochs;
mod finality;
mod join;
mod local;
mod next_parts;
mod saved;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::epochs::Open;
use self::finality::Pending;
pub use self::join::{ChangeError, EvictError, JoinError, JoinRequest, MAX_NAME, MAX_SWITCHES, NetworkProfile};
pub use self::local::{LocalAnswers, LocalControllers, LocalSettings, linked, local_room};
use self::next_parts::NextParts;
pub use self::saved::{SAVED_VERSION, Saved, SavedError};
use crate::answers::Queryable;
use crate::config::DEFAULT_HORIZON;
use crate::history::Room;
use crate::program::{AnyAnalyser, AnyRecord, ProgramConfig};
use crate::telemetry::epoch::Nanos;

/// Memory of a program's history, in bytes.
pub const HISTORY_BYTES: usize = 96 << 20;

/// From epoch `epoch` on, measure with `parameters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterUpdate {
    pub epoch: u64,
    /// The byte form.
    pub parameters: Vec<u8>,
}

/// How the controller behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// Time after the end of the transit time for which a record is waited for.
    pub record_timeout: Nanos,
    /// Time that an update needs to reach all switches. The transit time, in which they are prepared
    /// for its epoch, comes on top, and once more, by which their clocks may be ahead of this one,
    /// unless it is theirs.
    pub lead_time: Nanos,
    /// A packet that has not left by the transit time and this number of epochs after the end of its own is lost. Answers
    /// about losses are final when the records of these epochs are there. `None`: packets are waited
    /// for until the controller ends, as in a simulation, and no answer is final before.
    pub horizon: Option<u64>,
    /// Room of the history.
    pub history: Room,
    /// Whether parameters change, or stay as they are.
    pub shifts: bool,
    /// The switches' clock is the controller's own.
    pub one_clock: bool,
    /// Packets of a capture: the first epoch is measured from its beginning, and epochs without a
    /// record had no packets.
    pub replays: bool,
    /// Packets leave the network by ports that it does not measure, so that losses cannot be told.
    pub fabric: bool,
    /// Whether all switches with hosts are expected, so that packets leave by no others.
    pub edges_named: bool,
    /// Most switches of the network.
    pub switches: usize,
    /// Makes the sampling of this deployment its own.
    pub salt: u64,
}

impl ControllerSettings {
    /// For epochs of this length: a quarter of it is waited, and updates are under way for a tenth.
    pub fn new(length: Nanos, salt: u64) -> Self {
        let (record_timeout, lead_time) = (length / 4, length / 10);
        Self {
            record_timeout,
            lead_time,
            horizon: Some(DEFAULT_HORIZON),
            history: Room { epochs: 1024, bytes: HISTORY_BYTES },
            shifts: true,
            one_clock: false,
            replays: false,
            fabric: false,
            edges_named: true,
            switches: MAX_SWITCHES,
            salt,
        }
    }
}

/// A switch's record of an epoch, or of several when its collector was behind.
#[derive(Debug)]
pub struct Report {
    pub first_epoch: u64,
    pub epoch: u64,
    /// Whether all cores have reported on all of the epoch.
    pub whole: bool,
    /// Time by which the switch closed the epoch after its transit time; packets may have waited
    /// meanwhile.
    pub late: Nanos,
    pub record: AnyRecord,
}

/// A record that is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("switch {name} has not joined")]
    Unknown { name: String },
    #[error("switch {name}: epoch {epoch} is closed")]
    Late { name: String, epoch: u64 },
    #[error("switch {name}: epoch {epoch} has been reported")]
    Twice { name: String, epoch: u64 },
    #[error("switch {name}: epoch {epoch} has not ended, {running} is running here; are the clocks synchronised?")]
    Early { name: String, epoch: u64, running: u64 },
    #[error("switch {name}: the record of epoch {epoch} is of another program or shape than the switch joined with")]
    Shape { name: String, epoch: u64 },
}

/// A switch of the network.
#[derive(Debug)]
struct Member {
    /// Whether it can be reached.
    joined: bool,
    /// The epochs in which it joined for the first time and for the last.
    since: u64,
    joined_in: u64,
    /// The first epoch that it measures from its beginning.
    first_epoch: u64,
    /// The program as this switch has it, once it has joined.
    program: Option<ProgramConfig>,
    /// What its clock was ahead of this one when its last records were sent, less the time that
    /// they were under way.
    offsets: VecDeque<i64>,
}

impl Member {
    fn new(joined: bool, since: u64, first_epoch: u64) -> Self {
        Self { joined, since, joined_in: since, first_epoch, program: None, offsets: VecDeque::new() }
    }

    /// What its clock is ahead of this one, in nanoseconds. Records are late for other reasons,
    /// too, so the one that was late least tells it.
    fn ahead(&self) -> i64 {
        self.offsets.iter().copied().max().unwrap_or_default()
    }
}

/// The controller's state.
pub struct Controller {
    settings: ControllerSettings,
    profile: Option<NetworkProfile>,
    members: BTreeMap<Arc<str>, Member>,
    analyser: Box<dyn AnyAnalyser>,
    history: Arc<dyn Queryable>,
    /// By epoch; the first is in force since before all epochs that are open.
    updates: VecDeque<ParameterUpdate>,
    /// Whether epochs are counted, the one that closes next, and what has been reported on it and
    /// those after it.
    begun: bool,
    next: u64,
    open: BTreeMap<u64, Open>,
    next_parts: NextParts,
    /// Of a replay, the epoch that comes next and the first epoch without packets before it.
    quiet: Option<(u64, u64)>,
    /// What answers wait for until they are final.
    pending: Pending,
    revision: u64,
}

impl Controller {
    /// The controller of a network that runs this program.
    pub fn new(program: &ProgramConfig, settings: ControllerSettings) -> Self {
        let analyser = program.analyser(settings.salt, settings.history);
        Self {
            settings,
            profile: None,
            members: BTreeMap::new(),
            history: analyser.history(),
            analyser,
            updates: VecDeque::new(),
            begun: false,
            next: 0,
            open: BTreeMap::new(),
            next_parts: NextParts::default(),
            quiet: None,
            pending: Pending::default(),
            revision: 0,
        }
    }

    /// Goes on from what was saved: the parameters in force, and the switches that are expected.
    ///
    /// # Errors
    /// Says why the state is not one that this version can go on from.
    pub fn restore(program: &ProgramConfig, settings: ControllerSettings, saved: &Saved) -> Result<Self, SavedError> {
        if saved.version != saved::SAVED_VERSION {
            return Err(SavedError::Version { version: saved.version });
        }
        let mut controller = Self::new(program, settings);
        let Some(profile) = &saved.profile else { return Ok(controller) };
        let wrong = |key, why: String| SavedError::Wrong { key, why };
        profile.validate().map_err(|why| wrong("profile", why))?;
        let latest = saved.updates.last().ok_or_else(|| wrong("updates", "there is none".into()))?;
        profile.program.fits(&latest.parameters).map_err(|error| wrong("updates", error.to_string()))?;
        controller
            .agree(profile.clone(), latest.parameters.clone())
            .map_err(|error| wrong("profile", error.to_string()))?;
        for name in &saved.switches {
            join::check_name(name).map_err(|error| wrong("switches", error.to_string()))?;
            controller.members.insert(name.as_str().into(), Member::new(false, 0, 0));
        }
        let names: Vec<_> = saved.switches.iter().map(String::as_str).collect();
        if let Some(clash) = profile.program.clash(&names) {
            return Err(wrong("switches", clash.to_string()));
        }
        Ok(controller)
    }

    /// What a restart needs, to be stored whenever the [revision](Self::revision) has changed.
    pub fn save(&self) -> Saved {
        Saved {
            version: saved::SAVED_VERSION,
            profile: self.profile.clone(),
            updates: self.updates.back().cloned().into_iter().collect(),
            switches: self.members.keys().map(|name| name.to_string()).collect(),
        }
    }

    /// Grows with every change of what [`Self::save`] returns, but for the seed of sampling, which
    /// is new in every epoch.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What the switches have in common, once one has joined.
    pub fn profile(&self) -> Option<&NetworkProfile> {
        self.profile.as_ref()
    }

    /// The parameters of an epoch.
    fn parameters(&self, epoch: u64) -> Option<&[u8]> {
        let in_force = self.updates.iter().rev().find(|update| update.epoch <= epoch);
        in_force.or(self.updates.front()).map(|update| &*update.parameters)
    }

    /// The update in force at an epoch, and those for later ones.
    pub fn updates(&self, epoch: u64) -> Vec<ParameterUpdate> {
        let first = self.updates.iter().rposition(|update| update.epoch <= epoch).unwrap_or(0);
        self.updates.iter().skip(first).cloned().collect()
    }

    fn running(&self, now: Nanos) -> u64 {
        self.profile.as_ref().map_or(0, |profile| now / profile.length)
    }

    /// What the epochs have shown, to be asked.
    pub fn history(&self) -> &Arc<dyn Queryable> {
        &self.history
    }

    /// The names of the switches, and whether each can be reached.
    pub fn switches(&self) -> impl Iterator<Item = (&str, bool)> {
        self.members.iter().map(|(name, member)| (&**name, member.joined))
    }
}
