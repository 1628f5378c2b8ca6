//! Lengths of time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text::json_schema;

/// A length of time, written as "67ms", "1s" or "67108864ns".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub Duration);

impl Length {
    /// In nanoseconds; the longest that 64 bits hold if it is longer.
    pub fn nanos(self) -> u64 {
        self.0.as_nanos().try_into().unwrap_or(u64::MAX)
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text)
            .map(Self)
            .map_err(|e| format!("{text:?} is not a length of time ({e}); write 50ms, 1s, 67108864ns"))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl Serialize for Length {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl serde::de::Visitor<'_> for Words {
            type Value = Length;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time in quotes: \"50ms\", \"1s\", \"67108864ns\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Length, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Words)
    }
}

impl Length {
    /// For the JSON Schema; numbers with their units.
    pub(super) const PATTERN: &str = r"^\s*(0|([0-9.]+\s*[A-Za-zµ]+\s*)+)$";
}

json_schema!(Length, {
    "type": "string",
    "pattern": Length::PATTERN,
    "description": "A length of time: 50ms, 1s, 67108864ns",
});
