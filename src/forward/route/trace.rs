//! The look-ups of one packet, for traces.

use std::net::IpAddr;

use super::Route;
use super::dataplane::Decision;
use crate::pisa::{LookupTrace, Phv, Probe, Verdict};
use crate::wire::Net;

impl Route {
    /// As [`Self::decide`] for one packet, with its look-ups for the probe. Checks of the frame
    /// itself ([`Self::finish`]: header checksum, TTL, MTU) come later.
    pub fn trace(&mut self, phv: &mut Phv, now: u64, probe: &mut dyn Probe) {
        self.decide(std::slice::from_mut(phv), now);
        let decision = self.decisions[0];
        let family = phv.headers.net;
        let address = |address: u128| -> IpAddr {
            match family {
                Net::Ipv4 => IpAddr::V4((address as u32).into()),
                _ => IpAddr::V6(address.into()),
            }
        };
        let key = match family {
            Net::Other => format!("destination {}, no IP packet", phv.headers.dst),
            _ => format!("destination {}, {}", phv.headers.dst, address(phv.headers.dst_ip)),
        };
        let (entry, port, action) = match decision {
            Decision::Forward { hop, .. } | Decision::Resolve(hop) => {
                (Some(format!("next hop {}", address(hop.address))), Some(hop.port), "to its next hop".into())
            }
            Decision::Local => (Some("own address".into()), None, "answer it".into()),
            Decision::Arp => (None, None, "answer or note an ARP packet".into()),
            Decision::Discovery => (None, None, "answer a neighbour solicitation".into()),
            Decision::Answer(_, reason) => {
                (None, None, format!("an ICMP error to its sender, drop, {}", reason.name()))
            }
            Decision::Done => (None, None, verdict(phv.verdict)),
        };
        probe.lookup(LookupTrace { table: "routes", key, entry, port, action });
        if let Decision::Forward { hop, .. } | Decision::Resolve(hop) = decision {
            let mac = match decision {
                Decision::Forward { neighbour, .. } => Some(neighbour.mac.to_string()),
                _ => None,
            };
            let action = if mac.is_some() { "write both MACs" } else { "ask for it, drop, no_neighbour" };
            let key = format!("next hop {}", address(hop.address));
            probe.lookup(LookupTrace {
                table: "neighbours",
                key,
                entry: mac,
                port: Some(hop.port),
                action: action.into(),
            });
        }
    }
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Drop(reason) => format!("drop, {}", reason.name()),
        _ => "forward".into(),
    }
}
