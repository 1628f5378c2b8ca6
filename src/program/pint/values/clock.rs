//! Times of day in a few bits: counted in steps, of which a code has the lowest bits (the additive
//! approximation of §4.3, with randomised rounding).
//!
//! Where a packet leaves the network, the time is known, so the code says how long ago it was, up to
//! the span after which codes come round again. Clocks of switches differ: a time that seems to lie
//! ahead by less than a sixteenth of the span is taken for now.

/// The codes of one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The binary logarithm of a step, in nanoseconds.
    step: u32,
    bits: u32,
}

/// The part of the span, as a shift, by which clocks may differ.
const AHEAD: u32 = 4;

impl Clock {
    /// Codes of `bits` bits that come round after `span_ns` at the earliest, each of at least a
    /// nanosecond.
    pub fn new(bits: u32, span_ns: u32) -> Self {
        // A sixteenth of the span is for times that seem to lie ahead.
        let parts = (1 << AHEAD) - 1;
        let span = (u64::from(span_ns) << AHEAD).div_ceil(parts).next_power_of_two().ilog2();
        Self { step: span.saturating_sub(bits), bits }
    }

    /// The binary logarithm of a step, in nanoseconds.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// The code of a time. The low bits of `random` decide how it is rounded.
    #[inline(always)]
    pub fn encode(&self, time_ns: u64, random: u32) -> u16 {
        let step = 1u64 << self.step;
        let steps = time_ns.wrapping_add(u64::from(random) & (step - 1)) >> self.step;
        (steps & ((1 << self.bits) - 1)) as u16
    }

    /// How long before a time a code was written, in steps.
    pub fn age(&self, code: u16, time_ns: u64) -> u16 {
        let span = 1u64 << (self.step + self.bits);
        let age = time_ns.wrapping_sub(u64::from(code) << self.step) & (span - 1);
        let age = if age >= span - (span >> AHEAD) { 0 } else { age };
        ((age + (1 << self.step >> 1)) >> self.step) as u16
    }

    /// As many steps in nanoseconds.
    pub fn age_ns(&self, age: u16) -> u64 {
        u64::from(age) << self.step
    }

    /// By how much an age is off at most: a step of the code, and half a one of the age.
    pub fn error_ns(&self) -> u64 {
        if self.step == 0 { 0 } else { 3 << (self.step - 1) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// An age within the span is within the error that is stated, and right on average. Times
        /// that seem to lie ahead a little are now.
        #[test]
        fn ages_are_within_their_error(bits in 1..=12u32, span_ns in 2..=u32::MAX, time_ns: u64, part in 0.0..1.0f64, random: u32) {
            let time_ns = time_ns >> 1;
            let clock = Clock::new(bits, span_ns);
            let span = 1u64 << (clock.step + bits);
            // Rounding up makes an age shorter by up to a step, and two more are left to the ends.
            let longest = span - (span >> AHEAD);
            prop_assert!(longest >= span_ns.into());
            let age = (part * longest as f64) as u64;
            prop_assume!(age > 2 << clock.step && age + (2 << clock.step) < longest && time_ns > span);
            let code = clock.encode(time_ns - age, random);
            prop_assert!(code < 1 << bits);
            let found = clock.age_ns(clock.age(code, time_ns));
            prop_assert!(found.abs_diff(age) <= clock.error_ns(), "{found} for {age}: {clock:?}");
            if bits > 6 {
                let ahead = clock.encode(time_ns + (span >> 6), random);
                prop_assert_eq!(clock.age(ahead, time_ns), 0);
            }
            // The mean over a whole step of random numbers is the time.
            if clock.step <= 12 {
                let all = (0..1u32 << clock.step).map(|random| {
                    (time_ns.wrapping_sub(u64::from(clock.encode(time_ns - age, random)) << clock.step) & (span - 1)) as f64
                });
                let mean = all.sum::<f64>() / f64::from(1u32 << clock.step);
                prop_assert!((mean - age as f64).abs() < 1e-6, "{mean} for {age}");
            }
        }
    }
}
