//! Hosts on different networks, joined by a weir that routes between them.

use crate::common::{Lab, Link, Namespace, Totals, Weir, eventually};

/// A host `h{n}` at 10.0.n.2 and fd00:n::2 behind port `port{n}`.
struct Site {
    n: usize,
    space: Namespace,
}

const PORT: &str = r#"
[[port]]
name = "port{n}"
dev = "{dev}"
addresses = ["10.0.{n}.1/24", "fd00:{n}::1/64"]
"#;

impl Site {
    fn new(lab: &Lab, n: usize) -> Self {
        Self { n, space: lab.switch.sibling() }
    }

    /// The host's interface, its addresses, and weir as its default gateway.
    fn configure(&self) {
        let n = self.n;
        self.space.run(&format!("ip addr add 10.0.{n}.2/24 dev h{n}"));
        self.space.run(&format!("ip addr add fd00:{n}::2/64 dev h{n} nodad"));
        self.space.run(&format!("ip link set h{n} up"));
        self.space.run(&format!("ip route add default via 10.0.{n}.1"));
        self.space.run(&format!("ip -6 route add default via fd00:{n}::1"));
    }

    fn pings(&self, options: &str, to: &str) -> bool {
        self.space.succeeds(&format!("ping -n -q -i 0.2 -W 2 {options} {to}"))
    }

    /// What ping says of its answers, also of errors.
    fn hears(&self, options: &str, to: &str) -> String {
        String::from_utf8_lossy(&self.space.try_run(&format!("ping -n {options} {to}")).stdout).into_owned()
    }

    fn reaches(&self, to: &str) {
        eventually(&format!("h{} to reach {to}", self.n), || self.pings("-c 1 -W 1", to).then_some(()));
    }
}

/// Starts weir with a port for each of `sites` hosts, and `more` in its configuration.
fn start(lab: &Lab, link: Link, sites: usize, more: &str) -> (Weir, Vec<Site>) {
    let sites: Vec<_> = (1..=sites).map(|n| Site::new(lab, n)).collect();
    let mut config = String::from("[switch]\nforward = \"route\"\n");
    for site in &sites {
        let n = site.n;
        let dev = if link == Link::Tap { format!("tap:h{n}") } else { format!("veth:p{n}") };
        config += &PORT.replace("{n}", &n.to_string()).replace("{dev}", &dev);
        if link == Link::Veth {
            lab.switch.run(&format!("ip link add p{n} type veth peer name h{n} netns {}", site.space.id()));
            lab.switch.run(&format!("ip link set p{n} up"));
        }
    }
    std::fs::write(lab.path("weir.toml"), config + more).unwrap();
    let weir = Weir::start(lab, &lab.switch, "router", "-c weir.toml");
    for site in &sites {
        if link == Link::Tap {
            lab.switch.run(&format!("ip link set h{} netns {}", site.n, site.space.id()));
        }
        site.configure();
    }
    (weir, sites)
}

fn counted(totals: &Totals, port: &str, key: &str) -> u64 {
    totals.port(port)[key].as_u64().unwrap()
}

fn everything(test: &str, link: Link) {
    let Some(lab) = Lab::new(test) else { return };
    let (weir, sites) = start(&lab, link, 2, "");
    let [a, b] = &sites[..] else { unreachable!("two hosts") };
    a.reaches("10.0.2.2");
    b.reaches("fd00:1::2");

    assert!(a.pings("-c 5", "10.0.2.2") && b.pings("-c 5", "10.0.1.2"), "IPv4, both ways");
    assert!(a.pings("-c 5", "fd00:2::2") && b.pings("-c 5", "fd00:1::2"), "IPv6, both ways");
    assert!(a.pings("-c 3 -s 4000", "10.0.2.2") && a.pings("-c 3 -s 4000", "fd00:2::2"), "in fragments");
    for own in ["10.0.1.1", "10.0.2.1", "fd00:1::1", "fd00:2::1"] {
        assert!(a.pings("-c 2", own), "weir itself at {own}");
    }

    let told = a.hears("-c 1 -t 1", "10.0.2.2");
    assert!(told.contains("From 10.0.1.1 icmp_seq=1 Time to live exceeded"), "{told}");
    let told = a.hears("-c 1 -t 1", "fd00:2::2");
    assert!(told.contains("From fd00:1::1 icmp_seq=1 Time exceeded: Hop limit"), "{told}");
    let told = a.hears("-c 6 -i 0.9", "10.0.2.77");
    assert!(told.contains("From 10.0.1.1") && told.contains("Destination Host Unreachable"), "{told}");
    let told = a.hears("-c 6 -i 0.9", "fd00:2::77");
    assert!(told.contains("From fd00:1::1") && told.contains("Address unreachable"), "{told}");
    let told = a.hears("-c 1", "10.99.0.1");
    assert!(told.contains("From 10.0.1.1 icmp_seq=1 Destination Net Unreachable"), "{told}");
    let told = a.hears("-c 1", "fd99::1");
    assert!(told.contains("From fd00:1::1 icmp_seq=1 Destination unreachable: No route"), "{told}");

    let totals = weir.stop();
    for (reason, min) in [("ttl_expired", 2), ("no_route", 2), ("no_neighbour", 6), ("to_router", 8)] {
        assert!(totals.dropped(reason) >= min, "{reason} in {:#}", totals.0);
    }
    for reason in ["bad_header", "runt", "too_long"] {
        assert_eq!(totals.dropped(reason), 0, "{reason} in {:#}", totals.0);
    }
}

#[test]
fn veth_route() {
    everything("veth_route", Link::Veth);
}

#[test]
fn tap_route() {
    everything("tap_route", Link::Tap);
}

fn bits_per_second(a: &Site, b: &Site, to: &str, options: &str) -> f64 {
    let mut server = b.space.command("iperf3");
    let server = server.args(["--server", "--one-off"]).stdout(std::process::Stdio::null()).spawn();
    let mut server = server.expect("iperf3 starts");
    // Until the server listens the client says so, and ends well nevertheless.
    let speed = eventually("iperf3 to answer", || {
        let ended = a.space.try_run(&format!("iperf3 --json --connect-timeout 3000 --client {to} {options}"));
        let report: serde_json::Value = serde_json::from_slice(&ended.stdout).ok()?;
        report["end"]["sum_received"]["bits_per_second"].as_f64()
    });
    let _ = (server.kill(), server.wait());
    speed
}

/// TCP with the kernels' offloads, both ways and of both families.
#[test]
fn tcp_through_a_router() {
    let Some(lab) = Lab::new("tcp_through_a_router") else { return };
    let (weir, sites) = start(&lab, Link::Veth, 2, "");
    let [a, b] = &sites[..] else { unreachable!("two hosts") };
    a.reaches("10.0.2.2");
    a.reaches("fd00:2::2");
    for (to, options) in [("10.0.2.2", "--time 2"), ("10.0.2.2", "--time 1 --reverse"), ("fd00:2::2", "--time 1")] {
        let speed = bits_per_second(a, b, to, options);
        assert!(speed > 10e6, "{to} {options}: {speed}");
    }
    let totals = weir.stop();
    assert!(totals.rx() > 1000, "{:#}", totals.0);
}

/// A link that is narrower than the sender's: the sender is told, and TCP goes on.
#[test]
fn a_narrow_link() {
    let Some(lab) = Lab::new("a_narrow_link") else { return };
    let (weir, sites) = start(&lab, Link::Veth, 2, "mtu = 1400\n");
    let [a, b] = &sites[..] else { unreachable!("two hosts") };
    b.space.run("ip link set h2 mtu 1400");
    a.reaches("10.0.2.2");
    a.reaches("fd00:2::2");
    let told = a.hears("-c 2 -i 0.2 -M do -s 1472", "10.0.2.2");
    assert!(told.contains("From 10.0.1.1") && told.contains("Frag needed and DF set (mtu = 1400)"), "{told}");
    let told = a.hears("-c 2 -i 0.2 -s 1452 -M do", "fd00:2::2");
    assert!(told.contains("Packet too big: mtu=1400"), "{told}");
    let speed = bits_per_second(a, b, "10.0.2.2", "--time 1");
    assert!(speed > 10e6, "{speed}");
    let totals = weir.stop();
    assert!(totals.dropped("too_long") >= 2, "{:#}", totals.0);
}

/// Packets without DF are fragmented: large pings, whose fragments are fragmented once more, by
/// sizes around all edges.
#[test]
fn a_narrow_link_in_fragments() {
    let Some(lab) = Lab::new("a_narrow_link_in_fragments") else { return };
    let (weir, sites) = start(&lab, Link::Veth, 2, "mtu = 1280\n");
    let [a, b] = &sites[..] else { unreachable!("two hosts") };
    b.space.run("ip link set h2 mtu 1280");
    a.reaches("10.0.2.2");
    for size in [1252, 1253, 1472, 3000, 20_000, 60_000] {
        assert!(a.pings(&format!("-c 3 -M dont -s {size}"), "10.0.2.2"), "{size} bytes");
    }
    let totals = weir.stop();
    // 60 028 bytes leave a in 41 fragments, and 40 of them are split in two.
    assert!(counted(&totals, "port1", "copied_packets") >= 3 * 40, "{:#}", totals.0);
    assert_eq!(totals.dropped("too_long") + totals.dropped("tx_full"), 0, "{:#}", totals.0);
}

/// Two links to the same network: many flows use both, one flow stays on one, and when a link fails
/// all go by the other.
#[test]
fn two_ways() {
    let Some(lab) = Lab::new("two_ways") else { return };
    let more = "[[route]]\nprefix = \"10.9.0.0/24\"\nvia = [\"10.0.2.2\", \"10.0.3.2\"]\n";
    let (weir, mut sites) = start(&lab, Link::Veth, 2, &format!("{}{more}", third_port(&lab)));
    let b = sites.pop().expect("two hosts");
    let a = &sites[0];
    lab.switch.run(&format!("ip link set q3 netns {}", b.space.id()));
    for line in ["ip addr add 10.0.3.2/24 dev q3", "ip link set q3 up", "ip addr add 10.9.0.1/32 dev lo"] {
        b.space.run(line);
    }
    for interface in ["all", "h2", "q3"] {
        // What comes by one link is answered by the other.
        b.space.succeeds(&format!("sysctl -qw net.ipv4.conf.{interface}.rp_filter=0"));
    }
    for gateway in ["10.0.2.2", "10.0.3.2", "10.9.0.1"] {
        a.reaches(gateway);
    }
    let sent = |port: &str| {
        let ports = weir.ask("show ports");
        let ports = ports["ports"].as_array().unwrap().clone();
        ports.iter().find(|p| p["name"] == port).unwrap()["tx_packets"].as_u64().unwrap()
    };
    // A flow of its own for every address: ping has no ports, so its sources differ.
    let before = [sent("port2"), sent("port3")];
    for n in 10..42 {
        a.space.run(&format!("ip addr add 10.0.1.{n}/24 dev h1"));
        // The first answer is lost to the question for this new neighbour.
        assert!(a.pings(&format!("-c 3 -I 10.0.1.{n}"), "10.9.0.1"), "from 10.0.1.{n}");
    }
    let flows = [sent("port2") - before[0], sent("port3") - before[1]];
    assert!(flows[0] >= 12 && flows[1] >= 12, "both ways are used: {flows:?}");

    let before = [sent("port2"), sent("port3")];
    assert!(a.pings("-c 60 -i 0.02", "10.9.0.1"));
    let flow = [sent("port2") - before[0], sent("port3") - before[1]];
    assert!(flow.iter().max() >= Some(&60) && flow.iter().min() <= Some(&20), "one flow stays on one way: {flow:?}");

    let down = if flow[0] > flow[1] { "port2" } else { "port3" };
    weir.ask(&format!("port down {down}"));
    if down == "port2" {
        // The way back, too.
        b.space.run("ip route replace default via 10.0.3.1");
    }
    eventually("the other way to be taken", || a.pings("-c 1 -W 1", "10.9.0.1").then_some(()));
    weir.stop();
}

/// Another link for host 2.
fn third_port(lab: &Lab) -> String {
    lab.switch.run("ip link add p3 type veth peer name q3");
    lab.switch.run("ip link set p3 up");
    "[[port]]\nname = \"port3\"\ndev = \"veth:p3\"\naddresses = [\"10.0.3.1/24\"]\n".into()
}

/// What the control half has been told, and what it was told wrong.
#[test]
fn addresses_on_the_command_line() {
    let Some(lab) = Lab::new("addresses_on_the_command_line") else { return };
    let site = Site::new(&lab, 1);
    lab.switch.run(&format!("ip link add p1 type veth peer name h1 netns {}", site.space.id()));
    lab.switch.run("ip link set p1 up");
    let words = "--forward route --port one=veth:p1 --address one=10.0.1.1/24 --address one=fd00:1::1/64";
    let weir = Weir::start(&lab, &lab.switch, "router", words);
    site.configure();
    site.reaches("10.0.1.1");
    site.reaches("fd00:1::1");
    let totals = weir.stop();
    assert!(counted(&totals, "one", "copied_packets") >= 2, "{:#}", totals.0);
}

/// A neighbour goes with its interface, and another one with another MAC address comes in its place
/// and says nothing by itself: packets are not sent to the old one. What cannot be sent meanwhile is
/// counted.
#[test]
fn a_neighbour_goes_with_its_interface() {
    let Some(lab) = Lab::new("a_neighbour_goes_with_its_interface") else { return };
    let (weir, sites) = start(&lab, Link::Veth, 2, "");
    let [a, b] = &sites[..] else { unreachable!("two sites") };
    a.reaches("10.0.2.2");
    let known = || {
        let rows = weir.ask("table show neighbours")["rows"].clone();
        let rows = rows.as_array().expect("rows").clone();
        rows.iter().filter(|row| row["port"] == "port2").count()
    };
    assert!(known() > 0, "it was reached");
    b.space.run("ip link del h2");
    // It would be forgotten by itself after five minutes.
    eventually("the neighbour to be forgotten", || (known() == 0).then_some(()));
    assert!(!a.pings("-c 3 -W 1", "10.0.2.2"));
    lab.switch.run(&format!("ip link add p2 type veth peer name h2 netns {}", b.space.id()));
    lab.switch.run("ip link set p2 up");
    // The interface is there, and no host behind it yet.
    b.space.run("ip link set h2 up");
    eventually("the port", || (weir.ask("show ports")["ports"][1]["link_up"] == true).then_some(()));
    assert!(!a.pings("-c 3 -W 1", "10.0.2.2"));
    b.configure();
    a.reaches("10.0.2.2");
    let totals = weir.stop();
    let drops = [totals.dropped("port_down"), totals.dropped("no_neighbour")];
    assert!(drops.iter().sum::<u64>() >= 6 && drops[1] >= 3, "{drops:?}: {:#}", totals.0);
}
