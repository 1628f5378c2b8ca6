//! Thirty-two hashes at once, on CPUs with AVX2.

use core::arch::x86_64::*;

use super::super::planes::{EightWords, KEYS, Planes};
use super::super::store_eight;
use crate::pisa::hash::Polynomial;
use crate::pisa::hash::many::{Sixteen, Wanted};

/// The inner CRC and the outer one, each of 32-bit words.
#[derive(Clone)]
pub struct PlaneJoins([Planes; 2]);

/// Vectors of [`Sixteen`] that hold the words of as many packets as are hashed together.
const TOGETHER: usize = KEYS / 16;

impl PlaneJoins {
    pub fn new([inner, outer]: [Polynomial; 2]) -> Option<Self> {
        Some(Self([Planes::new(inner, size_of::<u32>())?, Planes::new(outer, size_of::<u32>())?]))
    }

    pub fn hashes(&self, packet: u32, arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.all(packet, arguments, out) }
    }

    pub fn select(&self, packet: u32, arguments: &[[Sixteen; 2]], wanted: &Wanted, among: &mut [u64]) {
        for (word, arguments) in among.iter_mut().zip(arguments.chunks(4)).filter(|(word, _)| **word != 0) {
            let mut hashes = [[0; 16]; 4];
            self.hashes(packet, arguments, &mut hashes);
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let is_kept = wanted.contains(hashes.as_flattened()[bit as usize]);
                *word &= !(u64::from(!is_kept) << bit);
            }
        }
    }

    pub fn at_most(&self, packet: u32, arguments: &[[Sixteen; 2]], limits: &[Sixteen]) -> u64 {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.compare(packet, arguments, limits) }
    }

    #[inline(always)]
    pub fn of_packets(&self, packets: &[Sixteen], argument: [u32; 2], out: &mut [Sixteen]) {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.many_with_one(packets, argument, out) }
    }

    #[inline(always)]
    pub fn packets_at_most(&self, packets: &[Sixteen], argument: [u32; 2], limit: u32) -> u64 {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.compare_packets(packets, argument, limit) }
    }

    #[inline(always)]
    pub fn of_pairs(&self, packets: &[Sixteen], arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.pairs(packets, arguments, out) }
    }

    #[inline(always)]
    pub fn inner_of_packets(&self, packets: &[Sixteen], argument: u32, out: &mut [Sixteen]) {
        // SAFETY: the CPU has AVX2, for there is a `self`.
        unsafe { self.inner(packets, argument, out) }
    }

    #[target_feature(enable = "avx2")]
    fn many_with_one(&self, packets: &[Sixteen], argument: [u32; 2], out: &mut [Sixteen]) {
        let [inner, outer] = [same(argument[0]), same(argument[1])];
        for (packets, out) in packets.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER)) {
            store(out, self.chained(packets_of(packets), inner, outer));
        }
    }

    #[target_feature(enable = "avx2")]
    fn compare_packets(&self, packets: &[Sixteen], argument: [u32; 2], limit: u32) -> u64 {
        let [inner, outer, limit] = [same(argument[0]), same(argument[1]), same(limit)];
        let mut bits = 0;
        for (packets, at) in packets.chunks(TOGETHER).zip(0..) {
            bits |= small(self.chained(packets_of(packets), inner, outer), limit) << (KEYS * at);
        }
        bits
    }

    #[target_feature(enable = "avx2")]
    fn pairs(&self, packets: &[Sixteen], arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        let arguments = arguments.chunks(TOGETHER);
        for ((packets, arguments), out) in packets.chunks(TOGETHER).zip(arguments).zip(out.chunks_mut(TOGETHER)) {
            let [inner, outer] = arguments_of(arguments);
            store(out, self.chained(packets_of(packets), inner, outer));
        }
    }

    #[target_feature(enable = "avx2")]
    fn inner(&self, packets: &[Sixteen], argument: u32, out: &mut [Sixteen]) {
        let addend = same(argument);
        for (packets, out) in packets.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER)) {
            store(out, self.0[0].of_words(sums(packets_of(packets), addend)));
        }
    }

    #[target_feature(enable = "avx2")]
    fn compare(&self, packet: u32, arguments: &[[Sixteen; 2]], limits: &[Sixteen]) -> u64 {
        let packet = same(packet);
        let mut bits = 0;
        for ((arguments, limits), at) in arguments.chunks(TOGETHER).zip(limits.chunks(TOGETHER)).zip(0..) {
            let [inner, outer] = arguments_of(arguments);
            bits |= small(self.chained(packet, inner, outer), packets_of(limits)) << (KEYS * at);
        }
        bits
    }

    #[target_feature(enable = "avx2")]
    fn all(&self, packet: u32, arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        let packet = same(packet);
        for (arguments, out) in arguments.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER)) {
            let [inner, outer] = arguments_of(arguments);
            store(out, self.chained(packet, inner, outer));
        }
    }

    /// The outer CRC of the sum of `outer` and the inner CRC of `packets` and `inner` together.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn chained(&self, packets: EightWords, inner: EightWords, outer: EightWords) -> EightWords {
        let [first, second] = &self.0;
        second.of_words(sums(first.of_words(sums(packets, inner)), outer))
    }
}

/// One word in all places.
#[target_feature(enable = "avx2")]
#[inline]
fn same(word: u32) -> EightWords {
    [_mm256_set1_epi32(word as i32); KEYS / 8]
}

#[target_feature(enable = "avx2")]
#[inline]
fn sums(a: EightWords, b: EightWords) -> EightWords {
    let mut sums = a;
    for (sum, b) in sums.iter_mut().zip(b) {
        *sum = _mm256_add_epi32(*sum, b);
    }
    sums
}

/// A bit for each word that is no larger than its limit.
#[target_feature(enable = "avx2")]
#[inline]
fn small(words: EightWords, limits: EightWords) -> u64 {
    let mut bits = 0;
    for ((words, limits), at) in words.into_iter().zip(limits).zip(0..) {
        let are_small = _mm256_cmpeq_epi32(_mm256_min_epu32(words, limits), words);
        bits |= u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(are_small)) as u32) << (8 * at);
    }
    bits
}

/// The words of [`TOGETHER`] times sixteen packets; zeros behind the last ones.
#[target_feature(enable = "avx2")]
#[inline]
fn packets_of(packets: &[Sixteen]) -> EightWords {
    let mut words = same(0);
    for (word, eight) in words.iter_mut().zip(packets.as_flattened().as_chunks::<8>().0) {
        *word = load_eight(eight);
    }
    words
}

/// The inner and the outer addends of as many arguments; zeros behind the last ones.
#[target_feature(enable = "avx2")]
#[inline]
fn arguments_of(arguments: &[[Sixteen; 2]]) -> [EightWords; 2] {
    let (mut inner, mut outer) = (same(0), same(0));
    let rooms = inner.as_chunks_mut::<2>().0.iter_mut().zip(outer.as_chunks_mut::<2>().0);
    for ([inner_words, outer_words], (inner, outer)) in arguments.iter().zip(rooms) {
        for (words, room) in [(inner_words, inner), (outer_words, outer)] {
            for (room, eight) in room.iter_mut().zip(words.as_chunks::<8>().0) {
                *room = load_eight(eight);
            }
        }
    }
    [inner, outer]
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(out: &mut [Sixteen], words: EightWords) {
    for (at, words) in words.into_iter().enumerate() {
        store_eight(out.as_flattened_mut(), at, words);
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load_eight(eight: &[u32; 8]) -> __m256i {
    // SAFETY: 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) }
}
