//! Memory of a switch as a parameter, for programs that take as much as they are given.

use std::fmt;
use std::str::FromStr;

use crate::text::{json_schema, scaled, serde_as_text};

/// Memory of a switch, in bytes: `48KB` is 48 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub u64);

impl FromStr for Memory {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = scaled(text, "B").or_else(|| text.parse().ok());
        bytes.map(Self).ok_or("not a number of bytes")
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", crate::text::short(self.0).replace('k', "K"))
    }
}

serde_as_text!(Memory);

json_schema!(Memory, {
    "type": "string",
    "pattern": "^[0-9]+(\\.[0-9]+)?[kKMG]?B?$",
    "description": "Memory in bytes: 48KB is 48 000.",
    "examples": ["48KB"]
});
