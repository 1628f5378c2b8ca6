//! IPv6.

use std::net::Ipv6Addr;

use super::error::{check, need};
use super::field::{array, get16, put, put16, put32};
use super::{Layer, WireError};

pub const LEN: usize = 40;

/// A whole header, and the present part of its payload.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Ipv6, LEN, b)?;
        check(Layer::Ipv6, "the version", b[0] >> 4, b[0] >> 4 == 6)?;
        Ok(Self(bytes))
    }

    pub fn payload_len(&self) -> usize {
        get16(self.0.as_ref(), 4).into()
    }

    pub fn src(&self) -> Ipv6Addr {
        array::<16>(self.0.as_ref(), 8).into()
    }
}

/// A header with flow label 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub traffic_class: u8,
    /// Bytes behind this header, extension headers included.
    pub payload_len: usize,
    pub next_header: u8,
    pub hop_limit: u8,
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
}

impl Repr {
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Ipv6, LEN, bytes)?;
        check(Layer::Ipv6, "the payload length", self.payload_len, self.payload_len <= 0xffff)?;
        put32(bytes, 0, 6 << 28 | u32::from(self.traffic_class) << 20);
        put16(bytes, 4, self.payload_len as u16);
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        put(bytes, 8, &self.src.octets());
        put(bytes, 24, &self.dst.octets());
        Ok(())
    }
}
