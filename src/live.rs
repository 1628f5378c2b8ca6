//! A live switch: DPDK, ports, workers, collector and control socket put together, changed, and
//! taken apart again.

mod change;
mod controlled;
mod devices;
mod diff;
mod control_queue;
mod facade;
mod opened;
mod reopen;
mod service;
mod setup;
mod shared;
mod slots;
mod watch;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::answers::{Claimed, HeavyFlows};
use crate::api::Service;
use crate::api::baseline::SwitchInfo;
use crate::api::exported::{ExportCounters, OtlpCounters};
use crate::api::view;
use crate::archive::ArchiveThread;
use crate::assemble::{AssembleError, Assembly, Lesser, assemble, lesser, no_chip};
use crate::config::{Config, ConfigError};
use crate::cpus::keep_off;
use crate::dpdk::{DpdkError, EalError, LcoreError, cycles, cycles_per_second};
use crate::export::ipfix::ExportThread;
use crate::export::otlp::{self, OtlpError, OtlpThread};
use crate::live::control_queue::{ControlQueue, control_queue};
use crate::live::watch::{Event, EventLog};
use crate::network::socket::SocketFile;
use crate::network::tls::TlsError;
use crate::observe::Observers;
use crate::port::{MemoryHandle, PortError};
use crate::privileges::{PrivilegeError, Privileges, without_rights};
use crate::tables::Tables;
use crate::worker::IdleTimeout;

use change::{Next, State};
use facade::ApiFacade;
use opened::Opened;
use setup::WorkerThread;
use shared::{CollectorThread, ForwardingState, Measurement, PortTables, Shared, WorkerState};

pub use change::ChangeError;
pub use devices::Devices;
pub use slots::NoBuffers;

/// How often links are looked at and MAC addresses forgotten.
const ROUND: Duration = Duration::from_millis(10);
const LINKS_EVERY: u32 = 10;

/// Why a switch does not run.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Eal(#[from] EalError),
    #[error("no packet buffers: {0}")]
    Buffers(DpdkError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("a worker does not start: {0}")]
    Worker(#[from] LcoreError),
    #[error("a worker has died")]
    Died,
    #[error("the control socket: {0}")]
    Socket(io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What becomes of the process's rights once the ports are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Before anything else starts, all threads of the process give up what changes of the switch
    /// do not take; the control thread alone keeps that.
    GiveUp,
    Keep,
}

impl Rights {
    /// Starts threads, which have no rights when the process has given its up.
    fn start<T: Send>(self, start: impl FnOnce() -> Result<T, LiveError> + Send) -> Result<T, LiveError> {
        match self {
            Self::GiveUp => without_rights(start),
            Self::Keep => start(),
        }
    }
}

/// Reads the configuration again: the file with the words of the command line on top.
pub type Reread = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// A switch that runs.
pub struct Live {
    shared: Arc<Shared>,
    control_queue: ControlQueue<Shared>,
    privileges: Privileges,
    /// The other threads have no rights, and are not to inherit any.
    sealed: bool,
    workers: Vec<WorkerThread>,
    collector: CollectorThread,
    archive: Option<ArchiveThread>,
    export: Option<ExportThread>,
    otlp: Option<OtlpThread>,
    stop: Arc<AtomicBool>,
    socket: SocketFile,
    huge_pages: bool,
    cores: Vec<usize>,
    rounds: u32,
    watch: EventLog,
}

impl Live {
    /// Opens the ports and starts the workers. `reread` is what a reload asks; `eal` is passed on
    /// to DPDK as it is. The thread that calls this is the control thread, which must call
    /// [`Self::round`], and leaves the CPUs of workers to these.
    pub fn start(
        config: Config,
        reread: Option<Reread>,
        eal: Vec<String>,
        socket: Option<PathBuf>,
        rights: Rights,
    ) -> Result<Self, LiveError> {
        let otlp_client = otlp::Client::new(&config.otlp)?;
        if otlp_client.is_some() {
            // What is logged from now on is sent.
            otlp::open();
        }
        let cores = setup::cores(&config)?;
        setup::warn_of_shared(&cores);
        // Before the first thread starts, those of DPDK among them.
        keep_off(&cores);
        let mut assembly = assemble(&config, Some(config.switch.epoch.nanos()), cores.len())?;
        for (target, why) in no_chip(&config, &assembly.placement) {
            tracing::warn!("the pipeline does not fit {target}, and is placed on software: {why}");
        }
        for Lesser { change, targets } in lesser(&config, &assembly.placement) {
            tracing::warn!("{change} the pipeline would fit {}", targets.join(", "));
        }
        let controller = controlled::link(&config, &mut assembly)?;
        let infos = std::mem::take(&mut assembly.ports);
        let Opened { privileges, listeners, socket, eal, pool, slots } =
            Opened::new(&config, infos, &cores, (eal, socket), rights)?;
        let Assembly { mut switches, collector, learning, routing, tables, publisher, names, schedules, .. } = assembly;

        let (stop, observers) = (Arc::new(AtomicBool::new(false)), Observers::default());
        for switch in &mut switches {
            switch.attach(&observers);
            switch.time_programs(cycles, cycles_per_second(&eal));
        }
        let stats = switches.iter().map(|switch| switch.stats().clone()).collect();
        let idle_timeout = Arc::new(IdleTimeout::new(config.switch.idle.0));
        let (workers, handles) =
            rights.start(|| setup::start_workers(switches, &slots, &eal, &cores, &stop, &idle_timeout))?;
        let (measurement, collector) =
            Measurement::start(&config, collector, &schedules, controller.is_some(), rights)?;
        let archive = config.archive.settings().map(|settings| {
            let answers = measurement.answers.clone();
            rights.start(|| Ok(ArchiveThread::start(settings, Box::new(move || answers.programs()))?))
        });
        let archive = archive.transpose()?;
        let forwarding = ForwardingState::new(learning, routing);
        let exports_to = config.ipfix.address()?;
        let exported = exports_to.map(|address| Arc::new(ExportCounters::new(address)));
        let otlp = otlp_client
            .map(|client| (client, Arc::new(OtlpCounters::to(config.otlp.to.as_deref().unwrap_or_default()))));
        let about = SwitchInfo::new(&config.switch.name, &cores);
        let Next { config, pairs, .. } = Next::new(config)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State { config, pairs, slots, removed: view::Removed::default(), handles }),
            tables: PortTables::new(tables, publisher, names, &forwarding),
            forwarding,
            workers: WorkerState { stats, idle_timeout, cores: cores.clone(), pool },
            measurement,
            reread,
            observers,
            about,
            network: Mutex::default(),
            link: controller.as_ref().map(|(_, link)| link.clone()),
            exported: exported.clone(),
            otlp: otlp.as_ref().map(|(_, counters)| counters.clone()),
        });
        let export = exports_to
            .zip(exported)
            .map(|(address, counters)| rights.start(|| Ok(setup::export(&shared, address, counters)?)));
        let export = export.transpose()?;
        let otlp = otlp
            .map(|(client, counters)| rights.start(|| Ok(setup::send_otlp(&shared, client, counters)?)))
            .transpose()?;
        let (control, control_queue) = control_queue();
        let facade = Arc::new(ApiFacade { shared: shared.clone(), control });
        rights.start(|| listeners.serve(facade, controller))?;
        let mut live = Self {
            shared,
            control_queue,
            privileges,
            sealed: rights == Rights::GiveUp,
            workers,
            collector,
            archive,
            export,
            otlp,
            stop,
            socket,
            huge_pages: eal.has_huge_pages(),
            cores,
            rounds: 0,
            watch: EventLog::default(),
        };
        live.round();
        Ok(live)
    }

    /// What a person wants to know when the switch has started.
    pub fn describe(&self) -> String {
        let state = self.shared.state();
        let ports = state.slots.iter().map(|(_, slot)| format!("{} = {}", slot.config.name, slot.config.dev));
        let cores = self.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        // "weir: ready", not "weir: weir: ready".
        let name = &state.config.switch.name;
        let name = if name == "weir" { String::new() } else { format!("{name}: ") };
        format!(
            "{name}ready: ports {}; core {cores}; {} huge pages; control socket {}{}",
            ports.collect::<Vec<_>>().join(", "),
            if self.huge_pages { "with" } else { "without" },
            self.socket.path.display(),
            state.config.api.listen.as_ref().map(|at| format!(" and {at} by TLS")).unwrap_or_default(),
        )
    }

    pub fn name(&self) -> String {
        self.shared.state().config.switch.name.clone()
    }

    /// Becomes what the configuration file says now, or stays as it is and says why.
    pub fn reload(&self) -> Result<view::Reloaded, String> {
        let reloaded = self.shared.reload();
        self.seal();
        reloaded
    }

    /// Devices that were opened may have started threads, which have inherited this one's rights.
    fn seal(&self) {
        if self.sealed
            && let Err(error) = self.privileges.seal()
        {
            tracing::error!("{error}");
        }
    }

    /// One round of the control loop: links, learning.
    pub fn round(&mut self) {
        // Who changes the switch has the ports to himself, and may take a while to open one:
        // MAC addresses are learned meanwhile.
        let mut opened = false;
        if let Ok(mut state) = self.shared.state.try_lock() {
            if self.rounds.is_multiple_of(LINKS_EVERY) {
                opened = self.shared.reopen_ports(&mut state, Instant::now());
                self.shared.look_at_links(&state);
                state.slots.iter().for_each(|(_, slot)| slot.port.look_at_kernel());
                let ports = state.slots.iter().map(|(_, slot)| slot.state());
                let events = self.watch.look(Instant::now(), ports, self.shared.late_epochs());
                events.iter().for_each(Event::log);
                self.shared.moved(&state, &mut self.watch).iter().for_each(Event::log);
            }
            state.slots.iter().for_each(|(_, slot)| slot.port.nudge());
        }
        if opened {
            self.seal();
        }
        self.rounds = self.rounds.wrapping_add(1);
        if let Some(learning) = self.shared.learning().as_mut() {
            learning.serve(self.shared.now());
        }
        if let Some(routing) = self.shared.routing() {
            routing.serve(self.shared.now());
        }
        self.control_queue.serve(&self.shared, Instant::now() + ROUND, || self.seal());
    }

    /// False when a worker has ended by itself.
    pub fn is_running(&self) -> bool {
        self.workers.iter().all(|worker| !worker.is_finished())
    }

    /// What the control socket answers, and does.
    pub fn service(&self) -> Arc<impl Service + use<>> {
        self.shared.clone()
    }

    /// The far end of a `memory` port.
    pub fn memory(&self, port: &str) -> Option<MemoryHandle> {
        let state = self.shared.state();
        state.slots.iter().find(|(_, slot)| slot.config.name == port)?.1.port.memory()
    }

    /// The tables that can be read and changed.
    pub fn tables(&self) -> &Tables {
        &self.shared.tables.all
    }

    pub fn ports(&self) -> view::Ports {
        self.shared.ports()
    }

    /// The heavy flows of all epochs that are kept, where a program finds some.
    pub fn heavy(&self) -> Option<Claimed<HeavyFlows>> {
        self.shared.heavy()
    }

    /// Stops the workers after the burst in hand, collects the last epoch and gives the totals.
    pub fn stop(self) -> Result<(view::Ports, Option<Claimed<HeavyFlows>>), LiveError> {
        self.stop.store(true, Relaxed);
        // Who asks for a change from now on is told so.
        drop(self.control_queue);
        let mut ended = Ok(());
        for worker in self.workers {
            let worker = worker.join().map_err(|_| LiveError::Died);
            ended = ended.and(worker.and_then(|ended| ended.map_err(LiveError::from)));
        }
        let collected = self.collector.end();
        drop(self.archive);
        drop(self.export);
        drop(self.otlp);
        drop(self.socket);
        ended.and(collected)?;
        let heavy = self.shared.heavy();
        self.shared.state().slots.iter().for_each(|(_, slot)| slot.port.look_at_kernel());
        let ports = self.shared.ports();
        self.shared.state().slots.iter().for_each(|(_, slot)| slot.port.close());
        Ok((ports, heavy))
    }
}
