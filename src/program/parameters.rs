//! Parameters: what a program may be told to change from one epoch to the next.

use std::any::Any;
use std::fmt;

use super::answers::Described;
use super::bytes::{DecodeError, Reader};

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
pub struct AnyParameters(Box<dyn Erased>);

/// [`Parameters`] without their type.
trait Erased: Any + Send + Sync + fmt::Debug {
    fn encode(&self) -> Vec<u8>;
    fn copy(&self) -> Box<dyn Erased>;
    fn equals(&self, other: &dyn Any) -> bool;
    fn is_like(&self, other: &dyn Any) -> bool;
    fn describe(&self) -> Option<Described>;
}

impl<P: Parameters> Erased for P {
    fn encode(&self) -> Vec<u8> {
        Parameters::encode(self)
    }

    fn copy(&self) -> Box<dyn Erased> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn is_like(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| Parameters::is_like(self, other))
    }

    fn describe(&self) -> Option<Described> {
        Parameters::describe(self)
    }
}

impl AnyParameters {
    pub fn new<P: Parameters>(parameters: P) -> Self {
        Self(Box::new(parameters))
    }

    /// The parameters, if they are of this type.
    pub fn get<P: Parameters>(&self) -> Option<&P> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    pub fn get_mut<P: Parameters>(&mut self) -> Option<&mut P> {
        (&mut *self.0 as &mut dyn Any).downcast_mut()
    }

    /// [`Parameters::encode`].
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// [`Parameters::describe`].
    pub fn describe(&self) -> Option<Described> {
        self.0.describe()
    }

    /// [`Parameters::is_like`]; parameters of two programs are not alike.
    pub fn is_like(&self, other: &Self) -> bool {
        self.0.is_like(&*other.0)
    }
}

impl Clone for AnyParameters {
    fn clone(&self) -> Self {
        Self(self.0.copy())
    }
}

impl PartialEq for AnyParameters {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Eq for AnyParameters {}

impl fmt::Debug for AnyParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
