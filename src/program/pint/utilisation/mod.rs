//! The utilisation of the busiest link on a packet's way, on 8 bits of the packet, for HPCC (§3.2,
//! §4.3 example 3, appendices B and C).
//!
//! Each switch keeps for each link an average of its utilisation over the base round-trip time T:
//!
//! ```text
//! U ← (T - τ) / T · U + qlen · τ / (B · T²) + byte / (B · T)
//! ```
//! B is the link's bandwidth, τ the time since the packet before, `qlen` the queue at the time the
//! packet leaves it, `byte` the packet's length. Products and quotients are sums of logarithms.
//! U takes six stages; a seventh compresses it, and an eighth keeps the maximum in the digest.
//!
//! *Guarantee:* What a packet adds to U, and what fades of U, is taken at most 0.15 % wrong. A
//! digest of 8 bits with ε = 0.025 is within (1 + ε)² · 1.003 of U, and right on average, from
//! 1/512 to 256 (`tests.rs`).
//!
//! *Memory:* 96 bits a port; four tables of 1024 to 4096 entries for the whole switch.
//!
//! *Deviations:*
//! - The part of U that τ takes away is computed, and not the part that stays
//!   ([`dataplane::Average`] says why).
//! - The ALU of U's register looks two tables up within its read-modify-write, which hardware of
//!   today cannot. The paper sees this and proposes copies of the register and recirculation (§5).
//! - Table entries stand for the middle of what they are looked up with, which halves the error.

pub mod dataplane;
mod tables;
#[cfg(test)]
mod tests;

use dataplane::{Average, CODE_BITS, Codes, FRACTION, LastSent, Link, Meta, UNIT_BITS, terms};

use crate::pisa::hash::{Addends, Global, HashFamily};
use crate::pisa::{Array, HashUse, Pipeline, Stage, StageUse};

/// The utilisation of digest 0: HPCC's scale, 1/512.
pub const SMALLEST: f64 = 1.0 / 512.0;

impl Link {
    /// A link of `bytes_per_second`, averaged over `period_ns`; both at least 1.
    pub fn new(bytes_per_second: u64, period_ns: u32) -> Self {
        let whole = period_ns.max(1);
        let period = f64::from(whole).log2();
        let volume = (bytes_per_second.max(1) as f64 * 1e-9).log2() + period;
        let fixed = |log: f64| (log * f64::from(1 << FRACTION)).round() as i32;
        let unit = f64::from(UNIT_BITS);
        Self { queue: fixed(unit - volume - period), bytes: fixed(unit - volume), period: fixed(-period), whole }
    }
}

/// The registers of a switch, a cell for each port, and the stages that use them.
#[derive(Debug)]
pub struct Utilisation {
    last: Stage<Array<LastSent>>,
    links: Box<[Link]>,
    average: Stage<Array<Average>>,
}

impl Utilisation {
    /// `links` holds the bytes per second of each port's link, by port. `period_ns` is HPCC's T,
    /// the longest round-trip time of a network without queues.
    pub fn new(links: &[u64], period_ns: u32) -> Self {
        let cells = links.len() as u32;
        Self {
            last: Stage(Array::new("last sent", LastSent { period: period_ns.max(1) }, cells)),
            links: links.iter().map(|rate| Link::new(*rate, period_ns)).collect(),
            average: Stage(Array::new("utilisation", Average, cells)),
        }
    }

    /// Takes a packet that leaves through stages 1 to 6. A port without a link changes nothing.
    #[inline(always)]
    pub fn packet(&mut self, phv: &mut Meta) {
        let Some(link) = self.links.get(phv.port as usize) else { return };
        self.last.packet(phv);
        terms(link, phv);
        self.average.packet(phv);
    }

    /// What the eight stages use. The hash that rounds is computed beside them.
    pub fn usage(&self) -> Vec<StageUse> {
        let hash = |name, added| vec![HashUse { name, bits: 32, added }];
        vec![
            StageUse { arrays: vec![self.last.0.usage()], hashes: hash("packet for rounding", false) },
            StageUse::hashing(hash("rounding, first", true)),
            StageUse::hashing(hash("rounding", true)),
            StageUse::default(),
            StageUse::default(),
            StageUse::of(vec![self.average.0.usage()]),
            StageUse::default(),
            StageUse::default(),
        ]
    }
}

/// Digests of utilisations: multiplicative compression with randomised rounding.
#[derive(Debug)]
pub struct Compression {
    pub codes: Codes,
    /// Base of the digests' logarithm, (1 + ε)².
    base: f64,
    rounding: Global,
    argument: Addends,
}

impl Compression {
    /// Digests of 1 to 8 bits. Above the largest one they stay there.
    pub fn new(bits: u32, epsilon: f64, family: &HashFamily) -> Self {
        let base = (1.0 + epsilon.max(1e-3)).powi(2);
        let largest = f64::from((1u32 << bits.clamp(1, u8::BITS)) - 1);
        let first = f64::from(UNIT_BITS) + SMALLEST.log2();
        let code = |index: usize| {
            let log = (index as f64 + 0.5) / f64::from(1 << CODE_BITS);
            (256.0 * ((log - first) / base.log2()).clamp(0.0, largest)).round() as u16
        };
        let rounding = Global::new([0, 1, 2, 3].map(|index| family.derive("pint/rounding", index)));
        let argument = rounding.argument(&[0; 4]);
        Self { codes: Codes(Box::new(std::array::from_fn(code))), base, rounding, argument }
    }

    /// The hash of a packet by which all switches round its digest.
    #[inline(always)]
    pub fn hash(&self, identity: u32) -> u8 {
        (self.rounding.join(self.rounding.packet(&identity.to_be_bytes()), self.argument) >> 24) as u8
    }

    /// The utilisation that a digest stands for.
    pub fn decode(&self, digest: u8) -> f64 {
        SMALLEST * self.base.powi(digest.into())
    }
}
