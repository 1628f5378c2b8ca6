//! When an answer is complete: one rule for switches, controllers, simulations and replays.
//!
//! A flow's loss in an epoch is its net: the packets of it that entered the network in that epoch,
//! less those of them that left, whenever they left. An answer about losses is complete when it has
//! the exact net of every flow. FermatSketch knows nothing but nets, so it cannot tell a flow that
//! lost one packet and had another one doubled from a flow that had neither. Losses of an epoch in
//! which any flow gained packets are therefore not complete.
//!
//! The other answers are complete when no flow that they ask for is missing.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::collector::Losses;
use super::{Division, Runtime};

/// Why an answer is not complete. The names in JSON are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Something is missing of a switch, or packets could not be followed: the gaps say what.
    Gap,
    /// An epoch was not analysed, because the controller stood still or no switch reported.
    NotAnalysed,
    /// Not all flows could be decoded.
    Undecoded,
    /// A class of flows has no memory.
    Unmeasured,
    /// Light losses are measured by sample.
    Sampled,
    /// More packets of a flow left than entered.
    Gained,
    /// The controller was not told which switches have hosts.
    EdgesUnnamed,
    /// Flows below the heavy-hitter threshold cannot be named.
    BelowThreshold,
    /// The classifier was too full.
    TooMany,
    /// Flows were found that are not kept.
    NotKept,
    /// The epochs are older than what was asked for.
    Outdated,
}

impl Reason {
    pub const ALL: [Self; 11] = [
        Self::Gap,
        Self::NotAnalysed,
        Self::Undecoded,
        Self::Unmeasured,
        Self::Sampled,
        Self::Gained,
        Self::EdgesUnnamed,
        Self::BelowThreshold,
        Self::TooMany,
        Self::NotKept,
        Self::Outdated,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::NotAnalysed => "not_analysed",
            Self::Undecoded => "undecoded",
            Self::Unmeasured => "unmeasured",
            Self::Sampled => "sampled",
            Self::Gained => "gained",
            Self::EdgesUnnamed => "edges_unnamed",
            Self::BelowThreshold => "below_threshold",
            Self::TooMany => "too_many",
            Self::NotKept => "not_kept",
            Self::Outdated => "outdated",
        }
    }

    /// Whether a loss that was decoded and measured whole may be counted wrongly for this reason.
    fn blurs_counts(self) -> bool {
        matches!(self, Self::Gap | Self::NotAnalysed | Self::EdgesUnnamed)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gap => "something is missing, or packets could not be followed",
            Self::NotAnalysed => "an epoch was not analysed",
            Self::Undecoded => "not all flows could be decoded",
            Self::Unmeasured => "a class of flows has no memory",
            Self::Sampled => "light losses are measured by sample",
            Self::Gained => {
                "more packets of a flow left than entered: a link doubles packets, or an edge switch does not report"
            }
            Self::EdgesUnnamed => {
                "the controller was not told which switches have hosts (--switch), \
                 and what leaves by others seems lost"
            }
            Self::BelowThreshold => "smaller flows cannot be named",
            Self::TooMany => "there are too many flows to tell",
            Self::NotKept => "more flows were found than are kept",
            Self::Outdated => "its epochs are older than what was asked for",
        })
    }
}

/// Why an answer is not complete; it is when there is no reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reasons(BTreeSet<Reason>);

impl Reasons {
    /// Of the losses of one epoch. `None` stands for losses that are unknown.
    pub fn of_losses(losses: Option<&Losses>, runtime: &Runtime, has_gaps: bool) -> Self {
        let mut reasons = Self::default();
        reasons.add_if(has_gaps, Reason::Gap);
        match losses {
            None => reasons.add_if(!has_gaps, Reason::NotAnalysed),
            Some(losses) => {
                reasons.add_if(!losses.decoded, Reason::Undecoded);
                reasons.add_if(losses.gained_packets > 0, Reason::Gained);
            }
        }
        reasons.0.extend(unmeasured(runtime));
        reasons
    }

    pub fn add(&mut self, reason: Reason) {
        self.0.insert(reason);
    }

    pub fn add_if(&mut self, holds: bool, reason: Reason) {
        if holds {
            self.add(reason);
        }
    }

    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    /// Whether the answer is complete.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, reason: Reason) -> bool {
        self.0.contains(&reason)
    }

    pub fn iter(&self) -> impl Iterator<Item = Reason> {
        self.0.iter().copied()
    }

    /// Whether all that was measured was decoded, though it may have been a sample.
    pub fn are_at_most_a_sample(&self) -> bool {
        self.iter().all(|reason| reason == Reason::Sampled)
    }

    /// Whether the losses that were [measured whole](super::collector::Loss::exact) are exact all the
    /// same.
    pub fn leave_counts_exact(&self) -> bool {
        !self.iter().any(Reason::blurs_counts)
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        Self(reasons.into_iter().collect())
    }
}

/// Why packets of some flows are not encoded, whatever becomes of them; `None` when all are.
pub fn unmeasured(runtime: &Runtime) -> Option<Reason> {
    let Division { hh, hl, ll } = runtime.division;
    let light = runtime.hl_threshold > 1;
    if hh == 0 || hl == 0 || (light && ll == 0) {
        Some(Reason::Unmeasured)
    } else if light && runtime.sample < Runtime::ALL {
        Some(Reason::Sampled)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
