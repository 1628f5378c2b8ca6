//! Names of flows in answers, and their counts.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counted, Digest32};
use crate::wire::Flow;

/// The unit of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    #[default]
    Packets,
    Bytes,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}

/// The name of a flow: its fields, or a digest where the program knows only that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Written")]
pub enum FlowName {
    Flow(Flow),
    /// 96 bits, of an IPv6 flow.
    Digest([u8; 12]),
    /// 32 bits, of a five-tuple.
    Digest32(Digest32),
}

/// A name in a document.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Written {
    flow: Flow,
    /// Stands for the flow's fields where these are not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ipv6_digest: Option<String>,
    /// Stands for them too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    digest32: Option<Digest32>,
}

impl From<FlowName> for Written {
    fn from(name: FlowName) -> Self {
        Self { flow: name.flow().unwrap_or_default(), ipv6_digest: name.digest(), digest32: name.digest32() }
    }
}

impl From<Written> for FlowName {
    fn from(Written { flow, ipv6_digest, digest32 }: Written) -> Self {
        if let Some(digest) = digest32 {
            return Self::Digest32(digest);
        }
        let bytes = |digits: &str| {
            let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
            let bytes: Option<Vec<_>> = (0..12).map(byte).collect();
            bytes?.try_into().ok()
        };
        ipv6_digest.as_deref().and_then(bytes).map_or(Self::Flow(flow), Self::Digest)
    }
}

impl Default for FlowName {
    fn default() -> Self {
        Self::Flow(Flow::default())
    }
}

impl FlowName {
    /// The flow, unless only its digest is known.
    pub fn flow(&self) -> Option<Flow> {
        match self {
            Self::Flow(flow) => Some(*flow),
            Self::Digest(_) | Self::Digest32(_) => None,
        }
    }

    /// A digest of an IPv6 flow in hexadecimal.
    pub fn digest(&self) -> Option<String> {
        match self {
            Self::Flow(_) | Self::Digest32(_) => None,
            Self::Digest(digest) => Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    /// A digest of 32 bits.
    pub fn digest32(&self) -> Option<Digest32> {
        match self {
            Self::Digest32(digest) => Some(*digest),
            Self::Flow(_) | Self::Digest(_) => None,
        }
    }
}

impl fmt::Display for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(flow) => flow.fmt(f),
            Self::Digest(_) => f.pad(&format!("ipv6 flow {}", self.digest().unwrap_or_default())),
            Self::Digest32(digest) => digest.fmt(f),
        }
    }
}

impl fmt::Debug for FlowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The line that says how many of these flows have no name; empty if all have one.
pub fn digests<'a>(flows: impl Iterator<Item = &'a FlowName>) -> String {
    match flows.filter(|flow| flow.digest().is_some()).count() {
        0 => String::new(),
        1 => "1 flow is known by a digest alone: its switch had no room for its name".into(),
        n => format!("{n} flows are known by a digest alone: switches had no room for their names"),
    }
}

/// A flow and its packets, or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCount {
    pub flow: FlowName,
    pub count: Counted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_documents_are_read_back() {
        let flow = Flow { sport: Some(7), ..Flow::default() };
        let digest = Digest32 { is_ipv6: true, crc: 0xcbf4_3926, is_ambiguous: true };
        for name in [FlowName::Flow(flow), FlowName::Digest([0xa5; 12]), FlowName::Digest32(digest)] {
            let text = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<FlowName>(&text).unwrap(), name, "{text}");
        }
    }
}
