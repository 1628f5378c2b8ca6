//! The five-tuple of each flow of a workload.

use crate::wire::{Flow, FlowKey, Tuple4, Tuple6};

use super::keys::EPHEMERAL;
use super::rng::word;

/// A five-tuple of either address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tuple {
    V4(Tuple4),
    V6(Tuple6),
}

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Sources are in 10.0.0.0/20, destinations from 198.18.0.0 on (random ones in a /22; /15 is set
/// aside for benchmarks, and only an address range of more than 131 072 flows goes beyond it); for
/// IPv6 both lie in the documentation prefix.
const SOURCE4: u32 = 0x0a00_0000;
const DESTINATION4: u32 = 0xc612_0000;
const SOURCE6: u128 = 0x2001_0db8_000a_0000_0000_0000_0000_0000;
const DESTINATION6: u128 = 0x2001_0db8_c612_0000_0000_0000_0000_0000;
pub(super) const SERVICES: [u16; 8] = [443, 443, 443, 80, 80, 53, 22, 8080];

const STREAM: u64 = 0x5a5a_0003;

impl Tuple {
    /// The five-tuple of flow number `flow`; different for every number under one seed, whatever
    /// the family.
    ///
    /// The number, scrambled by a bijection of 32 bits, is spread over 4096 sources, 1024
    /// destinations and 1024 source ports, so hosts have many flows each and no two flows are
    /// equal.
    pub fn nth(seed: u64, flow: u32, ipv6: f64) -> Self {
        let chance = word(seed, STREAM, u64::from(flow));
        let id = scramble(flow ^ (word(seed, STREAM, u64::MAX) as u32));
        let (source, destination) = (id & 0xfff, (id >> 12) & 0x3ff);
        let sport = EPHEMERAL | (id >> 22) as u16;
        let dport = SERVICES[(chance & 7) as usize];
        let proto = if (chance >> 3).is_multiple_of(5) || dport == 53 { UDP } else { TCP };
        Self::of(source, destination, [sport, dport], proto, Self::is_ipv6(chance, ipv6))
    }

    /// Whether a flow with this random word is IPv6, when a share `ipv6` is. 32 bits decide; a
    /// share of 1.0 takes them all.
    pub(super) fn is_ipv6(chance: u64, ipv6: f64) -> bool {
        ((chance >> 32) as f64) < ipv6 * 4_294_967_296.0
    }

    /// From the numbers of source and destination, source and destination port, and protocol.
    pub(super) fn of(source: u32, destination: u32, [sport, dport]: [u16; 2], proto: u8, ipv6: bool) -> Self {
        let ports = u64::from(sport) << 24 | u64::from(dport) << 8 | u64::from(proto);
        if ipv6 {
            Self::V6(Tuple6(SOURCE6 | u128::from(source), DESTINATION6 | u128::from(destination), ports))
        } else {
            let (source, destination) = (u128::from(SOURCE4 + source), u128::from(DESTINATION4 + destination));
            Self::V4(Tuple4(source << 72 | destination << 40 | u128::from(ports)))
        }
    }

    pub fn flow(self) -> Flow {
        match self {
            Self::V4(key) => key.flow(),
            Self::V6(key) => key.flow(),
        }
    }

    pub fn proto(self) -> u8 {
        match self {
            Self::V4(Tuple4(bits)) => bits as u8,
            Self::V6(Tuple6(_, _, bits)) => bits as u8,
        }
    }

    /// The IPv4 five-tuple, if it is one.
    pub fn v4(self) -> Option<Tuple4> {
        match self {
            Self::V4(key) => Some(key),
            Self::V6(_) => None,
        }
    }
}

/// Murmur3's finaliser: a bijection of 32-bit words.
pub fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn flows_are_distinct() {
        for (seed, ipv6) in [(1, 0.0), (2, 0.3), (3, 1.0)] {
            let all: HashSet<Tuple> = (0..400_000).map(|i| Tuple::nth(seed, i, ipv6)).collect();
            assert_eq!(all.len(), 400_000);
            let share = all.iter().filter(|t| t.v4().is_none()).count() as f64 / 400_000.0;
            assert!((share - ipv6).abs() < 0.005, "{share}");
        }
    }

    #[test]
    fn hosts_share_flows() {
        let sources: HashSet<_> = (0..100_000).map(|i| Tuple::nth(1, i, 0.0).flow().src).collect();
        assert_eq!(sources.len(), 4096);
    }
}
