//! How long an idle worker may sleep.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Length;
use crate::text::{json_schema, serde_as_text};

/// The longest sleep of an idle worker, or "off".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle(pub Option<Duration>);

impl Default for Idle {
    fn default() -> Self {
        Self(Some(Duration::from_micros(100)))
    }
}

impl FromStr for Idle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let wrong = |_| format!("{text:?} is neither a length of time nor \"off\"; write 100us, 1ms, off");
        text.parse::<Length>().map(|length| Self(Some(length.0))).map_err(wrong)
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(longest) => Length(longest).fmt(f),
            None => f.write_str("off"),
        }
    }
}

serde_as_text!(Idle);

json_schema!(Idle, {
    "type": "string",
    "anyOf": [{"const": "off"}, {"pattern": Length::PATTERN}],
    "description": "A length of time, 1us to 1s, or off",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_off() {
        for text in ["off", "100us", "1ms", "1s"] {
            assert_eq!(text.parse::<Idle>().unwrap().to_string(), text);
        }
        assert!("never".parse::<Idle>().unwrap_err().contains("off"));
    }
}
