//! Ethernet II: two addresses and a type.

use super::error::need;
use super::field::{put, put16};
use super::{Layer, Mac, WireError};

pub const LEN: usize = 14;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    pub dst: Mac,
    pub src: Mac,
    pub ethertype: u16,
}

impl Repr {
    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Ethernet, LEN, bytes)?;
        put(bytes, 0, &self.dst.0);
        put(bytes, 6, &self.src.0);
        put16(bytes, 12, self.ethertype);
        Ok(())
    }
}
