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

/// An interface that was renamed, and devices that change places: the ports have them after a
/// reload.
#[test]
fn ports_take_over_devices_from_each_other() {
    let Some(lab) = Lab::new("ports_take_over_devices_from_each_other") else { return };
    let file = |ports: &[(&str, &str)]| {
        let port = |(name, dev): &(&str, &str)| format!("[[port]]\nname = \"{name}\"\ndev = \"{dev}\"\n");
        std::fs::write(lab.path("weir.toml"), ports.iter().map(port).collect::<String>()).unwrap();
    };
    file(&[("one", "veth:p1"), ("two", "veth:p2")]);
    let ports = lab.ports(Link::Veth, 2);
    let weir = Weir::start(&lab, &lab.switch, "switch", "-c weir.toml");
    let hosts = ports.connect();
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);

    lab.switch.run("ip link set p1 down");
    lab.switch.run("ip link set p1 name q1");
    lab.switch.run("ip link set q1 up");
    let refused = weir.try_ask("port add three=veth:q1");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("port three: port one has veth:p1"), "{said}");
    file(&[("one", "veth:q1"), ("two", "veth:p2")]);
    assert_eq!(changes(&weir), ["port one = veth:p1 removed", "port one = veth:q1 added"]);
    a.reaches(b);
    b.reaches(a);

    file(&[("one", "veth:p2"), ("two", "veth:q1")]);
    assert_eq!(changes(&weir).len(), 4);
    a.reaches(b);
    b.reaches(a);
    let macs = weir.ask("show macs");
    let port_of = |host: &Host| {
        let link = host.space.run(&format!("ip -br link show {host}"));
        let mac = link.split_whitespace().nth(2).expect("name, state, address").to_owned();
        let entry = macs["macs"].as_array().expect("a list").iter().find(|entry| entry["mac"] == mac);
        entry.unwrap_or_else(|| panic!("{mac} in {macs:#}"))["port"].clone()
    };
    assert_eq!([port_of(a), port_of(b)], ["two", "one"]);

    // One device that is not there: everything stays as it was.
    file(&[("one", "veth:nonesuch"), ("two", "xdp:p2"), ("three", "veth:q1")]);
    assert!(!weir.try_ask("reload").status.success());
    file(&[("one", "veth:q1"), ("two", "veth:p2"), ("three", "veth:nonesuch")]);
    assert!(!weir.try_ask("reload").status.success());
    a.reaches(b);
    b.reaches(a);
    let ports = weir.ask("show ports");
    assert_eq!([&ports["ports"][0]["dev"], &ports["ports"][1]["dev"]], ["veth:p2", "veth:q1"]);
    weir.stop();
}

/// A terminal that closes ends a switch without a file, with its totals, and not one under nohup. A
/// switch with a file reads that again.
#[test]
fn a_terminal_that_closes() {
    let Some(lab) = Lab::new("a_terminal_that_closes") else { return };
    let ports = "--forward xconnect --port a=null:rx=0 --port b=null:rx=0";
    let weir = Weir::start(&lab, &lab.switch, "plain", ports);
    assert_eq!(weir.stop_by("HUP").rx(), 0);

    let nohup = lab.path("nohup.sh");
    std::fs::write(&nohup, format!("#!/bin/sh\ntrap '' HUP\nexec {} \"$@\"\n", crate::common::BINARY)).unwrap();
    std::fs::set_permissions(&nohup, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let weir = Weir::start_binary(&nohup, &lab, &lab.switch, "ignoring", ports);
    weir.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(weir.ask("show ports")["ports"].as_array().map(Vec::len), Some(2));
    weir.stop();

    std::fs::write(lab.path("weir.toml"), "[switch]\nmac_age = \"1m\"\n").unwrap();
    let weir = Weir::start(&lab, &lab.switch, "filed", &format!("-c weir.toml {ports}"));
    std::fs::write(lab.path("weir.toml"), "[switch]\nmac_age = \"2m\"\n").unwrap();
    weir.signal("HUP");
    eventually("the file to be read", || weir.log().contains("mac_age = 2m").then_some(()));
    weir.stop();
}

/// A MAC address that is heard behind one port and then another is counted, and told once a second
/// at most; so is an interface that a bridge has too, and a core that another switch polls.
#[test]
fn what_disturbs_a_switch_is_said() {
    let Some(lab) = Lab::new("what_disturbs_a_switch_is_said") else { return };
    let ports = lab.ports(Link::Veth, 2);
    lab.switch.run("ip link add br7 type bridge");
    lab.switch.run("ip link set p2 master br7");
    let weir = Weir::start(&lab, &lab.switch, "first", &format!("--core 0 {}", ports.arguments()));
    let hosts = ports.connect();
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    let said = weir.log();
    assert!(said.contains("p2 is a port of the bridge br7 too"), "{said}");
    assert!(!said.contains("p1 is a port of"), "{said}");
    lab.switch.run("ip link set p2 nomaster");
    a.reaches(b);
    let link = a.space.run(&format!("ip -br link show {a}"));
    let mac = link.split_whitespace().nth(2).expect("name, state, address").to_owned();
    // Both hosts with one address: whoever spoke last has it.
    b.space.run(&format!("ip link set {b} address {mac}"));
    for host in [a, b, a, b] {
        let other = if host.number() == 1 { b } else { a };
        host.space.try_run(&format!("ping -n -q -c 1 -W 1 {}", other.address()));
        host.space.try_run("ping -n -q -c 1 -W 1 10.0.0.77");
    }
    let moved = weir.ask("show ports")["measurement"]["moved_macs"].as_u64();
    assert!(moved >= Some(3), "{moved:?}");
    let macs = weir.ask("show macs");
    let entry = macs["macs"].as_array().expect("a list").iter().find(|entry| entry["mac"] == mac).expect("the address");
    assert!(entry["moves"].as_u64() >= Some(3), "{entry}");
    eventually("a line about it", || weir.log().contains("MAC addresses move between ports").then_some(()));
    let other = Weir::start(&lab, &lab.switch, "second", "--core 0 --port a=null:rx=0 --port b=null:rx=0");
    let said = other.log();
    assert!(
        said.contains("another switch polls this core") && said.contains(&format!("process={}", weir.process())),
        "{said}"
    );
    other.stop();
    weir.stop();
}
