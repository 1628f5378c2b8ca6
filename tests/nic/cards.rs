//! Two cards of each kind under one switch, from the first packet to the card's way back to the
//! kernel.

use serde_json::Value;

use crate::common::{Host, Iperf, Lab, Link, Protocol, eventually};
use crate::guest::{Card, Guest, Machine};

/// Bits per second that a TCP stream reaches unless something is broken: a stall, or software that
/// repairs each packet.
const TCP_ALIVE: f64 = 5e6;
/// With headers 9000 bytes.
const LARGE: &str = "-c 3 -W 1 -M do -s 8972";
const UDP: &str = "--time 2 --bitrate 5M";

struct Rig {
    guest: Guest,
    hosts: Vec<Host>,
    _lab: Lab,
}

impl Rig {
    fn new(test: &str, card: Card) -> Option<Self> {
        let lab = Lab::new(test)?;
        let ports = lab.ports(Link::Tap, 2);
        let mut guest = Guest::boot(test, &lab, &Machine { card, ..Machine::default() })?;
        let hosts = ports.connect();
        guest.bind();
        Some(Self { guest, hosts, _lab: lab })
    }

    /// Writes the configuration, the same for both ports.
    fn configure(&mut self, mtu: u32, promiscuous: bool) {
        let port = |(n, card): (usize, &String)| {
            let port = format!("[[port]]\\nname = \"port{}\"\\ndev = \"pci:{card}\"\\n", n + 1);
            port + &format!("mtu = {mtu}\\npromiscuous = {promiscuous}\\n")
        };
        let ports: String = self.guest.cards.iter().enumerate().map(port).collect();
        self.guest.run(&format!("printf '[switch]\\ncores = [1, 2]\\n{ports}' >/tmp/weir.toml"));
    }

    fn reload(&mut self, mtu: u32, promiscuous: bool) {
        self.configure(mtu, promiscuous);
        self.guest.run("weir reload");
    }

    fn port(&mut self, n: usize) -> Value {
        self.guest.json("weir show ports")["ports"][n - 1].clone()
    }

    fn link_becomes(&mut self, n: usize, up: bool) {
        eventually("the link to change", || (self.port(n)["link_up"] == up).then_some(()));
    }
}

fn everything(test: &str, card: Card) {
    let Some(mut rig) = Rig::new(test, card) else { return };
    rig.configure(1500, true);
    rig.guest.start("--config /tmp/weir.toml");
    traffic(&rig.hosts);
    links(&mut rig);
    frames_for_others(&mut rig);
    a_card_comes_and_goes(&mut rig);
    let totals = rig.guest.stop();
    assert!(totals.rx() > 1000, "{:#}", totals.0);
    large_frames(&mut rig);
    if card != Card::Vmxnet3 {
        another_mtu(&mut rig);
    }
    rig.guest.stop();
    back_to_the_kernel(&mut rig, card);
}

fn traffic(hosts: &[Host]) {
    let [a, b] = hosts else { unreachable!("two hosts") };
    a.reaches(b);
    assert!(a.ping(b, "-c 10") && b.ping6(a, "-c 10"), "none is lost");
    let iperf = Iperf::serve(b);
    let tcp = iperf.run(a, Protocol::Tcp, "--time 4");
    assert!(tcp.bits_per_second > TCP_ALIVE, "{tcp:?}");
    let back = iperf.run(a, Protocol::Tcp, "--time 4 --reverse");
    assert!(back.bits_per_second > TCP_ALIVE, "{back:?}");
    let udp = iperf.run(a, Protocol::Udp, UDP);
    assert!(udp.lost_percent < 1.0, "{udp:?}");
    eprintln!("TCP {:.0} and {:.0} Mbit/s", tcp.bits_per_second / 1e6, back.bits_per_second / 1e6);
}

/// The cable, and the port's own switch.
fn links(rig: &mut Rig) {
    rig.guest.set_link(1, false);
    rig.link_becomes(1, false);
    assert!(!rig.hosts[1].ping(&rig.hosts[0], "-c 2 -W 1"));
    let drops = rig.port(2)["drops"]["port_down"].as_u64();
    assert!(drops >= Some(2), "what was to leave by a port without a link is counted: {drops:?}");
    rig.guest.set_link(1, true);
    rig.link_becomes(1, true);
    rig.hosts[0].reaches(&rig.hosts[1]);

    rig.guest.run("weir port down port1");
    let before = rig.hosts[1].counts()[1];
    assert!(!rig.hosts[0].ping(&rig.hosts[1], "-c 20 -W 1"));
    rig.guest.run("weir port up port1");
    rig.link_becomes(1, true);
    let late = rig.hosts[1].counts()[1] - before;
    assert!(late < 20, "what came while the port was down is not sent later: {late}");
    rig.hosts[0].reaches(&rig.hosts[1]);
}

/// A card that is not promiscuous leaves frames for other MAC addresses outside.
fn frames_for_others(rig: &mut Rig) {
    rig.reload(1500, false);
    assert!(!rig.hosts[0].ping(&rig.hosts[1], "-c 3 -W 1"));
    rig.reload(1500, true);
    assert!(rig.hosts[0].ping(&rig.hosts[1], "-c 3"));
}

fn a_card_comes_and_goes(rig: &mut Rig) {
    let device = format!("port2=pci:{}", rig.guest.cards[1]);
    for _ in 0..2 {
        rig.guest.run("weir port remove port2");
        assert!(!rig.hosts[0].ping(&rig.hosts[1], "-c 2 -W 1"));
        rig.guest.run(&format!("weir port add {device}"));
        rig.link_becomes(2, true);
        rig.hosts[0].reaches(&rig.hosts[1]);
    }
}

/// The MTU at the start.
fn large_frames(rig: &mut Rig) {
    rig.configure(9000, true);
    rig.guest.start("--config /tmp/weir.toml");
    for host in &rig.hosts {
        host.space.run(&format!("ip link set dev {host} mtu 9000"));
    }
    let [a, b] = &rig.hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    assert!(a.ping(b, LARGE) && b.ping(a, LARGE));
}

/// The MTU changed by a reload, both ways. A vmxnet3 card passes nothing after that, until weir
/// starts anew.
fn another_mtu(rig: &mut Rig) {
    rig.reload(1500, true);
    rig.link_becomes(1, true);
    rig.link_becomes(2, true);
    rig.hosts[0].reaches(&rig.hosts[1]);
    assert!(!rig.hosts[0].ping(&rig.hosts[1], LARGE), "they are too long");
    rig.reload(9000, true);
    rig.link_becomes(1, true);
    rig.link_becomes(2, true);
    eventually("large frames to pass", || rig.hosts[0].ping(&rig.hosts[1], LARGE).then_some(()));
}

fn back_to_the_kernel(rig: &mut Rig, card: Card) {
    let address = rig.guest.cards[0].clone();
    rig.guest.run(&format!("dpdk-devbind.py --bind={} {address}", card.kernel_driver()));
    rig.guest.run("sleep 1; ip address add 10.0.0.100/24 dev eth0 && ip link set eth0 up");
    eventually("the kernel's interface to reach a host", || {
        (rig.guest.try_run("ping -c 1 -W 1 10.0.0.1").0 == 0).then_some(())
    });
}

#[test]
#[ignore = "make test-nic"]
fn virtio() {
    everything("cards::virtio", Card::Virtio);
}

#[test]
#[ignore = "make test-nic"]
fn e1000e() {
    everything("cards::e1000e", Card::E1000e);
}

#[test]
#[ignore = "make test-nic"]
fn vmxnet3() {
    everything("cards::vmxnet3", Card::Vmxnet3);
}
