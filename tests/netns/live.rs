//! A switch that is changed while hosts talk through it: reloads, ports that come and go, links
//! that flap.

use std::process::Command;
use std::time::Duration;

use crate::common::{Host, Iperf, Lab, Link, Protocol, Weir, eventually};

/// A configuration file with veth ports `port1` to `portN`.
fn write(lab: &Lab, ports: &[usize], rest: &str) {
    let port = |n: &usize| format!("[[port]]\nname = \"port{n}\"\ndev = \"veth:p{n}\"\n");
    let ports: String = ports.iter().map(port).collect();
    std::fs::write(lab.path("weir.toml"), format!("{rest}\n{ports}")).unwrap();
}

const PROGRAM: &str = "[switch]\nepoch = \"50ms\"\n[[program]]\nname = \"hashpipe\"";

/// Three hosts, of which the file has the first two.
fn start(lab: &Lab, arguments: &str) -> (Weir, Vec<Host>) {
    write(lab, &[1, 2], PROGRAM);
    let ports = lab.ports(Link::Veth, 3);
    let weir = Weir::start(lab, &lab.switch, "switch", &format!("-c weir.toml {arguments}"));
    (weir, ports.connect())
}

fn changes(weir: &Weir) -> Vec<String> {
    let answer = weir.ask("reload");
    let changes = answer["changes"].as_array().expect("changes");
    changes.iter().map(|change| change.as_str().expect("words").to_owned()).collect()
}

#[test]
fn reload_under_traffic() {
    let Some(lab) = Lab::new("reload_under_traffic") else { return };
    let (weir, hosts) = start(&lab, "--order stage");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    let iperf = Iperf::serve(b);
    let running = iperf.start(a, Protocol::Udp, "--time 6 --bitrate 2M --bidir");
    std::thread::sleep(Duration::from_millis(500));

    write(
        &lab,
        &[1, 2, 3],
        "[switch]\nepoch = \"50ms\"\nmac_age = \"1m\"\n[[program]]\nname = \"hashpipe\"\nslots = 100",
    );
    assert_eq!(changes(&weir), ["port port3 = veth:p3 added", "programs hashpipe", "switch.mac_age = 1m, was 5m"]);
    c.reaches(a);
    assert_eq!(changes(&weir), [""; 0], "the file says what is");
    for forward in ["xconnect", "learn", "xconnect", "learn"] {
        write(&lab, &[1, 2, 3], &format!("[switch]\nforward = \"{forward}\"\nepoch = \"50ms\""));
        assert!(changes(&weir).iter().any(|change| change.starts_with(&format!("switch.forward = {forward}"))));
        std::thread::sleep(Duration::from_millis(300));
    }
    write(&lab, &[1, 2], PROGRAM);
    assert!(changes(&weir).contains(&"port port3 = veth:p3 removed".to_owned()));
    let received = running.finish();
    assert!(received.lost_percent < 20.0, "traffic went on: {received:?}");
    a.reaches(b);
    let totals = weir.stop();
    assert_eq!(totals.0["removed"]["removed_ports"], 1);
    assert!(totals.0["measurement"]["forgotten_epochs"].as_u64() > Some(0));
}

#[test]
fn a_broken_file_is_refused_and_traffic_goes_on() {
    let Some(lab) = Lab::new("a_broken_file_is_refused_and_traffic_goes_on") else { return };
    let (weir, hosts) = start(&lab, "--epoch 100ms");
    let [a, b, _] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    let iperf = Iperf::serve(b);
    let running = iperf.start(a, Protocol::Udp, "--time 3 --bitrate 2M");
    for (text, says) in [
        ("[switch", "weir.toml:1: "),
        ("[switch]\nepoch = \"1us\"", "weir.toml:2: switch.epoch"),
        (
            "[switch]\nname = \"x\"\ncores = [77]",
            "switch.cores = [77]: it is (not set), and to change it takes a restart",
        ),
        ("[switch]\ntarget = \"tofino\"\n[[program]]\nname = \"hashpipe\"", "tofino"),
        ("[[port]]\nname = \"port9\"\ndev = \"veth:nonesuch\"", "port port9 (veth:nonesuch)"),
        ("[[port]]\nname = \"other\"\ndev = \"veth:p1\"", "port other: port port1 has veth:p1"),
    ] {
        write(&lab, &[1, 2], text);
        if text.starts_with("[[port") {
            std::fs::write(lab.path("weir.toml"), text).unwrap();
        }
        let refused = weir.try_ask("reload");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && error.contains(says), "{says}: {error}");
        eventually("it to be logged", || weir.log().contains("not reloaded").then_some(()));
    }
    let received = running.finish();
    assert!(received.lost_percent < 5.0, "traffic went on: {received:?}");
    // The signal does the same, and words of the command line stay on top.
    write(&lab, &[1, 2, 3], PROGRAM);
    let pid = weir.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    eventually("the reload", || weir.log().contains("reloaded: port port3 = veth:p3 added").then_some(()));
    assert!(!weir.log().contains("reloaded: switch.epoch"), "{}", weir.log());
    hosts[2].reaches(a);
    weir.stop();
}

#[test]
fn ports_come_and_go_under_traffic() {
    let Some(lab) = Lab::new("ports_come_and_go_under_traffic") else { return };
    let (weir, hosts) = start(&lab, "--core 0 --core 1");
    let [a, b, c] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    let iperf = Iperf::serve(b);
    let running = iperf.start(a, Protocol::Udp, "--time 5 --bitrate 20M --bidir");
    for _ in 0..5 {
        let added = weir.ask("port add guest=veth:p3 --mtu 1400");
        assert_eq!((added["mtu_bytes"].as_u64(), added["link_up"].as_bool()), (Some(1400), Some(true)));
        c.reaches(a);
        let refused = weir.try_ask("port add guest=veth:p3");
        assert_eq!(refused.status.code(), Some(2));
        let removed = weir.ask("port remove guest");
        assert!(removed["rx_packets"].as_u64() > Some(0), "{removed}");
        let macs = weir.ask("show macs");
        assert!(!macs.to_string().contains("guest"), "{macs}");
    }
    let received = running.finish();
    assert!(received.lost_percent < 20.0, "traffic went on: {received:?}");
    let totals = weir.stop();
    assert_eq!(totals.0["removed"]["removed_ports"], 5);
    assert!(totals.0["removed"]["rx_packets"].as_u64() >= Some(5), "{}", totals.0);
}

#[test]
fn a_tap_port_comes_and_goes() {
    let Some(lab) = Lab::new("a_tap_port_comes_and_goes") else { return };
    let (weir, hosts) = start(&lab, "");
    let [a, b, _] = &hosts[..] else { unreachable!("three hosts") };
    let guest = lab.switch.sibling();
    for _ in 0..2 {
        weir.ask("port add guest=tap:wguest");
        lab.switch.run(&format!("ip link set wguest netns {}", guest.id()));
        guest.run("ip addr add 10.0.0.9/24 dev wguest");
        guest.run("ip link set wguest up");
        // Each interface has an address of its own.
        a.space.run(&format!("ip neigh flush dev {a}"));
        eventually("the guest to answer", || a.space.succeeds("ping -n -q -c 1 -W 1 10.0.0.9").then_some(()));
        weir.ask("port remove guest");
        assert!(!guest.succeeds("ip link show wguest"), "the interface goes with its port");
    }
    a.reaches(b);
    weir.stop();
}

/// A MAC address that has moved while its port's link was down is not sent to the old port.
#[test]
fn macs_behind_a_flapping_link_are_forgotten() {
    let Some(lab) = Lab::new("macs_behind_a_flapping_link_are_forgotten") else { return };
    let (weir, hosts) = start(&lab, "");
    let [a, b, _] = &hosts[..] else { unreachable!("three hosts") };
    a.reaches(b);
    let knows = |port: &str| weir.ask("show macs").to_string().contains(&format!("\"{port}\""));
    assert!(knows("port2"));
    lab.switch.run("ip link set p2 down");
    eventually("port2's MAC addresses to be forgotten", || (!knows("port2")).then_some(()));
    assert!(knows("port1"));
    lab.switch.run("ip link set p2 up");
    a.reaches(b);
    weir.stop();
}

#[test]
fn a_start_that_fails_leaves_no_socket() {
    let Some(lab) = Lab::new("a_start_that_fails_leaves_no_socket") else { return };
    let socket = lab.path("failed.sock");
    let binary = env!("CARGO_BIN_EXE_weir");
    let output = lab.switch.try_run(&format!("{binary} run --port a=veth:nonesuch --socket {}", socket.display()));
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!socket.exists());
}
