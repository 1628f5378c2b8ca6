//! Neighbour discovery for IPv6 over Ethernet (RFC 4861): solicitations and advertisements, which
//! share their form.

use std::net::Ipv6Addr;

use super::error::{check, need};
use super::field::{array, get32, put, put32};
use super::{Layer, Mac, WireError, icmp};

pub const SOLICITATION: u8 = 135;
pub const ADVERTISEMENT: u8 = 136;

/// Flags of an advertisement.
pub const ROUTER: u32 = 1 << 31;
pub const SOLICITED: u32 = 1 << 30;
pub const OVERRIDE: u32 = 1 << 29;

/// Bytes of a message without options, and with a link-layer address.
const BARE: usize = icmp::LEN + 16;
pub const LEN: usize = BARE + 8;

/// A message from its ICMPv6 header on. Only the link-layer address of its options is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// [`SOLICITATION`] or [`ADVERTISEMENT`].
    pub kind: u8,
    pub flags: u32,
    pub target: Ipv6Addr,
    /// The sender's in a solicitation, the target's in an advertisement.
    pub link_layer: Option<Mac>,
}

impl Repr {
    /// The message in `bytes`, which end where the IP packet ends. Its checksum is the caller's to
    /// look at.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        need(Layer::Icmp, BARE, bytes)?;
        let (kind, code) = (bytes[0], bytes[1]);
        check(Layer::Icmp, "the type", kind, matches!(kind, SOLICITATION | ADVERTISEMENT))?;
        check(Layer::Icmp, "the code", code, code == 0)?;
        let target = Ipv6Addr::from(array::<16>(bytes, icmp::LEN));
        check(Layer::Icmp, "the target's first byte", target.octets()[0], !target.is_multicast())?;
        let wanted = if kind == SOLICITATION { 1 } else { 2 };
        let mut link_layer = None;
        let mut rest = &bytes[BARE..];
        while let [option, units, ..] = *rest {
            let len = usize::from(units) * 8;
            check(Layer::Icmp, "an option's length", units, len > 0)?;
            need(Layer::Icmp, len, rest)?;
            if option == wanted && len == 8 {
                link_layer = Some(Mac(array(rest, 2)));
            }
            rest = &rest[len..];
        }
        Ok(Self { kind, flags: get32(bytes, 4), target, link_layer })
    }

    pub fn header_len(&self) -> usize {
        if self.link_layer.is_some() { LEN } else { BARE }
    }

    /// Writes the message with a checksum of 0; [`super::checksum::complete`] fills it in.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Icmp, self.header_len(), bytes)?;
        put32(bytes, 0, u32::from(self.kind) << 24);
        put32(bytes, 4, self.flags);
        put(bytes, icmp::LEN, &self.target.octets());
        if let Some(mac) = self.link_layer {
            bytes[BARE] = if self.kind == SOLICITATION { 1 } else { 2 };
            bytes[BARE + 1] = 1;
            put(bytes, BARE + 2, &mac.0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_round() {
        for (kind, link_layer) in [(SOLICITATION, None), (ADVERTISEMENT, Some(Mac([2, 0, 0, 0, 0, 9])))] {
            let repr = Repr { kind, flags: SOLICITED, target: "fd00::7".parse().unwrap(), link_layer };
            let mut bytes = vec![0xff; repr.header_len()];
            repr.emit(&mut bytes).unwrap();
            assert_eq!(Repr::parse(&bytes), Ok(repr));
            assert!(Repr::parse(&bytes[..BARE - 1]).is_err());
        }
    }

    #[test]
    fn options_without_length_are_refused() {
        let repr = Repr { kind: SOLICITATION, flags: 0, target: "fd00::7".parse().unwrap(), link_layer: None };
        let mut bytes = [0; BARE + 8];
        repr.emit(&mut bytes).unwrap();
        assert!(Repr::parse(&bytes).is_err());
        bytes[BARE + 1] = 2;
        assert!(Repr::parse(&bytes).is_err(), "longer than the message");
    }
}
