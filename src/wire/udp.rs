//! UDP.

use super::error::{check, need};
use super::field::{get16, put16};
use super::{Layer, WireError};

pub const LEN: usize = 8;

/// A whole header and what there is of the payload.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Udp, LEN, b)?;
        check(Layer::Udp, "the length", get16(b, 4), usize::from(get16(b, 4)) >= LEN)?;
        Ok(Self(bytes))
    }

    pub fn sport(&self) -> u16 {
        get16(self.0.as_ref(), 0)
    }

    pub fn dport(&self) -> u16 {
        get16(self.0.as_ref(), 2)
    }

    /// Of header and payload.
    pub fn length(&self) -> usize {
        get16(self.0.as_ref(), 4).into()
    }

    pub fn checksum(&self) -> u16 {
        get16(self.0.as_ref(), 6)
    }

    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        &b[LEN..self.length().min(b.len())]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.0.as_mut(), 6, checksum);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub sport: u16,
    pub dport: u16,
    pub payload_len: usize,
    /// As it stands on the wire; [`super::checksum::complete`] fills it in.
    pub checksum: u16,
}

impl Repr {
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self { sport: view.sport(), dport: view.dport(), payload_len: view.length() - LEN, checksum: view.checksum() }
    }

    pub fn header_len(&self) -> usize {
        LEN
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        let length = LEN + self.payload_len;
        need(Layer::Udp, LEN, bytes)?;
        check(Layer::Udp, "the length", length, length <= 0xffff)?;
        put16(bytes, 0, self.sport);
        put16(bytes, 2, self.dport);
        put16(bytes, 4, length as u16);
        put16(bytes, 6, self.checksum);
        Ok(())
    }
}
