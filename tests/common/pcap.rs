//! Captures written and read by hand, so that frames may be as wrong as a test wants them.

use std::fs;
use std::path::Path;

/// Classic pcap, Ethernet, little-endian, one microsecond between frames.
pub fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        let length = u32::try_from(frame.len()).unwrap();
        for word in [1_700_000_000, u32::try_from(i).unwrap() % 1_000_000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

/// The frames of a capture that DPDK wrote: this machine's byte order.
pub fn read(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap();
    let mut rest = file.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_at_checked(16) {
        let length = u32::from_ne_bytes(header[8..12].try_into().unwrap()) as usize;
        let Some((frame, next)) = after.split_at_checked(length) else { break };
        frames.push(frame.to_vec());
        rest = next;
    }
    frames
}

/// Ethernet II: to, from, type, payload.
pub fn ethernet(to: u8, from: u8, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mac = |last: u8| [2, 0, 0, 0, 0, last];
    let mut frame = [mac(to), mac(from)].concat();
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}
