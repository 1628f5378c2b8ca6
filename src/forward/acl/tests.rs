//! The list against a naive one: each rule in turn, field by field.

use proptest::prelude::*;

use super::*;
use crate::forward::text::{PortNames, Word};
use crate::wire::{Fragment, Headers, Mac, Net};

fn ports() -> PortNames {
    PortNames::new(["a", "b", "c"].map(|name| (name.into(), false)))
}

/// The oracle: whether a rule matches, said as the documentation says it.
fn matches(rule: &Match, phv: &Phv, flags: Option<u8>) -> bool {
    let headers = &phv.headers;
    let ip = headers.net != Net::Other;
    let with_ports = ip && headers.l4 != 0 && [6, 17, 33, 113, 132, 136].contains(&headers.proto);
    let leading = |a: u128, b: u128, len: u32, width: u32| (0..len).all(|bit| (a ^ b) >> (width - 1 - bit) & 1 == 0);
    let mac = |asked: Option<MacPrefix>, mac: Mac| {
        asked.is_none_or(|prefix| leading(prefix.mac.to_u64().into(), mac.to_u64().into(), prefix.len, 48))
    };
    let address = |asked: Option<Prefix>, address: u128| match (asked, headers.net) {
        (None, _) => true,
        (Some(Prefix::V4 { address: asked, len }), Net::Ipv4) => leading(asked.into(), address, len, 32),
        (Some(Prefix::V6 { address: asked, len }), Net::Ipv6) => leading(asked, address, len, 128),
        _ => false,
    };
    let within = |asked: &Option<Vec<std::ops::RangeInclusive<u16>>>, there: bool, value: u16| {
        asked.as_ref().is_none_or(|ranges| there && ranges.iter().any(|range| range.contains(&value)))
    };
    rule.ports.as_ref().is_none_or(|ports| ports.contains(&phv.ingress))
        && mac(rule.src_mac, headers.src)
        && mac(rule.dst_mac, headers.dst)
        && rule.ethertype.is_none_or(|ethertype| ethertype == headers.ethertype)
        && within(&rule.vlan, true, headers.vid())
        && address(rule.src, headers.src_ip)
        && address(rule.dst, headers.dst_ip)
        && rule.proto.is_none_or(|number| ip && number == headers.proto)
        && within(&rule.sport, with_ports, headers.sport)
        && within(&rule.dport, with_ports, headers.dport)
        && rule.tcp_flags.is_none_or(|asked| flags.is_some_and(|flags| asked.matches(flags)))
        && rule.dscp.is_none_or(|dscp| ip && dscp == headers.tos >> 2)
        && rule.fragment.is_none_or(|asked| ip && asked.matches(headers.fragment))
}

fn range() -> impl Strategy<Value = std::ops::RangeInclusive<u16>> {
    prop_oneof![
        (0..6u16, 0..6u16).prop_map(|(a, b)| a.min(b)..=a.max(b)),
        any::<(u16, u16)>().prop_map(|(a, b)| a.min(b)..=a.max(b)),
        Just(u16::MAX..=u16::MAX),
    ]
}

fn ranges() -> impl Strategy<Value = Option<Vec<std::ops::RangeInclusive<u16>>>> {
    prop_oneof![3 => Just(None), 2 => prop::collection::vec(range(), 1..4).prop_map(Some)]
}

/// Addresses that share long prefixes.
fn bits() -> impl Strategy<Value = u128> {
    (0..3u128, 0..128u32, 0..128u32).prop_map(|(base, a, b)| base << 126 ^ 1 << a ^ 1 << b)
}

fn prefix() -> impl Strategy<Value = Option<Prefix>> {
    let v4 = (bits(), 0..=32u32).prop_map(|(bits, len)| Prefix::V4 { address: (bits >> 96) as u32, len });
    let v6 = (bits(), 0..=128u32).prop_map(|(address, len)| Prefix::V6 { address, len });
    prop_oneof![2 => Just(None), 1 => v4.prop_map(Some), 1 => v6.prop_map(Some)]
}

fn mac() -> impl Strategy<Value = Mac> {
    (0..4u8, prop_oneof![Just(0u8), Just(1), any::<u8>()]).prop_map(|(a, b)| Mac([2, 0, a, 0, 0, b]))
}

fn mac_prefix() -> impl Strategy<Value = Option<MacPrefix>> {
    prop_oneof![3 => Just(None), 1 => (mac(), 0..=48u32).prop_map(|(mac, len)| Some(MacPrefix { mac, len }))]
}

fn rule() -> impl Strategy<Value = Match> {
    let fragment = prop::sample::select(vec![
        FragmentMatch::Whole,
        FragmentMatch::Any,
        FragmentMatch::First,
        FragmentMatch::Later,
    ]);
    let layer2 = (
        prop::option::weighted(0.2, prop::collection::vec(0..3u16, 1..3)),
        mac_prefix(),
        mac_prefix(),
        prop::option::weighted(0.2, prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806])),
        ranges(),
    );
    let layer3 = (prefix(), prefix(), prop::option::weighted(0.3, prop::sample::select(vec![0u8, 1, 6, 17])));
    let rest = (
        ranges(),
        ranges(),
        prop::option::weighted(0.2, any::<(u8, u8)>().prop_map(|(mask, value)| Flags { mask, value: value & mask })),
        prop::option::weighted(0.2, 0..3u8),
        prop::option::weighted(0.2, fragment),
    );
    (layer2, layer3, rest).prop_map(|(l2, l3, rest)| {
        let (ports, src_mac, dst_mac, ethertype, vlan) = l2;
        let (src, dst, proto) = l3;
        let (sport, dport, tcp_flags, dscp, fragment) = rest;
        Match { ports, src_mac, dst_mac, ethertype, vlan, src, dst, proto, sport, dport, tcp_flags, dscp, fragment }
    })
}

fn packet() -> impl Strategy<Value = (Phv, Option<u8>)> {
    let net = prop::sample::select(vec![Net::Other, Net::Ipv4, Net::Ipv6]);
    let port = prop_oneof![0..6u16, any::<u16>(), Just(u16::MAX)];
    let fragment = prop::sample::select(vec![Fragment::Whole, Fragment::First, Fragment::Later]);
    let layer2 = (0..4u16, mac(), mac(), 0..8u16, any::<bool>());
    let layer3 = (net, bits(), bits(), prop::sample::select(vec![0u8, 1, 6, 17]), 0..12u8, fragment);
    let rest = (port.clone(), port, any::<bool>(), prop::option::of(any::<u8>()));
    (layer2, layer3, rest).prop_map(
        |((ingress, src, dst, vlan_tci, tagged), (net, a, b, proto, tos, fragment), rest)| {
            let (sport, dport, l4, flags) = rest;
            let v4 = |address: u128| if net == Net::Ipv4 { address >> 96 } else { address };
            let ethertype = [0x0806, 0x0800, 0x86dd][net as usize];
            let (src_ip, dst_ip, l4) = (v4(a), v4(b), u16::from(l4) * 34);
            let headers = Headers {
                src_ip,
                dst_ip,
                dst,
                src,
                ethertype,
                vlan_tci,
                tagged,
                net,
                proto,
                tos,
                fragment,
                sport,
                dport,
                l4,
                ..Headers::default()
            };
            (Phv { headers, ingress, wire_bytes: 100, ..Phv::default() }, flags)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_a_linear_search(
        rules in prop::collection::vec((rule(), 0..8u8), 0..150),
        packets in prop::collection::vec(packet(), 30),
        permit in any::<bool>(),
    ) {
        let list: Vec<(Rule, u16)> = (0..).zip(rules).map(|(slot, (matches, kind))| {
            let action = [Action::Permit, Action::Deny, Action::Count][usize::from(kind % 3)];
            let mirror = (kind > 5 && action != Action::Count).then_some(2);
            (Rule { name: slot.to_string(), matches, action, mirror }, slot)
        }).collect();
        let acl = Acl::new(&list, permit);
        let counts = RuleCounts::default();
        let mut expected = vec![0u64; list.len() + 1];
        for (phv, flags) in &packets {
            let mut decision = Decision { permit, mirror: None };
            let mut last = list.len();
            for (at, (rule, _)) in list.iter().enumerate().filter(|(_, (rule, _))| matches(&rule.matches, phv, *flags)) {
                if rule.action != Action::Count {
                    decision = Decision { permit: rule.action == Action::Permit, mirror: rule.mirror };
                    last = at;
                    break;
                }
                expected[at] += 1;
            }
            expected[last] += 1;
            prop_assert_eq!(acl.decide(phv, *flags, &counts), decision);
        }
        for (slot, packets) in expected.into_iter().enumerate() {
            let slot = if slot == list.len() { DEFAULT_SLOT } else { slot };
            prop_assert_eq!(counts.get(slot), Counted { packets, bytes: 100 * packets });
        }
    }

    /// Any words: refused with a key, or a rule that can be searched.
    #[test]
    fn words_never_panic(words in prop::collection::vec("[a-z0-9:./,!-]{0,12}", 13)) {
        let word = |n: usize| Some(Word(words[n].clone())).filter(|word| !word.0.is_empty());
        let config = RuleConfig {
            action: Some(Word("deny".into())), port: word(0), src_mac: word(1), dst_mac: word(2), ethertype: word(3),
            vlan: word(4), src: word(5), dst: word(6), proto: word(7), sport: word(8), dport: word(9), tcp_flags: word(10),
            dscp: word(11), fragment: word(12), ..RuleConfig::default()
        };
        if let Ok(rule) = config.rule("x", &ports()) {
            assert!(rule.matches.tcam_rows() > 0);
            Acl::new(&[(rule, 0)], true);
        }
    }
}

fn config(json: serde_json::Value) -> Result<Rule, String> {
    let config: RuleConfig = serde_json::from_value(json).map_err(|e| e.to_string())?;
    config.rule("rule1", &ports()).map_err(|wrong| wrong.to_string())
}

#[test]
fn words_become_rules() {
    let rule = config(serde_json::json!({
        "action": "deny", "mirror": "c", "port": "a,b", "src": "10.0.0.0/8", "dst": "192.0.2.1", "proto": "tcp",
        "dport": "22,80-443", "tcp_flags": "syn,!ack", "dscp": 46, "vlan": 10, "ethertype": "0x0800", "fragment": "whole",
        "src_mac": "02:00:00:00:00:00/24", "dst_mac": "02:00:00:00:00:01",
    }))
    .unwrap();
    assert_eq!((rule.name.as_str(), rule.action, rule.mirror), ("rule1", Action::Deny, Some(2)));
    let Match { ports, src, dst, proto, dport, tcp_flags, dscp, vlan, ethertype, fragment, src_mac, .. } = rule.matches;
    assert_eq!((ports, proto, dscp, ethertype), (Some(vec![0, 1]), Some(6), Some(46), Some(0x0800)));
    assert_eq!(src, Some(Prefix::V4 { address: 0x0a00_0000, len: 8 }));
    assert_eq!(dst, Some(Prefix::V4 { address: 0xc000_0201, len: 32 }));
    assert_eq!((dport, vlan), (Some(vec![22..=22, 80..=443]), Some(vec![10..=10])));
    assert_eq!(tcp_flags, Some(Flags { mask: 0x12, value: 0x02 }));
    assert_eq!((fragment, src_mac.map(|mac| mac.len)), (Some(FragmentMatch::Whole), Some(24)));
}

#[test]
fn wrong_words_say_what_would_be_right() {
    for (key, value, says) in [
        ("action", "drop", "action = drop: one of permit, deny, count"),
        ("port", "a,z", "port = z: a port's name (a, b, c)"),
        ("mirror", "z", "mirror = z: a port's name"),
        ("src", "10.0.0.0/33", "src = 10.0.0.0/33: an address or a prefix such as"),
        ("dst", "fd00::1/129", "dst = fd00::1/129: an address or a prefix"),
        ("src_mac", "2:0", "src_mac = 2:0: a MAC address such as"),
        ("ethertype", "ip", "ethertype = ip: one of ipv4, ipv6, arp, or a number"),
        ("proto", "300", "proto = 300: one of tcp, udp"),
        ("dport", "443-80", "dport = 443-80: the lower end of a range first"),
        ("sport", "70000", "sport = 70000: numbers from 0 to 65535"),
        ("sport", "1,2,3,4,5,6,7,8,9", "at most 8 of them"),
        ("vlan", "4095", "vlan = 4095: numbers from 0 to 4094"),
        ("tcp_flags", "syn,syn", "tcp_flags = syn,syn: some of fin, syn, rst"),
        ("dscp", "64", "dscp = 64: a whole number from 0 to 63"),
        ("fragment", "some", "fragment = some: one of whole, any, first, later"),
        ("name", "a b", "name = \"a b\": 1 to 32 letters"),
        ("sprot", "1", "unknown field `sprot`, expected one of `name`, `action`"),
    ] {
        let mut json = serde_json::json!({"action": "deny"});
        json[key] = value.into();
        let error = config(json).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    let both = config(serde_json::json!({"action": "deny", "src": "10.0.0.1", "dst": "fd00::1"}));
    assert_eq!(both.unwrap_err(), "dst = fd00::1: an address of the same IP version as src");
    let ports = config(serde_json::json!({"action": "deny", "proto": "icmp", "dport": 80}));
    assert_eq!(ports.unwrap_err(), "dport = 80: with a proto that has ports: tcp, udp, sctp, udplite, dccp, pgm");
    for proto in ["sctp", "udplite", "dccp", "pgm", "132"] {
        assert!(config(serde_json::json!({"action": "deny", "proto": proto, "dport": 80})).is_ok(), "{proto}");
    }
    let count = config(serde_json::json!({"action": "count", "mirror": "a"}));
    assert_eq!(count.unwrap_err(), "mirror = a: with the action permit or deny");
}

#[test]
fn a_trace_tells_what_decides_and_counts_nothing() {
    let rule = |name: &str, action, matches| Rule { name: name.into(), matches, action, mirror: None };
    let tcp = Match { proto: Some(6), ..Match::default() };
    let rules = [(rule("all", Action::Count, Match::default()), 0), (rule("tcp", Action::Deny, tcp), 1)];
    let (acl, counts) = (Acl::new(&rules, true), RuleCounts::default());
    let told = |phv: &Phv| {
        let lookups = acl.trace(phv, None);
        lookups.into_iter().map(|lookup| (lookup.entry.unwrap_or_default(), lookup.action)).collect::<Vec<_>>()
    };
    let mut phv = Phv::default();
    phv.headers.net = Net::Ipv4;
    phv.headers.proto = 17;
    let counted = ("rule all".to_owned(), "count".to_owned());
    assert_eq!(told(&phv), [counted.clone(), (String::new(), "permit by default".into())]);
    assert!(acl.decide(&phv, None, &counts).permit);
    phv.headers.proto = 6;
    assert_eq!(told(&phv), [counted, ("rule tcp".into(), "deny".into())]);
    assert_eq!(counts.get(1).packets, 0);
    assert!(!acl.decide(&phv, None, &counts).permit);
}
