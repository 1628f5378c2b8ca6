//! What a live switch needs before the first packet: cores, buffers, DPDK, workers, collector.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::LiveError;
use super::change::Renewal;
use super::slots::{DESCRIPTORS, Slot, Slots};
use crate::config::Config;
use crate::control::Collector;
use crate::dpdk::{Eal, EalOptions, HugePages, LcoreError, Mempool, PoolOptions};
use crate::port::{Dev, PortError};
use crate::switch::{PortInfo, Switch};
use crate::worker::{Patience, Queues, Remote, Worker, orders};

/// How long the collector waits for registers before it looks for something else to do.
const COLLECT: Duration = Duration::from_millis(20);

pub(super) type WorkerThread = JoinHandle<Result<(), LcoreError>>;

/// The cores that poll: those asked for, or the last that this process may use.
pub(super) fn cores(config: &Config) -> Result<Vec<usize>, LiveError> {
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
pub(super) fn pool_options(config: &Config, workers: usize) -> PoolOptions {
    let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
    let queues = config.ports.len() * (1 + workers);
    let needed = queues * usize::from(DESCRIPTORS) + workers * 1024;
    let mbufs = config.switch.buffers.unwrap_or((needed as u32).next_power_of_two().max(8192) - 1);
    PoolOptions::for_mtu(mbufs, mtu.try_into().unwrap_or(u16::MAX))
}

pub(super) fn eal_options(config: &Config, pool_bytes: u64, extra: Vec<String>) -> EalOptions {
    let pci = config.ports.iter().filter_map(|port| match &port.dev {
        Dev::Pci { address } => Some(address.clone()),
        _ => None,
    });
    // Besides the buffers: the ports' queues, and room for fragmentation.
    let memory_mib = u32::try_from(pool_bytes >> 20).unwrap_or(u32::MAX / 2) + 64 + 8 * config.ports.len() as u32;
    let huge_pages = if config.switch.huge_pages == Some(false) { HugePages::Never } else { HugePages::Auto };
    EalOptions { memory_mib, huge_pages, pci: pci.collect(), extra, ..EalOptions::default() }
}

/// Opens the ports in the slots of their order.
pub(super) fn open_ports(
    config: &Config,
    infos: Vec<PortInfo>,
    workers: usize,
    pool: &Arc<Mempool>,
) -> Result<Slots, PortError> {
    let mut slots = Slots::default();
    for ((id, port), info) in (0..).zip(&config.ports).zip(infos) {
        let slot = Slot::open(port, workers, pool)?;
        info.mac.store(slot.info.mac.load(Relaxed), Relaxed);
        slots.insert(id, Slot { info, ..slot });
    }
    Ok(slots)
}

/// Deals the ports out over the workers, and waits until all of them poll.
pub(super) fn start_workers(
    switches: Vec<Switch>,
    slots: &Slots,
    eal: &Eal,
    cores: &[usize],
    stop: &Arc<AtomicBool>,
    patience: &Arc<Patience>,
) -> Result<(Vec<WorkerThread>, Vec<Remote>), LiveError> {
    let ready = Arc::new(AtomicUsize::new(0));
    let (mut workers, mut remotes) = (Vec::new(), Vec::new());
    for ((index, switch), &core) in switches.into_iter().enumerate().zip(cores) {
        let mut queues = Queues::default();
        slots.iter().for_each(|(id, slot)| slot.deal(id, index, cores.len(), &mut queues));
        let (remote, orders) = orders();
        let worker = Worker::new(switch, queues, slots.iter().count()).controlled(orders, patience.clone());
        let (eal, stop, ready) = (eal.clone(), stop.clone(), ready.clone());
        let thread = std::thread::Builder::new().name(format!("weir-{core}"));
        workers.push(thread.spawn(move || {
            worker.run(&eal, core, &stop, || {
                ready.fetch_add(1, Relaxed);
            })
        })?);
        remotes.push(remote);
    }
    wait_until_ready(&mut workers, &ready, stop)?;
    Ok((workers, remotes))
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
            collector.collect(COLLECT);
            if let Ok((replicas, taken)) = renewals.try_recv() {
                collector.renew(replicas);
                let _ = taken.send(());
            }
        }
        collector.finish();
    })
}
