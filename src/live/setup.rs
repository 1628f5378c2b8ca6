//! What a live switch needs before the first packet: cores, buffers, DPDK, workers, collector.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::LiveError;
use super::change::Renewal;
use super::shared::Shared;
use super::slots::{PortSlot, PortSlots, buffers_held};
use crate::api::exported::{ExportCounters, OtlpCounters};
use crate::api::metrics::Format;
use crate::api::serve::TlsListener;
use crate::api::view;
use crate::api::{Service, switch_metrics};
use crate::assemble::kept_epochs;
use crate::config::{Config, Length, PortConfig, TlsConfig};
use crate::cpus::{MAX_CPUS, polled_by_others, usable_cpus, worker_name};
use crate::dpdk::{Eal, EalOptions, HugePages, LcoreError, Mempool, PoolOptions};
use crate::export::ipfix::{ExportThread, Source};
use crate::export::otlp::{self, Client, OtlpThread};
use crate::network::controller::{LocalAnswers, LocalControllers, LocalSettings, local_room};
use crate::network::tls::{self, Clients};
use crate::port::Dev;
use crate::privileges::PrivilegeError;
use crate::program::AnySchedule;
use crate::slices;
use crate::switch::{PortInfo, Role, Switch};
use crate::telemetry::Collector;
use crate::worker::{IdleTimeout, Queues, Worker, WorkerHandle, channel};

/// How long the collector waits for registers before it looks for something else to do.
const COLLECT: Duration = Duration::from_millis(20);

pub(super) type WorkerThread = JoinHandle<Result<(), LcoreError>>;

/// The cores that poll: those asked for, isolated ones too, or the last of the process's affinity
/// mask.
pub(super) fn cores(config: &Config) -> Result<Vec<usize>, LiveError> {
    let asked = &config.switch.cores;
    if asked.is_empty() {
        let last = core_affinity::get_core_ids().unwrap_or_default().pop();
        let unknown = || LiveError::Usage("switch.cores: name a core, the machine's cannot be found out".into());
        return Ok(vec![last.ok_or_else(unknown)?.id]);
    }
    let usable = usable_cpus(asked.iter().copied());
    if let Some(missing) = asked.iter().find(|core| !usable.contains(core)) {
        let there = usable_cpus(0..MAX_CPUS);
        return Err(LiveError::Usage(format!("switch.cores = {missing}: this process may use cores {there:?}")));
    }
    Ok(asked.to_vec())
}

/// Says which of the cores another switch polls too.
pub(super) fn warn_of_shared(cores: &[usize]) {
    for (core, process) in polled_by_others(cores) {
        tracing::warn!(
            target: "weir", event = "core_shared", core, process,
            "another switch polls this core: the packets of each wait while the other runs (--core chooses another)"
        );
    }
}

pub(super) fn metrics_listener(config: &Config) -> Result<Option<TcpListener>, LiveError> {
    let listen =
        |address| TcpListener::bind(address).map_err(|e| LiveError::Usage(format!("switch.metrics = {address}: {e}")));
    config.metrics()?.map(listen).transpose()
}

pub(super) fn page_listener(config: &Config) -> Result<Option<TcpListener>, LiveError> {
    let listen =
        |address| TcpListener::bind(address).map_err(|e| LiveError::Usage(format!("page.listen = {address}: {e}")));
    config.page.address()?.map(listen).transpose()
}

/// Buffers for all descriptors, a burst in hand on each worker, and the workers' caches.
pub(super) fn pool_options(config: &Config, workers: usize) -> PoolOptions {
    let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
    let needed = config.ports.iter().map(|port| buffers_held(port, workers)).sum::<usize>() + workers * 1024;
    let mbufs = config.switch.buffers.unwrap_or((needed as u32).next_power_of_two().max(8192) - 1);
    PoolOptions::for_mtu(mbufs, mtu.try_into().unwrap_or(u16::MAX))
}

pub(super) fn eal_options(config: &Config, workers: usize, pool_bytes: u64, extra: Vec<String>) -> EalOptions {
    let pci = config.ports.iter().filter_map(|port| match &port.dev {
        Dev::Pci { address } => Some(address.clone()),
        _ => None,
    });
    // Besides the buffers: the ports' queues, and room for fragmentation; for an xdp port perhaps
    // buffers of its own; for a queue of a veth port those of large frames, twice while the port is
    // opened again.
    let each = |port: &PortConfig| match port.dev {
        Dev::Xdp { .. } => 32,
        Dev::Veth { cut: false, .. } => 8 + 4 * u32::from(port.dev.queue_plan(port.queues, workers as u16).rx),
        _ => 8,
    };
    let memory_mib =
        u32::try_from(pool_bytes >> 20).unwrap_or(u32::MAX / 2) + 64 + config.ports.iter().map(each).sum::<u32>();
    let shared_memory = config.ports.iter().any(|port| matches!(port.dev, Dev::VirtioUser { .. }));
    let huge_pages = if config.switch.huge_pages == Some(false) { HugePages::Never } else { HugePages::Auto };
    EalOptions { memory_mib, huge_pages, shared_memory, pci: pci.collect(), extra, ..EalOptions::default() }
}

/// Opens the ports in the slots of their order. Calls `opened` after each.
pub(super) fn open_ports(
    config: &Config,
    infos: Vec<PortInfo>,
    cores: &[usize],
    pool: &Arc<Mempool>,
    opened: impl Fn() -> Result<(), PrivilegeError>,
) -> Result<PortSlots, LiveError> {
    let mut slots = PortSlots::default();
    for ((id, port), info) in (0..).zip(&config.ports).zip(infos) {
        let mut slot = PortSlot::open(port, cores, pool)?;
        opened()?;
        info.mac.store(slot.info.mac.load(Relaxed), Relaxed);
        slot.info = info;
        slots.insert(id, slot);
    }
    Ok(slots)
}

/// Deals the ports out over the workers, and waits until all of them poll.
pub(super) fn start_workers(
    switches: Vec<Switch>,
    slots: &PortSlots,
    eal: &Eal,
    cores: &[usize],
    stop: &Arc<AtomicBool>,
    idle_timeout: &Arc<IdleTimeout>,
) -> Result<(Vec<WorkerThread>, Vec<WorkerHandle>), LiveError> {
    let ready = Arc::new(AtomicUsize::new(0));
    let (mut workers, mut handles) = (Vec::new(), Vec::new());
    for ((index, switch), &core) in switches.into_iter().enumerate().zip(cores) {
        let mut queues = Queues::default();
        slots.iter().for_each(|(id, slot)| slot.deal(id, index, &mut queues));
        let (handle, commands) = channel();
        let worker = Worker::new(switch, queues, slots.iter().count()).controlled(commands, idle_timeout.clone());
        let (eal, stop, ready) = (eal.clone(), stop.clone(), ready.clone());
        let thread = std::thread::Builder::new().name(worker_name(core));
        workers.push(thread.spawn(move || {
            worker.run(&eal, core, &stop, || {
                ready.fetch_add(1, Relaxed);
            })
        })?);
        handles.push(handle);
    }
    wait_until_ready(&mut workers, &ready, stop)?;
    Ok((workers, handles))
}

fn wait_until_ready(workers: &mut Vec<WorkerThread>, ready: &AtomicUsize, stop: &AtomicBool) -> Result<(), LiveError> {
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
    Ok(())
}

/// Collects until `ended`; goes on with other replicas when it is told to.
pub(super) fn start_collector(
    mut collector: Collector,
    renewals: Receiver<Renewal>,
    ended: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("weir-collector".into()).spawn(move || {
        while !ended.load(Relaxed) {
            slices::begin(collector.keeps_up());
            collector.collect(COLLECT);
            if let Ok(Renewal { replicas, schedules, taken }) = renewals.try_recv() {
                collector.renew(replicas, &schedules);
                let _ = taken.send(());
            }
        }
        collector.finish();
    })
}

/// Exports what the switch measures to this collector.
pub(super) fn export(
    shared: &Arc<Shared>,
    collector: SocketAddr,
    counters: Arc<ExportCounters>,
) -> io::Result<ExportThread> {
    let config = shared.state().config.clone();
    let (answers, switch) = (shared.measurement.answers.clone(), shared.clone());
    let source = Source {
        name: config.known_as().to_owned(),
        programs: Box::new(move || answers.programs()),
        drops: Box::new(move || view::Drops::of_ports(&switch.ports())),
    };
    ExportThread::start(config.ipfix, collector, source, counters)
}

/// Sends metrics and log records by this client.
pub(super) fn send_otlp(shared: &Arc<Shared>, client: Client, counters: Arc<OtlpCounters>) -> io::Result<OtlpThread> {
    let config = shared.state().config.clone();
    let (answers, switch) = (shared.measurement.answers.clone(), shared.clone());
    let measured = shared.measurement.measured.clone();
    let source = otlp::Source {
        name: config.known_as().to_owned(),
        programs: Box::new(move || answers.programs()),
        places: Box::new(move || measured.places()),
        metrics: Box::new(move || switch_metrics(&*switch, Format::Openmetrics)),
        queue: otlp::open(),
    };
    OtlpThread::start(&config.otlp, client, source, counters)
}

/// How the switch's own controllers behave.
pub(super) fn local(config: &Config) -> LocalSettings {
    let [length, transit] = [config.switch.epoch, config.switch.transit].map(Length::nanos);
    let fabric = config.ports.iter().any(|port| port.role == Role::Fabric);
    LocalSettings { length, transit, history: local_room(kept_epochs(&config.switch)), fabric, replays: false }
}

/// The switch's own controllers. `is_linked` says that it has the controller of a network as well.
pub(super) fn controllers(
    config: &Config,
    settings: &Arc<Mutex<LocalSettings>>,
    schedules: &[AnySchedule],
    is_linked: bool,
    answers: &LocalAnswers,
) -> Result<LocalControllers, LiveError> {
    let salt = match config.switch.reproducible {
        Some(seed) => seed,
        None => getrandom::u64().map_err(io::Error::other)?,
    };
    let name = &config.switch.name;
    Ok(LocalControllers::new(name, settings.clone(), schedules, is_linked, answers.clone(), salt))
}

/// Where TCP is served, if it is.
pub(super) fn tls_listener(config: &Config) -> Result<Option<TlsListener>, LiveError> {
    let Some(TlsConfig { listen, files }) = config.api.tls()? else { return Ok(None) };
    let config = tls::server(&files, Clients::OfApi)?;
    let listener =
        std::net::TcpListener::bind(listen).map_err(|e| LiveError::Usage(format!("api.listen = {listen}: {e}")))?;
    Ok(Some(TlsListener { listener, config }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the specification, for each kind of device and number of workers.
    #[test]
    fn buffers_are_what_queues_need() {
        let buffers = |ports: &[&str], workers: usize| {
            let ports = ports.iter().map(|dev| PortConfig::new("p", dev.parse().unwrap())).collect();
            pool_options(&Config { ports, ..Config::default() }, workers).mbufs
        };
        // A queue each way for each worker: 1024 for each, and 1024 for each worker.
        assert_eq!(buffers(&["veth:a"], 1), 8191, "at least");
        assert_eq!(buffers(&["veth:a"; 3], 1), 8191, "7168");
        assert_eq!(buffers(&["veth:a"; 4], 1), 16_383, "9216");
        assert_eq!(buffers(&["veth:a"; 7], 1), 16_383, "15360");
        assert_eq!(buffers(&["veth:a"; 8], 1), 32_767, "17408");
        assert_eq!(buffers(&["veth:a"], 2), 8191, "6144");
        assert_eq!(buffers(&["veth:a"], 3), 16_383, "9216");
        assert_eq!(buffers(&["vhost:/a,queues=4"], 1), 16_383, "9216");
        assert_eq!(buffers(&["memory"; 5], 2), 32_767, "one queue in, and two out: 17408");
        assert_eq!(buffers(&["xdp:a"; 2], 1), 16_383, "4096 for each queue pair: 9216");
        assert_eq!(buffers(&["xdp:a"; 4], 1), 32_767, "17408");

        let mut config = Config { ports: vec![PortConfig::new("p", Dev::Memory); 2], ..Config::default() };
        assert_eq!(pool_options(&config, 1).mbufs, 8191, "5120");
        config.ports[0].fault = Some("rx:drop=1%".parse().unwrap());
        assert_eq!(pool_options(&config, 1).mbufs, 16_383, "2048 more for each of its two queues: 9216");
        config.switch.buffers = Some(300);
        assert_eq!(pool_options(&config, 1).mbufs, 300);
    }

    /// With an Ethernet header, four tags and the shim, of the port with the largest MTU.
    #[test]
    fn a_buffer_holds_the_longest_frame() {
        let mut config = Config { ports: vec![PortConfig::new("p", Dev::Memory); 3], ..Config::default() };
        for mtu in 68..=9216 {
            config.ports[1].mtu = mtu;
            let frame = u32::from(pool_options(&config, 1).frame_bytes);
            assert!(frame >= mtu.max(1500) + 14 + 16 + 6, "{mtu}: {frame}");
        }
    }
}
