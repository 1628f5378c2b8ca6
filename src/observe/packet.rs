//! One packet's way, written down.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_channel::{Receiver, Sender, bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forward::Forward;
use crate::pisa::{AccessTrace, BatchOrder, DropReason, LookupTrace, Phv, PortId, Probe, Verdict};
use crate::program::{Dataplane, Needs};
use crate::telemetry::epoch::Nanos;
use crate::wire::{Filter, Flow, Headers};

/// An observer of the dataplane while a burst passes. [`Unobserved`] compiles to the bare
/// calls.
pub trait Observer {
    fn program(&mut self, program: &mut dyn Dataplane, phvs: &mut [Phv], order: BatchOrder);
    /// The egress stages of the program with this number, in the order of [`Self::program`], of packets that
    /// leave [as they entered](Dataplane::egress_as_entered) or not.
    fn egress(
        &mut self,
        number: usize,
        program: &mut dyn Dataplane,
        phvs: &mut [Phv],
        as_entered: bool,
        order: BatchOrder,
    );
    fn decide(&mut self, forward: &mut Forward, phvs: &mut [Phv], now: Nanos);
    /// The access control list is about to decide on a packet; `how` says how.
    fn acl(&mut self, how: &dyn Fn() -> Vec<LookupTrace>);
    /// All packets of the port have one verdict, so the switch need not ask.
    fn fixed(&mut self, forward: &mut Forward, ingress: PortId);
}

/// No observer.
pub struct Unobserved;

impl Observer for Unobserved {
    #[inline(always)]
    fn program(&mut self, program: &mut dyn Dataplane, phvs: &mut [Phv], order: BatchOrder) {
        program.run_ingress(phvs, order);
    }

    #[inline(always)]
    fn egress(&mut self, _: usize, program: &mut dyn Dataplane, phvs: &mut [Phv], as_entered: bool, order: BatchOrder) {
        match as_entered {
            true => program.run_egress_as_entered(phvs, order),
            false => program.run_egress(phvs, order),
        }
    }

    #[inline(always)]
    fn decide(&mut self, forward: &mut Forward, phvs: &mut [Phv], now: Nanos) {
        forward.decide(phvs, now);
    }

    #[inline(always)]
    fn acl(&mut self, _: &dyn Fn() -> Vec<LookupTrace>) {}

    #[inline(always)]
    fn fixed(&mut self, _: &mut Forward, _: PortId) {}
}

/// Writes down what happens to a burst of one packet.
#[derive(Debug, Default)]
pub struct Recorder {
    pub programs: Vec<ProgramTrace>,
    pub lookups: Vec<LookupTrace>,
    pub verdict: Option<Verdict>,
    /// The program whose egress stages the packet is in.
    leaving: Option<usize>,
}

/// The way of a packet through one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramTrace {
    pub program: String,
    /// The arrays on the packet's way, by the program's stages as the budget numbers them; none when
    /// the program does not measure it.
    pub stages: Vec<Vec<AccessTrace>>,
    /// The same of its egress stages; left out when it has none, or the packet goes to no host.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub egress_stages: Vec<Vec<AccessTrace>>,
    /// The packet's random number before ingress stages and before egress stages, where the program
    /// needs one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub draw: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub egress_draw: Option<u32>,
    /// The count of the packet's flow that the heavy-hitter program leaves in the PHV.
    pub flow_estimate: u32,
    /// That count is the largest that there is, and stands for any larger one.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub at_least: bool,
}

impl Recorder {
    /// The stages of the program that the packet is in.
    fn stages(&mut self) -> Option<&mut Vec<Vec<AccessTrace>>> {
        match self.leaving {
            None => Some(&mut self.programs.last_mut()?.stages),
            Some(program) => Some(&mut self.programs.get_mut(program)?.egress_stages),
        }
    }
}

impl Probe for Recorder {
    fn stage(&mut self) {
        if let Some(stages) = self.stages() {
            stages.push(Vec::new());
        }
    }

    fn access(&mut self, access: AccessTrace) {
        if let Some(stage) = self.stages().and_then(|stages| stages.last_mut()) {
            stage.push(access);
        }
    }

    fn lookup(&mut self, lookup: LookupTrace) {
        self.lookups.push(lookup);
    }
}

impl Observer for Recorder {
    fn program(&mut self, program: &mut dyn Dataplane, phvs: &mut [Phv], _: BatchOrder) {
        for phv in phvs {
            let layout = program.layout();
            let draw = program.needs().contains(Needs::DRAW).then_some(phv.draw());
            self.programs.push(ProgramTrace { program: layout.program.into(), draw, ..ProgramTrace::default() });
            program.trace(phv, self);
            if let Some(program) = self.programs.last_mut() {
                layout.number(&[], &mut program.stages);
                program.flow_estimate = phv.flow_estimate;
                program.at_least = phv.flow_estimate == u32::MAX;
            }
        }
    }

    fn egress(&mut self, number: usize, program: &mut dyn Dataplane, phvs: &mut [Phv], _: bool, _: BatchOrder) {
        self.leaving = Some(number);
        for phv in phvs {
            program.trace_egress(phv, self);
            if let Some(ProgramTrace { stages, egress_stages, egress_draw, .. }) = self.programs.get_mut(number) {
                program.layout().number(stages, egress_stages);
                *egress_draw = program.needs().contains(Needs::DRAW | Needs::EGRESS).then_some(phv.draw());
            }
        }
    }

    fn decide(&mut self, forward: &mut Forward, phvs: &mut [Phv], now: Nanos) {
        for phv in phvs {
            forward.trace(phv, now, self);
            self.verdict = Some(phv.verdict);
        }
    }

    fn acl(&mut self, how: &dyn Fn() -> Vec<LookupTrace>) {
        self.lookups.extend(how());
    }

    fn fixed(&mut self, forward: &mut Forward, ingress: PortId) {
        self.decide(forward, &mut [Phv { ingress, ..Phv::default() }], 0);
    }
}

/// All that happened to one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketTrace {
    pub at_ns: Nanos,
    pub ingress: PortId,
    pub wire_bytes: u32,
    /// The frame as it came in.
    pub bytes: Vec<u8>,
    /// None for a runt.
    pub headers: Option<Headers>,
    /// The flow inside a tunnel, where such flows are measured.
    pub inner: Option<Flow>,
    pub programs: Vec<ProgramTrace>,
    pub lookups: Vec<LookupTrace>,
    /// None when the packet was not let in.
    pub verdict: Option<Verdict>,
    /// Drops that were counted, of the packet or of copies of it.
    pub drops: Vec<(DropReason, u64)>,
    pub sent: Vec<SentTrace>,
}

/// A frame as it went to a port's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTrace {
    pub port: PortId,
    pub bytes: Vec<u8>,
}

/// Waits for one packet, on any worker.
#[derive(Debug)]
pub struct TraceOnce {
    filter: Filter,
    /// The port that it comes in by, or any.
    port: Option<PortId>,
    taken: AtomicBool,
    told: (Sender<PacketTrace>, Receiver<PacketTrace>),
}

impl TraceOnce {
    pub fn new(filter: Filter, port: Option<PortId>) -> Self {
        Self { filter, port, taken: AtomicBool::new(false), told: bounded(1) }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Relaxed)
    }

    pub(super) fn takes(&self, port: PortId, headers: &Headers, frame: &[u8], wire_bytes: u32) -> bool {
        self.port.is_none_or(|wanted| wanted == port)
            && !self.is_taken()
            && self.filter.matches(headers, frame, wire_bytes)
            && !self.taken.swap(true, Relaxed)
    }

    /// From the worker: the packet's trace.
    pub fn tell(&self, trace: PacketTrace) {
        // There is room for the one.
        let _ = self.told.0.try_send(trace);
    }

    /// The trace, once the packet has come.
    pub fn told(&self) -> Option<PacketTrace> {
        self.told.1.try_recv().ok()
    }
}
