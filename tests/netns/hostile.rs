//! Frames that no decent host sends: all are forwarded or counted, and decent hosts notice nothing.

use crate::common::{Lab, Link, Weir, eventually, pcap};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;

/// An IPv4 header that says of itself what the arguments say.
fn ipv4(version_and_words: u8, total: u16, fragment: u16, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![version_and_words, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 7]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend(rest);
    packet
}

fn ipv6(payload: u16, next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(payload.to_be_bytes());
    packet.extend([next, 64]);
    packet.extend([0x20; 32]);
    packet.extend(rest);
    packet
}

fn frames() -> Vec<Vec<u8>> {
    let whole = |ethertype, payload: &[u8]| pcap::ethernet(1, 9, ethertype, payload);
    let mut frames = vec![
        whole(IPV4, &[]),
        whole(IPV4, &ipv4(0x45, 20, 0, 6, &[])),
        whole(IPV4, &ipv4(0x45, 40, 0, 6, &[0; 3])),          // TCP cut short
        whole(IPV4, &ipv4(0x45, 0xffff, 0, 17, &[0; 8])),     // longer than the frame
        whole(IPV4, &ipv4(0x45, 3, 0, 17, &[0; 8])),          // shorter than its own header
        whole(IPV4, &ipv4(0x40, 28, 0, 17, &[0; 8])),         // no header at all
        whole(IPV4, &ipv4(0x4f, 68, 0, 6, &[0; 4])),          // options beyond the frame
        whole(IPV4, &ipv4(0x4f, 68, 0, 6, &[0xff; 48])),      // options with lengths of 255
        whole(IPV4, &ipv4(0x65, 28, 0, 17, &[0; 8])),         // wrong version
        whole(IPV4, &ipv4(0x45, 28, 0x3fff, 17, &[0xff; 8])), // a fragment at the far end
        whole(IPV4, &ipv4(0x45, 40, 0, 6, &[0xff; 20])),      // TCP with every flag
        whole(IPV4, &ipv4(0x45, 52, 0x2000, 17, &[0x11; 32])), // three fragments, each over the end of the one before
        whole(IPV4, &ipv4(0x45, 52, 0x2002, 17, &[0x22; 32])),
        whole(IPV4, &ipv4(0x45, 52, 0x0003, 17, &[0x33; 32])),
        whole(IPV4, &ipv4(0x45, 28, 0x2001, 6, &[0xff; 8])), // over the ports and flags of a first one
        whole(IPV4, &ipv4(0x45, 1500, 0x3ffe, 17, &[7; 1480])), // beyond 65 535 bytes
        whole(IPV4, &ipv4(0x46, 1484, 0, 1, &[[0x94, 0, 0, 0].as_slice(), &[7; 1460]].concat())), // an option of no length
        whole(IPV4, &ipv4(0x4f, 1500, 0, 1, &[[0x88, 41].as_slice(), &[7; 1438]].concat())), // one beyond the header
        whole(
            0x88a8,
            &[[0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0].as_slice(), &ipv4(0x45, 28, 0, 17, &[0; 8])].concat(),
        ),
        whole(IPV6, &ipv6(8, 17, &[0xff; 8])),
        whole(IPV6, &ipv6(16, 44, &[17, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 53, 0, 8, 0, 0])), // the same fragment twice
        whole(IPV6, &ipv6(16, 44, &[17, 0, 0, 1, 0, 0, 0, 1, 0xee, 0xee, 0, 54, 0, 8, 0, 0])),
        whole(IPV6, &ipv6(0xffff, 6, &[])),
        whole(IPV6, &ipv6(64, 0, &[0; 64])),     // hop-by-hop after hop-by-hop
        whole(IPV6, &ipv6(8, 44, &[44; 8])),     // fragment headers in a circle
        whole(IPV6, &ipv6(16, 43, &[0xff; 16])), // routing header of 2048 bytes
        whole(VLAN, &[0, 1, 0x81]),              // cut in the tag
        whole(VLAN, &[0x81, 0].repeat(700)),     // nothing but tags
        whole(0x88b5, &[0xff; 6]),               // a telemetry shim on a host port
        whole(0x88b5, &[0xff]),                  // half of one
        whole(46, &[0xaa; 46]),                  // 802.3, LLC
        whole(1500, &[0xaa; 3]),                 // 802.3, longer than the frame
        whole(IPV4, &ipv4(0x45, 1500, 0, 17, &[0; 1480])),
        vec![0; 1514],
        vec![0xff; 1514],
    ];
    // Every frame again, cut at every length: from a lone byte on.
    let all = frames.clone();
    frames.extend(all.iter().flat_map(|frame| (1..frame.len().min(100)).map(|length| frame[..length].to_vec())));
    frames
}

/// The frames come in by a capture, so that even those shorter than a header do.
#[test]
fn from_a_capture() {
    let Some(lab) = Lab::new("hostile::from_a_capture") else { return };
    let sent = frames();
    pcap::write(&lab.path("hostile.pcap"), &sent);
    let ports = lab.ports(Link::Veth, 2);
    let capture = "--port bad=pcap:hostile.pcap,out.pcap,infinite --program hashpipe:stages=6,slots=64";
    let weir = Weir::start(&lab, &lab.switch, "switch", &format!("{} {capture}", ports.arguments()));
    let hosts = ports.connect();
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    eventually("the frames to come in", || {
        let ports = weir.ask("show ports");
        let bad = ports["ports"].as_array()?.iter().find(|port| port["name"] == "bad")?.clone();
        (bad["rx_packets"].as_u64()? > 2 * sent.len() as u64).then_some(())
    });
    a.reaches(b);
    weir.ask("show heavy");
    weir.stop();
}

/// And through a kernel, to a tap or a veth port: the frames that it lets a sender send.
#[test]
fn from_a_host() {
    for link in [Link::Tap, Link::Veth] {
        let Some(lab) = Lab::new("hostile::from_a_host") else { return };
        let (weir, hosts) = lab.start(link, 3, "--program hashpipe:stages=6,slots=64");
        let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
        let sent: Vec<_> = frames().into_iter().filter(|frame| frame.len() >= 14).collect();
        pcap::write(&lab.path("hostile.pcap"), &sent);
        a.reaches(b);
        let source =
            Weir::start(&lab, &c.space, "source", "--forward xconnect --port in=pcap:hostile.pcap --port out=veth:h3");
        assert!(a.ping(b, "-c 10 -i 0.1"), "decent hosts go on");
        let sent = source.stop();
        assert!(sent.tx() > 0, "{}", sent.0);
        a.reaches(b);
        let totals = weir.stop();
        assert!(totals.port("port3")["rx_packets"].as_u64() > Some(0), "{}", totals.0);
    }
}

/// With checksums made right, so that it is not by them that every bent IPv4 header fails.
fn mended(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame.len() >= 34 && frame[12..14] == [8, 0] {
        let header = (usize::from(frame[14] & 15) * 4).clamp(20, frame.len() - 14);
        frame[24..26].fill(0);
        let sum = weir::wire::checksum::internet(&frame[14..14 + header]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

const TABLES: &str = r#"
[switch]
forward = "learn"
acl_default = "permit"
[[port]]
name = "bad"
dev = "pcap:hostile.pcap,,infinite"
rx_limit = "10kpps"
vlan = 5
[[port]]
name = "out"
dev = "null:rx=0"
vlan = 5
[[port]]
name = "mirror"
dev = "null:rx=0"
[[mirror]]
from = "bad"
to = "mirror"
[[acl]]
action = "deny"
fragment = "later"
[[acl]]
action = "deny"
proto = "tcp"
tcp_flags = "syn"
[[acl]]
action = "count"
dport = "1-70"
[[program]]
name = "hashpipe"
"#;

const ROUTER: &str = r#"
[switch]
forward = "route"
[[port]]
name = "bad"
dev = "pcap:hostile.pcap,,infinite"
addresses = ["10.0.1.1/24", "fd00:1::1/64"]
[[port]]
name = "out"
dev = "null:rx=0"
mtu = 576
addresses = ["10.0.2.1/24", "fd00:2::1/64"]
[[route]]
prefix = "0.0.0.0/0"
via = ["10.0.2.2"]
[[route]]
prefix = "::/0"
via = ["fd00:2::2"]
[[neighbour]]
address = "10.0.2.2"
port = "out"
mac = "02:00:00:00:00:c8"
[[neighbour]]
address = "fd00:2::2"
port = "out"
mac = "02:00:00:00:00:c8"
"#;

/// Through the tables of a port, and through a router with a narrow link: all is sent or counted.
#[test]
fn through_every_table() {
    let Some(lab) = Lab::new("hostile::through_every_table") else { return };
    let mut sent = frames();
    sent.extend(frames().iter().map(|frame| mended(frame)));
    pcap::write(&lab.path("hostile.pcap"), &sent);
    for (name, config) in [("tables", TABLES), ("router", ROUTER)] {
        std::fs::write(lab.path("weir.toml"), config).unwrap();
        let start = || Weir::start(&lab, &lab.switch, name, "-c weir.toml");
        let mut weir = start();
        if name == "router" {
            // Frames for anybody else go no further than their MAC.
            let addresses = weir.ask("table show addresses");
            let mac: Vec<u8> = addresses["rows"][0]["mac"].as_str().map(hex).expect("a MAC");
            weir.stop();
            sent.iter_mut().filter(|frame| frame.len() >= 6).for_each(|frame| frame[..6].copy_from_slice(&mac));
            pcap::write(&lab.path("hostile.pcap"), &sent);
            weir = start();
        }
        eventually("the frames to come in", || {
            let rx = weir.ask("show ports")["ports"][0]["rx_packets"].as_u64()?;
            (rx > 2 * sent.len() as u64).then_some(())
        });
        let totals = weir.stop();
        let reasons: &[&str] = match name {
            "tables" => &["runt", "bad_shim", "acl_deny", "rx_limit", "wrong_vlan"],
            _ => &["runt", "bad_header", "tagged", "not_routed"],
        };
        assert!(reasons.iter().all(|reason| totals.dropped(reason) > 0), "{:#}", totals.0);
        assert!(totals.tx() > 0, "{:#}", totals.0);
    }
}

fn hex(mac: &str) -> Vec<u8> {
    mac.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("hexadecimal")).collect()
}
