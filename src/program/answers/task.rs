//! What can be asked of a program.

/// A question that programs answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Heavy flows, over any number of epochs.
    Heavy,
    /// The flows of an epoch and their sizes.
    Flows,
    /// The number of flows, and the entropy of their sizes.
    Cardinality,
    Losses,
    Changes,
    /// What each epoch was measured with, and why that changes.
    Attention,
    /// The switches that flows cross.
    Paths,
    /// The time that packets of flows take in each switch.
    Latency,
    /// Packets that come back to a switch.
    Loops,
    /// How busy the links are that flows cross.
    Utilisation,
    /// Numbers that packets of flows tell of the switches on their way.
    Values,
}
