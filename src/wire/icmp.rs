//! ICMP and ICMPv6, which share their header.

use super::error::need;
use super::field::{get32, put32};
use super::{Layer, WireError};

pub const LEN: usize = 8;

/// Types.
pub const ECHO_REPLY: u8 = 0;
pub const UNREACHABLE: u8 = 3;
pub const ECHO_REQUEST: u8 = 8;
pub const TIME_EXCEEDED: u8 = 11;
pub const V6_UNREACHABLE: u8 = 1;
pub const V6_TOO_BIG: u8 = 2;
pub const V6_TIME_EXCEEDED: u8 = 3;
pub const V6_ECHO_REQUEST: u8 = 128;
pub const V6_ECHO_REPLY: u8 = 129;

/// A header without its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub kind: u8,
    pub code: u8,
    /// The second word. The type gives its meaning: an echo's identifier and sequence number.
    pub word: u32,
}

impl Repr {
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        need(Layer::Icmp, LEN, bytes)?;
        Ok(Self { kind: bytes[0], code: bytes[1], word: get32(bytes, 4) })
    }

    /// Writes the header with a checksum of 0; [`super::checksum::complete`] fills it in.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Icmp, LEN, bytes)?;
        bytes[..4].copy_from_slice(&[self.kind, self.code, 0, 0]);
        put32(bytes, 4, self.word);
        Ok(())
    }
}
