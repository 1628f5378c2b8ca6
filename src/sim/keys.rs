//! Between which hosts and ports the flows of a simulated network go: a workload's key model, with
//! the addresses that there are.

use crate::trace::{EPHEMERAL, EPHEMERAL_BITS, Keys, SplitMix64, ephemeral, scramble};

const CLIENTS: u32 = 20;
const CONNECTIONS: u32 = 6;
const SERVICE: u16 = 443;

/// Source host, destination host, source and destination port of flow number `flow` of all epochs,
/// in a network of `hosts` hosts, at least two. No two flows have all in common.
pub(super) fn ends(keys: Keys, flow: u32, seed: u32, hosts: u32, random: &mut SplitMix64) -> (u32, u32, u32) {
    let others = hosts - 1;
    let ports = |source: u16, destination: u16| u32::from(source) << 16 | u32::from(destination);
    match keys {
        Keys::Random => {
            let src = random.below(hosts.into()) as u32;
            let dst = (src + 1 + random.below(others.into()) as u32) % hosts;
            (src, dst, scramble(flow ^ seed))
        }
        // The ports of the host half way round, from one source port after the other.
        Keys::Scan => (0, hosts / 2, ports((flow >> 16) as u16 ^ EPHEMERAL, flow as u16)),
        // All other hosts in a row, then again from the next source port and to the next service.
        Keys::Range => {
            let round = flow / others;
            (
                0,
                (1 + flow % others) % hosts,
                ports(ephemeral(round), SERVICE.wrapping_add((round >> EPHEMERAL_BITS) as u16)),
            )
        }
        Keys::Clients => {
            let clients = CLIENTS.min(hosts);
            let (src, connection) = (flow % clients, flow / clients);
            let visit = scramble(connection / CONNECTIONS * clients + src);
            let dst = (src + 1 + visit % others) % hosts;
            // Ports that come again are of connections to another service.
            let service = SERVICE.wrapping_add((connection >> EPHEMERAL_BITS) as u16);
            (src, dst, ports(ephemeral(scramble(src).wrapping_add(connection)), service))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn flows_are_distinct_and_go_to_another_host() {
        for keys in Keys::ALL {
            for hosts in [2, 3, 16, 1000] {
                let mut random = SplitMix64::new(1);
                let all: HashSet<_> = (0..200_000).map(|flow| ends(keys, flow, 9, hosts, &mut random)).collect();
                assert_eq!(all.len(), 200_000, "{keys:?}, {hosts} hosts");
                assert!(all.iter().all(|&(src, dst, _)| src != dst && src < hosts && dst < hosts), "{keys:?}");
            }
        }
    }
}
