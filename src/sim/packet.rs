//! A packet under way: a frame, and what only the simulation knows of it.

use super::transport::Segment;
use crate::telemetry::epoch::Nanos;
use crate::wire::{Frame, HeapFrame};

/// What the simulation knows of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// When it reaches the switch or host that it is on its way to.
    pub at: Nanos,
    /// For how long the switch that it has reached has stood still since.
    pub held: Nanos,
    /// The epoch in which it was sent, and its flow by number in that epoch.
    pub epoch: u32,
    pub flow: u32,
    /// The low bits of the epoch that ran at the switch where it entered the network.
    pub entered: u32,
    /// The switches that it has left.
    pub way: Way,
    /// Links between switches that it has crossed.
    pub hops: u8,
    /// The link of its path, counted from 1, on which it is to be lost; 0 for none.
    pub doomed: u8,
    /// The low bits of its number in its epoch. Its fragments have the same.
    pub number: u16,
}

impl Tag {
    /// Whose packet it is.
    pub fn of(&self) -> Sent {
        Sent { epoch: self.epoch, flow: self.flow }
    }

    /// Whether both are of one packet.
    pub fn is_of(&self, other: &Self) -> bool {
        self.of() == other.of() && self.number == other.number
    }
}

/// Switches that were passed one after the other, as a hash: for a given number of switches, other
/// ones or another order give another hash, but for one pair of 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Way(u64);

impl Way {
    /// The way that leads on through a switch.
    #[inline]
    #[must_use]
    pub fn through(self, switch: u32) -> Self {
        // As FxHash joins words; no switch is 0, so that the way's length counts too.
        Self((self.0.rotate_left(5) ^ (u64::from(switch) + 1)).wrapping_mul(0x517c_c1b7_2722_0a95))
    }
}

/// A flow of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sent {
    pub epoch: u32,
    pub flow: u32,
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub frame: HeapFrame,
    pub tag: Tag,
    /// The identity and the digest of a packet that its last switch has taken the digest off.
    pub digest: Option<(u32, u16)>,
    /// What hosts know of it, where they answer.
    pub segment: Option<Box<Segment>>,
}

impl Packet {
    pub fn new(frame: HeapFrame, tag: Tag) -> Self {
        Self { frame, tag, digest: None, segment: None }
    }
}

impl Frame for Packet {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    #[inline(always)]
    fn wire_len(&self) -> usize {
        self.frame.wire_len()
    }

    #[inline(always)]
    fn headroom(&self) -> usize {
        self.frame.headroom()
    }

    #[inline(always)]
    fn grow_front(&mut self, n: usize) -> bool {
        self.frame.grow_front(n)
    }

    #[inline(always)]
    fn shrink_front(&mut self, n: usize) -> bool {
        self.frame.shrink_front(n)
    }

    fn resize(&mut self, length: usize) -> bool {
        self.frame.resize(length)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }

    #[inline(always)]
    fn held_ns(&self) -> u32 {
        self.tag.held.try_into().unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn take_digest(&mut self, identity: u32, digest: u16) {
        self.digest = Some((identity, digest));
    }
}
