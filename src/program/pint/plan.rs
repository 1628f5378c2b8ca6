//! The execution plan (§3.4): which queries a packet carries, as a probability distribution over
//! sets of queries that fit the global budget together.
//!
//! The paper leaves the plan to be chosen by hand. Here it is the solution of a linear program:
//! each set S of queries that fit together has a weight x ≥ 0, each query's sets weigh at least its
//! share, and the sum T of all weights is to be least. With T ≤ 1 the weights over T are the plan;
//! each query then has its share divided by T. With T > 1 no plan exists. The dual solution names
//! the queries that conflict: their shares alone make T. These shares divided by T are the largest
//! in proportion that can have a plan. Where they have none beside the other queries' shares, all
//! shares divided by T have one. The arithmetic is exact (`plan/cover.rs`).

mod cover;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use cover::{Cover, cover};

/// Maximum number of queries of a plan.
pub const MAX_QUERIES: usize = 8;

/// A share of packets, in 65 536ths: more than 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    const UNITS: u32 = 1 << 16;
    pub const ALL: Self = Self(Self::UNITS);

    /// The least share that is not below `numerator / denominator`; `None` beyond 1, and of
    /// nothing.
    pub fn at_least(numerator: u64, denominator: u64) -> Option<Self> {
        let units = u128::from(numerator) * u128::from(Self::UNITS);
        let units = units.div_ceil(u128::from(denominator).max(1));
        (denominator > 0 && (1..=u128::from(Self::UNITS)).contains(&units)).then_some(Self(units as u32))
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::UNITS)
    }
}

/// `15/16`, `0.9375` or `93.75%`.
impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a share of packets is more than 0, at most 1: write 15/16, 0.9375 or 93.75%";
        let decimal = |text: &str, whole: u64| {
            let (before, behind) = text.split_once('.').unwrap_or((text, ""));
            let digits = format!("{before}{behind}");
            let plain = digits.len() <= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
            Self::at_least(digits.parse().ok().filter(|_| plain)?, whole * 10u64.pow(behind.len() as u32))
        };
        let share = match (text.split_once('/'), text.strip_suffix('%')) {
            (Some((numerator, denominator)), _) => {
                numerator.parse().ok().zip(denominator.parse().ok()).and_then(|(n, d)| Self::at_least(n, d))
            }
            (None, Some(percent)) => decimal(percent, 100),
            (None, None) => decimal(text, 1),
        };
        share.ok_or(WRONG)
    }
}

/// In lowest terms.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let twos = self.0.trailing_zeros().min(Self::UNITS.trailing_zeros());
        match Self::UNITS >> twos {
            1 => write!(f, "{}", self.0 >> twos),
            denominator => write!(f, "{}/{denominator}", self.0 >> twos),
        }
    }
}

/// What a query takes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Bits of a packet that carries it.
    pub bits: u32,
    /// The least share of packets that are to carry it.
    pub share: Share,
}

/// Some of the queries, a bit each in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuerySet(pub u8);

impl QuerySet {
    pub fn contains(self, query: usize) -> bool {
        self.0 >> query & 1 == 1
    }

    /// The queries, by their places.
    pub fn queries(self) -> impl Iterator<Item = usize> {
        (0..MAX_QUERIES).filter(move |query| self.contains(*query))
    }
}

/// A set of queries that packets carry together, and the packets that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    pub set: QuerySet,
    /// Packets whose hash is at most this belong to it, unless to a set before it.
    pub last: u32,
}

/// What packets carry: sets of queries in the order of the hashes that choose them, the most
/// frequent first. The last one's limit is `u32::MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan(pub Vec<Planned>);

/// Demands that no plan meets.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    #[error("a plan has 1 to {MAX_QUERIES} queries")]
    Number,
    #[error("query {} has {bits} bits, packets have {budget} for all", .query + 1)]
    TooLarge { query: usize, bits: u32, budget: u32 },
    /// Queries that cannot all have their shares, and for each of all queries the share that it
    /// would have if those of `reduced` are reduced by one factor, by no more than is needed: these
    /// queries, or where that does not do all.
    #[error(
        "the queries {} conflict: {budget} bits carry all with the frequencies of {} times {factor:.4}, \
         that is {}",
        listed(.conflicting),
        listed(.reduced),
        fits.iter().map(Share::to_string).collect::<Vec<_>>().join(", ")
    )]
    Conflict { conflicting: QuerySet, reduced: QuerySet, budget: u32, factor: f64, fits: Vec<Share> },
}

/// Numbers of queries as people count them.
fn listed(queries: &QuerySet) -> String {
    queries.queries().map(|query| (query + 1).to_string()).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// The plan for queries on packets with `budget` bits. Each query has at least its share of
    /// packets, up to 2⁻³² for the hash's resolution; what is left is given to all queries in
    /// proportion.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(demands: &[Demand], budget: u32) -> Result<Self, PlanError> {
        if !(1..=MAX_QUERIES).contains(&demands.len()) {
            return Err(PlanError::Number);
        }
        if let Some((query, demand)) = demands.iter().enumerate().find(|(_, demand)| demand.bits > budget) {
            return Err(PlanError::TooLarge { query, bits: demand.bits, budget });
        }
        let sets = maximal_sets(demands, budget);
        let shares: Vec<_> = demands.iter().map(|demand| i128::from(demand.share.0)).collect();
        let Cover { weights, prices, total, denominator } = cover(&sets, &shares);
        let whole = i128::from(Share::UNITS) * denominator;
        if total > whole {
            let priced = prices.iter().enumerate().filter(|(_, price)| **price > 0);
            let conflicting = QuerySet(priced.fold(0, |set, (query, _)| set | 1 << query));
            let fit = |reduced: QuerySet| -> Vec<_> {
                let fit = |share: i128| (share * whole / total).max(1);
                let shares = shares.iter().enumerate();
                shares.map(|(query, share)| if reduced.contains(query) { fit(*share) } else { *share }).collect()
            };
            let all = QuerySet((0..demands.len()).fold(0, |set, query| set | 1 << query));
            let has_plan = |shares: &[i128]| {
                let Cover { total, denominator, .. } = cover(&sets, shares);
                total <= i128::from(Share::UNITS) * denominator
            };
            let reduced = if has_plan(&fit(conflicting)) { conflicting } else { all };
            let fits = fit(reduced).into_iter().map(|share| Share(share as u32)).collect();
            let factor = whole as f64 / total as f64;
            return Err(PlanError::Conflict { conflicting, reduced, budget, factor, fits });
        }
        let mut weighted: Vec<_> = sets.into_iter().zip(weights).filter(|(_, weight)| *weight > 0).collect();
        weighted.sort_by_key(|(set, weight)| (std::cmp::Reverse(*weight), *set));
        let mut sum = 0;
        let planned = weighted.into_iter().filter_map(|(set, weight)| {
            let before = (sum << 32) / total;
            sum += weight;
            let end = (sum << 32) / total;
            (end > before).then(|| Planned { set, last: (end - 1) as u32 })
        });
        Ok(Self(planned.collect()))
    }

    /// The set of a packet with this hash.
    pub fn set(&self, hash: u32) -> QuerySet {
        self.0.iter().find(|planned| hash <= planned.last).map_or(QuerySet(0), |planned| planned.set)
    }

    /// The sets with their shares of packets.
    pub fn shares(&self) -> impl Iterator<Item = (QuerySet, f64)> {
        let ends = self.0.iter().map(|planned| u64::from(planned.last) + 1);
        let begins = std::iter::once(0).chain(ends.clone());
        let share = |(begin, end): (u64, u64)| (end - begin) as f64 / 2f64.powi(32);
        self.0.iter().map(|planned| planned.set).zip(begins.zip(ends).map(share))
    }
}

/// The sets of queries that fit together and to which no other query can be added.
fn maximal_sets(demands: &[Demand], budget: u32) -> Vec<QuerySet> {
    let bits = |set: QuerySet| set.queries().filter_map(|query| demands.get(query)).map(|d| d.bits).sum::<u32>();
    let is_maximal = |set: &QuerySet| {
        let room = budget.checked_sub(bits(*set));
        let others = (0..demands.len()).filter(|query| !set.contains(*query));
        room.is_some_and(|room| others.into_iter().all(|query| demands[query].bits > room))
    };
    (1..1u16 << demands.len()).map(|set| QuerySet(set as u8)).filter(is_maximal).collect()
}
