//! When an answer is complete: one vocabulary for all programs, and for switches, controllers,
//! simulations and replays.
//!
//! An answer is complete when nothing that it was asked for is missing and every number in it is
//! what it is called. Otherwise it names the reasons.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The reasons: each with its name in JSON, which is stable, and in words.
macro_rules! reasons {
    ($($(#[$about:meta])+ $reason:ident = $name:literal, $words:expr;)+) => {
        /// Why an answer is not complete.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$about])+ #[serde(rename = $name)] $reason,)+
        }

        impl Reason {
            #[cfg(test)]
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$reason),+];

            /// Its name in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }
        }

        impl fmt::Display for Reason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$reason => $words,)+
                })
            }
        }
    };
}

reasons! {
    /// Something is missing of a switch, or packets could not be followed: the gaps say what.
    Gap = "gap", "something is missing, or packets could not be followed";
    /// An epoch was not analysed, because the controller stood still or no switch reported.
    NotAnalysed = "not_analysed", "an epoch was not analysed";
    /// Not all flows could be decoded.
    Undecoded = "undecoded", "not all flows could be decoded";
    /// A class of flows has no memory.
    Unmeasured = "unmeasured", "a class of flows has no memory";
    /// Light losses are measured by sample.
    Sampled = "sampled", "light losses are measured by sample";
    /// More packets of a flow left than entered.
    Gained = "gained",
        "more packets of a flow left than entered: a link doubles packets, or an edge switch does not report";
    /// The controller was not told which switches have hosts.
    EdgesUnnamed = "edges_unnamed",
        "the controller was not told which switches have hosts (--switch), and what leaves by others seems lost";
    /// Flows below the heavy-hitter threshold cannot be named.
    BelowThreshold = "below_threshold", "smaller flows cannot be named";
    /// The classifier was too full.
    TooMany = "too_many", "there are too many flows to tell";
    /// Flows were found that are not kept.
    NotKept = "not_kept", "more flows were found than are kept";
    /// The epochs are older than what was asked for.
    Outdated = "outdated", "its epochs are older than what was asked for";
    /// Flows may have been evicted from the tables, and counts are what is left.
    Evicted = "evicted", "flows may have been evicted, and counts are at least what is told";
    /// Reports about single packets found no room.
    Overflow = "overflow", "reports about single packets found no room";
}

impl Reason {
    /// Whether a loss that was decoded and measured whole may be counted wrongly for this reason.
    fn blurs_counts(self) -> bool {
        matches!(self, Self::Gap | Self::NotAnalysed | Self::EdgesUnnamed)
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
