//! Hashes of one packet with many arguments at once, for what decodes.

use super::{Addends, Global};

/// As many words as a vector has.
pub type Sixteen = [u32; 16];

/// Many second arguments of one [`Global`] hash, by number.
#[derive(Clone)]
pub struct Arguments {
    global: Global,
    /// Both addends of sixteen arguments; the last ones may be more than there are.
    addends: Vec<[Sixteen; 2]>,
    #[cfg(target_arch = "x86_64")]
    joins: Option<super::simd::Joins>,
}

/// Which hashes are looked for, of their bits in a mask.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub(super) mask: u32,
    pub(super) is_one: bool,
    pub(super) value: u32,
    /// A bit for each hash that is wanted.
    pub(super) table: Sixteen,
}

impl Wanted {
    /// Most bits of a mask with a set of wanted hashes.
    pub const SET_BITS: u32 = 9;

    /// This hash alone.
    pub fn one(mask: u32, value: u32) -> Self {
        Self { mask, is_one: true, value, table: [0; 16] }
    }

    /// Those that are added: none as yet. Of the mask the lowest [`Self::SET_BITS`] bits count.
    pub fn none(mask: u32) -> Self {
        Self { mask: mask & ((1 << Self::SET_BITS) - 1), is_one: false, value: 0, table: [0; 16] }
    }

    /// Adds a hash. Whether it was not among them.
    pub fn add(&mut self, hash: u32) -> bool {
        let hash = hash & self.mask;
        let (word, bit) = (hash as usize / 32, 1 << (hash % 32));
        let before = self.table[word] & bit;
        self.table[word] |= bit;
        before == 0
    }

    #[inline(always)]
    pub fn contains(&self, hash: u32) -> bool {
        let hash = hash & self.mask;
        if self.is_one { hash == self.value } else { self.table[hash as usize / 32] >> (hash % 32) & 1 == 1 }
    }
}

impl Arguments {
    pub fn new(global: &Global, arguments: &[Addends]) -> Self {
        let sixteen = |some: &[Addends]| {
            let part = |of: fn(&Addends) -> u32| std::array::from_fn(|at| some.get(at).map_or(0, of));
            [part(|addends| addends.0), part(|addends| addends.1)]
        };
        Self {
            global: global.clone(),
            addends: arguments.chunks(16).map(sixteen).collect(),
            #[cfg(target_arch = "x86_64")]
            joins: super::simd::Joins::new(global.chained()),
        }
    }

    /// The same in the form that runs on every CPU, for comparison.
    #[must_use]
    pub fn portable(self) -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            joins: None,
            ..self
        }
    }

    /// The same in the form for CPUs without AVX-512 and GFNI, for comparison.
    #[must_use]
    pub fn without_affine(self) -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            joins: super::simd::Joins::without_affine(self.global.chained()),
            ..self
        }
    }

    /// The hash of a packet with argument number `at`.
    #[inline(always)]
    pub fn hash(&self, packet: u32, at: usize) -> u32 {
        let [inner, outer] = &self.addends[at / 16];
        self.global.join(packet, Addends(inner[at % 16], outer[at % 16]))
    }

    /// Whether many hashes of a packet are computed together, sixteen or more in the time of a few.
    #[inline(always)]
    pub fn is_wide(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.joins.is_some();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The arguments of number 64 · `word` and the next ones with which the packet's hash is no larger
    /// than its limit, a bit each. Of the bits from `number` on some may be set.
    pub fn at_most(&self, packet: u32, limits: &[Sixteen], word: usize, number: usize) -> u64 {
        let sixteens = 4 * word..(4 * word + number.div_ceil(16)).min(self.addends.len());
        #[cfg(target_arch = "x86_64")]
        if let Some(joins) = &self.joins {
            return joins.at_most(packet, &self.addends[sixteens.clone()], &limits[sixteens]);
        }
        let is_small = |at: &usize| self.hash(packet, *at) <= limits[at / 16][at % 16];
        let all = 16 * sixteens.start..16 * sixteens.end;
        all.filter(is_small).fold(0, |bits, at| bits | 1 << (at % 64))
    }

    /// Puts the hashes of a packet with the first arguments into `out`, sixteen together.
    pub fn hashes(&self, packet: u32, out: &mut [Sixteen]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(joins) = &self.joins {
            return joins.hashes(packet, &self.addends, out);
        }
        let all = out.as_flattened_mut().iter_mut().enumerate();
        all.for_each(|(at, out)| *out = self.hash(packet, at));
    }

    /// Of the arguments whose bits are set in `among`, keeps those with which the packet has a wanted
    /// hash.
    pub fn select(&self, packet: u32, wanted: &Wanted, among: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(joins) = &self.joins
            && among.iter().map(|word| word.count_ones()).sum::<u32>() > ALONE
        {
            return joins.select(packet, &self.addends, wanted, among);
        }
        for (at, word) in among.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let is_kept = wanted.contains(self.hash(packet, 64 * at + bit as usize));
                *word &= !(u64::from(!is_kept) << bit);
            }
        }
    }
}

/// Up to so many hashes take less time one by one.
#[cfg(target_arch = "x86_64")]
const ALONE: u32 = 16;

impl std::fmt::Debug for Arguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arguments({} of a secret hash)", self.addends.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pisa::hash::HashFamily;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Each form gives what one hash after the other gives.
        #[test]
        fn many_are_as_one(
            seed: u64,
            packet: u32,
            ids in prop::collection::vec(any::<u32>(), 0..300),
            among in prop::collection::vec(any::<u64>(), 5),
            sparse: bool,
            bits in 1..=16u32,
            wanted in prop::collection::vec(any::<u32>(), 0..40),
        ) {
            let global = Global::derive(&HashFamily::reproducible(seed), "test", 0);
            let addends: Vec<_> = ids.iter().map(|id| global.argument(&id.to_be_bytes())).collect();
            let naive: Vec<_> = addends.iter().map(|addends| global.join(packet, *addends)).collect();
            let mask = (1u32 << bits) - 1;
            let mut set = Wanted::none(mask);
            let is_wanted = |hash: u32| wanted.iter().any(|wanted| (wanted ^ hash) & mask & 511 == 0);
            for wanted in &wanted {
                set.add(*wanted);
            }
            let arguments = Arguments::new(&global, &addends);
            for form in [arguments.clone(), arguments.clone().without_affine(), arguments.portable()] {
                let mut hashes = vec![[0; 16]; ids.len().div_ceil(16)];
                form.hashes(packet, &mut hashes);
                let limits: Vec<Sixteen> = hashes.iter().map(|hashes| hashes.map(|hash| hash ^ hash & 1)).collect();
                for word in 0..ids.len().div_ceil(64) {
                    let number = (ids.len() - 64 * word).min(64);
                    let found = form.at_most(packet, &limits, word, number);
                    for at in 0..number {
                        prop_assert_eq!(found >> at & 1 == 1, naive[64 * word + at].is_multiple_of(2));
                    }
                }
                prop_assert_eq!(&hashes.as_flattened()[..naive.len()], &naive[..]);
                let mut words: Vec<u64> = vec![0; ids.len().div_ceil(64)];
                for at in 0..ids.len() {
                    words[at / 64] |= among[at / 64] & 1 << (at % 64);
                }
                if sparse {
                    words.iter_mut().for_each(|word| *word &= 0x0100_0010);
                }
                let first = naive.first().copied().unwrap_or_default() & mask;
                for (wanted, one) in [(set.clone(), false), (Wanted::one(mask, first), true)] {
                    let mut kept = words.clone();
                    form.select(packet, &wanted, &mut kept);
                    for (at, hash) in naive.iter().enumerate() {
                        let is_wanted = if one { hash & mask == first } else { is_wanted(*hash) };
                        let expected = words[at / 64] >> (at % 64) & 1 == 1 && is_wanted;
                        prop_assert_eq!(kept[at / 64] >> (at % 64) & 1 == 1, expected);
                    }
                }
            }
        }
    }
}
