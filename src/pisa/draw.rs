//! Random numbers of packets: the stand-in for a chip's random number generator.
//!
//! A switch with a program that has [`Needs::DRAW`](crate::program::Needs::DRAW) draws 32 random bits for
//! each packet ([`Phv::draw`]), once before ingress stages and once before egress stages, in the order of
//! packets: they do not depend on how packets come in bursts. The numbers follow from the secret of the
//! [`HashFamily`] and the name of the switch, so a run with `--reproducible` repeats.

use super::hash::{HashFamily, HashLayout, IndexHashes};
use super::{DrawUse, Phv};
use crate::wire::KeyField;

/// xoshiro128++ (Blackman and Vigna, 2019): shifts, rotations, additions and exclusive ors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator([u32; 4]);

impl Generator {
    /// Of a seed that is all zeros another one takes the place.
    pub fn new(seed: [u32; 4]) -> Self {
        Self(if seed == [0; 4] { [1, 2, 3, 4] } else { seed })
    }

    #[inline(always)]
    pub fn draw(&mut self) -> u32 {
        let [a, b, c, d] = &mut self.0;
        let drawn = a.wrapping_add(*d).rotate_left(7).wrapping_add(*a);
        let shifted = *b << 9;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(11);
        drawn
    }
}

/// Up to `N` random numbers of a packet that do not depend on each other, made of [`Phv::draw`]. A chip
/// has as many random number generators; here index hashes of the packet's one number stand for them.
#[derive(Clone, Debug)]
pub struct Draws<const N: usize> {
    units: IndexHashes,
    hashes: Vec<HashLayout>,
}

impl<const N: usize> Draws<N> {
    /// The first `number` of them; the others are 0. The labels begin with the program's name, so that no
    /// other program has the same numbers, and stand for no other hash.
    pub fn new(family: &HashFamily, shared: &'static str, label: &'static str, number: usize) -> Self {
        const KEY: &[KeyField] = &[KeyField::new("draw", u32::BITS)];
        let hash = |index| HashLayout::index(shared, label, index).derived_from(family).over(KEY);
        let hashes: Vec<_> = (0..).take(number.min(N)).map(hash).collect();
        let own: Vec<_> = hashes.iter().map(|hash| hash.polynomial(family)).collect();
        Self { units: IndexHashes::new(family.derive(shared, 0), &own), hashes }
    }

    #[inline(always)]
    pub fn of(&self, phv: &Phv) -> [u32; N] {
        let key = self.units.key(phv.draw().to_be_bytes());
        std::array::from_fn(|i| self.units.hash(i, &key))
    }

    /// What they take of a stage.
    pub fn usage(&self, name: &'static str) -> Vec<DrawUse> {
        self.hashes.iter().map(|of| DrawUse { name, bits: u32::BITS, of: of.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the authors' own program.
    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut generator = Generator::new([1, 2, 3, 4]);
        let drawn: Vec<_> = (0..8).map(|_| generator.draw()).collect();
        let expected = [641, 1573767, 3222811527, 3517856514, 836907274, 4247214768, 3867114732, 1355841295];
        assert_eq!(drawn, expected);
        assert_eq!(Generator::new([0; 4]), Generator::new([1, 2, 3, 4]));
    }

    /// Chi-square over pairs of numbers of one packet, by their four highest bits each, and over numbers of
    /// packets in a row.
    #[test]
    fn numbers_do_not_depend_on_each_other() {
        const PACKETS: u32 = 1 << 16;
        for seed in 0..4 {
            let family = HashFamily::reproducible(seed);
            let draws = Draws::<3>::new(&family, "test/shared", "test/draw", 3);
            let mut generator = family.generator("switch", 0);
            let mut pairs = [[0u32; 256]; 6];
            let mut last = [0; 3];
            for _ in 0..PACKETS {
                let mut phv = Phv::default();
                phv.set_draw(generator.draw());
                let [a, b, c] = draws.of(&phv);
                let with = [(a, b), (a, c), (b, c), (a, last[0]), (b, last[1]), (c, phv.draw())];
                for (pairs, (one, other)) in pairs.iter_mut().zip(with) {
                    pairs[(one >> 28 << 4 | other >> 28) as usize] += 1;
                }
                last = [a, b, c];
            }
            let expected = f64::from(PACKETS) / 256.0;
            for pairs in pairs {
                let chi: f64 = pairs.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
                // 255 degrees of freedom: mean 255, deviation 22.6.
                assert!((165.0..370.0).contains(&chi), "seed {seed}: {chi}");
            }
        }
    }

    #[test]
    fn switches_and_replicas_draw_other_numbers() {
        let family = HashFamily::reproducible(7);
        let first = |name, replica| family.generator(name, replica).draw();
        let all = [first("a", 0), first("a", 1), first("b", 0)];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(first("a", 0), HashFamily::reproducible(7).generator("a", 0).draw());
    }
}
