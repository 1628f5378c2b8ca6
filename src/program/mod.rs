//! The telemetry programs, one directory for each paper, and what the rest of weir asks of all of
//! them.
//!
//! A program implements [`Program`], and has one line in the [registry](Programs::of_weir), or in
//! the [programs](Programs::with) that a binary of one's own hands to `weir::cli::run`. Everything
//! else knows [`ProgramConfig`], [`AnyRecord`] and [`AnySchedule`], which have forgotten whose they
//! are.

mod analyser;
mod analysis;
pub mod bytes;
pub mod chamelemon;
pub mod disketch;
mod flows;
pub mod hashpipe;
mod heavy;
pub mod hopcounters;
mod key;
mod memory;
mod needs;
mod p4;
mod parameters;
pub mod pint;
mod record;
mod registry;
mod reports;
mod schedule;
mod setting;
mod staged;
mod strays;
mod sub_epoch;

use std::any::Any;
use std::fmt::Debug;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::answers::CountedPort;
use crate::pisa::hash::HashFamily;
use crate::pisa::{ArrayCells, BatchOrder, DropAt, DropReason, Excess, Layout, Phv, Probe, Wide, wide};

pub use crate::answers::{Counted, Exact, FlowCounts, Heavy, Unit};
pub use analyser::{AnyAnalyser, AnyReported, AnyRestorer, Closing, Foreign};
pub use analysis::{Analysis, Before, Decision, Epoch, Reported};
pub use bytes::DecodeError;
pub use heavy::{HeavyAnalysis, KeptFlows};
pub use key::{Key, Naming};
pub use memory::Memory;
pub use needs::Needs;
pub use p4::{P4Constant, P4Crc, P4Entry, P4Form, P4Halves, P4Register, P4Request, P4Target};
pub use parameters::Parameters;
pub use record::{AnyRecord, MAX_REPLICAS, MergeError, Record};
pub use registry::{ProgramConfig, Programs, RecordReader, Settings};
pub use reports::{DistinctReports, Report, ReportBuffer, Reports};
pub use schedule::{AnySchedule, Derived, Schedule, Steps};
pub use setting::SettingReader;
pub use staged::Staged;
use strays::nearest as nearest_epoch;
pub use strays::{MAX_STRAY_EPOCHS, StrayRegisters, Strays};
pub use sub_epoch::{Coverage, MAX_SUB_EPOCHS, SubEpoch};

/// A telemetry system: what it is configured with, its dataplane, its records and the answers that
/// are made of them.
///
/// `examples/` holds a whole one, and docs/program.md builds it step by step. A program that is one
/// chain of ingress stages has its [`Dataplane`] from [`Staged`], one that finds heavy flows its
/// [`Analysis`] from [`HeavyAnalysis`], and [`FlowCounts`] is an [`Exact`] of five-tuples.
pub trait Program: Sized + Send + Sync + 'static {
    /// What configurations call it.
    const NAME: &'static str;
    /// What is fixed when a switch is built, and what it starts with. Without any key it is a good
    /// one.
    type Config: Settings;
    /// What may change from epoch to epoch; `()` when nothing does.
    type Parameters: Parameters;
    /// What each switch decides alone, from its own record; `()` when nothing is.
    type Setting: Clone + Debug + Default + PartialEq + Send + Sync + 'static;
    /// The counters that leave a switch at the end of an epoch.
    type Record: Record;
    /// What a controller makes of the records.
    type Analysis: Analysis<Record = Self::Record, Parameters = Self::Parameters>;

    /// Whether it is for every switch of a path: it compares what one switch counts with what the next one
    /// does.
    const ON_EVERY_HOP: bool = false;

    /// Parameters with which it answers all of its tasks. By default those without any key.
    fn for_all_tasks() -> Self::Config {
        Self::Config::default()
    }

    /// Why no controller of many switches takes its records; `None` when one does.
    fn local_only(_config: &Self::Config) -> Option<&'static str> {
        Some("no controller takes its records")
    }

    /// The same configuration in a switch with these ports, by their number. By default it does not depend
    /// on them.
    fn at_ports(config: &Self::Config, _ports: &[CountedPort]) -> Self::Config {
        config.clone()
    }

    /// Checks a configuration, without building anything.
    ///
    /// # Errors
    /// If a parameter is out of its range, or some do not go together.
    fn validate(config: &Self::Config) -> Result<(), ProgramError>;

    /// Of an array that asks for too much of a target: the key that says how much, and what would
    /// be less. Error messages name both.
    fn blame(config: &Self::Config, array: &str, excess: Excess) -> (&'static str, &'static str);

    /// Configurations that ask for less of a target, each with what is less in words: `without …`,
    /// `with …`. They are named to who has a pipeline that fits no chip.
    fn lesser(_config: &Self::Config) -> Vec<(String, Self::Config)> {
        Vec::new()
    }

    /// The parameters of the first epoch.
    fn start(config: &Self::Config) -> Self::Parameters;

    /// The parameters of a switch that reports to a controller, until this one has told it those of
    /// the network.
    fn waiting(config: &Self::Config) -> Self::Parameters {
        Self::start(config)
    }

    /// Checks parameters for a switch with this configuration.
    ///
    /// # Errors
    /// If it cannot measure with them.
    fn fits(_config: &Self::Config, _parameters: &Self::Parameters) -> Result<(), ProgramError> {
        Ok(())
    }

    /// What a switch measures with next, from the record of an epoch, or of several when the collector
    /// was late, that all its replicas measured to the end with `parameters`. Replicas read it from
    /// [`Schedule::setting`], which says from which epoch on it holds. With a controller and without one.
    fn settle(_record: &Self::Record, _parameters: &Self::Parameters) -> Self::Setting {
        Self::Setting::default()
    }

    /// A replica of the switch of this name, without registers. All replicas of a switch get the same
    /// polynomials and schedule. All switches of a network hash alike, except in arrays whose
    /// polynomials come from [`HashFamily::of_switch`].
    ///
    /// # Errors
    /// If it cannot be built as configured.
    fn dataplane(
        config: &Self::Config,
        switch: &str,
        hashes: &HashFamily,
        schedule: &Schedule<Self>,
    ) -> Result<Box<dyn Dataplane>, ProgramError>;

    /// What reads the byte form of records from the switch of this name, which has this
    /// configuration. What it allocates follows from the configuration, never from the bytes.
    fn reader(config: &Self::Config, switch: &str, hashes: &HashFamily) -> impl ReadRecord<Self::Record>;

    /// The length in bytes that no record from such a switch exceeds.
    fn longest(config: &Self::Config) -> usize;

    /// What a parameter is for, in a few words, where its name does not say it. `key` is the one in documents.
    fn meaning(_key: &str) -> Option<&'static str> {
        None
    }

    /// Whether the parameters are to follow what the epochs show, or stay as they are.
    fn adapts(_config: &Self::Config) -> bool {
        false
    }

    /// Why switches with these two configurations cannot stand in one network: the first parameter
    /// that would have to be the same. By default all have to be.
    fn difference(config: &Self::Config, other: &Self::Config) -> Option<Difference> {
        let differ = || Difference { key: "parameters", value: format!("{config:?}"), other: format!("{other:?}") };
        (config != other).then(differ)
    }

    /// Two switches that it cannot tell apart, out of these names and those in the configuration.
    /// That arrays which hash by switch hash otherwise in each is checked for every program.
    fn clash(_config: &Self::Config, _names: &[&str]) -> Option<Clash> {
        None
    }

    /// What a controller makes of the records of switches with this configuration. `salt` makes the
    /// sampling of a deployment its own.
    fn analysis(config: &Self::Config, salt: u64) -> Self::Analysis;

    /// The reader of congestion feedback that a packet's digest holds for its receiver, as the switches
    /// write it with the parameters of the first epoch; `None` if it holds none.
    fn congestion_feedback(_config: &Self::Config, _hashes: &HashFamily) -> Option<CongestionFeedback> {
        None
    }

    /// Constants, hashes, registers and table entries for the sources in `p4/`; `None` for a program without
    /// P4 sources.
    ///
    /// # Errors
    /// If the sources have no form of this configuration.
    fn p4(_request: &P4Request<'_, Self::Config>) -> Result<Option<P4Form>, ProgramError> {
        Ok(None)
    }

    /// Exact counts of what the program measures, by default the packets of five-tuples.
    fn exact(_config: &Self::Config) -> impl Exact + 'static {
        FlowCounts::new(Unit::Packets)
    }
}

/// Reads congestion feedback from a packet's identity and its digest: the utilisation of the busiest
/// link on its way, where 1 is a full link. `None` for a packet without feedback.
pub type CongestionFeedback = Box<dyn Fn(u32, u16) -> Option<f64> + Send + Sync>;

/// What reads the byte form of a program's records: all of the bytes, and no others.
pub trait ReadRecord<R>: Fn(&[u8]) -> Result<R, DecodeError> + Send + Sync + 'static {}

impl<R, F: Fn(&[u8]) -> Result<R, DecodeError> + Send + Sync + 'static> ReadRecord<R> for F {}

/// A parameter that differs between two switches and may not, with both values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub key: &'static str,
    pub value: String,
    pub other: String,
}

impl Difference {
    /// The first of these parameters whose values differ. Both name the same ones, in the same order.
    pub fn first<V: PartialEq + ToString>(
        own: impl IntoIterator<Item = (&'static str, V)>,
        other: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Option<Self> {
        let mut pairs = own.into_iter().zip(other);
        let ((key, value), (_, other)) = pairs.find(|((_, value), (_, other))| value != other)?;
        Some(Self { key, value: value.to_string(), other: other.to_string() })
    }
}

/// The value of a parameter as a configuration has it.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Null) | Err(_) => "(none)".into(),
        Ok(other) => other.to_string(),
    }
}

/// Two switches whose names look the same to a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program} cannot tell switches {one} and {other} apart: {why}; rename one of them")]
pub struct Clash {
    pub program: &'static str,
    pub one: String,
    pub other: String,
    /// What is the same of both.
    pub why: &'static str,
}

/// A program's replica on one core. The switch calls it once a burst.
pub trait Dataplane: Send {
    /// The queue of each port has room for this number of bytes, of which
    /// [`Phv::queue_used`](crate::pisa::Phv::queue_used) is a share. Called before the first packet, by
    /// a driver that knows it.
    fn set_queue_room(&mut self, _bytes: u64) {}
    /// Hosts read the digest of each packet that they receive
    /// ([`Frame::take_digest`](crate::wire::Frame::take_digest)). Else the digest of a packet that
    /// leaves to a host is of use to the program alone. Called before the first packet.
    fn read_digests(&mut self) {}
    /// Takes a burst through the ingress stages.
    fn ingress(&mut self, phvs: &mut [Phv], order: BatchOrder);
    /// As [`Self::ingress`], compiled for this CPU where that is `#[inline(always)]`. The
    /// switch calls this one, and a program leaves it as it is.
    fn run_ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        wide(Run::<_, INGRESS> { program: self, phvs, order });
    }
    /// Takes one packet through as [`Self::ingress`] does, and tells of each step.
    fn trace(&mut self, phv: &mut Phv, probe: &mut dyn Probe);
    /// What it needs of the switch beside its ingress stages.
    fn needs(&self) -> Needs {
        Needs::NONE
    }
    /// Takes packets through the egress stages: those that leave by a port, before they are
    /// written, in the order in which they were admitted; with [`Needs::ENDS`] those that end here
    /// as well. Which it is says [`Phv::disposition`]. Called when any program of the switch has
    /// egress stages.
    fn egress(&mut self, _phvs: &mut [Phv], _order: BatchOrder) {}
    /// As [`Self::egress`], compiled for this CPU: see [`Self::run_ingress`].
    fn run_egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        wide(Run::<_, EGRESS> { program: self, phvs, order });
    }
    /// As [`Self::egress`], of packets that leave as they entered: those that [`Self::ingress`] saw last, or the
    /// first of them, each in its place, with the same addresses, ports and protocol. So a program that found
    /// something of their flows then need not find it again. Egress stages may have seen others in between.
    fn egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.run_egress(phvs, order);
    }
    /// As [`Self::egress_as_entered`], compiled for this CPU: see [`Self::run_ingress`].
    fn run_egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        wide(Run::<_, AS_ENTERED> { program: self, phvs, order });
    }
    /// Takes one packet through as [`Self::egress`] does, and tells of each step.
    fn trace_egress(&mut self, _phv: &mut Phv, _probe: &mut dyn Probe) {}
    /// `packets` packets have an ambiguous epoch, as they carry its lowest bit alone: `epoch`, or an
    /// even number later.
    fn count_ambiguous(&mut self, _epoch: u64, _packets: u64) {}
    /// A packet was dropped: before ingress stages saw it, between them and egress stages, or behind
    /// these, when the port that it was to leave by did not take it. Of the last, the headers, the shim
    /// and [`Phv::egress`] are known. Called with [`Needs::DROPS`]. Packets that end without a loss are
    /// [seen in egress stages](Needs::ENDS) instead.
    fn dropped(&mut self, _phv: &Phv, _reason: DropReason, _at: DropAt) {}
    /// Epoch number `epoch` begins in less than the transit time: packets of it may come from
    /// switches whose clocks are ahead.
    fn prepare(&mut self, _epoch: u64) {}
    /// Epoch number `epoch` begins: with `fresh` registers, or with those that are in use when the
    /// collector was late.
    fn enter(&mut self, _epoch: u64, _fresh: bool) {}
    /// The number of sub-epochs of the epoch that was just entered, at most [`MAX_SUB_EPOCHS`].
    /// Asked with [`Needs::SUB_EPOCHS`] when an epoch is entered with fresh registers.
    fn sub_epochs(&self) -> u32 {
        1
    }
    /// A sub-epoch begins, also the first of an epoch: with `fresh` registers, or with those in use
    /// when the collector was late. A bank that runs on past its epoch is not cut before that
    /// epoch's end. Called with [`Needs::SUB_EPOCHS`].
    fn enter_sub_epoch(&mut self, _sub_epoch: SubEpoch, _fresh: bool) {}
    /// Gives the program its first registers. It is built without, so that asking what it
    /// [is](Self::layout) costs none.
    fn allocate(&mut self) {
        let mut bank = self.spare();
        self.exchange(bank.as_mut());
        self.exchange_egress(bank.as_mut());
    }
    /// A zeroed bank that fits [`Self::exchange`].
    fn spare(&self) -> Box<dyn Bank>;
    /// Swaps the registers of the ingress stages with those of `spare`, which came from a replica
    /// of the same configuration; a bank of another kind is left alone.
    fn exchange(&mut self, spare: &mut dyn Bank);
    /// Swaps the registers of the egress stages: right after those of the ingress stages, or with
    /// [`Needs::TRANSIT`] and without [`Needs::SUB_EPOCHS`] a transit time later. With it, packets of
    /// the epoch before the running one leave unmeasured from now on.
    fn exchange_egress(&mut self, _spare: &mut dyn Bank) {}
    /// The program's pipeline. With the parameters of its first epoch it is a description of what is
    /// configured.
    fn layout(&self) -> Layout;
}

/// The stages that a burst goes through: ingress stages, or egress stages, with packets that leave as they entered.
const INGRESS: u8 = 0;
const EGRESS: u8 = 1;
const AS_ENTERED: u8 = 2;

/// A burst's way through some stages of a program.
struct Run<'a, D: ?Sized, const STAGES: u8> {
    program: &'a mut D,
    phvs: &'a mut [Phv],
    order: BatchOrder,
}

impl<D: Dataplane + ?Sized, const STAGES: u8> Wide for Run<'_, D, STAGES> {
    #[inline(always)]
    fn run(self) {
        let Self { program, phvs, order } = self;
        match STAGES {
            INGRESS => program.ingress(phvs, order),
            EGRESS => program.egress(phvs, order),
            _ => program.egress_as_entered(phvs, order),
        }
    }
}

/// The registers of one replica over one epoch or sub-epoch.
pub trait Bank: Any + Send {
    /// Zeroes all registers.
    fn clear(&mut self);
    /// What the registers say, decoded.
    fn record(&self) -> AnyRecord;
    /// A copy of each register array, in the order of [`Layout::arrays`].
    fn arrays(&self) -> Vec<ArrayCells>;
}

impl dyn Bank {
    /// The bank, if it is of this type.
    pub fn get_mut<B: Bank>(&mut self) -> Option<&mut B> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// A program that cannot be built as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("{program}: {key} = {value} is out of range, it may be {min} to {max}")]
    Range { program: &'static str, key: &'static str, value: u64, min: u64, max: u64 },
    #[error("{program}: {key} = {value}: {right}")]
    Value { program: &'static str, key: &'static str, value: String, right: String },
    #[error("{program}: {why}")]
    Combination { program: &'static str, why: &'static str },
}

impl ProgramError {
    /// Checks that a parameter of a program is in its range.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(program: &'static str, key: &'static str, value: u32, range: RangeInclusive<u32>) -> Result<(), Self> {
        let [value, min, max] = [value, *range.start(), *range.end()].map(u64::from);
        if (min..=max).contains(&value) { Ok(()) } else { Err(Self::Range { program, key, value, min, max }) }
    }
}
