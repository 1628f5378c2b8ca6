//! TCP.

use arrayvec::ArrayVec;

use super::error::{check, need};
use super::field::{get16, get32, put, put16, put32};
use super::{Layer, WireError};

/// Bytes of a header without options.
pub const LEN: usize = 20;

/// Flags.
pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;

/// A whole header, options included, and the payload.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Tcp, LEN, b)?;
        let header = usize::from(b[12] >> 4) * 4;
        check(Layer::Tcp, "the data offset", header, header >= LEN)?;
        need(Layer::Tcp, header, b)?;
        Ok(Self(bytes))
    }

    pub fn sport(&self) -> u16 {
        get16(self.0.as_ref(), 0)
    }

    pub fn dport(&self) -> u16 {
        get16(self.0.as_ref(), 2)
    }

    pub fn seq(&self) -> u32 {
        get32(self.0.as_ref(), 4)
    }

    pub fn ack(&self) -> u32 {
        get32(self.0.as_ref(), 8)
    }

    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[12] >> 4) * 4
    }

    pub fn flags(&self) -> u8 {
        self.0.as_ref()[13]
    }

    pub fn window(&self) -> u16 {
        get16(self.0.as_ref(), 14)
    }

    pub fn checksum(&self) -> u16 {
        get16(self.0.as_ref(), 16)
    }

    pub fn urgent(&self) -> u16 {
        get16(self.0.as_ref(), 18)
    }

    pub fn options(&self) -> &[u8] {
        &self.0.as_ref()[LEN..self.header_len()]
    }

    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_seq(&mut self, seq: u32) {
        put32(self.0.as_mut(), 4, seq);
    }

    pub fn set_ack(&mut self, ack: u32) {
        put32(self.0.as_mut(), 8, ack);
    }

    pub fn set_flags(&mut self, flags: u8) {
        self.0.as_mut()[13] = flags;
    }

    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.0.as_mut(), 16, checksum);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub sport: u16,
    pub dport: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// As it stands on the wire; [`super::checksum::complete`] fills it in.
    pub checksum: u16,
    pub urgent: u16,
    /// Filled with zeros to a multiple of four bytes when emitted.
    pub options: ArrayVec<u8, 40>,
}

impl Repr {
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self {
            sport: view.sport(),
            dport: view.dport(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            checksum: view.checksum(),
            urgent: view.urgent(),
            options: view.options().iter().copied().collect(),
        }
    }

    pub fn header_len(&self) -> usize {
        LEN + self.options.len().next_multiple_of(4)
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        let header = self.header_len();
        need(Layer::Tcp, header, bytes)?;
        put16(bytes, 0, self.sport);
        put16(bytes, 2, self.dport);
        put32(bytes, 4, self.seq);
        put32(bytes, 8, self.ack);
        bytes[12] = (header / 4) as u8 * 16;
        bytes[13] = self.flags;
        put16(bytes, 14, self.window);
        put16(bytes, 16, self.checksum);
        put16(bytes, 18, self.urgent);
        bytes[LEN..header].fill(0);
        put(bytes, LEN, &self.options);
        Ok(())
    }
}
