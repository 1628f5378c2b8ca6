//! The fields of a packet that rules ask for.

use std::ops::RangeInclusive;

use arrayvec::ArrayVec;

use super::intervals::{Intervals, field};
use super::rule::range;
use super::{Match, Prefix};
use crate::pisa::Phv;
use crate::wire::{Fragment, Net};

/// Fields that a rule can ask for.
const FIELDS: usize = 13;

/// The fields that some rule asks for; the others cost a branch.
#[derive(Debug)]
pub(super) struct Fields {
    port: Option<Intervals<u16>>,
    src_mac: Option<Intervals<u64>>,
    dst_mac: Option<Intervals<u64>>,
    ethertype: Option<Intervals<u16>>,
    vlan: Option<Intervals<u16>>,
    src: Option<Addresses>,
    dst: Option<Addresses>,
    proto: Option<Intervals<u16>>,
    sport: Option<Intervals<u16>>,
    dport: Option<Intervals<u16>>,
    tcp_flags: Option<Intervals<u16>>,
    dscp: Option<Intervals<u16>>,
    fragment: Option<Intervals<u16>>,
}

/// IPv4 and IPv6 addresses have pieces of their own; a rule that names one kind matches no packet
/// of the other.
#[derive(Debug)]
struct Addresses {
    v4: Intervals<u32>,
    v6: Intervals<u128>,
}

impl Addresses {
    fn new(prefixes: &[Option<Prefix>]) -> Option<Self> {
        prefixes.iter().any(Option::is_some).then(|| {
            let v4 = prefixes.iter().map(|prefix| match prefix {
                None => None,
                Some(Prefix::V4 { address, len }) => Some(vec![range(*address, *len, 32)]),
                Some(Prefix::V6 { .. }) => Some(Vec::new()),
            });
            let v6 = prefixes.iter().map(|prefix| match prefix {
                None => None,
                Some(Prefix::V6 { address, len }) => Some(vec![range(*address, *len, 128)]),
                Some(Prefix::V4 { .. }) => Some(Vec::new()),
            });
            Self { v4: Intervals::new(&v4.collect::<Vec<_>>()), v6: Intervals::new(&v6.collect::<Vec<_>>()) }
        })
    }

    #[inline(always)]
    fn row(&self, net: Net, address: u128) -> &[u64] {
        match net {
            Net::Ipv4 => self.v4.row(Some(address as u32)),
            Net::Ipv6 => self.v6.row(Some(address)),
            Net::Other => self.v4.row(None),
        }
    }
}

impl Fields {
    pub fn new(rules: &[&Match]) -> Self {
        let one = |key: Option<u16>| key.map(|key| vec![key..=key]);
        let small = |get: &dyn Fn(&Match) -> Option<Vec<RangeInclusive<u16>>>| {
            field(rules.iter().map(|rule| get(rule)).collect())
        };
        let mac = |get: &dyn Fn(&Match) -> Option<RangeInclusive<u64>>| {
            field(rules.iter().map(|rule| get(rule).map(|range| vec![range])).collect())
        };
        let addresses = |get: &dyn Fn(&Match) -> Option<Prefix>| {
            Addresses::new(&rules.iter().map(|rule| get(rule)).collect::<Vec<_>>())
        };
        Self {
            port: small(&|rule| rule.ports.as_ref().map(|ports| ports.iter().map(|port| *port..=*port).collect())),
            src_mac: mac(&|rule| rule.src_mac.map(|prefix| prefix.range())),
            dst_mac: mac(&|rule| rule.dst_mac.map(|prefix| prefix.range())),
            ethertype: small(&|rule| one(rule.ethertype)),
            vlan: small(&|rule| rule.vlan.clone()),
            src: addresses(&|rule| rule.src),
            dst: addresses(&|rule| rule.dst),
            proto: small(&|rule| one(rule.proto.map(u16::from))),
            sport: small(&|rule| rule.sport.clone()),
            dport: small(&|rule| rule.dport.clone()),
            tcp_flags: small(&|rule| {
                let all = |flags: super::Flags| (0..=255u8).filter(move |value| flags.matches(*value));
                rule.tcp_flags.map(|flags| all(flags).map(|value| value.into()..=value.into()).collect())
            }),
            dscp: small(&|rule| one(rule.dscp.map(u16::from))),
            fragment: small(&|rule| {
                let kinds = [Fragment::Whole, Fragment::First, Fragment::Later].into_iter();
                rule.fragment
                    .map(|kind| kinds.filter(|fragment| kind.matches(*fragment)).map(|f| f as u16..=f as u16).collect())
            }),
        }
    }

    #[inline(always)]
    pub fn wants_flags(&self) -> bool {
        self.tcp_flags.is_some()
    }

    /// For each field that is asked for the rules that the packet's value matches.
    #[inline(always)]
    pub fn rows<'a>(&'a self, phv: &Phv, flags: Option<u8>) -> ArrayVec<&'a [u64], FIELDS> {
        let headers = &phv.headers;
        let ip = headers.net != Net::Other;
        let with_ports = headers.has_ports();
        let mut rows = ArrayVec::new();
        let mut add = |row: Option<&'a Intervals<u16>>, key: Option<u16>| {
            if let Some(field) = row {
                rows.push(field.row(key));
            }
        };
        add(self.port.as_ref(), Some(phv.ingress));
        add(self.ethertype.as_ref(), Some(headers.ethertype));
        add(self.vlan.as_ref(), Some(headers.vid()));
        add(self.proto.as_ref(), ip.then_some(headers.proto.into()));
        add(self.sport.as_ref(), with_ports.then_some(headers.sport));
        add(self.dport.as_ref(), with_ports.then_some(headers.dport));
        add(self.tcp_flags.as_ref(), flags.map(u16::from));
        add(self.dscp.as_ref(), ip.then_some((headers.tos >> 2).into()));
        add(self.fragment.as_ref(), ip.then_some(headers.fragment as u16));
        for (field, mac) in [(&self.src_mac, headers.src), (&self.dst_mac, headers.dst)] {
            if let Some(field) = field {
                rows.push(field.row(Some(mac.to_u64())));
            }
        }
        for (field, address) in [(&self.src, headers.src_ip), (&self.dst, headers.dst_ip)] {
            if let Some(field) = field {
                rows.push(field.row(headers.net, address));
            }
        }
        rows
    }
}
