//! IPv6 and its extension headers.

use std::net::Ipv6Addr;

use super::error::{check, need};
use super::field::{array, get16, get32, put, put16, put32};
use super::{Fragment, Layer, WireError, proto};

pub const LEN: usize = 40;

/// A whole header and what there is of the packet behind it.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Ipv6, LEN, b)?;
        check(Layer::Ipv6, "the version", b[0] >> 4, b[0] >> 4 == 6)?;
        Ok(Self(bytes))
    }

    pub fn traffic_class(&self) -> u8 {
        (get16(self.0.as_ref(), 0) >> 4) as u8
    }

    pub fn flow_label(&self) -> u32 {
        get32(self.0.as_ref(), 0) & 0x000f_ffff
    }

    pub fn payload_len(&self) -> usize {
        get16(self.0.as_ref(), 4).into()
    }

    /// What follows this header: an extension header or the transport.
    pub fn next_header(&self) -> u8 {
        self.0.as_ref()[6]
    }

    pub fn hop_limit(&self) -> u8 {
        self.0.as_ref()[7]
    }

    pub fn src(&self) -> Ipv6Addr {
        array::<16>(self.0.as_ref(), 8).into()
    }

    pub fn dst(&self) -> Ipv6Addr {
        array::<16>(self.0.as_ref(), 24).into()
    }

    /// What the packet carries, without padding; less than it says where the buffer holds less.
    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        &b[LEN..(LEN + self.payload_len()).min(b.len())]
    }

    pub fn extensions(&self) -> Extensions<'_> {
        Extensions { next_header: self.next_header(), rest: self.payload(), ended: false }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_traffic_class(&mut self, class: u8) {
        let word = get16(self.0.as_ref(), 0) & 0xf00f | u16::from(class) << 4;
        put16(self.0.as_mut(), 0, word);
    }

    pub fn set_hop_limit(&mut self, limit: u8) {
        self.0.as_mut()[7] = limit;
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its number, one of those that [`proto::is_extension`] knows.
    pub kind: u8,
    pub bytes: &'a [u8],
}

impl Extension<'_> {
    /// What a fragment header says: the offset in units of eight bytes, and whether more fragments
    /// follow.
    pub fn fragment(&self) -> Option<(u16, bool)> {
        let field = get16(self.bytes, 2);
        (self.kind == proto::FRAGMENT).then_some((field >> 3, field & 1 != 0))
    }
}

/// The extension headers in order, as many as are whole. Behind the last of them stands
/// `next_header` in `rest`.
#[derive(Clone, Copy, Debug)]
pub struct Extensions<'a> {
    pub next_header: u8,
    pub rest: &'a [u8],
    /// Behind a fragment header that is not the first fragment's stand bytes from the middle of the
    /// packet.
    ended: bool,
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let kind = self.next_header;
        if self.ended || !proto::is_extension(kind) {
            return None;
        }
        let len = proto::extension_len(kind, *self.rest.get(1)?);
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        let extension = Extension { kind, bytes };
        let fragment = extension.fragment().map(|(offset, more)| Fragment::new(offset, more));
        *self = Self { next_header: bytes[0], rest, ended: fragment == Some(Fragment::Later) };
        Some(extension)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Bytes behind this header, extension headers included.
    pub payload_len: usize,
    pub next_header: u8,
    pub hop_limit: u8,
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
}

impl Repr {
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: usize) -> Self {
        Self { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, src, dst }
    }

    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self {
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            src: view.src(),
            dst: view.dst(),
        }
    }

    pub fn header_len(&self) -> usize {
        LEN
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Ipv6, LEN, bytes)?;
        check(Layer::Ipv6, "the payload length", self.payload_len, self.payload_len <= 0xffff)?;
        check(Layer::Ipv6, "the flow label", self.flow_label as usize, self.flow_label < 1 << 20)?;
        put32(bytes, 0, 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label);
        put16(bytes, 4, self.payload_len as u16);
        bytes[6] = self.next_header;
        bytes[7] = self.hop_limit;
        put(bytes, 8, &self.src.octets());
        put(bytes, 24, &self.dst.octets());
        Ok(())
    }
}
