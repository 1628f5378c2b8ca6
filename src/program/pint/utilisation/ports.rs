//! The utilisation of a live switch's ports.
//!
//! Each core has a replica with registers of its own, so a replica knows the packets that its core
//! sends by a port. Where several cores send by one port, each takes the share of the link that it
//! uses itself.

use super::Utilisation;
use super::dataplane::Meta;
use super::link::Links;
use crate::pisa::{Disposition, MAX_PORTS, Phv, Probe, StageUse};
use crate::wire::shim;

/// The registers of a replica: a set for each description of links that a plan in force has. That is
/// one, but while a rate or a period changes.
#[derive(Debug, Default)]
pub struct Ports {
    sets: Vec<(Links, Utilisation)>,
    /// Sets have memory.
    allocated: bool,
}

impl Ports {
    /// Has a set for each of these links, and no other. Those that were there go on.
    pub fn keep(&mut self, links: impl Iterator<Item = Links> + Clone) {
        self.sets.retain(|(known, _)| links.clone().any(|links| links == *known));
        for links in links {
            if self.sets.iter().all(|(known, _)| *known != links) {
                let mut set = Utilisation::planned(&[links.bytes_per_second(); MAX_PORTS], links.period_ns());
                if self.allocated {
                    set.allocate();
                }
                self.sets.push((links, set));
            }
        }
    }

    /// Takes zeroed registers. Without them utilisations are 0.
    pub fn allocate(&mut self) {
        self.allocated = true;
        self.sets.iter_mut().for_each(|(_, set)| set.allocate());
    }

    /// No plan asks for utilisations.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The utilisation of the link that a packet leaves by, with the packet, in units of 2⁻²⁴, of
    /// these links. 0 for a packet that does not leave.
    #[inline(always)]
    pub fn packet(&mut self, phv: &Phv, of: Option<Links>) -> u32 {
        self.each(phv, of, Utilisation::packet)
    }

    /// As [`Self::packet`], and tells of each access to a register.
    pub fn trace(&mut self, phv: &Phv, of: Option<Links>, probe: &mut dyn Probe) -> u32 {
        self.each(phv, of, |set, meta| set.trace(meta, probe))
    }

    /// Takes a packet through every set.
    #[inline(always)]
    fn each(&mut self, phv: &Phv, of: Option<Links>, mut through: impl FnMut(&mut Utilisation, &mut Meta)) -> u32 {
        let mut utilisation = 0;
        if phv.disposition.leaves() {
            for (links, set) in &mut self.sets {
                let mut meta = meta(phv);
                through(set, &mut meta);
                if of == Some(*links) {
                    utilisation = meta.utilisation;
                }
            }
        }
        utilisation
    }

    /// The eight stages, where there are any.
    pub fn usage(&self) -> Option<Vec<StageUse>> {
        self.sets.first().map(|(_, set)| set.usage())
    }
}

/// A packet as the stages see it. Its bytes are those of the frame that is sent, without FCS.
#[inline(always)]
fn meta(phv: &Phv) -> Meta {
    let shim = if phv.disposition == Disposition::ToFabric { shim::LEN as u32 } else { 0 };
    Meta {
        port: phv.egress.into(),
        now_ns: phv.egress_ns,
        bytes: phv.wire_bytes.saturating_add(shim),
        ..Meta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links of one rate have one set of registers, which goes on as other plans come and go; links
    /// of another rate have their own utilisation.
    #[test]
    fn registers_go_on_while_plans_change() {
        let [slow, fast] =
            [100_000_000, 200_000_000].map(|bits_per_second| Links { bits_per_second, period_ns: Some(1_000_000) });
        let mut ports = Ports::default();
        ports.keep([slow].into_iter());
        let packet = |ports: &mut Ports, number: u64, links| {
            let egress_ns = 120_000 * number;
            let phv = Phv { disposition: Disposition::ToHost, wire_bytes: 750, egress_ns, ..Phv::default() };
            let found = f64::from(ports.packet(&phv, Some(links))) / f64::from(1 << 24);
            assert_eq!(ports.packet(&Phv { disposition: Disposition::Ended, ..phv }, Some(links)), 0);
            found
        };
        assert_eq!(packet(&mut ports, 1, slow), 0.0, "without memory");
        ports.allocate();
        // 750 bytes each 120 µs are 50 Mbit/s.
        let at = |found: f64, share: f64| assert!((found / share - 1.0).abs() < 0.1, "{found}, not {share}");
        at((2..100).map(|number| packet(&mut ports, number, slow)).last().unwrap(), 0.5);
        ports.keep([slow, fast, slow].into_iter());
        assert_eq!(ports.sets.len(), 2);
        at(packet(&mut ports, 100, slow), 0.5);
        at((101..200).map(|number| packet(&mut ports, number, fast)).last().unwrap(), 0.25);
        ports.keep([fast].into_iter());
        at(packet(&mut ports, 200, fast), 0.25);
        assert_eq!((ports.sets.len(), packet(&mut ports, 201, slow)), (1, 0.0));
        ports.keep(std::iter::empty());
        assert!(ports.is_empty() && ports.usage().is_none());
    }
}
