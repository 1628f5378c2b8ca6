//! What hosts count beside what the switch counts.

use serde_json::Value;

use crate::common::{Host, Iperf, Lab, Link, Protocol, Weir, eventually};

/// Else one large frame of a host's kernel is many packets.
pub fn small_frames(hosts: &[Host]) {
    hosts.iter().for_each(|host| drop(host.space.run(&format!("ip link set dev {host} gso_max_segs 1"))));
}

/// What hosts' kernels have sent has come in or is among what the device lost, and what has gone
/// out has come to the hosts.
pub fn hosts_agree(weir: &Weir, hosts: &[Host]) {
    eventually("the hosts' counts and the switch's to agree", || {
        let ports = weir.ask("show ports");
        let agrees = |host: &Host| {
            let port = &ports["ports"][host.number() - 1];
            let number = |value: &Value| value.as_u64().expect("a count");
            let device = port["device"].as_object().expect("losses").iter();
            let missed: u64 = device.filter(|(why, _)| why.starts_with("rx_")).map(|(_, n)| number(n)).sum();
            [number(&port["rx_packets"]) + missed, number(&port["tx_packets"])] == host.counts()
        };
        hosts.iter().all(agrees).then_some(())
    });
}

/// Nothing is lost between a worker and its devices, which the switch's own balance could not see.
#[test]
fn what_hosts_count() {
    for link in [Link::Tap, Link::Veth] {
        let Some(lab) = Lab::new("what_hosts_count") else { return };
        let (weir, hosts) = lab.start(link, 2, "");
        let [a, b] = &hosts[..] else { unreachable!("two hosts") };
        small_frames(&hosts);
        a.reaches(b);
        let iperf = Iperf::serve(b);
        iperf.run(a, Protocol::Udp, "--time 2 --bitrate 20M --bidir");
        drop(iperf);
        hosts_agree(&weir, &hosts);
        weir.stop();
    }
}

/// The switch stands still while a host sends more than can wait for it: what the kernel drops then
/// is a loss of the port, to the packet, and is shown.
#[test]
fn overload_is_counted() {
    for link in [Link::Tap, Link::Veth, Link::Xdp] {
        let test = "overload_is_counted";
        if link == Link::Xdp && !crate::devices::xdp_works(test) {
            return;
        }
        let Some(lab) = Lab::new(test) else { return };
        let (weir, hosts) = lab.start(link, 2, "");
        let [a, b] = &hosts[..] else { unreachable!("two hosts") };
        small_frames(&hosts);
        if link == Link::Tap {
            a.space.run(&format!("ip link set dev {a} txqueuelen 16"));
        }
        a.reaches(b);
        for _ in 0..2 {
            weir.signal("STOP");
            // Nobody answers, and ping says so by its exit code.
            a.space.try_run(&format!("ping -n -q -l 30000 -c 30000 -s 1000 -W 1 {}", b.address()));
            weir.signal("CONT");
            hosts_agree(&weir, &hosts);
        }
        let shown = String::from_utf8(weir.command("show drops").output().expect("runs").stdout).expect("text");
        assert!(shown.contains("rx_missed"), "{link:?}: {shown}");
        a.reaches(b);
        let totals = weir.stop();
        let missed = totals.port("port1")["device"]["rx_missed"].as_u64().expect("a count");
        assert!(missed > 1000, "{link:?}: {:#}", totals.0);
    }
}
