//! Packets for a switch of a network, each with the port that it comes in by, its time, and how long the
//! switch holds it: of hosts and of other switches, whole and malformed. The same for the same workload.

use super::{Frames, SplitMix64, Workload};
use crate::wire::ethertype;
use crate::wire::shim::{self, Shim};

/// A packet as a switch receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arriving {
    pub port: u16,
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// How long the switch holds it, in nanoseconds.
    pub held_ns: u32,
    pub frame: Vec<u8>,
}

/// Ports of the switch, which has three pairs of them: 0 to a host and 1 to the fabric, 2 and 3 to the fabric,
/// 4 and 5 to hosts. Of 16 packets, how many come in by each, and whether they have a shim.
const PORTS: [(u16, u64, bool); 4] = [(0, 7, false), (1, 3, true), (2, 4, true), (4, 2, false)];

const MACS: usize = 12;

/// Packets of a workload on all ways through a switch.
#[derive(Clone, Debug)]
pub struct Passage {
    pub workload: Workload,
    /// Length of an epoch, as a power of two of nanoseconds.
    pub epoch_shift: u32,
    /// The packets are spread evenly over `epochs` epochs from this one on.
    pub first_epoch: u64,
    pub epochs: u64,
    /// One of this many packets is malformed or unusual; 0: none is.
    pub odd: u64,
}

impl Passage {
    /// Each packet in turn.
    ///
    /// # Errors
    /// The first error of `each`.
    pub fn for_each<E>(&self, mut each: impl FnMut(Arriving) -> Result<(), E>) -> Result<(), E> {
        let mut random = SplitMix64::new(self.workload.seed);
        let length = self.epochs << self.epoch_shift;
        let (start, packets) = (self.first_epoch << self.epoch_shift, self.workload.packets.max(1));
        let mut number = 0;
        self.workload.clone().generate().for_each_frame(&Frames::default(), |_, frame| {
            let at_ns = start + (u128::from(length) * number / u128::from(packets)) as u64;
            number += 1;
            let mut frame = frame.to_vec();
            if self.odd > 0 && random.below(self.odd) == 0 {
                change(&mut frame, &mut random);
            }
            let (port, has_shim) = port(&mut random);
            if has_shim && frame.len() >= MACS {
                // Some of the packets at the start of an epoch entered the network in the one before.
                let entered = at_ns.saturating_sub(1 << (self.epoch_shift - 6));
                put_shim(&mut frame, entered >> self.epoch_shift, &mut random);
            }
            // Up to 2³⁰ ns, and as many short ones as long ones.
            let held_ns = (random.next_u64() as u32 >> 2) >> random.below(24);
            each(Arriving { port, at_ns, held_ns, frame })
        })
    }
}

fn port(random: &mut SplitMix64) -> (u16, bool) {
    let mut left = random.below(16);
    for (port, share, has_shim) in PORTS {
        if left < share {
            return (port, has_shim);
        }
        left -= share;
    }
    (0, false)
}

/// Puts a shim on, of a packet on its way through the fabric.
fn put_shim(frame: &mut Vec<u8>, epoch: u64, random: &mut SplitMix64) {
    let hop = 1 + (random.below(6)) as u8;
    let class = (random.below(3)) as u8;
    let shim = Shim::new(hop, 0, shim::epoch_of(epoch), class).with_digest(random.next_u64() as u16);
    let mut bytes = [0; shim::LEN];
    if shim.emit(&mut bytes).is_ok() {
        frame.splice(MACS..MACS, bytes);
    }
}

/// Makes the frame an unusual or malformed one.
fn change(frame: &mut Vec<u8>, random: &mut SplitMix64) {
    let tag = |tpid: u16, random: &mut SplitMix64| {
        let [a, b] = tpid.to_be_bytes();
        let [c, d] = (random.next_u64() as u16).to_be_bytes();
        [a, b, c, d]
    };
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    match random.below(16) {
        // One to five tags.
        0 | 1 => {
            for _ in 0..=random.below(5) {
                let tpid = [ethertype::VLAN, ethertype::QINQ, ethertype::QINQ_OLD][(random.below(3)) as usize];
                frame.splice(MACS..MACS, tag(tpid, random));
            }
        }
        // Cut short anywhere.
        2 | 3 => frame.truncate((random.next_u64() % frame.len() as u64) as usize),
        // A byte of the IP header is another one.
        4 | 5 => {
            let at = 14 + (random.below(28)) as usize;
            if let Some(byte) = frame.get_mut(at) {
                *byte = random.next_u64() as u8;
            }
        }
        // IPv4 options, some of which lead out of the frame.
        6 if is_ipv4 => {
            let words = (random.below(11)) as usize;
            frame[14] = 0x40 | (5 + words) as u8;
            frame.splice(34..34, std::iter::repeat_n(1, 4 * words));
            let total = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&total.to_be_bytes());
        }
        // Fragments.
        7 | 8 if is_ipv4 => {
            let field = [0x2000, 0x2010, 0x0010][(random.below(3)) as usize] | (random.below(2)) as u16;
            frame[20..22].copy_from_slice(&u16::to_be_bytes(field));
        }
        // Extension headers.
        7..=10 if !is_ipv4 && frame.len() > 54 => {
            for _ in 0..=random.below(10) {
                let kind = [0, 43, 44, 51, 60, 135, 139, 140][(random.below(8)) as usize];
                let (words, next) = (random.below(3), frame[20]);
                let length = if kind == 51 { 8 + 4 * words } else { 8 + 8 * words } as usize;
                let mut header = vec![0; if kind == 44 { 8 } else { length }];
                (header[0], header[1]) = (if random.below(8) == 0 { 59 } else { next }, words as u8);
                if kind == 44 {
                    header[1] = 0;
                    header[3] = (random.below(4)) as u8;
                    header[2] = (random.below(4) / 3) as u8;
                }
                frame.splice(54..54, header);
                frame[20] = kind;
            }
            let length = (frame.len() - 54) as u16;
            frame[18..20].copy_from_slice(&length.to_be_bytes());
        }
        // ICMP, and protocols with and without ports.
        11 => {
            let at = if is_ipv4 { 23 } else { 20 };
            frame[at] = [1, 33, 47, 50, 58, 113, 132, 136][(random.below(8)) as usize];
        }
        // A length field of zero, and one that is too small or too large.
        12 => {
            let at = if is_ipv4 { 16 } else { 18 };
            let length = [0, 12, 20, 23, 24, 28, 9000][(random.below(7)) as usize];
            frame[at..at + 2].copy_from_slice(&u16::to_be_bytes(length));
        }
        // No IP.
        13 => frame[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes()),
        // A PPPoE session.
        14 => {
            let inner: u16 = if is_ipv4 { 0x21 } else { 0x57 };
            let [a, b] = ethertype::PPPOE_SESSION.to_be_bytes();
            let [c, d] = inner.to_be_bytes();
            frame.splice(12..14, [a, b, 0x11, (random.below(2)) as u8, 0, 7, 0, 0, c, d]);
        }
        // A shim, which a host may not send, some of a version that nobody has.
        _ => {
            put_shim(frame, 0, random);
            frame[15] = random.next_u64() as u8;
        }
    }
}
