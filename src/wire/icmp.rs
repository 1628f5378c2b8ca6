//! ICMP and ICMPv6, which share their header.

use super::error::need;
use super::field::{get16, get32, put16, put32};
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

/// A whole header and the message.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        need(Layer::Icmp, LEN, bytes.as_ref())?;
        Ok(Self(bytes))
    }

    pub fn kind(&self) -> u8 {
        self.0.as_ref()[0]
    }

    pub fn code(&self) -> u8 {
        self.0.as_ref()[1]
    }

    pub fn checksum(&self) -> u16 {
        get16(self.0.as_ref(), 2)
    }

    /// The second word, whose meaning the type gives: of an echo the identifier and the sequence
    /// number.
    pub fn word(&self) -> u32 {
        get32(self.0.as_ref(), 4)
    }

    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.0.as_mut(), 2, checksum);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub kind: u8,
    pub code: u8,
    /// As it stands on the wire; [`super::checksum::complete`] fills it in.
    pub checksum: u16,
    pub word: u32,
}

impl Repr {
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self { kind: view.kind(), code: view.code(), checksum: view.checksum(), word: view.word() }
    }

    pub fn header_len(&self) -> usize {
        LEN
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Icmp, LEN, bytes)?;
        bytes[0] = self.kind;
        bytes[1] = self.code;
        put16(bytes, 2, self.checksum);
        put32(bytes, 4, self.word);
        Ok(())
    }
}
