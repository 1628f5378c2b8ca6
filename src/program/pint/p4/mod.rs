//! PINT's P4 forms (`p4/pint`).

mod t2na;
mod v1model;

use super::{Config, Pint};
use crate::program::{P4Form, P4Request, P4Target, Parameters as _, Program, ProgramError};

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources for the target have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    if of.parameters != Pint::start(of.config).encode() {
        let right = "the P4 sources have the queries of the configuration in all epochs".into();
        return Err(ProgramError::Value { program: Pint::NAME, key: "parameters", value: "other ones".into(), right });
    }
    match of.target {
        P4Target::V1model => v1model::form(of),
        P4Target::T2na => t2na::form(of),
    }
}
