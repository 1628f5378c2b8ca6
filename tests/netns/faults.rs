//! While things go wrong: every packet is still forwarded or counted, and what worked works again
//! afterwards.

use std::process::Stdio;
use std::time::Duration;

use crate::common::{Host, Iperf, Lab, Link, Protocol, Weir, eventually};

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
    under_traffic(weir, &hosts, |weir| {
        for _ in 0..3 {
            lab.switch.run("ip link set p2 down");
            let is_down = || weir.ask("show ports")["ports"][1]["link_up"] == false;
            eventually("the link to be called down", || is_down().then_some(()));
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

/// A host's interface that is deleted takes the switch's end of a veth pair with it; the other
/// ports go on, and what is on its way to that port is counted.
#[test]
fn veth_interface_deleted() {
    let Some(lab) = Lab::new("veth_interface_deleted") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 3, "");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    a.reaches(c);
    let mut ping = a.space.command("ping");
    ping.args(["-n", "-q", "-i", "0.001", "-w", "2", &c.address()]).stdout(Stdio::null());
    let mut ping = ping.spawn().expect("ping runs");
    std::thread::sleep(Duration::from_millis(500));
    c.space.run(&format!("ip link del {c}"));
    assert!(a.ping(b, "-c 5"), "the others go on");
    ping.wait().expect("ping ends");
    let totals = weir.stop();
    assert!(totals.dropped("port_down") > 0, "{}", totals.0);
}

fn count(ports: &serde_json::Value, port: usize, key: &str) -> u64 {
    ports["ports"][port][key].as_u64().expect("a count")
}

/// The interface under the second port goes and another one of its name comes, as when a container
/// is started again: the port says that it is down as long as it is, works again by itself, and
/// counts on.
fn interface_comes_back(test: &str, link: Link) {
    let Some(lab) = Lab::new(test) else { return };
    let (weir, hosts) = lab.start(link, 2, "--program hashpipe");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    let mut round = 0;
    for _ in 0..3 {
        let before = weir.ask("show ports");
        b.unplug();
        if link == Link::Tap {
            // The driver makes its interface itself.
            round += 1;
            eventually("it to be made", || (weir.log().matches("port opened again").count() == round).then_some(()));
            b.take_tap(&lab.switch);
        } else {
            eventually("the link to be down", || {
                (weir.ask("show ports")["ports"][1]["link_up"] == false).then_some(())
            });
            assert!(!a.ping(b, "-c 2 -W 1"), "nothing passes");
            b.plug_in(&lab.switch);
        }
        // The new interface has another address, which `a` hears of when `b` asks for its own.
        b.reaches(a);
        a.reaches(b);
        let after = weir.ask("show ports");
        assert_eq!(after["ports"][1]["link_up"], true);
        for key in ["rx_packets", "tx_packets"] {
            assert!(count(&after, 1, key) > count(&before, 1, key), "{key}: {after:#}");
        }
    }
    // Gone and back before anybody looks.
    if link != Link::Tap {
        b.unplug();
        b.plug_in(&lab.switch);
        b.reaches(a);
    }
    assert!(weir.log().matches("its interface is back").count() >= 3, "{}", weir.log());
    assert!(weir.log().contains("port opened again"), "{}", weir.log());
    let totals = weir.stop();
    assert_eq!(totals.0["removed"]["removed_ports"], 0, "it is the same port");
}

#[test]
fn veth_interface_comes_back() {
    interface_comes_back("veth_interface_comes_back", Link::Veth);
}

#[test]
fn tap_interface_comes_back() {
    interface_comes_back("tap_interface_comes_back", Link::Tap);
}

#[test]
fn xdp_interface_comes_back() {
    if crate::devices::xdp_works("xdp_interface_comes_back") {
        interface_comes_back("xdp_interface_comes_back", Link::Xdp);
    }
}

/// What happens to the interface of the second port while the switch runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trip {
    /// To another network namespace, and back.
    Moved,
    /// To another name, and back.
    Renamed,
    /// The port is taken out and added again, and the interface stays.
    Removed,
}

/// Goes away. What the switch can lose by it are packets, each of them counted.
fn away(lab: &Lab, weir: &Weir, host: &Host, link: Link, trip: Trip, elsewhere: &str) {
    match (trip, link) {
        (Trip::Removed, _) => drop(weir.ask("port remove port2")),
        (Trip::Moved, Link::Tap) => drop(host.space.run(&format!("ip link set {host} netns {elsewhere}"))),
        (Trip::Moved, _) => drop(lab.switch.run(&format!("ip link set p2 netns {elsewhere}"))),
        (Trip::Renamed, Link::Tap) => rename(&host.space, &host.interface(), "q2"),
        (Trip::Renamed, _) => rename(&lab.switch, "p2", "q2"),
    }
}

fn rename(space: &crate::common::Namespace, from: &str, to: &str) {
    space.run(&format!("ip link set {from} down"));
    space.run(&format!("ip link set {from} name {to}"));
    space.run(&format!("ip link set {to} up"));
}

fn back(lab: &Lab, weir: &Weir, host: &Host, link: Link, trip: Trip, elsewhere: &crate::common::Namespace) {
    let dev = match link {
        Link::Tap => format!("tap:{host}"),
        Link::Veth => "veth:p2".to_owned(),
        Link::Xdp => "xdp:p2".to_owned(),
    };
    match (trip, link) {
        (Trip::Removed, _) => drop(weir.ask(&format!("port add port2={dev}"))),
        (Trip::Moved, Link::Tap) => drop(elsewhere.run(&format!("ip link set {host} netns {}", host.space.id()))),
        (Trip::Moved, _) => drop(elsewhere.run(&format!("ip link set p2 netns {}", lab.switch.id()))),
        (Trip::Renamed, Link::Tap) => rename(&host.space, "q2", &host.interface()),
        (Trip::Renamed, _) => rename(&lab.switch, "q2", "p2"),
    }
    match (trip, link) {
        (Trip::Removed, Link::Tap) => host.take_tap(&lab.switch),
        (_, Link::Tap) => host.configure_again(),
        _ => {}
    }
}

/// The packets that a host has sent and received less those that the switch has counted, once nothing
/// is under way. A kernel sends by itself at any time, so the switch is asked between two equal counts
/// of the host.
fn beyond(weir: &Weir, host: &Host) -> [i128; 2] {
    let differences = || {
        let counts = host.counts();
        let ports = weir.ask("show ports");
        let ports = ports["ports"].as_array().expect("ports");
        let port = ports.iter().find(|port| port["name"] == format!("port{}", host.number())).expect("the port");
        let number = |value: &serde_json::Value| i128::from(value.as_u64().expect("a count"));
        let device = port["device"].as_object().expect("losses").iter();
        let missed: i128 = device.filter(|(why, _)| why.starts_with("rx_")).map(|(_, n)| number(n)).sum();
        let switch = [number(&port["rx_packets"]) + missed, number(&port["tx_packets"])];
        (host.counts() == counts).then(|| [0, 1].map(|way| i128::from(counts[way]) - switch[way]))
    };
    eventually("nothing to be under way", || {
        let first = differences()?;
        std::thread::sleep(Duration::from_millis(150));
        (Some(first) == differences()).then_some(first)
    })
}

/// Wherever the interface of a port was meanwhile: once it is back, packets pass in both directions
/// as before, and hosts and switch count the same.
fn trips(test: &str, link: Link) {
    for trip in [Trip::Moved, Trip::Renamed, Trip::Removed] {
        let Some(lab) = Lab::new(test) else { return };
        let (weir, hosts) = lab.start(link, 2, "");
        let elsewhere = lab.switch.sibling();
        // The kernel under the switch is to say nothing by itself on an interface that comes.
        let silent = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        assert!(lab.switch.command("sh").args(["-c", silent]).status().expect("runs").success());
        let (a, b) = pair(&hosts);
        crate::counts::small_frames(&hosts);
        a.reaches(b);
        for round in 0..3 {
            away(&lab, &weir, b, link, trip, &elsewhere.id());
            if link != Link::Tap && trip != Trip::Removed && round > 0 {
                eventually("the link to be down", || {
                    (weir.ask("show ports")["ports"][1]["link_up"] == false).then_some(())
                });
                assert!(!a.ping(b, "-c 2 -W 1"), "nothing passes");
            }
            back(&lab, &weir, b, link, trip, &elsewhere);
            b.reaches(a);
            a.reaches(b);
            let before = beyond(&weir, b);
            assert!(a.ping(b, "-c 20 -i 0.01") && b.ping(a, "-c 20 -i 0.01"), "{link:?} {trip:?}");
            assert_eq!(beyond(&weir, b), before, "{link:?} {trip:?}, round {round}");
        }
        weir.stop();
    }
}

#[test]
fn tap_interface_on_its_trips() {
    trips("tap_interface_on_its_trips", Link::Tap);
}

#[test]
fn veth_interface_on_its_trips() {
    trips("veth_interface_on_its_trips", Link::Veth);
}

#[test]
fn xdp_interface_on_its_trips() {
    if crate::devices::xdp_works("xdp_interface_on_its_trips") {
        trips("xdp_interface_on_its_trips", Link::Xdp);
    }
}

/// Without the rights to open it the port stays down, says why, and opens when the switch is
/// started again.
#[test]
fn an_interface_that_comes_back_without_rights_to_it() {
    let Some(lab) = Lab::new("an_interface_that_comes_back_without_rights_to_it") else { return };
    std::fs::write(lab.path("weir.toml"), "[switch]\nruntime_ports = false\n").expect("writes");
    let (weir, hosts) = lab.start(Link::Veth, 3, "--config weir.toml");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    b.unplug();
    b.plug_in(&lab.switch);
    eventually("the reason", || weir.log().contains("with runtime_ports = false it takes a restart").then_some(()));
    assert_eq!(weir.ask("show ports")["ports"][1]["link_up"], false);
    assert!(!a.ping(b, "-c 1 -W 1"), "nothing passes");
    a.reaches(c);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(weir.log().matches("with runtime_ports = false").count(), 1, "told once: {}", weir.log());
    weir.stop();
    let again = Weir::start(&lab, &lab.switch, "again", "--port a=veth:p1 --port b=veth:p2");
    b.reaches(a);
    again.stop();
}

/// What an xdp port had taken when its interface went, and the kernel had not, is no sent packet
/// but a lost one.
#[test]
fn xdp_counts_what_a_vanished_interface_loses() {
    let test = "xdp_counts_what_a_vanished_interface_loses";
    let Some(lab) = crate::devices::xdp_works(test).then(|| Lab::new(test)).flatten() else { return };
    let (weir, hosts) = lab.start(Link::Xdp, 2, "--forward xconnect");
    let (a, b) = pair(&hosts);
    a.reaches(b);
    let (mut sent, mut dropped) = (0, 0);
    // Where the switch finds the interface gone before it sends, nothing is lost in it.
    for _ in 0..5 {
        let link = b.space.run(&format!("ip -br link show {b}"));
        let mac = link.split_whitespace().nth(2).expect("name, state, address");
        a.space.run(&format!("ip neigh replace {} lladdr {mac} dev {a} nud permanent", b.address()));
        let signal = |name: &str| lab.switch.run(&format!("kill -{name} {}", weir.id()));
        let before = weir.ask("show ports");
        signal("STOP");
        a.space.try_run(&format!("ping -n -q -l 200 -c 200 -W 1 {}", b.address()));
        b.unplug();
        signal("CONT");
        let all = eventually("the packets to be forwarded or dropped", || {
            let ports = weir.ask("show ports");
            let arrived = count(&ports, 0, "rx_packets") >= count(&before, 0, "rx_packets") + 200;
            (arrived && ports["ports"][1]["link_up"] == false).then_some(ports)
        });
        b.plug_in(&lab.switch);
        a.space.run(&format!("ip neigh del {} dev {a}", b.address()));
        b.reaches(a);
        sent += count(&all, 1, "tx_packets") - count(&before, 1, "tx_packets");
        let drops = |ports: &serde_json::Value| ports["packets"]["dropped_packets"].as_u64().unwrap();
        dropped = drops(&all) - drops(&before);
        if sent > 0 {
            break;
        }
    }
    assert!(sent > 0, "the switch sent nothing");
    let totals = weir.stop();
    let lost = totals.port("port2")["device"]["tx_lost"].as_u64().unwrap();
    // Nobody received any of the pings. Another packet of the host may have come before them, and gone.
    assert!((200 - dropped..=sent).contains(&lost), "{lost} of {sent} lost, {dropped} dropped: {:#}", totals.0);
}

#[test]
fn starved_mempool() {
    // DPDK's tap driver holds a buffer for each of a queue's 1024 descriptors: this leaves hardly
    // any beside them.
    for (link, buffers) in [(Link::Tap, 2048 + 16), (Link::Veth, 256)] {
        let Some(lab) = Lab::new("starved_mempool") else { return };
        let (weir, hosts) = lab.start(link, 2, &format!("--buffers {buffers}"));
        let (a, b) = pair(&hosts);
        crate::counts::small_frames(&hosts);
        a.reaches(b);
        let iperf = Iperf::serve(b);
        // iperf3's own TCP connection may starve with the rest, so how it ends says nothing.
        let flood = iperf.start(a, Protocol::Udp, "--time 20 --bitrate 500M --parallel 4");
        std::thread::sleep(Duration::from_secs(2));
        drop(flood);
        drop(iperf);
        a.reaches(b);
        if link == Link::Veth {
            crate::counts::hosts_agree(&weir, &hosts);
        }
        weir.stop();
    }
}
