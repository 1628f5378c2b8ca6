//! With AVX2: pairs of a key and its count merged, keys picked, and plain frames parsed by shuffles.

use core::arch::x86_64::*;
use core::mem::transmute;

use super::plain::{BEHIND_SHIM, MACS, PLAIN, front, part, piece, shape};
use super::{Gathered, opaque};
use crate::wire::Headers;

/// The number of the bytes of a key.
#[target_feature(enable = "avx2")]
#[inline]
pub fn pick(headers: &Headers, key: &Gathered) -> u128 {
    // SAFETY: there is no gap in the front of headers.
    let front = unsafe { &*std::ptr::from_ref(headers).cast::<[[u8; 4]; Headers::FRONT / 4]>() };
    let word = |word: usize| front.get(key.words[word] / 4).map_or(0, |bytes| i32::from_le_bytes(*bytes));
    let words = _mm_setr_epi32(word(0), word(1), word(2), word(3));
    // SAFETY: any bits make a number.
    unsafe { transmute::<__m128i, u128>(_mm_shuffle_epi8(words, vector(&key.from))) }
}

#[target_feature(enable = "avx2")]
#[inline]
pub fn parse_plain(frame: &[u8], headers: &mut Headers) -> bool {
    parse::<MACS, { MACS + PLAIN }>(frame, headers)
}

#[target_feature(enable = "avx2")]
#[inline]
pub fn parse_shimmed(frame: &[u8], headers: &mut Headers) -> bool {
    parse::<BEHIND_SHIM, { BEHIND_SHIM + PLAIN }>(frame, headers)
}

/// Where addresses and ports stand behind the EtherType, and what is before them.
const ADDRESSES: usize = 10;

/// Parses frames with the EtherType at `AT` by their first `HEAD` bytes, of which 16 each hold the MACs, what is
/// compared, and addresses and ports.
#[target_feature(enable = "avx2")]
#[inline]
fn parse<const AT: usize, const HEAD: usize>(frame: &[u8], headers: &mut Headers) -> bool {
    let Some(head) = frame.first_chunk::<HEAD>() else { return false };
    let piece_at = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk);
    let (Some(macs), Some(shape_of), Some(ports)) = (piece_at(0), piece_at(AT), piece_at(AT + ADDRESSES)) else {
        return false;
    };
    let [macs, shape_of, ports] = [vector(macs), vector(shape_of), vector(ports)];
    let [bits, tcp, udp] = const { [part(&shape(AT)[0], AT), part(&shape(AT)[1], AT), part(&shape(AT)[2], AT)] };
    let shaped = _mm_and_si128(shape_of, vector(&bits));
    let same = _mm_or_si128(_mm_cmpeq_epi8(shaped, vector(&tcp)), _mm_cmpeq_epi8(shaped, vector(&udp)));
    let length = u16::from_be_bytes([head[AT + 4], head[AT + 5]]);
    // A shim stands before the EtherType, if one is looked for.
    let [shim_bits, shim] = const { [first_word(&shape(AT)[0]), first_word(&shape(AT)[1])] };
    let before = u32::from_le_bytes([head[MACS], head[MACS + 1], head[MACS + 2], head[MACS + 3]]);
    if _mm_movemask_epi8(same) != 0xffff || length < 24 || before & shim_bits != shim {
        return false;
    }
    let places = const {
        let front = front(AT).0;
        [piece(&front, 0, AT + ADDRESSES), piece(&front, 16, AT + ADDRESSES), piece(&front, 32, AT + ADDRESSES)]
    };
    let [of_macs, of_shape] = const { [piece(&front(AT).0, 32, 0), piece(&front(AT).0, 48, AT)] };
    let fixed = const { [part(&front(AT).1, 32), part(&front(AT).1, 48)] };
    let both = |[low, high]: [&[u8; 16]; 2]| _mm256_set_m128i(vector(high), vector(low));
    let twice = _mm256_broadcastsi128_si256(ports);
    let addresses = _mm256_shuffle_epi8(twice, both([&places[0], &places[1]]));
    let others = _mm256_shuffle_epi8(_mm256_set_m128i(shape_of, macs), both([&of_macs, &of_shape]));
    let ports = _mm256_shuffle_epi8(twice, both([&places[2], &[u8::MAX; 16]]));
    let others = _mm256_or_si256(_mm256_or_si256(others, ports), both([&fixed[0], &fixed[1]]));
    let front = std::ptr::from_mut(headers).cast::<__m256i>();
    // SAFETY: the front of headers is 64 writable bytes, and the stores need no alignment. Fields that are no
    // numbers have a value of theirs, as `front` says.
    unsafe {
        _mm256_storeu_si256(front, addresses);
        _mm256_storeu_si256(front.add(1), others);
    }
    true
}

/// The word behind the MACs.
const fn first_word(bytes: &[u8; 64]) -> u32 {
    u32::from_le_bytes([bytes[MACS], bytes[MACS + 1], bytes[MACS + 2], bytes[MACS + 3]])
}

#[target_feature(enable = "avx2")]
#[inline]
fn vector(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 readable bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// A count stands in each word of a vector.
#[target_feature(enable = "avx2")]
#[inline]
pub fn merge((cell, count): (u128, u32), (carried, carried_count): (u128, u32)) -> [(u128, u32); 2] {
    // SAFETY: any bits make a vector.
    let [cell, carried] = [cell, carried].map(|key| unsafe { transmute::<u128, __m128i>(key) });
    let [count, carried_count] = [count, carried_count].map(|count| _mm_set1_epi32(count as i32));
    let (less, more) = (_mm_min_epu32(count, carried_count), _mm_max_epu32(count, carried_count));
    let halves = _mm_cmpeq_epi64(cell, carried);
    let same = _mm_and_si128(halves, _mm_shuffle_epi32::<0x4e>(halves));
    let added = _mm_and_si128(less, same);
    let room = _mm_xor_si128(more, _mm_set1_epi32(-1));
    let sum = _mm_add_epi32(more, _mm_min_epu32(added, room));
    // Of what it knows the compiler would make a comparison into a mask register, and move that back.
    let stays = _mm_cmpeq_epi32(opaque(more), count);
    let moves = _mm_and_si128(_mm_xor_si128(cell, carried), stays);
    let (kept, next) = (_mm_xor_si128(carried, moves), _mm_xor_si128(cell, moves));
    // SAFETY: any bits make a number.
    let pair = |key, count| (unsafe { transmute::<__m128i, u128>(key) }, _mm_cvtsi128_si32(count) as u32);
    [pair(kept, sum), pair(next, _mm_xor_si128(less, added))]
}
