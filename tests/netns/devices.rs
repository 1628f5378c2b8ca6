//! Ports that share memory with another process, and ports on AF_XDP.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{BINARY, Host, Iperf, Lab, Lack, Link, Protocol, Testpmd, Weir, is_root, skip};
use crate::traffic::{TCP_ALIVE, everything};

/// XDP programs are loaded by root alone, not in a user namespace.
pub fn xdp_works(test: &str) -> bool {
    if !is_root() {
        skip(test, Lack::Machine, "AF_XDP needs root");
    }
    is_root() && kernel_has_xdp(test)
}

fn kernel_has_xdp(test: &str) -> bool {
    let socket = rustix::net::socket(rustix::net::AddressFamily::XDP, rustix::net::SocketType::RAW, None);
    let lacks = socket.is_err_and(|error| error == rustix::io::Errno::AFNOSUPPORT);
    if lacks {
        skip(test, Lack::Kernel, "this kernel has no AF_XDP");
    }
    !lacks
}

#[test]
fn xdp_learn() {
    if xdp_works("xdp_learn") {
        everything("xdp_learn", Link::Xdp, "learn");
    }
}

/// What a switch does to an interface ends with it.
#[test]
fn xdp_leaves_the_interface_as_it_was() {
    let test = "xdp_leaves_the_interface_as_it_was";
    let Some(lab) = xdp_works(test).then(|| Lab::new(test)).flatten() else { return };
    let (weir, hosts) = lab.start(Link::Xdp, 2, "");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let interface = || lab.switch.run("ip link show p1");
    assert!(interface().contains("prog/xdp") && interface().contains("PROMISC"), "{}", interface());
    weir.ask("port down port1");
    assert!(!a.ping(b, "-c 1 -W 1") && !interface().contains("LOWER_UP"), "{}", interface());
    weir.ask("port up port1");
    a.reaches(b);
    weir.stop();
    assert!(!interface().contains("xdp") && !interface().contains("PROMISC"), "{}", interface());
}

/// What the kernel has for an xdp port while the switch stands still, and cannot keep, is counted:
/// to the packet.
#[test]
fn xdp_counts_what_a_stopped_switch_misses() {
    let test = "xdp_counts_what_a_stopped_switch_misses";
    let Some(lab) = xdp_works(test).then(|| Lab::new(test)).flatten() else { return };
    let (weir, hosts) = lab.start(Link::Xdp, 2, "");
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    let signal = |name: &str| lab.switch.run(&format!("kill -{name} {}", weir.id()));
    signal("STOP");
    // Far more than the rings hold. Nobody answers, and ping says so by its exit code.
    a.space.try_run(&format!("ping -n -q -l 20000 -c 20000 -W 1 {}", b.address()));
    signal("CONT");
    let [received, missed] = crate::common::eventually("all packets to be received or missed", || {
        let [sent, _] = a.counts();
        let ports = weir.ask("show ports");
        let port = &ports["ports"][0];
        let counts = [&port["rx_packets"], &port["device"]["rx_missed"]].map(|n| n.as_u64().expect("a count"));
        (counts[0] + counts[1] == sent).then_some(counts)
    });
    assert!(received + missed > 20_000 && missed > 10_000, "{received} received, {missed} missed");
    a.reaches(b);
    let totals = weir.stop();
    assert!(totals.port("port1")["device"]["rx_missed"].as_u64() >= Some(missed), "{:#}", totals.0);
}

/// What cannot be is refused with what would be right.
#[test]
fn refusals_say_what_would_be_right() {
    let test = "refusals_say_what_would_be_right";
    let Some(lab) = xdp_works(test).then(|| Lab::new(test)).flatten() else { return };
    let _ports = lab.ports(Link::Xdp, 1);
    for (arguments, hint) in [
        ("--port a=xdp:p1 --core 0 --core 1", "give --core once"),
        ("--port a=xdp:p1 --mtu 9000", "MTU of 9000 bytes (mtu of the port, --mtu): an xdp port takes 3542 at most"),
        ("--port a=xdp:nonesuch", "there is no interface nonesuch here; there is p1"),
        ("--port a=veth:p9", "there is no interface p9 here; there is p1"),
        ("--port a=tap:tt0 --buffers 512", "give --buffers"),
        ("--port a=pcap:,out.pcap --core 0 --core 1", "serves one worker"),
        ("--port a=virtio-user:/nonesuch/v.sock", "virtio-user:/nonesuch/v.sock"),
    ] {
        let mut command = lab.switch.command(env!("CARGO_BIN_EXE_weir"));
        command.args(["run", "--duration", "1s", "--socket"]).arg(lab.path("r.sock")).current_dir(lab.directory());
        let output = command.args(arguments.split_ascii_whitespace()).output().expect("runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(hint), "{arguments}: {error}");
    }
}

/// A switch sends a peer frames without end, and the peer sends them back: both count the same.
fn with_testpmd(test: &str, port: impl Fn(&str) -> String, vdev: impl Fn(&str) -> String, peer_first: bool) {
    if let Some(reason) = Testpmd::missing() {
        return skip(test, Lack::Machine, &reason);
    }
    let Some(lab) = Lab::new(test) else { return };
    let socket = lab.path("peer.sock").display().to_string();
    let arguments = format!("--core 1 --forward xconnect --port a={} --port b=null", port(&socket));
    let start_peer = || Testpmd::start(&lab, &vdev(&socket));
    let start = || Weir::start(&lab, &lab.switch, "switch", &arguments);
    let (weir, peer) = if peer_first {
        let peer = start_peer();
        crate::common::eventually("the peer's socket", || lab.path("peer.sock").exists().then_some(()));
        (start(), peer)
    } else {
        let weir = start();
        (weir, start_peer())
    };
    crate::common::eventually("packets in both directions", || {
        let ports = weir.ask("show ports");
        let counts = ["rx_packets", "tx_packets"].map(|key| ports["ports"][0][key].as_u64().unwrap_or(0));
        counts.iter().all(|&packets| packets > 10_000).then_some(())
    });
    // Nothing is under way when the peer goes: DPDK's memif driver unmaps its rings while a worker may
    // be in them.
    assert!(weir.try_ask("port remove b").status.success());
    std::thread::sleep(Duration::from_millis(100));
    let forwarded = peer.stop();
    let totals = weir.stop();
    let count = |key: &str| totals.port("a")[key].as_u64().expect("a count");
    // Some are on their way when the peer stops.
    assert!(
        count("rx_packets") <= forwarded.tx && forwarded.tx - count("rx_packets") <= 4096,
        "{forwarded:?} {}",
        totals.0
    );
    assert!(
        forwarded.rx <= count("tx_packets") && count("tx_packets") - forwarded.rx <= 4096,
        "{forwarded:?} {}",
        totals.0
    );
}

#[test]
fn memif_with_testpmd() {
    with_testpmd(
        "memif_with_testpmd",
        |socket| format!("memif:3,socket={socket}"),
        |socket| format!("net_memif0,role=client,id=3,socket={socket},socket-abstract=no"),
        false,
    );
}

#[test]
fn vhost_with_testpmd() {
    with_testpmd(
        "vhost_with_testpmd",
        |socket| format!("vhost:{socket}"),
        |socket| format!("net_virtio_user0,path={socket}"),
        false,
    );
}

#[test]
fn virtio_user_with_testpmd() {
    with_testpmd(
        "virtio_user_with_testpmd",
        |socket| format!("virtio-user:{socket}"),
        |socket| format!("net_vhost0,iface={socket}"),
        true,
    );
}

const MEMIF: [&str; 2] = ["memif:0,socket=SOCKET", "memif:0,role=client,socket=SOCKET"];
const VHOST: [&str; 2] = ["vhost:SOCKET", "virtio-user:SOCKET"];

/// Two hosts, each at a switch of its own, and the switches joined by shared memory, at ports that
/// are named `between`.
fn joined(lab: &Lab, devices: [&str; 2]) -> ([Weir; 2], Vec<Host>) {
    let ports = lab.ports(Link::Veth, 2);
    let socket = lab.path("between.sock").display().to_string();
    let start = |n: usize, dev: &str| {
        let dev = dev.replace("SOCKET", &socket);
        let core = (n - 1) % std::thread::available_parallelism().map_or(1, usize::from);
        let arguments = format!("--core {core} --mtu 9000 --port port{n}=veth:p{n} --port between={dev}");
        Weir::start(lab, &lab.switch, &format!("switch{n}"), &arguments)
    };
    let switches = [start(1, devices[0]), start(2, devices[1])];
    (switches, ports.connect())
}

fn two_switches(test: &str, devices: [&str; 2]) {
    let Some(lab) = Lab::new(test) else { return };
    let (switches, hosts) = joined(&lab, devices);
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    assert!(a.ping(b, "-c 5 -i 0.05") && b.ping6(a, "-c 5 -i 0.05"));
    let iperf = Iperf::serve(b);
    for options in ["--time 1", "--time 1 --reverse"] {
        let tcp = iperf.run(a, Protocol::Tcp, options);
        assert!(tcp.bits_per_second > TCP_ALIVE, "{options}: {tcp:?}");
    }
    drop(iperf);
    for host in [a, b] {
        host.space.run(&format!("ip link set dev {host} mtu 9000"));
    }
    assert!(a.ping(b, "-c 3 -M do -s 8972"), "9000 bytes in one piece");
    let [one, other] = switches.map(|weir| weir.stop());
    for totals in [one, other] {
        let lost: Vec<_> = totals.port("between")["device"].as_object().expect("losses").values().collect();
        assert!(lost.iter().all(|packets| packets.as_u64() == Some(0)), "{}", totals.0);
    }
}

#[test]
fn memif_between_switches() {
    two_switches("memif_between_switches", MEMIF);
}

#[test]
fn vhost_between_switches() {
    two_switches("vhost_between_switches", VHOST);
}

/// A peer knows nothing of a port that its owner sets down, and goes on sending.
#[test]
fn nothing_waits_in_a_port_that_is_down() {
    for (devices, down) in [(MEMIF, 1), (VHOST, 0), (VHOST, 1)] {
        let Some(lab) = Lab::new("nothing_waits_in_a_port_that_is_down") else { return };
        let (switches, hosts) = joined(&lab, devices);
        let [near, far] = [&hosts[1 - down], &hosts[down]];
        near.reaches(far);
        switches[down].ask("port down between");
        let before = far.counts()[1];
        assert!(!near.ping(far, "-c 30 -i 0.02 -W 1"), "{devices:?}");
        switches[down].ask("port up between");
        let ports = switches[down].ask("show ports");
        assert!(ports["ports"][1]["device"]["rx_missed"].as_u64() >= Some(30), "{devices:?} {ports:#}");
        assert!(far.counts()[1] - before < 30, "{devices:?}: they were sent late");
        near.reaches(far);
        switches.into_iter().for_each(|weir| drop(weir.stop()));
    }
}

/// A socket that a killed switch left behind is no obstacle, and the peer finds the new one.
#[test]
fn memif_after_a_kill() {
    let Some(lab) = Lab::new("memif_after_a_kill") else { return };
    let socket = lab.path("between.sock").display().to_string();
    for dev in [format!("memif:0,socket={socket}"), format!("vhost:{socket}")] {
        let start = |name: &str| {
            Weir::start(&lab, &lab.switch, name, &format!("--forward xconnect --port a={dev} --port b=ring:r"))
        };
        drop(start("first"));
        assert!(lab.path("between.sock").exists());
        std::thread::sleep(Duration::from_millis(50));
        start("second").stop();
    }
}

/// What is no left-over socket stays as it is: at the start, when a port is added, and when the
/// switch ends.
#[test]
fn files_at_a_ports_path_are_left_alone() {
    let Some(lab) = Lab::new("files_at_a_ports_path_are_left_alone") else { return };
    let [open, other] = ["open", "other"].map(|name| lab.path(name));
    for directory in [&open, &other] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("precious"), "precious").unwrap();
        symlink(directory.join("precious"), directory.join("link")).unwrap();
    }
    let at = |directory: &Path, name: &str| directory.join(name).display().to_string();
    let devices = |file: &str| ["vhost:", "memif:0,socket=", "pcap:,"].map(|dev| format!("{dev}{file}"));
    for dev in [at(&open, "precious"), at(&open, "link")].iter().flat_map(|file| devices(file)) {
        let mut weir = lab.switch.command(BINARY);
        weir.args(["run", "--duration", "5s", "--forward", "xconnect", "--port", &format!("a={dev}")]);
        weir.args(["--port", "b=ring:r", "--socket"]).arg(lab.path("refused.sock"));
        let output = weir.stdin(Stdio::null()).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("or name another"), "{dev}: {said}");
    }

    let file = format!("[api]\nport_directories = [\"{}\"]\n", open.display());
    fs::write(lab.path("weir.toml"), file).unwrap();
    let weir = Weir::start(&lab, &lab.switch, "weir", "--config weir.toml --port a=ring:r --port b=ring:s");
    let refused = |dev: &str, why: &str| {
        let output = weir.try_ask(&format!("port add x={dev}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{dev}: {said}");
    };
    devices(&at(&open, "precious")).iter().for_each(|dev| refused(dev, "or name another"));
    devices(&at(&open, "link")).iter().for_each(|dev| refused(dev, "neither a regular file nor a socket"));
    for dev in devices(&at(&other, "new")).iter().chain(&[format!("pcap:{}", at(&other, "precious"))]) {
        refused(dev, "(api.port_directories)");
    }
    for dev in devices(&at(&open, "new")) {
        weir.ask(&format!("port add x={dev}"));
        weir.ask("port remove x");
        let _ = fs::remove_file(open.join("new"));
    }
    weir.stop();
    for directory in [&open, &other] {
        assert_eq!(fs::read_to_string(directory.join("precious")).unwrap(), "precious");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 2);
    }
}
