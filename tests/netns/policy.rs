//! Access control, limits, mirrors and VLANs between real hosts, changed while traffic flows.

use std::time::Duration;

use serde_json::Value;

use crate::common::{Host, Iperf, Lab, Link, Protocol, Weir, eventually, pcap};

fn row(weir: &Weir, table: &str, key: &str, value: &str) -> Value {
    let rows = weir.ask(&format!("table show {table}"));
    rows["rows"].as_array().unwrap().iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("{rows:#}")).clone()
}

fn hits(weir: &Weir, rule: &str) -> u64 {
    row(weir, "acl", "name", rule)["hit_packets"].as_u64().unwrap()
}

#[test]
fn acl_denies_and_counts() {
    let Some(lab) = Lab::new("acl_denies_and_counts") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--forward xconnect");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    weir.ask("table add acl name=no-ping proto=icmp action=deny");
    assert!(!a.ping(b, "-c 2 -W 1"), "denied");
    assert!(a.ping6(b, "-c 2"), "ICMPv6 is another protocol");
    assert!(hits(&weir, "no-ping") >= 2);
    weir.ask("table add acl name=but-a proto=icmp action=permit at=1");
    assert!(a.ping(b, "-c 2"), "permitted by the rule before");
    assert!(hits(&weir, "but-a") >= 4 && hits(&weir, "no-ping") >= 2);

    let iperf = Iperf::serve(b);
    let running = iperf.start(a, Protocol::Tcp, "--time 3");
    std::thread::sleep(Duration::from_millis(800));
    weir.ask("table add acl name=seen proto=tcp dport=5201 action=count at=1");
    let received = running.finish();
    assert!(received.bits_per_second > 1e6, "{received:?}");
    assert!(hits(&weir, "seen") > 100);

    weir.ask("table add acl name=no-iperf proto=tcp dport=5201 tcp_flags=syn,!ack action=deny at=1");
    let client = "iperf3 --connect-timeout 1000 --time 1 --client 10.0.0.2";
    assert!(!a.space.succeeds(client), "a new connection is denied");
    assert!(a.ping(b, "-c 1"));
    weir.ask("table remove acl name=no-iperf");
    assert!(a.space.succeeds(client));
    let refused = weir.try_ask("table add acl name=x action=drop");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("action = drop: one of permit, deny, count"));
    let totals = weir.stop();
    assert!(totals.dropped("acl_deny") >= 3, "{}", totals.0);
}

#[test]
fn a_limit_holds() {
    let Some(lab) = Lab::new("a_limit_holds") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--forward learn");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let iperf = Iperf::serve(b);
    for (key, reason) in [("port=port2 direction=tx", "tx_limit"), ("port=port1 direction=rx", "rx_limit")] {
        weir.ask(&format!("table set limits {key} limit=20Mbps,burst=64KB"));
        let udp = iperf.run(a, Protocol::Udp, "--time 4 --bitrate 60M");
        // Of 1242 bytes that count 1200 are payload.
        let passed = udp.bits_per_second * (1.0 - udp.lost_percent / 100.0) * 1242.0 / 1200.0;
        assert!((18e6..22e6).contains(&passed), "{reason}: {passed} of {udp:?}");
        weir.ask(&format!("table remove limits {key}"));
    }
    let totals = weir.stop();
    assert!(totals.dropped("tx_limit") > 1000 && totals.dropped("rx_limit") > 1000, "{}", totals.0);
}

/// Puts a capture's frames on a host's interface.
fn play(lab: &Lab, host: &Host, frames: &[Vec<u8>]) {
    pcap::write(&lab.path("in.pcap"), frames);
    let words = format!("--forward xconnect --port in=pcap:in.pcap --port out=veth:{host}");
    let source = Weir::start(lab, &host.space, "source", &words);
    eventually("the frames to be sent", || (tx(&source, "out") >= frames.len() as u64).then_some(()));
    source.stop();
}

/// Writes down what arrives at a host.
fn sink(lab: &Lab, host: &Host) -> Weir {
    let words = format!("--forward xconnect --port in=veth:{host} --port out=pcap:,{host}.pcap");
    Weir::start(lab, &host.space, &format!("sink-{host}"), &words)
}

fn tx(weir: &Weir, port: &str) -> u64 {
    let ports = weir.ask("show ports");
    ports["ports"].as_array().unwrap().iter().find(|p| p["name"] == port).unwrap()["tx_packets"].as_u64().unwrap()
}

fn caught(lab: &Lab, host: &Host, sink: Weir, sent: u64) -> Vec<Vec<u8>> {
    eventually("the frames to arrive", || (tx(&sink, "out") >= sent).then_some(()));
    std::thread::sleep(Duration::from_millis(200));
    sink.stop();
    pcap::read(&lab.path(&format!("{host}.pcap")))
}

#[test]
fn a_mirror_sees_both_directions() {
    let Some(lab) = Lab::new("a_mirror_sees_both_directions") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 3, "--forward xconnect --pair port1,port2");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    weir.ask("table add mirrors from=port1 to=port3");
    let monitor = sink(&lab, c);
    assert!(a.ping(b, "-c 5"));
    let seen = caught(&lab, c, monitor, 10);
    // IPv4, ICMP; type 8 is a request, 0 its reply.
    let icmp = |kind: u8| seen.iter().filter(|f| f[12..14] == [8, 0] && f[23] == 1 && f[34] == kind).count();
    assert_eq!((icmp(8), icmp(0)), (5, 5));
    assert!(row(&weir, "mirrors", "from", "port1")["copied_packets"].as_u64().unwrap() >= 10);
    lab.switch.run("ip link set p3 down");
    let down = || weir.ask("show ports")["ports"][2]["link_up"] == false;
    eventually("the switch to see that the link is down", || down().then_some(()));
    assert!(a.ping(b, "-c 5"), "a mirror that is down takes nothing away");
    let totals = weir.stop();
    assert!(totals.port("port3")["drops"]["mirror"].as_u64().unwrap() >= 10, "{}", totals.0);
}

/// A switch whose ports are configured in a file.
fn configured(lab: &Lab, hosts: usize, keys: &[&str]) -> (Weir, Vec<Host>) {
    let ports = lab.ports(Link::Veth, hosts);
    let port = |(n, keys): (usize, &&str)| format!("[[port]]\nname = \"port{n}\"\ndev = \"veth:p{n}\"\n{keys}\n");
    std::fs::write(lab.path("weir.toml"), (1..).zip(keys).map(port).collect::<String>()).unwrap();
    let weir = Weir::start(lab, &lab.switch, "switch", "-c weir.toml");
    (weir, ports.connect())
}

#[test]
fn access_ports_keep_to_their_vlan() {
    let Some(lab) = Lab::new("access_ports_keep_to_their_vlan") else { return };
    let (weir, hosts) = configured(&lab, 3, &["vlan = 10", "vlan = 10", "vlan = 20"]);
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    assert!(!a.ping(c, "-c 2 -W 1"), "another VLAN");
    weir.ask("table set vlans port=port3 vlan=10");
    a.reaches(c);
    b.reaches(c);
    weir.stop();
}

#[test]
fn qinq_carries_customers_frames() {
    let Some(lab) = Lab::new("qinq_carries_customers_frames") else { return };
    let (weir, hosts) = configured(&lab, 4, &["qinq = 200", "trunk = [200]", "qinq = 200", "qinq = 300"]);
    let [a, b, c, d] = &hosts[..] else { unreachable!("four hosts") };
    a.reaches(c);
    let tagged = |n: u8| {
        let mut payload = vec![n; 60];
        let mut kind = 0x88b6u16;
        for depth in 0..n % 3 {
            payload = [&[0x60, 10 + depth][..], &kind.to_be_bytes(), &payload].concat();
            kind = 0x8100;
        }
        let mut frame = pcap::ethernet(0, 0x77, kind, &payload);
        frame[..6].fill(0xff);
        frame
    };
    let sent: Vec<_> = (0..90).map(tagged).collect();
    let (trunk, far, other) = (sink(&lab, b), sink(&lab, c), sink(&lab, d));
    play(&lab, a, &sent);
    let ours =
        |frames: Vec<Vec<u8>>| frames.into_iter().filter(|f| f[6..12] == [2, 0, 0, 0, 0, 0x77]).collect::<Vec<_>>();
    let carried: Vec<_> = sent
        .iter()
        .map(|frame| {
            let priority = if frame[12..14] == [0x81, 0] { 0x60 } else { 0 };
            [&frame[..12], &[0x88, 0xa8, priority, 200], &frame[12..]].concat()
        })
        .collect();
    let sorted = |mut frames: Vec<Vec<u8>>| {
        frames.sort();
        frames
    };
    assert!(sorted(ours(caught(&lab, c, far, 90))) == sorted(sent.clone()), "the far side gets what was sent");
    assert!(sorted(ours(caught(&lab, b, trunk, 90))) == sorted(carried), "the trunk carries it with the service tag");
    assert_eq!(ours(caught(&lab, d, other, 0)), Vec::<Vec<u8>>::new(), "another service");
    weir.stop();
}

#[test]
fn a_static_mac_stays() {
    let Some(lab) = Lab::new("a_static_mac_stays") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 3, "--forward learn");
    let [a, b, _] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    let link = b.space.run(&format!("ip -o link show dev {b}"));
    let mac = link.split_ascii_whitespace().skip_while(|word| *word != "link/ether").nth(1).expect("an address");
    let known = || weir.ask("table show macs").to_string().contains(mac);
    eventually("the address to be learned", || known().then_some(()));
    assert_eq!(row(&weir, "macs", "mac", mac)["port"], "port2");
    weir.ask(&format!("table set macs mac={mac} port=port3"));
    assert!(!a.ping(b, "-c 2 -W 1"), "its frames go elsewhere");
    assert_eq!(row(&weir, "macs", "mac", mac)["port"], "port3", "whatever it sends");
    weir.ask(&format!("table remove macs mac={mac}"));
    a.reaches(b);
    eventually("the address to be learned again", || known().then_some(()));
    assert_eq!(row(&weir, "macs", "mac", mac)["static"], false);
    weir.stop();
}
