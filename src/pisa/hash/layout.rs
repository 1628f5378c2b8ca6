//! Descriptions of hashes: the names of their polynomials, the bytes that are hashed, and how a slot
//! follows. Hash units are made of these descriptions, so the two cannot differ.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::{HashFamily, HighRange, INIT, Polynomial, Range, XOROUT, bitwise, index_hash};
use crate::wire::KeyField;

/// One hash of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashLayout {
    pub form: HashForm,
    /// The name of the polynomial: `HashFamily::derive(label, index)`.
    pub label: Cow<'static, str>,
    pub index: u32,
    /// The switch, where the polynomial follows from its name too ([`HashFamily::of_switch`]).
    pub switch: Option<Arc<str>>,
    /// The bytes that are hashed, the first field first.
    pub key: Cow<'static, [KeyField]>,
    /// How the hash becomes a slot of an array; `None` where it fills a field of the PHV.
    pub range: Option<SlotRange>,
}

/// How polynomials make a hash of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashForm {
    /// The CRC of the key.
    Crc,
    /// The CRC of the key under the public polynomial [`Polynomial::STANDARD`] with the hash's index.
    Standard,
    /// An [index hash](super::index): this CRC and that of the polynomial with this label and index 0.
    Index { shared: Cow<'static, str> },
    /// A [`Global`](super::Global) hash of two words: the polynomials of the indices 3 `index` to
    /// 3 `index` + 2.
    Global,
}

/// From a hash to a slot of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRange {
    /// The hash modulo this number of slots ([`Range`]).
    Modulo(NonZeroU32),
    /// The highest bits of the hash ([`HighRange`]).
    High(HighSlots),
    /// The highest bits of the hash within a part of the array. Place and length of the parts are
    /// parameters; the longest part is this one.
    Parts(HighSlots),
}

/// An array whose slots the highest bits of a hash name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighSlots {
    pub slots: NonZeroU32,
    /// Further bits of the hash for an array whose length is no power of two ([`HighRange::new`]).
    pub spare: u32,
}

impl HighSlots {
    /// An array without cells counts as one with one.
    pub fn new(slots: u32, spare: u32) -> Self {
        Self { slots: NonZeroU32::new(slots).unwrap_or(NonZeroU32::MIN), spare }
    }

    pub fn range(self) -> HighRange {
        HighRange::new(self.slots, self.spare)
    }
}

impl SlotRange {
    /// Bits of the hash that name a slot.
    pub fn bits(self) -> u32 {
        match self {
            Self::Modulo(slots) => u32::BITS - (slots.get() - 1).leading_zeros(),
            Self::High(slots) => slots.range().bits(),
            Self::Parts(HighSlots { slots, spare }) => u32::BITS - (slots.get() << spare).leading_zeros(),
        }
    }

    pub fn slots(self) -> NonZeroU32 {
        match self {
            Self::Modulo(slots) | Self::High(HighSlots { slots, .. }) | Self::Parts(HighSlots { slots, .. }) => slots,
        }
    }

    /// The slot of a hash; of parts, with the whole array as one.
    pub fn slot(self, hash: u32) -> u32 {
        match self {
            Self::Modulo(slots) => Range::new(slots).index(hash),
            Self::High(slots) | Self::Parts(slots) => slots.range().slot(hash),
        }
    }
}

impl HashLayout {
    fn new(form: HashForm, label: impl Into<Cow<'static, str>>, index: u32) -> Self {
        Self { form, label: label.into(), index, switch: None, key: Cow::Borrowed(&[]), range: None }
    }

    /// A CRC.
    pub fn crc(label: impl Into<Cow<'static, str>>, index: u32) -> Self {
        Self::new(HashForm::Crc, label, index)
    }

    /// A CRC with polynomial number `index` of those in print.
    pub fn standard(index: u32) -> Self {
        Self::new(HashForm::Standard, "standard", index)
    }

    /// An index hash.
    pub fn index(shared: impl Into<Cow<'static, str>>, label: impl Into<Cow<'static, str>>, index: u32) -> Self {
        Self::new(HashForm::Index { shared: shared.into() }, label, index)
    }

    /// A global hash, of a word of the packet and another one.
    pub fn global(label: impl Into<Cow<'static, str>>, index: u32) -> Self {
        Self::new(HashForm::Global, label, index)
    }

    /// The hash of these fields.
    #[must_use]
    pub fn over(self, key: impl Into<Cow<'static, [KeyField]>>) -> Self {
        Self { key: key.into(), ..self }
    }

    /// The hash as a slot.
    #[must_use]
    pub fn within(self, range: SlotRange) -> Self {
        Self { range: Some(range), ..self }
    }

    /// The hash as it is derived from this family: of one switch or of all.
    #[must_use]
    pub fn derived_from(self, family: &HashFamily) -> Self {
        Self { switch: family.switch().cloned(), ..self }
    }

    /// Bits that name a slot; 0 where none is named.
    pub fn bits(&self) -> u32 {
        self.range.map_or(0, SlotRange::bits)
    }

    /// The labels and indices of its polynomials.
    fn derivations(&self) -> Vec<(&str, u32)> {
        let own = (&*self.label, self.index);
        match &self.form {
            HashForm::Standard => Vec::new(),
            HashForm::Crc => vec![own],
            HashForm::Index { shared } => vec![(shared, 0), own],
            HashForm::Global => (0..3).map(|crc| (&*self.label, 3 * self.index + crc)).collect(),
        }
    }

    /// The names of its polynomials: `HashFamily::derive` of these gives them.
    pub fn names(&self) -> Vec<(String, u32)> {
        let whole = |label: &str| self.switch.as_ref().map_or(label.into(), |switch| format!("{label}/{switch}"));
        self.derivations().into_iter().map(|(label, index)| (whole(label), index)).collect()
    }

    fn family(&self, family: &HashFamily) -> HashFamily {
        self.switch.as_ref().map_or_else(|| family.clone(), |switch| family.of_switch(switch))
    }

    /// The polynomials, in the order of [`Self::names`].
    pub fn polynomials(&self, family: &HashFamily) -> Vec<Polynomial> {
        let family = self.family(family);
        self.derivations().into_iter().map(|(label, index)| family.derive(label, index)).collect()
    }

    /// The polynomial that bears the hash's own name.
    pub fn polynomial(&self, family: &HashFamily) -> Polynomial {
        self.family(family).derive(&self.label, self.index)
    }

    /// The first polynomial: of an index hash the one that hashes of one key share.
    pub fn shared_polynomial(&self, family: &HashFamily) -> Polynomial {
        let first = self.derivations().into_iter().next();
        first.map_or_else(|| self.polynomial(family), |(label, index)| self.family(family).derive(label, index))
    }

    /// The hash of a key by its definition, bit by bit: what every hash unit gives.
    pub fn of_key(&self, family: &HashFamily, key: &[u8]) -> u32 {
        let crc = |polynomial, bytes: &[u8]| bitwise::crc(polynomial, INIT, XOROUT, bytes);
        let standard = || Polynomial::STANDARD.get(self.index as usize).copied();
        match (&self.form, &self.polynomials(family)[..]) {
            (HashForm::Standard, _) => standard().map_or(0, |polynomial| crc(polynomial, key)),
            (HashForm::Index { .. }, [shared, own]) => index_hash(crc(*own, key), crc(*shared, key)),
            (HashForm::Global, [first, inner, outer]) => {
                let (packet, argument) = key.split_at(key.len().min(size_of::<u32>()));
                let packet = packet.iter().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
                let inner = crc(*inner, &packet.wrapping_add(crc(*first, argument)).to_be_bytes());
                crc(*outer, &inner.wrapping_add(crc(*outer, argument)).to_be_bytes())
            }
            (_, polynomials) => polynomials.first().map_or(0, |polynomial| crc(*polynomial, key)),
        }
    }

    /// The slot of a key by its definition; `None` where none is named.
    pub fn slot_of_key(&self, family: &HashFamily, key: &[u8]) -> Option<u32> {
        Some(self.range?.slot(self.of_key(family, key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::SlotSource;
    use crate::pisa::hash::{Global, IndexSlots, SlotHash};
    use crate::wire::{FlowKey, Tuple4};
    use proptest::prelude::*;

    proptest! {
        /// Each unit that is made of a description gives what the description defines.
        #[test]
        fn units_are_their_descriptions(seed: u64, index in 0..9u32, slots in 1..70_000u32, tuple in 0u128..1 << 104) {
            let (family, key) = (HashFamily::reproducible(seed), Tuple4(tuple));
            let bytes = key.bytes();
            let crc = HashLayout::crc("test/crc", index)
                .over(Tuple4::FIELDS)
                .within(SlotRange::Modulo(NonZeroU32::new(slots).unwrap()));
            let unit = SlotHash::of(&crc, &family);
            prop_assert_eq!(Some(unit.slot(key).0), crc.slot_of_key(&family, &bytes));
            prop_assert_eq!(unit.bits(), crc.bits());

            let units = IndexSlots::<2>::new(&family, "test/shared", &[("test/a", index, slots), ("test/b", 0, 7)]);
            let found = units.slots(bytes);
            for (at, slot) in found.iter().enumerate() {
                let SlotSource::Hash(hash) = units.source(at) else { panic!("a hash") };
                prop_assert_eq!(hash.slot_of_key(&family, &bytes), Some(*slot));
            }

            let global = HashLayout::global("test/global", index);
            let [packet, argument] = [tuple as u32, (tuple >> 32) as u32];
            let key = [packet.to_be_bytes(), argument.to_be_bytes()].concat();
            let unit = Global::of(&global, &family);
            let hash = unit.join(packet, unit.argument(&argument.to_be_bytes()));
            prop_assert_eq!(hash, global.of_key(&family, &key));
        }
    }

    /// What a unit derives from a family is what its description names.
    #[test]
    fn names_are_what_is_derived() {
        let names = |layout: &HashLayout| {
            let recorder = HashFamily::reproducible(1).recorder();
            layout.of_key(&recorder, &[0; 8]);
            recorder.derived().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&HashLayout::crc("a", 2)), ["a[2]"]);
        assert_eq!(names(&HashLayout::index("s", "a", 2)), ["s[0]", "a[2]"]);
        assert_eq!(names(&HashLayout::global("a", 2)), ["a[6]", "a[7]", "a[8]"]);
        assert_eq!(names(&HashLayout::standard(0)), [""; 0]);
        let recorder = HashFamily::reproducible(1).recorder();
        Global::of(&HashLayout::global("a", 2), &recorder);
        assert_eq!(recorder.derived().iter().map(|derived| derived.index).collect::<Vec<_>>(), [6, 7, 8]);
    }

    /// zlib's CRC-32 of "123456789", the check value in print.
    #[test]
    fn a_printed_polynomial() {
        assert_eq!(HashLayout::standard(0).of_key(&HashFamily::reproducible(1), b"123456789"), 0xcbf4_3926);
    }
}
