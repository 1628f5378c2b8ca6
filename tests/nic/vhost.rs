//! A guest on a `vhost:` port of a switch outside: the kernel's virtio_net at the other end.

use crate::common::{Iperf, Lab, Link, Weir, eventually};
use crate::guest::{Card, Guest, Machine};

/// As for the cards.
const TCP_ALIVE: f64 = 5e6;

#[test]
#[ignore = "make test-nic"]
fn a_guest_talks_to_a_host() {
    let test = "vhost::a_guest_talks_to_a_host";
    let Some(lab) = Lab::new(test) else { return };
    let ports = lab.ports(Link::Veth, 1);
    let arguments = format!("{} --port guest=vhost:{}", ports.arguments(), lab.path("vm.sock").display());
    let weir = Weir::start(&lab, &lab.switch, "switch", &arguments);
    let hosts = ports.connect();
    let machine = Machine { card: Card::Virtio, cards: 0, iommu: false, kernel: "", vhost: Some("vm.sock") };
    let Some(mut guest) = Guest::boot(test, &lab, &machine) else { return };
    guest.run("ip address add 10.0.0.99/24 dev eth0 && ip link set eth0 up");
    let host = &hosts[0];
    eventually("the guest to reach the host", || {
        (guest.try_run(&format!("ping -c 1 -W 1 {}", host.address())).0 == 0).then_some(())
    });
    // The guest leaves checksums and the cutting of large frames to its card.
    let iperf = Iperf::serve(host);
    for reverse in ["", "--reverse"] {
        let report = guest.run(&format!("iperf3 --json --client {} --time 4 {reverse}", host.address()));
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().expect("a rate");
        assert!(rate > TCP_ALIVE, "{rate} {reverse}");
        eprintln!("TCP {:.0} Mbit/s {reverse}", rate / 1e6);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    drop(iperf);
    let link = || weir.ask("show ports")["ports"][1]["link_up"] == true;
    assert!(link());
    drop(guest);
    eventually("the link of a machine that is gone to be down", || (!link()).then_some(()));
    weir.stop();
}
