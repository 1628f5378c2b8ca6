//! What hosts do all day, through every kind of port and both ways of forwarding.

use crate::common::{Iperf, Lab, Link, Protocol};

/// Far below what a debug build reaches, far above what is left of TCP when checksums or segments
/// go wrong.
pub const TCP_ALIVE: f64 = 10e6;

pub fn everything(test: &str, link: Link, forward: &str) {
    let Some(lab) = Lab::new(test) else { return };
    let (weir, hosts) = lab.start(link, 2, &format!("--forward {forward}"));
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);

    assert!(a.ping(b, "-c 5"), "IPv4");
    assert!(b.ping6(a, "-c 5"), "IPv6");
    assert!(a.ping(b, "-c 3 -s 4000"), "IPv4 in fragments");
    assert!(b.ping6(a, "-c 3 -s 4000"), "IPv6 in fragments");

    let iperf = Iperf::serve(b);
    let tcp = iperf.run(a, Protocol::Tcp, "--time 2");
    assert!(tcp.bits_per_second > TCP_ALIVE, "TCP: {tcp:?}");
    let back = iperf.run(a, Protocol::Tcp, "--time 1 --reverse");
    assert!(back.bits_per_second > TCP_ALIVE, "TCP the other way: {back:?}");
    let udp = iperf.run(a, Protocol::Udp, "--time 1 --bitrate 10M");
    assert!(udp.lost_percent < 20.0, "UDP: {udp:?}");
    drop(iperf);

    let totals = weir.stop();
    assert!(totals.rx() > 1000, "{}", totals.0);
    assert_eq!(totals.dropped("runt") + totals.dropped("too_long"), 0, "{}", totals.0);
}

#[test]
fn tap_learn() {
    everything("tap_learn", Link::Tap, "learn");
}

#[test]
fn tap_xconnect() {
    everything("tap_xconnect", Link::Tap, "xconnect");
}

#[test]
fn veth_learn() {
    everything("veth_learn", Link::Veth, "learn");
}

#[test]
fn veth_xconnect() {
    everything("veth_xconnect", Link::Veth, "xconnect");
}

/// Unknown and broadcast destinations are copied to all ports, known ones go to theirs alone.
#[test]
fn three_hosts_learn() {
    let Some(lab) = Lab::new("three_hosts_learn") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 3, "--forward learn");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    a.reaches(c);
    assert!(a.ping(b, "-c 20 -i 0.05"));
    let totals = weir.stop();
    assert!(totals.port("port3")["tx_packets"].as_u64() < totals.port("port2")["tx_packets"].as_u64(), "{}", totals.0);
}

/// Two workers, each with a replica of the pipeline: what they count is merged, and what one learns
/// both know.
fn two_workers(test: &str, link: Link) {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return crate::common::skip(test, crate::common::Lack::Machine, "one core");
    }
    let Some(lab) = Lab::new(test) else { return };
    let arguments = "--forward learn --core 0 --core 1 --program hashpipe";
    let (weir, hosts) = lab.start(link, 2, arguments);
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    assert!(a.ping(b, "-c 50 -i 0.02"));
    let totals = weir.stop();
    let heavy = totals.0["heavy"]["heavy"].as_array().expect("heavy flows");
    let icmp = heavy.iter().filter(|heavy| heavy["flow"]["proto"] == 1);
    let counted: u64 = icmp.filter_map(|heavy| heavy["packets"].as_u64()).sum();
    // Fifty echo requests and their replies, and those of `reaches`.
    assert!((100..=400).contains(&counted), "{}", totals.0);
}

#[test]
fn tap_two_workers() {
    two_workers("tap_two_workers", Link::Tap);
}

#[test]
fn veth_two_workers() {
    two_workers("veth_two_workers", Link::Veth);
}

/// Frames of 9000 bytes pass whole where every MTU allows it.
#[test]
fn veth_jumbo() {
    let Some(lab) = Lab::new("veth_jumbo") else { return };
    let (weir, hosts) = lab.start(Link::Veth, 2, "--forward learn --mtu 9000");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    for host in [a, b] {
        host.space.run(&format!("ip link set dev {} mtu 9000", host.interface()));
    }
    a.reaches(b);
    assert!(a.ping(b, "-c 5 -M do -s 8972"), "9000 bytes in one piece");
    assert!(a.ping6(b, "-c 5 -s 8952"), "IPv6");
    weir.stop();
}
