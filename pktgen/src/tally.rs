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

/// The frames of a flow that are missing.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    /// Frames before the next one that did not come.
    missing: u64,
    /// Number of the newest word, which has the bits of the sequence numbers that are this times 64
    /// and the next 63. All frames behind these and before the next one came.
    word: u64,
    /// The newest word: frames before the next one that did not come.
    absent: u64,
}

/// The frames that came in by the queues of one core.
///
/// Of each flow it knows which of the last frames came, as many as a window holds: 262 144 for one
/// flow, 64 for eight million: 32 MiB to 64 MiB in all for more than 2000, and 32 bytes a flow.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Of each flow one more than the highest sequence number that came: all that a frame in order
    /// touches.
    next: Box<[u64]>,
    gaps: Box<[Gaps]>,
    /// Of each flow the `words` words before its newest one, at their numbers modulo `words`: frames
    /// that did not come.
    older: Box<[u64]>,
    words: usize,
    counts: Counts,
}

impl Tally {
    pub fn new(flows: u32) -> Self {
        let flows = flows as usize;
        let words = (WINDOWS / 8 / flows.max(1)).clamp(1, MAX_WORDS);
        let words = 1 << words.ilog2();
        Self {
            next: vec![0; flows].into(),
            gaps: vec![Gaps::default(); flows].into(),
            older: vec![0; flows * words].into(),
            words,
            counts: Counts::default(),
        }
    }

    /// Takes a received frame of this length if it is the next one of its flow, as most are: it
    /// leaves no gap. False, and nothing counted, when it is not.
    #[inline(always)]
    pub fn take_next(&mut self, signature: &Signature, bytes: usize) -> bool {
        match self.next.get_mut(signature.flow as usize) {
            Some(next) if *next == signature.sequence => {
                *next += 1;
                self.counts.received += 1;
                self.counts.bytes += bytes as u64;
                true
            }
            _ => false,
        }
    }

    /// Takes any received frame of this length.
    pub fn take(&mut self, signature: Option<&Signature>, bytes: usize) -> Verdict {
        self.counts.bytes += bytes as u64;
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
        let (flow, sequence) = (signature.flow as usize, signature.sequence);
        let (Some(next), Some(gaps)) = (self.next.get_mut(flow), self.gaps.get_mut(flow)) else {
            return Verdict::Foreign;
        };
        let Some(older) = self.older.get_mut(flow * self.words..(flow + 1) * self.words) else {
            return Verdict::Foreign;
        };
        if sequence + 64 * (older.len() as u64) < *next {
            return Verdict::Uncertain;
        }
        // Frames in order have left no gap since.
        gaps.go_on(older, *next >> 6, 0);
        if sequence >= *next {
            gaps.skip(older, *next, sequence);
            *next = sequence + 1;
            return Verdict::InOrder;
        }
        if gaps.fill(older, sequence) { Verdict::Reordered } else { Verdict::Duplicate }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// First copies of each flow.
    pub fn received(&self) -> impl Iterator<Item = u64> {
        self.next.iter().zip(&self.gaps).map(|(next, gaps)| next - gaps.missing)
    }
}

impl Gaps {
    /// Goes on to a later word. Of the words between, `absent` says which frames did not come.
    fn go_on(&mut self, older: &mut [u64], word: u64, absent: u64) {
        if word <= self.word {
            return;
        }
        let mask = older.len() - 1;
        older[self.word as usize & mask] = self.absent;
        let first = (self.word + 1).max(word.saturating_sub(older.len() as u64));
        (first..word).for_each(|word| older[word as usize & mask] = absent);
        (self.word, self.absent) = (word, 0);
    }

    /// The frames from `next`, which is of the newest word, to the one before `sequence` did not
    /// come.
    fn skip(&mut self, older: &mut [u64], next: u64, sequence: u64) {
        self.missing += sequence - next;
        if sequence >> 6 == self.word {
            self.absent |= below(sequence) & !below(next);
            return;
        }
        self.absent |= !below(next);
        self.go_on(older, sequence >> 6, !0);
        self.absent = below(sequence);
    }

    /// A frame of the window came late. False when it had come before.
    fn fill(&mut self, older: &mut [u64], sequence: u64) -> bool {
        let (word, bit) = (sequence >> 6, 1 << (sequence & 63));
        let mask = older.len() - 1;
        let absent = if word == self.word { &mut self.absent } else { &mut older[word as usize & mask] };
        let is_first = *absent & bit != 0;
        *absent &= !bit;
        self.missing -= u64::from(is_first);
        is_first
    }
}

/// The bits of the sequence numbers of its word that are lower.
#[inline(always)]
fn below(sequence: u64) -> u64 {
    (1 << (sequence & 63)) - 1
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
            (tally.words, tally.older) = (1 << words, vec![0; 4 << words].into());
            let mut slow = tally.clone();
            let window = 64 << words;
            let (mut oracle, mut at) = (Oracle::default(), [0i64; 5]);
            for (flow, step) in steps {
                let sequence = (at[flow as usize] + step).max(0) as u64;
                at[flow as usize] = sequence as i64;
                let expected = if flow == 4 { Verdict::Foreign } else { oracle.judge(flow, sequence, window) };
                let signature = signature(flow, sequence);
                let verdict = match tally.take_next(&signature, 60) {
                    true => Verdict::InOrder,
                    false => tally.take(Some(&signature), 60),
                };
                prop_assert_eq!(verdict, expected);
                prop_assert_eq!(slow.take(Some(&signature), 60), expected);
                prop_assert_eq!(tally.counts(), slow.counts());
            }
            let received: Vec<u64> = tally.received().collect();
            for (flow, (_, came)) in oracle.came {
                prop_assert_eq!(received[flow as usize], came.len() as u64);
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        for flows in [1, 1000, 100_000, 1 << 23, 1 << 24] {
            let tally = Tally::new(flows);
            let words = tally.older.len() + tally.next.len() + 3 * tally.gaps.len();
            assert!(words * 8 <= WINDOWS.max(flows as usize * 8) + 32 * flows as usize, "{flows}");
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
