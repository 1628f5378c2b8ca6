//! When an answer is complete: one vocabulary for all programs, and for switches, controllers,
//! simulations and replays.
//!
//! An answer is complete when nothing that it was asked for is missing and every number in it is
//! what it is called. Otherwise it names the reasons.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::named;

named! {
    /// Why an answer is not complete.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[derive(Serialize, Deserialize, JsonSchema, thiserror::Error)]
    #[serde(rename_all = "snake_case")]
    pub enum Reason {
        /// Something is missing of a switch, or packets could not be followed: the gaps say what.
        #[error("something is missing, or packets could not be followed")]
        Gap = "gap",
        /// An epoch was not analysed, because the controller stood still or no switch reported.
        #[error("an epoch was not analysed")]
        NotAnalysed = "not_analysed",
        /// An epoch was analysed, and nothing asked its packets for that.
        #[error("no query asked for it in some or all of these epochs")]
        NotAsked = "not_asked",
        /// Not all flows could be decoded.
        #[error("not all flows could be decoded")]
        Undecoded = "undecoded",
        /// A class of flows has no memory.
        #[error("a class of flows has no memory")]
        Unmeasured = "unmeasured",
        /// Light losses are measured by sample.
        #[error("light losses are measured by sample")]
        Sampled = "sampled",
        /// More packets of a flow left than entered.
        #[error("more packets of a flow left than entered: a link doubles packets, or an edge switch does not report")]
        Gained = "gained",
        /// Records are still to come that may change it.
        #[error("late packets may still change it")]
        Provisional = "provisional",
        /// Packets carry the lowest bit of their epoch alone, and more left in a later epoch than
        /// entered in that one.
        #[error("packets of one epoch bit left in a later epoch, and may be of this one")]
        OneBit = "one_bit",
        /// The controller was not told which switches have hosts.
        #[error("the controller was not told which switches have hosts (--switch), and what leaves by others seems lost")]
        EdgesUnnamed = "edges_unnamed",
        /// Flows below the heavy-hitter threshold cannot be named.
        #[error("smaller flows cannot be named")]
        BelowThreshold = "below_threshold",
        /// The classifier was too full.
        #[error("there are too many flows to tell")]
        TooMany = "too_many",
        /// Older epochs of the window, or what most memory was taken by in them, were forgotten.
        #[error("older epochs of these were forgotten, in whole or in part: the history has no room for them")]
        Forgotten = "forgotten",
        /// The epochs are older than what was asked for.
        #[error("its epochs are older than what was asked for")]
        Outdated = "outdated",
        /// Flows may have been evicted from the tables, and counts are what is left.
        #[error("flows may have been evicted, and counts may be too low")]
        Evicted = "evicted",
        /// A register that counts a flow had its largest value: the flow's count is marked.
        #[error("registers were full: the counts of their flows are lower bounds")]
        Saturated = "saturated",
        /// Reports about single packets found no room.
        #[error("reports about single packets found no room")]
        Overflow = "overflow",
        /// Packets of a flow that cannot be told from each other say no more than one.
        #[error("packets of a flow are alike, and say no more than one of them")]
        Alike = "alike",
        /// Flows were to be chosen by their paths, and some paths are not known.
        #[error("the paths of some flows are not known")]
        PathsUnknown = "paths_unknown",
        /// The program counts flows that another program names, and none did.
        #[error("no program named flows that could be counted")]
        Unnamed = "unnamed",
        /// The links between the switches are not known, or not all of them.
        #[error("fabric ports lead to switches that are not known: links of the controller's configuration say which")]
        LinksUnknown = "links_unknown",
        /// Some places are inferred from what flows lost on their paths.
        #[error("some places are inferred from what flows lost on their paths")]
        Inferred = "inferred",
        /// Of flows with many packets a share was kept.
        #[error("of flows with many packets a share was kept")]
        LargeFlows = "large_flows",
        /// Flows are known by digests of 32 bits alone.
        #[error("flows whose digest no packet named are not among those with names")]
        DigestsUnnamed = "digests_unnamed",
        /// Flows share a digest of 32 bits.
        #[error("several flows have one digest: their counts are told together")]
        DigestsAmbiguous = "digests_ambiguous",
    }
}

impl Reason {
    /// Whether it is a limit of how a program measures, in any epoch, and says nothing of a certain one.
    pub fn is_standing(self) -> bool {
        matches!(
            self,
            Self::NotAsked
                | Self::Sampled
                | Self::EdgesUnnamed
                | Self::BelowThreshold
                | Self::Evicted
                | Self::LinksUnknown
                | Self::Inferred
                | Self::DigestsUnnamed
                | Self::DigestsAmbiguous
        )
    }

    /// Whether a loss that was decoded and measured whole may be counted wrongly for this reason.
    fn blurs_counts(self) -> bool {
        matches!(self, Self::Gap | Self::NotAnalysed | Self::EdgesUnnamed | Self::OneBit)
    }
}

/// Why an answer is not complete; it is when there is no reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Reasons(BTreeSet<Reason>);

impl Reasons {
    pub fn add(&mut self, reason: Reason) {
        self.0.insert(reason);
    }

    /// These reasons but for one.
    #[must_use]
    pub fn without(mut self, reason: Reason) -> Self {
        self.0.remove(&reason);
        self
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
