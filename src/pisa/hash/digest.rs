//! Digests of five-tuples: the CRC-32 in zlib's form, which every switch has, for arrays whose cells
//! have no room for a whole key.
//!
//! A digest does not name a flow, and several flows may have one: of n flows about n² / 2³³ pairs do.
//! The polynomial is public, so flows can be made that share a digest.

use super::{Crc, INIT, Polynomial, XOROUT, bitwise};
use crate::wire::{Flow, FlowKey, Headers, KeyField, Net, Tuple4, Tuple6};

/// The digest of an IPv4 five-tuple, or with `V6` of an IPv6 one: the CRC of the key's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest<const V6: bool>(pub u32);

impl<const V6: bool> Digest<V6> {
    /// The number of the polynomial among those in print.
    pub const STANDARD: u32 = 0;
    /// That of zlib.
    pub const POLYNOMIAL: Polynomial = Polynomial::STANDARD[Self::STANDARD as usize];

    /// The digest of a packet, by a unit with [`Self::POLYNOMIAL`].
    #[inline(always)]
    pub fn by(unit: &Crc, headers: &Headers) -> Self {
        Self(if V6 { unit.hash_key(Tuple6::of(headers)) } else { unit.hash_key(Tuple4::of(headers)) })
    }
}

/// Digests of flows, for what reads them.
#[derive(Clone, Copy)]
pub struct FlowDigests(Crc);

impl Default for FlowDigests {
    fn default() -> Self {
        Self(Crc::new(Digest::<false>::POLYNOMIAL))
    }
}

impl FlowDigests {
    /// The digest of a five-tuple; `None` of a flow that lacks a field.
    pub fn of(&self, flow: &Flow) -> Option<u32> {
        let headers = Headers::of_flow(flow)?;
        match headers.net {
            Net::Ipv4 => Some(Digest::<false>::by(&self.0, &headers).0),
            Net::Ipv6 => Some(Digest::<true>::by(&self.0, &headers).0),
            Net::Other => None,
        }
    }
}

impl<const V6: bool> FlowKey for Digest<V6> {
    const BITS: u32 = u32::BITS;
    const NET: Net = if V6 { Net::Ipv6 } else { Net::Ipv4 };
    const FIELDS: &'static [KeyField] = &[KeyField::new("flow.digest", u32::BITS)];
    type Bytes = [u8; 4];

    /// By the definition; packets take a hash unit ([`Self::by`]).
    fn of(headers: &Headers) -> Self {
        let crc = |bytes: &[u8]| bitwise::crc(Self::POLYNOMIAL, INIT, XOROUT, bytes);
        Self(if V6 { crc(&Tuple6::of(headers).bytes()) } else { crc(&Tuple4::of(headers).bytes()) })
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    #[inline(always)]
    fn number(self) -> u128 {
        self.0.into()
    }

    #[inline(always)]
    fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }

    /// A five-tuple is always whole.
    fn mask(_: u8) -> Self {
        Self(u32::MAX)
    }

    /// No fields are known.
    fn flow(self) -> Flow {
        Flow::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A unit gives what the definition gives, and flows have the digests of their packets.
        #[test]
        fn digests_are_their_definition(src: u128, dst: u128, sport: u16, dport: u16, proto: u8) {
            let unit = Crc::new(Digest::<false>::POLYNOMIAL);
            let v4 = u128::from(u32::MAX);
            for (net, mask) in [(Net::Ipv4, v4), (Net::Ipv6, u128::MAX)] {
                let (src_ip, dst_ip) = (src & mask, dst & mask);
                let headers = Headers { net, src_ip, dst_ip, sport, dport, proto, ..Headers::default() };
                let [by, of] = match net {
                    Net::Ipv6 => [Digest::<true>::by(&unit, &headers).0, Digest::<true>::of(&headers).0],
                    _ => [Digest::<false>::by(&unit, &headers).0, Digest::<false>::of(&headers).0],
                };
                prop_assert_eq!(by, of);
                prop_assert_eq!(FlowDigests::default().of(&headers.flow().unwrap()), Some(of));
            }
        }
    }

    /// zlib's crc32 of the bytes 1 to 13.
    #[test]
    fn a_digest_is_zlibs() {
        let (src_ip, dst_ip) = (0x0102_0304, 0x0506_0708);
        let headers =
            Headers { net: Net::Ipv4, src_ip, dst_ip, sport: 0x090a, dport: 0x0b0c, proto: 0x0d, ..Headers::default() };
        assert_eq!(Digest::<false>::of(&headers), Digest(0xb720_698d));
    }
}
