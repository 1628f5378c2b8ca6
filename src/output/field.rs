//! The value of a table's cell in one column, as programs read it.

use std::fmt;

use serde_json::Value;

/// A value without a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field {
    /// Nothing that is known.
    #[default]
    Empty,
    Whole(u64),
    Number(f64),
    Truth(bool),
    Text(String),
}

impl Field {
    pub fn is_empty(&self) -> bool {
        *self == Self::Empty
    }
}

/// As CSV has it.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Whole(n) => n.fmt(f),
            Self::Number(n) => n.fmt(f),
            Self::Truth(yes) => yes.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// An empty text is nothing.
impl From<String> for Field {
    fn from(text: String) -> Self {
        if text.is_empty() { Self::Empty } else { Self::Text(text) }
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

macro_rules! from {
    ($($type:ty => $field:ident),+ $(,)?) => {
        $(impl From<$type> for Field {
            fn from(value: $type) -> Self {
                Self::$field(value.into())
            }
        })+
    };
}

from!(u8 => Whole, u16 => Whole, u32 => Whole, u64 => Whole, f64 => Number, bool => Truth);

impl From<usize> for Field {
    fn from(n: usize) -> Self {
        Self::Whole(n as u64)
    }
}

impl<T: Into<Self>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

/// A list or an object is text.
impl From<&Value> for Field {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Empty,
            Value::Bool(yes) => Self::Truth(*yes),
            Value::Number(number) => number.as_u64().map_or_else(|| number.as_f64().into(), Self::Whole),
            Value::String(text) => text.as_str().into(),
            Value::Array(_) | Value::Object(_) => value.to_string().into(),
        }
    }
}
