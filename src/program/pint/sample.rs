//! Which packets a sink reports when there is no room for all: a share of them, chosen by a hash, so
//! that those of the whole epoch have the same chance.

use super::record::Arrival;
use crate::pisa::hash::{Addends, Global, HashFamily};
use crate::program::ReportBuffer;

/// The share of the packets of an epoch that is reported.
#[derive(Debug)]
pub struct Sample {
    hash: Global,
    argument: Addends,
    /// The largest hash of packets that are reported.
    limit: u32,
}

impl Sample {
    pub fn new(family: &HashFamily) -> Self {
        let hash = Global::new([0, 1, 2, 3].map(|index| family.derive("pint/sample", index)));
        let argument = hash.argument(&[0; 4]);
        Self { hash, argument, limit: u32::MAX }
    }

    /// All packets are reported again.
    pub fn reset(&mut self) {
        self.limit = u32::MAX;
    }

    /// Keeps a report while there is room. Then the share is halved as often as it takes, and what
    /// does not belong to it is counted.
    #[inline(always)]
    pub fn report(&mut self, reports: &mut ReportBuffer<Arrival>, arrival: Arrival) {
        if self.limit == u32::MAX && !reports.is_full() {
            reports.push(arrival);
        } else {
            self.select(reports, arrival);
        }
    }

    #[cold]
    fn select(&mut self, reports: &mut ReportBuffer<Arrival>, arrival: Arrival) {
        while self.has(arrival.identity) && reports.is_full() && self.halve() {
            reports.keep(|report| self.has(report.identity));
        }
        if self.has(arrival.identity) { reports.push(arrival) } else { reports.miss() }
    }

    /// Halves the share; false when there is nothing left to halve.
    pub fn halve(&mut self) -> bool {
        let halved = self.limit > 0;
        self.limit >>= 1;
        halved
    }

    /// Whether a packet belongs to the share.
    pub fn has(&self, identity: u32) -> bool {
        self.hash.join(self.hash.packet(&identity.to_be_bytes()), self.argument) <= self.limit
    }
}
