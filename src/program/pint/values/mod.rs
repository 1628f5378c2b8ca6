//! The values of switches (Table 1) that packets carry as codes, and how these come together.
//!
//! ```text
//! quantiles, frequent   g(packet, hop) < 1 / hop: the digest is the code of the hop's own value
//! max, min              every hop: the larger, or the smaller, code of its own value and the digest
//! sum                   every hop: the code of the number that the digest stands for and its own
//! ```
//! The first two are dynamic per flow: a packet tells of one hop, drawn uniformly. With several
//! instances it tells of as many hops, each drawn and rounded by hashes of the instance's own, and the
//! same hop may be drawn twice (§4.1, footnote 7). The others are per packet: a packet tells of its
//! whole way. All round by hashes of the packet. All hops have the same one, so that the largest code
//! is that of the largest value, except for sums: these are rounded anew by each hop (randomised
//! counting, §4.3), so that they are right on average, whatever the number of hops.

pub mod clock;
pub mod dataplane;
pub mod numbers;

use clock::Clock;
use dataplane::{Codes, ValueCode};
use numbers::Numbers;

use super::compress::{Approximation, Compression, Range};
use super::encoding::{DIGEST_BITS, reservoir};
use super::hashes;
use super::plan::MAX_QUERIES;
use super::query::{Query, Value};
use super::utilisation::filter::Filter;
use super::utilisation::{Scale, shifts};
use crate::answers::ValueUnit;
use crate::pisa::hash::{Global, HashFamily};
use crate::text::named;

named! {
    /// How the values of hops or packets come together (§3.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Aggregation {
        /// Per hop of a flow, the quantiles.
        Quantiles = "quantiles",
        /// Per hop of a flow, the values that are frequent.
        Frequent = "frequent",
        /// Per packet, over its hops.
        Max = "max",
        Min = "min",
        Sum = "sum",
    }
}

impl Aggregation {
    /// A packet tells of one hop.
    #[inline(always)]
    pub fn is_of_hops(self) -> bool {
        matches!(self, Self::Quantiles | Self::Frequent)
    }
}

/// The share of a queue's room that is all of it.
const FULL_BITS: u32 = 16;

/// Most codes of a plan, with all instances.
pub const MAX_CODES: usize = MAX_QUERIES * DIGEST_BITS as usize;

/// Bits of the exponent of multiplicative codes of a share of a queue's room: such a code says how
/// large the number is within seven doublings, and is in equal steps below.
pub const SHARE_EXPONENT_BITS: u32 = 3;

impl Value {
    /// The aggregations that there are of it, the usual one first; none where the value is one.
    pub fn aggregations(self) -> &'static [Aggregation] {
        use Aggregation::{Frequent, Max, Min, Quantiles, Sum};
        match self {
            Self::Path | Self::Loops => &[],
            Self::Latency => &[Quantiles, Max, Min, Sum],
            Self::Utilisation => &[Max, Min, Quantiles],
            Self::IngressPort | Self::EgressPort => &[Frequent],
            Self::IngressTime => &[Quantiles],
            Self::Queue => &[Quantiles, Frequent, Max, Min, Sum],
            Self::Congestion => &[Quantiles, Max, Min],
        }
    }

    /// What its numbers count; `None` of values that are no numbers.
    pub fn unit(self) -> Option<ValueUnit> {
        Some(match self {
            Self::Path | Self::Loops => return None,
            Self::Latency | Self::IngressTime => ValueUnit::Ns,
            Self::IngressPort | Self::EgressPort => ValueUnit::Port,
            Self::Queue => ValueUnit::Packets,
            Self::Utilisation | Self::Congestion => ValueUnit::Share,
        })
    }

    /// How its codes approximate numbers where the query does not say; `None` where it cannot.
    pub fn compression(self) -> Option<Approximation> {
        match self {
            Self::Latency | Self::Queue => Some(Approximation::Multiplicative),
            Self::Congestion => Some(Approximation::Additive),
            _ => None,
        }
    }

    /// The numbers that its codes tell apart where the query does not say, in the value's own unit.
    pub fn range(self) -> Range {
        match self {
            Self::IngressTime => Range { from: 1, to: 100_000_000 },
            Self::Queue => Range { from: 1, to: 2048 },
            _ => Range::default(),
        }
    }
}

impl Codes {
    /// Of a query that has some.
    pub fn new(query: &Query) -> Option<Self> {
        let Query { bits, range, compression, .. } = *query;
        let is_additive = compression == Approximation::Additive;
        Some(match (query.value, query.aggregation) {
            (Value::Path | Value::Loops, _) => return None,
            (Value::Latency | Value::Queue, _) if is_additive => Self::Numbers(Numbers::additive(bits, range)),
            (Value::Latency | Value::Queue, Aggregation::Sum) | (Value::Queue, _) => {
                Self::Numbers(Numbers::new(bits, range))
            }
            (Value::Latency, _) => Self::Times(Compression::new(bits, range)),
            (Value::Utilisation, _) => {
                let scale = Scale::new(bits);
                match query.links.filter {
                    Filter::Logarithms => Self::Utilisations(scale.codes(), scale),
                    Filter::Shifts => Self::Volumes(query.links.codes(bits, shifts::BYTE_BITS), scale),
                }
            }
            (Value::IngressPort | Value::EgressPort, _) => Self::Numbers(Numbers::new(bits, Range { from: 1, to: 1 })),
            (Value::Congestion, _) if !is_additive => Self::Numbers(Numbers::new(bits, doubling_share(bits))),
            (Value::Congestion, _) => {
                let from = 1 << FULL_BITS.saturating_sub(bits);
                Self::Numbers(Numbers::new(bits, Range { from, to: (1 << FULL_BITS) - from }))
            }
            (Value::IngressTime, _) => Self::Clock(Clock::new(bits, range.to)),
        })
    }

    /// The number that a code stands for, in the unit that answers have.
    pub fn number(&self, value: Value, code: u16) -> f64 {
        match self {
            Self::Times(codes) => codes.expand(code.into()) as f64,
            Self::Utilisations(_, scale) | Self::Volumes(_, scale) => scale.decode(code as u8),
            Self::Numbers(codes) if value == Value::Congestion => {
                codes.expand(code) as f64 / f64::from(1u32 << FULL_BITS)
            }
            Self::Numbers(codes) => codes.expand(code) as f64,
            Self::Clock(clock) => clock.age_ns(code) as f64,
        }
    }

    /// The number of the last code, which numbers beyond it have as well; `None` of points in time,
    /// of which none is beyond.
    pub fn largest(&self, value: Value) -> Option<f64> {
        match self {
            Self::Times(codes) => Some(codes.largest() as f64),
            Self::Utilisations(_, scale) | Self::Volumes(_, scale) => Some(scale.largest()),
            // Codes past the last one stand for the same number.
            Self::Numbers(_) => Some(self.number(value, u16::MAX)),
            Self::Clock(_) => None,
        }
    }

    /// By how much a number is off at most, in the unit that answers have, and by which factor:
    /// whichever is more.
    pub fn errors(&self, value: Value) -> (f64, f64) {
        match self {
            Self::Times(codes) => (0.0, codes.error_factor()),
            Self::Utilisations(_, scale) => (0.0, scale.error_factor()),
            Self::Volumes(codes, _) => (0.0, codes.error_factor() * shifts::ERROR),
            Self::Numbers(codes) if value == Value::Congestion => {
                (codes.error() as f64 / f64::from(1u32 << FULL_BITS), codes.error_factor())
            }
            Self::Numbers(codes) => (codes.error() as f64, codes.error_factor()),
            Self::Clock(clock) => (clock.error_ns() as f64, 1.0),
        }
    }

    /// The same of a number that was rounded so often, each time with what there was before.
    ///
    /// With r roundings that are off by e and by the factor f, a number x becomes (x + r e) fʳ at
    /// most. Twice the larger part of that is no less than both together.
    pub fn errors_of(&self, value: Value, roundings: u8) -> (f64, f64) {
        let (error, factor) = self.errors(value);
        if roundings <= 1 {
            return (error, factor);
        }
        let all = factor.powi(roundings.into());
        (2.0 * f64::from(roundings) * error * all, 1.0 + 2.0 * (all - 1.0))
    }

    /// What a packet's code tells that left the network at this time: the code, or how long it was
    /// before.
    pub fn sample(&self, code: u16, time_ns: u64) -> u16 {
        match self {
            Self::Clock(clock) => clock.age(code, time_ns),
            _ => code,
        }
    }
}

/// The numbers that multiplicative codes of a share tell apart: from the smallest step with which the
/// longest mantissa comes as near to the whole as a code with [`SHARE_EXPONENT_BITS`] can.
fn doubling_share(bits: u32) -> Range {
    // The last exponent stands for a half and more.
    let doublings = (1 << SHARE_EXPONENT_BITS) - 2;
    let mantissa = bits.saturating_sub(SHARE_EXPONENT_BITS);
    let unit = FULL_BITS.saturating_sub(1 + mantissa + doublings);
    Range { from: 1 << unit, to: ((2 << mantissa) - 1) << (unit + doublings) }
}

impl ValueCode {
    /// The first instance of a query whose value packets carry as a code.
    pub fn new(query: &Query, family: &HashFamily) -> Option<Self> {
        Some(Self::instance(query, 0, Codes::new(query)?, family))
    }

    /// All instances of a query; none where its value has no code.
    pub fn all(query: &Query, family: &HashFamily) -> Vec<Self> {
        let Some(codes) = Codes::new(query) else { return Vec::new() };
        let instance = |number| Self::instance(query, number, codes.clone(), family);
        (0..query.instances as usize).map(instance).collect()
    }

    fn instance(query: &Query, instance: usize, codes: Codes, family: &HashFamily) -> Self {
        let query = query.code();
        let layouts = [hashes::code(query.value, instance as u32), hashes::rounding(instance as u32)];
        let [acts, rounds] = layouts.map(|layout| Global::of(&layout, family));
        // No hop is number 0, so its argument is free for what all hops have in common.
        let argument = |hop: usize| [&acts, &rounds].map(|hash| hash.argument(&(hop as u32).to_be_bytes()));
        let hops = std::array::from_fn(argument);
        Self { query, instance, codes, limits: reservoir(), hops, acts, rounds }
    }

    /// The hop whose value a packet holds behind a path of `length` switches.
    pub fn writer(&self, identity: u32, length: usize) -> Option<usize> {
        (1..=length).rev().find(|hop| self.acts_at(identity, *hop))
    }

    pub fn codes(&self) -> &Codes {
        &self.codes
    }
}

impl PartialEq for ValueCode {
    fn eq(&self, other: &Self) -> bool {
        (self.query, self.instance) == (other.query, other.instance)
    }
}
