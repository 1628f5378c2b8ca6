//! Recent questions for neighbours, and the rate of the router's own messages.

/// A token bucket: 2^20 ns (about a millisecond) a token, [`Bucket::DEPTH`] tokens at most. It is
/// kept as the time at which it would be full again (the generic cell rate algorithm), so there is
/// nothing to divide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    full_at: u64,
}

impl Bucket {
    const TOKEN_NS: u64 = 1 << 20;
    const DEPTH: u64 = 64;

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: u64) -> bool {
        let next = self.full_at.max(now).saturating_add(Self::TOKEN_NS);
        let allowed = next - now <= Self::DEPTH * Self::TOKEN_NS;
        if allowed {
            self.full_at = next;
        }
        allowed
    }
}

/// The action for a packet whose next hop is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Ask for it.
    Ask,
    /// It has been asked for, and may yet answer.
    Wait,
    /// It has been asked for in vain.
    Unreachable,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hop: u128,
    last: u32,
    asks: u8,
}

/// The next hops that this worker asked for last, each at a slot that its address chooses; a later
/// one may push it out, and it is asked for again then.
#[derive(Debug)]
pub(super) struct Asked(Box<[Slot; Asked::SLOTS]>);

impl Default for Asked {
    fn default() -> Self {
        Self(Box::new([Slot::default(); Self::SLOTS]))
    }
}

impl Asked {
    const SLOTS: usize = 256;
    /// Questions, a second apart, before a next hop counts as unreachable.
    const TRIES: u8 = 3;
    /// Between later questions.
    const RETRY_SECONDS: u32 = 5;
    /// After which a question is forgotten.
    const FORGET_SECONDS: u32 = 30;

    pub fn advise(&mut self, hop: u128, now: u32) -> Advice {
        let mixed = (hop ^ hop >> 64) as u64;
        let slot = &mut self.0[(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
        let since = now.saturating_sub(slot.last);
        if slot.hop != hop || since > Self::FORGET_SECONDS {
            *slot = Slot { hop, last: now, asks: 1 };
            return Advice::Ask;
        }
        let vain = slot.asks >= Self::TRIES;
        if since >= if vain { Self::RETRY_SECONDS } else { 1 } {
            (slot.last, slot.asks) = (now, slot.asks.saturating_add(1));
            return Advice::Ask;
        }
        if vain && since > 0 { Advice::Unreachable } else { Advice::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_rate() {
        let mut bucket = Bucket::default();
        let now = 1_700_000_000_000_000_000;
        assert_eq!((0..1000).filter(|_| bucket.take(now)).count(), 64);
        assert_eq!((0..1000).filter(|_| bucket.take(now + 10 * Bucket::TOKEN_NS)).count(), 10);
        assert_eq!((0..1000).filter(|_| bucket.take(now + 3_600_000_000_000)).count(), 64);
        // A clock that stands still or ends changes nothing.
        assert_eq!((0..1000).filter(|_| bucket.take(now + 3_600_000_000_000)).count(), 0);
        bucket.take(u64::MAX);
        bucket.take(u64::MAX);
    }

    #[test]
    fn three_questions_then_unreachable_then_one_now_and_then() {
        use Advice::{Ask, Unreachable, Wait};
        let mut asked = Asked::default();
        let advice: Vec<_> = [0, 0, 1, 1, 2, 2, 3, 3, 4, 7, 7, 8, 12].map(|s| asked.advise(7, 100 + s)).into();
        assert_eq!(
            advice,
            [Ask, Wait, Ask, Wait, Ask, Wait, Unreachable, Unreachable, Unreachable, Ask, Wait, Unreachable, Ask]
        );
        assert_eq!(asked.advise(7, 200), Ask);
        assert_eq!(asked.advise(7, 200), Wait);
    }
}
