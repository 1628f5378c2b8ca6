//! The two ends of a port that workers hold.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    PortDrop, checksum,
    memory::Memory,
    stats::QueueCounters,
    veth::{VethRx, VethTx},
};
use crate::{
    dpdk::{Burst, EthRx, EthTx},
    wire::Frame,
};

/// Whether packets may pass: what the user wants, and what the device said last.
#[derive(Debug)]
pub(super) struct Link {
    pub wanted: AtomicBool,
    pub carrier: AtomicBool,
}

impl Link {
    #[inline]
    fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) enum RxDriver {
    Eth { queue: EthRx, strips_vlan: bool },
    Veth(VethRx),
    Memory(Memory),
}

#[derive(Debug)]
pub(super) enum TxDriver {
    Eth { queue: EthTx, longest: Option<usize> },
    Veth(VethTx),
    Memory(Memory),
}

/// Where one worker takes the packets of a port, or of its share, from.
#[derive(Debug)]
pub struct RxQueue {
    pub(super) driver: RxDriver,
    pub(super) link: Arc<Link>,
    pub(super) counters: Arc<QueueCounters>,
}

impl RxQueue {
    /// Appends packets that have come in, at most as many as the burst has room for.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) {
        if !self.link.wanted() {
            return;
        }
        match &mut self.driver {
            RxDriver::Eth { queue, strips_vlan } => {
                let before = burst.len();
                queue.receive(burst);
                if *strips_vlan {
                    restore_vlan(burst, before, &self.counters);
                }
            }
            RxDriver::Veth(veth) => veth.receive(burst, &self.counters, &self.link),
            RxDriver::Memory(memory) => memory.receive(burst, &self.counters),
        }
    }

    /// What becomes readable when a packet comes in, where there is such a thing. Open as long as the queue lives.
    pub fn descriptor(&self) -> Option<RawFd> {
        match &self.driver {
            RxDriver::Veth(veth) => Some(veth.descriptor()),
            RxDriver::Eth { .. } | RxDriver::Memory(_) => None,
        }
    }
}

/// What went out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub packets: usize,
    pub bytes: u64,
}

/// Where one worker gives packets to that leave by a port.
#[derive(Debug)]
pub struct TxQueue {
    pub(super) driver: TxDriver,
    pub(super) link: Arc<Link>,
    pub(super) counters: Arc<QueueCounters>,
}

impl TxQueue {
    /// Sends from the front of the burst. What stays in it did not fit the queue, or the port is down
    /// ([`Self::is_up`]): the caller counts and frees it, or tries again. A packet that the device refuses for what it
    /// is, is gone, and counted by the port as a `Tx…` [`PortDrop`].
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> Sent {
        if !self.link.wanted() {
            return Sent::default();
        }
        match &mut self.driver {
            TxDriver::Eth { queue, longest } => {
                if let Some(longest) = longest {
                    drop_longer(burst, *longest, &self.counters);
                }
                let bytes = complete_checksums(burst);
                let packets = queue.transmit(burst);
                let left: u64 = burst.iter().map(|mbuf| mbuf.wire_len() as u64).sum();
                Sent { packets, bytes: bytes - left }
            }
            TxDriver::Veth(veth) => veth.transmit(burst, &self.counters, &self.link),
            TxDriver::Memory(memory) => {
                complete_checksums(burst);
                memory.transmit(burst, &self.counters)
            }
        }
    }

    /// Whether the port is wanted up and had a link when that was last looked at. Costs two loads.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.link.wanted() && self.link.carrier.load(Ordering::Relaxed)
    }
}

/// Computes what a kernel left to a NIC, for all who do not take packets from kernels. The burst's bytes.
#[inline]
fn complete_checksums(burst: &mut Burst) -> u64 {
    let (mut bytes, mut incomplete) = (0, false);
    for mbuf in burst.iter() {
        bytes += mbuf.wire_len() as u64;
        incomplete |= mbuf.needs_checksum();
    }
    if incomplete {
        for mbuf in burst.iter_mut().filter(|mbuf| mbuf.needs_checksum()) {
            checksum::complete(mbuf.bytes_mut());
            mbuf.set_needs_checksum(false);
        }
    }
    bytes
}

fn drop_longer(burst: &mut Burst, longest: usize, counters: &QueueCounters) {
    burst.retain(|mbuf| {
        let fits = mbuf.wire_len() <= longest;
        if !fits {
            counters.drop(PortDrop::TxTooLong, 1);
        }
        fits
    });
}

/// Puts tags that a NIC took out back into the packets from `first` on.
fn restore_vlan(burst: &mut Burst, first: usize, counters: &QueueCounters) {
    let mut at = first;
    while at < burst.len() {
        let mbuf = &mut burst[at];
        match mbuf.take_stripped_vlan() {
            Some(tci) if !insert_vlan(mbuf, 0x8100, tci) => {
                counters.drop(PortDrop::RxError, 1);
                drop(burst.swap_remove(at));
            }
            _ => at += 1,
        }
    }
}

/// Puts a VLAN tag behind the addresses. False, and nothing changed, without the headroom or the addresses.
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
