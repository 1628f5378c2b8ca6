//! An address with a prefix length: of an interface, or, without host bits, of a network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::text::{json_schema, serde_as_text};

/// Written `10.0.1.1/24` or `fd00:1::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Net {
    address: IpAddr,
    len: u8,
}

impl Net {
    /// `None` when the length is more than the address has bits.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        (len <= width(address)).then_some(Self { address, len })
    }

    pub fn address(self) -> IpAddr {
        self.address
    }

    pub fn prefix_len(self) -> u8 {
        self.len
    }

    pub fn is_v4(self) -> bool {
        self.address.is_ipv4()
    }

    /// The network that the address lies in.
    pub fn network(self) -> Self {
        let address = match self.address {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from(u32::from(a) & !host_mask(32, self.len) as u32)),
            IpAddr::V6(a) => IpAddr::V6(Ipv6Addr::from(u128::from(a) & !host_mask(128, self.len))),
        };
        Self { address, ..self }
    }

    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_v4() && Self { address, ..self }.network() == self.network()
    }

    /// Whether one lies in the other.
    pub fn overlaps(self, other: Self) -> bool {
        if self.len <= other.len { self.contains(other.address) } else { other.contains(self.address) }
    }

    /// Network and broadcast address, where the network has such: IPv4, at least two host bits (RFC
    /// 3021).
    pub fn broadcasts(self) -> Option<[Ipv4Addr; 2]> {
        let IpAddr::V4(network) = self.network().address else { return None };
        let all = Ipv4Addr::from(u32::from(network) | host_mask(32, self.len) as u32);
        (self.len <= 30).then_some([network, all])
    }

    /// Whether the address can be one host's on this network.
    pub fn is_host(self, address: IpAddr) -> bool {
        self.contains(address) && !self.broadcasts().is_some_and(|pair| pair.map(IpAddr::V4).contains(&address))
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The low bits of `width` that are not the prefix's.
fn host_mask(width: u8, len: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(width - len)).unwrap_or(0)
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(address, len)| {
            let digits = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
            Self::new(address.parse().ok()?, digits.then(|| len.parse().ok())??)
        });
        parsed.ok_or_else(|| {
            format!("{text:?} is not an address with a prefix length; write 10.0.1.1/24 or fd00:1::1/64")
        })
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address, self.len))
    }
}

serde_as_text!(Net);

json_schema!(Net, {
    "type": "string",
    "pattern": r"^(([0-9]{1,3}\.){3}[0-9]{1,3}/0*(3[0-2]|[12]?[0-9])|[0-9A-Fa-f.:]*:[0-9A-Fa-f.:]*/0*(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$",
    "description": "An address with a prefix length: 10.0.1.1/24, fd00:1::1/64",
});

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Net {
        text.parse().unwrap()
    }

    #[test]
    fn text_and_parts() {
        for text in ["10.0.1.1/24", "0.0.0.0/0", "10.0.0.1/32", "fd00::1/64", "::/0", "fd00::/128"] {
            assert_eq!(net(text).to_string(), text);
        }
        for wrong in ["10.0.0.1", "10.0.0.1/33", "fd00::/129", "/8", "10.0.0.0/+8", "10.0.0/8", "10.0.0.0/", "a/1"] {
            assert!(wrong.parse::<Net>().unwrap_err().contains("write 10.0.1.1/24"), "{wrong}");
        }
        assert_eq!(net("10.1.2.3/8").network(), net("10.0.0.0/8"));
        assert_eq!(net("10.1.2.3/0").network(), net("0.0.0.0/0"));
        assert_eq!(net("fd00:1::2:3/64").network(), net("fd00:1::/64"));
    }

    #[test]
    fn hosts_and_overlaps() {
        let lan = net("10.0.1.1/24");
        assert!(lan.overlaps(net("10.0.0.0/16")) && net("10.0.0.0/16").overlaps(lan) && lan.overlaps(lan));
        assert!(!lan.overlaps(net("10.0.2.0/24")) && !lan.overlaps(net("::/0")));
        let at = |text: &str| lan.is_host(text.parse().unwrap());
        assert!(at("10.0.1.2") && !at("10.0.1.0") && !at("10.0.1.255") && !at("10.0.2.2") && !at("fd00::1"));
        assert!(net("10.0.0.0/31").is_host("10.0.0.1".parse().unwrap()));
    }
}
