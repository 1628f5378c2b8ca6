//! The switch: one function, [`Switch::process`], takes a burst from a port to the ports it goes
//! to.
//!
//! It does no I/O and reads no clock. The DPDK worker, the replayer and the simulated network call
//! it alike.

mod admit;
mod deparse;
mod egress;
mod features;
mod ingress;
mod inner;
mod parts;
mod replicate;
mod observed;
mod telemetry;
mod timed;
mod unsent;
mod waited;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arrayvec::ArrayVec;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forward::policy::Policy;
use crate::forward::{Finished, Forward, route};
use crate::observe::{Observer, Observers, Unobserved, WorkerObservers};
use crate::pisa::{BatchOrder, DropAt, DropReason, Phv, PortId, Verdict, Wide, wide_to_avx2};
use crate::program::Needs;
use crate::stats::SwitchStats;
use crate::telemetry::epoch::Nanos;
use crate::text::named;
use crate::trace::SplitMix64;
use crate::wire::Frame;

use egress::Exit;
pub use parts::Parts;
use replicate::Exits;
pub use telemetry::Telemetry;

pub use crate::wire::BURST;
use crate::wire::L2_OVERHEAD;

const _: () = assert!(BURST <= u64::BITS as usize && route::MAX_FRAGMENTS <= BURST);

/// Packets from one port, or for one port.
pub type Burst<F> = ArrayVec<F, BURST>;

/// Bursts of fewer packets are moved packet by packet: an exchange of two bursts copies all the room that they have.
const FEW: usize = 8;

/// Moves a burst into the queue of a port. Returns the number of packets that the queue has no room for; they are freed.
#[inline(always)]
fn enqueue<F: Frame>(queue: &mut Burst<F>, burst: &mut Burst<F>) -> usize {
    if queue.is_empty() && burst.len() >= FEW {
        std::mem::swap(queue, burst);
        return 0;
    }
    burst.drain(..).filter_map(|frame| queue.try_push(frame).err()).count()
}

/// Copies for mirrors at most of a burst.
const COPIES: usize = 4 * BURST;

named! {
    /// What stands at the other end of a port.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// A host: it never sees a telemetry shim.
        #[default]
        Host = "host",
        /// Another weir: packets carry the shim.
        Fabric = "fabric",
    }
}

named! {
    /// What carries a packet's class and epoch bit from switch to switch. All switches of a network
    /// have the same.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
    #[serde(rename_all = "lowercase")]
    pub enum TelemetryHeader {
        /// A header of its own, the telemetry shim.
        #[default]
        Shim = "shim",
        /// Three bits of the packet's own IP header, as in ChameleMon's paper.
        Dscp = "dscp",
    }
}

named! {
    /// The headers that name a packet's flow. All switches of a network have the same.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
    #[serde(rename_all = "lowercase")]
    pub enum KeyHeaders {
        /// The first IP header, also of a tunnel's packets.
        #[default]
        Outer = "outer",
        /// Those of the packet inside, of a tunnel's packets.
        Inner = "inner",
    }
}

/// A port as the switch sees it.
#[derive(Clone, Debug)]
pub struct PortInfo {
    pub role: Role,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Whether packets may leave here; the control side writes it.
    pub up: Arc<AtomicBool>,
    /// The switch's own MAC where it routes, in the low 48 bits; the control side writes it.
    pub mac: Arc<AtomicU64>,
    /// A fault inside the switch: of 2³² packets that come in by the port this number is lost. The control
    /// side writes it.
    pub inside: Arc<AtomicU64>,
}

impl PortInfo {
    /// What stands in the slot of a port that was removed: nothing can leave by it.
    pub fn vacant() -> Self {
        let (up, mac) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        Self { role: Role::Host, mtu: 0, up, mac, inside: Arc::default() }
    }

    fn is_vacant(&self) -> bool {
        self.mtu == 0
    }
}

/// What waits for a port behind the queue of a burst, where the driver of the switch knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    packets: u32,
    /// The share of the queue's room that these take, and the one that a packet takes, in units of
    /// 2⁻¹⁶.
    used: u32,
    of_packet: u32,
    /// 1 where packets of a burst wait for each other, else 0.
    of_burst: u32,
}

impl Backlog {
    /// There is no queue: packets of a burst are together in it by chance.
    pub const NONE: Self = Self::of_share(0, 0);

    /// So many packets in a queue with room for so many. Those of the burst wait behind them.
    pub fn new(packets: u32, room: u32) -> Self {
        let of_packet = (1 << 16) / room.max(1);
        Self { packets, used: packets.saturating_mul(of_packet), of_packet, of_burst: 1 }
    }

    /// So many packets, and the share of the queue's room that they take, in units of 2⁻¹⁶, of
    /// packets that come one by one.
    pub const fn of_share(packets: u32, used: u32) -> Self {
        Self { packets, used, of_packet: 0, of_burst: 0 }
    }
}

/// Nothing waits: the queue is that of the burst.
impl Default for Backlog {
    fn default() -> Self {
        Self::new(0, BURST as u32)
    }
}

/// Where the packets of a burst go: a queue for each port, with room for one burst.
pub struct TxBursts<F> {
    queues: Vec<Burst<F>>,
    /// What the driver of the switch knows of the queues behind these.
    backlogs: Vec<Backlog>,
    /// Copies for mirror ports, which come behind all originals. It never grows.
    copies: Vec<(PortId, F)>,
}

impl<F> TxBursts<F> {
    pub fn new(ports: usize) -> Self {
        let queues = (0..ports).map(|_| ArrayVec::new()).collect();
        Self { queues, backlogs: vec![Backlog::default(); ports], copies: Vec::with_capacity(COPIES) }
    }

    /// Of a switch whose packets wait for nothing, unless [`Self::set_backlog`] says otherwise.
    pub fn without_queues(ports: usize) -> Self {
        Self { backlogs: vec![Backlog::NONE; ports], ..Self::new(ports) }
    }

    /// Sets what waits for a port before the next burst is processed. It stays until it is set anew.
    #[inline(always)]
    pub fn set_backlog(&mut self, port: PortId, backlog: Backlog) {
        if let Some(known) = self.backlogs.get_mut(usize::from(port)) {
            *known = backlog;
        }
    }

    /// The packets ahead of one that was admitted, and the share of the queue's room that they take,
    /// in units of 2⁻¹⁶.
    #[inline(always)]
    fn ahead(&self, exit: &Exit) -> (u16, u16) {
        let backlog = self.backlogs.get(usize::from(exit.port())).copied();
        let Backlog { packets, used, of_packet, of_burst } = backlog.unwrap_or_default();
        let slot = exit.slot() as u32 * of_burst;
        let at_most = |number: u32| number.min(u16::MAX.into()) as u16;
        (at_most(packets.saturating_add(slot)), at_most(used.saturating_add(slot.saturating_mul(of_packet))))
    }

    /// The queues, to be emptied before the next burst is processed.
    pub fn queues(&mut self) -> impl Iterator<Item = (PortId, &mut Burst<F>)> {
        (0..).zip(&mut self.queues).filter(|(_, queue)| !queue.is_empty())
    }

    /// The frame of a packet that was admitted in this burst.
    fn waiting(&self, exit: &Exit) -> Option<&F> {
        let queue = self.queues.get(usize::from(exit.port())).filter(|_| exit.disposition().leaves())?;
        queue.get(exit.slot())
    }

    /// The frames of the packets with these exits, where they stand in one queue from its front on, in order.
    #[inline(always)]
    fn in_order(&self, exits: &[Exit]) -> Option<&[F]> {
        let first = exits.first()?;
        let mut are_in_order = first.disposition().leaves();
        for (slot, exit) in exits.iter().enumerate() {
            are_in_order &= *exit == Exit::new(first.port(), slot, first.disposition());
        }
        let queue = self.queues.get(usize::from(first.port())).filter(|_| are_in_order)?;
        queue.get(..exits.len())
    }

    #[inline(always)]
    fn waiting_mut(&mut self, exit: &Exit) -> Option<&mut F> {
        self.queues.get_mut(usize::from(exit.port()))?.get_mut(exit.slot())
    }
}

/// One core's replica of the switch.
pub struct Switch {
    ports: Vec<PortInfo>,
    telemetry: Telemetry,
    forward: Forward,
    order: BatchOrder,
    stats: Arc<SwitchStats>,
    phvs: Box<[Phv; BURST]>,
    /// What the plain packets of a burst begin with.
    begun: Box<Phv>,
    /// Place for PHVs of copies and fragments that egress stages are to see.
    later: Box<[Phv; BURST]>,
    /// Some port is a fabric port, so shims are looked for.
    fabric: bool,
    header: TelemetryHeader,
    policy: Policy,
    /// Something is set on ports.
    features: bool,
    /// Frames may be changed on their way out: shims or VLAN tags.
    rewrites: bool,
    observers: WorkerObservers,
    /// Learn digests that were lost, and messages that were suppressed, before `forward` came.
    lost_before: u64,
    suppressed_before: u64,
    /// Packets that are taken from a burst at once.
    max_burst: usize,
    /// Random numbers of faults inside the switch.
    chance: SplitMix64,
}

impl Switch {
    pub fn new(ports: Vec<PortInfo>, telemetry: Telemetry, forward: Forward, order: BatchOrder) -> Self {
        let (fabric, max_burst) = (has_fabric(&ports), max_burst(&forward, &ports));
        let stats = Arc::new(SwitchStats::default());
        let phvs = Box::new([Phv::default(); BURST]);
        Self {
            ports,
            telemetry,
            forward,
            order,
            stats,
            phvs,
            begun: Box::default(),
            later: Box::new([Phv::default(); BURST]),
            fabric,
            header: TelemetryHeader::default(),
            policy: Policy::default(),
            features: false,
            rewrites: fabric,
            observers: Observers::default().of_worker(),
            lost_before: 0,
            suppressed_before: 0,
            max_burst,
            chance: SplitMix64::new(1),
        }
    }

    /// With what an operator sets on its ports.
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// With this between it and other switches.
    pub fn with_telemetry_header(self, header: TelemetryHeader) -> Self {
        Self { header, ..self }
    }

    /// Lets the observers that are opened there look at this replica's packets.
    pub fn attach(&mut self, observers: &Observers) {
        self.observers = observers.of_worker();
    }

    /// Where a driver shows what a port did not take.
    pub fn observers(&mut self) -> &mut WorkerObservers {
        &mut self.observers
    }

    /// Changes what is there of `parts` for what was in use; the counters go on. To be called
    /// between two bursts. Allocates and frees nothing: whoever made the parts drops what comes
    /// back, and [finishes](Telemetry::finish) telemetry.
    pub fn exchange(&mut self, parts: &mut Parts) {
        if let Some(ports) = &mut parts.ports {
            self.fabric = has_fabric(ports);
            std::mem::swap(&mut self.ports, ports);
        }
        if let Some(forward) = &mut parts.forward {
            self.lost_before = self.stats.lost_learn_digests.get();
            self.suppressed_before = self.stats.suppressed_messages.get();
            std::mem::swap(&mut self.forward, forward);
        }
        self.max_burst = max_burst(&self.forward, &self.ports);
        if let Some(order) = &mut parts.order {
            std::mem::swap(&mut self.order, order);
        }
        if let Some(telemetry) = &mut parts.telemetry {
            telemetry.clock.set_behind(self.telemetry.clock.behind());
            std::mem::swap(&mut self.telemetry, telemetry);
        }
    }

    /// The clock that counts epochs is behind the one that the switch is driven by; see
    /// [`EpochClock::set_behind`].
    ///
    /// [`EpochClock::set_behind`]: crate::telemetry::epoch::EpochClock::set_behind
    pub fn set_behind(&mut self, behind: Nanos) {
        self.telemetry.clock.set_behind(behind);
    }

    /// Whether a program needs to know what waits for ports ([`TxBursts::set_backlog`]).
    #[inline(always)]
    pub fn needs_queues(&self) -> bool {
        self.telemetry.needs.contains(Needs::QUEUE_DEPTH)
    }

    /// The queue of each port has room for this number of bytes. To be called before the switch is
    /// driven, by a driver that knows it.
    pub fn set_queue_room(&mut self, bytes: u64) {
        self.telemetry.set_queue_room(bytes);
    }

    /// Hosts read the digests of packets that they receive ([`Frame::take_digest`]). To be called before
    /// the switch is driven, by a driver whose hosts do.
    pub fn read_digests(&mut self) {
        self.telemetry.read_digests();
    }

    /// The epoch that is running.
    pub fn epoch(&self) -> u64 {
        self.telemetry.clock.running()
    }

    /// When the next epoch, sub-epoch or transit time ends, so that a burst has packets of one
    /// time.
    pub fn due(&self) -> Nanos {
        self.telemetry.clock.due()
    }

    /// Whether more than programs depends on the time of a burst: forwarding that learns, and rate
    /// limits. Programs have the times of packets ([`Frame::at_ns`]).
    #[inline]
    pub fn reads_time(&mut self) -> bool {
        self.renew_policy();
        !matches!(self.forward, Forward::Xconnect(_)) || self.policy.settings().limits.is_some()
    }

    pub fn stats(&self) -> &Arc<SwitchStats> {
        &self.stats
    }

    /// Takes a burst that came in by `ingress` at `now` to the queues of `out`, which must be
    /// empty. Every packet ends in a queue or is counted under a
    /// [`DropReason`]. A router that may have to fragment packets takes
    /// only as many from the front as there is room for in fragments: what is left in the burst is
    /// for the next call.
    #[inline]
    pub fn process<F: Frame>(&mut self, ingress: PortId, burst: &mut Burst<F>, now: Nanos, out: &mut TxBursts<F>) {
        self.tick(now);
        if usize::from(ingress) >= self.ports.len() || burst.is_empty() {
            burst.clear();
            return;
        }
        if burst.len() > self.max_burst {
            return self.process_some(ingress, burst, now, out);
        }
        self.renew_policy();
        if self.observers.is_open() {
            return self.observed(ingress, burst, now, out);
        }
        wide_to_avx2(Forwarded { switch: self, ingress, burst, now, out });
        if self.features {
            self.egress_features(now, out);
        }
    }

    #[cold]
    fn process_some<F: Frame>(&mut self, ingress: PortId, burst: &mut Burst<F>, now: Nanos, out: &mut TxBursts<F>) {
        let mut first = burst.drain(..self.max_burst).collect();
        self.process(ingress, &mut first, now, out);
    }

    /// The dataplane. Queues of `out` may hold packets of the same burst from before.
    #[inline(always)]
    fn forward_burst<F: Frame, W: Observer>(
        &mut self,
        ingress: PortId,
        burst: &mut Burst<F>,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) {
        self.stats.port(ingress).rx_packets.add(burst.len() as u64);
        let features = self.features;
        // With one way for all packets of a port there is no need to look at each.
        let fault = self.ports[usize::from(ingress)].inside.load(Relaxed);
        let looks = self.fabric | self.telemetry.egress | features | (fault > 0);
        let fixed = if looks { None } else { self.forward.fixed(ingress) };
        if let (Some(verdict), true) = (fixed, self.telemetry.programs.is_empty()) {
            watch.fixed(&mut self.forward, ingress);
            self.count_bytes(ingress, burst);
            return self.move_whole(ingress, burst, verdict, out);
        }
        self.parse(ingress, burst);
        if features {
            self.ingress_features(ingress, burst, now, out, watch);
        }
        let phvs = &mut self.phvs[..burst.len()];
        if self.telemetry.draws {
            self.telemetry.draw(phvs);
        }
        if let Some(inner) = &mut self.telemetry.inner {
            inner.show(phvs);
        }
        for program in &mut self.telemetry.programs {
            watch.program(program.as_mut(), phvs, self.order);
        }
        if let Some(inner) = &self.telemetry.inner {
            inner.hide(phvs);
        }
        if let Some(verdict) = fixed {
            if !burst.is_empty() {
                watch.fixed(&mut self.forward, ingress);
            }
            return self.move_whole(ingress, burst, verdict, out);
        }
        watch.decide(&mut self.forward, phvs, now);
        self.stats.lost_learn_digests.set(self.lost_before + self.forward.lost_digests());
        let routed =
            if self.forward.router().is_some() { self.rewrite(burst, now, out, watch) } else { Routed::default() };
        if fault > 0 {
            self.strike(fault, burst.len());
        }
        let is_plain = !features && fault == 0 && routed.is_none();
        let whole = if is_plain { self.whole(ingress, burst, out) } else { None };
        if let Some(way) = whole {
            return self.emit_whole(way, burst, now, out, watch);
        }
        if self.telemetry.egress {
            return self.emit_through_egress(burst, &routed, now, out, watch);
        }
        if routed.is_none() {
            match self.rewrites {
                true => self.emit_burst::<F, true>(burst, out),
                false => self.emit_burst::<F, false>(burst, out),
            }
        } else {
            for (i, frame) in burst.drain(..).enumerate() {
                self.emit_any(frame, &self.phvs[i], routed.of(i), out, &mut Exits::new());
            }
        }
    }

    /// Loses packets of a burst by chance: this number of 2³².
    #[cold]
    fn strike(&mut self, fault: u64, packets: usize) {
        for phv in &mut self.phvs[..packets] {
            if self.chance.next_u64() >> 32 < fault {
                phv.verdict = Verdict::Drop(DropReason::Fault);
            }
        }
    }

    /// Ends the epoch when `now` lies in another one, and what else the time brings. A driver calls
    /// it also when no packets come.
    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        if self.telemetry.clock.is_due(now) {
            self.telemetry.advance(now, &self.stats);
        }
    }

    /// Sends off what has been measured so far; nothing may be processed afterwards.
    pub fn finish(&mut self) {
        self.telemetry.finish(&self.stats);
    }

    /// Counts the bytes of packets that are not parsed.
    #[inline(always)]
    fn count_bytes<F: Frame>(&self, ingress: PortId, burst: &[F]) {
        let bytes = burst.iter().map(|frame| frame.wire_len() as u64).sum();
        self.stats.port(ingress).rx_bytes.add(bytes);
    }

    /// Lets the router change what it forwards and answer what it does not, and counts what it
    /// makes of its own.
    #[inline(never)]
    fn rewrite<F: Frame, W: Observer>(
        &mut self,
        burst: &mut Burst<F>,
        now: Nanos,
        out: &mut TxBursts<F>,
        watch: &mut W,
    ) -> Routed {
        let mut routed = Routed::default();
        for (i, frame) in burst.iter_mut().enumerate() {
            let Some(router) = self.forward.router() else { break };
            let phv = &mut self.phvs[i];
            let Finished { ended, extra, long } = router.finish(i, frame, phv);
            routed.long |= u64::from(long) << i;
            let (ingress, suppressed) = (phv.ingress, router.suppressed());
            let stats = self.stats.port(ingress);
            self.stats.suppressed_messages.set(self.suppressed_before + suppressed);
            if let Some(reason) = ended {
                if self.telemetry.drops && !reason.is_end() {
                    self.telemetry.dropped(phv, reason, DropAt::Inside);
                }
                stats.drop(reason, 1);
                stats.copies.add(1);
                routed.answered |= 1 << i;
                routed.arrived |= u64::from(reason.is_end()) << i;
            }
            if let Some((frame, port)) = extra {
                stats.copies.add(1);
                self.emit_made(frame, (ingress, port), now, out, watch);
            }
        }
        routed
    }
}

/// A burst that nobody observes.
struct Forwarded<'a, F> {
    switch: &'a mut Switch,
    ingress: PortId,
    burst: &'a mut Burst<F>,
    now: Nanos,
    out: &'a mut TxBursts<F>,
}

impl<F: Frame> Wide for Forwarded<'_, F> {
    #[inline(always)]
    fn run(self) {
        self.switch.forward_burst(self.ingress, self.burst, self.now, self.out, &mut Unobserved);
    }
}

/// What the router did with the packets of a burst, a bit for each.
#[derive(Default)]
struct Routed {
    /// It is to leave in fragments.
    long: u64,
    /// It has ended, and what stands in its place is none of its flow's.
    answered: u64,
    /// It has ended where it was to go.
    arrived: u64,
}

/// How many packets have room in a queue, if each has to be fragmented.
fn max_burst(forward: &Forward, ports: &[PortInfo]) -> usize {
    let mtus = || ports.iter().filter(|port| !port.is_vacant()).map(|port| port.mtu);
    match (forward, mtus().max(), mtus().min()) {
        (Forward::Route(_), Some(wide), Some(narrow)) => BURST / route::max_fragments(wide, narrow),
        _ => BURST,
    }
}

fn has_fabric(ports: &[PortInfo]) -> bool {
    ports.iter().any(|port| port.role == Role::Fabric)
}
