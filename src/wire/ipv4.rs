//! IPv4.

use std::net::Ipv4Addr;

use arrayvec::ArrayVec;

use super::error::{check, need};
use super::field::{array, get16, put, put16};
use super::{Fragment, Layer, WireError, checksum};

/// Bytes of a header without options.
pub const LEN: usize = 20;

/// A whole header, options included, and what there is of the packet behind it.
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

    pub fn tos(&self) -> u8 {
        self.0.as_ref()[1]
    }

    pub fn total_len(&self) -> usize {
        get16(self.0.as_ref(), 2).into()
    }

    pub fn ident(&self) -> u16 {
        get16(self.0.as_ref(), 4)
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

    pub fn fragment(&self) -> Fragment {
        Fragment::new(self.fragment_offset(), self.more_fragments())
    }

    pub fn ttl(&self) -> u8 {
        self.0.as_ref()[8]
    }

    pub fn proto(&self) -> u8 {
        self.0.as_ref()[9]
    }

    pub fn checksum(&self) -> u16 {
        get16(self.0.as_ref(), 10)
    }

    pub fn checksum_is_valid(&self) -> bool {
        checksum::internet(&self.0.as_ref()[..self.header_len()]) == 0
    }

    pub fn src(&self) -> Ipv4Addr {
        array(self.0.as_ref(), 12).into()
    }

    pub fn dst(&self) -> Ipv4Addr {
        array(self.0.as_ref(), 16).into()
    }

    /// The header without options.
    pub fn fixed(&self) -> &[u8] {
        &self.0.as_ref()[..LEN]
    }

    pub fn options(&self) -> &[u8] {
        &self.0.as_ref()[LEN..self.header_len()]
    }

    /// What the packet carries, without padding; less than it says where the buffer holds less.
    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        &b[self.header_len()..self.total_len().min(b.len())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_tos(&mut self, tos: u8) {
        self.0.as_mut()[1] = tos;
    }

    pub fn set_ttl(&mut self, ttl: u8) {
        self.0.as_mut()[8] = ttl;
    }

    pub fn set_src(&mut self, src: Ipv4Addr) {
        put(self.0.as_mut(), 12, &src.octets());
    }

    pub fn set_dst(&mut self, dst: Ipv4Addr) {
        put(self.0.as_mut(), 16, &dst.octets());
    }

    pub fn fill_checksum(&mut self) {
        let header = self.header_len();
        let b = self.0.as_mut();
        put16(b, 10, 0);
        let sum = checksum::internet(&b[..header]);
        put16(b, 10, sum);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    pub tos: u8,
    pub ident: u16,
    pub dont_fragment: bool,
    pub more_fragments: bool,
    /// In units of eight bytes.
    pub fragment_offset: u16,
    pub ttl: u8,
    pub proto: u8,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    /// Filled with zeros to a multiple of four bytes when emitted.
    pub options: ArrayVec<u8, 40>,
    /// Bytes behind the header.
    pub payload_len: usize,
}

impl Repr {
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, proto: u8, payload_len: usize) -> Self {
        Self {
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            proto,
            src,
            dst,
            options: ArrayVec::new(),
            payload_len,
        }
    }

    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self {
            tos: view.tos(),
            ident: view.ident(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            proto: view.proto(),
            src: view.src(),
            dst: view.dst(),
            options: view.options().iter().copied().collect(),
            payload_len: view.total_len() - view.header_len(),
        }
    }

    pub fn header_len(&self) -> usize {
        LEN + self.options.len().next_multiple_of(4)
    }

    /// Writes the header with its checksum.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        let header = self.header_len();
        let total = header + self.payload_len;
        need(Layer::Ipv4, header, bytes)?;
        check(Layer::Ipv4, "the total length", total, total <= 0xffff)?;
        check(Layer::Ipv4, "the fragment offset", self.fragment_offset, self.fragment_offset < 0x2000)?;
        bytes[0] = 0x40 | (header / 4) as u8;
        bytes[1] = self.tos;
        put16(bytes, 2, total as u16);
        put16(bytes, 4, self.ident);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        put16(bytes, 6, flags | self.fragment_offset);
        bytes[8] = self.ttl;
        bytes[9] = self.proto;
        put(bytes, 12, &self.src.octets());
        put(bytes, 16, &self.dst.octets());
        bytes[LEN..header].fill(0);
        put(bytes, LEN, &self.options);
        View(bytes).fill_checksum();
        Ok(())
    }
}
