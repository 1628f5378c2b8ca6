//! The program as the switch holds it: packets that come in are counted in ingress, those that leave in
//! egress, both under the epoch that the packet carries.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::apart::Apart;
use super::dataplane::{Balance, Count, Hop, Own};
use super::hashes::Hashes;
use super::record::{Counted, HopRecord, Shape};
use crate::pisa::{
    Array, ArrayCells, BATCH, Banked, BatchOrder, Disposition, DropAt, DropReason, Layout, Phv, Pipeline, PortId,
    Probe, Registers, Side, Slot, Stage, StageUse,
};
use crate::program::{AnyRecord, Bank, Dataplane, Needs};
use crate::wire::{Fragment, Net, shim};

/// No epoch: no packet carries it.
const CLOSED: u32 = u32::MAX;

/// Fields of packets that are read beside the key.
const READS: &[&str] =
    &["ip.version", "ip.fragment", "phv.ingress", "phv.egress", "phv.disposition", "phv.made", "shim.epoch"];

/// Hop counters in one switch.
pub struct HopReplica {
    shape: Arc<Shape>,
    places: Places,
    /// Rows by port, twice: for packets of even epochs, and for those of odd ones. Both arrays rotate a
    /// transit time after their epoch.
    received: Stage<Array<Count>>,
    sent: Stage<Array<Count>>,
    /// By group, twice as well.
    balance: Stage<Array<Balance>>,
    /// The epoch that is counted under each bit, as packets carry it.
    open: [u32; 2],
    epoch: Option<u64>,
    bit: bool,
    apart: Apart,
    /// Room for a batch: hashes of flows, and counters at ports.
    hashes: Box<[u32; BATCH]>,
    slots: Box<[Slot; BATCH]>,
    /// The packets that ingress stages saw last whose hashes are there.
    hashed: usize,
}

/// The counter of a packet that has none: behind all of them.
const NOWHERE: Slot = Slot(u32::MAX);

/// Where the counters of a packet stand.
#[derive(Clone, Copy, Debug)]
struct Places {
    ports: u32,
    /// Binary logarithm of the number of groups.
    bits: u32,
    /// First row of odd epochs.
    odd: u32,
}

impl Places {
    fn new(ports: u32, groups: u32) -> Self {
        Self { ports, bits: groups.ilog2(), odd: ports * groups }
    }

    #[inline(always)]
    fn group(self, hash: u32) -> u32 {
        // In two steps: there may be one group.
        (hash >> 1) >> (u32::BITS - 1 - self.bits)
    }

    /// Whether there is a row for packets of this epoch at this port, where these epochs are open.
    #[inline(always)]
    fn has(self, open: [u32; 2], epoch: u32, port: PortId) -> bool {
        (open[usize::from(epoch & 1 == 1)] == epoch) & (u32::from(port) < self.ports)
    }

    #[inline(always)]
    fn of_port(self, odd: bool, port: PortId, hash: u32) -> u32 {
        let half = if odd { self.odd } else { 0 };
        half + (u32::from(port) << self.bits) + self.group(hash)
    }

    #[inline(always)]
    fn of_switch(self, odd: bool, hash: u32) -> u32 {
        (u32::from(odd) << self.bits) + self.group(hash)
    }
}

/// The epoch that a packet carries, and the port by which it came in or `LEAVES`.
#[inline(always)]
fn epoch_and_port<const LEAVES: bool>(phv: &Phv) -> (u32, PortId) {
    (phv.shim.epoch(), if LEAVES { phv.egress } else { phv.ingress })
}

/// The epoch and the port of all packets of a batch, where these are the same, and all packets are IPv4 and no
/// fragments; where they `LEAVES`, all are sent, and none was made here.
#[inline(always)]
fn alike<const LEAVES: bool>(phvs: &[Phv]) -> Option<(u32, PortId)> {
    let first = phvs.first()?;
    let (epoch, port) = epoch_and_port::<LEAVES>(first);
    // Any bits in which a packet differs from one that is so.
    let mut differ = 0;
    for phv in phvs {
        let (of_epoch, of_port) = epoch_and_port::<LEAVES>(phv);
        let kind = (phv.headers.net as u8 ^ Net::Ipv4 as u8) | (phv.headers.fragment as u8 ^ Fragment::Whole as u8);
        let way = (phv.disposition as u8 ^ first.disposition as u8) | u8::from(phv.is_made());
        differ |= (of_epoch ^ epoch) | u32::from(of_port ^ port) | u32::from(if LEAVES { kind | way } else { kind });
    }
    (differ == 0 && (!LEAVES || is_sent(first))).then_some((epoch, port))
}

/// Whether a packet is counted at each hop: IP packets that are no fragments have the same five-tuple in
/// all switches.
#[inline(always)]
fn is_counted(phv: &Phv) -> bool {
    (phv.headers.net != Net::Other) & (phv.headers.fragment == Fragment::Whole)
}

impl HopReplica {
    pub fn new(shape: Arc<Shape>) -> Self {
        let (ports, groups) = (shape.config.rows(), shape.config.groups());
        let source = || Hashes::source(groups);
        let row = |name| Stage(Array::planned(name, Count, 2 * ports * groups).at(source()));
        Self {
            places: Places::new(ports, groups),
            received: row("received"),
            sent: row("sent"),
            balance: Stage(Array::planned("balance", Balance, 2 * groups).at(source())),
            open: [0, 1],
            epoch: None,
            bit: false,
            apart: Apart::new(ports),
            hashes: Box::new([0; BATCH]),
            slots: Box::new([NOWHERE; BATCH]),
            hashed: 0,
            shape,
        }
    }

    /// The counter of a packet at a port; `None` of one whose epoch is not counted now, or that has no row.
    #[inline(always)]
    fn counter(&mut self, phv: &Phv, leaves: bool, hash: u32) -> Option<Hop> {
        let (epoch, port) = (phv.shim.epoch(), if leaves { phv.egress } else { phv.ingress });
        if self.places.has(self.open, epoch, port) {
            return Some(Hop { slot: self.places.of_port(epoch & 1 == 1, port, hash) });
        }
        self.count_apart(epoch, leaves, port);
        None
    }

    #[cold]
    fn count_apart(&mut self, epoch: u32, leaves: bool, port: PortId) {
        if u32::from(port) < self.places.ports {
            self.apart.count_late(epoch, leaves, port);
        } else {
            self.apart.elsewhere += 1;
        }
    }

    /// The balance's cell of a packet that ends here, or was made here.
    #[cold]
    fn own(&mut self, phv: &Phv, ends: bool, hash: u32) -> Option<Own> {
        let epoch = phv.shim.epoch();
        let odd = epoch & 1 == 1;
        if self.open[usize::from(odd)] != epoch {
            // Under the port behind the last one: what ends stands among those that left.
            self.apart.count_late(epoch, ends, self.places.ports as PortId);
            return None;
        }
        Some(Own { slot: self.places.of_switch(odd, hash), ends })
    }

    /// Finds the counters of at most a batch of packets at the ports by which they came in or `LEAVES`, as
    /// [`Self::counter`] does for one. Whether nothing else is to be counted of any of them.
    #[inline(always)]
    fn locate<const LEAVES: bool>(&mut self, phvs: &[Phv], are_hashed: bool) -> bool {
        let Self { shape, open, hashes, slots, .. } = self;
        let places = self.places;
        // Nearly always they are alike, and their counters stand in one row.
        if let Some((epoch, port)) = alike::<LEAVES>(phvs)
            && places.has(*open, epoch, port)
        {
            if !are_hashed {
                shape.hashes.of_ipv4(phvs, hashes);
            }
            for (slot, hash) in slots.iter_mut().zip(hashes.iter()) {
                *slot = Slot(places.of_port(epoch & 1 == 1, port, *hash));
            }
            return true;
        }
        if !are_hashed {
            shape.hashes.of_batch(phvs, hashes);
        }
        let mut are_plain = true;
        for (slot, (phv, hash)) in slots.iter_mut().zip(phvs.iter().zip(hashes.iter())) {
            let (epoch, port) = epoch_and_port::<LEAVES>(phv);
            let is_there = is_counted(phv) & places.has(*open, epoch, port) & (!LEAVES | is_sent(phv));
            *slot = Slot(places.of_port(epoch & 1 == 1, port, *hash) | u32::from(is_there).wrapping_sub(1));
            are_plain &= is_there & !(LEAVES & phv.is_made());
        }
        are_plain
    }

    /// Counts at most a batch of packets that leave.
    #[inline(always)]
    fn leave(&mut self, phvs: &[Phv], are_hashed: bool, order: BatchOrder) {
        let are_plain = self.locate::<true>(phvs, are_hashed);
        self.sent.with_slots(&self.slots[..phvs.len()], &Hop::default(), &mut [(); BATCH]);
        if !are_plain {
            self.leave_others(phvs, order);
        }
    }

    /// Counts what is to be counted of packets that came in and have no counter.
    #[cold]
    fn enter_others(&mut self, phvs: &[Phv]) {
        for (place, phv) in phvs.iter().enumerate().take(BATCH) {
            if is_counted(phv) && self.slots[place] == NOWHERE {
                self.count_apart(phv.shim.epoch(), false, phv.ingress);
            }
        }
    }

    /// Counts what is to be counted, beside their counters, of packets that leave, end here, or were made here.
    #[cold]
    fn leave_others(&mut self, phvs: &[Phv], order: BatchOrder) {
        let mut own = ArrayVec::<Own, BATCH>::new();
        for (place, phv) in phvs.iter().enumerate().take(BATCH).filter(|(_, phv)| is_counted(phv)) {
            let leaves = is_sent(phv);
            if leaves && self.slots[place] == NOWHERE {
                self.count_apart(phv.shim.epoch(), true, phv.egress);
            }
            let hash = self.hashes[place & (BATCH - 1)];
            if phv.is_made() == leaves
                && phv.disposition != Disposition::Lost
                && let Some(one) = self.own(phv, !phv.is_made(), hash)
            {
                let _ = own.try_push(one);
            }
        }
        self.balance.run(&mut own, order);
    }
}

/// Whether the next switch, or a host, counts the packet with its epoch.
#[inline(always)]
fn is_sent(phv: &Phv) -> bool {
    matches!(phv.disposition, Disposition::ToHost | Disposition::ToFabric)
}

impl Dataplane for HopReplica {
    #[inline(always)]
    fn ingress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.hashed = if phvs.len() <= BATCH { phvs.len() } else { 0 };
        // Each packet has one counter, so the order of the stages is of no meaning.
        for phvs in phvs.chunks(BATCH) {
            let are_plain = self.locate::<false>(phvs, false);
            self.received.with_slots(&self.slots[..phvs.len()], &Hop::default(), &mut [(); BATCH]);
            if !are_plain {
                self.enter_others(phvs);
            }
        }
    }

    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        self.hashed = 0;
        let hash = self.shape.hashes.of_headers(&phv.headers);
        if is_counted(phv)
            && let Some(mut hop) = self.counter(phv, false, hash)
        {
            self.received.trace(&mut hop, probe);
        }
    }

    fn needs(&self) -> Needs {
        Needs::ENDS | Needs::TRANSIT | Needs::DROPS
    }

    #[inline(always)]
    fn egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.hashed = 0;
        for phvs in phvs.chunks(BATCH) {
            self.leave(phvs, false, order);
        }
    }

    #[inline(always)]
    fn egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        if phvs.len() > self.hashed {
            return self.run_egress(phvs, order);
        }
        debug_assert!(
            phvs.iter()
                .zip(&*self.hashes)
                .all(|(phv, hash)| !is_counted(phv) || *hash == self.shape.hashes.of_headers(&phv.headers)),
            "these are other packets than entered"
        );
        self.leave(phvs, true, order);
    }

    fn trace_egress(&mut self, phv: &mut Phv, probe: &mut dyn Probe) {
        if !is_counted(phv) {
            return;
        }
        let (hash, leaves) = (self.shape.hashes.of_headers(&phv.headers), is_sent(phv));
        if leaves && let Some(mut hop) = self.counter(phv, true, hash) {
            self.sent.trace(&mut hop, probe);
        }
        if phv.is_made() == leaves
            && let Some(mut own) = self.own(phv, !phv.is_made(), hash)
        {
            self.balance.trace(&mut own, probe);
        }
    }

    fn dropped(&mut self, phv: &Phv, reason: DropReason, at: DropAt) {
        let epoch = phv.shim.epoch();
        let port = if at == DropAt::Behind { phv.egress } else { phv.ingress };
        let odd = epoch & 1 == 1;
        // A fault on purpose stands for a loss that no switch knows of.
        if reason == DropReason::Fault {
            return;
        }
        if is_counted(phv) && self.places.has(self.open, epoch, port) {
            self.apart.count_drop(odd, at, port, reason);
        }
    }

    fn count_ambiguous(&mut self, epoch: u64, packets: u64) {
        if packets > 0 {
            self.apart.strays.count(shim::epoch_of(epoch), packets);
        }
    }

    fn prepare(&mut self, epoch: u64) {
        self.open[usize::from(epoch & 1 == 1)] = shim::epoch_of(epoch);
    }

    fn enter(&mut self, epoch: u64, _: bool) {
        self.prepare(epoch);
        self.bit = epoch & 1 == 1;
        if self.epoch.is_none_or(|last| last + 1 != epoch) {
            self.open[usize::from(!self.bit)] = CLOSED;
        }
        self.epoch = Some(epoch);
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(HopBank {
            received: self.received.zeroed(),
            sent: self.sent.zeroed(),
            balance: self.balance.zeroed(),
            apart: Apart::new(self.places.ports),
            shape: self.shape.clone(),
            bit: false,
        })
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<HopBank>() {
            spare.bit = self.bit;
        }
    }

    /// Packets that come in may be of the epoch before as well, so their rows rotate here too.
    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        if let Some(spare) = spare.get_mut::<HopBank>() {
            self.received.exchange(&mut spare.received);
            self.sent.exchange(&mut spare.sent);
            self.balance.exchange(&mut spare.balance);
            std::mem::swap(&mut spare.apart, &mut self.apart);
            if self.epoch.is_some() {
                self.open[usize::from(!self.bit)] = CLOSED;
            }
        }
    }

    fn layout(&self) -> Layout {
        let groups = self.shape.config.groups();
        let mut ingress = Vec::from(Hashes::usage(groups));
        self.received.usage(&mut ingress);
        let mut egress = Vec::new();
        self.sent.usage(&mut egress);
        let mut balance = Vec::new();
        self.balance.usage(&mut balance);
        let egress =
            egress.into_iter().zip(balance).map(|(sent, balance)| sent.beside(balance)).collect::<Vec<StageUse>>();
        let layout = Layout::new("hopcounters").with(Side::Ingress, ingress).with(Side::Egress, egress);
        Layout { other_hashes: vec![Hashes::of_ipv6(groups)], reads: READS.into(), ..layout }
    }
}

/// The registers of one replica over one epoch.
struct HopBank {
    received: Registers<u32>,
    sent: Registers<u32>,
    balance: Registers<u32>,
    apart: Apart,
    shape: Arc<Shape>,
    bit: bool,
}

impl HopBank {
    /// The packets of the epochs with this lowest bit.
    fn counted(&self, odd: bool) -> Counted {
        let half = |registers: &Registers<u32>| -> Box<[u32]> {
            let cells = registers.cells();
            let (even, of_odd) = cells.split_at(cells.len() / 2);
            if odd { of_odd.into() } else { even.into() }
        };
        Counted {
            groups: self.shape.config.groups(),
            received: half(&self.received),
            sent: half(&self.sent),
            balance: half(&self.balance).iter().map(|balance| *balance as i32).collect(),
            drops: self.apart.drops(odd),
        }
    }
}

impl Bank for HopBank {
    fn clear(&mut self) {
        self.received.clear();
        self.sent.clear();
        self.balance.clear();
        self.apart.clear();
    }

    fn record(&self) -> AnyRecord {
        Box::new(HopRecord {
            shape: self.shape.clone(),
            counted: self.counted(self.bit),
            next: Some(self.counted(!self.bit)),
            late: self.apart.late(),
            strays: self.apart.read_strays(),
            elsewhere: self.apart.elsewhere,
        })
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        vec![self.received.read(), self.sent.read(), self.balance.read()]
    }
}
