//! Conversations that have something to send, in turn.

use std::collections::VecDeque;

/// A queue in which a conversation stands once at most, so that its length is bounded.
#[derive(Debug)]
pub struct Ready {
    queue: VecDeque<u32>,
    is_in: Box<[bool]>,
}

impl Ready {
    pub fn new(slots: u32) -> Self {
        let slots = slots as usize;
        Self { queue: VecDeque::with_capacity(slots), is_in: vec![false; slots].into() }
    }

    pub fn push(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.is_in[slot as usize], true) {
            self.queue.push_back(slot);
        }
    }

    pub fn pop(&mut self) -> Option<u32> {
        let slot = self.queue.pop_front()?;
        self.is_in[slot as usize] = false;
        Some(slot)
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }
}
