//! Values as people write them in files and on the command line.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde::{Deserialize, Serialize};

use crate::pisa::PortId;
use crate::text::json_schema;
use crate::wire::Mac;

/// A word or a whole number: `dport = 80` and `dport = "80-443"` are both right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl serde::de::Visitor<'_> for Words {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word in quotes or a whole number")
            }

            fn visit_str<E>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }
        }
        deserializer.deserialize_any(Words)
    }
}

json_schema!(Word, {"type": ["string", "integer"]});

/// A key whose value is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {right}")]
pub struct Wrong {
    pub key: &'static str,
    pub value: String,
    pub right: String,
}

pub fn wrong(key: &'static str, value: impl fmt::Display, right: impl Into<String>) -> Wrong {
    Wrong { key, value: value.to_string(), right: right.into() }
}

/// The names of the ports, by number, as all tables see them: ports come and go.
#[derive(Clone, Debug, Default)]
pub struct PortNames(Arc<RwLock<Vec<(String, bool)>>>);

impl PortNames {
    /// Names, and whether it is a fabric port.
    pub fn new(ports: impl IntoIterator<Item = (String, bool)>) -> Self {
        Self(Arc::new(RwLock::new(ports.into_iter().collect())))
    }

    /// The ports there are now; a number without a port has no name.
    pub fn set(&self, ports: Vec<(String, bool)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<(String, bool)>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn id(&self, key: &'static str, name: &str) -> Result<PortId, Wrong> {
        let id = self.read().iter().position(|(port, _)| port == name && !name.is_empty());
        id.map(|id| id as PortId).ok_or_else(|| wrong(key, name, format!("a port's name ({})", self.list())))
    }

    pub fn name(&self, id: PortId) -> String {
        self.read().get(usize::from(id)).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    pub fn is_fabric(&self, id: PortId) -> bool {
        self.read().get(usize::from(id)).is_some_and(|(_, fabric)| *fabric)
    }

    /// One more than the highest number.
    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    /// For messages.
    pub fn list(&self) -> String {
        let names = self.read();
        names.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// `02:00:00:00:00:01`.
pub fn mac(key: &'static str, text: &str) -> Result<Mac, Wrong> {
    let right = || wrong(key, text, "a MAC address such as 02:00:00:00:00:01");
    Mac::parse(text, &[':', '-'], 2).ok_or_else(right)
}

/// A whole number from `min` to `max`.
pub fn number<T: FromStr + PartialOrd + fmt::Display + Copy>(
    key: &'static str,
    text: &str,
    min: T,
    max: T,
) -> Result<T, Wrong> {
    match text.parse::<T>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(wrong(key, text, format!("a whole number from {min} to {max}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(mac("mac", "02:00:00:00:00:fF"), Ok(Mac([2, 0, 0, 0, 0, 255])));
        for text in
            ["", "02:00", "02:00:00:00:00:001", "02:00:00:00:00:0g", "02:00:00:00:00:00:00", "+2:00:00:00:00:00"]
        {
            assert!(mac("mac", text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(number("vlan", "4094", 1, 4094), Ok(4094));
        let error = number("vlan", "4095", 1, 4094).unwrap_err().to_string();
        assert_eq!(error, "vlan = 4095: a whole number from 1 to 4094");
        let names = PortNames::new([("a".into(), false), ("b".into(), false)]);
        assert_eq!(names.id("port", "b"), Ok(1));
        assert_eq!(names.id("port", "c").unwrap_err().to_string(), "port = c: a port's name (a, b)");
    }
}
