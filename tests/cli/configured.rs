//! `weir replay -c --frames`: the packets of a capture through a configured switch, and those that
//! leave it.

use std::fs::File;
use std::path::Path;

use serde_json::json;
use weir::trace::{CaptureReader, INBOUND, OUTBOUND, PcapNgStream};
use weir::wire::shim;

use crate::{Files, frame};

/// A host port and a fabric port, with epochs of 100 ms; the devices are not there.
const SWITCH: &str = r#"
[switch]
name = "edge"
forward = "learn"
epoch = "100ms"
transit = "10ms"
reproducible = 7

[[port]]
name = "h"
dev = "veth:nowhere0"
fault = "rx:drop=100%"

[[port]]
name = "f"
dev = "veth:nowhere1"
role = "fabric"

[archive]
dir = "/nowhere"
state = "/nowhere/state"
"#;

/// A program with a controller, which is not there either.
const PROGRAM: &str = "[controller]\nat = \"nowhere\"\n[[program]]\nname = \"chamelemon\"\n";

/// An epoch of the switch.
const EPOCH: u64 = 100_000_000;
/// When an epoch begins.
const START: u64 = 17_000_000_000 * EPOCH;

/// A packet of a capture: its interface, when it was, its bytes, flags and comment.
type Packet<'a> = (u32, u64, &'a [u8], u32, Option<&'a str>);

fn capture(interfaces: &[&str], packets: &[Packet<'_>]) -> Vec<u8> {
    let mut stream = PcapNgStream::new("a test");
    interfaces.iter().for_each(|name| _ = stream.interface(name, "", 0));
    for (interface, at_ns, bytes, flags, comment) in packets {
        stream.packet(*interface, *at_ns, bytes.len() as u32, bytes, *flags, *comment);
    }
    stream.take()
}

fn packets(file: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut reader = CaptureReader::new(File::open(file).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(captured) = reader.next() {
        let captured = captured.unwrap();
        packets.push((captured.at_ns, captured.bytes.to_vec()));
    }
    packets
}

/// A frame of an IPv4 UDP packet.
fn udp(to: u8, from: u8) -> Vec<u8> {
    let mut frame = frame(to, from);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame[34..42].copy_from_slice(&[0x10, 0, 0, 80, 0, 26, 0, 0]);
    let sum = weir::wire::checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A host's packets get the shim at the fabric port, and lose it at the host port of the next switch.
/// Registers are those of each epoch.
#[test]
fn packets_take_their_way_through_a_configured_switch() {
    let files = Files::new();
    let (there, back) = (udp(2, 1), udp(1, 2));
    files.write("weir.toml", format!("{SWITCH}{PROGRAM}"));
    // Five packets in three epochs, of which the second has none.
    let times = [1, 2, 3, 2 * EPOCH + 1, 2 * EPOCH + 2].map(|at| START + at);
    let sent: Vec<Packet<'_>> = times.iter().map(|at| (0, *at, &there[..], INBOUND, None)).collect();
    files.write("first.pcapng", capture(&["h", "f"], &sent));
    let words = "replay first.pcapng -c weir.toml --registers registers --frames first --json";
    let document = files.weir(words).json();
    assert_eq!(document["configuration"]["epoch_ns"], EPOCH);
    assert_eq!((&document["seed"], &document["outbound_packets"]), (&json!("7"), &json!(0)));
    let port = |place: usize, key: &str| document["ports"][place][key].clone();
    assert_eq!((port(0, "name"), port(0, "dev"), port(0, "rx_packets")), (json!("h"), json!("memory"), json!(5)));
    assert_eq!((port(1, "name"), port(1, "tx_packets")), (json!("f"), json!(5)));
    for epoch in [START / EPOCH, START / EPOCH + 2] {
        let counter = files.path(&format!("registers/chamelemon/epoch-{epoch}/core-0/tower-0.bin"));
        let packets: u64 = std::fs::read(counter).unwrap().iter().map(|cell| u64::from(*cell)).sum();
        assert_eq!(packets, if epoch == START / EPOCH { 3 } else { 2 });
    }

    let left = packets(&files.path("first/f.pcap"));
    assert_eq!(left.iter().map(|(at, _)| *at).collect::<Vec<_>>(), times);
    for (_, bytes) in &left {
        assert_eq!((&bytes[..12], &bytes[12..14]), (&there[..12], &shim::ETHERTYPE.to_be_bytes()[..]));
        assert_eq!(bytes[12 + shim::LEN..], there[12..]);
    }
    assert_eq!(packets(&files.path("first/h.pcap")), []);

    // The next switch has learned where host 2 is, from a packet of its own.
    let mut received: Vec<Packet<'_>> = vec![(0, START, &back, INBOUND, None)];
    received.extend(left.iter().map(|(at, bytes)| (1, *at, &bytes[..], INBOUND, None)));
    // Interfaces without a port's name are ports by their numbers.
    files.write("last.pcapng", capture(&["eth0", "eth1"], &received));
    let document = files.weir("replay last.pcapng -c weir.toml --frames last --json").json();
    assert_eq!(document["drops"]["dropped_packets"], 0);
    let expected: Vec<_> = times.iter().map(|at| (*at, there.clone())).collect();
    assert_eq!(packets(&files.path("last/h.pcap")), expected);
    assert_eq!(packets(&files.path("last/f.pcap")).len(), 1, "what host 2 sent is flooded");
}

#[test]
fn interfaces_name_ports() {
    let files = Files::new();
    let (there, back) = (frame(2, 1), frame(1, 2));
    files.write("weir.toml", SWITCH.replace("reproducible = 7", ""));
    // A name comes before a number, and a packet that went out does not come in.
    let swapped = [(1, START, &there[..], 0, None), (0, START + 1, &back[..], OUTBOUND, None)];
    files.write("swapped.pcapng", capture(&["f", "h"], &swapped));
    let ended = files.weir("replay swapped.pcapng -c weir.toml --frames swapped");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("packets that went out by their interface, which are left out: 1\n"),
        "{}",
        ended.stdout
    );
    assert_eq!(["h", "f"].map(|port| packets(&files.path(&format!("swapped/{port}.pcap"))).len()), [0, 1]);

    // A pcap has no interfaces.
    files.capture("t.pcap", "isp/burst,flows=3,packets=20");
    for (option, directory, port) in [("", "first", "f"), ("--in h", "host", "f"), ("--in f", "fabric", "h")] {
        let words = format!("replay t.pcap -c weir.toml {option} --frames {directory}");
        assert_eq!(files.weir(&words).code, 0, "{words}");
        assert_eq!(packets(&files.path(&format!("{directory}/{port}.pcap"))).len(), 20, "{words}");
    }
    let unknown = files.weir("replay t.pcap -c weir.toml --in x");
    assert_eq!(unknown.refused(2), "weir: --in: there is no port x; the ports are h, f");

    // The report is about the packets before the first without a port.
    let third = [(0, START, &there[..], 0, None), (2, START + 1, &there[..], 0, None)];
    files.write("third.pcapng", capture(&["h", "f", "w\n"], &third));
    let refused = files.weir("replay third.pcapng -c weir.toml");
    assert_eq!(refused.code, 1);
    assert!(refused.stdout.starts_with("1 packets, "), "{}", refused.stdout);
    let why = "packet 2: no port has the number of its interface, 2 or its name, \"w\\n\"; the ports are h, f";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
}

#[test]
fn what_makes_no_switch_is_refused() {
    let files = Files::new();
    files.write("weir.toml", SWITCH).write("empty.toml", "");
    std::fs::create_dir_all(files.path("full/directory")).unwrap();
    files.capture("t.pcap", "isp/burst,flows=3,packets=20");
    for words in ["--program hashpipe", "--epoch 1s", "--order packet", "--reproducible 1"] {
        assert_eq!(files.weir(&format!("replay t.pcap -c weir.toml {words}")).code, 2, "{words}");
    }
    let refused = |words: &str| files.weir(&format!("replay t.pcap {words}")).refused(2).to_owned();
    assert!(refused("-c empty.toml").starts_with("weir: empty.toml: no port"));
    assert!(refused("--in h").contains("--config"));
    assert_eq!(refused("--frames full"), "weir: full: the directory is not empty");
    assert!(refused("-c none.toml").starts_with("weir: none.toml: "));
}

/// The latency of a hop is how long its switch held the packet, by the packet's comment.
#[test]
fn comments_say_how_long_packets_were_held() {
    let files = Files::new();
    let (slow, fast) = (udp(2, 1), udp(2, 3));
    let held: Vec<_> =
        (0..400u32).map(|n| format!("from a test held_ns={}", if n % 2 == 0 { 1_000_000 } else { n })).collect();
    let sent = (0u64..).zip(&held).map(|(n, held)| {
        let bytes = if n % 2 == 0 { &slow } else { &fast };
        (0, START + n, &bytes[..], 0, Some(held.as_str()))
    });
    let sent: Vec<Packet<'_>> = sent.collect();
    files.write("t.pcapng", capture(&["a"], &sent));
    let words = "replay t.pcapng --program pint:queries=path:bits=8+latency:bits=8:frequency=15/16 --json";
    let latencies = files.weir(words).json()["programs"]["pint"]["latencies"].as_array().unwrap().clone();
    let mut medians: Vec<_> = latencies.iter().map(|flow| flow["hops"][0]["p50_ns"].as_f64().unwrap()).collect();
    medians.sort_by(f64::total_cmp);
    let [fast, slow] = medians[..] else { panic!("{latencies:?}") };
    assert!(fast < 500.0 && (800_000.0..1_250_000.0).contains(&slow), "{medians:?}");

    for word in ["held_ns=", "held_ns=-1", "held_ns=4294967296", "held_ns=1ms"] {
        let packet = (0, START, &frame(2, 1)[..], 0, Some(word));
        files.write("wrong.pcapng", capture(&["a"], &[packet]));
        let why =
            format!("weir: wrong.pcapng: packet 1: \"{word}\" in its comment is no number of nanoseconds below 2³²");
        assert_eq!(files.weir("replay wrong.pcapng").refused(1), why);
    }
}
