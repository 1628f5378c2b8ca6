//! Rules as people write them.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Flags, FragmentMatch, MacPrefix, Match, Prefix, Rule};
use crate::forward::text::{self, PortNames, Word, Wrong, number, wrong};
use crate::text::is_name;
use crate::wire::{ethertype, proto};

/// Maximum ranges or ports in one key.
const MAX_LIST: usize = 8;

/// Forms of words for the JSON Schema: numbers and ranges, a MAC address or its leading bits, an
/// address or a prefix.
const RANGES: &str = r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?(,\s*[0-9]+\s*(-\s*[0-9]+\s*)?){0,7}$";
const MAC: &str = "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}(/(4[0-8]|[1-3]?[0-9]))?$";
const ADDRESS: &str = concat!(
    r"^(([0-9]{1,3}\.){3}[0-9]{1,3}(/0*(3[0-2]|[12]?[0-9]))?",
    r"|[0-9A-Fa-f.:]*:[0-9A-Fa-f.:]*(/0*(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$"
);

/// One rule of the access control list. What is left out may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["action"]))]
pub struct RuleConfig {
    /// The rule's name; by default rule1, rule2, … by its place.
    #[schemars(extend("pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$"))]
    pub name: Option<Word>,
    /// permit, deny, or count: the rules behind decide.
    #[schemars(extend("enum" = ["permit", "deny", "count"]))]
    pub action: Option<Word>,
    /// A port that a copy goes to; with permit or deny.
    pub mirror: Option<Word>,
    /// Ingress ports by name: "a" or "a,b".
    pub port: Option<Word>,
    /// Source MAC address, or its leading bits: "02:00:00:00:00:00/24".
    #[schemars(extend("type" = "string", "pattern" = MAC))]
    pub src_mac: Option<Word>,
    /// Destination MAC address, or its leading bits.
    #[schemars(extend("type" = "string", "pattern" = MAC))]
    pub dst_mac: Option<Word>,
    /// ipv4, ipv6, arp, or a number such as 0x88cc.
    #[schemars(extend("minimum" = 0, "maximum" = 65535, "pattern" = "^(ipv4|ipv6|arp|[0-9]+|0x[0-9A-Fa-f]+)$"))]
    pub ethertype: Option<Word>,
    /// VLANs, 0 for untagged frames: 10, "10-20" or "10,30-40".
    #[schemars(extend("minimum" = 0, "maximum" = 4094, "pattern" = RANGES))]
    pub vlan: Option<Word>,
    /// Source address or prefix, IPv4 or IPv6.
    #[schemars(extend("type" = "string", "pattern" = ADDRESS))]
    pub src: Option<Word>,
    /// Destination address or prefix.
    #[schemars(extend("type" = "string", "pattern" = ADDRESS))]
    pub dst: Option<Word>,
    /// tcp, udp, sctp, udplite, dccp, pgm, icmp, icmpv6, gre, esp, ah, or a number.
    #[schemars(extend("minimum" = 0, "maximum" = 255, "pattern" = "^(tcp|udp|sctp|udplite|dccp|pgm|icmp|icmpv6|gre|esp|ah|[0-9]{1,3})$"))]
    pub proto: Option<Word>,
    /// Source ports, of a transport that has them: 80, "80-443" or "22,80-443".
    #[schemars(extend("minimum" = 0, "maximum" = 65535, "pattern" = RANGES))]
    pub sport: Option<Word>,
    /// Destination ports, of a transport that has them.
    #[schemars(extend("minimum" = 0, "maximum" = 65535, "pattern" = RANGES))]
    pub dport: Option<Word>,
    /// TCP flags that are set, or with ! clear: "syn,!ack".
    #[schemars(extend("type" = "string", "pattern" = r"^\s*!?(fin|syn|rst|psh|ack|urg|ece|cwr)\s*(,\s*!?(fin|syn|rst|psh|ack|urg|ece|cwr)\s*){0,7}$"))]
    pub tcp_flags: Option<Word>,
    /// Differentiated services code point, 0 to 63.
    #[schemars(extend("minimum" = 0, "maximum" = 63, "pattern" = "^[0-9]{1,2}$"))]
    pub dscp: Option<Word>,
    /// whole, any (piece of a packet), first or later.
    #[schemars(extend("enum" = ["whole", "any", "first", "later"]))]
    pub fragment: Option<Word>,
}

const ETHERTYPES: [(&str, u16); 3] = [("ipv4", ethertype::IPV4), ("ipv6", ethertype::IPV6), ("arp", ethertype::ARP)];

const PROTOS: [(&str, u8); 11] = [
    ("tcp", proto::TCP),
    ("udp", proto::UDP),
    ("sctp", proto::SCTP),
    ("udplite", proto::UDP_LITE),
    ("dccp", proto::DCCP),
    ("pgm", proto::PGM),
    ("icmp", proto::ICMP),
    ("icmpv6", proto::ICMPV6),
    ("gre", proto::GRE),
    ("esp", proto::ESP),
    ("ah", proto::AUTHENTICATION),
];

/// From the lowest bit of the TCP header's fourteenth byte on.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

const FRAGMENTS: [(&str, FragmentMatch); 4] = [
    ("whole", FragmentMatch::Whole),
    ("any", FragmentMatch::Any),
    ("first", FragmentMatch::First),
    ("later", FragmentMatch::Later),
];

const ACTIONS: [(&str, Action); 3] = [("permit", Action::Permit), ("deny", Action::Deny), ("count", Action::Count)];

impl RuleConfig {
    /// The rule, called `name` when it has no name of its own.
    pub fn rule(&self, name: &str, ports: &PortNames) -> Result<Rule, Wrong> {
        let name = self.name.as_ref().map_or(name, |name| &name.0);
        if !is_name(name) {
            return Err(wrong("name", format!("{name:?}"), "1 to 32 letters, digits, '-', '_' and '.'"));
        }
        let action = self.action.as_ref().ok_or_else(|| wrong("action", "(missing)", "one of permit, deny, count"))?;
        let action = one_of("action", &action.0, &ACTIONS)?;
        let mirror = self.mirror.as_ref().map(|port| ports.id("mirror", &port.0)).transpose()?;
        if let (Some(mirror), Action::Count) = (&self.mirror, action) {
            return Err(wrong("mirror", &mirror.0, "with the action permit or deny"));
        }
        Ok(Rule { name: name.into(), matches: self.matches(ports)?, action, mirror })
    }

    fn matches(&self, ports: &PortNames) -> Result<Match, Wrong> {
        let matches = Match {
            ports: each(&self.port, |text| split("port", text)?.map(|name| ports.id("port", name)).collect())?,
            src_mac: each(&self.src_mac, |text| mac_prefix("src_mac", text))?,
            dst_mac: each(&self.dst_mac, |text| mac_prefix("dst_mac", text))?,
            ethertype: each(&self.ethertype, parse_ethertype)?,
            vlan: each(&self.vlan, |text| ranges("vlan", text, 4094))?,
            src: each(&self.src, |text| prefix("src", text))?,
            dst: each(&self.dst, |text| prefix("dst", text))?,
            proto: each(&self.proto, parse_proto)?,
            sport: each(&self.sport, |text| ranges("sport", text, u16::MAX))?,
            dport: each(&self.dport, |text| ranges("dport", text, u16::MAX))?,
            tcp_flags: each(&self.tcp_flags, tcp_flags)?,
            dscp: each(&self.dscp, |text| number("dscp", text, 0, 63))?,
            fragment: each(&self.fragment, |text| one_of("fragment", text, &FRAGMENTS))?,
        };
        self.can_match(&matches)?;
        Ok(matches)
    }

    /// Two keys that no packet has both are a mistake.
    fn can_match(&self, matches: &Match) -> Result<(), Wrong> {
        let v6 = |prefix: Option<Prefix>| prefix.map(|prefix| matches!(prefix, Prefix::V6 { .. }));
        if let (Some(a), Some(b), Some(dst)) = (v6(matches.src), v6(matches.dst), &self.dst)
            && a != b
        {
            return Err(wrong("dst", &dst.0, "an address of the same IP version as src"));
        }
        let with_ports = matches.proto.is_none_or(proto::has_ports);
        for (key, word) in [("sport", &self.sport), ("dport", &self.dport)] {
            if let (Some(word), false) = (word, with_ports) {
                return Err(wrong(key, &word.0, "with a proto that has ports: tcp, udp, sctp, udplite, dccp, pgm"));
            }
        }
        match (&self.tcp_flags, matches.proto.is_none_or(|number| number == proto::TCP)) {
            (Some(word), false) => Err(wrong("tcp_flags", &word.0, "with proto tcp")),
            _ => Ok(()),
        }
    }
}

fn each<T>(word: &Option<Word>, read: impl FnOnce(&str) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
    word.as_ref().map(|word| read(&word.0)).transpose()
}

fn one_of<T: Copy>(key: &'static str, text: &str, choices: &[(&str, T)]) -> Result<T, Wrong> {
    let found = choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
    let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| wrong(key, text, format!("one of {}", names())))
}

fn split<'a>(key: &'static str, text: &'a str) -> Result<impl Iterator<Item = &'a str>, Wrong> {
    let parts = text.split(',').map(str::trim);
    if parts.clone().count() > MAX_LIST {
        return Err(wrong(key, text, format!("at most {MAX_LIST} of them; another rule takes the rest")));
    }
    Ok(parts)
}

fn ranges(key: &'static str, text: &str, max: u16) -> Result<Vec<RangeInclusive<u16>>, Wrong> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let right = || wrong(key, text, format!("numbers from 0 to {max} and ranges such as 80-443"));
        let end = |text: &str| text.trim().parse::<u16>().ok().filter(|end| *end <= max).ok_or_else(right);
        let (low, high) = (end(low)?, end(high)?);
        if low <= high { Ok(low..=high) } else { Err(wrong(key, text, "the lower end of a range first")) }
    };
    split(key, text)?.map(range).collect()
}

fn parse_ethertype(text: &str) -> Result<u16, Wrong> {
    let number = text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u16::from_str_radix(hex, 16).ok());
    number.map_or_else(|| one_of("ethertype", text, &ETHERTYPES), Ok).map_err(|mut wrong| {
        wrong.right += ", or a number such as 0x88cc";
        wrong
    })
}

fn parse_proto(text: &str) -> Result<u8, Wrong> {
    text.parse().or_else(|_| one_of("proto", text, &PROTOS)).map_err(|mut wrong| {
        wrong.right += ", or a number from 0 to 255";
        wrong
    })
}

fn mac_prefix(key: &'static str, text: &str) -> Result<MacPrefix, Wrong> {
    let (mac, len) = text.split_once('/').unwrap_or((text, "48"));
    Ok(MacPrefix { mac: text::mac(key, mac)?, len: number(key, len, 0, 48)? })
}

fn prefix(key: &'static str, text: &str) -> Result<Prefix, Wrong> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let right = "an address or a prefix such as 10.0.0.0/8 or 2001:db8::/32";
    let len = |max| len.map_or(Ok(max), |len| number(key, len, 0, max).map_err(|_| wrong(key, text, right)));
    match address.parse().map_err(|_| wrong(key, text, right))? {
        IpAddr::V4(address) => Ok(Prefix::V4 { address: address.into(), len: len(32)? }),
        IpAddr::V6(address) => Ok(Prefix::V6 { address: address.into(), len: len(128)? }),
    }
}

fn tcp_flags(text: &str) -> Result<Flags, Wrong> {
    let mut flags = Flags { mask: 0, value: 0 };
    for part in text.split(',').map(str::trim) {
        let name = part.strip_prefix('!').unwrap_or(part);
        let right =
            || wrong("tcp_flags", text, format!("some of {}, each at most once, ! for clear", FLAGS.join(", ")));
        let bit = 1u8 << FLAGS.iter().position(|flag| *flag == name).ok_or_else(right)?;
        if flags.mask & bit != 0 {
            return Err(right());
        }
        flags.mask |= bit;
        flags.value |= if part == name { bit } else { 0 };
    }
    Ok(flags)
}
