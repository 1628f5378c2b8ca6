//! With AVX-512: keys picked, and plain frames parsed by one permutation.

use core::arch::x86_64::*;
use core::mem::transmute;

use super::opaque;
use super::plain::{BEHIND_SHIM, MACS, PLAIN, front, shape, some};
use crate::wire::{Headers, Places};

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
pub fn parse_plain(frame: &[u8], headers: &mut Headers) -> bool {
    parse::<MACS, { MACS + PLAIN }>(frame, headers)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
pub fn parse_shimmed(frame: &[u8], headers: &mut Headers) -> bool {
    parse::<BEHIND_SHIM, { BEHIND_SHIM + PLAIN }>(frame, headers)
}

/// Parses frames with the EtherType at `AT` by their first `HEAD` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn parse<const AT: usize, const HEAD: usize>(frame: &[u8], headers: &mut Headers) -> bool {
    let Some(head) = frame.first_chunk::<HEAD>() else { return false };
    // SAFETY: only the bytes of `head` are read.
    let bytes = unsafe { _mm512_maskz_loadu_epi8((1 << HEAD) - 1, head.as_ptr().cast()) };
    let shapes = const { &shape(AT) };
    let [bits, tcp, udp] = [vector(&shapes[0]), vector(&shapes[1]), vector(&shapes[2])];
    let shape = _mm512_and_si512(bytes, bits);
    // Bytes that are those of neither.
    let differ = _mm512_mask_cmpneq_epi8_mask(_mm512_cmpneq_epi8_mask(shape, tcp), shape, udp);
    let length = u16::from_be_bytes([head[AT + 4], head[AT + 5]]);
    if differ != 0 || length < 24 {
        return false;
    }
    let (from, fixed) = const { &front(AT) };
    let some = const { some(&front(AT).0) };
    let front = _mm512_mask_permutexvar_epi8(vector(fixed), some, vector(from), bytes);
    // SAFETY: the front of headers is 64 writable bytes. Fields that are no numbers have a
    // value of theirs, as `front` says.
    unsafe { _mm512_storeu_si512(std::ptr::from_mut(headers).cast(), front) }
    true
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vl")]
#[inline]
pub fn pick(headers: &Headers, places: &Places) -> u128 {
    // SAFETY: any bits make a number.
    unsafe { transmute::<__m128i, u128>(picked(headers, places)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vl")]
#[inline]
pub fn words(headers: &Headers, places: &Places) -> [u32; 4] {
    // SAFETY: any bits make words.
    unsafe { transmute::<__m128i, [u32; 4]>(picked(headers, places)) }
}

/// These bytes of the headers.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vl")]
#[inline]
fn picked(headers: &Headers, places: &Places) -> __m128i {
    // SAFETY: the front of headers is 64 readable bytes without a gap.
    let front = unsafe { _mm512_loadu_si512(std::ptr::from_ref(headers).cast()) };
    // SAFETY: any bits make a vector. A compiler that knew the places would pick from two vectors, the
    // other one of zeros, which takes some CPUs three times as long.
    let from = opaque(unsafe { transmute::<Places, __m128i>(*places) });
    let picked = _mm512_maskz_permutexvar_epi8(some(places), _mm512_castsi128_si512(from), front);
    _mm512_castsi512_si128(picked)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn vector(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}
