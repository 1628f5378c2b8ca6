//! The event queue of the simulation: a ring of short slots, and a heap for what lies beyond it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir::sim::transport::hpcc::Picos;

/// Length of a slot as a power of two: about a nanosecond, less than the shortest packet takes on
/// the fastest link.
const SLOT_BITS: u32 = 10;
/// Slots of the ring: two microseconds, more than a link's delay and its longest packet.
const SLOTS: u64 = 2048;

/// Something that happens at a time. Its kind says what `id` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub at: Picos,
    pub kind: Kind,
    pub id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A packet reaches the end of its link.
    Arrival,
    /// A port has sent a packet and may send another.
    Free,
    /// A flow of a host may send by its rate.
    Wake,
    /// A flow begins.
    Start,
}

/// Events in the order of their times. Those of one time come out in the order in which they went
/// in, as long as the ring reaches to them, so a run depends on its input alone.
pub struct Calendar {
    ring: Vec<Vec<Event>>,
    far: BinaryHeap<Reverse<Event>>,
    /// The slot in hand, sorted, and how many of its events are over.
    current: Vec<Event>,
    done: usize,
    slot: u64,
    /// Events in the ring, without those of the slot in hand.
    waiting: usize,
}

impl Calendar {
    pub fn new() -> Self {
        let ring = (0..SLOTS).map(|_| Vec::new()).collect();
        Self { ring, far: BinaryHeap::new(), current: Vec::new(), done: 0, slot: 0, waiting: 0 }
    }

    #[inline]
    pub fn push(&mut self, at: Picos, kind: Kind, id: u32) {
        let event = Event { at, kind, id };
        let slot = at >> SLOT_BITS;
        if slot <= self.slot {
            let place = self.done + self.current[self.done..].partition_point(|other| other.at <= at);
            self.current.insert(place, event);
        } else if slot < self.slot + SLOTS {
            self.ring[(slot % SLOTS) as usize].push(event);
            self.waiting += 1;
        } else {
            self.far.push(Reverse(event));
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        while self.done == self.current.len() {
            self.advance()?;
        }
        self.done += 1;
        Some(self.current[self.done - 1])
    }

    /// Goes on to the next slot that has events.
    fn advance(&mut self) -> Option<()> {
        self.current.clear();
        self.done = 0;
        self.slot = match self.far.peek() {
            Some(Reverse(event)) if self.waiting == 0 => event.at >> SLOT_BITS,
            None if self.waiting == 0 => return None,
            _ => self.slot + 1,
        };
        while let Some(Reverse(event)) = self.far.peek()
            && event.at >> SLOT_BITS < self.slot + SLOTS
        {
            self.ring[((event.at >> SLOT_BITS) % SLOTS) as usize].push(*event);
            self.far.pop();
            self.waiting += 1;
        }
        std::mem::swap(&mut self.current, &mut self.ring[(self.slot % SLOTS) as usize]);
        self.waiting -= self.current.len();
        self.current.sort_by_key(|event| event.at);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use weir::trace::SplitMix64;

    use super::*;

    /// Near and far events, some of one time, while others come out.
    #[test]
    fn events_come_out_in_order_and_none_is_lost() {
        let (mut rng, mut calendar) = (SplitMix64::new(1), Calendar::new());
        let (mut now, mut pushed, mut popped) = (0, 0, Vec::new());
        for round in 0..200_000 {
            let ahead = [1 << 8, 1 << 14, 1 << 20, 1 << 24][rng.below(4) as usize];
            if round < 100_000 && rng.below(2) == 0 {
                calendar.push(now + rng.below(ahead), Kind::Arrival, pushed);
                pushed += 1;
            } else if let Some(event) = calendar.pop() {
                assert!(event.at >= now, "{event:?} after {now}");
                now = event.at;
                popped.push(event.id);
            }
        }
        popped.sort_unstable();
        assert_eq!(popped, (0..pushed).collect::<Vec<_>>());
    }

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut calendar = Calendar::new();
        for id in [3, 1, 2] {
            calendar.push(5000, Kind::Arrival, id);
        }
        assert_eq!(calendar.pop().map(|event| event.id), Some(3));
        calendar.push(5000, Kind::Free, 0);
        assert_eq!(std::iter::from_fn(|| calendar.pop()).map(|event| event.id).collect::<Vec<_>>(), [1, 2, 0]);
    }
}
