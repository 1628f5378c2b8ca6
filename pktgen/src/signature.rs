//! The 18 bytes at the start of a payload by which a frame is known again.
//!
//! ```text
//!  sequence 40b │ flow 24b │ tag 8b │ epoch 8b │ time 48b │ check 16b        (big endian)
//! ```
//!
//! The check makes the Internet checksum's sum of the nine words 0xffff, which is zero in its
//! arithmetic. So a signature leaves the checksum of the TCP or UDP segment around it as it was, and
//! a sender computes that once for a flow and a length. The tag keeps runs apart.

use weir::wire::{Headers, Net, parse, proto};

/// Bytes of a signature.
pub const LEN: usize = 18;

/// Flows that can be told apart.
pub const FLOWS: u32 = 1 << 24;
const SEQUENCES: u64 = 1 << 40;
const TIMES: u64 = 1 << 48;

/// One frame among all that a run sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Number of the flow, below [`FLOWS`].
    pub flow: u32,
    /// Number of the frame in its flow, below 2⁴⁰.
    pub sequence: u64,
    pub tag: u8,
    /// The low bits of the epoch in which it was sent.
    pub epoch: u8,
    /// Time of sending in nanoseconds since the run began, modulo 2⁴⁸ (78 hours).
    pub at_ns: u64,
}

impl Signature {
    #[inline(always)]
    pub fn write(&self, out: &mut [u8; LEN]) {
        let first = self.sequence << 24 | u64::from(self.flow & (FLOWS - 1));
        let second = u64::from(self.tag) << 56 | u64::from(self.epoch) << 48 | self.at_ns & (TIMES - 1);
        let (first, second) = (first.to_be_bytes(), second.to_be_bytes());
        out[..8].copy_from_slice(&first);
        out[8..16].copy_from_slice(&second);
        out[16..].copy_from_slice(&check(first, second));
    }

    /// The signature at the start of these bytes, if there is one of this tag.
    #[inline(always)]
    pub fn read(payload: &[u8], tag: u8) -> Option<Self> {
        let bytes = payload.first_chunk::<LEN>()?;
        let word = |at: usize| *bytes[at..].first_chunk::<8>().expect("18 bytes");
        let (first, second) = (word(0), word(8));
        if bytes[16..] != check(first, second) || second[0] != tag {
            return None;
        }
        let (first, second) = (u64::from_be_bytes(first), u64::from_be_bytes(second));
        Some(Self {
            flow: first as u32 & (FLOWS - 1),
            sequence: first >> 24 & (SEQUENCES - 1),
            tag,
            epoch: (second >> 48) as u8,
            at_ns: second & (TIMES - 1),
        })
    }
}

/// Nanoseconds from a signature's time to `now_ns` on the same clock.
#[inline]
pub fn age_ns(at_ns: u64, now_ns: u64) -> u64 {
    now_ns.wrapping_sub(at_ns) & (TIMES - 1)
}

/// The signature in a received frame, whatever tags or shim it got on its way.
pub fn find(frame: &[u8], tag: u8) -> Option<Signature> {
    if frame.first_chunk().is_some_and(is_plain) { find_plain(frame, tag) } else { find_any(frame, tag) }
}

/// The signature in a frame of UDP over IPv4 without tags, options or fragments, as most are; `None`
/// of all others.
#[inline(always)]
pub fn find_plain(frame: &[u8], tag: u8) -> Option<Signature> {
    let head = frame.first_chunk::<PLAIN>().filter(|head| is_plain(head))?;
    Signature::read(head.last_chunk::<LEN>().expect("longer"), tag)
}

/// Bytes of such a frame's headers with a signature.
const PLAIN: usize = 14 + 20 + 8 + LEN;

/// Whether [`find_any`] takes the signature of a frame that begins like this from its end.
#[inline(always)]
fn is_plain(head: &[u8; PLAIN]) -> bool {
    let word = |at: usize| u32::from_be_bytes(*head[at..].first_chunk::<4>().expect("60 bytes"));
    // EtherType, version and header length; fragments, and the protocol.
    (word(12) & 0xffff_ff00 == 0x0800_4500)
        & (word(20) & 0x3fff_00ff == u32::from(proto::UDP))
        & (u16::from_be_bytes([head[16], head[17]]) >= 28)
}

fn find_any(frame: &[u8], tag: u8) -> Option<Signature> {
    let mut headers = Headers::default();
    parse(frame, &mut headers).ok()?;
    if headers.net == Net::Other || headers.l4 == 0 {
        return None;
    }
    let segment = frame.get(usize::from(headers.l4)..)?;
    let header = match headers.proto {
        proto::UDP => 8,
        proto::TCP => usize::from(segment.get(12)? >> 4) * 4,
        _ => return None,
    };
    Signature::read(segment.get(header..)?, tag)
}

/// The Internet checksum of eight words. Its sum is the same in any byte order, in that order.
#[inline(always)]
fn check(first: [u8; 8], second: [u8; 8]) -> [u8; 2] {
    let (sum, carry) = u64::from_ne_bytes(first).overflowing_add(u64::from_ne_bytes(second));
    let sum = sum + u64::from(carry);
    let (sum, carry) = (sum as u32).overflowing_add((sum >> 32) as u32);
    let sum = sum + u32::from(carry);
    let (sum, carry) = (sum as u16).overflowing_add((sum >> 16) as u16);
    (!(sum + u16::from(carry))).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn goes_round(flow in 0..FLOWS, sequence in 0..SEQUENCES, tag: u8, epoch: u8, at_ns in 0..TIMES) {
            let signature = Signature { flow, sequence, tag, epoch, at_ns };
            let mut bytes = [0xaa; LEN];
            signature.write(&mut bytes);
            prop_assert_eq!(Signature::read(&bytes, tag), Some(signature));
            prop_assert_eq!(Signature::read(&bytes, tag.wrapping_add(1)), None);
            prop_assert_eq!(Signature::read(&bytes[..17], tag), None);
        }

        /// The checksum of a segment is the same with a signature as with zeros in its place.
        #[test]
        fn weighs_nothing(flow in 0..FLOWS, sequence in 0..SEQUENCES, tag: u8, epoch: u8, at_ns in 0..TIMES) {
            let mut bytes = [0; LEN];
            Signature { flow, sequence, tag, epoch, at_ns }.write(&mut bytes);
            let mut sum: u32 = bytes.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            while sum > 0xffff {
                sum = (sum >> 16) + (sum & 0xffff);
            }
            prop_assert_eq!(sum, 0xffff);
        }

        #[test]
        fn a_damaged_bit_is_noticed(flow in 0..FLOWS, sequence in 0..SEQUENCES, bit in 0..LEN * 8) {
            let mut bytes = [0; LEN];
            Signature { flow, sequence, tag: 7, epoch: 1, at_ns: 12345 }.write(&mut bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Signature::read(&bytes, 7), None);
        }

        #[test]
        fn hostile_frames_are_read(frame in proptest::collection::vec(any::<u8>(), 0..200), tag: u8) {
            prop_assert_eq!(find(&frame, tag), find_any(&frame, tag));
            prop_assert!(find_plain(&frame, tag).is_none() || find_plain(&frame, tag) == find_any(&frame, tag));
        }

        /// A frame that is not parsed gives what the parser gives, whatever bytes are others.
        #[test]
        fn plain_frames_are_not_parsed(
            length in 28u16..200, tag: u8, sequence in 0..SEQUENCES,
            damage in proptest::collection::vec((12..42usize, any::<u8>()), 0..3),
        ) {
            let mut frame = vec![0; 14 + usize::from(length.max(46))];
            frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
            frame[16..18].copy_from_slice(&length.to_be_bytes());
            frame[22..24].copy_from_slice(&[64, proto::UDP]);
            frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
            let signature = Signature { flow: 5, sequence, tag, epoch: 1, at_ns: 77 };
            signature.write(frame[42..].first_chunk_mut().unwrap());
            prop_assert_eq!(find_any(&frame, tag), Some(signature));
            prop_assert_eq!(find_plain(&frame, tag), Some(signature));
            for (at, byte) in damage {
                frame[at] = byte;
            }
            prop_assert_eq!(find(&frame, tag), find_any(&frame, tag));
        }
    }

    #[test]
    fn time_wraps() {
        assert_eq!(age_ns(TIMES - 5, TIMES + 7), 12);
    }
}
