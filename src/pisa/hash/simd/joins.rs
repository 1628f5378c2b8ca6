//! Hashes of one packet with many arguments, or of many packets with one each, sixteen or more at once.

mod affine;
mod planes;

use affine::AffineJoins;
use planes::PlaneJoins;

use crate::pisa::hash::Polynomial;
use crate::pisa::hash::many::{Sixteen, Wanted};

/// Two CRCs of 32-bit words, chained as [`Global`](crate::pisa::hash::Global) has it, in the form for this
/// CPU.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there are few, and they hold constants that a burst reads at once")]
pub enum Joins {
    Affine(AffineJoins),
    Planes(PlaneJoins),
}

impl Joins {
    /// Of the inner CRC's polynomial and the outer one's. `None` where the CPU hashes packets one by one.
    pub fn new(polynomials: [Polynomial; 2]) -> Option<Self> {
        AffineJoins::new(polynomials).map(Self::Affine).or_else(|| Self::without_affine(polynomials))
    }

    /// As [`Self::new`], without AVX-512 and GFNI.
    pub fn without_affine(polynomials: [Polynomial; 2]) -> Option<Self> {
        PlaneJoins::new(polynomials).map(Self::Planes)
    }

    /// The fewest hashes that take less time together than one by one.
    pub fn least(&self) -> usize {
        match self {
            Self::Affine(_) => 1,
            Self::Planes(_) => 8,
        }
    }

    /// The hashes of one packet with many arguments.
    pub fn hashes(&self, packet: u32, arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        match self {
            Self::Affine(joins) => joins.hashes(packet, arguments, out),
            Self::Planes(joins) => joins.hashes(packet, arguments, out),
        }
    }

    /// Keeps the bits of `among` whose hashes are wanted; of a word without any nothing is computed.
    pub fn select(&self, packet: u32, arguments: &[[Sixteen; 2]], wanted: &Wanted, among: &mut [u64]) {
        match self {
            Self::Affine(joins) => joins.select(packet, arguments, wanted, among),
            Self::Planes(joins) => joins.select(packet, arguments, wanted, among),
        }
    }

    /// A bit for each of up to 64 hashes that is no larger than its limit.
    pub fn at_most(&self, packet: u32, arguments: &[[Sixteen; 2]], limits: &[Sixteen]) -> u64 {
        match self {
            Self::Affine(joins) => joins.at_most(packet, arguments, limits),
            Self::Planes(joins) => joins.at_most(packet, arguments, limits),
        }
    }

    /// The hashes of many packets with one argument.
    #[inline(always)]
    pub fn of_packets(&self, packets: &[Sixteen], argument: [u32; 2], out: &mut [Sixteen]) {
        match self {
            Self::Affine(joins) => joins.of_packets(packets, argument, out),
            Self::Planes(joins) => joins.of_packets(packets, argument, out),
        }
    }

    /// A bit for each of up to 64 packets whose hash with an argument is no larger than the limit.
    #[inline(always)]
    pub fn packets_at_most(&self, packets: &[Sixteen], argument: [u32; 2], limit: u32) -> u64 {
        match self {
            Self::Affine(joins) => joins.packets_at_most(packets, argument, limit),
            Self::Planes(joins) => joins.packets_at_most(packets, argument, limit),
        }
    }

    /// The hashes of many packets, each with an argument of its own.
    #[inline(always)]
    pub fn of_pairs(&self, packets: &[Sixteen], arguments: &[[Sixteen; 2]], out: &mut [Sixteen]) {
        match self {
            Self::Affine(joins) => joins.of_pairs(packets, arguments, out),
            Self::Planes(joins) => joins.of_pairs(packets, arguments, out),
        }
    }

    /// The inner CRCs of many packets with one argument.
    #[inline(always)]
    pub fn inner_of_packets(&self, packets: &[Sixteen], argument: u32, out: &mut [Sixteen]) {
        match self {
            Self::Affine(joins) => joins.inner_of_packets(packets, argument, out),
            Self::Planes(joins) => joins.inner_of_packets(packets, argument, out),
        }
    }
}
