//! A packet's class and epoch bit in its own IP header, in place of the shim, as ChameleMon's
//! prototype carries them (appendix D.1): the low three bits of the DSCP, in the type of service of
//! IPv4 and the traffic class of IPv6.
//!
//! ```text
//! class selector 3b │ class 2b, epoch 1b │ ECN 2b
//! ```
//!
//! The class selectors (RFC 2474, 4.2.2) have zeros there, so a packet keeps its own. ECN is never
//! touched.

use super::checksum;

/// The bits that are taken.
pub const MASK: u8 = 0x1c;

/// The bits for the low two bits of a class, and an epoch bit. Class 0 gives zeros.
#[inline(always)]
pub fn bits(class: u8, epoch: bool) -> u8 {
    match class & 3 {
        0 => 0,
        class => class << 3 | u8::from(epoch) << 2,
    }
}

/// The class and the epoch bit.
#[inline(always)]
pub fn read(tos: u8) -> (u8, bool) {
    (tos >> 3 & 3, tos & 4 != 0)
}

/// Whether [`write()`] finds an IP header at the start of `packet`.
#[inline(always)]
pub fn fits(packet: &[u8]) -> bool {
    packet.len() >= 20 && matches!(packet[0] >> 4, 4 | 6)
}

/// Writes these bits into the header at the start of `packet`, and updates an IPv4 checksum by what
/// changed, so that a wrong one stays wrong. Gives the bits that stood there; `None`, and nothing
/// changed, when there is no IP header.
#[inline(always)]
pub fn write(packet: &mut [u8], bits: u8) -> Option<u8> {
    let header = packet.first_chunk_mut::<20>()?;
    let word = u16::from_be_bytes([header[0], header[1]]);
    let v4 = match header[0] >> 4 {
        4 => true,
        6 => false,
        _ => return None,
    };
    // The traffic class stands four bits further to the left.
    let place = if v4 { 0 } else { 4 };
    let mask = u16::from(MASK) << place;
    let new = word & !mask | u16::from(bits & MASK) << place;
    if new != word {
        header[..2].copy_from_slice(&new.to_be_bytes());
        if v4 {
            let sum = checksum::update(u16::from_be_bytes([header[10], header[11]]), word, new);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
    Some((word >> place) as u8 & MASK)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::ipv4;

    proptest! {
        #[test]
        fn what_is_written_is_read(class in 1..4u8, epoch: bool, others: u8) {
            prop_assert_eq!(read(bits(class, epoch) | others & !MASK), (class, epoch));
        }

        /// Only three bits and the IPv4 checksum change, a right checksum stays right, and zeros
        /// restore the packet.
        #[test]
        fn three_bits_change_and_no_more(
            v6: bool,
            mut packet in prop::collection::vec(any::<u8>(), 20..60),
            new: u8,
        ) {
            packet[0] = if v6 { 0x60 | packet[0] & 0x0f } else { 0x45 };
            if !v6 {
                packet[2..4].copy_from_slice(&[0, 20]);
                packet[10..12].fill(0);
                let sum = checksum::internet(&packet[..20]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            let place = if v6 { 4 } else { 0 };
            let word = |packet: &[u8]| u16::from_be_bytes([packet[0], packet[1]]);
            let tos = |packet: &[u8]| (word(packet) >> place) as u8;
            let before = packet.clone();
            prop_assert_eq!(write(&mut packet, new), Some(tos(&before) & MASK));
            prop_assert_eq!(tos(&packet), tos(&before) & !MASK | new & MASK);
            if !v6 {
                prop_assert!(ipv4::View::new(&packet[..]).unwrap().checksum_is_valid());
            }
            let rest = |packet: &[u8]| {
                let mut rest = packet.to_vec();
                rest[..2].copy_from_slice(&(word(packet) & !(u16::from(MASK) << place)).to_be_bytes());
                if !v6 {
                    rest[10..12].fill(0);
                }
                rest
            };
            prop_assert_eq!(rest(&packet), rest(&before));
            prop_assert_eq!(write(&mut packet, tos(&before)), Some(new & MASK));
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn what_is_no_ip_header_stays(mut packet in prop::collection::vec(any::<u8>(), 0..40), new: u8) {
            let before = packet.clone();
            let known = packet.len() >= 20 && matches!(packet[0] >> 4, 4 | 6);
            prop_assert_eq!(fits(&packet), known);
            prop_assert_eq!(write(&mut packet, new).is_some(), known);
            prop_assert!(known || packet == before);
        }
    }
}
