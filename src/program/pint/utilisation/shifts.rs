//! The average utilisation by shifts: a low-pass filter of integers, for switches without logarithms.
//!
//! ```text
//! U ← U - (U >> s) + (qlen >> s) + bytes        utilisation = U / (B · T)
//! ```
//! U counts bytes. T is a power of two of ticks, and 2⁻ˢ stands for τ / T, the share of T since the
//! packet before: with 2ᵏ ≤ τ < 2ᵏ⁺¹ it is 2ᵏ or 2ᵏ⁺¹ ticks, as many as the clock has passed
//! multiples of 2ᵏ in τ. So gaps in a row fade by their sum, but for the ends, and no random number is needed.
//!
//! A match on the gap finds k, and one on the gap's sum with the lowest k bits of the last time finds s.
//! Both registers have 32 bits, and each is read and written once.
//!
//! *Guarantee:* none for a single packet. In equilibrium U is the average of [the other form](super) on
//! average, and what it varies by is less the more gaps there are within T (`tests.rs`, docs/pint.md).
//!
//! *Deviations:* T is rounded to a power of two of nanoseconds. A link that was idle for 2³² ticks, at least
//! 2¹⁶ T, has a gap modulo 2³² ticks.

use super::dataplane::Meta;
use super::registers::{AverageRegisters, Memory};
use crate::pisa::{Computation, Pipeline, Probe, Salu, Slot, StageUse};
use crate::program::pint::compress::{Compression, EXPONENT_BITS, EXPONENTS, MANTISSA_BITS, Range};
use crate::program::pint::replica::usage::ROUNDING;

/// Bits behind the point of U in bytes. The largest U of the scale has 24 bits before it.
pub const BYTE_BITS: u32 = 8;

/// The factor by which U is off at most for 999 of 1000 packets, on links that carry at least 20 packets, or
/// bursts of packets, within T (`tests.rs`).
pub const ERROR: f64 = 1.25;

/// Most bits of T in ticks.
const PERIOD_BITS: u32 = 16;

/// The period that a filter by shifts has in place of this one: the nearest power of two.
pub fn rounded(period_ns: u32) -> u32 {
    let below = 1 << period_ns.max(1).ilog2();
    let above = u32::checked_mul(below, 2).filter(|_| period_ns > below + below / 2);
    above.unwrap_or(below)
}

/// The codes of bytes within T for utilisations between these two, of links that carry `volume` within T.
pub fn codes(bits: u32, volume: f64, [smallest, largest]: [f64; 2]) -> Compression {
    let [from, to] = [smallest, largest].map(|utilisation| (utilisation * volume).round() as u32);
    Compression::new(bits, Range { from, to })
}

/// Time in ticks, of which T has a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Binary logarithm of the nanoseconds of a tick.
    pub tick: u32,
    /// Binary logarithm of the ticks of T.
    pub period: u32,
}

impl Ticks {
    /// `period_ns`: T, a power of two.
    pub fn new(period_ns: u32) -> Self {
        let bits = period_ns.max(1).ilog2();
        let tick = bits.saturating_sub(PERIOD_BITS);
        Self { tick, period: bits - tick }
    }

    #[inline(always)]
    fn of(self, now_ns: u64) -> u32 {
        (now_ns >> self.tick) as u32
    }

    /// By how much U is shifted for what fades in a gap behind this time: by nothing for T or more, by a
    /// whole word for no time.
    #[inline(always)]
    pub fn shift(self, last: u32, gap: u32) -> u32 {
        if gap >> self.period > 0 {
            return 0;
        }
        let below = u32::MAX.checked_shr(gap.leading_zeros() + 1).unwrap_or_default();
        match gap + (last & below) {
            0 => u32::BITS,
            ticks => self.period.saturating_sub(ticks.ilog2()),
        }
    }
}

/// What is left of a number of bits.
#[inline(always)]
fn shifted(number: u32, bits: u32) -> u32 {
    number.checked_shr(bits).unwrap_or_default()
}

/// Stage 1: the time at which the last packet left by the port, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct LastSent {
    ticks: Ticks,
}

impl Salu for LastSent {
    type Phv = Meta;
    type Cell = u32;
    type Out = u32;

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(phv.port)
    }

    #[inline(always)]
    fn rmw(&self, last: u32, phv: &Meta) -> (u32, u32) {
        (self.ticks.of(phv.now_ns), last)
    }

    #[inline(always)]
    fn commit(&self, last: u32, phv: &mut Meta) {
        phv.last = last;
    }
}

/// Stage 5: the average U of the port's utilisation.
#[derive(Clone, Copy, Debug)]
pub struct Average;

impl Salu for Average {
    type Phv = Meta;
    type Cell = u32;
    type Out = u32;
    const BEYOND_CHIPS: Option<&'static str> = Some("shifts a cell by a number of the packet");

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(phv.port)
    }

    #[inline(always)]
    fn rmw(&self, average: u32, phv: &Meta) -> (u32, u32) {
        let kept = average - shifted(average, phv.shift);
        let next = kept.saturating_add(shifted(phv.queue, phv.shift)).saturating_add(phv.added);
        (next, next)
    }

    #[inline(always)]
    fn commit(&self, average: u32, phv: &mut Meta) {
        phv.utilisation = average;
    }
}

/// The registers of a switch, and the stages that use them.
#[derive(Debug)]
pub struct Shifts {
    registers: AverageRegisters<LastSent, Average>,
    ports: u32,
    ticks: Ticks,
    /// Bytes for which a queue has room; 0 where that is not known.
    queue_room: u64,
}

impl Shifts {
    /// Without memory for registers, until [`Self::allocate`] takes it. `period_ns`: T, a power of two.
    pub fn planned(ports: u32, period_ns: u32) -> Self {
        let ticks = Ticks::new(period_ns);
        Self { registers: AverageRegisters::planned(LastSent { ticks }, Average, ports), ports, ticks, queue_room: 0 }
    }

    /// [`Meta::queue`] is the share of this room, in units of 2⁻¹⁶, that packets take.
    pub fn set_queue_room(&mut self, bytes: u64) {
        self.queue_room = bytes;
    }

    pub fn allocate(&mut self) {
        self.registers.allocate();
    }

    pub(super) fn zeroed(&self) -> Memory<u32> {
        self.registers.zeroed()
    }

    pub(super) fn copy_to(&self, memory: &mut Memory<u32>) {
        self.registers.copy_to(memory);
    }

    /// Stages 2 to 4: the gap, what fades in it, and what the packet adds.
    #[inline(always)]
    fn terms(&self, phv: &mut Meta) {
        let gap = self.ticks.of(phv.now_ns).wrapping_sub(phv.last);
        phv.shift = self.ticks.shift(phv.last, gap);
        phv.added = phv.bytes.min(u32::MAX >> BYTE_BITS) << BYTE_BITS;
        phv.queue = self.queue_bytes(phv.queue);
    }

    /// The bytes that wait, of a queue that is full to this share. A switch has the length of a queue by
    /// itself.
    #[inline(always)]
    fn queue_bytes(&self, share: u32) -> u32 {
        let bytes = u64::from(share).saturating_mul(self.queue_room) >> (u16::BITS - BYTE_BITS);
        bytes.try_into().unwrap_or(u32::MAX)
    }

    /// Takes a packet that leaves. A port without a link changes nothing.
    #[inline(always)]
    pub fn packet(&mut self, phv: &mut Meta) {
        if phv.port < self.ports {
            self.registers.last.packet(phv);
            self.terms(phv);
            self.registers.average.packet(phv);
        }
    }

    /// Takes one packet through as [`Self::packet`] does, and tells of each access to a register.
    pub fn trace(&mut self, phv: &mut Meta, probe: &mut dyn Probe) {
        if phv.port < self.ports {
            self.registers.last.trace(phv, probe);
            self.terms(phv);
            self.registers.average.trace(phv, probe);
        }
    }

    /// What the eight stages use: the matches on the gap and on its sum, then those of the code.
    pub fn usage(&self) -> Vec<StageUse> {
        let matching = |name| StageUse::matching(name, u64::from(self.ticks.period) + 2, u32::BITS);
        let code = super::table("codes of U", EXPONENT_BITS + MANTISSA_BITS, u16::BITS);
        let code = StageUse { lookups: vec![code], computes: vec![Computation::Code], ..StageUse::default() };
        vec![
            StageUse::of(vec![self.registers.last.0.usage()]),
            matching("gap"),
            StageUse::default(),
            matching("shift"),
            StageUse::of(vec![self.registers.average.0.usage()]),
            StageUse::matching("exponent of U", EXPONENTS.into(), u32::BITS),
            code.behind(&[ROUNDING]),
            StageUse::default(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What fades is a power of two of ticks, next to the gap; of gaps of one length in a row it is
        /// their sum, but for a gap at each end.
        #[test]
        fn gaps_fade_by_their_sum(first: u32, gap in 1u32..1 << 15, packets in 1..200u32) {
            let ticks = Ticks { tick: 0, period: 16 };
            let fades = |number: u32| {
                let shift = ticks.shift(first.wrapping_add(number.wrapping_mul(gap)), gap);
                1u64 << (16 - shift)
            };
            let all = (0..packets).map(fades);
            prop_assert!(all.clone().all(|ticks| ticks <= 2 * u64::from(gap) && 2 * ticks > gap.into()));
            let (sum, exact) = (all.sum::<u64>(), u64::from(packets) * u64::from(gap));
            prop_assert!(sum.abs_diff(exact) <= 2 * u64::from(gap), "{sum} for {exact}");
        }
    }

    #[test]
    fn the_ends_of_gaps() {
        let ticks = Ticks::new(1 << 20);
        assert_eq!(ticks, Ticks { tick: 4, period: 16 });
        assert_eq!(Ticks::new(1 << 10), Ticks { tick: 0, period: 10 });
        assert_eq!([0, 1, 1 << 15, 1 << 16, u32::MAX].map(|gap| ticks.shift(0, gap)), [32, 16, 1, 0, 0]);
        assert_eq!([1 << 14, 1 << 15, u32::MAX].map(|last| ticks.shift(last, (1 << 15) + 1)), [1, 1, 0]);
        assert_eq!([1000, 1024, 1536, 1537, u32::MAX].map(rounded), [1024, 1024, 1024, 2048, 1 << 31]);
    }
}
