//! The match half: every packet's destination in the tables.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::asked::{Asked, Bucket};
use super::reply::Error;
use super::{
    Action, BURST, Digest, Entry, Gateways, Hits, Hop, Neighbour, Neighbours, RoutedPort, Routes, Signs, key4,
    link_local, seconds, touch,
};
use crate::pisa::hash::IndexHashes;
use crate::pisa::table::Reader;
use crate::pisa::{DropReason, Phv, PortId, Verdict};
use crate::wire::{FlowKey, Fragment, Headers, Mac, Net, Tuple4, Tuple6, ethertype, proto};

/// One worker's dataplane of a router.
#[derive(Debug)]
pub struct Route {
    pub(super) ports: Arc<[RoutedPort]>,
    pub(super) routes: Reader<Routes>,
    pub(super) neighbours: Reader<Neighbours>,
    pub(super) signs: Arc<[Signs]>,
    hits: Arc<[Hits]>,
    /// Chooses among the gateways of a route.
    ecmp: IndexHashes,
    pub(super) digests: Sender<Digest>,
    pub(super) lost: u64,
    pub(super) asked: Asked,
    pub(super) questions: Bucket,
    pub(super) errors: Bucket,
    pub(super) suppressed: u64,
    /// Decisions on the current burst.
    pub(super) now: u64,
    pub(super) decisions: Box<[Decision; BURST]>,
}

/// The action for a packet, from its headers and the tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Decision {
    /// As the verdict says.
    #[default]
    Done,
    Forward {
        hop: Hop,
        neighbour: Neighbour,
    },
    /// The next hop's MAC is not known.
    Resolve(Hop),
    /// An error to the sender, and the drop reason of the packet.
    Answer(Error, DropReason),
    /// To one of the router's own addresses.
    Local,
    Arp,
    /// ICMPv6 to a group: a neighbour's solicitation, perhaps.
    Discovery,
}

impl Route {
    pub(super) fn new(
        ports: Arc<[RoutedPort]>,
        (routes, neighbours): (Reader<Routes>, Reader<Neighbours>),
        (signs, hits): (Arc<[Signs]>, Arc<[Hits]>),
        ecmp: IndexHashes,
        digests: Sender<Digest>,
    ) -> Self {
        Self {
            ports,
            routes,
            neighbours,
            signs,
            hits,
            ecmp,
            digests,
            lost: 0,
            asked: Asked::default(),
            questions: Bucket::default(),
            errors: Bucket::default(),
            suppressed: 0,
            now: 0,
            decisions: Box::new([Decision::Done; BURST]),
        }
    }

    /// Matches each packet, and writes its verdict from the headers. `finish` may change it.
    pub fn decide(&mut self, phvs: &mut [Phv], now: u64) {
        self.now = now;
        let second = seconds(now);
        let tables = Tables {
            routes: self.routes.load(),
            neighbours: self.neighbours.load(),
            ports: &self.ports,
            hits: &self.hits,
            ecmp: &self.ecmp,
        };
        for (phv, decision) in phvs.iter_mut().zip(self.decisions.iter_mut()) {
            let (next, verdict) = match tables.matched(phv) {
                Ok(next @ Decision::Forward { hop, neighbour }) => {
                    touch(&self.signs[neighbour.index as usize].used, second);
                    (next, Verdict::Port(hop.port))
                }
                Ok(next @ Decision::Resolve(_)) => (next, Verdict::Drop(DropReason::NoNeighbour)),
                Ok(next @ Decision::Answer(_, reason)) => (next, Verdict::Drop(reason)),
                Ok(next) => (next, Verdict::Drop(DropReason::ToRouter)),
                Err(reason) => (Decision::Done, Verdict::Drop(reason)),
            };
            (*decision, phv.verdict) = (next, verdict);
        }
    }

    /// Digests that found the queue full. The neighbour is asked again later.
    pub fn lost_digests(&self) -> u64 {
        self.lost
    }

    /// ICMP errors and questions for neighbours that were not sent, because of their rate limit.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }
}

/// The tables that a burst is matched against.
pub(super) struct Tables<'a> {
    pub routes: &'a Routes,
    pub neighbours: &'a Neighbours,
    pub ports: &'a [RoutedPort],
    pub hits: &'a [Hits],
    pub ecmp: &'a IndexHashes,
}

impl Tables<'_> {
    /// The action, or the reason for a drop without an answer.
    #[inline]
    fn matched(&self, phv: &Phv) -> Result<Decision, DropReason> {
        let headers = &phv.headers;
        let mac = self.ports.get(usize::from(phv.ingress)).ok_or(DropReason::NoRoute)?.mac();
        if headers.dst != mac && !headers.dst.is_group() {
            return Err(DropReason::OtherMac);
        }
        if headers.tagged {
            return Err(DropReason::Tagged);
        }
        // A PPPoE session ends at its access concentrator, which this router is not.
        if headers.ethertype == ethertype::PPPOE_SESSION {
            return Err(DropReason::NotRouted);
        }
        let action = match (headers.net, headers.ethertype) {
            (Net::Ipv4, _) => self.match4(headers)?,
            (Net::Ipv6, _) if headers.dst_ip >> 120 == 0xff => return self.group6(headers),
            (Net::Ipv6, _) => match self.link_local6(headers, self.own_link_local(phv.ingress, mac))? {
                Some(local) => return Ok(local),
                None => self.routes.v6.get(headers.dst_ip),
            },
            (Net::Other, ethertype::ARP) => return Ok(Decision::Arp),
            (Net::Other, ethertype::IPV4 | ethertype::IPV6) => return Err(DropReason::BadHeader),
            _ => return Err(DropReason::NotRouted),
        };
        // A host that puts another's packet into a broadcast frame would have every router answer
        // it (RFC 1812, 5.3.4).
        if headers.dst.is_group() {
            return Err(DropReason::Multicast);
        }
        match action {
            None => Ok(Decision::Answer(Error::NoRoute, DropReason::NoRoute)),
            Some(action) => self.follow(action, phv),
        }
    }

    /// The port of the action for a unicast packet with these headers, whatever port it came by.
    pub fn port_of(&self, headers: &Headers) -> Option<PortId> {
        let action = match headers.net {
            Net::Ipv4 => self.match4(headers).ok()??,
            Net::Ipv6 => self.routes.v6.get(headers.dst_ip)?,
            Net::Other => return None,
        };
        let phv = Phv { headers: Headers { ttl: u8::MAX, ..*headers }, ..Phv::default() };
        match self.follow(action, &phv).ok()? {
            Decision::Forward { hop, .. } | Decision::Resolve(hop) => Some(hop.port),
            _ => None,
        }
    }

    /// RFC 1812, 4.2.2.11 and 5.3.7: addresses that stand for no host, or for none but the sender's
    /// own.
    #[inline(always)]
    fn match4(&self, headers: &Headers) -> Result<Option<&Action>, DropReason> {
        let (src, dst) = (headers.src_ip as u32, headers.dst_ip as u32);
        let nowhere = |address: u32| {
            matches!(address >> 24, 0 | 127 | 240..) || address >> 16 == 0xa9fe // 169.254/16: RFC 3927, 2.7
        };
        if dst >> 28 == 0xe || dst == u32::MAX {
            return Err(DropReason::Multicast);
        }
        if nowhere(src) || nowhere(dst) || src >> 28 == 0xe {
            return Err(DropReason::Martian);
        }
        Ok(self.routes.v4.get(dst))
    }

    fn group6(&self, headers: &Headers) -> Result<Decision, DropReason> {
        if headers.src_ip >> 120 == 0xff {
            return Err(DropReason::Martian);
        }
        // Link-local scope: all nodes, and the groups of solicited nodes.
        let heard =
            headers.dst_ip == 0xff02 << 112 | 1 || headers.dst_ip >> 24 == (0xff02 << 112 | 0x1_ff00_0000) >> 24;
        match heard && headers.proto == proto::ICMPV6 {
            true => Ok(Decision::Discovery),
            false => Err(DropReason::Multicast),
        }
    }

    /// RFC 4291, 2.5: addresses that never leave their host or link. `None` when both may be
    /// routed.
    #[inline(always)]
    fn link_local6(&self, headers: &Headers, own: Option<Ipv6Addr>) -> Result<Option<Decision>, DropReason> {
        // ::/8 has the unspecified, the loopback and the IPv4-mapped address, and nothing that is
        // assigned.
        let nowhere = |address: u128| address >> 120 == 0;
        let link_local = |address: u128| address >> 118 == 0xfe80 >> 6;
        let (src, dst) = (headers.src_ip, headers.dst_ip);
        if nowhere(src) || nowhere(dst) || src >> 120 == 0xff {
            return Err(DropReason::Martian);
        }
        if own.is_some_and(|own| dst == own.into()) {
            return Ok(Some(Decision::Local));
        }
        let local = || matches!(self.routes.v6.get(dst), Some(Action::Local));
        if link_local(dst) || (link_local(src) && !local()) {
            return Err(DropReason::Martian);
        }
        Ok(None)
    }

    /// A port without IPv6 addresses does not speak IPv6.
    #[inline(always)]
    fn own_link_local(&self, ingress: PortId, mac: Mac) -> Option<Ipv6Addr> {
        let own = self.routes.ports.get(usize::from(ingress))?;
        (!own.v6.is_empty()).then(|| link_local(mac))
    }

    #[inline(always)]
    fn follow(&self, action: &Action, phv: &Phv) -> Result<Decision, DropReason> {
        let headers = &phv.headers;
        let (hop, entry) = match action {
            Action::Local => return Ok(Decision::Local),
            Action::Broadcast => return Err(DropReason::Multicast),
            Action::Drop(entry) => {
                self.count(*entry, phv);
                return Err(DropReason::Blackhole);
            }
            Action::OnLink(port, entry) => {
                let v4 = headers.net == Net::Ipv4;
                let address = if v4 { key4(headers.dst_ip as u32) } else { headers.dst_ip };
                (Hop { address, port: *port }, entry)
            }
            Action::Via(gateways, entry) => (self.choose(gateways, headers), entry),
        };
        self.count(*entry, phv);
        if headers.ttl <= 1 {
            return Ok(Decision::Answer(Error::TimeExceeded, DropReason::TtlExpired));
        }
        Ok(match self.neighbours.table.get(hop.address) {
            Some(&neighbour) if neighbour.port == hop.port => Decision::Forward { hop, neighbour },
            _ => Decision::Resolve(hop),
        })
    }

    /// The gateway of the packet's flow; when its port is down, the next whose port is up.
    #[inline(always)]
    fn choose(&self, gateways: &Gateways, headers: &Headers) -> Hop {
        let hops = &gateways.hops;
        let first = match hops.len() {
            1 => return hops[0],
            _ => gateways.range.slot(self.flow_hash(headers)) as usize,
        };
        let up = |hop: &&Hop| self.ports.get(usize::from(hop.port)).is_some_and(RoutedPort::is_up);
        *hops[first..].iter().chain(&hops[..first]).find(up).unwrap_or(&hops[first])
    }

    /// An index hash: one CRC would send all flows of ports in a row to one of two gateways under
    /// one polynomial in 16. Fragments have no ports but in the first, and must stay together.
    fn flow_hash(&self, headers: &Headers) -> u32 {
        let whole = headers.fragment == Fragment::Whole;
        let (sport, dport) = if whole { (headers.sport, headers.dport) } else { (0, 0) };
        let headers = Headers { sport, dport, ..*headers };
        match headers.net {
            Net::Ipv4 => self.ecmp.hash(0, &self.ecmp.key(Tuple4::of(&headers).bytes())),
            _ => self.ecmp.hash(0, &self.ecmp.key(Tuple6::of(&headers).bytes())),
        }
    }

    #[inline(always)]
    fn count(&self, entry: Entry, phv: &Phv) {
        if let Some(hits) = self.hits.get(entry.0 as usize) {
            hits.packets.add(1);
            hits.bytes.add(phv.wire_bytes.into());
        }
    }
}

impl Routes {
    /// Whether an address is a host's on this port's link.
    pub(super) fn is_on_link(&self, address: IpAddr, port: PortId) -> bool {
        let action = match address {
            IpAddr::V4(a) => self.v4.get(a.into()),
            IpAddr::V6(a) => self.v6.get(a.into()),
        };
        matches!(action, Some(Action::OnLink(on, _)) if *on == port)
    }
}
