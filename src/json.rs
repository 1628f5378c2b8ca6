//! Forms that all JSON documents share: whole numbers that no reader rounds, and times of day.
//!
//! JavaScript, jq and others hold every number as a double, which has all whole numbers up to 2^53
//! and rounds larger ones. A larger one is therefore written as a string of its decimal digits.
//! Fields that may hold one have `#[serde(with = "json::digits")]` or `"json::large"`; readers take
//! the number and the string of both.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{json_schema, serde_as_text};

/// The largest whole number that is written as a number, 2^53 − 1: no other one has the same double.
pub const LARGEST: u64 = (1 << 53) - 1;

/// Numbers that are larger as a rule: times since 1970 in nanoseconds, seeds. Always strings.
pub mod digits {
    use super::{Serializer, Whole};

    pub use super::read as deserialize;

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<W: Whole, S: Serializer>(number: &W, to: S) -> Result<S::Ok, S::Error> {
        match number.number() {
            Some(number) => to.collect_str(&number),
            None => to.serialize_none(),
        }
    }
}

/// Counters that are larger after days or months, as those of bytes and of cycles. They are numbers
/// up to [`LARGEST`] and strings beyond.
pub mod large {
    use super::{LARGEST, Serializer, Whole, digits};

    pub use super::read as deserialize;

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<W: Whole, S: Serializer>(number: &W, to: S) -> Result<S::Ok, S::Error> {
        match number.number() {
            Some(number) if number <= LARGEST => to.serialize_u64(number),
            _ => digits::serialize(number, to),
        }
    }
}

/// A counter in a document that has no type, as [`large`] writes it.
pub fn counter(number: u64) -> serde_json::Value {
    if number <= LARGEST { number.into() } else { number.to_string().into() }
}

/// A whole number, or one that may be null.
pub trait Whole: Copy {
    fn number(self) -> Option<u64>;
    fn of(number: Option<u64>) -> Option<Self>;
}

impl Whole for u64 {
    fn number(self) -> Option<u64> {
        Some(self)
    }

    fn of(number: Option<u64>) -> Option<Self> {
        number
    }
}

impl Whole for Option<u64> {
    fn number(self) -> Option<u64> {
        self
    }

    fn of(number: Option<u64>) -> Option<Self> {
        Some(number)
    }
}

/// A whole number, or from 2^53 on a string of its decimal digits.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "LargeNumber")]
pub enum Form {
    Number(u64),
    Digits(#[schemars(regex(pattern = r"^[0-9]+$"))] String),
}

/// The schema of a number that [`digits`] writes.
pub struct Digits;

json_schema!(Digits, {
    "type": "string",
    "pattern": "^[0-9]+$",
    "description": "A whole number in decimal digits, because doubles would round it."
});

/// Reads a number, or a string of its digits.
///
/// # Errors
/// If it is neither.
pub fn read<'de, W: Whole, D: Deserializer<'de>>(from: D) -> Result<W, D::Error> {
    let wrong = || serde::de::Error::custom("expected a whole number, or a string of its digits");
    let number = match Option::deserialize(from)? {
        Some(Form::Number(number)) => Some(number),
        Some(Form::Digits(digits)) => Some(digits.parse().map_err(|_| wrong())?),
        None => None,
    };
    W::of(number).ok_or_else(wrong)
}

/// A time of day, in nanoseconds since 1970. Written as in RFC 3339, in UTC:
/// `2026-11-20T21:40:01.123456789Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(self.0)).fmt(f)
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at: SystemTime = humantime::parse_rfc3339(text).map_err(|error| error.to_string())?;
        let since = at.duration_since(UNIX_EPOCH).ok().and_then(|since| since.as_nanos().try_into().ok());
        since.map(Self).ok_or_else(|| "a time from 1970 to 2554".into())
    }
}

serde_as_text!(Time);

json_schema!(Time, {
    "type": "string",
    "format": "date-time",
    "description": "A time of day in UTC, to the nanosecond.",
    "examples": ["2026-11-20T21:40:01.123456789Z"]
});

/// An epoch in a document: its number, and beside it the times of day at which it starts and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Epoch {
    #[serde(rename = "epoch")]
    pub number: u64,
    /// Null where the length of epochs is not known, or time is simulated.
    pub start: Option<Time>,
    pub end: Option<Time>,
}

impl Epoch {
    /// Of epochs of this length; 0 where it is not known.
    pub fn new(number: u64, length_ns: u64) -> Self {
        let (start, end) = span((number, number), length_ns);
        Self { number, start, end }
    }
}

/// When the first of these epochs starts and the last one ends.
pub fn span((first, last): (u64, u64), length_ns: u64) -> (Option<Time>, Option<Time>) {
    let start_of = |epoch: u64| (length_ns > 0).then(|| Time(epoch.saturating_mul(length_ns)));
    (start_of(first), start_of(last.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Numbers {
        #[serde(with = "digits")]
        seed: u64,
        #[serde(with = "digits", default)]
        since_ns: Option<u64>,
        #[serde(with = "large")]
        rx_bytes: u64,
    }

    #[test]
    fn numbers_that_doubles_round_are_strings() {
        let written = |rx_bytes| serde_json::to_string(&Numbers { seed: 5, since_ns: None, rx_bytes }).unwrap();
        assert_eq!(written(LARGEST), r#"{"seed":"5","since_ns":null,"rx_bytes":9007199254740991}"#);
        assert_eq!(written(LARGEST + 1), r#"{"seed":"5","since_ns":null,"rx_bytes":"9007199254740992"}"#);
        assert_eq!((LARGEST + 1) as f64, (LARGEST + 2) as f64);
        assert_eq!((counter(LARGEST), counter(u64::MAX)), (LARGEST.into(), u64::MAX.to_string().into()));
    }

    #[test]
    fn both_forms_are_read() {
        let wanted = Numbers { seed: u64::MAX, since_ns: Some(7), rx_bytes: 1 << 60 };
        for text in [
            r#"{"seed":18446744073709551615,"since_ns":7,"rx_bytes":1152921504606846976}"#,
            r#"{"seed":"18446744073709551615","since_ns":"7","rx_bytes":"1152921504606846976"}"#,
        ] {
            assert_eq!(serde_json::from_str::<Numbers>(text).unwrap(), wanted);
        }
        let without: Numbers = serde_json::from_str(r#"{"seed":1,"rx_bytes":2}"#).unwrap();
        assert_eq!(without, Numbers { seed: 1, since_ns: None, rx_bytes: 2 });
        for wrong in ["\"x\"", "\"-1\"", "\"18446744073709551616\"", "1.5", "null", "true"] {
            assert!(
                serde_json::from_str::<Numbers>(&format!(r#"{{"seed":{wrong},"rx_bytes":2}}"#)).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn epochs_have_times_of_day() {
        let text = |epoch| serde_json::to_string(&epoch).unwrap();
        let written = text(Epoch::new(26_753_081_231, 1 << 26));
        assert_eq!(
            written,
            r#"{"epoch":26753081231,"start":"2026-11-22T17:34:49.912131584Z","end":"2026-11-22T17:34:49.979240448Z"}"#
        );
        assert_eq!(serde_json::from_str::<Epoch>(&written).unwrap(), Epoch::new(26_753_081_231, 1 << 26));
        assert_eq!(text(Epoch::new(7, 0)), r#"{"epoch":7,"start":null,"end":null}"#);
        // As an older switch has it.
        assert_eq!(serde_json::from_str::<Epoch>(r#"{"epoch":7}"#).unwrap(), Epoch::new(7, 0));
        assert_eq!(Epoch::new(u64::MAX, u64::MAX).end, Some(Time(u64::MAX)));
        assert_eq!(Time(u64::MAX).to_string().parse(), Ok(Time(u64::MAX)));
        assert!("1969-12-31T23:59:59Z".parse::<Time>().is_err() && "9999-12-31T23:59:59Z".parse::<Time>().is_err());
    }
}
