//! The hash family of a deployment: from the name of an array to its polynomial.
//!
//! An array asks by name, a label and an index. Nothing hands out numbers, so programs that know
//! nothing of each other can run in one switch.
//!
//! ```text
//! start(label, index) = the first usable odd word in SHA-256(count ‖ index ‖ label), count = 0, 1, …
//! derive              = P(start), or P(P(start)), …: the first usable one
//! P                   = permutation of the 2³¹ odd words, keyed with the secret
//! ```
//! A word is usable when its polynomial is irreducible and not in [`Polynomial::STANDARD`].
//!
//! **No two names share a polynomial by chance of the secret.** P is one to one, and so is the walk
//! from a usable word to the next usable one (cycle walking; it ends, at the latest where it
//! began). Two names share a polynomial only if their starts are equal, which their texts alone
//! decide: under every secret or under none. A test holds that weir's own names have different
//! starts. Two others have the same start with probability 2⁻²⁷; [`HashFamily::clash`] finds them,
//! and no switch is built with such a pair.
//!
//! **Each polynomial is as good as one drawn uniformly** from the usable ones, for whoever does not
//! know the secret: one odd word in sixteen, 2²⁷ in all. So two different keys of n bits collide
//! with probability at most n / 2³²: their difference has at most n / 32 of these as factors
//! (Rabin). P is a Feistel network over 15 and 16 bits, of ten rounds, as many as NIST's FF1 has.
//! Its round function is HMAC-SHA-256 of `ring`, which the TLS connections use already; a stream
//! cipher's generator would need a second crate and a hash for the names all the same.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::{fmt, io};

use ring::{digest, hmac};

use super::Polynomial;
use crate::lock::Hold;
use crate::pisa::Generator;

/// Rounds of the Feistel network.
const ROUNDS: u8 = 10;

/// Gives each array its polynomial, from one secret. All switches of a network hold the same
/// secret.
#[derive(Clone)]
pub struct HashFamily {
    secret: [u8; Self::SECRET_BYTES],
    /// Label of the arrays that have [`Polynomial::STANDARD`].
    standard: Option<&'static str>,
    /// The switch whose arrays it is for, when these hash otherwise than those of other switches.
    switch: Option<Arc<str>>,
    /// What was derived, where somebody wants to know.
    record: Option<Arc<Mutex<Vec<Derived>>>>,
}

/// A polynomial that was derived, and for which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    pub label: String,
    /// The switch, where the polynomial follows from its name too.
    pub switch: Option<Arc<str>>,
    pub index: u32,
    pub polynomial: Polynomial,
}

impl HashFamily {
    pub const SECRET_BYTES: usize = 32;

    /// A family with a secret from the operating system's randomness.
    ///
    /// # Errors
    /// If the operating system gives none.
    pub fn random() -> io::Result<Self> {
        let mut secret = [0; Self::SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        Ok(Self::from_secret(secret))
    }

    /// The same family for the same seed, on every machine and in every version: the secret is the
    /// seed in little-endian order, then zeros. For tests and experiments; 64 bits that stand in a
    /// script keep no secret.
    pub fn reproducible(seed: u64) -> Self {
        let mut secret = [0; Self::SECRET_BYTES];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        Self::from_secret(secret)
    }

    /// The family of seed 0, but arrays of `label` have [`Polynomial::STANDARD`], by index, as long
    /// as these last. No other array of the family has one of them. For golden vectors and P4
    /// targets; to hand the secret on hands on the family of seed 0.
    pub fn standard(label: &'static str) -> Self {
        Self { standard: Some(label), ..Self::reproducible(0) }
    }

    pub fn from_secret(secret: [u8; Self::SECRET_BYTES]) -> Self {
        Self { secret, standard: None, switch: None, record: None }
    }

    /// The secret, to hand it to other switches or to store it. It belongs in no record, log or
    /// answer.
    pub fn reveal(&self) -> &[u8; Self::SECRET_BYTES] {
        &self.secret
    }

    /// The polynomial of array number `index` of those called `label`. A label starts with the
    /// program's name: `hashpipe/ipv4/stage`. Takes some 0.1 ms.
    pub fn derive(&self, label: &str, index: u32) -> Polynomial {
        let switch = self.switch.clone();
        let printed = Polynomial::STANDARD.get(index as usize).filter(|_| self.standard == Some(label));
        let start = || start(&named(label, switch.as_deref()), index);
        let polynomial = printed.copied().unwrap_or_else(|| self.walk(start()));
        if let Some(mut record) = self.record() {
            record.push(Derived { label: label.into(), switch, index, polynomial });
        }
        polynomial
    }

    /// The same family for arrays that hash by switch: the polynomial of `label` is that of
    /// `label/name`.
    #[must_use]
    pub fn of_switch(&self, name: &str) -> Self {
        Self { switch: Some(name.into()), ..self.clone() }
    }

    /// The switch whose arrays it is for, if these hash by switch.
    pub fn switch(&self) -> Option<&Arc<str>> {
        self.switch.as_ref()
    }

    /// The random numbers of packets of a switch with this name, one generator for each `stream`. Nothing
    /// of them leads back to the secret.
    pub fn generator(&self, name: &str, stream: u32) -> Generator {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let tag = hmac::sign(&key, &[b"packets draw", &stream.to_be_bytes()[..], name.as_bytes()].concat());
        let mut seed = [0; 4];
        seed.iter_mut().zip(tag.as_ref().as_chunks().0).for_each(|(word, bytes)| *word = u32::from_be_bytes(*bytes));
        Generator::new(seed)
    }

    /// A name of the family: the same for the same secret, and nothing of it leads back to the secret.
    pub fn name(&self) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let tag = hmac::sign(&key, b"name of the family");
        tag.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The same family, which keeps a record of what is derived from it and its clones.
    pub fn recorder(&self) -> Self {
        Self { record: Some(Arc::default()), ..self.clone() }
    }

    /// What was derived from a [recorder](Self::recorder), in order.
    pub fn derived(&self) -> Vec<Derived> {
        self.record().map_or(Vec::new(), |record| record.clone())
    }

    /// Two names in the record that have the same polynomial, under every secret.
    pub fn clash(&self) -> Option<[Derived; 2]> {
        let derived = self.derived();
        derived.iter().enumerate().find_map(|(i, b)| {
            let a = derived[..i].iter().find(|a| a.polynomial == b.polynomial && a != &b)?;
            Some([a.clone(), b.clone()])
        })
    }

    /// Two of these switches for which an array in the record that hashes [by switch](Self::of_switch)
    /// has one polynomial, under every secret.
    pub fn alike<'a>(&self, switches: &[&'a str]) -> Option<[&'a str; 2]> {
        let derived = self.derived().into_iter().filter(|array| array.switch.is_some());
        derived.into_iter().find_map(|Derived { label, index, .. }| {
            let mut starts = HashMap::new();
            switches.iter().find_map(|switch| {
                let first = *starts.entry(start(&named(&label, Some(switch)), index).reveal()).or_insert(*switch);
                (first != *switch).then_some([first, switch])
            })
        })
    }

    fn record(&self) -> Option<MutexGuard<'_, Vec<Derived>>> {
        self.record.as_ref().map(|record| record.hold())
    }

    /// From a usable word to the next usable one.
    fn walk(&self, from: Polynomial) -> Polynomial {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret);
        let mut word = from.reveal();
        loop {
            word = permuted(&key, word);
            if let Some(polynomial) = usable(word) {
                return polynomial;
            }
        }
    }
}

/// Families are the same when all arrays have the same polynomials in them.
impl PartialEq for HashFamily {
    fn eq(&self, other: &Self) -> bool {
        (self.secret, self.standard, &self.switch) == (other.secret, other.standard, &other.switch)
    }
}

impl Eq for HashFamily {}

impl fmt::Debug for HashFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashFamily(secret)")
    }
}

impl fmt::Display for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", named(&self.label, self.switch.as_deref()), self.index)
    }
}

/// The name of an array of one switch, or of all.
fn named<'a>(label: &'a str, switch: Option<&str>) -> Cow<'a, str> {
    switch.map_or(label.into(), |switch| format!("{label}/{switch}").into())
}

/// Where the walk begins for a name. It is public.
fn start(label: &str, index: u32) -> Polynomial {
    let mut count = 0u32;
    loop {
        let text = [&count.to_be_bytes(), &index.to_be_bytes(), label.as_bytes()].concat();
        let digest = digest::digest(&digest::SHA256, &text);
        let words = digest.as_ref().as_chunks().0.iter().map(|&bytes| u32::from_be_bytes(bytes) | 1);
        if let Some(polynomial) = words.filter_map(usable).next() {
            return polynomial;
        }
        count += 1;
    }
}

fn usable(word: u32) -> Option<Polynomial> {
    Polynomial::new(word).filter(|p| p.is_irreducible() && !Polynomial::STANDARD.contains(p))
}

/// A permutation of the odd words: 15 high bits, 16 low ones, and the 1 at the end. Each round adds
/// to one part the first bits of HMAC(round ‖ other part).
fn permuted(key: &hmac::Key, word: u32) -> u32 {
    let mask = |round: u8, half: u32| {
        let tag = hmac::sign(key, &[round, (half >> 8) as u8, half as u8]);
        u32::from(tag.as_ref()[0]) << 8 | u32::from(tag.as_ref()[1])
    };
    let (mut high, mut low) = (word >> 17, word >> 1 & 0xffff);
    for round in (0..ROUNDS).step_by(2) {
        low ^= mask(round, high);
        high ^= mask(round + 1, low) & 0x7fff;
    }
    high << 17 | low << 1 | 1
}

/// Two indices of the label `test` that start from the same polynomial.
#[cfg(test)]
pub const CLASH: [u32; 2] = [13_603, 17_451];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const NAMES: [(&str, u32); 4] = [("a/rows", 0), ("a/rows", 1), ("b/rows", 0), ("", u32::MAX)];

    fn drawn(family: &HashFamily) -> [Polynomial; 4] {
        NAMES.map(|(label, index)| family.derive(label, index))
    }

    #[test]
    fn families_are_distinct_irreducible_and_reproducible() {
        let family = HashFamily::reproducible(7);
        for (i, p) in drawn(&family).iter().enumerate() {
            assert!(p.is_irreducible() && !Polynomial::STANDARD.contains(p));
            assert!(!drawn(&family)[..i].contains(p));
        }
        assert_eq!((&family, drawn(&family)), (&HashFamily::reproducible(7), drawn(&HashFamily::reproducible(7))));
        let others = [HashFamily::reproducible(8), HashFamily::random().unwrap(), HashFamily::random().unwrap()];
        for (i, other) in others.iter().enumerate() {
            assert!(*other != family && !others[..i].contains(other));
            assert!(drawn(other).iter().zip(drawn(&family)).all(|(a, b)| *a != b));
        }
    }

    #[test]
    fn a_secret_is_handed_on() {
        let family = HashFamily::random().unwrap();
        let other = HashFamily::from_secret(*family.reveal());
        assert_eq!((&other, drawn(&other)), (&family, drawn(&family)));
    }

    /// `tests/golden/family.txt` was made by the Python in its head, independently of this code.
    #[test]
    fn a_seed_means_the_same_polynomials_for_ever() {
        let mut lines = 0;
        for line in include_str!("../../../tests/golden/family.txt").lines().filter(|line| !line.starts_with('#')) {
            let [secret, label, index, polynomial] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let byte = |i: usize| u8::from_str_radix(&secret[2 * i..2 * i + 2], 16).unwrap();
            let family = HashFamily::from_secret(std::array::from_fn(byte));
            if secret.starts_with("2a") {
                assert_eq!(family, HashFamily::reproducible(42));
            }
            let derived = family.derive(label, index.parse().unwrap());
            assert_eq!(format!("{:08x}", derived.reveal()), polynomial, "{line}");
            lines += 1;
        }
        assert_eq!(lines, 75);
    }

    /// One to one, whatever the secret: what the promise of different polynomials rests on.
    #[test]
    fn the_permutation_is_one_to_one() {
        let keys = [[0; 32], [255; 32], *HashFamily::random().unwrap().reveal()];
        for key in keys.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, &secret)) {
            let words: HashSet<u32> =
                (0..1 << 14).map(|i: u32| permuted(&key, i.reverse_bits() | i << 1 | 1)).collect();
            assert!(words.iter().all(|word| word & 1 == 1));
            assert_eq!(words.len(), 1 << 14);
        }
    }

    #[test]
    fn names_that_clash_are_found() {
        let [a, b] = CLASH;
        for family in [HashFamily::reproducible(1), HashFamily::random().unwrap()] {
            let recorder = family.recorder();
            drawn(&recorder);
            drawn(&recorder.clone());
            assert_eq!((recorder.derived().len(), recorder.clash()), (2 * NAMES.len(), None));
            assert_eq!(recorder.derive("test", a), recorder.derive("test", b));
            let found = recorder.clash().unwrap().map(|name| name.to_string());
            assert_eq!(found, [a, b].map(|index| format!("test[{index}]")));
            assert_eq!(family.derived(), []);
        }
    }

    /// An array that hashes by switch hashes otherwise in each, as the array of that name and the switch's
    /// does. Two switches for which it has one polynomial are found by their names, whatever the secret.
    #[test]
    fn switches_that_hash_alike_are_found() {
        const ALIKE: [&str; 2] = ["s9003", "s15525"];
        for family in [HashFamily::reproducible(1), HashFamily::random().unwrap()] {
            let of = |switch: &str| family.of_switch(switch).derive("test", 0);
            assert_eq!((of("s1"), of(ALIKE[0])), (family.derive("test/s1", 0), of(ALIKE[1])));
            assert!(of("s1") != of("s2") && family.of_switch("s1") != family);
            let recorder = family.recorder();
            recorder.derive("test", 0);
            let switches = ["s1", ALIKE[0], "s2", ALIKE[0], ALIKE[1]];
            assert_eq!(recorder.alike(&switches), None, "no array hashes by switch");
            recorder.of_switch("s1").derive("test", 1);
            assert_eq!(recorder.alike(&switches), None, "another array");
            recorder.of_switch("s1").derive("test", 0);
            assert_eq!((recorder.alike(&switches), recorder.alike(&switches[..4])), (Some(ALIKE), None));
            assert_eq!(recorder.derived().pop().unwrap().to_string(), "test/s1[0]");
        }
    }

    #[test]
    fn the_standard_family_has_the_polynomials_in_print() {
        let family = HashFamily::standard("a/rows").recorder();
        let printed = Polynomial::STANDARD.len() as u32;
        (0..printed).for_each(|index| assert_eq!(family.derive("a/rows", index), Polynomial::STANDARD[index as usize]));
        assert_eq!(family.derive("a/rows", 0).reveal(), 0x04c1_1db7);
        assert_eq!(family.derive("a/rows", printed), HashFamily::reproducible(0).derive("a/rows", printed));
        assert_eq!(family.derive("b/rows", 0), HashFamily::reproducible(0).derive("b/rows", 0));
        assert_eq!(family.clash(), None);
        assert_ne!(family, HashFamily::reproducible(0));
    }

    #[test]
    fn debug_keeps_the_secret() {
        let recorder = HashFamily::from_secret([211; 32]).recorder();
        recorder.derive("a/rows", 1);
        let shown = format!("{recorder:?} {:?}", recorder.derived());
        assert_eq!(
            shown,
            "HashFamily(secret) [Derived { label: \"a/rows\", switch: None, index: 1, polynomial: Polynomial(secret) }]"
        );
    }
}
