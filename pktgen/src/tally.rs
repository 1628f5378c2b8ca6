//! What came back: losses, duplicates and order of each flow, in bounded memory.

use crate::signature::Signature;

/// Bytes for the windows of all flows.
const WINDOWS: usize = 64 << 20;
/// Most words of 64 frames that a flow's window has.
const MAX_WORDS: usize = 1 << 12;

/// Frames by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// First copies of frames of this run.
    pub received: u64,
    /// Of these, frames behind one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Frames so far behind that they may be first copies or further ones.
    pub uncertain: u64,
    /// Frames without a signature of this run.
    pub foreign: u64,
    pub bytes: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        let Self { received, reordered, duplicates, uncertain, foreign, bytes } = other;
        self.received += received;
        self.reordered += reordered;
        self.duplicates += duplicates;
        self.uncertain += uncertain;
        self.foreign += foreign;
        self.bytes += bytes;
    }
}

/// What one frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    InOrder,
    Reordered,
    Duplicate,
    Uncertain,
    Foreign,
}

/// A flow's part that each frame in order changes, in 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Seen {
    /// One more than the highest sequence number that came.
    next: u64,
    received: u64,
    /// The word of its window with the bit of `next` - 1, or the first.
    newest: u64,
}

/// The frames that came in by the queues of one core.
///
/// Of each flow it knows which of the last frames came, as many as a window holds: 262 144 for one
/// flow, 64 for eight million, 32 MiB to 64 MiB in all for more than 2000.
#[derive(Clone, Debug)]
pub struct Tally {
    flows: Box<[Seen]>,
    /// Of each flow `words` words; bit n of them is for the sequence numbers that are n modulo the
    /// window. The newest word of a flow stands in `flows` instead, so that most frames touch one
    /// cache line.
    came: Box<[u64]>,
    words: usize,
    counts: Counts,
}

impl Tally {
    pub fn new(flows: u32) -> Self {
        let flows = flows as usize;
        let words = (WINDOWS / 8 / flows.max(1)).clamp(1, MAX_WORDS);
        let words = 1 << words.ilog2();
        Self {
            flows: vec![Seen::default(); flows].into(),
            came: vec![0; flows * words].into(),
            words,
            counts: Counts::default(),
        }
    }

    /// Takes a received frame of this length.
    #[inline(always)]
    pub fn take(&mut self, signature: Option<&Signature>, bytes: usize) -> Verdict {
        self.counts.bytes += bytes as u64;
        // Most frames: the next one of its flow, whose bit is in the newest word.
        if let Some(Signature { flow, sequence, .. }) = signature
            && let Some(seen) = self.flows.get_mut(*flow as usize)
            && *sequence == seen.next
            && sequence & 63 != 0
        {
            seen.newest |= 1 << (sequence & 63);
            seen.next += 1;
            seen.received += 1;
            self.counts.received += 1;
            return Verdict::InOrder;
        }
        self.take_any(signature)
    }

    #[inline(never)]
    fn take_any(&mut self, signature: Option<&Signature>) -> Verdict {
        let verdict = signature.map_or(Verdict::Foreign, |signature| self.judge(signature));
        match verdict {
            Verdict::InOrder => self.counts.received += 1,
            Verdict::Reordered => {
                self.counts.received += 1;
                self.counts.reordered += 1;
            }
            Verdict::Duplicate => self.counts.duplicates += 1,
            Verdict::Uncertain => self.counts.uncertain += 1,
            Verdict::Foreign => self.counts.foreign += 1,
        }
        verdict
    }

    fn judge(&mut self, signature: &Signature) -> Verdict {
        let flow = signature.flow as usize;
        let Some(seen) = self.flows.get_mut(flow) else { return Verdict::Foreign };
        let (sequence, bit) = (signature.sequence, 1 << (signature.sequence & 63));
        if sequence >> 6 != seen.word() {
            let Some(came) = self.came.get_mut(flow * self.words..(flow + 1) * self.words) else {
                return Verdict::Foreign;
            };
            return seen.judge_elsewhere(came, sequence);
        }
        if sequence >= seen.next {
            seen.newest = seen.newest & !bits(seen.next, sequence) | bit;
            (seen.next, seen.received) = (sequence + 1, seen.received + 1);
            return Verdict::InOrder;
        }
        if seen.newest & bit != 0 {
            return Verdict::Duplicate;
        }
        seen.newest |= bit;
        seen.received += 1;
        Verdict::Reordered
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// First copies of each flow.
    pub fn received(&self) -> impl Iterator<Item = u64> {
        self.flows.iter().map(|seen| seen.received)
    }
}

impl Seen {
    /// Number of the newest word: of the sequence numbers that are this times 64 and the next 63.
    #[inline(always)]
    fn word(&self) -> u64 {
        self.next.saturating_sub(1) >> 6
    }

    /// What a frame is whose bit is in another word of the window, or beyond it.
    fn judge_elsewhere(&mut self, came: &mut [u64], sequence: u64) -> Verdict {
        let (mask, window) = (came.len() - 1, 64 * came.len() as u64);
        if sequence + window < self.next {
            return Verdict::Uncertain;
        }
        let (word, bit) = ((sequence >> 6) as usize & mask, 1 << (sequence & 63));
        came[self.word() as usize & mask] = self.newest;
        let verdict = if sequence >= self.next {
            forget(came, self.next, sequence);
            self.next = sequence + 1;
            Verdict::InOrder
        } else if came[word] & bit != 0 {
            return Verdict::Duplicate;
        } else {
            Verdict::Reordered
        };
        came[word] |= bit;
        self.received += 1;
        self.newest = came[self.word() as usize & mask];
        verdict
    }
}

/// The bits of the sequence numbers from `from` to `to`, which are of one word.
#[inline(always)]
fn bits(from: u64, to: u64) -> u64 {
    (!0 >> (63 - (to - from))) << (from & 63)
}

/// Forgets the frames that had the bits of those from `from` to `to` before.
fn forget(came: &mut [u64], from: u64, to: u64) {
    let mask = came.len() - 1;
    if to - from >= 64 * came.len() as u64 {
        came.fill(0);
        return;
    }
    let mut at = from;
    while at <= to {
        // As far as the word goes.
        let last = (at | 63).min(to);
        came[(at >> 6) as usize & mask] &= !bits(at, last);
        at = last + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn signature(flow: u32, sequence: u64) -> Signature {
        Signature { flow, sequence, tag: 0, epoch: 0, at_ns: 0 }
    }

    /// Remembers everything.
    #[derive(Default)]
    struct Oracle {
        came: HashMap<u32, (u64, HashSet<u64>)>,
    }

    impl Oracle {
        fn judge(&mut self, flow: u32, sequence: u64, window: u64) -> Verdict {
            let (next, came) = self.came.entry(flow).or_default();
            if sequence < *next && sequence + window < *next {
                return Verdict::Uncertain;
            }
            if !came.insert(sequence) {
                return Verdict::Duplicate;
            }
            if sequence < *next {
                return Verdict::Reordered;
            }
            *next = sequence + 1;
            Verdict::InOrder
        }
    }

    proptest! {
        #[test]
        fn equals_the_oracle(words in 0u32..4, steps in proptest::collection::vec((0u32..5, -300i64..400), 1..400)) {
            let mut tally = Tally::new(4);
            (tally.words, tally.came) = (1 << words, vec![0; 4 << words].into());
            let window = 64 << words;
            let (mut oracle, mut at) = (Oracle::default(), [0i64; 5]);
            for (flow, step) in steps {
                let sequence = (at[flow as usize] + step).max(0) as u64;
                at[flow as usize] = sequence as i64;
                let expected = if flow == 4 { Verdict::Foreign } else { oracle.judge(flow, sequence, window) };
                prop_assert_eq!(tally.take(Some(&signature(flow, sequence)), 60), expected);
            }
            let received: Vec<u64> = tally.received().collect();
            for (flow, (_, came)) in oracle.came {
                prop_assert_eq!(received[flow as usize], came.len() as u64);
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        for flows in [1, 1000, 100_000, 1 << 23] {
            let tally = Tally::new(flows);
            assert!(tally.came.len() * 8 <= WINDOWS.max(flows as usize * 8), "{flows}");
        }
        assert_eq!(Tally::new(1).words * 64, 262_144);
        assert_eq!(Tally::new(1 << 23).words * 64, 64);
    }

    #[test]
    fn each_kind_is_counted() {
        let mut tally = Tally::new(1);
        for sequence in [0, 1, 3, 2, 3, 1_000_000, 4] {
            tally.take(Some(&signature(0, sequence)), 60);
        }
        tally.take(None, 60);
        let expected = Counts { received: 5, reordered: 1, duplicates: 1, uncertain: 1, foreign: 1, bytes: 480 };
        assert_eq!(*tally.counts(), expected);
    }
}
