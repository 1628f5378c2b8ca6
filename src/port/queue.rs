//! The two ends of a port that workers hold.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering},
    },
};

use super::{
    PortDrop, checksum,
    fault::{FaultEnd, HELD},
    memory::Memory,
    stats::QueueCounters,
    veth::{VethRx, VethTx},
};
use crate::{
    dpdk::{Burst, EthRx, EthTx, Mbuf},
    wire::Frame,
};

/// Whether packets may pass: what the user wants, and what the device said last.
#[derive(Debug)]
pub(super) struct Link {
    pub admin_up: AtomicBool,
    pub carrier: AtomicBool,
    /// The MTU of a `veth` port's interface when it was last looked at.
    pub mtu: AtomicU16,
}

impl Link {
    #[inline]
    fn admin_up(&self) -> bool {
        self.admin_up.load(Ordering::Relaxed)
    }
}

/// The work to be done on each frame that a device delivers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mend {
    /// Put back a VLAN tag that it took out.
    pub vlan: bool,
    /// Find checksums that a kernel left to a NIC.
    pub checksum: bool,
}

#[derive(Debug)]
pub(super) enum RxDriver {
    /// `fed`: by a peer that goes on sending while the port is down.
    Eth {
        queue: EthRx,
        mend: Mend,
        fed: bool,
    },
    Veth(VethRx),
    Memory(Memory),
}

#[derive(Debug)]
pub(super) enum TxDriver {
    /// `longest`: the longest frame that may be given to the driver, where it minds.
    Eth {
        queue: EthTx,
        longest: Option<Arc<AtomicUsize>>,
    },
    Veth(VethTx),
    Memory(Memory),
}

/// A receive queue of a port, for one worker.
#[derive(Debug)]
pub struct RxQueue {
    pub(super) driver: RxDriver,
    pub(super) link: Arc<Link>,
    pub(super) counters: Arc<QueueCounters>,
    pub(super) faults: FaultEnd,
    /// By the clock of the queue's poller.
    pub(super) waiting_since: Option<u64>,
}

impl RxQueue {
    /// Appends packets that have come in, at most as many as the burst has room for.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) {
        if !self.link.admin_up() {
            self.discard(burst);
            return;
        }
        let before = burst.len();
        match &mut self.driver {
            RxDriver::Eth { queue, mend, .. } => {
                queue.receive(burst);
                if mend.vlan {
                    restore_vlan(burst, before, &self.counters);
                }
                if mend.checksum {
                    mark_partial(&mut burst[before..]);
                }
            }
            RxDriver::Veth(veth) => veth.receive(burst, &self.counters, &self.link),
            RxDriver::Memory(memory) => memory.receive(burst, &self.counters),
        }
        if burst.len() == before {
            self.waiting_since = None;
        }
        if self.faults.is_on() {
            gather(&mut burst[before..]);
            self.faults.pass(burst, before);
        }
    }

    /// Takes what a peer sends to a port that is down, or has sent just before, and what faults hold
    /// back. Most drivers cannot stop their device, and these packets would wait and leave when the
    /// port is up again, hours later perhaps.
    #[cold]
    fn discard(&mut self, burst: &mut Burst) {
        self.faults.forget();
        let (before, counters) = (burst.len(), &*self.counters);
        match &mut self.driver {
            RxDriver::Eth { queue, fed: true, .. } => queue.receive(burst),
            RxDriver::Veth(veth) => veth.receive(burst, counters, &self.link),
            RxDriver::Eth { .. } | RxDriver::Memory(_) => return,
        }
        if burst.len() == before {
            self.waiting_since = None;
        }
        counters.lose(PortDrop::RxMissed, (burst.len() - before) as u64);
        burst.truncate(before);
    }

    /// Its worker has not polled it since then, which is remembered until the queue is found empty.
    pub fn stood_still(&mut self, since: u64) {
        self.waiting_since.get_or_insert(since);
    }

    /// Since when its packets may have waited, when that is longer than they should.
    #[inline(always)]
    pub fn waiting_since(&self) -> Option<u64> {
        self.waiting_since
    }

    /// Whether faults hold packets back, so that it must be asked also when nothing comes in.
    #[inline(always)]
    pub fn holds(&self) -> bool {
        self.faults.holds()
    }

    /// The descriptor that becomes readable when a packet comes in, if there is one. Open as long
    /// as the queue lives.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.driver {
            RxDriver::Veth(veth) => Some(veth.descriptor()),
            RxDriver::Eth { .. } | RxDriver::Memory(_) => None,
        }
    }
}

/// Packets and bytes that went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub packets: usize,
    pub bytes: u64,
}

impl Sent {
    pub(super) fn add(&mut self, packets: &[Mbuf]) {
        self.packets += packets.len();
        self.bytes += packets.iter().map(|mbuf| mbuf.wire_len() as u64).sum::<u64>();
    }
}

/// A transmit queue of a port, for one worker.
#[derive(Debug)]
pub struct TxQueue {
    pub(super) driver: TxDriver,
    pub(super) link: Arc<Link>,
    pub(super) counters: Arc<QueueCounters>,
    pub(super) faults: FaultEnd,
}

impl TxQueue {
    /// Sends from the front of the burst. What stays in it did not fit the queue, or the port is
    /// down ([`Self::is_up`]): the caller counts and frees it, or tries again. A packet that the
    /// device refuses for what it is, is gone, and counted by the port as a `Tx…` [`PortDrop`].
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> Sent {
        if !self.link.admin_up() {
            return Sent::default();
        }
        if self.faults.is_on() { self.transmit_faulty(burst) } else { self.hand_over(burst) }
    }

    /// Sends what faults have held back until now, and drops it when the port is down. To be called
    /// now and then, also when there is nothing to transmit.
    #[inline]
    pub fn flush(&mut self) {
        if !self.holds() {
            return;
        }
        if self.link.admin_up() {
            self.transmit_faulty(&mut Burst::new());
        } else {
            self.faults.forget();
        }
    }

    /// Whether faults hold packets back.
    #[inline(always)]
    pub fn holds(&self) -> bool {
        self.faults.holds()
    }

    /// Most packets that faults hold back.
    pub const MAX_HELD: u32 = HELD as u32;

    /// Packets that faults hold back; `None` where no fault delays any.
    #[inline(always)]
    pub fn delayed(&self) -> Option<usize> {
        self.faults.delayed()
    }

    /// Packets that a fault drops or delays count as sent for the caller. The device may refuse
    /// more than were given, because delayed packets become due: the port counts these.
    #[inline(never)]
    fn transmit_faulty(&mut self, burst: &mut Burst) -> Sent {
        let (given, given_bytes) = (burst.len(), bytes(burst));
        gather(burst);
        self.faults.pass(burst, 0);
        let (going, going_bytes) = (burst.len(), bytes(burst));
        let sent = self.hand_over(burst);
        let refused = going - sent.packets - burst.len();
        let room = given.saturating_sub(refused);
        if burst.len() > room {
            self.counters.lose(PortDrop::FaultOverflow, (burst.len() - room) as u64);
            burst.truncate(room);
        }
        Sent {
            packets: given.saturating_sub(refused + burst.len()),
            bytes: given_bytes.saturating_sub(going_bytes - sent.bytes),
        }
    }

    #[inline]
    fn hand_over(&mut self, burst: &mut Burst) -> Sent {
        match &mut self.driver {
            TxDriver::Eth { queue, longest } => {
                if let Some(longest) = longest {
                    drop_unfit(burst, longest.load(Ordering::Relaxed), &self.counters);
                }
                let total = complete_checksums(burst);
                let packets = queue.transmit(burst);
                Sent { packets, bytes: total - bytes(burst) }
            }
            TxDriver::Veth(veth) => veth.transmit(burst, &self.counters, &self.link),
            TxDriver::Memory(memory) => {
                complete_checksums(burst);
                memory.transmit(burst, &self.counters)
            }
        }
    }

    /// Whether the port is set up and had a link when that was last looked at. Costs two loads.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.link.admin_up() && self.link.carrier.load(Ordering::Relaxed)
    }
}

/// Computes what a kernel left to a NIC, for all who do not take packets from kernels. The burst's
/// bytes.
#[inline]
fn complete_checksums(burst: &mut Burst) -> u64 {
    let (mut bytes, mut incomplete) = (0, false);
    for mbuf in burst.iter() {
        bytes += mbuf.wire_len() as u64;
        incomplete |= mbuf.needs_checksum();
    }
    if incomplete {
        for mbuf in burst.iter_mut().filter(|mbuf| mbuf.needs_checksum()) {
            // The sum is over all of it. A frame that is too long for a buffer is none of a kernel's.
            mbuf.linearize();
            checksum::complete(mbuf.bytes_mut());
            mbuf.set_needs_checksum(false);
        }
    }
    bytes
}

fn bytes(burst: &Burst) -> u64 {
    burst.iter().map(|mbuf| mbuf.wire_len() as u64).sum()
}

/// Leaves frames of at most `longest` bytes, each in one buffer.
fn drop_unfit(burst: &mut Burst, longest: usize, counters: &QueueCounters) {
    burst.retain(|mbuf| {
        let fits = mbuf.wire_len() <= longest && mbuf.linearize();
        if !fits {
            counters.lose(PortDrop::TxTooLong, 1);
        }
        fits
    });
}

/// Faults look at, hold and change packets of one buffer each.
#[cold]
fn gather(frames: &mut [Mbuf]) {
    frames.iter_mut().for_each(|mbuf| _ = mbuf.linearize());
}

fn mark_partial(frames: &mut [Mbuf]) {
    for mbuf in frames {
        if checksum::is_partial(mbuf.bytes()) {
            mbuf.set_needs_checksum(true);
        }
    }
}

/// Puts tags that a NIC took out back into the packets from `first` on.
fn restore_vlan(burst: &mut Burst, first: usize, counters: &QueueCounters) {
    let mut at = first;
    while at < burst.len() {
        let mbuf = &mut burst[at];
        match mbuf.take_stripped_vlan() {
            Some(tci) if !insert_vlan(mbuf, 0x8100, tci) => {
                counters.lose(PortDrop::RxError, 1);
                drop(burst.swap_remove(at));
            }
            _ => at += 1,
        }
    }
}

/// Puts a VLAN tag behind the addresses. False, and nothing changed, without the headroom or the
/// addresses.
pub(super) fn insert_vlan(frame: &mut impl Frame, tpid: u16, tci: u16) -> bool {
    let fits = frame.bytes().len() >= 14 && frame.grow_front(4);
    if fits {
        let bytes = frame.bytes_mut();
        bytes.copy_within(4..16, 0);
        bytes[12..14].copy_from_slice(&tpid.to_be_bytes());
        bytes[14..16].copy_from_slice(&tci.to_be_bytes());
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::HeapFrame;

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let plain: Vec<u8> = (0..60).collect();
        let mut frame = HeapFrame::new(&plain);
        assert!(insert_vlan(&mut frame, 0x88a8, 0x6123));
        let expected = [&plain[..12], &[0x88, 0xa8, 0x61, 0x23], &plain[12..]].concat();
        assert_eq!(frame.bytes(), expected);
    }

    #[test]
    fn a_runt_gets_no_tag() {
        let mut frame = HeapFrame::new(&[0; 13]);
        assert!(!insert_vlan(&mut frame, 0x8100, 1));
        assert_eq!(frame.bytes(), [0; 13]);
    }
}
