//! While things go wrong: every packet is still forwarded or counted, and what worked works again afterwards.

use std::time::Duration;

use crate::common::{Host, Iperf, Lab, Link, Protocol, Weir};

fn pair(hosts: &[Host]) -> (&Host, &Host) {
    let [a, b] = hosts else { unreachable!("two hosts") };
    (a, b)
}

/// Traffic in both directions while something is done to the switch.
fn under_traffic(weir: Weir, hosts: &[Host], fault: impl FnOnce(&Weir)) -> crate::common::Totals {
    let (a, b) = pair(hosts);
    a.reaches(b);
    let iperf = Iperf::serve(b);
    let running = iperf.start(a, Protocol::Udp, "--time 20 --bitrate 20M --bidir");
    std::thread::sleep(Duration::from_millis(500));
    fault(&weir);
    a.reaches(b);
    b.reaches(a);
    drop(running);
    weir.stop()
}

fn port_command(test: &str, link: Link) {
    let Some(lab) = Lab::new(test) else { return };
    let (weir, hosts) = lab.start(link, 2, "");
    let (a, b) = pair(&hosts);
    let totals = under_traffic(weir, &hosts, |weir| {
        for _ in 0..2 {
            weir.ask("port down port2");
            assert!(!a.ping(b, "-c 2 -W 1"), "nothing passes a port that is down");
            weir.ask("port up port2");
            a.reaches(b);
        }
        assert_eq!(weir.try_ask("port down nonesuch").status.code(), Some(2));
    });
    assert!(totals.dropped("port_down") > 0, "what was for the port is counted: {}", totals.0);
}

#[test]
fn tap_port_down_and_up() {
    port_command("tap_port_down_and_up", Link::Tap);
}

#[test]
fn veth_port_down_and_up() {
    port_command("veth_port_down_and_up", Link::Veth);
}

#[test]
fn veth_interface_down_and_up() {
    let Some(lab) = Lab::new("veth_interface_down_and_up") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "");
    let (a, b) = pair(&hosts);
    under_traffic(weir, &hosts, |_| {
        for _ in 0..3 {
            lab.switch.run("ip link set p2 down");
            assert!(!a.ping(b, "-c 2 -W 1"), "nothing passes an interface that is down");
            lab.switch.run("ip link set p2 up");
            a.reaches(b);
        }
    });
}

#[test]
fn hosts_interface_flaps() {
    for link in [Link::Tap, Link::Veth] {
        let Some(lab) = Lab::new("hosts_interface_flaps") else { return };
        let (weir, hosts) = lab.start(link, 2, "");
        let (_, b) = pair(&hosts);
        under_traffic(weir, &hosts, |_| {
            for _ in 0..10 {
                b.space.run(&format!("ip link set {b} down"));
                std::thread::sleep(Duration::from_millis(50));
                b.space.run(&format!("ip link set {b} up"));
                std::thread::sleep(Duration::from_millis(50));
            }
            // The kernel takes IPv6 addresses away with the link, and IPv4 ones not.
        });
    }
}

/// A host's interface that is deleted takes the switch's end of a veth pair with it; the other ports go on.
#[test]
fn veth_interface_deleted() {
    let Some(lab) = Lab::new("veth_interface_deleted") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 3, "");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    a.reaches(c);
    c.space.run(&format!("ip link del {c}"));
    assert!(a.ping(b, "-c 5"), "the others go on");
    weir.stop();
}

#[test]
fn starved_mempool() {
    // DPDK's tap driver holds a buffer for each of a queue's 1024 descriptors: this leaves hardly any beside them.
    for (link, buffers) in [(Link::Tap, 2048 + 16), (Link::Veth, 256)] {
        let Some(lab) = Lab::new("starved_mempool") else { return };
        let (weir, hosts) = lab.start(link, 2, &format!("--buffers {buffers}"));
        let (a, b) = pair(&hosts);
        a.reaches(b);
        let iperf = Iperf::serve(b);
        // iperf3's own TCP connection may starve with the rest, so how it ends says nothing.
        let flood = iperf.start(a, Protocol::Udp, "--time 20 --bitrate 500M --parallel 4");
        std::thread::sleep(Duration::from_secs(2));
        drop(flood);
        drop(iperf);
        a.reaches(b);
        weir.stop();
    }
}
