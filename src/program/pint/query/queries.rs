//! Several queries together: which of them share their bits of a packet, and which exclude each
//! other.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::{Query, Value};
use crate::program::pint::plan::MAX_QUERIES;
use crate::text::serde_as_text;

/// The queries of a network, at most [`MAX_QUERIES`]. None stands for the path query of the other
/// parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queries(pub Vec<Query>);

impl Queries {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The codes that packets carry for them, in the order of the queries. A [code](Query::code) of
    /// several queries has the largest of their frequencies.
    pub fn codes(&self) -> Vec<Query> {
        let mut codes = Vec::<Query>::new();
        for query in &self.0 {
            match codes.iter_mut().find(|code| code.code() == query.code()) {
                Some(code) => code.frequency = code.frequency.max(query.frequency),
                None => codes.push(Query { frequency: query.frequency, ..query.code() }),
            }
        }
        codes
    }

    /// The name of a query: its value, and all of its keys but the frequency where it is not the only
    /// query for that value.
    pub fn name(&self, query: &Query) -> Cow<'static, str> {
        match self.0.iter().filter(|other| other.value == query.value).count() {
            0 | 1 => query.value.name().into(),
            _ => query.identity().to_string().into(),
        }
    }

    /// Checks that a query goes together with those before it.
    fn check(&self, query: &Query) -> Result<(), String> {
        let name = query.value.name();
        let is_same = |other: &Query| other.identity() == query.identity();
        let mut others = self.0.iter().filter(|other| other.value == query.value);
        match (query.value, others.clone().next()) {
            (Value::Path, Some(_)) => {
                Err("path is asked for twice: the names of the switches of other queries follow from one".into())
            }
            (Value::Loops, Some(_)) => {
                Err("loops is asked for twice: the shim has one counter for its threshold".into())
            }
            (_, Some(_)) if others.clone().any(is_same) => Err(format!("{} is asked for twice", self.name(query))),
            (Value::Utilisation, _) if others.any(|other| other.links != query.links) => {
                Err(format!("{name} has one rate, one period and one filter: a switch keeps one utilisation of a link"))
            }
            _ => Ok(()),
        }
    }
}

const EXAMPLE: &str = "path:bits=8+latency:bits=8:frequency=15/16:space=100";

impl FromStr for Queries {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut queries = Self::default();
        for query in text.split('+').map(|query| query.trim().parse()) {
            let query = query?;
            queries.check(&query)?;
            queries.0.push(query);
        }
        if queries.0.len() > MAX_QUERIES {
            return Err(format!("there are at most {MAX_QUERIES} queries"));
        }
        Ok(queries)
    }
}

impl fmt::Display for Queries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(Query::to_string).collect::<Vec<_>>().join("+"))
    }
}

serde_as_text!(Queries);

impl schemars::JsonSchema for Queries {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Queries".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "examples": [EXAMPLE] })
    }
}
