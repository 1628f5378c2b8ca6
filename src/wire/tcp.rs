//! TCP.

use super::error::{check, need};
use super::field::get32;
use super::{Layer, WireError};

/// Bytes of a header without options.
pub const LEN: usize = 20;

/// Flags.
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// The fields of a header that summaries show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub seq: u32,
    pub flags: u8,
}

impl Repr {
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        need(Layer::Tcp, LEN, bytes)?;
        let header = usize::from(bytes[12] >> 4) * 4;
        check(Layer::Tcp, "the data offset", header, header >= LEN)?;
        Ok(Self { seq: get32(bytes, 4), flags: bytes[13] })
    }
}
