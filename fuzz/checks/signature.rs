//! Frames that come back to the generator: the first byte is the run's tag, the rest a frame.

use pktgen::signature::{FLOWS, LEN, Signature, find};
use pktgen::tally::Tally;

pub fn run(bytes: &[u8]) {
    let Some((&tag, frame)) = bytes.split_first() else { return };
    let found = find(frame, tag);
    if let Some(signature) = found {
        assert!(signature.tag == tag && signature.flow < FLOWS);
        let mut written = [0; LEN];
        signature.write(&mut written);
        assert_eq!(Signature::read(&written, tag), Some(signature));
        assert!(frame.windows(LEN).any(|window| window == written));
    }
    // Whatever sequence numbers and flows are in it, each frame is counted once.
    let mut tally = Tally::new(64);
    for chunk in bytes.chunks(8).chain([frame]) {
        let word = chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let made =
            Signature { flow: (word >> 56) as u32 & 127, sequence: word & ((1 << 40) - 1), tag, epoch: 0, at_ns: word };
        tally.take(Some(&made), chunk.len());
        tally.take(found.as_ref(), frame.len());
    }
    let counts = tally.counts();
    let all = counts.received + counts.duplicates + counts.uncertain + counts.foreign;
    assert_eq!(all, 2 * (bytes.chunks(8).count() as u64 + 1));
    assert_eq!(tally.received().sum::<u64>(), counts.received);
}
