//! Parameters: what a program may be told to change from one epoch to the next. Outside of the program
//! they are bytes.

use std::fmt;

use super::bytes::{DecodeError, Reader};
use crate::history::Described;

/// What a program may be told to change from one epoch to the next.
pub trait Parameters: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The byte form: one only for each value.
    fn encode(&self) -> Vec<u8>;

    /// # Errors
    /// If these are not the bytes of parameters.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Whether a controller that starts again may go on from the other ones as well: they differ at
    /// most in what is drawn for each epoch.
    fn is_like(&self, other: &Self) -> bool {
        self == other
    }

    /// As people see them; `None` when there are none.
    fn describe(&self) -> Option<Described> {
        None
    }
}

/// Nothing changes.
impl Parameters for () {
    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::new(bytes).end()
    }
}
