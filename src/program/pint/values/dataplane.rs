//! What a switch does with a packet that carries a value: it looks the code of its own value up, and
//! writes it, compares it with the digest, or adds it. It has no register.

use std::hint::select_unpredictable;

use super::Aggregation;
use super::clock::Clock;
use super::numbers::Numbers;
use crate::pisa::hash::{Addends, Global};
use crate::program::pint::compress::Compression;
use crate::program::pint::dataplane::{MAX_HOPS, Measured};
use crate::program::pint::query::{Query, Value};
use crate::program::pint::utilisation::Scale;
use crate::program::pint::utilisation::dataplane::Codes as UtilisationCodes;

/// How a value stands in a few bits.
#[derive(Clone, Debug, PartialEq)]
pub enum Codes {
    Times(Compression),
    Utilisations(UtilisationCodes, Scale),
    /// Of averages that are kept by shifts.
    Volumes(Compression, Scale),
    Numbers(Numbers),
    Clock(Clock),
}

impl Codes {
    /// The code of a value, rounded as the bits of `random` say.
    #[inline(always)]
    pub fn encode(&self, value: u64, random: u32) -> u16 {
        match self {
            Self::Times(codes) | Self::Volumes(codes, _) => codes.compress(value as u32, random) as u16,
            Self::Utilisations(codes, _) => codes.encode(value as u32, (random >> 24) as u8).into(),
            Self::Numbers(codes) => codes.encode(value, random),
            Self::Clock(codes) => codes.encode(value, random),
        }
    }
}

impl Measured {
    /// The value of a packet at this switch.
    #[inline(always)]
    pub fn value(&self, of: Value) -> u64 {
        match of {
            Value::Latency => self.latency_ns.into(),
            Value::Utilisation => self.utilisation.into(),
            Value::IngressPort => self.ingress.into(),
            Value::EgressPort => self.egress.into(),
            Value::IngressTime => self.ingress_ns,
            Value::Queue => self.queue_packets.into(),
            Value::Congestion => self.queue_used.into(),
            // They have codes of their own.
            Value::Path | Value::Loops => 0,
        }
    }
}

/// One instance of the code of one or several queries for a value. Instances stand side by side in
/// the digest, and share no hash.
#[derive(Debug)]
pub struct ValueCode {
    /// As [switches know it](Query::code).
    pub query: Query,
    /// The number of the instance, from 0.
    pub(in crate::program::pint) instance: usize,
    pub(super) codes: Codes,
    /// The largest hash with which a hop acts, by hop.
    pub(in crate::program::pint) limits: [u32; MAX_HOPS + 1],
    pub(in crate::program::pint) acts: Global,
    pub(in crate::program::pint) rounds: Global,
    /// The hops as second arguments of both hashes; number 0 of `rounds` stands for all of them.
    pub(in crate::program::pint) hops: [[Addends; 2]; MAX_HOPS + 1],
}

impl ValueCode {
    /// The query's bits behind a hop with this value. Behind more than [`MAX_HOPS`] the number of
    /// the hop is not known, and they stay.
    #[inline(always)]
    pub fn encode(&self, hop: u8, identity: u32, value: u64, before: u16) -> u16 {
        let hop = usize::from(hop);
        let Some(limit) = self.limits.get(hop) else { return before };
        match self.query.aggregation {
            Aggregation::Quantiles | Aggregation::Frequent => {
                // Whether the hop acts is not to be predicted.
                let own = self.codes.encode(value, self.rounding(identity));
                select_unpredictable(self.acts_hash(identity, hop) <= *limit, own, before)
            }
            _ => self.aggregate((hop, identity), value, self.rounding(identity), before),
        }
    }

    /// The query's bits behind a hop that writes its own value.
    #[inline(always)]
    pub(in crate::program::pint) fn own(&self, value: u64, rounding: u32) -> u16 {
        self.codes.encode(value, rounding)
    }

    /// The query's bits behind a hop, up to [`MAX_HOPS`], of one aggregated over the way.
    #[inline(always)]
    pub(in crate::program::pint) fn aggregate(
        &self,
        (hop, identity): (usize, u32),
        value: u64,
        rounding: u32,
        before: u16,
    ) -> u16 {
        let own = |value| self.codes.encode(value, rounding);
        match self.query.aggregation {
            Aggregation::Quantiles | Aggregation::Frequent => before,
            Aggregation::Max => own(value).max(before),
            Aggregation::Min if hop == 1 => own(value),
            Aggregation::Min => own(value).min(before),
            Aggregation::Sum => {
                let sum = match &self.codes {
                    Codes::Numbers(codes) => codes.expand(before).saturating_add(value),
                    _ => value,
                };
                let argument = self.hops.get(hop).map_or(Addends::default(), |[_, rounds]| *rounds);
                self.codes.encode(sum, self.rounds.join(identity, argument))
            }
        }
    }

    /// The hash by which all hops of a packet round.
    #[inline(always)]
    pub fn rounding(&self, identity: u32) -> u32 {
        self.rounds.inner(identity, self.hops[0][1])
    }

    /// The hash that says whether a hop acts: if it is no larger than the hop's limit.
    #[inline(always)]
    pub fn acts_hash(&self, identity: u32, hop: usize) -> u32 {
        self.acts.join(identity, self.argument(hop))
    }

    /// The hop as second argument of that hash.
    #[inline(always)]
    pub(in crate::program::pint) fn argument(&self, hop: usize) -> Addends {
        self.hops.get(hop).map_or(Addends::default(), |[acts, _]| *acts)
    }

    #[inline(always)]
    pub(super) fn acts_at(&self, identity: u32, hop: usize) -> bool {
        self.limits.get(hop).is_some_and(|limit| self.acts_hash(identity, hop) <= *limit)
    }
}
