//! What a controller tells all switches of its network, each time from an epoch on: the queries, and
//! what their plan and their codes follow from.

use super::dataplane::Scheme;
use super::encoding::DIGEST_BITS;
use super::plan::{Demand, MAX_QUERIES, Plan, PlanError, QuerySet, Share};
use super::query::{Queries, Query, Value};
use super::{Config, Pint};
use crate::history::Described;
use crate::pisa::hash::{HashFamily, INIT, Polynomial, XOROUT, bitwise};
use crate::program::bytes::{Reader, Writer};
use crate::program::{DecodeError, Parameters, Program, ProgramError};

/// The first byte. It names what identifies a packet, the hashes, the layers and the codes as well: with
/// others a switch would write other digests.
const VERSION: u8 = 5;

/// The longest text of queries, in bytes.
const MAX_TEXT: usize = 192 * MAX_QUERIES;

/// What packets are asked, and the numbers that the plan follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanParameters {
    /// At least one.
    pub queries: Queries,
    /// Bits of a packet for all queries together.
    pub budget: u32,
    /// Number of switches on long paths. The layers follow from it, and from the bits.
    pub path_length: u32,
}

/// Names a plan in records: equal parameters have equal numbers, others have another one, but for
/// one pair of 2³².
pub type PlanId = u32;

impl PlanParameters {
    /// The CRC-32 of the byte form.
    pub fn id(&self) -> PlanId {
        bitwise::crc(Polynomial::STANDARD[0], INIT, XOROUT, &self.encode())
    }

    /// The first query with this value.
    pub fn query(&self, value: Value) -> Option<Query> {
        self.queries.0.iter().find(|query| query.value == value).copied()
    }

    /// Which [codes](Queries::codes) packets carry together.
    ///
    /// # Errors
    /// If the budget has no room for all of them.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        let demands: Vec<Demand> = self.queries.codes().iter().map(Query::demand).collect();
        Plan::new(&demands, self.budget)
    }

    /// What switches with these parameters have in common. Demands without a plan have an empty
    /// one; such parameters are not valid.
    pub fn scheme(&self, hashes: &HashFamily) -> Scheme {
        let plan = self.plan().unwrap_or_else(|_| Plan(Vec::new()));
        Scheme::new(&self.queries.codes(), &plan, self.path_length, hashes)
    }

    /// Checks the ranges, and that there is a plan.
    pub(super) fn validate(&self) -> Result<(), ProgramError> {
        let range = |key, value, max| ProgramError::check(Pint::NAME, key, value, 1..=max);
        range("budget", self.budget, DIGEST_BITS)?;
        range("path_length", self.path_length, Config::MAX_LENGTH)?;
        self.plan().map(drop).map_err(|error| self.refuse(&error))
    }

    /// Names the queries that conflict, and those that would not.
    fn refuse(&self, error: &PlanError) -> ProgramError {
        let codes = self.queries.codes();
        let name = |place: usize| self.queries.name(&Query { frequency: Share::ALL, ..codes[place] });
        let right = match error {
            PlanError::Number => error.to_string(),
            PlanError::TooLarge { query, bits, budget } => {
                format!("no more than the budget of {budget} bits, {} has {bits}", name(*query))
            }
            PlanError::Conflict { conflicting, reduced, budget, factor, fits } => {
                let names = |of: &QuerySet| of.queries().map(name).collect::<Vec<_>>().join(" and ");
                let (names, others) = (names(conflicting), reduced != conflicting);
                let of = if others { "all frequencies" } else { "frequencies" };
                let share = |query: &Query| {
                    let place = codes.iter().position(|code| code.code() == query.code());
                    place.map_or(query.frequency, |place| fits[place].min(query.frequency))
                };
                let nearest = self.queries.0.iter().map(|query| Query { frequency: share(query), ..*query });
                let nearest = Queries(nearest.collect());
                format!("within {budget} bits, where {names} fit with {of} times {factor:.3}: {nearest}")
            }
        };
        ProgramError::Value { program: Pint::NAME, key: "queries", value: self.queries.to_string(), right }
    }
}

/// Parameters with their codes.
#[derive(Debug)]
pub struct Coding {
    pub id: PlanId,
    pub parameters: PlanParameters,
    pub scheme: Scheme,
}

impl Coding {
    pub fn new(parameters: PlanParameters, family: &HashFamily) -> Self {
        Self { id: parameters.id(), scheme: parameters.scheme(family), parameters }
    }

    /// Bits of the checksums of paths; 0 where packets carry none.
    pub fn checksum(&self) -> u32 {
        self.parameters.query(Value::Path).map_or(0, |path| path.checksum)
    }
}

/// The form: a version, the budget, the path length, the number of bytes of the queries' text, and
/// that text as weir writes it.
impl Parameters for PlanParameters {
    fn encode(&self) -> Vec<u8> {
        let text = self.queries.to_string();
        let mut to = Writer(vec![VERSION]);
        to.number(self.budget.into());
        to.number(self.path_length.into());
        to.number(text.len() as u64);
        to.0.extend_from_slice(text.as_bytes());
        to.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let (budget, path_length) = (from.u32("the budget")?, from.u32("the path length")?);
        let length = from.number("the length of the queries")?;
        if length != from.remaining() as u64 || from.remaining() > MAX_TEXT {
            return from.wrong("the length of the queries", "that of all that follows, and no longer than queries are");
        }
        let text = from.rest();
        let queries = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Queries>().ok());
        match queries.filter(|queries| queries.to_string().as_bytes() == text) {
            Some(queries) => Ok(Self { queries, budget, path_length }),
            None => from.wrong("the queries", "queries as weir writes them"),
        }
    }

    fn describe(&self) -> Option<Described> {
        let parameters = [
            ("queries", self.queries.to_string().into()),
            ("budget", self.budget.into()),
            ("path_length", self.path_length.into()),
        ];
        let parameters = parameters.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        Some(Described { state: "planned".into(), parameters })
    }
}
