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
mod avx2 {
    use core::arch::x86_64::*;
    use core::mem::transmute;

    use super::Gathered;
    use super::opaque;
    use super::plain::{BEHIND_SHIM, MACS, PLAIN, front, part, piece, shape};
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
        // What stands before the EtherType is a shim.
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
}

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
    /// Of a key with these places, if it has some.
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

/// The shape of plain frames, as tables for instructions that take many bytes at a time.
#[cfg(target_arch = "x86_64")]
mod plain {
    use core::mem::offset_of;

    use crate::wire::{Headers, NOTHING, Net, ethertype, proto, shim};

    pub const MACS: usize = 12;
    pub const BEHIND_SHIM: usize = MACS + shim::LEN;
    /// Bytes that are looked at from the EtherType on, up to the ports.
    pub const PLAIN: usize = 2 + 20 + 4;

    /// Where the front of the headers comes from, of frames that are plain from the EtherType on, which stands
    /// at `at`: bytes of the frame by their offset, or [`NOTHING`], and what stands there then.
    pub const fn front(at: usize) -> ([u8; Headers::FRONT], [u8; Headers::FRONT]) {
        let (mut from, mut fixed) = ([NOTHING; Headers::FRONT], [0; Headers::FRONT]);
        let mut field = 0;
        /// A field that is a number, its length, and where its highest byte stands from the EtherType on.
        const NUMBERS: [(usize, usize, usize); 7] = [
            (offset_of!(Headers, src_ip), 4, 14),
            (offset_of!(Headers, dst_ip), 4, 18),
            (offset_of!(Headers, sport), 2, 22),
            (offset_of!(Headers, dport), 2, 24),
            (offset_of!(Headers, tos), 1, 3),
            (offset_of!(Headers, ttl), 1, 10),
            (offset_of!(Headers, proto), 1, 11),
        ];
        while field < NUMBERS.len() {
            let (number, len, highest) = NUMBERS[field];
            let mut byte = 0;
            while byte < len {
                from[number + byte] = (at + highest + len - 1 - byte) as u8;
                byte += 1;
            }
            field += 1;
        }
        let mut byte = 0;
        while byte < 6 {
            from[offset_of!(Headers, dst) + byte] = byte as u8;
            from[offset_of!(Headers, src) + byte] = 6 + byte as u8;
            byte += 1;
        }
        fixed[offset_of!(Headers, ethertype)] = ethertype::IPV4 as u8;
        fixed[offset_of!(Headers, ethertype) + 1] = (ethertype::IPV4 >> 8) as u8;
        fixed[offset_of!(Headers, l3)] = (at + 2) as u8;
        fixed[offset_of!(Headers, l4)] = (at + 2 + 20) as u8;
        fixed[offset_of!(Headers, net)] = Net::Ipv4 as u8;
        (from, fixed)
    }

    /// The bits of a frame that is plain from the EtherType at `at` on, by offset: which bits, their values in
    /// a TCP packet, and their values in a UDP packet. Behind a shim, that is of a known version.
    pub const fn shape(at: usize) -> [[u8; 64]; 3] {
        let mut shape = [[0; 64]; 3];
        const BYTES: [(usize, u8, u8, u8); 6] = [
            (0, 0xff, (ethertype::IPV4 >> 8) as u8, (ethertype::IPV4 >> 8) as u8),
            (1, 0xff, ethertype::IPV4 as u8, ethertype::IPV4 as u8),
            (2, 0xff, 0x45, 0x45),
            // Of the bits before a fragment's offset, that more follow.
            (8, 0x3f, 0, 0),
            (9, 0xff, 0, 0),
            (11, 0xff, proto::TCP, proto::UDP),
        ];
        let mut byte = 0;
        while byte < BYTES.len() {
            let (place, bits, tcp, udp) = BYTES[byte];
            (shape[0][at + place], shape[1][at + place], shape[2][at + place]) = (bits, tcp, udp);
            byte += 1;
        }
        if at == BEHIND_SHIM {
            const SHIM: [(usize, u8, u8); 3] = [
                (MACS, 0xff, (ethertype::SHIM >> 8) as u8),
                (MACS + 1, 0xff, ethertype::SHIM as u8),
                (MACS + 3, shim::VERSION_BITS, shim::VERSION << shim::VERSION_BITS.trailing_zeros()),
            ];
            let mut byte = 0;
            while byte < SHIM.len() {
                let (place, bits, value) = SHIM[byte];
                (shape[0][place], shape[1][place], shape[2][place]) = (bits, value, value);
                byte += 1;
            }
        }
        shape
    }

    /// A bit for each byte that comes from somewhere.
    pub const fn some<const N: usize>(from: &[u8; N]) -> u64 {
        let (mut mask, mut byte) = (0, 0);
        while byte < N {
            mask |= ((from[byte] != NOTHING) as u64) << byte;
            byte += 1;
        }
        mask
    }

    /// The places in 16 bytes of a frame from `from` on of what stands at `at` and behind in the front of the headers;
    /// of other bytes a place that VPSHUFB makes 0.
    pub const fn piece(front: &[u8; Headers::FRONT], at: usize, from: usize) -> [u8; 16] {
        let (mut piece, mut byte) = ([NOTHING; 16], 0);
        while byte < piece.len() {
            let place = front[at + byte] as usize;
            if front[at + byte] != NOTHING && place >= from && place < from + piece.len() {
                piece[byte] = (place - from) as u8;
            }
            byte += 1;
        }
        piece
    }

    /// 16 bytes of these from `from` on.
    pub const fn part(bytes: &[u8; 64], from: usize) -> [u8; 16] {
        let (mut part, mut byte) = ([0; 16], 0);
        while byte < part.len() {
            part[byte] = bytes[from + byte];
            byte += 1;
        }
        part
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
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
}

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

    /// What this CPU has of each.
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
