//! Headers and keys of a packet in vector registers, each in a few instructions: the headers of a
//! plain frame filled as one, a key picked from the headers, two keys compared and swapped, two pairs
//! of a key and its count merged.

#![allow(unsafe_code)]

use std::mem::offset_of;

use super::cpu::{self, Instructions};
use super::{BATCH, Phv};
use crate::wire::{FlowKey, Headers, NOTHING, Places, parse_plain, parse_shimmed};

/// All ones if both are equal, else 0; and both, in the other order if `swap`. Without a branch,
/// and in one register each, where a compiler takes two for a number of 128 bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn compare_and_swap(swap: bool, a: u128, b: u128) -> (u32, u128, u128) {
    use core::arch::x86_64::*;
    use core::mem::transmute;
    // SAFETY: SSE2 is part of x86-64, any bits make a vector or a number, and there is nothing in
    // the assembly.
    unsafe {
        let (a, b) = (transmute::<u128, __m128i>(a), opaque(transmute::<u128, __m128i>(b)));
        let differ = _mm_xor_si128(a, b);
        let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(differ, _mm_setzero_si128())) as u32;
        let mut same = u32::from(equal == 0xffff).wrapping_neg();
        // No instruction. A compiler that knew of the comparison would make a branch of it, and
        // which way that goes is not to be predicted.
        core::arch::asm!("/* {0:e} */", inout(reg) same, options(pure, nomem, nostack, preserves_flags));
        let moves = _mm_and_si128(differ, _mm_set1_epi32(-i32::from(swap)));
        let (a, b) = (_mm_xor_si128(a, moves), _mm_xor_si128(b, moves));
        (same, transmute::<__m128i, u128>(a), transmute::<__m128i, u128>(b))
    }
}

/// The vector, of which the compiler knows nothing any more. It copies a number of 128 bits that it can see
/// through by halves, and a load of both at once then waits for both stores. No instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn opaque(vector: core::arch::x86_64::__m128i) -> core::arch::x86_64::__m128i {
    let mut opaque = vector;
    // SAFETY: there is nothing in the assembly, and SSE2 is part of x86-64.
    unsafe {
        core::arch::asm!("/* {0} */", inout(xmm_reg) opaque, options(pure, nomem, nostack, preserves_flags));
    }
    opaque
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn compare_and_swap(swap: bool, a: u128, b: u128) -> (u32, u128, u128) {
    let same = u32::from(a == b).wrapping_neg();
    if swap { (same, b, a) } else { (same, a, b) }
}

/// Proof that the CPU has AVX2, by which pairs of a key and its count are merged in vector
/// registers, and keys picked from headers.
#[derive(Clone, Copy, Debug)]
pub struct Pairs(());

impl Pairs {
    /// `None` if the CPU has not.
    #[inline(always)]
    pub fn here() -> Option<Self> {
        (cfg!(target_arch = "x86_64") && cpu::uses(Instructions::Avx2)).then_some(Self(()))
    }

    /// As [`Word::merge`](super::Word::merge), of keys of up to 128 bits.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn merge(self, cell: (u128, u32), carried: (u128, u32)) -> [(u128, u32); 2] {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { avx2::merge(cell, carried) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2;

/// A CPU with AVX-512, one with AVX2, or another.
///
/// To be asked for once a burst: a loop over packets is then compiled for each case.
#[derive(Clone, Copy)]
pub struct Vectors {
    avx512: bool,
    avx2: bool,
}

impl Vectors {
    /// Those of a CPU without AVX2.
    pub const NONE: Self = Self { avx512: false, avx2: false };

    /// Those of this CPU.
    #[inline(always)]
    pub fn here() -> Self {
        Self { avx512: cpu::uses(Instructions::Avx512), avx2: cpu::uses(Instructions::Avx2) }
    }

    /// As [`parse_plain`], of headers that begin as [`Headers::of_plain`] has them.
    #[inline(always)]
    pub fn parse_plain(self, frame: &[u8], headers: &mut Headers) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.avx512 {
            // SAFETY: the CPU has the features.
            return unsafe { avx512::parse_plain(frame, headers) };
        } else if self.avx2 {
            // SAFETY: the CPU has the feature.
            return unsafe { avx2::parse_plain(frame, headers) };
        }
        parse_plain(frame, headers)
    }

    /// As [`parse_shimmed`], of headers that begin as [`Headers::of_shimmed`] has them.
    #[inline(always)]
    pub fn parse_shimmed(self, frame: &[u8], headers: &mut Headers) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.avx512 {
            // SAFETY: the CPU has the features.
            return unsafe { avx512::parse_shimmed(frame, headers) };
        } else if self.avx2 {
            // SAFETY: the CPU has the feature.
            return unsafe { avx2::parse_shimmed(frame, headers) };
        }
        parse_shimmed(frame, headers)
    }

    /// The key of a packet, as [`FlowKey::of`] has it.
    #[inline(always)]
    pub fn key<K: FlowKey>(self, headers: &Headers) -> K {
        match K::PLACES {
            Some(places) if self.avx512 => K::of_number(self.pick(headers, &places)),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the CPU has the feature.
            Some(_) if self.avx2 => K::of_number(unsafe { avx2::pick(headers, const { &Gathered::of(K::PLACES) }) }),
            _ => K::of(headers),
        }
    }

    /// The keys of the packets of a batch, as [`FlowKey::of`] has them.
    #[inline(always)]
    pub fn keys<K: FlowKey>(self, phvs: &[Phv], keys: &mut [K; BATCH]) {
        match (self.picks(), Pairs::here()) {
            (Some(picks), _) => Self::from(picks).each_key(phvs, keys),
            (None, Some(pairs)) => Self::from(pairs).each_key(phvs, keys),
            (None, None) => Self::NONE.each_key(phvs, keys),
        }
    }

    #[inline(always)]
    fn each_key<K: FlowKey>(self, phvs: &[Phv], keys: &mut [K; BATCH]) {
        for (key, phv) in keys.iter_mut().zip(phvs) {
            *key = self.key(&phv.headers);
        }
    }

    /// The CPU, if it has AVX-512.
    #[inline(always)]
    pub fn picks(self) -> Option<Picks> {
        self.avx512.then_some(Picks(()))
    }

    /// The number of these bytes of the headers.
    #[inline(always)]
    pub fn pick(self, headers: &Headers, places: &Places) -> u128 {
        #[cfg(target_arch = "x86_64")]
        if self.avx512 {
            // SAFETY: the CPU has the features.
            return unsafe { avx512::pick(headers, places) };
        }
        pick(headers, places)
    }
}

/// Proof that the CPU has AVX-512. Branch on it outside the loop over packets, with [`Vectors`] made of it in
/// the one and [`Vectors::NONE`] in the other, so that what is picked stays in vector registers.
#[derive(Clone, Copy)]
pub struct Picks(());

impl From<Picks> for Vectors {
    #[inline(always)]
    fn from(_: Picks) -> Self {
        Self { avx512: true, avx2: true }
    }
}

impl From<Pairs> for Vectors {
    #[inline(always)]
    fn from(_: Pairs) -> Self {
        Self { avx512: false, avx2: true }
    }
}

impl Picks {
    /// The number of these bytes of the headers as four words, the lowest one first.
    #[inline(always)]
    pub fn words(self, headers: &Headers, places: &Places) -> [u32; 4] {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has the features, for there is a `self`.
        return unsafe { avx512::words(headers, places) };
        #[cfg(not(target_arch = "x86_64"))]
        return std::array::from_fn(|i| (pick(headers, places) >> (32 * i)) as u32);
    }
}

/// As [`Vectors::pick`], byte by byte.
fn pick(headers: &Headers, places: &Places) -> u128 {
    // SAFETY: there is no gap in the front of headers.
    let front = unsafe { std::ptr::from_ref(headers).cast::<[u8; Headers::FRONT]>().read() };
    u128::from_le_bytes(places.map(|place| front.get(usize::from(place)).copied().unwrap_or(0)))
}

// The fields stand in order, so there is no gap before these.
const _: () = assert!(offset_of!(Headers, inner_tags) == Headers::FRONT);

/// Four words of the front of headers that have all bytes of a key among them.
#[cfg(target_arch = "x86_64")]
struct Gathered {
    /// Where they begin.
    words: [usize; 4],
    /// Where the bytes of the key stand in them, or [`NOTHING`].
    from: [u8; 16],
}

#[cfg(target_arch = "x86_64")]
impl Gathered {
    /// The words that have the bytes of a key at these places. Without places they have none.
    const fn of(places: Option<Places>) -> Self {
        let mut gathered = Self { words: [0; 4], from: [NOTHING; 16] };
        let Some(places) = places else { return gathered };
        let (mut known, mut byte) = (0, 0);
        while byte < places.len() {
            if places[byte] != NOTHING {
                let place = places[byte] as usize;
                let mut word = 0;
                while word < known && gathered.words[word] != place / 4 * 4 {
                    word += 1;
                }
                // There are no more than four words, or this is no constant.
                gathered.words[word] = place / 4 * 4;
                if word == known {
                    known += 1;
                }
                gathered.from[byte] = (4 * word + place % 4) as u8;
            }
            byte += 1;
        }
        gathered
    }
}

#[cfg(target_arch = "x86_64")]
mod plain;

#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::Word;
    use crate::wire::{Tuple4, parse, proto};
    use proptest::prelude::*;

    /// A frame, most of them plain, some with one byte that may make it another, some cut.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let spoilt = prop_oneof![4 => Just(None), 1 => (0..42usize, any::<u8>()).prop_map(Some)];
        let len = prop_oneof![Just(60usize), 0..100usize];
        (any::<[u8; 32]>(), any::<[u8; 32]>(), spoilt, len, any::<bool>()).prop_map(|(a, b, spoilt, len, udp)| {
            let mut frame = [a, b, a].concat();
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            frame[20] &= 0xc0;
            frame[21] = 0;
            frame[23] = if udp { proto::UDP } else { proto::TCP };
            if let Some((at, byte)) = spoilt {
                frame[at] = byte;
            }
            frame.resize(len, 0);
            frame
        })
    }

    /// The forms of all instructions that this CPU has, and the one without any.
    fn forms() -> impl Iterator<Item = Vectors> {
        [Vectors::here(), Vectors::NONE].into_iter().chain(Pairs::here().map(Vectors::from))
    }

    proptest! {
        #[test]
        fn all_forms_of_the_parser_fill_the_same(frame in frame()) {
            let mut expected = Headers::of_plain();
            let plain = parse_plain(&frame, &mut expected);
            for vectors in forms() {
                let mut got = Headers::of_plain();
                prop_assert_eq!(vectors.parse_plain(&frame, &mut got), plain);
                prop_assert_eq!(got, expected);
            }
        }

        #[test]
        fn all_forms_fill_the_same_behind_a_shim(
            frame in frame(),
            content: [u8; 4],
            spoilt in prop_oneof![4 => Just(None), 1 => (0..5usize, any::<u8>()).prop_map(Some)],
        ) {
            let mut shim = [0x88, 0xb5, content[0], content[1] & 0x3f | 0x80, content[2], content[3]];
            if let Some((at, byte)) = spoilt {
                shim[at] = byte;
            }
            let macs = frame.len().min(12);
            let frame = [&frame[..macs], &shim, &frame[macs..]].concat();
            let mut expected = Headers::of_shimmed();
            let shimmed = parse_shimmed(&frame, &mut expected);
            for vectors in forms() {
                let mut got = Headers::of_shimmed();
                prop_assert_eq!(vectors.parse_shimmed(&frame, &mut got), shimmed);
                prop_assert_eq!(got, expected);
            }
            let mut any = Headers::default();
            if shimmed {
                prop_assert!(crate::wire::parse_any(&frame, &mut any).is_ok());
                prop_assert_eq!(any, expected);
            } else {
                prop_assert_eq!(expected, Headers::of_shimmed());
            }
        }

        #[test]
        fn a_picked_key_is_that_of_the_fields(frame in frame()) {
            let mut headers = Headers::default();
            prop_assume!(parse(&frame, &mut headers).is_ok());
            for vectors in forms() {
                let mut keys = [Tuple4(0); BATCH];
                vectors.keys(&[Phv::default(), Phv { headers, ..Phv::default() }], &mut keys);
                prop_assert_eq!(keys[1], Tuple4::of(&headers));
                prop_assert_eq!(vectors.key::<Tuple4>(&headers), Tuple4::of(&headers));
                if let Some(places) = Tuple4::PLACES {
                    prop_assert_eq!(vectors.pick(&headers, &places), Tuple4::of(&headers).0);
                    if let Some(picks) = vectors.picks() {
                        let bytes = picks.words(&headers, &places).map(u32::to_le_bytes);
                        prop_assert_eq!(bytes.as_flattened(), Tuple4::of(&headers).0.to_le_bytes());
                    }
                }
            }
        }

        #[test]
        fn pairs_are_merged(a: u128, other: u128, bit in 0..128u32, counts: [u32; 2], near in 0..3u32) {
            let counts = [counts, [counts[0]; 2], [near, 1], [u32::MAX - near, 2]];
            for (b, [x, y]) in [a, a ^ 1 << bit, other].into_iter().flat_map(|b| counts.map(|counts| (b, counts))) {
                let expected = match (a == b, x < y) {
                    (true, _) => [(a, x.saturating_add(y)), (a, 0)],
                    (false, true) => [(b, y), (a, x)],
                    (false, false) => [(a, x), (b, y)],
                };
                let expected = expected.map(|(key, count)| (Tuple4(key), count));
                let (cell, carried) = ((Tuple4(a), x), (Tuple4(b), y));
                prop_assert_eq!(Tuple4::merge(cell, carried), expected);
                if let Some(pairs) = Pairs::here() {
                    prop_assert_eq!(Tuple4::merge_pairs(pairs, cell, carried), expected);
                }
            }
        }

        #[test]
        fn pairs_are_compared_and_swapped(a: u128, other: u128, bit in 0..128u32, swap: bool) {
            for b in [a, a ^ 1 << bit, other] {
                let same = if a == b { u32::MAX } else { 0 };
                let expected = if swap { (same, b, a) } else { (same, a, b) };
                prop_assert_eq!(compare_and_swap(swap, a, b), expected);
            }
        }
    }
}
