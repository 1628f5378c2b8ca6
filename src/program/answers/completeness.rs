//! When an answer is complete: one vocabulary for all programs, and for switches, controllers,
//! simulations and replays.
//!
//! An answer is complete when nothing that it was asked for is missing and every number in it is
//! what it is called. Otherwise it names the reasons.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Flows may have been evicted from the tables, and counts are what is left.
    Evicted,
    /// Reports about single packets found no room.
    Overflow,
}

impl Reason {
    pub const ALL: [Self; 13] = [
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
        Self::Evicted,
        Self::Overflow,
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
            Self::Evicted => "evicted",
            Self::Overflow => "overflow",
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
            Self::Overflow => "reports about single packets found no room",
            Self::Evicted => "flows may have been evicted, and counts are at least what is told",
        })
    }
}

/// Why an answer is not complete; it is when there is no reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reasons(BTreeSet<Reason>);

impl Reasons {
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

    /// Whether losses that were measured whole are exact all the same.
    pub fn leave_counts_exact(&self) -> bool {
        !self.iter().any(Reason::blurs_counts)
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        Self(reasons.into_iter().collect())
    }
}
