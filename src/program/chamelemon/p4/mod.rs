//! ChameleMon's P4 forms (`p4/chamelemon`).

mod t2na;
mod v1model;

use super::{ChameleMon, Config, EncoderParameters};
use crate::program::{P4Form, P4Register, P4Request, P4Target, Parameters as _, Program, ProgramError};

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources for the target have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    match of.target {
        P4Target::V1model => v1model::form(of),
        P4Target::T2na => t2na::form(of),
    }
}

/// The parameters that the epochs are measured with.
fn parameters(of: &P4Request<'_, Config>) -> Result<EncoderParameters, ProgramError> {
    EncoderParameters::decode(of.parameters).map_err(|error| ProgramError::Value {
        program: ChameleMon::NAME,
        key: "parameters",
        value: format!("{} bytes", of.parameters.len()),
        right: error.to_string(),
    })
}

/// A register that holds an array, all bits of each cell.
fn register(register: String, array: &str, index: u32, bits: u32, cells: u32) -> P4Register {
    let register = format!("chamelemon.{register}");
    P4Register { register, array: array.into(), index, field: 0, shift: 0, bits, cells: cells.into() }
}
