//! Ethernet II and 802.3: two addresses and a type, or a length.

use super::error::need;
use super::field::{array, get16, put, put16};
use super::{Layer, Mac, WireError, ethertype};

pub const LEN: usize = 14;

/// A whole Ethernet header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        need(Layer::Ethernet, LEN, bytes.as_ref())?;
        Ok(Self(bytes))
    }

    pub fn dst(&self) -> Mac {
        Mac(array(self.0.as_ref(), 0))
    }

    pub fn src(&self) -> Mac {
        Mac(array(self.0.as_ref(), 6))
    }

    pub fn ethertype(&self) -> u16 {
        get16(self.0.as_ref(), 12)
    }

    /// The bytes that an 802.3 frame says it carries: an LLC header, padding not counted.
    pub fn length(&self) -> Option<usize> {
        Some(self.ethertype()).filter(|&field| field < ethertype::MIN).map(usize::from)
    }

    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    pub fn set_dst(&mut self, mac: Mac) {
        put(self.0.as_mut(), 0, &mac.0);
    }

    pub fn set_src(&mut self, mac: Mac) {
        put(self.0.as_mut(), 6, &mac.0);
    }

    pub fn set_ethertype(&mut self, ethertype: u16) {
        put16(self.0.as_mut(), 12, ethertype);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub dst: Mac,
    pub src: Mac,
    pub ethertype: u16,
}

impl Repr {
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self { dst: view.dst(), src: view.src(), ethertype: view.ethertype() }
    }

    pub fn header_len(&self) -> usize {
        LEN
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        let mut view = View::new(bytes)?;
        view.set_dst(self.dst);
        view.set_src(self.src);
        view.set_ethertype(self.ethertype);
        Ok(())
    }
}
