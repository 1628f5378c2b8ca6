//! A plan with all that a switch needs to write by it. The thread that writes the plan works it out,
//! so that a worker only takes it up.

use super::PlanParameters;
use super::burst::BurstHashes;
use super::dataplane::Coded;
use super::encoding::switch_id;
use super::parameters::Coding;
use super::query::Value;
use super::utilisation::link::Links;
use super::utilisation::ports::Registers;
use crate::pisa::hash::HashFamily;

/// What follows from a plan for one replica of a switch.
#[derive(Debug)]
pub struct Prepared {
    pub coding: Coding,
    /// The switch's own hashes.
    pub own: Coded,
    /// The hash units in the form for bursts, on CPUs that have one.
    pub burst: Option<BurstHashes>,
    /// Where it asks for utilisations.
    pub registers: Option<Registers>,
}

impl Prepared {
    /// For the switch with this name. Registers have memory, or only say what they would take.
    pub fn new(parameters: &PlanParameters, family: &HashFamily, name: &str, allocated: bool) -> Self {
        let coding = Coding::new(parameters.clone(), family);
        let own = coding.scheme.switch(switch_id(name));
        let utilisation = parameters.query(Value::Utilisation);
        let burst = BurstHashes::new(&coding.scheme);
        Self { coding, own, burst, registers: utilisation.map(|query| Registers::new(query.links, allocated)) }
    }

    /// The links that it asks about.
    #[inline(always)]
    pub fn links(&self) -> Option<Links> {
        self.registers.as_ref().map(|registers| registers.links)
    }
}
