//! What the hosts send: the packets of an epoch's flows, one after the other.

use super::Setup;
use super::traffic::SimFlow;
use crate::telemetry::epoch::Nanos;
use crate::trace::{Frames, SplitMix64, Tuple, Workload};
use crate::wire::{Frame, HeapFrame, Tuple4, ipv4};

/// Bytes of a packet that is too long for a narrow link.
const LONG: usize = 1000;

/// Where the sending of an epoch's packets stands.
pub struct Source {
    /// By host.
    frames: Vec<Frames>,
    /// Probability that a packet is long and may be fragmented, times 2^64.
    fragmented: u64,
    random: SplitMix64,
    /// The number of the packet that comes next, when it is sent, and the packets of the epoch.
    pub next: usize,
    pub at: Nanos,
    packets: u64,
    remainder: u64,
}

impl Source {
    pub fn new(setup: &Setup, frames: Vec<Frames>) -> Self {
        let fragmented = (setup.fabric.fragmented * 18_446_744_073_709_551_616.0) as u64;
        let random = SplitMix64::new(setup.workload.seed ^ 0xc075);
        Self { frames, fragmented, random, next: 0, at: 0, packets: 0, remainder: 0 }
    }

    /// Begins an epoch of so many packets.
    pub fn begin(&mut self, at: Nanos, packets: usize) {
        (self.next, self.at, self.packets, self.remainder) = (0, at, packets as u64, 0);
    }

    /// Whether some packets may be fragmented.
    pub fn fragments(&self) -> bool {
        self.fragmented > 0
    }

    /// Writes the next packet, which is one of this flow. Returns its number.
    pub fn write(&mut self, flow: &SimFlow, workload: &Workload, frame: &mut HeapFrame) -> u64 {
        let (packet, tuple) = (self.next as u64, Tuple::V4(flow.tuple));
        let long = self.fragmented > 0 && self.random.next_u64() < self.fragmented;
        let length = if long { LONG } else { workload.frame_len(packet, tuple) };
        // One that was lost on a link still has its shim, and less headroom.
        frame.refill(&[]);
        frame.resize(length);
        self.frames[flow.src as usize].fill(tuple, packet, frame.bytes_mut());
        if long {
            allow_fragments(frame.bytes_mut());
        }
        packet
    }

    /// Writes the packet of this number, so many bytes long, that a host sends.
    pub fn fill(&self, host: u32, tuple: Tuple4, number: u64, length: usize, frame: &mut HeapFrame) {
        frame.refill(&[]);
        frame.resize(length);
        self.frames[host as usize].fill(Tuple::V4(tuple), number, frame.bytes_mut());
    }

    /// Goes on to the next packet. They are spread evenly over the epoch.
    #[inline]
    pub fn advance(&mut self, epoch: Nanos) {
        self.next += 1;
        self.at += epoch / self.packets;
        self.remainder += epoch % self.packets;
        if self.remainder >= self.packets {
            self.remainder -= self.packets;
            self.at += 1;
        }
    }
}

/// Takes DF off an IPv4 packet.
fn allow_fragments(frame: &mut [u8]) {
    if let Some((_, packet)) = frame.split_at_mut_checked(14)
        && let Some(flags) = packet.get_mut(6)
    {
        *flags = 0;
        if let Ok(mut packet) = ipv4::View::new(packet) {
            packet.fill_checksum();
        }
    }
}
