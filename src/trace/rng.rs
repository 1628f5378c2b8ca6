//! splitmix64: a small generator whose whole state is its seed and a counter.

/// Steele, Lea and Flood's splitmix64, as the workload recipe prescribes.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// The word that comes after `index` others, without computing these.
    #[inline]
    pub fn nth(&self, index: u64) -> u64 {
        mix(self.0.wrapping_add(GAMMA.wrapping_mul(index.wrapping_add(1))))
    }

    /// Uniform in `0..n`: the high 64 bits of draw × n. The bias is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1) with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// The generator's output function: a bijection of 64-bit words.
#[inline]
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `index`-th word of the stream that `seed` and `stream` name, without a generator.
#[inline]
pub(super) fn word(seed: u64, stream: u64, index: u64) -> u64 {
    mix(mix(seed ^ stream.wrapping_mul(GAMMA)).wrapping_add(index.wrapping_mul(GAMMA)))
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn matches_the_published_sequence() {
        let mut rng = SplitMix64::new(0);
        let got = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(got, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
        assert_eq!([0, 1, 2].map(|index| SplitMix64::new(0).nth(index)), got);
    }

    #[test]
    fn ranges_hold() {
        let mut rng = SplitMix64::new(3);
        assert!((0..10_000).all(|_| rng.below(7) < 7 && (0.0..1.0).contains(&rng.unit())));
    }
}
