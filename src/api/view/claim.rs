//! What an answer claims: the epochs that it covers, what is missing, and whether it is complete.
//!
//! Every document of a task is a [`Claimed`] answer. Only [`Claim::new`] makes a claim, and only a
//! claim makes a [`Claimed`] answer, so that no document is without one.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{Epoch, Time, span};
use crate::program::answers::{EpochAnswers, Reason, Reasons, SwitchGap};
use crate::telemetry::Selected;

/// The answer to a task, with its claim. In JSON the keys of both stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claimed<A> {
    #[serde(flatten)]
    pub claim: Claim,
    #[serde(flatten)]
    answer: A,
}

impl<A> Deref for Claimed<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.answer
    }
}

#[cfg(test)]
impl<A> Claimed<A> {
    /// An answer that claims what a test wants.
    pub fn of(claim: Claim, answer: A) -> Self {
        Self { claim, answer }
    }
}

impl<A: Serialize> Claimed<A> {
    /// The same document without its type.
    pub(super) fn untyped(&self) -> Result<Claimed<Value>, serde_json::Error> {
        Ok(self.claim.clone().with(serde_json::to_value(&self.answer)?))
    }
}

/// What an answer rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The epochs that the answer covers.
    pub first_epoch: Option<u64>,
    pub last_epoch: Option<u64>,
    /// When the first of them starts and the last one ends. Where a replay takes a whole capture as one,
    /// the times of its first and last packet.
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// Length of an epoch; 0 where a replay takes a whole capture as one.
    pub epoch_ns: u64,
    /// Time that the epochs span.
    pub seconds: f64,
    /// Epochs among them that were not analysed, because the controller stood still.
    pub missing_epochs: u64,
    /// How long ago the last of them ended.
    pub age_seconds: Option<f64>,
    /// They are older than what was asked for.
    pub outdated: bool,
    /// Whether all records that may still change these answers have come, or were missed.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Number of changes of these answers since they were final.
    pub amendments: u64,
    /// Number of the newest publication or amendment; `since` asks for the next one.
    pub sequence: u64,
    /// Time after the end of its epoch by which a packet has left, or is lost; null for a switch
    /// alone.
    pub lost_after_ns: Option<u64>,
    /// Gaps of the epochs.
    pub gaps: Vec<Gap>,
    /// The switches whose records it is made of; a switch with gaps alone is not among them.
    pub switches: Vec<String>,
    /// Whether the answer has all flows of these epochs with exact counts, and if not, why.
    pub complete: bool,
    pub incomplete: Reasons,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    #[serde(flatten)]
    pub epoch: Epoch,
    pub switch: String,
    pub gap: String,
}

impl Claim {
    /// `lack` says why an epoch's answers are not complete.
    pub(super) fn new(selected: &Selected, lack: impl Fn(&EpochAnswers) -> Reasons) -> Self {
        let epochs = &selected.epochs;
        let Some(last) = epochs.last().map(|epoch| epoch.epoch) else {
            let incomplete = [Reason::NotAnalysed].into_iter().collect();
            return Self { incomplete, sequence: selected.sequence, ..Self::default() };
        };
        let missing_epochs = selected.missing();
        let mut incomplete = Reasons::default();
        epochs.iter().for_each(|epoch| incomplete.extend(&lack(epoch)));
        let hides_flows = |epoch: &EpochAnswers| epoch.gaps.iter().any(|gap| gap.gap.hides_flows());
        incomplete.add_if(epochs.iter().any(|epoch| hides_flows(epoch)), Reason::Gap);
        incomplete.add_if(missing_epochs > 0, Reason::NotAnalysed);
        incomplete.add_if(selected.outdated, Reason::Outdated);
        let is_final = epochs.iter().all(|epoch| epoch.finality.is_final);
        incomplete.add_if(!is_final, Reason::Provisional);
        let missing = |epoch: &Arc<EpochAnswers>| {
            let of = Epoch::new(epoch.epoch, selected.length);
            gaps(of, &epoch.gaps).chain(gaps(of, &epoch.finality.waiting)).collect::<Vec<_>>()
        };
        let switches: BTreeSet<_> =
            epochs.iter().flat_map(|epoch| &epoch.switches).map(|switch| &*switch.switch).collect();
        let claim = Self {
            last_epoch: Some(last),
            epoch_ns: selected.length,
            missing_epochs,
            age_seconds: selected.age.map(|age| age as f64 / 1e9),
            outdated: selected.outdated,
            is_final,
            amendments: epochs.iter().map(|epoch| epoch.finality.amendments).sum(),
            sequence: selected.sequence,
            lost_after_ns: selected.lost_after,
            gaps: epochs.iter().flat_map(missing).collect(),
            switches: switches.into_iter().map(String::from).collect(),
            complete: incomplete.is_empty(),
            incomplete,
            ..Self::default()
        };
        claim.since(selected.first)
    }

    /// The same for epochs from `first` on.
    fn since(self, first: u64) -> Self {
        let last = self.last_epoch.unwrap_or_default();
        let spanned = self.last_epoch.map_or(0, |last| last.saturating_sub(first).saturating_add(1));
        let seconds = spanned as f64 * self.epoch_ns as f64 / 1e9;
        let (start, end) = span((first, last), self.epoch_ns);
        Self { first_epoch: Some(first), start, end, seconds, ..self }
    }

    /// The same for an answer about a whole capture as one epoch: its time is that of its packets.
    #[must_use]
    pub fn of_capture(self, (first, last): (Time, Time)) -> Self {
        if self.first_epoch.is_none() || self.epoch_ns > 0 {
            return self;
        }
        Self { start: Some(first), end: Some(last), ..self }
    }

    /// The same for an answer that also rests on the epoch before the first, in which this is
    /// missing.
    pub(super) fn with_epoch_before(self, missing: &[SwitchGap]) -> Self {
        let Some(before) = self.first_epoch.map(|first| first.saturating_sub(1)) else { return self };
        let gaps = gaps(Epoch::new(before, self.epoch_ns), missing).chain(self.gaps.iter().cloned()).collect();
        Self { gaps, ..self.since(before) }
    }

    /// The document with this claim.
    pub(super) fn with<A>(self, answer: A) -> Claimed<A> {
        Claimed { claim: self, answer }
    }
}

fn gaps(epoch: Epoch, gaps: &[SwitchGap]) -> impl Iterator<Item = Gap> {
    gaps.iter().map(move |gap| Gap { epoch, switch: gap.switch.to_string(), gap: gap.gap.to_string() })
}
