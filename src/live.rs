//! A live switch: DPDK, ports, workers, collector and control socket put together and taken apart again.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::assemble::{AssembleError, Assembly, assemble};
use crate::config::Config;
use crate::control::api::{HeavyQuery, Service};
use crate::control::{Collector, History, Learning, api, socket, view};
use crate::dpdk::{DpdkError, Eal, EalError, EalOptions, HugePages, LcoreError, Mempool, PoolOptions};
use crate::epoch::Nanos;
use crate::pisa::PortId;
use crate::port::{Dev, Port, PortError, PortOptions, RxQueue};
use crate::program::ProgramConfig;
use crate::stats::SwitchStats;
use crate::switch::PortInfo;
use crate::worker::Worker;

/// Descriptors of each queue.
const DESCRIPTORS: u16 = 1024;
/// How often links are looked at and stations forgotten.
const ROUND: Duration = Duration::from_millis(10);
const LINKS_EVERY: u32 = 10;

/// Why a switch does not run.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
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
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the API and the control loop share.
struct Shared {
    config: Config,
    ports: Vec<Port>,
    infos: Vec<PortInfo>,
    /// Whether the user wants the port up.
    enabled: Vec<AtomicBool>,
    workers: Vec<Arc<SwitchStats>>,
    history: Arc<Mutex<History>>,
    learning: Option<Mutex<Learning>>,
}

/// A switch that runs.
pub struct Live {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<Result<(), LcoreError>>>,
    collector: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    collected: Arc<AtomicBool>,
    socket: PathBuf,
    huge_pages: bool,
    cores: Vec<usize>,
    rounds: u32,
}

impl Live {
    /// Opens the ports and starts the workers. `eal` is passed on to DPDK as it is.
    pub fn start(config: Config, eal: Vec<String>, socket: Option<PathBuf>) -> Result<Self, LiveError> {
        let cores = cores(&config)?;
        let epoch = config.switch.epoch.0.as_nanos() as Nanos;
        let Assembly { switches, collector, history, learning, ports: infos, .. } =
            assemble(&config, Some(epoch), cores.len())?;
        let (listener, socket) = socket::listen(&config.switch.name, socket).map_err(LiveError::Socket)?;

        let pool = pool_options(&config, cores.len());
        let eal = Eal::start(&eal_options(&config, pool.bytes(), eal))?;
        if config.switch.huge_pages == Some(true) && !eal.has_huge_pages() {
            return Err(LiveError::Usage(
                "switch.huge_pages = true: there are not enough free; `weir doctor` says how to get them".into(),
            ));
        }
        let pool = Arc::new(Mempool::new(&eal, pool).map_err(LiveError::Buffers)?);
        let ports = open_ports(&config, cores.len(), &pool)?;

        let stop = Arc::new(AtomicBool::new(false));
        let stats = switches.iter().map(|switch| switch.stats().clone()).collect();
        let workers = start_workers(switches, &ports, &eal, &cores, &stop)?;
        let collected = Arc::new(AtomicBool::new(false));
        let collector = start_collector(collector, collected.clone())?;
        let enabled = ports.iter().map(|_| AtomicBool::new(true)).collect();
        let learning = learning.map(Mutex::new);
        let shared = Arc::new(Shared { config, ports, infos, enabled, workers: stats, history, learning });
        api::serve(listener, shared.clone())?;
        let huge_pages = eal.has_huge_pages();
        let mut live = Self { shared, workers, collector, stop, collected, socket, huge_pages, cores, rounds: 0 };
        live.round();
        Ok(live)
    }

    /// What a person wants to know when the switch has started.
    pub fn describe(&self) -> String {
        let config = &self.shared.config;
        let ports = config.ports.iter().map(|port| format!("{} = {}", port.name, port.dev));
        let cores = self.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "{} ready: ports {}; core {cores}; {} huge pages; control socket {}",
            config.switch.name,
            ports.collect::<Vec<_>>().join(", "),
            if self.huge_pages { "with" } else { "without" },
            self.socket.display(),
        )
    }

    /// One round of the control loop: links, learning.
    pub fn round(&mut self) {
        if self.rounds.is_multiple_of(LINKS_EVERY) {
            self.shared.look_at_links();
        }
        self.rounds = self.rounds.wrapping_add(1);
        self.shared.ports.iter().for_each(Port::nudge);
        if let Some(learning) = &self.shared.learning {
            learning.lock().unwrap_or_else(PoisonError::into_inner).serve(wall_clock());
        }
        sleep(ROUND);
    }

    /// False when a worker has ended by itself.
    pub fn is_running(&self) -> bool {
        self.workers.iter().all(|worker| !worker.is_finished())
    }

    pub fn ports(&self) -> view::Ports {
        self.shared.ports()
    }

    pub fn heavy(&self) -> Option<view::HeavyFlows> {
        self.shared.heavy(&HeavyQuery { seconds: f64::MAX, ..HeavyQuery::default() }).ok()
    }

    /// Stops the workers after the burst in hand, collects the last epoch and gives the totals.
    pub fn stop(self) -> Result<(view::Ports, Option<view::HeavyFlows>), LiveError> {
        self.stop.store(true, Relaxed);
        let mut ended = Ok(());
        let heavy_of = self.shared.clone();
        for worker in self.workers {
            let worker = worker.join().map_err(|_| LiveError::Died);
            ended = ended.and(worker.and_then(|ended| ended.map_err(LiveError::from)));
        }
        self.collected.store(true, Relaxed);
        let collected = self.collector.join().map_err(|_| LiveError::Died);
        let _ = std::fs::remove_file(&self.socket);
        ended.and(collected)?;
        let heavy = heavy_of.heavy(&HeavyQuery { seconds: f64::MAX, ..HeavyQuery::default() }).ok();
        Ok((heavy_of.ports(), heavy))
    }
}

/// The cores that poll: those asked for, or the last that this process may use.
fn cores(config: &Config) -> Result<Vec<usize>, LiveError> {
    let there: Vec<_> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    if let Some(missing) = config.switch.cores.iter().find(|core| !there.contains(core)) {
        return Err(LiveError::Usage(format!("switch.cores = {missing}: this process may use cores {there:?}")));
    }
    match (config.switch.cores.as_slice(), there.last()) {
        ([], None) => Err(LiveError::Usage("switch.cores: name a core, the machine's cannot be found out".into())),
        ([], Some(&last)) => Ok(vec![last]),
        (asked, _) => Ok(asked.to_vec()),
    }
}

/// Buffers for all descriptors, a burst in hand on each worker, and the workers' caches.
fn pool_options(config: &Config, workers: usize) -> PoolOptions {
    let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
    let queues = config.ports.len() * (1 + workers);
    let needed = queues * usize::from(DESCRIPTORS) + workers * 1024;
    let mbufs = config.switch.buffers.unwrap_or((needed as u32).next_power_of_two().max(8192) - 1);
    PoolOptions::for_mtu(mbufs, mtu.try_into().unwrap_or(u16::MAX))
}

fn eal_options(config: &Config, pool_bytes: u64, extra: Vec<String>) -> EalOptions {
    let pci = config.ports.iter().filter_map(|port| match &port.dev {
        Dev::Pci { address } => Some(address.clone()),
        _ => None,
    });
    // Besides the buffers: the ports' queues, and room for fragmentation.
    let memory_mib = u32::try_from(pool_bytes >> 20).unwrap_or(u32::MAX / 2) + 64 + 8 * config.ports.len() as u32;
    let huge_pages = if config.switch.huge_pages == Some(false) { HugePages::Never } else { HugePages::Auto };
    EalOptions { memory_mib, huge_pages, pci: pci.collect(), extra, ..EalOptions::default() }
}

fn open_ports(config: &Config, workers: usize, pool: &Arc<Mempool>) -> Result<Vec<Port>, PortError> {
    let workers = workers as u16;
    let open = |port: &crate::config::PortConfig| {
        let options = PortOptions {
            // What is sent on a ring's queue comes back on the same one, and a tap's queues come in pairs.
            rx_queues: if matches!(port.dev, Dev::Tap { .. } | Dev::Ring { .. }) { workers } else { 1 },
            tx_queues: workers,
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            mtu: port.mtu as u16,
            ..PortOptions::default()
        };
        Port::open(&port.name, &port.dev, &options, pool)
    };
    config.ports.iter().map(open).collect()
}

/// The receive queues of one worker: the ports' queues are dealt out in turn.
fn dealt(ports: &[Port], worker: usize, workers: usize) -> Vec<(PortId, RxQueue)> {
    let mut mine = Vec::new();
    for (id, port) in ports.iter().enumerate() {
        // Of several queues each worker polls the one that it sends on: the kernel steers a tap's flow to where its other
        // direction was written, so that one worker keeps it.
        let first = if port.rx_queues() > 1 { 0 } else { id };
        let queues = (0..workers).filter(|queue| (first + queue) % workers == worker);
        mine.extend(queues.filter_map(|queue| Some((id as PortId, port.rx_queue(queue as u16)?))));
    }
    mine
}

/// Deals the ports out over the workers, and waits until all of them poll.
fn start_workers(
    switches: Vec<crate::switch::Switch>,
    ports: &[Port],
    eal: &Eal,
    cores: &[usize],
    stop: &Arc<AtomicBool>,
) -> Result<Vec<JoinHandle<Result<(), LcoreError>>>, LiveError> {
    let ready = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for ((index, switch), &core) in switches.into_iter().enumerate().zip(cores) {
        let rx = dealt(ports, index, cores.len());
        let tx = ports.iter().filter_map(|port| port.tx_queue(index as u16)).collect();
        let worker = Worker { switch, rx, tx };
        let (eal, stop, ready) = (eal.clone(), stop.clone(), ready.clone());
        let thread = std::thread::Builder::new().name(format!("weir-{core}"));
        workers.push(thread.spawn(move || {
            worker.run(&eal, core, &stop, || {
                ready.fetch_add(1, Relaxed);
            })
        })?);
    }
    let started = Instant::now();
    while ready.load(Relaxed) < workers.len() {
        if let Some(ended) = workers.iter().position(JoinHandle::is_finished) {
            stop.store(true, Relaxed);
            return Err(workers
                .swap_remove(ended)
                .join()
                .map_err(|_| LiveError::Died)?
                .err()
                .map_or(LiveError::Died, LiveError::from));
        }
        if started.elapsed() > Duration::from_secs(10) {
            return Err(LiveError::Died);
        }
        sleep(Duration::from_millis(1));
    }
    Ok(workers)
}

fn start_collector(mut collector: Collector, ended: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("weir-collector".into()).spawn(move || {
        while !ended.load(Relaxed) {
            collector.collect(Duration::from_millis(20));
        }
        collector.finish();
    })
}

impl Shared {
    /// Lets the workers know which ports packets may leave by.
    fn look_at_links(&self) {
        for ((port, info), enabled) in self.ports.iter().zip(&self.infos).zip(&self.enabled) {
            info.up.store(enabled.load(Relaxed) && port.link_up(), Relaxed);
        }
    }

    /// The program that `show heavy` speaks of, and what it counts.
    fn heavy_program(&self) -> Option<(usize, crate::program::hashpipe::Unit)> {
        self.config.programs.iter().enumerate().find_map(|(i, program)| match program {
            ProgramConfig::HashPipe(config) => Some((i, config.count)),
            ProgramConfig::ChameleMon(_) => None,
        })
    }
}

impl Service for Shared {
    fn ports(&self) -> view::Ports {
        let mut ports = view::Ports::collect(&self.config, &self.workers);
        for (i, view) in ports.ports.iter_mut().enumerate() {
            let port = &self.ports[i];
            view.enabled = self.enabled[i].load(Relaxed);
            view.link_up = self.infos[i].up.load(Relaxed);
            view.mac = port.mac().to_string();
            view.device = port.stats().drops().map(|(why, packets)| (why.name().into(), packets)).collect();
        }
        if let Some(learning) = &self.learning {
            ports.measurement.refused_stations = learning.lock().unwrap_or_else(PoisonError::into_inner).refused();
        }
        ports
    }

    fn stations(&self) -> view::Stations {
        let names: Vec<_> = self.config.ports.iter().map(|port| port.name.as_str()).collect();
        let learning = self.learning.as_ref().map(|l| l.lock().unwrap_or_else(PoisonError::into_inner));
        let stations = learning.map(|learning| learning.stations(&names, wall_clock())).unwrap_or_default();
        view::Stations { stations }
    }

    fn heavy(&self, query: &HeavyQuery) -> Result<view::HeavyFlows, String> {
        let (program, unit) = self
            .heavy_program()
            .ok_or("the switch runs no program that finds heavy flows; start it with --program hashpipe")?;
        let length = self.config.switch.epoch.0.as_nanos() as Nanos;
        let epochs = (query.seconds.max(0.0) * 1e9 / length as f64).ceil() as usize;
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let selection = match query.after {
            Some(after) => history.next(after),
            None => history.last(epochs),
        };
        drop(history);
        Ok(view::HeavyFlows::new(&selection.heavy(program), unit, length, query.top, query.threshold))
    }

    fn set_link(&self, name: &str, up: bool) -> Result<(), String> {
        let names = || self.config.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
        let id = self.config.port(name).ok_or_else(|| format!("there is no port {name}; the ports are {}", names()))?;
        let id = usize::from(id);
        let was = self.enabled[id].swap(up, Relaxed);
        if !up {
            self.infos[id].up.store(false, Relaxed);
        }
        let set = self.ports[id].set_link(up).map_err(|e| e.to_string());
        if set.is_err() {
            self.enabled[id].store(was, Relaxed);
        }
        self.look_at_links();
        set
    }
}

fn wall_clock() -> Nanos {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as Nanos)
}
