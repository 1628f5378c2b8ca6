//! The claim of an answer: the epochs that it covers, what is missing, and whether it is complete
//! and final.
//!
//! Every document of a task is a [`Claimed`] answer. Only [`Claim::new`] makes a claim, and only a
//! claim makes a [`Claimed`] answer, so no document is without one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{Answer, Document};
use crate::history::{Entry, Epochs, Reason, Reasons};
use crate::json::{Epoch, Time, span};
use crate::output::{self, Field};

/// The answer to a task, with its claim. In JSON the keys of both stand side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claimed<A> {
    #[serde(flatten)]
    pub claim: Claim,
    #[serde(flatten)]
    answer: A,
}

/// Both schemas, one beside the other, so that the claim's stands in one place.
impl<A: JsonSchema> JsonSchema for Claimed<A> {
    fn schema_name() -> Cow<'static, str> {
        format!("Claimed{}", A::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("{}::Claimed<{}>", module_path!(), A::schema_id()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let both = [generator.subschema_for::<Claim>(), generator.subschema_for::<A>()];
        schemars::json_schema!({ "allOf": both })
    }
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

impl<A> Claimed<A> {
    /// Another form of the answer, with the same claim.
    pub fn map<B>(self, of: impl FnOnce(A) -> B) -> Claimed<B> {
        Claimed { claim: self.claim, answer: of(self.answer) }
    }
}

impl Claimed<Answer> {
    /// The answer as the type of its task; `None` of another task.
    pub fn into_document<A: Document>(self) -> Option<Claimed<A>> {
        Some(Claimed { claim: self.claim, answer: A::of(self.answer)? })
    }
}

/// Epochs and records that an answer rests on, and what is missing from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The epochs that the answer covers.
    pub first_epoch: Option<u64>,
    pub last_epoch: Option<u64>,
    /// Start of the first and end of the last of them. Where a replay takes a whole capture as one,
    /// the times of its first and last packet.
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// Length of an epoch; 0 where a replay takes a whole capture as one.
    pub epoch_ns: u64,
    /// Time that the epochs span.
    pub seconds: f64,
    /// Epochs among them that were not analysed, because the controller stood still.
    pub missing_epochs: u64,
    /// Time since the last of them ended.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    #[serde(flatten)]
    pub epoch: Epoch,
    pub switch: String,
    pub gap: String,
}

impl Claim {
    /// The claim of an answer about these epochs; `lack` has the program's reasons why it is not
    /// complete.
    pub(super) fn new<K>(epochs: &Epochs<K>, lack: Reasons) -> Self {
        let Some(last) = epochs.newest().map(|newest| newest.epoch) else {
            let incomplete = [Reason::NotAnalysed].into_iter().collect();
            return Self { incomplete, sequence: epochs.sequence, ..Self::default() };
        };
        let missing_epochs = epochs.missing();
        let is_final = epochs.iter().all(|entry| entry.finality.is_final);
        let mut incomplete = lack;
        incomplete.add_if(epochs.iter().any(|entry| entry.hides_flows()), Reason::Gap);
        incomplete.add_if(missing_epochs > 0, Reason::NotAnalysed);
        incomplete.add_if(epochs.outdated, Reason::Outdated);
        incomplete.add_if(epochs.forgotten, Reason::Forgotten);
        incomplete.add_if(!is_final, Reason::Provisional);
        let switches: BTreeSet<_> = epochs.iter().flat_map(|entry| &entry.switches).map(ToString::to_string).collect();
        let spanned = last.saturating_sub(epochs.first).saturating_add(1);
        let (start, end) = span((epochs.first, last), epochs.length);
        Self {
            first_epoch: Some(epochs.first),
            last_epoch: Some(last),
            start,
            end,
            epoch_ns: epochs.length,
            seconds: spanned as f64 * epochs.length as f64 / 1e9,
            missing_epochs,
            age_seconds: epochs.age.map(|age| age as f64 / 1e9),
            outdated: epochs.outdated,
            is_final,
            amendments: epochs.iter().map(|entry| entry.finality.amendments).sum(),
            sequence: epochs.sequence,
            lost_after_ns: epochs.lost_after,
            gaps: epochs.iter().flat_map(|entry| gaps(entry, epochs.length)).collect(),
            switches: switches.into_iter().collect(),
            complete: incomplete.is_empty(),
            incomplete,
        }
    }

    /// The same for an answer about a whole capture as one epoch: its time is that of its packets.
    #[must_use]
    pub fn of_capture(self, (first, last): (Time, Time)) -> Self {
        if self.first_epoch.is_none() || self.epoch_ns > 0 {
            return self;
        }
        Self { start: Some(first), end: Some(last), ..self }
    }

    /// The same where no record can come any more: at the end of a simulation.
    #[must_use]
    pub fn at_the_end(self) -> Self {
        let incomplete = self.incomplete.without(Reason::Provisional);
        Self { complete: incomplete.is_empty(), is_final: true, incomplete, ..self }
    }

    /// The document with this claim.
    pub(super) fn with<A>(self, answer: A) -> Claimed<A> {
        Claimed { claim: self, answer }
    }

    /// CSV columns that say which epochs rows cover, and whether the answer is complete and final.
    pub fn columns(&self) -> [(&'static str, Field); 4] {
        [
            ("first_epoch", self.first_epoch.into()),
            ("last_epoch", self.last_epoch.into()),
            ("complete", self.complete.into()),
            ("final", self.is_final.into()),
        ]
    }

    /// The claim in words; `all` is what a complete answer is called.
    pub fn text(&self, all: &str) -> String {
        let (Some(first), Some(last)) = (self.first_epoch, self.last_epoch) else {
            return "no epoch has ended yet".into();
        };
        let complete = self.complete_text(all);
        let mut text = match self.epoch_ns {
            // A replay of a whole capture.
            0 => complete,
            length => format!("{}, {:.1} s: {complete}", output::span((first, last), length), self.seconds),
        };
        if let (true, Some(age)) = (self.outdated, self.age_seconds) {
            text += &format!("\n  old: the last of these ended {age:.1} s ago, and none since has an answer");
        }
        if self.amendments > 0 {
            text += &format!("\n  amended {} since it was final", output::count(self.amendments, "time"));
        }
        if self.switches.len() > 1 {
            text += &format!("\n  switches: {}", listed(&self.switches));
        }
        // Gaps and epochs that are not there are listed by themselves.
        let is_listed = |reason: &Reason| {
            matches!(reason, Reason::Gap | Reason::NotAnalysed | Reason::EdgesUnnamed | Reason::Outdated)
        };
        for reason in self.incomplete.iter().filter(|reason| !is_listed(reason)) {
            text += &format!("\n  {reason}");
        }
        match self.missing_epochs {
            0 => {}
            1 => text += "\n  1 epoch of these was not analysed",
            n => text += &format!("\n  {n} epochs of these were not analysed"),
        }
        const SHOWN: usize = 5;
        for gap in self.gaps.iter().rev().take(SHOWN) {
            text += &match self.epoch_ns {
                0 => format!("\n  gap: {}", gap.gap),
                length => {
                    format!("\n  gap: {}, {}: {}", output::epoch_start(gap.epoch.number, length), gap.switch, gap.gap)
                }
            };
        }
        if self.gaps.len() > SHOWN {
            let before = self.gaps.len() - SHOWN;
            text += &format!("\n  and {before} {} before", if before == 1 { "gap" } else { "gaps" });
        }
        text
    }

    /// Whether an answer is complete, and why not.
    fn complete_text(&self, all: &str) -> String {
        let mut reasons = self.incomplete.iter();
        match (reasons.next(), reasons.next()) {
            (None, _) if self.complete => all.to_owned(),
            (Some(Reason::EdgesUnnamed), None) => {
                format!("{all} if no other switch has hosts; weir controller --switch names those that have")
            }
            _ => format!("not {all}"),
        }
    }
}

/// Names, as many as fit a line.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The gaps of an epoch, with those that may go when later records come.
fn gaps<K>(entry: &Entry<K>, length: u64) -> impl Iterator<Item = Gap> + use<'_, K> {
    let epoch = Epoch::new(entry.epoch, length);
    let all = entry.gaps.iter().chain(&entry.finality.waiting);
    all.map(move |gap| Gap { epoch, switch: gap.switch.to_string(), gap: gap.gap.to_string() })
}
