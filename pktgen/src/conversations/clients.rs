//! The addresses and ports of clients: each conversation has its own.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::segment::Ends;
use super::{Side, script::Scripts};

/// The lowest of IANA's ephemeral ports, and how many there are.
const FIRST_PORT: u16 = 0xc000;
const PORTS: u32 = 1 << 14;
/// Most addresses that are used of a prefix.
const MAX_HOSTS: u32 = 1 << 16;

/// An address and the number of its leading bits that all clients have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    is_v6: bool,
    network: u128,
    /// Bits behind the prefix.
    bits: u32,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no prefix; write 198.19.0.0/16 or 2001:2::/112");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let length: u32 = length.parse().map_err(|_| wrong())?;
        let (is_v6, address, width): (_, _, u32) = match address.parse::<IpAddr>().map_err(|_| wrong())? {
            IpAddr::V4(address) => (false, u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (true, address.to_bits(), 128),
        };
        let bits = width.checked_sub(length).ok_or_else(wrong)?;
        let host = 1u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1);
        if address & host != 0 {
            return Err(format!("{text:?}: bits behind the prefix are set"));
        }
        Ok(Self { is_v6, network: address, bits })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_v6 {
            true => write!(f, "{}/{}", std::net::Ipv6Addr::from_bits(self.network), 128 - self.bits),
            false => write!(f, "{}/{}", std::net::Ipv4Addr::from_bits(self.network as u32), 32 - self.bits),
        }
    }
}

impl Prefix {
    fn holds(&self, is_v6: bool, address: u128) -> bool {
        self.is_v6 == is_v6 && (address ^ self.network).checked_shr(self.bits).unwrap_or(0) == 0
    }

    /// Addresses that hosts may have: all but the first, and but the last, which IPv4 broadcasts to.
    fn hosts(&self) -> u32 {
        1u32.checked_shl(self.bits).unwrap_or(u32::MAX).saturating_sub(2).clamp(1, MAX_HOSTS)
    }

    fn first(&self) -> u128 {
        if self.bits < 2 { self.network } else { self.network + 1 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientsError {
    #[error("the server {server} of the capture is in {prefix}, which is the clients'; give --clients another prefix")]
    Server { server: IpAddr, prefix: Prefix },
    #[error("--clients has two prefixes of one IP version")]
    Twice,
    #[error(
        "--clients {0} has too few addresses for --max-open: each has {PORTS} ports, for half as many conversations at a time"
    )]
    Few(Prefix),
}

/// The prefixes of clients, one of each IP version.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    v4: Prefix,
    v6: Prefix,
    /// Addresses that are used of each.
    hosts: u32,
}

impl Default for Clients {
    /// Addresses that RFC 2544 and RFC 5180 set aside for measuring.
    fn default() -> Self {
        let v4 = Prefix { is_v6: false, network: 0xc613_0000, bits: 16 };
        let v6 = Prefix { is_v6: true, network: 0x2001_0002 << 96, bits: 16 };
        Self::of(v4, v6)
    }
}

impl Clients {
    fn of(v4: Prefix, v6: Prefix) -> Self {
        Self { v4, v6, hosts: v4.hosts().min(v6.hosts()) }
    }

    /// Those of these prefixes, and the default where none is given of an IP version. There is room for
    /// `max_open` conversations at a time.
    ///
    /// # Errors
    /// If clients would be servers as well, or are too few.
    pub fn new(prefixes: &[Prefix], max_open: u32, scripts: &Scripts) -> Result<Self, ClientsError> {
        let own = Self::default();
        let given = |is_v6: bool| {
            let mut of_version = prefixes.iter().filter(move |prefix| prefix.is_v6 == is_v6).copied();
            (of_version.next(), of_version.next())
        };
        let ((v4, second4), (v6, second6)) = (given(false), given(true));
        if second4.or(second6).is_some() {
            return Err(ClientsError::Twice);
        }
        let (v4, v6) = (v4.unwrap_or(own.v4), v6.unwrap_or(own.v6));
        let clients = Self::of(v4, v6);
        for script in scripts.all() {
            let Ends { is_v6, dst, .. } = script.ends;
            let prefix = if is_v6 { v6 } else { v4 };
            if prefix.holds(is_v6, dst) {
                return Err(ClientsError::Server { server: address(is_v6, dst), prefix });
            }
        }
        if clients.span() < 2 * u64::from(max_open) {
            return Err(ClientsError::Few(if v4.hosts() < v6.hosts() { v4 } else { v6 }));
        }
        Ok(clients)
    }

    /// Clients that differ.
    pub fn span(&self) -> u64 {
        u64::from(self.hosts) * u64::from(PORTS)
    }

    /// The addresses of a conversation like this one of client number `client`, as the client's frames
    /// have them.
    pub fn ends(&self, like: &Ends, client: u32) -> Ends {
        let first = if like.is_v6 { self.v6.first() } else { self.v4.first() };
        let src = first + u128::from(client % self.hosts);
        Ends { src, sport: FIRST_PORT + (client / self.hosts) as u16, ..*like }
    }

    /// The end that a segment is for, and the number of the client that it comes from or goes to.
    pub fn find(&self, ends: &Ends) -> Option<(Side, u32)> {
        let from = self.number(ends.is_v6, ends.src, ends.sport).map(|client| (Side::Server, client));
        from.or_else(|| Some((Side::Client, self.number(ends.is_v6, ends.dst, ends.dport)?)))
    }

    fn number(&self, is_v6: bool, address: u128, port: u16) -> Option<u32> {
        let first = if is_v6 { self.v6.first() } else { self.v4.first() };
        let host = address.checked_sub(first).filter(|host| *host < u128::from(self.hosts))? as u32;
        Some(u32::from(port.checked_sub(FIRST_PORT)?) * self.hosts + host)
    }
}

fn address(is_v6: bool, bits: u128) -> IpAddr {
    if is_v6 { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn prefixes_are_read() {
        for text in ["198.19.0.0/16", "2001:2::/112", "0.0.0.0/0", "::/0", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for wrong in ["", "10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "2001:2::/129", "::1/0", "x/8", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
        let own = Clients::default();
        assert_eq!((own.v4.to_string(), own.v6.to_string()), ("198.19.0.0/16".into(), "2001:2::/112".into()));
    }

    /// Clients differ in address or port, and are found again in frames of both directions.
    #[test]
    fn clients_are_found_again() {
        for (v4, v6) in [("10.1.0.0/30", "2001:2::/126"), ("10.1.0.0/32", "2001::/16"), ("0.0.0.0/0", "::/0")] {
            let clients = Clients::of(v4.parse().unwrap(), v6.parse().unwrap());
            for is_v6 in [false, true] {
                let like = Ends { is_v6, src: 1, sport: 2, dst: u128::from(u32::MAX), dport: 443 };
                let last = (clients.span() - 1) as u32;
                let numbers = (0..40_000u32.min(last)).chain([last]);
                let mut seen = HashSet::new();
                for client in numbers {
                    let ends = clients.ends(&like, client);
                    assert!(seen.insert(ends), "{client}");
                    assert_eq!((ends.dst, ends.dport), (like.dst, like.dport));
                    assert_eq!(clients.find(&ends), Some((Side::Server, client)));
                    assert_eq!(clients.find(&ends.reversed()), Some((Side::Client, client)));
                }
                assert_eq!(clients.find(&like), None);
            }
        }
    }

    #[test]
    fn clients_are_no_servers_and_enough() {
        let scripts = Scripts::of_one(Ends { dst: 0x0a00_0001, ..Ends::default() });
        let new = |prefixes: &[&str], max_open| {
            let prefixes: Vec<Prefix> = prefixes.iter().map(|text| text.parse().unwrap()).collect();
            Clients::new(&prefixes, max_open, &scripts)
        };
        assert!(new(&[], 1_000_000).is_ok() && new(&["10.0.1.0/24", "fd00::/64"], 100).is_ok());
        assert!(matches!(new(&["10.0.0.0/24"], 1), Err(ClientsError::Server { .. })));
        assert!(matches!(new(&["10.1.0.0/24", "10.2.0.0/24"], 1), Err(ClientsError::Twice)));
        assert!(
            matches!(new(&["10.1.0.0/32"], 8193), Err(ClientsError::Few(_))) && new(&["10.1.0.0/32"], 8192).is_ok()
        );
    }
}
