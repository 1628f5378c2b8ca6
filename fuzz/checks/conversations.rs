//! The TCP conversations of a capture of any bytes: the turns of each are all of its bytes, said in turn.

use pktgen::conversations::{Scripts, Side};
use weir::trace::CaptureReader;

pub fn run(bytes: &[u8]) {
    // Compressed bytes may hold any number of packets.
    if matches!(bytes, [0x1f, 0x8b, ..] | [0x28, 0xb5, ..] | [0x50..=0x5f, 0x2a, ..]) {
        return;
    }
    let Ok(mut capture) = CaptureReader::new(bytes) else { return };
    let Ok(scripts) = Scripts::read(&mut capture) else { return };
    let mut payload = 0;
    for script in scripts.all() {
        for side in Side::BOTH {
            let turns = script.turns().iter().filter(|turn| turn.side == side);
            assert_eq!(turns.map(|turn| turn.bytes as usize).sum::<usize>(), script.stream(side).len());
            payload += script.stream(side).len() as u64;
        }
        assert!(script.turns().windows(2).all(|pair| pair[0].side != pair[1].side));
    }
    assert_eq!(scripts.extracted().payload_bytes, payload);
    assert!(scripts.extracted().missing_bytes <= payload);
}
