//! The packets that a fault is about.

use std::net::IpAddr;

use super::spec::{number, prefix};
use crate::wire::{Headers, Net};

/// All that is set must hold; what a packet has not, does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    src: Option<Prefix>,
    dst: Option<Prefix>,
    proto: Option<u8>,
    sport: Option<u16>,
    dport: Option<u16>,
    /// The two low bits of the ToS byte or traffic class.
    ecn: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    net: Net,
    bits: u128,
    mask: u128,
    length: u32,
}

impl Prefix {
    fn read(key: &str, value: &str) -> Result<Self, String> {
        let (address, length) = prefix(key, value)?;
        // An IPv4 address stands in the low 32 bits.
        let (net, bits, width) = match address {
            IpAddr::V4(v4) => (Net::Ipv4, u128::from(u32::from(v4)), 32),
            IpAddr::V6(v6) => (Net::Ipv6, u128::from(v6), 128),
        };
        let mask = if length == 0 { 0 } else { u128::MAX << (width - length) };
        Ok(Self { net, bits: bits & mask, mask, length })
    }

    fn word(&self) -> String {
        let (address, width) = match self.net {
            Net::Ipv4 => (IpAddr::V4((self.bits as u32).into()), 32),
            Net::Ipv6 | Net::Other => (IpAddr::V6(self.bits.into()), 128),
        };
        if self.length == width { address.to_string() } else { format!("{address}/{}", self.length) }
    }

    fn holds(&self, net: Net, address: u128) -> bool {
        self.net == net && address & self.mask == self.bits
    }
}

impl Filter {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let port = || value.parse().map_err(|_| format!("{key}={value}: a port, 0 to 65535"));
        match key {
            "src" => self.src = Some(Prefix::read(key, value)?),
            "dst" => self.dst = Some(Prefix::read(key, value)?),
            "sport" => self.sport = Some(port()?),
            "dport" => self.dport = Some(port()?),
            "proto" => self.proto = Some(proto(value)?),
            "ecn" => {
                let ecn = number(key, value, 0).ok().filter(|ecn| *ecn <= 3);
                self.ecn = Some(ecn.ok_or_else(|| format!("ecn={value}: 0 to 3"))?);
            }
            _ => {
                return Err(format!(
                    "{key}: no such setting; there are drop, every, burst, corrupt, duplicate, delay, jitter, reorder, gap, \
                     seed, and of the packet src, dst, proto, sport, dport, ecn"
                ));
            }
        }
        Ok(())
    }

    /// Whether some packets do not match.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a packet is meant.
    #[inline]
    pub fn holds(&self, headers: &Headers) -> bool {
        let Self { src, dst, proto, sport, dport, ecn } = self;
        let ip = headers.net != Net::Other;
        let ports = headers.has_ports();
        src.is_none_or(|src| src.holds(headers.net, headers.src_ip))
            && dst.is_none_or(|dst| dst.holds(headers.net, headers.dst_ip))
            && proto.is_none_or(|proto| ip && headers.proto == proto)
            && sport.is_none_or(|sport| ports && headers.sport == sport)
            && dport.is_none_or(|dport| ports && headers.dport == dport)
            && ecn.is_none_or(|ecn| ip && headers.tos & 3 == ecn)
    }

    pub(super) fn words(&self) -> Vec<String> {
        let Self { src, dst, proto, sport, dport, ecn } = self;
        let word = |key: &str, value: Option<String>| value.map(|value| format!("{key}={value}"));
        [
            word("src", src.map(|prefix| prefix.word())),
            word("dst", dst.map(|prefix| prefix.word())),
            word("proto", proto.map(|proto| proto.to_string())),
            word("sport", sport.map(|port| port.to_string())),
            word("dport", dport.map(|port| port.to_string())),
            word("ecn", ecn.map(|ecn| ecn.to_string())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn proto(value: &str) -> Result<u8, String> {
    match value {
        "icmp" => Ok(1),
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "icmpv6" => Ok(58),
        _ => value.parse().map_err(|_| format!("proto={value}: tcp, udp, icmp, icmpv6, or 0 to 255")),
    }
}
