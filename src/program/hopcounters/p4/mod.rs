//! Hop counters' P4 forms (`p4/hopcounters`).

mod v1model;

use super::hashes::Hashes;
use super::{Config, HopCounters};
use crate::program::{P4Crc, P4Form, P4Halves, P4Register, P4Request, P4Target, Program, ProgramError};

/// The P4 form of a configuration. The balance of packets that end in the switch, or that it makes, has no
/// register in the sources.
///
/// # Errors
/// If the sources for the target have none.
pub fn form(of: &P4Request<'_, Config>) -> Result<P4Form, ProgramError> {
    match of.target {
        P4Target::V1model => Ok(v1model::form(of)),
        P4Target::T2na => {
            let (program, key, value) = (HopCounters::NAME, "memory", of.config.memory.to_string());
            let right = "the P4 sources have no form for Tofino".into();
            Err(ProgramError::Value { program, key, value, right })
        }
    }
}

/// The rows' lengths, and their registers, which have a half of an array in each copy.
fn rows(config: &Config) -> P4Form {
    let mut form = P4Form::default();
    form.constant("PORTS", config.rows());
    form.constant("GROUPS", config.groups());
    for array in ["received", "sent"] {
        form.registers.push(P4Register {
            register: format!("hopcounters.{array}"),
            array: array.into(),
            index: 0,
            field: 0,
            shift: 0,
            bits: u32::BITS,
            cells: u64::from(config.rows() * config.groups()),
        });
        form.halves.push(P4Halves { array: array.into(), index: 0, modulus: 1 << u32::BITS });
    }
    form
}

/// The two CRCs of a group, computed by these actions.
fn crcs(of: &P4Request<'_, Config>, actions: [&str; 2]) -> [P4Crc; 2] {
    let hash = Hashes::source(of.config.groups());
    let polynomials = [hash.shared_polynomial(of.hashes), hash.polynomial(of.hashes)];
    let [shared, own] = actions.map(|action| format!("hopcounters.{action}"));
    let [first, second] = polynomials;
    [P4Crc { action: shared, polynomial: first }, P4Crc { action: own, polynomial: second }]
}
