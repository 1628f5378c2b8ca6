//! IPv4.

use std::net::Ipv4Addr;

use super::error::{check, need};
use super::field::{array, get16, put, put16};
use super::{Layer, WireError, checksum};

/// Bytes of a header without options.
pub const LEN: usize = 20;

/// A whole header with its options, and the present part of its payload.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Ipv4, LEN, b)?;
        check(Layer::Ipv4, "the version", b[0] >> 4, b[0] >> 4 == 4)?;
        let header = usize::from(b[0] & 0x0f) * 4;
        check(Layer::Ipv4, "the header length", header, header >= LEN)?;
        check(Layer::Ipv4, "the total length", get16(b, 2), usize::from(get16(b, 2)) >= header)?;
        need(Layer::Ipv4, header, b)?;
        Ok(Self(bytes))
    }

    pub fn header_len(&self) -> usize {
        usize::from(self.0.as_ref()[0] & 0x0f) * 4
    }

    pub fn total_len(&self) -> usize {
        get16(self.0.as_ref(), 2).into()
    }

    pub fn dont_fragment(&self) -> bool {
        get16(self.0.as_ref(), 6) & 0x4000 != 0
    }

    pub fn more_fragments(&self) -> bool {
        get16(self.0.as_ref(), 6) & 0x2000 != 0
    }

    /// In units of eight bytes.
    pub fn fragment_offset(&self) -> u16 {
        get16(self.0.as_ref(), 6) & 0x1fff
    }

    pub fn checksum_is_valid(&self) -> bool {
        checksum::internet(&self.0.as_ref()[..self.header_len()]) == 0
    }

    pub fn src(&self) -> Ipv4Addr {
        array(self.0.as_ref(), 12).into()
    }

    /// The header without options.
    pub fn fixed(&self) -> &[u8] {
        &self.0.as_ref()[..LEN]
    }

    pub fn options(&self) -> &[u8] {
        &self.0.as_ref()[LEN..self.header_len()]
    }

    /// The payload without padding, as far as the buffer holds it.
    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        &b[self.header_len()..self.total_len().min(b.len())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_ttl(&mut self, ttl: u8) {
        self.0.as_mut()[8] = ttl;
    }

    pub fn fill_checksum(&mut self) {
        let header = self.header_len();
        let b = self.0.as_mut();
        put16(b, 10, 0);
        let sum = checksum::internet(&b[..header]);
        put16(b, 10, sum);
    }
}

/// A header without options, of a whole packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    pub tos: u8,
    pub proto: u8,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    /// Writes the header with its checksum, DF and a TTL of 64.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        let total = LEN + self.payload_len;
        need(Layer::Ipv4, LEN, bytes)?;
        check(Layer::Ipv4, "the total length", total, total <= 0xffff)?;
        bytes[0] = 0x45;
        bytes[1] = self.tos;
        put16(bytes, 2, total as u16);
        put16(bytes, 4, 0);
        put16(bytes, 6, 0x4000);
        bytes[8] = 64;
        bytes[9] = self.proto;
        put(bytes, 12, &self.src.octets());
        put(bytes, 16, &self.dst.octets());
        View(bytes).fill_checksum();
        Ok(())
    }
}
