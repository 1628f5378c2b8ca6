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

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// One more than the highest sequence number that came.
    next: u64,
    received: u64,
}

/// The frames that came in by the queues of one core.
///
/// Of each flow it knows which of the last frames came, as many as a window holds: 262 144 for one
/// flow, 64 for eight million, 32 MiB to 64 MiB in all for more than 2000.
#[derive(Clone, Debug)]
pub struct Tally {
    flows: Box<[Seen]>,
    /// Of each flow `words` words; bit n of them is for the sequence numbers that are n modulo the
    /// window.
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
    #[inline]
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

    #[inline]
    fn judge(&mut self, signature: &Signature) -> Verdict {
        let flow = signature.flow as usize;
        let Some(seen) = self.flows.get_mut(flow) else { return Verdict::Foreign };
        let Some(came) = self.came.get_mut(flow * self.words..(flow + 1) * self.words) else { return Verdict::Foreign };
        let (sequence, window) = (signature.sequence, 64 * came.len() as u64);
        let (word, bit) = ((sequence >> 6) as usize & (came.len() - 1), 1 << (sequence & 63));
        if sequence >= seen.next {
            forget(came, seen.next, sequence);
            came[word] |= bit;
            *seen = Seen { next: sequence + 1, received: seen.received + 1 };
            return Verdict::InOrder;
        }
        if sequence + window < seen.next {
            return Verdict::Uncertain;
        }
        if came[word] & bit != 0 {
            return Verdict::Duplicate;
        }
        came[word] |= bit;
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

/// Forgets the frames that had the bits of those from `from` to `to` before.
#[inline]
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
        let bits = (!0u64 >> (63 - (last - at))) << (at & 63);
        came[(at >> 6) as usize & mask] &= !bits;
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
