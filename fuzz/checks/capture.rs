//! The reader of captures on any bytes: it ends, lends no more than the file holds and an Ethernet
//! header for each packet, and has ended after an error. Of compressed bytes, which may hold any
//! number of packets, the first are read.

use weir::trace::{CaptureReader, CaptureWriter, LinkType};

const ETHERNET: usize = 14;
/// Packets that are read of compressed bytes.
const MAX_PACKETS: usize = 1000;

pub fn run(bytes: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(bytes) else { return };
    let is_compressed = matches!(bytes, [0x1f, 0x8b, ..] | [0x28, 0xb5, ..] | [0x50..=0x5f, 0x2a, ..]);
    let mut stored = 0;
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    let mut packets = Vec::new();
    let mut failed = false;
    while let Some(captured) = reader.next() {
        let Ok(captured) = captured else {
            failed = true;
            break;
        };
        assert!(captured.wire_len as usize >= captured.bytes.len());
        let added = if captured.link == LinkType::Ethernet { 0 } else { ETHERNET };
        stored += captured.bytes.len().saturating_sub(added);
        assert!(is_compressed || stored <= bytes.len());
        // What can be written is read back as it was.
        if writer.write(captured.at_ns, captured.bytes).is_ok() {
            packets.push((captured.at_ns, captured.bytes.to_vec()));
        }
        if is_compressed && packets.len() > MAX_PACKETS {
            break;
        }
    }
    assert!(!failed || reader.next().is_none());
    let copy = writer.finish().unwrap();
    let mut reader = CaptureReader::new(&copy[..]).unwrap();
    for (at_ns, bytes) in packets {
        let again = reader.next().unwrap().unwrap();
        assert_eq!((again.at_ns, again.bytes), (at_ns, &bytes[..]));
    }
    assert!(reader.next().is_none());
}
