//! The reader of captures on any bytes: it ends, lends no more than the file holds, and has ended
//! after an error.

use weir::trace::{CaptureReader, CaptureWriter};

pub fn run(bytes: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(bytes) else { return };
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
        stored += captured.bytes.len();
        assert!(stored <= bytes.len());
        // What can be written is read back as it was.
        if writer.write(captured.at_ns, captured.bytes).is_ok() {
            packets.push((captured.at_ns, captured.bytes.to_vec()));
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
