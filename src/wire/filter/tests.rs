use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// What an expression says, evaluated as it stands.
fn naive(expr: &Expr, headers: &Headers, frame: &[u8], bytes: u32) -> bool {
    match expr {
        Expr::Test(test) => test.holds(headers, frame, bytes),
        Expr::Not(inner) => !naive(inner, headers, frame, bytes),
        Expr::And(a, b) => naive(a, headers, frame, bytes) & naive(b, headers, frame, bytes),
        Expr::Or(a, b) => naive(a, headers, frame, bytes) | naive(b, headers, frame, bytes),
    }
}

/// A small world, so that tests hold often.
fn headers() -> impl Strategy<Value = Headers> {
    let addresses = (0..4u8, 0..4u8, 0..3u8, 0..3u8);
    let proto = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), Just(89), Just(132)];
    let tags = (any::<bool>(), any::<bool>(), 0..3u16, 0..3u16);
    (addresses, proto, 79..82u16, 79..82u16, 0..3u8, any::<[bool; 2]>(), tags).prop_map(
        |((src, dst, smac, dmac), proto, sport, dport, net, [l4, pppoe], (tagged, double, outer, inner))| {
            let net = [Net::Other, Net::Ipv4, Net::Ipv6][usize::from(net)];
            let address = |last: u8| match net {
                Net::Ipv6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into(),
                _ => u128::from(u32::from(Ipv4Addr::new(10, 0, 0, last))),
            };
            Headers {
                src_ip: address(src),
                dst_ip: address(dst),
                src: Mac([2, 0, 0, 0, 0, smac]),
                dst: Mac([2, 0, 0, 0, 0, dmac]),
                ethertype: match (pppoe, net) {
                    (true, Net::Other) => ethertype::PPPOE_DISCOVERY,
                    (true, _) => ethertype::PPPOE_SESSION,
                    (false, net) => [ethertype::ARP, ethertype::IPV4, ethertype::IPV6][net as usize],
                },
                tagged,
                inner_tags: u8::from(tagged && double),
                vlan_tci: 0x6000 | outer,
                inner_tci: 0x2000 | inner,
                net,
                proto: if net == Net::Other { 0 } else { proto },
                sport,
                dport,
                l3: 14,
                l4: if l4 { 34 } else { 0 },
                ..Headers::default()
            }
        },
    )
}

/// The headers of a PPPoE session behind the tags of a frame.
fn frame(headers: &Headers, session: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + headers.tag_bytes()];
    frame.extend([&[0x11, 0], &session.to_be_bytes()[..], &[0, 22, 0, 0x21]].concat());
    frame
}

/// A test as one writes it.
fn primitive() -> impl Strategy<Value = String> {
    let side = || prop_oneof![Just(""), Just("src "), Just("dst ")];
    prop_oneof![
        prop_oneof![
            Just("ip"),
            Just("ip6"),
            Just("arp"),
            Just("tcp"),
            Just("udp"),
            Just("icmp"),
            Just("icmp6"),
            Just("vlan"),
            Just("pppoed"),
            Just("pppoes")
        ]
        .prop_map(str::to_owned),
        (0..3u16).prop_map(|n| format!("vlan {n}")),
        (0..3u16).prop_map(|n| format!("pppoes {n}")),
        (side(), 0..4u8).prop_map(|(side, n)| format!("{side}host 10.0.0.{n}")),
        (side(), 0..4u8).prop_map(|(side, n)| format!("{side}host fd00::{n}")),
        (side(), 0..2u8).prop_map(|(side, n)| format!("{side}net 10.0.0.{}/31", 2 * n)),
        (side(), 0..2u8).prop_map(|(side, n)| format!("ip6 {side}net fd00::{}/127", 2 * n)),
        (side(), 79..82u16).prop_map(|(side, n)| format!("tcp {side}port {n}")),
        (side(), 79..82u16, 0..3u16).prop_map(|(side, n, m)| format!("{side}port {n}-{}", n + m)),
        (side(), 0..3u8).prop_map(|(side, n)| format!("ether {side}host 2:0:0:0:0:{n}")),
        (59..62u32).prop_map(|n| format!("less {n}")),
        (59..62u32).prop_map(|n| format!("greater {n}")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    primitive().prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|x| format!("not ({x})")),
            inner.clone().prop_map(|x| format!("!({x})")),
            proptest::collection::vec(inner.clone(), 2..4).prop_map(|all| format!("({})", all.join(")and("))),
            proptest::collection::vec(inner, 2..4).prop_map(|all| format!("({})", all.join(") || ("))),
        ]
    })
}

proptest! {
    /// Compiled and evaluated as it stands a filter says the same, in at most as many steps as it
    /// has tests.
    #[test]
    fn compiled_is_naive(text in text(), headers in headers(), session in 0..3u16, bytes in 58..63u32) {
        match text.parse::<Filter>() {
            Ok(filter) => {
                let expr = parse::parse(&text).unwrap().unwrap();
                let frame = frame(&headers, session);
                let naive = naive(&expr, &headers, &frame, bytes);
                prop_assert_eq!(filter.matches(&headers, &frame, bytes), naive, "{}", text);
            }
            Err(error) => prop_assert!(error.why.contains("more than 64 tests"), "{}", error),
        }
    }

    #[test]
    fn any_text_is_a_filter_or_an_error_that_points(text in "[ a-z0-9()!&|:./-]{0,60}|\\PC{0,40}", headers in headers()) {
        match text.parse::<Filter>() {
            Ok(filter) => { filter.matches(&headers, &[0; 60], 60); }
            Err(error) => {
                prop_assert!(error.text.get(error.at.clone()).is_some());
                prop_assert!(error.to_string().contains('^'));
            }
        }
    }
}

fn matches(filter: &str, headers: &Headers) -> bool {
    filter.parse::<Filter>().unwrap_or_else(|error| panic!("{error}")).matches(headers, &frame(headers, 9), 100)
}

/// Each word against a packet by hand, so that the naive evaluator's own tests are tested.
#[test]
fn words_mean_what_they_say() {
    let ip = |last| u128::from(u32::from(Ipv4Addr::new(10, 0, 0, last)));
    let (src, dst) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let ethernet = Headers { src, dst, tagged: true, vlan_tci: 0x6064, ethertype: 0x0800, ..Headers::default() };
    let packet = Headers {
        net: Net::Ipv4,
        proto: 6,
        src_ip: ip(1),
        dst_ip: ip(2),
        sport: 40_000,
        dport: 443,
        l4: 38,
        ..ethernet
    };
    for holds in [
        "",
        "  ",
        "ip",
        "tcp",
        "vlan",
        "vlan 100",
        "host 10.0.0.1",
        "src host 10.0.0.1",
        "dst net 10.0.0.0/8",
        "net 0.0.0.0/0",
        "port 443",
        "dst port 443",
        "port 1-500",
        "tcp port 443",
        "tcp dst port 443",
        "ip src host 10.0.0.1",
        "less 100",
        "greater 100",
        "ether host 02:00:00:00:00:02",
        "ether src host 2-0-0-0-0-1",
        "not udp",
        "not not tcp",
        "udp or (tcp and vlan 100)",
        "!(udp||arp)&&ip",
        "tcp and port 443 and host 10.0.0.2",
    ] {
        assert!(matches(holds, &packet), "{holds}");
    }
    for fails in [
        "ip6",
        "arp",
        "udp",
        "icmp",
        "icmp6",
        "vlan 6",
        "host 10.0.0.3",
        "dst host 10.0.0.1",
        "host ::a00:1",
        "net ::/0",
        "port 80",
        "src port 443",
        "udp port 443",
        "less 99",
        "greater 101",
        "ether dst host 02:00:00:00:00:01",
        "not tcp",
    ] {
        assert!(!matches(fails, &packet), "{fails}");
    }
    let later_fragment = Headers { sport: 0, dport: 0, l4: 0, ..packet };
    assert!(matches("tcp", &later_fragment) && !matches("port 0", &later_fragment), "a later fragment has no ports");
    let qinq = Headers { inner_tags: 1, inner_tci: 7, ..packet };
    assert!(matches("vlan 100 and vlan 7", &qinq) && !matches("vlan 7", &packet));
    let four = Headers { inner_tags: 3, deeper_tcis: [8, 0xe009], ..qinq };
    assert!(matches("vlan 100 and vlan 7 and vlan 8 and vlan 9", &four) && !matches("vlan 9", &qinq));
    for bare in [packet, qinq, four, Headers { tagged: false, ..packet }] {
        let session = Headers { ethertype: ethertype::PPPOE_SESSION, ..bare };
        for holds in ["pppoes", "pppoes 9", "pppoes and tcp port 443", "tcp and pppoes 9", "ip host 10.0.0.1"] {
            assert!(matches(holds, &session), "{holds}");
        }
        let discovery = Headers { ethertype: ethertype::PPPOE_DISCOVERY, net: Net::Other, ..bare };
        assert!(matches("pppoed and not pppoes", &discovery) && !matches("pppoes 9", &discovery));
        for fails in ["pppoes 8", "pppoed"] {
            assert!(!matches(fails, &session), "{fails}");
        }
        assert!(!matches("pppoes", &bare) && !matches("pppoes 9", &bare) && !matches("pppoed", &bare));
        let one: Filter = "pppoes 9".parse().unwrap();
        assert!(!one.matches(&session, &frame(&session, 9)[..16], 100), "a frame that is cut before the number");
    }
}

#[test]
fn errors_point_at_the_word() {
    let wrong = |text: &str| text.parse::<Filter>().unwrap_err();
    for (text, word, why) in [
        ("tcp and hots 10.0.0.1", "hots", "not a word"),
        ("tcp port http", "http", "a port or two"),
        ("port 70000", "70000", "0 to 65535"),
        ("port 9-5", "9-5", "the lower one first"),
        ("host 10.0.0", "10.0.0", "an IPv4 or IPv6 address"),
        ("net 10.0.0.1/8", "10.0.0.1/8", "behind the first 8"),
        ("net fd00::/129", "fd00::/129", "at most 128"),
        ("net 10.0.0.0", "10.0.0.0", "a prefix"),
        ("ether host 02:00", "02:00", "an Ethernet address"),
        ("ether 02:00:00:00:00:01", "02:00:00:00:00:01", "`host`"),
        ("vlan 5000", "5000", "0 to 4095"),
        ("pppoes 70000", "70000", "0 to 65535"),
        ("tcp and ip or arp", "or", "parentheses"),
        ("tcp udp", "udp", "`and` or `or`"),
        ("(tcp", "", "closing parenthesis"),
        ("tcp)", ")", "nothing opens"),
        ("tcp and", "", "a test is missing"),
        ("and tcp", "and", "a test is missing"),
        ("10.0.0.1", "10.0.0.1", "write `host`"),
        ("tcp & udp", "&", "`and` or `or`"),
        ("icmp port 5", "port", "has none"),
        ("src 10.0.0.1", "10.0.0.1", "`host`, `net` or `port`"),
        ("less many", "many", "a number of bytes"),
        ("töpf", "töpf", "not a word"),
    ] {
        let error = wrong(text);
        assert_eq!(&error.text[error.at.clone()], word, "{error}");
        assert!(error.why.contains(why), "{error}");
    }
    let shown = wrong("tcp and hots 1").to_string();
    assert!(shown.ends_with("\n    tcp and hots 1\n            ^^^^"), "{shown}");
}

#[test]
fn what_is_too_much_is_refused() {
    let why = |text: String| text.parse::<Filter>().unwrap_err().why;
    assert!(why("(".repeat(1000)).contains("nested deeper"));
    assert!(why("!".repeat(1000) + "tcp").contains("nested deeper"));
    assert!(why(vec!["tcp"; 65].join(" or ")).contains("more than 64 tests"));
    assert!(vec!["tcp"; 64].join(" and ").parse::<Filter>().is_ok());
    assert!(why("a".to_owned() + &"ü".repeat(MAX_TEXT)).contains("bytes long"));
}
