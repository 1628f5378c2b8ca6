//! Parameters: what a program may be told to change from one epoch to the next.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::bytes::{DecodeError, Reader};
use crate::history::Described;

/// What a program may be told to change from one epoch to the next.
pub trait Parameters: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The byte form: one only for each value.
    fn encode(&self) -> Vec<u8>;

    /// # Errors
    /// If these are not the bytes of parameters.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;

    /// Whether a controller that starts again may go on from the other ones as well: they differ in
    /// what is drawn anew for each epoch, at the most.
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

/// Parameters of any program.
#[derive(Clone, Debug)]
pub struct AnyParameters(Arc<dyn ErasedParameters>);

impl AnyParameters {
    pub fn new<P: Parameters>(parameters: P) -> Self {
        Self(Arc::new(parameters))
    }
}

impl Deref for AnyParameters {
    type Target = dyn ErasedParameters;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// [`Parameters`] without their type.
pub trait ErasedParameters: Any + Send + Sync + fmt::Debug {
    /// [`Parameters::encode`].
    fn encode(&self) -> Vec<u8>;
    fn equals(&self, other: &AnyParameters) -> bool;
    /// [`Parameters::is_like`]; parameters of two programs are not alike.
    fn is_like(&self, other: &AnyParameters) -> bool;
    /// [`Parameters::describe`].
    fn describe(&self) -> Option<Described>;
}

impl<P: Parameters> ErasedParameters for P {
    fn encode(&self) -> Vec<u8> {
        Parameters::encode(self)
    }

    fn equals(&self, other: &AnyParameters) -> bool {
        other.get() == Some(self)
    }

    fn is_like(&self, other: &AnyParameters) -> bool {
        other.get().is_some_and(|other| Parameters::is_like(self, other))
    }

    fn describe(&self) -> Option<Described> {
        Parameters::describe(self)
    }
}

impl dyn ErasedParameters {
    /// The parameters, if they are of this type.
    pub fn get<P: Parameters>(&self) -> Option<&P> {
        (self as &dyn Any).downcast_ref()
    }
}

impl PartialEq for AnyParameters {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

impl Eq for AnyParameters {}
