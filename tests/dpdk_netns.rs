//! Kernels as hosts: two namespaces that talk through a pair of ports, all of the kernel's offloads
//! on.
//!
//! The outer test enters a user and network namespace, where no root is needed, and runs the inner
//! one there.
#![cfg(feature = "dpdk")]

#[path = "dpdk_netns/segments.rs"]
mod segments;
#[path = "common/skip.rs"]
mod skip;

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use etherparse::PacketBuilder;
use weir::{
    dpdk::{
        Direction, Eal, EalOptions, HugePages, Interface, Mbuf, Mempool, PacketSocket, PoolOptions, TxBatch, VnetHeader,
    },
    port::{Burst, Dev, Port, PortDrop, PortOptions, RxQueue, TxQueue, free_burst},
    wire::Frame,
};

use crate::skip::{Lack, skip};

const INNER: &str = "inside_the_namespace";
const BUFFERS: u32 = 8191;

#[test]
fn hosts_talk_through_veth_and_tap_ports() {
    for tool in [&["ip", "-V"][..], &["iperf3", "-v"], &["ping", "-V"], &["nsenter", "-V"], &["unshare", "-rn", "true"]]
    {
        let found = Command::new(tool[0]).args(&tool[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            let reason = format!("`{}` does not work here", tool.join(" "));
            return skip("hosts_talk_through_veth_and_tap_ports", Lack::Machine, &reason);
        }
    }
    let this = std::env::current_exe().unwrap();
    let inner =
        Command::new("unshare").arg("-rn").arg(this).args([INNER, "--exact", "--ignored", "--nocapture"]).status();
    assert!(inner.unwrap().success());
}

/// A namespace of its own that lasts as long as a process in it.
struct Host(Child);

impl Host {
    fn new() -> Self {
        let child = Command::new("unshare").args(["-n", "sleep", "600"]).spawn().unwrap();
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let start = Instant::now();
        while std::fs::read_link(format!("/proc/{}/ns/net", child.id())).is_ok_and(|other| other == own) {
            assert!(start.elapsed() < Duration::from_secs(5), "no new namespace");
            thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }

    /// Gives the host one end of a veth; the other stays here as `port`.
    fn connect(&self, port: &str, addresses: &[&str]) {
        let pid = self.0.id();
        sh(&format!("ip link add {port} type veth peer name eth0 netns {pid}"));
        sh(&format!("ip link set {port} up; sysctl -qw net.ipv6.conf.{port}.disable_ipv6=1"));
        for address in addresses {
            self.run(&format!("ip address add {address} dev eth0 nodad"));
        }
        self.run("ip link set lo up; ip link set eth0 up");
    }

    fn run(&self, command: &str) -> String {
        sh(&format!("nsenter -t {} -n sh -ec '{command}'", self.0.id()))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sh(command: &str) -> String {
    let out = Command::new("sh").args(["-ec", command]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

/// A wire between two ports, on a thread.
struct Wire {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Totals>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    received: u64,
    sent: u64,
    left: u64,
}

impl Wire {
    fn new(a: &Port, b: &Port) -> Self {
        let mut ways =
            [(a.rx_queue(0).unwrap(), b.tx_queue(0).unwrap()), (b.rx_queue(0).unwrap(), a.tx_queue(0).unwrap())];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut totals = Totals::default();
            while !stopped.load(Ordering::Relaxed) {
                for (rx, tx) in &mut ways {
                    carry(rx, tx, &mut totals);
                }
            }
            totals
        });
        Self { stop, thread: Some(thread) }
    }

    fn cut(mut self) -> Totals {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn carry(rx: &mut RxQueue, tx: &mut TxQueue, totals: &mut Totals) {
    let mut burst = Burst::new();
    rx.receive(&mut burst);
    if burst.is_empty() {
        thread::yield_now();
        return;
    }
    totals.received += burst.len() as u64;
    totals.sent += tx.transmit(&mut burst).packets as u64;
    totals.left += burst.len() as u64;
    free_burst(&mut burst);
}

fn open(dev: &str, pool: &Arc<Mempool>) -> Port {
    let dev: Dev = dev.parse().unwrap();
    Port::open(&dev.to_string(), &dev, &PortOptions::default(), pool).unwrap()
}

/// Whatever came in went out or was counted, and no buffer is lost.
fn settle(wire: Wire, ports: [Port; 2], pool: &Mempool) {
    let totals = wire.cut();
    let stats = ports.each_ref().map(Port::stats);
    let refused: u64 = stats.iter().flat_map(|s| s.drops()).filter(|(why, _)| why.is_refused()).map(|(_, n)| n).sum();
    assert_eq!(totals.received, totals.sent + totals.left + refused, "{totals:?} {stats:?}");
    assert_eq!(stats.iter().map(|s| s.rx_packets).sum::<u64>(), totals.received);
    assert_eq!(stats.iter().map(|s| s.tx_packets).sum::<u64>(), totals.sent);
    for stats in stats {
        for why in [PortDrop::RxTooLong, PortDrop::RxBadGso, PortDrop::RxError, PortDrop::TxTooLong, PortDrop::TxError]
        {
            assert_eq!(stats.dropped(why), 0, "{}", why.name());
        }
    }
    drop(ports);
    assert_eq!(pool.available(), BUFFERS);
}

/// Bits per second that an iperf3 run from one shell to another got across. On a loaded machine the
/// server may not listen yet, or a handshake take too long: then once more.
fn iperf(server: impl Fn(&str) -> String, client: impl Fn(&str) -> String, arguments: &str) -> f64 {
    for _ in 0..10 {
        server("iperf3 -s -1 -D >/dev/null 2>&1 || true");
        thread::sleep(Duration::from_millis(300));
        let said = client(&format!("iperf3 -J -t 1 {arguments} || true"));
        let report: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        let end = &report["end"];
        let rate = [&end["sum_received"], &end["sum"]].into_iter().find_map(|sum| sum["bits_per_second"].as_f64());
        match rate {
            Some(rate) => {
                eprintln!("iperf3 {arguments}: {:.0} Mbit/s", rate / 1e6);
                return rate;
            }
            None => eprintln!("iperf3 {arguments}: {}", report["error"]),
        }
    }
    panic!("iperf3 {arguments} never ends well");
}

#[test]
#[ignore = "runs inside the namespace that the other test makes"]
fn inside_the_namespace() {
    let options = EalOptions { memory_mib: 128, huge_pages: HugePages::Never, ..Default::default() };
    let eal = Eal::start(&options).unwrap();
    let pool = Arc::new(Mempool::new(&eal, PoolOptions::for_mtu(BUFFERS, 1500)).unwrap());
    port_to_port(&pool);
    veth_to_veth(&pool);
    tap_to_veth(&pool);
}

fn veth_to_veth(pool: &Arc<Mempool>) {
    let (a, b) = (Host::new(), Host::new());
    a.connect("wa", &["10.9.0.1/24", "fd00:9::1/64"]);
    b.connect("wb", &["10.9.0.2/24", "fd00:9::2/64"]);
    let ports = [open("veth:wa", pool), open("veth:wb", pool)];
    assert!(ports.iter().all(Port::link_up));
    assert_eq!(ports[0].mtu(), 1500);
    assert_ne!(ports[0].mac(), ports[1].mac());
    let wire = Wire::new(&ports[0], &ports[1]);

    a.run("ping -q -c 3 -i 0.2 -W 2 10.9.0.2 && ping -q -c 3 -i 0.2 -W 2 fd00:9::2");
    // Fragments, of both families.
    a.run("ping -q -c 2 -i 0.2 -W 2 -s 6000 10.9.0.2 && ping -q -c 2 -i 0.2 -W 2 -s 6000 fd00:9::2");
    let rates = ["-c 10.9.0.2", "-c 10.9.0.2 -R", "-c fd00:9::2", "-c 10.9.0.2 -u -b 50M -l 1400"]
        .map(|arguments| iperf(|s| b.run(s), |c| a.run(c), arguments));
    assert!(rates.iter().all(|&rate| rate > 10e6), "{rates:?}");

    if tag(&a, "10.10.0.1") && tag(&b, "10.10.0.2") {
        a.run("ping -q -c 2 -i 0.2 -W 2 10.10.0.2");
        assert!(iperf(|s| b.run(s), |c| a.run(c), "-c 10.10.0.2") > 10e6);
    } else {
        skip("VLAN in hosts_talk_through_veth_and_tap_ports", Lack::Kernel, "this kernel has no 8021q");
    }

    // The link, pulled and put back while packets pass.
    ports[1].set_link(false).unwrap();
    assert!(!ports[1].link_up());
    a.run("! ping -q -c 1 -W 1 10.9.0.2");
    ports[1].set_link(true).unwrap();
    a.run("ping -q -c 3 -i 0.2 -W 2 10.9.0.2");
    // The kernel counts a large frame as one packet, so we must have seen more: or the offloads
    // were not on.
    let kernel: u64 = sh("awk '$1 == \"wa:\" { print $3 }' /proc/net/dev").trim().parse().unwrap();
    assert!(ports[0].stats().rx_packets > kernel, "no large frame came");
    settle(wire, ports, pool);
}

/// Gives the host an interface on VLAN 7, if the kernel knows of such.
fn tag(host: &Host, address: &str) -> bool {
    let said = host.run("ip link add link eth0 name eth0.7 type vlan id 7 2>&1 || true");
    let known = !said.contains("Unknown device type");
    assert!(!known || said.is_empty(), "{said}");
    if known {
        host.run(&format!("ip address add {address}/24 dev eth0.7; ip link set eth0.7 up"));
    }
    known
}

/// Both ends of a veth are ports: what one sends, the kernel hands to the other.
fn port_to_port(pool: &Arc<Mempool>) {
    sh("ip link add x0 type veth peer name x1; ip link set x0 up; ip link set x1 up");
    sh("sysctl -qw net.ipv6.conf.x0.disable_ipv6=1 net.ipv6.conf.x1.disable_ipv6=1");
    let ports = [open("veth:x0", pool), open("veth:x1", pool)];
    let mut tx = ports[0].tx_queue(0).unwrap();
    let mut rx = ports[1].rx_queue(0).unwrap();
    let mut plain = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([1, 1, 1, 1], [2, 2, 2, 2], 9)
        .udp(5, 6)
        .write(&mut plain, &[9; 100])
        .unwrap();
    let tagged = |tags: &[u8]| [&plain[..12], tags, &plain[12..]].concat();
    // One tag is kept beside the frame by the kernel; of two, the outer one.
    let frames = [plain.clone(), tagged(&[0x81, 0, 0x60, 7]), tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6])];
    for partial in [false, true] {
        let mut burst: Burst = frames.iter().map(|bytes| mbuf(pool, bytes, partial)).collect();
        assert_eq!(tx.transmit(&mut burst).packets, 3);
        receive(&mut rx, &mut burst, 3);
        for (mbuf, bytes) in burst.iter().zip(&frames) {
            assert_eq!((mbuf.bytes(), mbuf.needs_checksum()), (&bytes[..], partial));
        }
        free_burst(&mut burst);
    }

    large_frames(pool, &mut rx);

    // Two that the interface does not take stand between two that it does.
    let mut burst: Burst = [60, 1600, 1700, 70].map(|n| mbuf(pool, &vec![6; n], false)).into_iter().collect();
    assert_eq!((tx.transmit(&mut burst).packets, burst.len()), (2, 0));
    receive(&mut rx, &mut burst, 2);
    assert_eq!((burst[0].wire_len(), burst[1].wire_len()), (60, 70));
    assert_eq!(ports[0].stats().dropped(PortDrop::TxTooLong), 2);

    free_burst(&mut burst);
    starved(pool, &mut tx, &mut rx, &ports[1]);

    promiscuous_and_mtu(&ports[0]);

    // The interface goes away under the port: nothing is sent, nothing panics.
    sh("ip link delete x0");
    let mut burst: Burst = [mbuf(pool, &plain, false)].into_iter().collect();
    assert_eq!((tx.transmit(&mut burst).packets, burst.len(), tx.is_up()), (0, 1, false));
    rx.receive(&mut Burst::new());
    assert!(!ports[0].link_up() && ports[0].set_link(true).is_err());
    free_burst(&mut burst);
    drop((ports, rx, tx));
    assert_eq!(pool.available(), BUFFERS);
}

/// Both change while the port runs, and the kernel knows of it.
fn promiscuous_and_mtu(port: &Port) {
    let shown = |what: &str| sh("ip -d link show x0").split_ascii_whitespace().any(|word| word == what);
    let promiscuity = |n: &str| sh("ip -d link show x0").contains(&format!("promiscuity {n}"));
    assert!(promiscuity("1"));
    port.set_promiscuous(false).unwrap();
    port.set_promiscuous(false).unwrap();
    assert!(promiscuity("0"));
    port.set_promiscuous(true).unwrap();
    assert!(promiscuity("1"));
    port.set_mtu(1400).unwrap();
    assert!(shown("1400") && port.mtu() == 1400);
    let error = port.set_mtu(9000).unwrap_err().to_string();
    assert!(error.contains("68 to 2012, which the packet buffers hold"), "{error}");
    port.set_mtu(1500).unwrap();
}

/// Without buffers frames wait in the socket, and once that is full the kernel counts them.
fn starved(pool: &Mempool, tx: &mut TxQueue, rx: &mut RxQueue, port: &Port) {
    let missed = || port.stats().dropped(PortDrop::RxMissed);
    let (before, mut sent, mut received) = (missed(), 0, 0);
    let mut burst = Burst::new();
    while missed() == before && sent < 200_000 {
        burst.extend((0..64).map(|_| mbuf(pool, &[6; 60], false)));
        sent += tx.transmit(&mut burst).packets as u64;
        let none_left: Vec<_> = burst.drain(..).chain(std::iter::from_fn(|| pool.alloc())).collect();
        rx.receive(&mut burst);
        // The batch holds buffers of its own from earlier on.
        received += burst.len() as u64;
        burst.clear();
        drop(none_left);
    }
    loop {
        rx.receive(&mut burst);
        if burst.is_empty() {
            break;
        }
        received += burst.len() as u64;
        free_burst(&mut burst);
    }
    let missed = missed() - before;
    assert!(missed > 0 && received + missed == sent, "{received} + {missed} of {sent}");
}

/// Frames that the kernel keeps whole, and hands to us whole with the length to cut them to.
fn large_frames(pool: &Mempool, rx: &mut RxQueue) {
    let eth = || PacketBuilder::ethernet2([2; 6], [4; 6]);
    let payload: Vec<u8> = (0..20_000u32).map(|i| (i / 7) as u8).collect();
    let mut frames =
        [(VnetHeader::TCP4, 34, Vec::new()), (VnetHeader::TCP6, 54, Vec::new()), (VnetHeader::UDP, 34, Vec::new())];
    eth().ipv4([1; 4], [2; 4], 9).tcp(5, 6, 7, 8).psh().write(&mut frames[0].2, &payload).unwrap();
    eth().ipv6([1; 16], [2; 16], 9).tcp(5, 6, 7, 8).psh().write(&mut frames[1].2, &payload).unwrap();
    eth().ipv4([1; 4], [2; 4], 9).udp(5, 6).write(&mut frames[2].2, &payload).unwrap();
    let socket = PacketSocket::open(&Interface::open("x0").unwrap(), Direction::Transmit).unwrap();
    let large = Mempool::new(pool.eal(), PoolOptions::for_mtu(63, 32_000)).unwrap();
    for (gso_type, start, bytes) in frames {
        let offset = if gso_type == VnetHeader::UDP { 6 } else { 16 };
        let header_len = if gso_type == VnetHeader::UDP { start + 8 } else { start + 20 };
        let header = VnetHeader {
            gso_type,
            gso_size: 1400,
            header_len: header_len as u16,
            ..VnetHeader::partial(start, offset)
        };
        let sent = TxBatch::default().send(&socket, &[mbuf(&large, &bytes, true)], |_| header);
        assert_eq!(sent.unwrap(), 1, "{header:?}");
        let mut burst = Burst::new();
        receive(rx, &mut burst, 15);
        assert!(burst.iter().all(Mbuf::needs_checksum));
        let parts: Vec<u8> = burst.iter().flat_map(|mbuf| &mbuf.bytes()[header_len..]).copied().collect();
        assert!(burst[..14].iter().all(|mbuf| mbuf.wire_len() == header_len + 1400));
        assert_eq!(parts, payload);
        free_burst(&mut burst);
    }
}

fn mbuf(pool: &Mempool, bytes: &[u8], partial: bool) -> Mbuf {
    let mut mbuf = pool.alloc().unwrap();
    assert!(mbuf.fill(bytes));
    mbuf.set_needs_checksum(partial);
    mbuf
}

fn receive(rx: &mut RxQueue, burst: &mut Burst, count: usize) {
    let start = Instant::now();
    while burst.len() < count {
        assert!(start.elapsed() < Duration::from_secs(5), "{} of {count} came", burst.len());
        rx.receive(burst);
    }
    assert_eq!(burst.len(), count);
}

fn tap_to_veth(pool: &Arc<Mempool>) {
    let host = Host::new();
    host.connect("wc", &["10.9.1.2/24", "fd00:9:1::2/64"]);
    let ports = [open("tap:wtap0", pool), open("veth:wc", pool)];
    sh("ip address add 10.9.1.1/24 dev wtap0; ip address add fd00:9:1::1/64 dev wtap0 nodad; ip link set wtap0 up");
    let wire = Wire::new(&ports[0], &ports[1]);
    sh("ping -q -c 3 -i 0.2 -W 2 10.9.1.2 && ping -q -c 3 -i 0.2 -W 2 fd00:9:1::2");
    let rates = ["-c 10.9.1.2", "-c 10.9.1.2 -R", "-c fd00:9:1::2 -R", "-c 10.9.1.2 -R -u -b 50M -l 1400"]
        .map(|arguments| iperf(|s| host.run(s), sh, arguments));
    assert!(rates.iter().all(|&rate| rate > 10e6), "{rates:?}");
    settle(wire, ports, pool);
}
