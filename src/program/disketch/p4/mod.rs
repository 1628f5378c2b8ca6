//! DiSketch's P4 forms (`p4/disketch`).

mod t2na;
mod v1model;

use super::Config;
use crate::program::{P4Form, P4Request, P4Target, ProgramError};

/// The P4 form of a configuration.
///
/// # Errors
/// If the sources for the target have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    match of.target {
        P4Target::V1model => Ok(v1model::form(of)),
        P4Target::T2na => t2na::form(of),
    }
}
