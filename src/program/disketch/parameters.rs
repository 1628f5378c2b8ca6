//! The network's parameter: the error at which all fragments aim.

use serde_json::json;

use super::{DiSketch, Program};
use crate::history::Described;
use crate::program::bytes::{DecodeError, Reader, Writer};
use crate::program::{Parameters, ProgramError};

/// The target error, in thousandths of a packet or byte; 0 as long as it is not known, when no switch
/// changes the number of its sub-epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    thousandths: u64,
}

impl Target {
    /// At least a thousandth.
    pub fn of(error: f64) -> Self {
        Self { thousandths: ((error * 1000.0).round() as u64).max(1) }
    }

    pub const UNKNOWN: Self = Self { thousandths: 0 };

    /// In packets or bytes.
    pub fn error(self) -> Option<f64> {
        (self.thousandths > 0).then_some(self.thousandths as f64 / 1000.0)
    }
}

impl Parameters for Target {
    fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.number(self.thousandths);
        to.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        let target = Self { thousandths: from.number("the target")? };
        from.end().map(|()| target)
    }

    fn describe(&self) -> Option<Described> {
        let state = if self.thousandths > 0 { "measuring" } else { "calibrating" };
        let described = json!({ "rho_target": self.error() });
        Some(Described { state: state.into(), parameters: described.as_object()?.clone() })
    }
}

impl Target {
    pub(super) fn check(self) -> Result<(), ProgramError> {
        let most = u64::from(u32::MAX) * 1000;
        if self.thousandths > most {
            let (program, key) = (DiSketch::NAME, "rho_target");
            return Err(ProgramError::Range { program, key, value: self.thousandths / 1000, min: 0, max: most / 1000 });
        }
        Ok(())
    }
}
