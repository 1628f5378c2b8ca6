//! Identities of four packets at once.

use core::arch::x86_64::*;

use super::{Clmul, INIT, XNOR_AND, XOR3, XOROUT, advance, bytes_of, halves, pair, third, xor};
use crate::pisa::BATCH;
use crate::pisa::cpu::Instructions;
use crate::pisa::hash::Polynomial;
use crate::wire::{Frame, Headers, Net, identity, proto};

/// The [identities](crate::wire::identity) of plain packets: TCP and UDP over IPv4 without options.
/// The bytes that are hashed are picked from the packet by one permutation, and those of the
/// destination address by another; without AVX-512 by shuffles of 16 bytes, and by loads of whole words. Their
/// first word is zero, so its part of the CRC is a constant.
#[derive(Clone, Copy)]
pub struct Identities {
    clmul: Clmul,
    /// What takes each of the four words that are left to the place of the last one.
    fold: [u64; WORDS],
    /// The part of the first word.
    first: u128,
}

/// Words of a plain packet's bytes behind the first one, and these in bytes.
const WORDS: usize = identity::LEN / 8 - 1;
const ROW: usize = 8 * WORDS;

/// Length of IPv4's header, and of UDP's.
const IPV4: u8 = 20;
const UDP: u8 = 8;

/// The longest transport header behind which the bytes that are taken of the payload still lie in
/// the 64 bytes that are loaded.
const MAX_HEADER: u8 = 64 - IPV4 - 8;

/// No byte of the packet.
const NOTHING: u8 = u8::MAX;

/// From where in the IP packet the bytes of a row come, of a packet of TCP and of UDP; those of the
/// payload from its beginning on as if there were no transport header. The destination address is
/// among them, and the source address in [`SOURCE`], which is added.
const PLACES: [[u8; ROW]; 2] = [places(true), places(false)];
const SOURCE: [u8; ROW] = row(&[(4, 12, 4)]);
/// Where the payload stands in a row.
const PAYLOAD: (usize, usize) = (25, 7);

const fn places(tcp: bool) -> [u8; ROW] {
    // TCP's sequence and acknowledgement numbers, or what follows the first bytes of UDP's payload.
    let numbers = if tcp { IPV4 + 4 } else { IPV4 + UDP + PAYLOAD.1 as u8 };
    row(&[(3, 16, 4), (8, 9, 1), (9, IPV4, 4), (13, 2, 4), (17, numbers, 8), (PAYLOAD.0, IPV4, PAYLOAD.1)])
}

/// A row of fields: of each its place there, that in the packet, and its length.
const fn row(fields: &[(usize, u8, usize)]) -> [u8; ROW] {
    let (mut row, mut field) = ([NOTHING; ROW], 0);
    while field < fields.len() {
        let (at, from, len) = fields[field];
        let mut byte = 0;
        while byte < len {
            row[at + byte] = from + byte as u8;
            byte += 1;
        }
        field += 1;
    }
    row
}

/// A bit for each byte that comes from somewhere.
const fn some(row: &[u8; ROW]) -> u32 {
    let (mut mask, mut byte) = (0, 0);
    while byte < ROW {
        mask |= ((row[byte] != NOTHING) as u32) << byte;
        byte += 1;
    }
    mask
}

const FILLED: u32 = some(&PLACES[0]);
const _: () = assert!(some(&PLACES[1]) == FILLED);
const OF_PAYLOAD: u32 = ((1 << PAYLOAD.1) - 1) << PAYLOAD.0;

impl Identities {
    /// In the form for a CPU with no more than these instructions; `None` without AVX2.
    pub fn new(polynomial: Polynomial, limit: Instructions) -> Option<Self> {
        let clmul = Clmul::new(polynomial, limit)?;
        // y^(-64 places) mod P of each word's places before the last one.
        let fold = std::array::from_fn(|word| match WORDS - 1 - word {
            0 => 1,
            places => u64::from(advance(polynomial, 1, 64 * places as u32)),
        });
        let to_last = u64::from(advance(polynomial, 1, 64 * WORDS as u32));
        let first = carryless(INIT.into(), to_last);
        (clmul.level >= Instructions::Avx2).then_some(Self { clmul, fold, first })
    }

    /// `None` if one of the packets is not plain.
    #[inline(always)]
    pub fn of_four<F: Frame>(
        &self,
        a: (&Headers, &F),
        b: (&Headers, &F),
        c: (&Headers, &F),
        d: (&Headers, &F),
    ) -> Option<[u32; 4]> {
        let takes_four = self.clmul.level >= Instructions::Avx512;
        // SAFETY: the CPU has the features, as the level of `clmul` says.
        unsafe { if takes_four { Some(self.crcs(picked(a)?, picked(b)?, picked(c)?, picked(d)?)) } else { None } }
    }

    /// Writes the CRCs of the rows of the plain ones of the first `number` packets, one after the other, where the CPU
    /// has no AVX-512. Returns a bit for each other packet; `None` where the CPU has AVX-512.
    #[inline(always)]
    pub fn one_by_one<'a, F: Frame + 'a>(
        &self,
        number: usize,
        packet: impl Fn(usize) -> Option<(&'a Headers, &'a F)>,
        crcs: &mut [u32; BATCH],
    ) -> Option<u64> {
        if self.clmul.level >= Instructions::Avx512 {
            return None;
        }
        // SAFETY: the CPU has the features, for there is a `self`.
        Some(unsafe { self.each(number, packet, crcs) })
    }

    #[target_feature(enable = "avx2,bmi2,pclmulqdq")]
    fn each<'a, F: Frame + 'a>(
        &self,
        number: usize,
        packet: impl Fn(usize) -> Option<(&'a Headers, &'a F)>,
        crcs: &mut [u32; BATCH],
    ) -> u64 {
        let [f, g, h, _] = self.fold;
        let (low_fold, high_fold, first) = (pair(f, g), pair(h, 0), halves(self.first));
        let reduce = pair(self.clmul.reduce[0], self.clmul.reduce[1]);
        let mut others = 0;
        for (at, crc) in crcs.iter_mut().enumerate().take(number) {
            let row = match packet(at) {
                Some(packet) => picked_in_halves(packet),
                None => None,
            };
            let Some([low, high]) = row else {
                others |= 1 << at;
                continue;
            };
            let (a, b) = (_mm_clmulepi64_si128::<0x00>(low, low_fold), _mm_clmulepi64_si128::<0x11>(low, low_fold));
            let (c, last) = (_mm_clmulepi64_si128::<0x00>(high, high_fold), _mm_srli_si128::<8>(high));
            let sum = xor(xor(xor(a, b), xor(c, last)), first);
            let quotient = _mm_clmulepi64_si128::<0x00>(sum, reduce);
            let multiple = _mm_clmulepi64_si128::<0x10>(quotient, reduce);
            *crc = third(xor(sum, multiple)) ^ XOROUT;
        }
        others
    }

    /// The CRCs of four rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,bmi2")]
    #[inline]
    fn crcs(&self, a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [u32; 4] {
        // No closures: a compiler would call those that take vectors.
        let ab = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b);
        let cd = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(c), d);
        let (ab, cd) = (self.terms(ab), self.terms(cd));
        // Both halves of each packet's terms side by side.
        let (even, odd) = (_mm512_shuffle_i64x2::<0x88>(ab, cd), _mm512_shuffle_i64x2::<0xdd>(ab, cd));
        let first = _mm512_broadcast_i32x4(halves(self.first));
        let sum = _mm512_ternarylogic_epi64::<XOR3>(even, odd, first);
        let reduce = _mm512_broadcast_i32x4(pair(self.clmul.reduce[0], self.clmul.reduce[1]));
        let quotient = _mm512_clmulepi64_epi128::<0x00>(sum, reduce);
        let multiple = _mm512_clmulepi64_epi128::<0x10>(quotient, reduce);
        let crcs = _mm512_ternarylogic_epi64::<XNOR_AND>(sum, multiple, _mm512_set1_epi32(-1));
        let thirds = _mm512_setr_epi32(2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14, 2, 6, 10, 14);
        let crcs = _mm512_castsi512_si128(_mm512_permutexvar_epi32(thirds, crcs));
        // SAFETY: any bits make words.
        unsafe { core::mem::transmute::<__m128i, [u32; 4]>(crcs) }
    }

    /// The words of two rows, two words together, each taken to the place of the last one.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    #[inline]
    fn terms(&self, rows: __m512i) -> __m512i {
        let [f, g, h, i] = self.fold.map(|fold| fold as i64);
        let fold = _mm512_setr_epi64(f, g, h, i, f, g, h, i);
        let (low, high) = (_mm512_clmulepi64_epi128::<0x00>(rows, fold), _mm512_clmulepi64_epi128::<0x11>(rows, fold));
        _mm512_xor_si512(low, high)
    }
}

/// A plain packet from its IP header on, the length of its transport header, and whether that is TCP's.
#[inline(always)]
fn plain<'a, F: Frame>((headers, frame): (&Headers, &'a F)) -> Option<(&'a [u8], u8, bool)> {
    let packet = frame.bytes().get(usize::from(headers.l3)..)?;
    let is_tcp = headers.proto == proto::TCP;
    let is_plain = headers.net == Net::Ipv4
        && headers.l4 == headers.l3.wrapping_add(IPV4.into())
        && (is_tcp || headers.proto == proto::UDP);
    let words = packet.get(usize::from(IPV4) + 12)? >> 4;
    let header = if is_tcp { 4 * words } else { UDP };
    (is_plain && header <= MAX_HEADER).then_some((packet, header, is_tcp))
}

/// The row of a plain packet.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn picked<F: Frame>(packet: (&Headers, &F)) -> Option<__m256i> {
    let (packet, header, is_tcp) = plain(packet)?;
    let there = _bzhi_u64(u64::MAX, packet.len().min(64) as u32);
    // SAFETY: only bytes of the packet are read.
    let packet = unsafe { _mm512_maskz_loadu_epi8(there, packet.as_ptr().cast()) };
    let places = row_of(&PLACES[usize::from(!is_tcp)]);
    let places = _mm256_mask_add_epi8(places, OF_PAYLOAD, places, _mm256_set1_epi8(header as i8));
    let fields = _mm512_maskz_permutexvar_epi8(FILLED.into(), _mm512_castsi256_si512(places), packet);
    let of_source = const { some(&SOURCE) as u64 };
    let source = _mm512_maskz_permutexvar_epi8(of_source, _mm512_castsi256_si512(row_of(&SOURCE)), packet);
    Some(_mm512_castsi512_si256(_mm512_xor_si512(fields, source)))
}

/// The lower half of a row by places in the first 16 bytes of a packet, or in the next ones.
const fn half_of(row: &[u8; ROW], from: u8) -> [u8; 16] {
    let (mut half, mut byte) = ([NOTHING; 16], 0);
    while byte < half.len() {
        if row[byte] >= from && row[byte] < from + 16 {
            half[byte] = row[byte] - from;
        }
        byte += 1;
    }
    half
}

/// The lower half of the rows of TCP and UDP is one.
const LOWER: [[u8; 16]; 3] = [half_of(&PLACES[0], 0), half_of(&PLACES[0], 16), half_of(&SOURCE, 0)];
/// The first byte of the upper half, which is the second one of IPv4's identification.
const LAST_OF_LENGTH: [u8; 16] = {
    let mut half = [NOTHING; 16];
    half[0] = PLACES[0][16];
    half
};

/// Bytes of a packet up to the end of what stands in the place of UDP's numbers.
const HEAD: usize = PLACES[1][17] as usize + 8;

/// The row of a plain packet of at least [`HEAD`] bytes in two halves. The upper one is made of words: one byte, eight
/// of numbers and seven of the payload.
#[target_feature(enable = "avx2,bmi2")]
#[inline]
fn picked_in_halves<F: Frame>((headers, frame): (&Headers, &F)) -> Option<[__m128i; 2]> {
    let packet = frame.bytes().get(usize::from(headers.l3)..)?;
    let head = packet.first_chunk::<HEAD>()?;
    let (is_tcp, is_udp) = (headers.proto == proto::TCP, headers.proto == proto::UDP);
    let has_no_options = headers.l4 == headers.l3.wrapping_add(IPV4.into());
    if !((headers.net == Net::Ipv4) & has_no_options & (is_tcp | is_udp)) {
        return None;
    }
    let ([bytes, next, ..], _) = head.as_chunks() else { return None };
    let (first, next) = (bytes_of(bytes), bytes_of(next));
    let [of_first, of_next, of_source] = [bytes_of(&LOWER[0]), bytes_of(&LOWER[1]), bytes_of(&LOWER[2])];
    let fields = xor(_mm_shuffle_epi8(first, of_first), _mm_shuffle_epi8(next, of_next));
    let low = xor(fields, _mm_shuffle_epi8(first, of_source));
    let [tcp, udp] = const { [PLACES[0][17] as usize, PLACES[1][17] as usize] };
    let numbers = u64::from_le_bytes(*head[if is_tcp { tcp } else { udp }..].first_chunk()?);
    let words = head[usize::from(IPV4) + 12] >> 4;
    let payload = eight(packet, usize::from(IPV4 + if is_tcp { 4 * words } else { UDP }))?;
    let last_of_length = _mm_shuffle_epi8(first, bytes_of(&LAST_OF_LENGTH));
    Some([low, xor(_mm_slli_si128::<1>(pair(numbers, payload)), last_of_length)])
}

/// Eight bytes from `at` on, the first one lowest; zeros behind the last one.
#[inline(always)]
fn eight(packet: &[u8], at: usize) -> Option<u64> {
    let from = at.min(packet.len().checked_sub(8)?);
    let word = u64::from_le_bytes(*packet.get(from..)?.first_chunk()?);
    Some(word.checked_shr(8 * (at - from) as u32).unwrap_or(0))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn row_of(row: &[u8; ROW]) -> __m256i {
    // SAFETY: `row` is 32 readable bytes, and the load needs no alignment.
    unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }
}

/// The carry-less product, bit by bit.
fn carryless(a: u64, b: u64) -> u128 {
    (0..u64::BITS).filter(|bit| b >> bit & 1 == 1).fold(0, |product, bit| product ^ u128::from(a) << bit)
}
