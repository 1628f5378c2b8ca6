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
        whole(IPV6, &ipv6(8, 17, &[0xff; 8])),
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
