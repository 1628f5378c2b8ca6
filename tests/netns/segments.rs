//! Large frames of hosts' kernels between `veth` ports: whole in the switch's hands, and counted
//! as the packets that they are on a wire.

use std::process::Stdio;

use crate::common::{Host, Lab, Link, Totals, Weir, eventually};

const SENDS: u64 = 100;
const DATAGRAMS: u64 = 40;
const BYTES: u64 = 8 << 20;

/// Sends large UDP frames, each of 40 datagrams of 1400 bytes, and then 8 MiB of TCP.
const SENDER: &str = "
import socket, struct, sys, time
to = sys.argv[1]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.IPPROTO_UDP, 103, 1400)
for i in range(100):
    datagrams = [struct.pack('!I', 40 * i + k) + bytes((k * 7 + j) % 251 for j in range(1396)) for k in range(40)]
    udp.sendto(b''.join(datagrams), (to, 7001))
    time.sleep(0.005)
tcp = socket.create_connection((to, 7002))
tcp.sendall(bytes((i * i >> 8) % 256 for i in range(1 << 20)) * 8)
tcp.shutdown(socket.SHUT_WR)
tcp.recv(1)
";

/// Says how many datagrams came, how many of those were not as they were sent, whether the stream
/// is as it was sent, and which datagrams the kernel had no room for.
const RECEIVER: &str = "
import socket, struct
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
udp.bind(('0.0.0.0', 7001))
tcp = socket.socket()
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
tcp.bind(('0.0.0.0', 7002))
tcp.listen()
peer, _ = tcp.accept()
stream = b''.join(iter(lambda: peer.recv(1 << 20), b''))
peer.close()
udp.settimeout(0.3)
count = wrong = 0
try:
    while True:
        datagram = udp.recv(65536)
        k = struct.unpack('!I', datagram[:4])[0] % 40
        count += 1
        wrong += datagram[4:] != bytes((k * 7 + j) % 251 for j in range(1396))
except TimeoutError:
    pass
whole = stream == bytes((i * i >> 8) % 256 for i in range(1 << 20)) * 8
names, values = [line.split() for line in open('/proc/net/snmp') if line.startswith('Udp:')]
print(count, wrong, int(whole), values[names.index('RcvbufErrors')])
";

struct Outcome {
    totals: Totals,
    /// Datagrams that the other host got.
    datagrams: u64,
    /// Frames that its interface received.
    frames: u64,
}

/// Two hosts, and what became of the same traffic.
fn traffic(lab: &Lab, segments: &str, prepare: impl FnOnce(&Weir)) -> Outcome {
    let ports = lab.ports(Link::Veth, 2);
    let arguments = ports.arguments().replace("p1 ", &format!("p1,segments={segments} "));
    let arguments = format!("{arguments},segments={segments} --program hashpipe");
    let weir = Weir::start(lab, &lab.switch, "switch", &arguments);
    let hosts = ports.connect();
    let [a, b] = &hosts[..] else { unreachable!("two hosts") };
    a.reaches(b);
    prepare(&weir);

    let mut receiver = b.space.command("python3");
    let receiver = receiver.args(["-c", RECEIVER]).stdout(Stdio::piped()).spawn().expect("python3 starts");
    eventually("the receiver to listen", || b.space.run("ss -Hltn sport = 7002").contains("7002").then_some(()));
    let mut sender = a.space.command("python3");
    assert!(sender.args(["-c", SENDER, &b.address()]).status().expect("python3 starts").success());
    let said = receiver.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&said.stdout);
    let words: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [datagrams, wrong, whole, no_room] = words[..] else { panic!("{said}") };
    assert_eq!((wrong, whole), (0, 1), "every byte is as it was sent");
    let frames = received(b);
    Outcome { totals: weir.stop(), datagrams: datagrams + no_room, frames }
}

fn received(host: &Host) -> u64 {
    host.counts()[1]
}

/// Datagrams of the flow by the program's count.
fn counted(totals: &Totals) -> u64 {
    let heavy = totals.0["heavy"]["heavy"].as_array().expect("heavy flows");
    let of_flow = heavy.iter().filter(|heavy| heavy["flow"]["proto"] == 17 && heavy["flow"]["dport"] == 7001);
    of_flow.filter_map(|heavy| heavy["packets"].as_u64()).sum()
}

/// The program and both ports count each packet of a large frame, and the host at the other end gets
/// large frames again, or packets when that is asked for.
#[test]
fn segments_travel_whole() {
    for segments in ["whole", "cut"] {
        let Some(lab) = Lab::new("segments_travel_whole") else { return };
        let Outcome { totals, datagrams, frames } = traffic(&lab, segments, |_| {});
        let sent = totals.port("port2")["tx_packets"].as_u64().expect("a count");
        assert_eq!(datagrams, SENDS * DATAGRAMS, "{}", totals.0);
        assert_eq!(counted(&totals), SENDS * DATAGRAMS, "{}", totals.0);
        assert!(sent >= SENDS * DATAGRAMS + BYTES / 1448, "{}", totals.0);
        let expected = if segments == "whole" { 0..sent / 4 } else { sent - 10..sent + 10 };
        assert!(expected.contains(&frames), "{frames} frames for {sent} packets, {segments}");
    }
}

/// A kernel that would have to segment a frame for the interface drops it. Its packets go one by one,
/// and none is lost.
#[test]
fn a_frame_that_is_refused_goes_as_packets() {
    let Some(lab) = Lab::new("a_frame_that_is_refused_goes_as_packets") else { return };
    let smaller = |_: &Weir| _ = lab.switch.run("ip link set p2 gso_max_size 4000");
    let Outcome { totals, datagrams, frames } = traffic(&lab, "whole", smaller);
    let sent = totals.port("port2")["tx_packets"].as_u64().expect("a count");
    assert_eq!(datagrams, SENDS * DATAGRAMS, "{}", totals.0);
    assert_eq!(totals.dropped("tx_full") + totals.dropped("tx_refused"), 0, "{}", totals.0);
    // But for frames of up to two packets.
    assert!(frames > sent / 2, "{frames} frames for {sent} packets");
}

/// A limit cuts large frames where it is reached. What is left of them comes, and what is lost is
/// counted.
#[test]
fn a_large_frame_loses_packets() {
    let Some(lab) = Lab::new("a_large_frame_loses_packets") else { return };
    let limit = |weir: &Weir| _ = weir.ask("table set limits port=port2 direction=tx limit=40Mbps,burst=64KB");
    let Outcome { totals, datagrams, frames } = traffic(&lab, "whole", limit);
    let sent = totals.port("port2")["tx_packets"].as_u64().expect("a count");
    assert_eq!(counted(&totals), SENDS * DATAGRAMS, "{}", totals.0);
    let lost = totals.dropped("tx_limit");
    assert!(lost > 100 && datagrams < SENDS * DATAGRAMS && datagrams + lost >= SENDS * DATAGRAMS, "{}", totals.0);
    assert!(frames < sent / 2, "{frames} frames for {sent} packets");
}
