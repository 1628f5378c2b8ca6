//! The tasks.

use serde::{Deserialize, Serialize};

use crate::text::named;

named! {
    /// A question that programs answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Task {
        /// Heavy flows, over any number of epochs.
        Heavy = "heavy",
        /// Packets or bytes of certain flows, over any number of epochs.
        Frequency = "frequency",
        /// The flows of an epoch and their sizes.
        Flows = "flows",
        /// The number of flows, and the entropy of their sizes.
        Cardinality = "cardinality",
        Losses = "losses",
        Changes = "changes",
        /// What each epoch was measured with, and why that changes.
        Attention = "attention",
        /// The switches that flows cross.
        Paths = "paths",
        /// The time that packets of flows take in each switch.
        Latency = "latency",
        /// Packets that come back to a switch.
        Loops = "loops",
        /// How busy the links are that flows cross.
        Utilisation = "utilisation",
        /// Numbers that packets of flows report about the switches on their way.
        Values = "values",
        /// The links and switches that lost packets.
        Places = "places",
    }
}

impl Task {
    /// Whether its answers name flows, of which a query may choose some.
    pub fn names_flows(self) -> bool {
        !matches!(self, Self::Cardinality | Self::Attention)
    }

    /// Whether its answers know switches that flows cross, by which a query may choose flows.
    pub fn knows_paths(self) -> bool {
        matches!(self, Self::Paths | Self::Latency | Self::Loops | Self::Utilisation | Self::Values)
    }

    /// Whether its answers list flows without their paths, of which a query may choose some by paths
    /// from [elsewhere](super::Routes).
    pub fn takes_routes(self) -> bool {
        matches!(self, Self::Heavy | Self::Losses | Self::Changes)
    }

    /// Whether it is about flows that the query must name.
    pub fn needs_flows(self) -> bool {
        matches!(self, Self::Frequency)
    }

    /// The subject of its answers.
    pub fn subject(self) -> &'static str {
        match self {
            Self::Heavy => "The heaviest flows",
            Self::Frequency => "The packets or bytes of the flows that a pattern names, with bounds",
            Self::Flows => "The largest flows, the number of flows and their sizes",
            Self::Cardinality => "The number of flows of each epoch",
            Self::Losses => "The flows that lost packets, and how many",
            Self::Changes => "The flows whose sizes changed most between the last two epochs",
            Self::Attention => "The parameters that each epoch was measured with, and why they change",
            Self::Paths => "The switches that each flow crosses",
            Self::Latency => "The time that packets of each flow take in each switch",
            Self::Loops => "The flows whose packets come back to a switch",
            Self::Utilisation => "How busy the busiest link on each flow's path is",
            Self::Values => "Numbers that packets report about the switches on their way",
            Self::Places => "The links and switches that lost packets",
        }
    }

    /// What a complete answer is called.
    pub fn all(self) -> &'static str {
        match self {
            Self::Heavy | Self::Flows => "all heavy flows",
            Self::Frequency => "all packets",
            Self::Cardinality => "all flows",
            Self::Losses => "all losses",
            Self::Changes => "all heavy changes",
            Self::Attention => "all epochs",
            Self::Paths => "all paths",
            Self::Latency => "all latencies",
            Self::Loops => "all loops",
            Self::Utilisation => "all utilisations",
            Self::Values => "all values",
            Self::Places => "all places",
        }
    }
}
