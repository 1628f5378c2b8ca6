//! The utilisation of a live switch's ports.
//!
//! Each core has a replica with registers of its own, so a replica knows the packets that its core
//! sends by a port. Where several cores send by one port, each takes the share of the link that it
//! uses itself.

use std::fmt;
use std::sync::Arc;

use arrayvec::ArrayVec;
use crossbeam_utils::atomic::AtomicCell;

use super::dataplane::Meta;
use super::filter::{Averages, Memory};
use super::link::Links;
use crate::pisa::{Disposition, Phv, Probe, StageUse};
use crate::program::pint::prepared::Prepared;
use crate::wire::shim;

/// Plans that a replica knows at a time: that of the running epoch, one before it, and one to come.
pub const PLANS: usize = 3;

/// The registers that a plan brings for its links. A replica takes them if it has none for such
/// links, and gives them back, so that it neither makes nor frees any.
pub struct Registers {
    pub links: Links,
    /// Empty while the replica has them.
    set: AtomicCell<Option<Box<Averages>>>,
}

impl Registers {
    /// With memory for registers, zeroed when they are made, or, for `weir budget`, without. Without it utilisations
    /// are 0.
    pub fn new(links: Links, allocated: bool) -> Self {
        let mut set = Averages::planned(links);
        if allocated {
            set.allocate();
        }
        Self { links, set: AtomicCell::new(Some(Box::new(set))) }
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registers").field("links", &self.links).finish_non_exhaustive()
    }
}

/// The registers of a replica: a set for each description of links that a plan in force has. That is
/// one, but while a rate or a period changes.
#[derive(Debug, Default)]
pub struct Ports {
    sets: ArrayVec<Set, PLANS>,
    /// Bytes for which the queue of a port has room; 0 where the driver of the switch does not know.
    queue_room: u64,
}

/// Registers in use, and the plan that they came with.
#[derive(Debug)]
struct Set {
    links: Links,
    registers: Box<Averages>,
    from: Arc<Prepared>,
}

impl Set {
    /// Those of a plan that nobody has taken, for queues with room for this number of bytes.
    fn take(from: &Arc<Prepared>, queue_room: u64) -> Option<Self> {
        let Registers { links, set } = from.registers.as_ref()?;
        let mut registers = set.take()?;
        registers.set_queue_room(queue_room);
        Some(Self { links: *links, registers, from: from.clone() })
    }

    fn give_back(self) {
        if let Some(home) = &self.from.registers {
            home.set.store(Some(self.registers));
        }
    }
}

impl Ports {
    /// Has a set for the links of each of these plans, at most [`PLANS`], and no other. Those that
    /// were there go on.
    pub fn keep<'a>(&mut self, plans: impl Iterator<Item = &'a Arc<Prepared>> + Clone) {
        let asks = |links: Links| plans.clone().any(|plan| plan.links() == Some(links));
        while let Some(place) = self.sets.iter().position(|set| !asks(set.links)) {
            self.sets.swap_remove(place).give_back();
        }
        for plan in plans {
            let is_there = self.sets.iter().any(|set| plan.links() == Some(set.links));
            if !is_there && !self.sets.is_full() {
                self.sets.extend(Set::take(plan, self.queue_room));
            }
        }
    }

    /// The queue of each port has room for this number of bytes.
    pub fn set_queue_room(&mut self, bytes: u64) {
        self.queue_room = bytes;
        self.sets.iter_mut().for_each(|set| set.registers.set_queue_room(bytes));
    }

    /// How full queues are says how many bytes wait.
    pub fn knows_queues(&self) -> bool {
        self.queue_room > 0
    }

    /// No plan asks for utilisations.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The utilisation of the link that a packet leaves by, with the packet, in the unit of these
    /// links' filter. 0 for a packet that does not leave.
    #[inline(always)]
    pub fn packet(&mut self, phv: &Phv, of: Option<Links>) -> u32 {
        self.each(phv, of, Averages::packet)
    }

    /// As [`Self::packet`], and tells of each access to a register.
    pub fn trace(&mut self, phv: &Phv, of: Option<Links>, probe: &mut dyn Probe) -> u32 {
        self.each(phv, of, |set, meta| set.trace(meta, probe))
    }

    /// Takes a packet through every set.
    #[inline(always)]
    fn each(&mut self, phv: &Phv, of: Option<Links>, mut through: impl FnMut(&mut Averages, &mut Meta)) -> u32 {
        let mut utilisation = 0;
        if phv.disposition.leaves() {
            for Set { links, registers, .. } in &mut self.sets {
                let mut meta = meta(phv);
                through(registers, &mut meta);
                if of == Some(*links) {
                    utilisation = meta.utilisation;
                }
            }
        }
        utilisation
    }

    /// Zeroed registers for [`Self::copy_to`], where there are any.
    pub fn zeroed(&self) -> Option<Memory> {
        self.sets.first().map(|set| set.registers.zeroed())
    }

    /// Copies the registers of [`Self::usage`].
    pub fn copy_to(&self, memory: &mut Memory) {
        if let Some(set) = self.sets.first() {
            set.registers.copy_to(memory);
        }
    }

    /// The eight stages, where there are any.
    pub fn usage(&self) -> Option<Vec<StageUse>> {
        self.sets.first().map(|set| set.registers.usage())
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
        queue: phv.queue_used.into(),
        ..Meta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::pint::Config;

    fn plan(queries: &str, allocated: bool) -> Arc<Prepared> {
        let config = Config { queries: queries.parse().unwrap(), ..Config::default() };
        Arc::new(Prepared::new(&config.parameters(), &HashFamily::reproducible(1), "s", allocated))
    }

    /// Links of one rate have one set of registers, which goes on as other plans come and go; links
    /// of another rate have their own utilisation. All are those that plans brought, and go back to
    /// them.
    #[test]
    fn registers_go_on_while_plans_change() {
        let [slow, fast] = ["utilisation:rate=100Mbps:period=1ms", "utilisation:rate=200Mbps:period=1ms"];
        let packet = |ports: &mut Ports, number: u64, plan: &Arc<Prepared>| {
            let egress_ns = 120_000 * number;
            let phv = Phv { disposition: Disposition::ToHost, wire_bytes: 750, egress_ns, ..Phv::default() };
            let found = f64::from(ports.packet(&phv, plan.links())) / f64::from(1 << 24);
            assert_eq!(ports.packet(&Phv { disposition: Disposition::Ended, ..phv }, plan.links()), 0);
            found
        };
        let (mut ports, empty) = (Ports::default(), plan(slow, false));
        ports.keep([&empty].into_iter());
        assert_eq!(packet(&mut ports, 1, &empty), 0.0, "without memory");
        ports.keep([].into_iter());
        let [slow, again, fast, path] = [slow, slow, fast, "path"].map(|queries| plan(queries, true));
        let has = |plan: &Arc<Prepared>| {
            let set = plan.registers.as_ref().and_then(|registers| registers.set.take());
            let here = set.as_ref().map(|set| std::ptr::from_ref(&**set));
            plan.registers.as_ref().unwrap().set.store(set);
            here
        };
        let made = [&slow, &again, &fast].map(has);
        ports.keep([&slow].into_iter());
        assert_eq!([has(&slow), has(&again)], [None, made[1]]);
        // 750 bytes each 120 µs are 50 Mbit/s.
        let at = |found: f64, share: f64| assert!((found / share - 1.0).abs() < 0.1, "{found}, not {share}");
        at((2..100).map(|number| packet(&mut ports, number, &slow)).last().unwrap(), 0.5);
        ports.keep([&slow, &fast, &again].into_iter());
        let in_use: Vec<_> = ports.sets.iter().map(|set| Some(std::ptr::from_ref(&*set.registers))).collect();
        assert_eq!(in_use, [made[0], made[2]]);
        at(packet(&mut ports, 100, &slow), 0.5);
        at((101..200).map(|number| packet(&mut ports, number, &fast)).last().unwrap(), 0.25);
        ports.keep([&fast, &path].into_iter());
        at(packet(&mut ports, 200, &fast), 0.25);
        assert_eq!((ports.sets.len(), packet(&mut ports, 201, &slow)), (1, 0.0));
        ports.keep([&path].into_iter());
        assert!(ports.is_empty() && ports.usage().is_none());
        assert_eq!([&slow, &again, &fast].map(has), made);
    }
}
