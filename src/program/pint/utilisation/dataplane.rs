//! What a switch does with a packet that leaves by a link: it keeps the link's average utilisation
//! with logarithms and powers of two from tables (appendices B and C), and compresses it into the
//! packet's digest.

use std::sync::Arc;

use super::tables::TABLES;
use crate::pisa::{Salu, Slot};

/// Bits behind the point of a logarithm and of a power's mantissa.
pub const FRACTION: u32 = 16;
/// Each table has 2 to the power of this many entries.
pub const INDEX_BITS: u32 = 10;
/// Bits behind the point of a utilisation: 8 bits stand before it, so it goes up to 256.
pub const UNIT_BITS: u32 = 24;
/// The logarithm of 0: the power of any sum with it is 0.
pub const LOG_OF_ZERO: i32 = -(1 << 28);
/// Bits of a logarithm's fraction with which the table of digests is indexed.
pub const CODE_BITS: u32 = 7;

/// The match-action tables of the arithmetic.
#[derive(Debug)]
pub struct Tables {
    /// Logarithms of numbers that are indices themselves.
    pub(super) small: [i32; 1 << INDEX_BITS],
    /// Logarithms of mantissas, by the bits behind the highest one.
    pub(super) log: [i32; 1 << INDEX_BITS],
    /// Powers of two, by the first bits of the exponent's fraction.
    pub(super) exp: [u32; 1 << INDEX_BITS],
}

impl Tables {
    /// log₂(x) in units of 2⁻¹⁶. A ternary table finds the highest bit.
    #[inline(always)]
    pub fn log2(&self, x: u32) -> i32 {
        match self.small.get(x as usize) {
            Some(&log) => log,
            None => {
                let zeros = x.leading_zeros();
                let index = (x << zeros << 1) >> (u32::BITS - INDEX_BITS);
                (((u32::BITS - 1 - zeros) << FRACTION) as i32) + self.log[index as usize]
            }
        }
    }

    /// 2 to the power of an exponent in units of 2⁻¹⁶, rounded down; at most the largest word.
    #[inline(always)]
    pub fn exp2(&self, exponent: i32) -> u32 {
        const POINT: i32 = FRACTION as i32;
        let index = (exponent as u32) << (u32::BITS - FRACTION) >> (u32::BITS - INDEX_BITS);
        let mantissa = self.exp[index as usize];
        match exponent >> FRACTION {
            ..0 => 0,
            whole @ 0..POINT => mantissa >> (POINT - whole),
            whole @ POINT..32 => mantissa << (whole - POINT),
            32.. => u32::MAX,
        }
    }
}

/// The constants of a link, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// 2²⁴ / (B · T²), for B in bytes a nanosecond and T in nanoseconds, times the bytes that the
    /// packet's unit of a queue stands for.
    pub(super) queue: i32,
    /// 2²⁴ / (B · T).
    pub(super) bytes: i32,
    /// 1 / T.
    pub(super) period: i32,
    /// T itself, in nanoseconds.
    pub(super) whole: u32,
}

/// The PHV as this query sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The egress port.
    pub port: u32,
    /// When the packet leaves the queue.
    pub now_ns: u64,
    /// What waits in the port's queue at that time: bytes, or a share of its room
    /// ([`Utilisation::set_queue_room`](super::Utilisation::set_queue_room)).
    pub queue: u32,
    /// The packet's length on the wire.
    pub bytes: u32,
    /// Nanoseconds since the packet before it left, at most T: τ.
    pub gap: u32,
    /// When that packet left, in ticks, and by how many bits the average is shifted for what fades
    /// ([`shifts`](super::shifts)).
    pub last: u32,
    pub shift: u32,
    /// Whether the larger part of the average fades, so that the part that stays is computed.
    pub keeps: bool,
    /// The logarithm of τ / T, or of (T - τ) / T where the larger part fades.
    pub fade: i32,
    /// What the packet adds to the average, in units of 2⁻²⁴, or of 2⁻⁸ bytes.
    pub added: u32,
    /// The average utilisation with the packet, in the same unit.
    pub utilisation: u32,
}

/// Stage 1: the time at which the last packet left by the port.
#[derive(Clone, Copy, Debug)]
pub struct LastSent {
    /// T, in nanoseconds.
    pub period: u32,
}

impl Salu for LastSent {
    type Phv = Meta;
    type Cell = u64;
    type Out = u32;
    const BEYOND_CHIPS: Option<&'static str> = Some("subtracts times of 64 bits");

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(phv.port)
    }

    #[inline(always)]
    fn rmw(&self, last: u64, phv: &Meta) -> (u64, u32) {
        (phv.now_ns, phv.now_ns.saturating_sub(last).min(self.period.into()) as u32)
    }

    #[inline(always)]
    fn commit(&self, gap: u32, phv: &mut Meta) {
        phv.gap = gap;
    }
}

/// Stages 2 to 5: logarithms, their sums, powers, and the powers' sum (appendix B).
#[inline(always)]
pub fn terms(link: &Link, phv: &mut Meta) {
    let [gap, queue, bytes] = [phv.gap, phv.queue, phv.bytes].map(|x| TABLES.log2(x));
    phv.keeps = phv.gap > link.whole >> 1;
    let rest = TABLES.log2(link.whole.saturating_sub(phv.gap));
    phv.fade = link.period + if phv.keeps { rest } else { gap };
    let queue = TABLES.exp2(queue + gap + link.queue);
    let bytes = TABLES.exp2(bytes + link.bytes);
    phv.added = queue.saturating_add(bytes);
}

/// Stage 6: the average U of the port's utilisation.
///
/// ```text
/// U ← U - 2^(log U + log τ - log T) + added        τ ≤ T / 2
/// U ← 2^(log U + log (T - τ) - log T) + added       else
/// ```
/// Both are (T - τ) / T · U + added, and take the smaller part of U from the tables, so that their
/// error is one of the smaller part. Of short gaps the other form would be wrong by up to a
/// thousandth of U with each packet, where a packet's own share is less than two thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Average;

impl Salu for Average {
    type Phv = Meta;
    type Cell = u32;
    type Out = u32;
    const BEYOND_CHIPS: Option<&'static str> =
        Some("looks up a logarithm and a power of two between the read and the write of a cell");

    #[inline(always)]
    fn slot(&self, phv: &Meta) -> Slot {
        Slot(phv.port)
    }

    #[inline(always)]
    fn rmw(&self, average: u32, phv: &Meta) -> (u32, u32) {
        let part = TABLES.exp2(TABLES.log2(average) + phv.fade);
        let kept = if phv.keeps { part } else { average.saturating_sub(part) };
        let next = kept.saturating_add(phv.added);
        (next, next)
    }

    #[inline(always)]
    fn commit(&self, average: u32, phv: &mut Meta) {
        phv.utilisation = average;
    }
}

/// Digests of utilisations, by the first bits of their logarithms, each with 8 bits behind the
/// point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes(pub(super) Arc<[u16; 32 << CODE_BITS]>);

impl Codes {
    /// Stage 7: the digest of a utilisation. It is rounded up as often as the hash of packets says,
    /// so that the mean over packets is right. All hops round a packet alike, so in stage 8 the
    /// largest digest is that of the largest utilisation.
    #[inline(always)]
    pub fn encode(&self, utilisation: u32, hash: u8) -> u8 {
        // Below one unit there is nothing to tell.
        let log = TABLES.log2(utilisation).max(0) as u32;
        let code = self.0.get((log >> (FRACTION - CODE_BITS)) as usize).map_or(u16::MAX, |&code| code);
        (code.saturating_add(hash.into()) >> 8) as u8
    }
}
