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
