//! ARP for IPv4 over Ethernet.

use std::net::Ipv4Addr;

use super::error::{check, need};
use super::field::{array, get16, put, put16, put32};
use super::{Layer, Mac, WireError, ethertype};

pub const LEN: usize = 28;
pub const REQUEST: u16 = 1;
pub const REPLY: u16 = 2;

/// A whole packet of IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub operation: u16,
    pub sender_mac: Mac,
    pub sender_ip: Ipv4Addr,
    pub target_mac: Mac,
    pub target_ip: Ipv4Addr,
}

impl Repr {
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        need(Layer::Arp, LEN, bytes)?;
        let [hardware, protocol, lengths, operation] = [0, 2, 4, 6].map(|at| get16(bytes, at));
        check(Layer::Arp, "the hardware type", hardware, hardware == 1)?;
        check(Layer::Arp, "the protocol type", protocol, protocol == ethertype::IPV4)?;
        check(Layer::Arp, "the address lengths", lengths, lengths == 0x0604)?;
        Ok(Self {
            operation,
            sender_mac: Mac(array(bytes, 8)),
            sender_ip: array(bytes, 14).into(),
            target_mac: Mac(array(bytes, 18)),
            target_ip: array(bytes, 24).into(),
        })
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
