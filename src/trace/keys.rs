//! The five-tuples of a workload's flows: random, or in a row as real ones often are.

use super::Tuple;
use super::rng::word;
use super::tuple::{SERVICES, TCP};
use crate::text::named;

named! {
    /// A model of the flows' five-tuples. Hash functions that are linear, as a CRC, treat keys in a
    /// row differently from random ones, so accuracy is to be shown with both.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Keys {
        /// [`Tuple::nth`]: scrambled over 4096 sources, 1024 destinations and 1024 source ports.
        #[default]
        Random = "random",
        /// A port scan: one source, and the destination ports of one host after the other in a row.
        Scan = "scan",
        /// An address range: one source, one service, and destination addresses in a row.
        Range = "range",
        /// Connections of 20 clients, each with ephemeral ports in a row. A client opens six
        /// connections to one of 8 servers, then goes on to another.
        Clients = "clients",
    }
}

const CLIENTS: u32 = 20;
const SERVERS: u32 = 8;
/// Connections in a row of a client to one server.
const CONNECTIONS: u32 = 6;
/// IANA's ephemeral ports are the highest 2^14.
pub const EPHEMERAL_BITS: u32 = 14;
pub const EPHEMERAL: u16 = 0xc000;

/// One of them by number, which wraps.
pub fn ephemeral(number: u32) -> u16 {
    EPHEMERAL | (number as u16 & ((1 << EPHEMERAL_BITS) - 1))
}

const STREAM: u64 = 0x5a5a_0006;

impl Keys {
    /// The five-tuple of flow number `flow`, below 2^24; different for every number under one seed,
    /// whatever the family. A share `ipv6` of the flows is IPv6.
    pub fn tuple(self, seed: u64, flow: u32, ipv6: f64) -> Tuple {
        let chance = |n: u32| word(seed, STREAM, u64::from(n)) as u32;
        // The seed chooses where the row begins, and the fields that all its flows have in common.
        let [host, port] = [chance(0) % 256, chance(1)];
        let (source, destination, ports) = match self {
            Self::Random => return Tuple::nth(seed, flow, ipv6),
            Self::Scan => (host, flow >> 16, [EPHEMERAL | port as u16 >> 2, flow as u16]),
            Self::Range => (host, flow, [EPHEMERAL | port as u16 >> 2, SERVICES[(port % 8) as usize]]),
            Self::Clients => {
                let (client, connection) = (flow % CLIENTS, flow / CLIENTS);
                let first = chance(2 + client);
                let server = word(seed, STREAM ^ u64::from(client) << 32, u64::from(connection / CONNECTIONS)) as u32;
                // Ports that come again are of connections to other servers.
                let server = server % SERVERS + SERVERS * (connection >> EPHEMERAL_BITS);
                let sport = ephemeral(first.wrapping_add(connection));
                (client, server, [sport, SERVICES[(server % SERVERS) as usize]])
            }
        };
        let of_ipv6 = Tuple::is_ipv6(word(seed, STREAM ^ 1, u64::from(flow)), ipv6);
        Tuple::of(source, destination, ports, TCP, of_ipv6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn flows_are_distinct() {
        for keys in Keys::ALL {
            for (seed, ipv6) in [(1, 0.0), (2, 0.3), (3, 1.0)] {
                let all: HashSet<Tuple> = (0..400_000).map(|flow| keys.tuple(seed, flow, ipv6)).collect();
                assert_eq!(all.len(), 400_000, "{keys:?}");
                let share = all.iter().filter(|t| t.v4().is_none()).count() as f64 / 400_000.0;
                assert!((share - ipv6).abs() < 0.005, "{keys:?}: {share}");
            }
        }
    }

    /// The most flows that a workload may have, those in steps that a port or an address could
    /// repeat after.
    #[test]
    fn as_many_flows_as_there_can_be_are_distinct() {
        for keys in [Keys::Scan, Keys::Range, Keys::Clients] {
            for step in [1 << 14, CLIENTS << EPHEMERAL_BITS, 1 << 16] {
                let flows: Vec<u32> = (0..1 << 24).step_by(step as usize).collect();
                let all: HashSet<Tuple> = flows.iter().map(|&flow| keys.tuple(5, flow, 0.0)).collect();
                assert_eq!(all.len(), flows.len(), "{keys:?}");
            }
        }
    }

    #[test]
    fn what_stands_in_a_row() {
        let flows = |keys: Keys| (0..1000).map(|flow| keys.tuple(7, flow, 0.0).flow()).collect::<Vec<_>>();
        let next = |a: Option<u16>, b: Option<u16>| b.unwrap().wrapping_sub(a.unwrap()) == 1;
        for pair in flows(Keys::Scan).windows(2) {
            assert!(next(pair[0].dport, pair[1].dport) && pair[0].src == pair[1].src && pair[0].dst == pair[1].dst);
        }
        let address = |flow: &crate::wire::Flow| match flow.dst.unwrap() {
            std::net::IpAddr::V4(address) => address.to_bits(),
            std::net::IpAddr::V6(_) => unreachable!("no IPv6"),
        };
        for pair in flows(Keys::Range).windows(2) {
            assert_eq!(address(&pair[1]) - address(&pair[0]), 1);
            assert!(pair[0].src == pair[1].src && pair[0].sport == pair[1].sport && pair[0].dport == pair[1].dport);
        }
        let clients = flows(Keys::Clients);
        let in_a_row = clients.iter().zip(&clients[CLIENTS as usize..]).filter(|(a, b)| next(a.sport, b.sport));
        assert!(in_a_row.count() >= 960);
        assert_eq!(clients.iter().map(|flow| flow.src).collect::<HashSet<_>>().len(), 20);
        assert_eq!(clients.iter().map(|flow| flow.dst).collect::<HashSet<_>>().len(), 8);
    }

    /// FNV-1a of some tuples: recorded figures rest on them.
    #[test]
    fn tuples_are_the_same_everywhere() {
        let digests = Keys::ALL.map(|keys| {
            let text: String = (0..500).map(|flow| keys.tuple(42, flow * 33, 0.25).flow().to_string()).collect();
            text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        });
        let golden = [0x6a28680bdd8fc13c, 0x002ff82e8c49a225, 0x6dcdc15ab411e190, 0x84869b018fbc587b];
        assert_eq!(digests, golden);
    }
}
