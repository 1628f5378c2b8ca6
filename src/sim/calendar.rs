//! The event queue: packets by the window of time in which they arrive, and by the port that they
//! arrive at.
//!
//! A window is no longer than the shortest link, so what leaves a switch within it arrives in a
//! later one: the packets of a window can be taken port by port, in bursts, as a poll loop does.
//! Every epoch begins with a window of its own.

use super::addresses::Place;
use super::packet::Packet;
use crate::telemetry::epoch::Nanos;

/// The packets of one window in the order in which they were sent, each with the port that it
/// arrives at.
type Slot = Vec<(Place, Packet)>;

/// Most windows that a packet may be ahead: each takes up to 48 bytes.
pub const MAX_WINDOWS: Nanos = 1 << 20;

#[derive(Debug)]
pub struct Calendar {
    slots: Vec<Slot>,
    /// Memory of slots that are over. So what is taken goes by the packets under way, however many
    /// slots there are.
    spares: Vec<Slot>,
    /// The packets of the window in hand by port, and the ports that have any.
    queues: Vec<Vec<Packet>>,
    pending: Vec<Place>,
    width: Nanos,
    epoch: Nanos,
    windows: u64,
    /// The window in hand, its epoch's number and beginning.
    now: u64,
    number: u64,
    start: Nanos,
    under_way: u64,
}

impl Calendar {
    /// `width` is the length of a window, `furthest` the longest time from a packet's departure to
    /// its arrival.
    pub fn new(ports: usize, width: Nanos, epoch: Nanos, furthest: Nanos) -> Self {
        let width = width.clamp(1, epoch.max(1));
        // The last window of an epoch may be shorter, so there can be one more for each epoch.
        let ahead = furthest / width + furthest / epoch.max(1) + 3;
        // A power of two, so that a slot is found without a division.
        let slots = (0..ahead.next_power_of_two()).map(|_| Slot::new()).collect();
        Self {
            slots,
            spares: Vec::new(),
            queues: vec![Vec::new(); ports],
            pending: Vec::new(),
            width,
            epoch,
            windows: epoch.div_ceil(width),
            now: 0,
            number: 0,
            start: 0,
            under_way: 0,
        }
    }

    /// The beginning of the window in hand.
    pub fn now(&self) -> Nanos {
        self.start + (self.now - self.number * self.windows) * self.width
    }

    /// The end of the window in hand.
    pub fn end(&self) -> Nanos {
        (self.now() + self.width).min(self.start + self.epoch)
    }

    /// Packets that have not arrived yet.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Goes on to the next window.
    pub fn advance(&mut self) {
        self.now += 1;
        if self.now == (self.number + 1) * self.windows {
            self.number += 1;
            self.start += self.epoch;
        }
    }

    #[inline]
    fn window(&self, at: Nanos) -> u64 {
        let since = at.saturating_sub(self.start);
        if since < self.epoch {
            return self.number * self.windows + since / self.width;
        }
        let epochs = since / self.epoch;
        (self.number + epochs) * self.windows + (since - epochs * self.epoch) / self.width
    }

    /// Takes a packet that arrives at a port at `packet.tag.at`, in the window in hand or later.
    #[inline]
    pub fn push(&mut self, port: Place, packet: Packet) {
        let window = self.window(packet.tag.at).max(self.now);
        debug_assert!(window < self.now + self.slots.len() as u64, "an arrival beyond the furthest");
        let slot = slot_of(&mut self.slots, window);
        if slot.capacity() == 0 {
            *slot = self.spares.pop().unwrap_or_default();
        }
        slot.push((port, packet));
        self.under_way += 1;
    }

    /// Deals the packets of the window in hand out to their ports, and says which these are, in
    /// their order; to be given back to [`Self::put_back`].
    pub fn arrivals(&mut self) -> Vec<Place> {
        let mut slot = std::mem::take(slot_of(&mut self.slots, self.now));
        for (port, packet) in slot.drain(..) {
            let queue = &mut self.queues[port as usize];
            if queue.is_empty() {
                self.pending.push(port);
            }
            queue.push(packet);
        }
        if slot.capacity() > 0 {
            self.spares.push(slot);
        }
        self.pending.sort_unstable();
        std::mem::take(&mut self.pending)
    }

    /// The packets that arrive at a port in the window in hand, the earliest first; to be given
    /// back empty.
    pub fn take(&mut self, port: Place) -> Vec<Packet> {
        let mut packets = std::mem::take(&mut self.queues[port as usize]);
        if !packets.is_sorted_by_key(|packet| packet.tag.at) {
            packets.sort_by_key(|packet| packet.tag.at);
        }
        self.under_way -= packets.len() as u64;
        packets
    }

    pub fn put_back(&mut self, mut pending: Vec<Place>) {
        pending.clear();
        self.pending = pending;
    }

    pub fn put_queue_back(&mut self, port: Place, packets: Vec<Packet>) {
        debug_assert!(packets.is_empty());
        self.queues[port as usize] = packets;
    }
}

/// The slot of a window. Their number is a power of two.
#[inline]
fn slot_of(slots: &mut [Slot], window: u64) -> &mut Slot {
    let mask = slots.len() - 1;
    &mut slots[window as usize & mask]
}

#[cfg(test)]
mod tests {
    use super::super::packet::Tag;
    use super::*;
    use crate::wire::HeapFrame;
    use proptest::prelude::*;

    proptest! {
        /// Every packet comes out once, in its window, at its port, whatever the lengths.
        #[test]
        fn nothing_is_lost(width in 1u64..50, epoch in 1u64..400, furthest in 50u64..900, packets in prop::collection::vec((0u64..900, 0u32..4), 1..60)) {
            let mut calendar = Calendar::new(4, width, epoch, furthest);
            let mut waiting: Vec<_> = packets.into_iter().map(|(at, port)| (at.min(furthest), port)).collect();
            for &(at, port) in &waiting {
                calendar.push(port, Packet::new(HeapFrame::new(&[]), Tag { at, ..Tag::default() }));
            }
            let mut last = 0;
            while calendar.under_way() > 0 {
                let pending = calendar.arrivals();
                prop_assert!(pending.is_sorted() && calendar.now() >= last);
                last = calendar.end();
                prop_assert_eq!(calendar.now() / epoch, (last - 1) / epoch, "a window within an epoch");
                for &port in &pending {
                    let mut queue = calendar.take(port);
                    for packet in queue.drain(..) {
                        let at = packet.tag.at;
                        prop_assert!((calendar.now()..calendar.end()).contains(&at));
                        let found = waiting.iter().position(|waiting| *waiting == (at, port));
                        waiting.swap_remove(found.unwrap());
                    }
                    calendar.put_queue_back(port, queue);
                }
                calendar.put_back(pending);
                calendar.advance();
            }
            prop_assert!(waiting.is_empty());
        }
    }
    /// The largest network, and a link on which packets wait for a second: memory goes by the
    /// packets, not by ports × windows.
    #[test]
    fn many_ports_and_windows() {
        let (ports, width) = (1 << 18, 1000);
        let mut calendar = Calendar::new(ports, width, 50_000_000, 1_000_000_000);
        let mut sent = 0;
        for round in 0..2000 {
            for port in [round * 64, round * 128] {
                let at = calendar.now() + Nanos::from(round) * 400_000;
                calendar.push(port, Packet::new(HeapFrame::new(&[]), Tag { at, ..Tag::default() }));
                sent += 1;
            }
            let pending = calendar.arrivals();
            for &port in &pending {
                let mut queue = calendar.take(port);
                sent -= queue.drain(..).count();
                calendar.put_queue_back(port, queue);
            }
            calendar.put_back(pending);
            calendar.advance();
        }
        assert_eq!(calendar.under_way(), sent as u64);
        let slots: usize = calendar.slots.iter().map(Slot::capacity).sum();
        assert!(slots <= 8 * sent, "{slots} for {sent} packets");
    }
}
