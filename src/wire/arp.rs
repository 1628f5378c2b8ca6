//! ARP for IPv4 over Ethernet.

use std::net::Ipv4Addr;

use super::error::{check, need};
use super::field::{array, get16, put, put16, put32};
use super::{Layer, Mac, WireError, ethertype};

pub const LEN: usize = 28;
pub const REQUEST: u16 = 1;
pub const REPLY: u16 = 2;

/// A whole packet of IPv4 over Ethernet.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    pub fn new(bytes: T) -> Result<Self, WireError> {
        let b = bytes.as_ref();
        need(Layer::Arp, LEN, b)?;
        check(Layer::Arp, "the hardware type", get16(b, 0), get16(b, 0) == 1)?;
        check(Layer::Arp, "the protocol type", get16(b, 2), get16(b, 2) == ethertype::IPV4)?;
        check(Layer::Arp, "the address lengths", get16(b, 4), get16(b, 4) == 0x0604)?;
        Ok(Self(bytes))
    }

    pub fn operation(&self) -> u16 {
        get16(self.0.as_ref(), 6)
    }

    pub fn sender_mac(&self) -> Mac {
        Mac(array(self.0.as_ref(), 8))
    }

    pub fn sender_ip(&self) -> Ipv4Addr {
        array(self.0.as_ref(), 14).into()
    }

    pub fn target_mac(&self) -> Mac {
        Mac(array(self.0.as_ref(), 18))
    }

    pub fn target_ip(&self) -> Ipv4Addr {
        array(self.0.as_ref(), 24).into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub operation: u16,
    pub sender_mac: Mac,
    pub sender_ip: Ipv4Addr,
    pub target_mac: Mac,
    pub target_ip: Ipv4Addr,
}

impl Repr {
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Self {
        Self {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        }
    }

    pub fn header_len(&self) -> usize {
        LEN
    }

    pub fn emit(&self, bytes: &mut [u8]) -> Result<(), WireError> {
        need(Layer::Arp, LEN, bytes)?;
        put32(bytes, 0, 0x0001_0800);
        put16(bytes, 4, 0x0604);
        put16(bytes, 6, self.operation);
        put(bytes, 8, &self.sender_mac.0);
        put(bytes, 14, &self.sender_ip.octets());
        put(bytes, 18, &self.target_mac.0);
        put(bytes, 24, &self.target_ip.octets());
        Ok(())
    }
}
