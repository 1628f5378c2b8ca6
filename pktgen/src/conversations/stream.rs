//! The bytes of one direction of a captured conversation, put together from its segments.

/// A segment that begins further behind the bytes before it is not believed.
const FARTHEST: i64 = 1 << 20;
/// Gaps that later segments may fill.
const MAX_GAPS: usize = 64;

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The stream is longer by as many bytes; 0 of a segment that was there before.
    Longer(u32),
    /// It belongs to another place than the stream is at.
    Stray,
    /// There is no room for it.
    NoRoom,
}

/// Bytes in their order. Those that no segment had are zeros.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Sequence number of the first byte.
    start: Option<u32>,
    bytes: Vec<u8>,
    /// Where bytes are missing, in no order.
    gaps: Vec<(usize, usize)>,
    /// Missing bytes of gaps that are not remembered.
    missing: u64,
}

impl Stream {
    /// Sets the sequence number of the first byte.
    pub fn begin(&mut self, start: u32) {
        self.start = Some(start);
    }

    /// Takes a segment: its sequence number, its payload, and the number of bytes behind the payload that
    /// the capture lacks. The stream grows by `room` bytes at most. Bytes that are there already stay.
    pub fn place(&mut self, seq: u32, payload: &[u8], lacking: u32, room: usize) -> Placed {
        let start = *self.start.get_or_insert(seq);
        // A stream is shorter than 2³¹ bytes.
        let at = i64::from(seq.wrapping_sub(start) as i32);
        let before = usize::try_from(-at).unwrap_or(0).min(payload.len());
        let (payload, at) = (&payload[before..], at + before as i64);
        let lacking = i64::from(lacking) + at.min(0);
        let (at, lacking) = (at.max(0), usize::try_from(lacking).unwrap_or(0));
        let length = self.bytes.len();
        if at - length as i64 > FARTHEST {
            return Placed::Stray;
        }
        let at = at as usize;
        let (known, end) = (at + payload.len(), at + payload.len() + lacking);
        let longer = end.saturating_sub(length);
        if longer > room {
            return Placed::NoRoom;
        }
        self.fill_gaps(at, payload);
        if at > length && end > at {
            self.lack(at);
        }
        if known > self.bytes.len() && known > at {
            let there = self.bytes.len() - at;
            self.bytes.extend_from_slice(&payload[there..]);
        }
        if end > self.bytes.len() && end > at {
            self.lack(end);
        }
        Placed::Longer((self.bytes.len() - length) as u32)
    }

    /// Makes the stream as long as this with bytes that are missing.
    fn lack(&mut self, end: usize) {
        let from = self.bytes.len();
        self.bytes.resize(end, 0);
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push((from, end));
        } else {
            self.missing += (end - from) as u64;
        }
    }

    fn fill_gaps(&mut self, at: usize, payload: &[u8]) {
        let end = at + payload.len();
        let mut next = 0;
        while let Some(&(from, to)) = self.gaps.get(next) {
            let (first, last) = (at.max(from), end.min(to));
            if first >= last {
                next += 1;
                continue;
            }
            self.bytes[first..last].copy_from_slice(&payload[first - at..last - at]);
            self.gaps.swap_remove(next);
            for (from, to) in [(from, first), (last, to)] {
                if from < to && self.gaps.len() < MAX_GAPS {
                    self.gaps.push((from, to));
                } else {
                    self.missing += to.saturating_sub(from) as u64;
                }
            }
        }
    }

    /// Bytes that no segment had.
    pub fn missing(&self) -> u64 {
        self.missing + self.gaps.iter().map(|(from, to)| (to - from) as u64).sum::<u64>()
    }

    pub fn into_bytes(self) -> Box<[u8]> {
        self.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOM: usize = 1 << 30;

    #[test]
    fn segments_are_put_in_order() {
        let mut stream = Stream::default();
        stream.begin(u32::MAX - 1);
        assert_eq!(stream.place(u32::MAX - 1, b"abcd", 0, ROOM), Placed::Longer(4));
        assert_eq!(stream.place(u32::MAX - 1, b"abcd", 0, ROOM), Placed::Longer(0), "again");
        assert_eq!(stream.place(6, b"ij", 0, ROOM), Placed::Longer(6), "with a gap");
        assert_eq!((stream.missing(), stream.place(3, b"fghX", 0, ROOM)), (4, Placed::Longer(0)));
        assert_eq!((stream.missing(), stream.place(0, b"Xde", 0, ROOM)), (1, Placed::Longer(0)));
        assert_eq!(stream.place(8, b"k", 3, ROOM), Placed::Longer(4), "cut");
        assert_eq!((stream.missing(), &*stream.into_bytes()), (3, &b"abcdefghijk\0\0\0"[..]));
    }

    #[test]
    fn far_and_large_segments_are_refused() {
        let mut stream = Stream::default();
        stream.begin(0);
        assert_eq!(stream.place(1 << 21, b"a", 0, ROOM), Placed::Stray);
        assert_eq!(stream.place(0, b"abc", 0, 2), Placed::NoRoom);
        assert_eq!(stream.place(0, b"ab", 5, 6), Placed::NoRoom);
        assert_eq!(stream.place(u32::MAX - 9, b"abc", 0, ROOM), Placed::Longer(0), "before the first byte");
        assert_eq!(stream.place(1 << 31, b"abc", 100, ROOM), Placed::Longer(0));
        assert_eq!((stream.missing(), stream.into_bytes().len()), (0, 0));
    }

    proptest! {
        /// Whatever the segments: no panic, no more than the room, and the bytes of a stream whose
        /// segments agree with each other.
        #[test]
        fn any_segments_are_taken(
            segments in proptest::collection::vec((0u32..3000, 0usize..300, 0u32..50), 0..60), start: u32,
        ) {
            let byte = |at: usize| (at * 7 % 251) as u8 + 1;
            let mut stream = Stream::default();
            stream.begin(start);
            let mut longest = 0;
            for (at, length, lacking) in segments {
                let payload: Vec<u8> = (at as usize..at as usize + length).map(byte).collect();
                let placed = stream.place(start.wrapping_add(at), &payload, lacking, 3200 - longest);
                if let Placed::Longer(longer) = placed {
                    longest += longer as usize;
                }
            }
            let missing = stream.missing();
            let bytes = stream.into_bytes();
            prop_assert_eq!(bytes.len(), longest);
            let zeros = bytes.iter().enumerate().filter(|(at, is)| **is != byte(*at)).count() as u64;
            prop_assert_eq!(zeros, missing);
        }

        #[test]
        fn hostile_segments_do_no_harm(
            segments in proptest::collection::vec((any::<u32>(), 0usize..100, any::<u32>()), 0..60),
        ) {
            let mut stream = Stream::default();
            let mut room = 1 << 22;
            for (seq, length, lacking) in segments {
                if let Placed::Longer(longer) = stream.place(seq, &vec![1; length], lacking, room) {
                    room -= longer as usize;
                }
            }
            prop_assert!(stream.missing() as usize <= stream.into_bytes().len());
        }
    }
}
