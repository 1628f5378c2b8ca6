//! What hosts know of a packet.

use super::hpcc::Hop;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data,
    Acknowledgement {
        /// The packet that came is not the one that was expected: packets before it are missing.
        gap: bool,
    },
}

/// A packet of a connection.
#[derive(Clone, Debug)]
pub struct Segment {
    pub connection: u32,
    pub kind: Kind,
    /// The bytes of the flow that it holds. Of an acknowledgement, `end` is the first byte that has
    /// not come.
    pub start: u32,
    pub end: u32,
    /// INT: the values of the hops so far, and those that an acknowledgement takes back.
    pub hops: Vec<Hop>,
    /// The utilisation that an acknowledgement takes back.
    pub utilisation: Option<f64>,
}
