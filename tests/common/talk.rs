//! A capture with two TCP conversations, for `pktgen conversations`. pktgen's tests use it too.

use std::path::Path;

use etherparse::PacketBuilder;
use weir::trace::CaptureWriter;

/// Payload of each of the two: a client that asks and a server that answers at length, over IPv4, and
/// a server that speaks first, over IPv6.
pub const BYTES: [u64; 2] = [300 + 20_000, 50 + 2000 + 10];

pub fn write(path: &Path) {
    let mut capture = CaptureWriter::new(Vec::new()).expect("a capture");
    let frames = [conversation(false, &[(0, 300), (1, 20_000)]), conversation(true, &[(1, 50), (0, 2000), (1, 10)])];
    (1..).zip(frames.concat()).for_each(|(at, frame)| capture.write(at * 1_000_000, &frame).expect("fits"));
    std::fs::write(path, capture.finish().expect("is written")).expect("a file");
}

/// Who says how many bytes, 0 being the client. The server closes first.
fn conversation(is_v6: bool, turns: &[(usize, usize)]) -> Vec<Vec<u8>> {
    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]];
    const HOSTS: [[u8; 4]; 2] = [[10, 9, 0, 1], [10, 9, 0, 2]];
    let six = |host: usize| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host as u8 + 1];
    let (mut next, mut frames) = ([1000u32, 2_000_000_000], Vec::new());
    let mut send = |from: usize, flags: &str, payload: &[u8]| {
        let to = 1 - from;
        let link = PacketBuilder::ethernet2(MACS[from], MACS[to]);
        let ip = if is_v6 { link.ipv6(six(from), six(to), 64) } else { link.ipv4(HOSTS[from], HOSTS[to], 64) };
        let ports = if from == 0 { (40_000, 80) } else { (80, 40_000) };
        let mut packet = ip.tcp(ports.0, ports.1, next[from], 60_000);
        for flag in flags.chars() {
            packet = match flag {
                'S' => packet.syn(),
                'F' => packet.fin(),
                _ => packet.ack(next[to]),
            };
        }
        next[from] = next[from].wrapping_add(payload.len() as u32 + u32::from(flags.contains(['S', 'F'])));
        let mut frame = Vec::new();
        packet.write(&mut frame, payload).expect("fits");
        frames.push(frame);
    };
    for (from, flags) in [(0, "S"), (1, "SA"), (0, "A")] {
        send(from, flags, &[]);
    }
    for (from, length) in turns {
        let bytes: Vec<u8> = (0..*length).map(|at| (at % 251) as u8).collect();
        bytes.chunks(1000).for_each(|payload| send(*from, "A", payload));
    }
    for (from, flags) in [(1, "FA"), (0, "FA"), (1, "A")] {
        send(from, flags, &[]);
    }
    frames
}
