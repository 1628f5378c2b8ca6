//! A global hash of all packets of a burst together, for switches.

#[cfg(not(target_arch = "x86_64"))]
use std::convert::Infallible;

use super::{Addends, Global, Sixteen};
use crate::pisa::BATCH;

/// A word for each packet of a burst.
pub type Words = [Sixteen; BATCH / 16];

/// An argument for each packet of a burst, both addends of sixteen packets side by side.
pub type Pairs = [[Sixteen; 2]; BATCH / 16];

/// A [`Global`] hash in the form that takes many packets at a time, which a CPU with AVX2 has.
#[derive(Clone)]
pub struct BurstGlobal {
    #[cfg(target_arch = "x86_64")]
    joins: super::simd::Joins,
    #[cfg(not(target_arch = "x86_64"))]
    joins: Infallible,
}

/// Whole vectors that hold this number of packets.
#[inline(always)]
fn vectors(packets: usize) -> usize {
    packets.div_ceil(16).min(BATCH / 16)
}

impl BurstGlobal {
    /// `None` where the CPU hashes packets one by one.
    pub fn new(global: &Global) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return super::simd::Joins::new(global.chained()).map(|joins| Self { joins });
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The same in the form for CPUs without AVX-512 and GFNI, for comparison.
    pub fn without_affine(global: &Global) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return super::simd::Joins::without_affine(global.chained()).map(|joins| Self { joins });
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// The fewest packets of a burst that take less time together than one by one.
    pub fn least(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        return self.joins.least();
        #[cfg(not(target_arch = "x86_64"))]
        match self.joins {}
    }

    /// The hashes of the first `number` packets with one argument. What stands behind them is of no
    /// meaning.
    #[inline(always)]
    pub fn of_packets(&self, packets: &Words, number: usize, argument: Addends, out: &mut Words) {
        let number = vectors(number);
        #[cfg(target_arch = "x86_64")]
        self.joins.of_packets(&packets[..number], [argument.0, argument.1], &mut out[..number]);
        #[cfg(not(target_arch = "x86_64"))]
        match self.joins {}
    }

    /// The hashes of the first `number` packets, each with an argument of its own.
    #[inline(always)]
    pub fn of_pairs(&self, packets: &Words, number: usize, arguments: &Pairs, out: &mut Words) {
        let number = vectors(number);
        #[cfg(target_arch = "x86_64")]
        self.joins.of_pairs(&packets[..number], &arguments[..number], &mut out[..number]);
        #[cfg(not(target_arch = "x86_64"))]
        match self.joins {}
    }

    /// Which of the first `number` packets, a bit each, have a hash with this argument that is no larger
    /// than the limit.
    #[inline(always)]
    pub fn at_most(&self, packets: &Words, number: usize, argument: Addends, limit: u32) -> u64 {
        let there = u64::MAX.checked_shr(BATCH.saturating_sub(number) as u32).unwrap_or(0);
        let number = vectors(number);
        #[cfg(target_arch = "x86_64")]
        return self.joins.packets_at_most(&packets[..number], [argument.0, argument.1], limit) & there;
        #[cfg(not(target_arch = "x86_64"))]
        match self.joins {}
    }

    /// The [inner CRCs](Global::inner) of the first `number` packets with one argument.
    #[inline(always)]
    pub fn inner_of_packets(&self, packets: &Words, number: usize, argument: Addends, out: &mut Words) {
        let number = vectors(number);
        #[cfg(target_arch = "x86_64")]
        self.joins.inner_of_packets(&packets[..number], argument.0, &mut out[..number]);
        #[cfg(not(target_arch = "x86_64"))]
        match self.joins {}
    }
}

impl std::fmt::Debug for BurstGlobal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BurstGlobal(secret)")
    }
}

/// Sets the argument of the packet at this place.
#[inline(always)]
pub fn set_pair(pairs: &mut Pairs, place: usize, argument: Addends) {
    if let Some([inner, outer]) = pairs.get_mut(place / 16) {
        (inner[place % 16], outer[place % 16]) = (argument.0, argument.1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pisa::hash::HashFamily;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// A burst has the hashes that its packets have one by one.
        #[test]
        fn a_burst_is_hashed_as_its_packets(seed: u64, packets: [[u32; 16]; 4], ids: [u32; 64], limit: u32, number in 0..=BATCH) {
            let global = Global::derive(&HashFamily::reproducible(seed), "test", 0);
            let arguments = ids.map(|id| global.argument(&id.to_be_bytes()));
            let mut pairs = Pairs::default();
            arguments.iter().enumerate().for_each(|(place, argument)| set_pair(&mut pairs, place, *argument));
            for burst in [BurstGlobal::new(&global), BurstGlobal::without_affine(&global)].into_iter().flatten() {
                let [mut ones, mut each, mut inner] = [Words::default(); 3];
                burst.of_packets(&packets, number, arguments[0], &mut ones);
                burst.of_pairs(&packets, number, &pairs, &mut each);
                burst.inner_of_packets(&packets, number, arguments[0], &mut inner);
                let at_most = burst.at_most(&packets, number, arguments[0], limit);
                prop_assert_eq!(at_most.checked_shr(number as u32).unwrap_or(0), 0);
                for (place, packet) in packets.as_flattened().iter().enumerate().take(number) {
                    prop_assert_eq!(ones.as_flattened()[place], global.join(*packet, arguments[0]));
                    prop_assert_eq!(each.as_flattened()[place], global.join(*packet, arguments[place]));
                    prop_assert_eq!(inner.as_flattened()[place], global.inner(*packet, arguments[0]));
                    prop_assert_eq!(at_most >> place & 1 == 1, global.join(*packet, arguments[0]) <= limit);
                }
            }
        }
    }
}
