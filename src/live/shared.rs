//! What the API and the control loop share.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};

use super::change::{Renewal, State};
use super::watch::{Event, EventLog};
use super::{LiveError, Reread, Rights, setup};
use crate::answers::Links;
use crate::api::baseline::SwitchInfo;
use crate::api::exported::{ExportCounters, OtlpCounters};
use crate::api::metrics::Measured;
use crate::config::Config;
use crate::dpdk::Mempool;
use crate::forward::learn::Move;
use crate::forward::policy::Publisher;
use crate::forward::text::PortNames;
use crate::lock::Hold;
use crate::network::controller::{LocalAnswers, LocalSettings};
use crate::network::rpc::Link;
use crate::observe::Observers;
use crate::pisa::PortId;
use crate::pisa::hash::HashFamily;
use crate::program::AnySchedule;
use crate::stats::SwitchStats;
use crate::tables::{Learning, Macs, Routed, Routing, Table, Tables};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::{Collector, RegisterTap};
use crate::worker::IdleTimeout;

/// A running switch. Code that takes several of the locks takes them in the order of the fields.
pub(super) struct Shared {
    pub state: Mutex<State>,
    pub forwarding: ForwardingState,
    pub measurement: Measurement,
    pub workers: WorkerState,
    pub tables: PortTables,
    pub reread: Option<Reread>,
    pub observers: Observers,
    pub about: SwitchInfo,
    /// The hash family of the network that the switch is of.
    pub network: Mutex<Option<HashFamily>>,
    pub link: Option<Arc<Link>>,
    /// What is exported as IPFIX, if anything is.
    pub exported: Option<Arc<ExportCounters>>,
    /// What is sent as OTLP, if anything is.
    pub otlp: Option<Arc<OtlpCounters>>,
}

/// The control halves of forwarding.
pub(super) struct ForwardingState {
    pub learning: Arc<Mutex<Option<Learning>>>,
    pub routing: Arc<Mutex<Option<Routing>>>,
}

impl ForwardingState {
    pub fn new(learning: Option<Learning>, routing: Option<Routing>) -> Self {
        Self { learning: Arc::new(Mutex::new(learning)), routing: Arc::new(Mutex::new(routing)) }
    }
}

/// The workers, and what they are built with.
pub(super) struct WorkerState {
    pub stats: Vec<Arc<SwitchStats>>,
    pub idle_timeout: Arc<IdleTimeout>,
    /// The cores that poll, one for each worker.
    pub cores: Vec<usize>,
    pub pool: Arc<Mempool>,
}

/// The tables that are read and changed while the switch runs.
pub(super) struct PortTables {
    pub all: Tables,
    /// Where the tables publish what is set on ports.
    pub publisher: Publisher,
    /// The ports' names as the tables know them.
    pub names: PortNames,
}

impl PortTables {
    /// Adds the tables of forwarding to those of ports.
    pub fn new(
        tables: Vec<Box<dyn Table>>,
        publisher: Publisher,
        names: PortNames,
        forwarding: &ForwardingState,
    ) -> Self {
        let mut all = Tables::new(tables);
        all.push(Box::new(Macs::new(forwarding.learning.clone(), names.clone())));
        Routed::all(&forwarding.routing).into_iter().for_each(|table| all.push(table));
        Self { all, publisher, names }
    }
}

/// The collector and the switch's own controllers.
pub(super) struct Measurement {
    /// Other replicas for the collector.
    pub renewals: Sender<Renewal>,
    /// What the controllers answer, and how they behave with the next records.
    pub answers: LocalAnswers,
    pub settings: Arc<Mutex<LocalSettings>>,
    /// Where registers are asked for.
    pub registers: RegisterTap,
    /// The metrics of the answers.
    pub measured: Arc<Measured>,
}

/// The collector's thread.
pub(super) struct CollectorThread {
    thread: JoinHandle<()>,
    ended: Arc<AtomicBool>,
}

impl Measurement {
    /// Starts the collector's thread. `is_linked` says that the switch has the controller of a
    /// network as well.
    pub fn start(
        config: &Config,
        mut collector: Collector,
        schedules: &[AnySchedule],
        is_linked: bool,
        rights: Rights,
    ) -> Result<(Self, CollectorThread), LiveError> {
        let (answers, settings) = (LocalAnswers::default(), Arc::new(Mutex::new(setup::local(config))));
        let controllers = setup::controllers(config, &settings, schedules, is_linked, &answers)?;
        collector.subscribe(Box::new(controllers));
        let registers = RegisterTap::default();
        collector.watch_registers(Box::new(registers.clone()));
        let (renewals, renewed) = bounded(1);
        let ended = Arc::new(AtomicBool::new(false));
        let thread = rights.start(|| Ok(setup::start_collector(collector, renewed, ended.clone())?))?;
        let programs = answers.clone();
        let flows = config.switch.metrics_flows as usize;
        let measured = Measured::new(Box::new(move || programs.programs()), Links::default(), flows);
        let measured = rights.start(|| Ok(measured.start()?))?;
        Ok((Self { renewals, answers, settings, registers, measured }, CollectorThread { thread, ended }))
    }
}

impl CollectorThread {
    /// Has the last epochs collected.
    pub fn end(self) -> Result<(), LiveError> {
        self.ended.store(true, Relaxed);
        self.thread.join().map_err(|_| LiveError::Died)
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.hold()
    }

    pub(super) fn learning(&self) -> MutexGuard<'_, Option<Learning>> {
        self.forwarding.learning.hold()
    }

    pub(super) fn routing(&self) -> Option<Routing> {
        self.forwarding.routing.hold().clone()
    }

    /// The time by which workers note when they heard a MAC address: theirs, which never goes back.
    pub(super) fn now(&self) -> Nanos {
        self.workers.stats.iter().map(|worker| worker.clock.get()).max().unwrap_or_default()
    }

    /// Epochs late and lost.
    pub(super) fn late_epochs(&self) -> (u64, u64) {
        self.workers
            .stats
            .iter()
            .fold((0, 0), |(late, lost), w| (late + w.late_epochs.get(), lost + w.lost_epochs.get()))
    }

    /// Lets the workers know which ports packets may leave by, and forgets what is behind one that
    /// went down.
    pub(super) fn look_at_links(&self, state: &State) {
        for (id, slot) in state.slots.iter() {
            if slot.look_at_link() {
                self.forget_behind(id);
            }
        }
    }

    /// What there is to say of MAC addresses that moved.
    pub(super) fn moved(&self, state: &State, watch: &mut EventLog) -> Option<Event> {
        let (moved, last) = self.learning().as_ref().map(Learning::moved)?;
        watch.moved(Instant::now(), moved, || {
            let Move { key, from, to } = last?;
            Some([key.mac().to_string(), state.slots.name(from).into(), state.slots.name(to).into()])
        })
    }

    /// Forgets the MAC addresses and neighbours that were learned behind a port: what comes back
    /// there may be another host.
    pub(super) fn forget_behind(&self, port: PortId) {
        if let Some(learning) = self.learning().as_mut() {
            learning.flush_port(port, self.now());
        }
        if let Some(routing) = self.routing() {
            routing.flush_port(port, self.now());
        }
    }
}
