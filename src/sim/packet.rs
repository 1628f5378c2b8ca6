//! A packet under way: a frame, and what only the simulation knows of it.

use crate::epoch::Nanos;
use crate::wire::{Frame, HeapFrame};

/// What the simulation knows of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// When it reaches the switch or host that it is on its way to.
    pub at: Nanos,
    /// Its flow, by number in its epoch; the top bit tells two epochs apart.
    pub flow: u32,
    /// Links between switches that it has crossed.
    pub hops: u8,
    /// The link of its path, counted from 1, on which it is to be lost; 0 for none.
    pub doomed: u8,
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub frame: HeapFrame,
    pub tag: Tag,
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
}
