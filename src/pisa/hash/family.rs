//! The polynomials of a deployment: which array hashes with which.

use std::{fmt, io};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Polynomial;

/// A family of different polynomials, the secret of a deployment. Every switch of a network holds the same one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Polynomials([Polynomial; Self::LEN]);

impl Polynomials {
    pub const LEN: usize = 32;

    /// Drawn from the operating system's randomness.
    pub fn random() -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self::drawn(key))
    }

    /// The same family for the same seed, on every machine and in every version: ChaCha20 keyed with the seed in
    /// little-endian order, then zeros. For tests and experiments; 64 bits that stand in a script keep no secret.
    pub fn reproducible(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self::drawn(key)
    }

    /// [`Polynomial::STANDARD`], and after it irreducible polynomials from seed 0.
    pub fn standard() -> Self {
        let Self(mut all) = Self::reproducible(0);
        all[..Polynomial::STANDARD.len()].copy_from_slice(&Polynomial::STANDARD);
        Self(all)
    }

    /// Number `i`. Numbers are given out by whoever builds the pipeline: each array, each stage its own.
    ///
    /// # Panics
    /// If `i` is not below [`Polynomials::LEN`].
    pub fn get(&self, i: usize) -> Polynomial {
        self.0[i]
    }

    /// A family that another switch has too: [`Self::LEN`] different polynomials, all of them irreducible or in print.
    pub fn from_slice(polynomials: &[Polynomial]) -> Option<Self> {
        let good = |(i, p): (usize, &Polynomial)| {
            (p.is_irreducible() || Polynomial::STANDARD.contains(p)) && !polynomials[..i].contains(p)
        };
        polynomials.try_into().ok().filter(|_| polynomials.iter().enumerate().all(good)).map(Self)
    }

    pub fn as_slice(&self) -> &[Polynomial] {
        &self.0
    }

    fn drawn(key: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(key);
        let mut all = [Polynomial::STANDARD[0]; Self::LEN];
        for i in 0..Self::LEN {
            // Two of 32 are the same once in 270 000 families: draw again.
            all[i] = loop {
                let drawn = Polynomial::draw(|| rng.next_u32());
                if !all[..i].contains(&drawn) && !Polynomial::STANDARD.contains(&drawn) {
                    break drawn;
                }
            };
        }
        Self(all)
    }
}

impl fmt::Debug for Polynomials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Polynomials(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_distinct_irreducible_and_reproducible() {
        let family = Polynomials::reproducible(7);
        for (i, p) in family.as_slice().iter().enumerate() {
            assert!(p.is_irreducible());
            assert!(!family.as_slice()[..i].contains(p));
        }
        assert_eq!(family, Polynomials::reproducible(7));
        assert_ne!(family, Polynomials::reproducible(8));
        assert_ne!(Polynomials::random().unwrap(), Polynomials::random().unwrap());
    }

    #[test]
    fn a_family_is_handed_on() {
        for family in [Polynomials::reproducible(7), Polynomials::standard()] {
            assert_eq!(Polynomials::from_slice(family.as_slice()), Some(family));
            let mut other = *family.as_slice().first_chunk::<32>().unwrap();
            assert_eq!(Polynomials::from_slice(&other[1..]), None);
            other[3] = other[4];
            assert_eq!(Polynomials::from_slice(&other), None, "one stands there twice");
            other[3] = Polynomial::new(0x8000_0005).unwrap();
            assert!(!other[3].is_irreducible());
            assert_eq!(Polynomials::from_slice(&other), None, "one has factors");
        }
    }

    #[test]
    fn the_standard_family_is_distinct() {
        let family = Polynomials::standard();
        for (i, p) in family.as_slice().iter().enumerate() {
            assert!(!family.as_slice()[..i].contains(p));
        }
        assert_eq!(family.get(0).reveal(), 0x04c1_1db7);
    }

    #[test]
    fn a_seed_means_the_same_polynomials_for_ever() {
        let shown: Vec<String> =
            Polynomials::reproducible(42).as_slice()[..4].iter().map(|p| format!("{:08x}", p.reveal())).collect();
        assert_eq!(shown, ["f2495157", "d3177213", "45a295ff", "e5a4094b"]);
    }
}
