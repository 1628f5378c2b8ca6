//! The switches that may be on a path, and what they would have written.

use super::links::Links;
use super::set::Set;
use crate::pisa::hash::{Arguments, Wanted};
use crate::program::pint::dataplane::{Code, Coded};
use crate::program::pint::encoding::Observed;

/// The switches that may be on a path.
#[derive(Clone, Debug)]
pub struct Universe {
    pub(super) switches: Vec<Coded>,
    pub(super) links: Option<Links>,
    /// Their hashes in each instance; of none where packets carry fragments.
    arguments: Vec<Arguments>,
}

impl Universe {
    /// Switches by their identifiers; `links` are pairs of their places in this list.
    pub fn new(code: &Code, ids: impl IntoIterator<Item = u32>, links: Option<&[[usize; 2]]>) -> Self {
        let switches: Vec<_> = ids.into_iter().map(|id| code.switch(id)).collect();
        let links = links.map(|pairs| Links::new(switches.len(), pairs.iter().copied()));
        let hashed = code.instances.iter().enumerate().filter(|_| !code.is_fragmented());
        let arguments = hashed.map(|(number, instance)| {
            let of_instance: Vec<_> = switches.iter().map(|switch| switch.path[number]).collect();
            Arguments::new(&instance.values, &of_instance)
        });
        Self { arguments: arguments.collect(), switches, links }
    }

    /// The switch at a place of the list.
    pub fn switch(&self, place: usize) -> Option<&Coded> {
        self.switches.get(place)
    }

    /// The place of the switch with this identifier.
    pub fn place(&self, id: u32) -> Option<usize> {
        self.switches.iter().position(|switch| switch.id == id)
    }

    /// What a switch writes into an observed part of a packet.
    pub(super) fn value(&self, code: &Code, observed: &Observed, switch: usize) -> u32 {
        match self.arguments.get(observed.instance) {
            Some(arguments) => arguments.hash(observed.identity, switch) & code.mask(),
            None => code.value(observed, &self.switches[switch]),
        }
    }

    /// Keeps the candidates that write a wanted value. Whether there were others.
    pub(super) fn select(&self, code: &Code, observed: &Observed, wanted: &Wanted, among: &mut Set) -> bool {
        match self.arguments.get(observed.instance) {
            Some(arguments) => among.narrow(|words| arguments.select(observed.identity, wanted, words)),
            None => among.retain(|switch| wanted.contains(code.value(observed, &self.switches[switch]))),
        }
    }
}
