//! Timers of conversations, one each, in a wheel: setting and taking one costs the same however many
//! there are.

/// A tick is 2²⁰ ns, about a millisecond.
const TICK: u32 = 20;
/// Ticks until the wheel is around: four seconds. A timer that is further away fires early, and its
/// owner sets it again.
const TICKS: u64 = 1 << 12;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Timer {
    /// 0: it is not set.
    tick: u64,
    next: u32,
    before: u32,
}

#[derive(Debug)]
pub struct Wheel {
    now: u64,
    first: Box<[u32]>,
    timers: Box<[Timer]>,
}

impl Wheel {
    pub fn new(timers: u32) -> Self {
        let timer = Timer { tick: 0, next: NONE, before: NONE };
        Self { now: 0, first: vec![NONE; TICKS as usize].into(), timers: vec![timer; timers as usize].into() }
    }

    /// Sets a timer, in place of what it was set to.
    pub fn set(&mut self, timer: u32, at_ns: u64) {
        let tick = (at_ns >> TICK).saturating_add(1).clamp(self.now + 1, self.now + TICKS - 1);
        if self.timers[timer as usize].tick == tick {
            return;
        }
        self.cancel(timer);
        let first = &mut self.first[(tick % TICKS) as usize];
        let next = std::mem::replace(first, timer);
        self.timers[timer as usize] = Timer { tick, next, before: NONE };
        if next != NONE {
            self.timers[next as usize].before = timer;
        }
    }

    pub fn cancel(&mut self, timer: u32) {
        let Timer { tick, next, before } = self.timers[timer as usize];
        if tick == 0 {
            return;
        }
        match before {
            NONE => self.first[(tick % TICKS) as usize] = next,
            before => self.timers[before as usize].next = next,
        }
        if next != NONE {
            self.timers[next as usize].before = before;
        }
        self.timers[timer as usize].tick = 0;
    }

    /// Takes a timer whose time has come.
    pub fn pop(&mut self, now_ns: u64) -> Option<u32> {
        let end = now_ns >> TICK;
        loop {
            let first = self.first[(self.now % TICKS) as usize];
            if first != NONE {
                self.cancel(first);
                return Some(first);
            }
            if self.now >= end {
                return None;
            }
            self.now += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1 << TICK;

    proptest! {
        /// A timer fires once, not before its time and at most two ticks behind it, unless it is set anew or
        /// cancelled; one that is further away than the wheel fires early.
        #[test]
        fn timers_fire_at_their_time(
            steps in proptest::collection::vec((0u32..20, proptest::option::of(0u64..6000 * MS), 0u64..9 * MS), 1..300),
        ) {
            let (mut wheel, mut set, mut now) = (Wheel::new(20), [None::<(u64, u64)>; 20], 0);
            for (timer, at, passed) in steps {
                match at {
                    Some(after) => wheel.set(timer, now + after),
                    None => wheel.cancel(timer),
                }
                set[timer as usize] = at.map(|after| (now, now + after));
                now += passed;
                while let Some(fired) = wheel.pop(now) {
                    let (at_set, at) = set[fired as usize].take().expect("it is set");
                    prop_assert!(now >= at || at - at_set > (TICKS - 3) * MS, "{} {}", now, at);
                }
                prop_assert!(set.iter().flatten().all(|(_, at)| *at + 2 * MS > now), "{:?} {}", set, now);
            }
        }
    }
}
