//! The utilisation of the busiest link on a packet's way, on up to 8 bits of the packet, for HPCC
//! (§3.2, §4.3 example 3, appendices B and C).
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
//! A switch ([`ports`]) takes one B and one T for all its ports ([`link`]). Its `qlen` is what its
//! driver knows of the link: in a simulated network with rates the bytes that wait for it, else 0.
//!
//! *Guarantee:* What a packet adds to U, and the smaller of what fades of U and what stays, is taken
//! at most 0.15 % wrong. A digest is at most one step of its scale from U, and right on average ([`code`], `tests.rs`).
//!
//! *Memory:* 96 bits a port; tables of 1024 to 4096 entries, which `weir budget` counts.
//!
//! *Deviations:*
//! - After short gaps the part of U that τ takes away is computed, and not the part that stays
//!   ([`dataplane::Average`] says why).
//! - The stateful ALU of U's register looks up two tables within its read-modify-write, and that of
//!   the last time subtracts 64 bits. No chip does that, so the query fits the target `software`
//!   alone. The paper proposes copies of the register and recirculation (§5).
//! - Table entries stand for the middle of what they are looked up with, which halves the error.
//!
//! [`shifts`] is a second form of the same average, of integers alone, for switches without logarithms.

pub mod code;
pub mod dataplane;
pub mod filter;
pub mod link;
pub mod ports;
mod registers;
pub mod shifts;
mod tables;
#[cfg(test)]
mod tests;

pub use code::{Compression, SMALLEST, Scale};

use dataplane::{Average, CODE_BITS, FRACTION, INDEX_BITS, LOG_OF_ZERO, LastSent, Link, Meta, UNIT_BITS, terms};
use registers::{AverageRegisters, Memory};

use crate::pisa::{Computation, LookupUse, Pipeline, Probe, StageUse};
use crate::program::pint::replica::usage::ROUNDING;

impl Link {
    /// A link of `bytes_per_second`, averaged over `period_ns`; both at least 1.
    pub fn new(bytes_per_second: u64, period_ns: u32) -> Self {
        let whole = period_ns.max(1);
        let period = f64::from(whole).log2();
        let volume = (bytes_per_second.max(1) as f64 * 1e-9).log2() + period;
        let unit = f64::from(UNIT_BITS);
        Self { queue: fixed(unit - volume - period), bytes: fixed(unit - volume), period: fixed(-period), whole }
    }
}

/// A logarithm as the registers have it.
fn fixed(log: f64) -> i32 {
    (log * f64::from(1 << FRACTION)).round() as i32
}

/// A table of numbers: bits of its key and of an entry.
fn table(name: &'static str, key_bits: u32, action_bits: u32) -> LookupUse {
    LookupUse { name, entries: 1 << key_bits, key_bits, action_bits }
}

/// The tables that one logarithm is looked up in.
fn logarithm() -> [LookupUse; 2] {
    let bits = FRACTION + u32::BITS.ilog2();
    [table("logarithms of small numbers", INDEX_BITS, bits), table("logarithms of mantissas", INDEX_BITS, FRACTION)]
}

/// The registers of a switch, and the stages that use them.
#[derive(Debug)]
pub struct Utilisation {
    registers: AverageRegisters<LastSent, Average>,
    links: Box<[Link]>,
    /// The logarithm of the bytes that a packet's unit of a queue stands for.
    queue_unit: i32,
}

impl Utilisation {
    /// `links` holds the bytes per second of each port's link, by port. `period_ns` is HPCC's T,
    /// the longest round-trip time of a network without queues.
    pub fn new(links: &[u64], period_ns: u32) -> Self {
        let mut utilisation = Self::planned(links, period_ns);
        utilisation.allocate();
        utilisation
    }

    /// The same without memory for registers. Until [`Self::allocate`] takes it, utilisations are 0.
    pub fn planned(links: &[u64], period_ns: u32) -> Self {
        Self {
            registers: AverageRegisters::planned(LastSent { period: period_ns.max(1) }, Average, links.len() as u32),
            links: links.iter().map(|rate| Link::new(*rate, period_ns)).collect(),
            queue_unit: 0,
        }
    }

    /// From now on [`Meta::queue`] is the share of a queue's room, in units of 2⁻¹⁶, that packets
    /// take; of no room it is nothing. Before, it is a number of bytes. The product is a sum of
    /// logarithms, as all others are, and this part of it a constant.
    pub fn set_queue_room(&mut self, bytes: u64) {
        let unit = if bytes == 0 { LOG_OF_ZERO } else { fixed((bytes as f64).log2() - f64::from(u16::BITS)) };
        self.links.iter_mut().for_each(|link| link.queue += unit - self.queue_unit);
        self.queue_unit = unit;
    }

    /// Takes zeroed registers.
    pub fn allocate(&mut self) {
        self.registers.allocate();
    }

    /// Zeroed registers for [`Self::copy_to`].
    fn zeroed(&self) -> Memory<u64> {
        self.registers.zeroed()
    }

    /// Copies the registers.
    fn copy_to(&self, memory: &mut Memory<u64>) {
        self.registers.copy_to(memory);
    }

    /// Takes a packet that leaves through stages 1 to 6. A port without a link changes nothing.
    #[inline(always)]
    pub fn packet(&mut self, phv: &mut Meta) {
        let Some(link) = self.links.get(phv.port as usize) else { return };
        self.registers.last.packet(phv);
        terms(link, phv);
        self.registers.average.packet(phv);
    }

    /// Takes one packet through as [`Self::packet`] does, and tells of each access to a register.
    pub fn trace(&mut self, phv: &mut Meta, probe: &mut dyn Probe) {
        let Some(link) = self.links.get(phv.port as usize) else { return };
        self.registers.last.trace(phv, probe);
        terms(link, phv);
        self.registers.average.trace(phv, probe);
    }

    /// What the eight stages use. The hash that rounds is computed beside them, and needed by the
    /// seventh. A table is looked into once a packet, so each number that is looked up has its own.
    pub fn usage(&self) -> Vec<StageUse> {
        let tables = |computed: &[Computation]| {
            let lookups = |computation: &Computation| match computation {
                Computation::Logarithm => logarithm().to_vec(),
                Computation::Power => vec![table("powers of two", INDEX_BITS, FRACTION + 1)],
                Computation::Code => vec![table("codes of U", 5 + CODE_BITS, u16::BITS)],
                Computation::Draw => Vec::new(),
            };
            let computes = computed.to_vec();
            StageUse { lookups: computes.iter().flat_map(lookups).collect(), computes, ..StageUse::default() }
        };
        let (log, exp, code) = (Computation::Logarithm, Computation::Power, Computation::Code);
        vec![
            StageUse::of(vec![self.registers.last.0.usage()]),
            // Of the gap, the queue, the bytes, and what the gap leaves of T.
            tables(&[log, log, log, log]),
            StageUse::default(),
            // Of the queue's and the bytes' share.
            tables(&[exp, exp]),
            StageUse::default(),
            StageUse { arrays: vec![self.registers.average.0.usage()], ..tables(&[log, exp]) },
            tables(&[log, code]).behind(&[ROUNDING]),
            StageUse::default(),
        ]
    }
}
