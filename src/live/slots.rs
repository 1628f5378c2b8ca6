//! The ports of a running switch, each in a slot whose number it keeps as long as it is there.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::change::ChangeError;
use super::reopen::Retry;
use crate::answers::CountedPort;
use crate::api::view;
use crate::assemble::{self, port_info};
use crate::config::PortConfig;
use crate::dpdk::{Interface, Mempool};
use crate::live::watch::PortState;
use crate::pisa::{MAX_PORTS, PortId};
use crate::port::{Dev, FAULTS_HELD, FaultStats, Port, PortError, PortOptions};
use crate::stats::SwitchStats;
use crate::switch::PortInfo;
use crate::wire::FABRIC_L2_OVERHEAD;
use crate::wire::Mac;
use crate::worker::Queues;

/// Descriptors of each queue.
pub(super) const DESCRIPTORS: u16 = 1024;

/// One port.
pub(super) struct PortSlot {
    pub config: PortConfig,
    pub port: Port,
    pub info: PortInfo,
    /// Whether the user wants the port up.
    pub enabled: bool,
    pub retry: Retry,
    workers: usize,
    /// The workers that poll its queues in turn, if the user has named them.
    pollers: Vec<usize>,
}

impl PortSlot {
    /// Opens the device. There is a worker on each of the cores.
    pub fn open(config: &PortConfig, cores: &[usize], pool: &Arc<Mempool>) -> Result<Self, PortError> {
        Self::open_with(config, cores, pool, !matches!(config.dev, Dev::Veth { cut: true, .. }))
    }

    /// As [`Self::open`]. Payload of large frames may stay whole with `whole_segments`.
    pub fn open_with(
        config: &PortConfig,
        cores: &[usize],
        pool: &Arc<Mempool>,
        whole_segments: bool,
    ) -> Result<Self, PortError> {
        let pollers = pollers(config, cores).map_err(|why| PortError::unfit(&config.name, &config.dev, why))?;
        let plan = config.dev.queue_plan(config.queues, cores.len() as u16);
        let options = PortOptions {
            rx_queues: plan.rx,
            fewer_rx: plan.fewer_rx,
            tx_queues: plan.tx,
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            mtu: config.mtu as u16,
            promiscuous: config.promiscuous,
            whole_segments,
        };
        let port = Port::open(&config.name, &config.dev, &options, pool)?;
        if config.fault.is_some() {
            port.set_fault(config.fault.as_ref());
        }
        let info = port_info(config);
        info.mac.store(own_mac(&config.dev, port.mac()).to_u64(), Relaxed);
        Ok(Self {
            config: config.clone(),
            port,
            info,
            enabled: true,
            retry: Retry::default(),
            workers: cores.len(),
            pollers,
        })
    }

    /// Opens the device again, on the interface that has its name now. What the port has counted
    /// goes on. To be called when no worker has a queue of it; after an error it stays closed.
    pub fn reopen(&mut self, cores: &[usize], pool: &Arc<Mempool>) -> Result<(), ChangeError> {
        self.port.close();
        has_room(&self.config, self.workers, pool)?;
        let Self { port, info, .. } = Self::open(&self.config, cores, pool)?;
        self.port = port.counting_from(self.port.stats());
        self.info.mac.store(info.mac.load(Relaxed), Relaxed);
        if !self.enabled {
            log_failure(self.port.set_link(false));
        }
        Ok(())
    }

    /// Whether the port has this device, also under another name that its interface had when the
    /// port was opened.
    pub fn has(&self, dev: &Dev) -> bool {
        let existing = match dev {
            Dev::Veth { interface, .. } | Dev::Xdp { interface, .. } => Interface::open(interface).ok(),
            _ => None,
        };
        let number = existing.map(|interface| interface.index());
        self.config.dev.is_one_with(dev) || number.is_some() && number == self.port.interface_number()
    }

    /// Takes over what can be changed of an open port.
    pub fn adopt(&mut self, config: &PortConfig) {
        if self.config.fault != config.fault {
            self.port.set_fault(config.fault.as_ref());
        }
        let PortInfo { up, mac, inside, .. } = self.info.clone();
        inside.store(assemble::inside(config.fault.as_ref()), Relaxed);
        self.info = PortInfo { up, mac, inside, ..port_info(config) };
        self.config = config.clone();
    }

    /// Sets the device's MTU and filter as in `config`, or leaves both as they are.
    pub fn set_device(&self, config: &PortConfig) -> Result<(), PortError> {
        let old = &self.config;
        if old.mtu != config.mtu {
            self.port.set_mtu(config.mtu as u16)?;
        }
        if old.promiscuous == config.promiscuous {
            return Ok(());
        }
        self.port.set_promiscuous(config.promiscuous).inspect_err(|_| {
            if old.mtu != config.mtu {
                log_failure(self.port.set_mtu(old.mtu as u16));
            }
        })
    }

    /// Undoes [`Self::set_device`], as far as the device lets it.
    pub fn restore_device(&self, config: &PortConfig) {
        if self.config.mtu != config.mtu {
            log_failure(self.port.set_mtu(self.config.mtu as u16));
        }
        if self.config.promiscuous != config.promiscuous {
            log_failure(self.port.set_promiscuous(self.config.promiscuous));
        }
    }

    /// Lets the workers know whether packets may leave here. True when they may no longer.
    pub fn look_at_link(&self) -> bool {
        let up = self.enabled && self.port.link_up();
        self.info.up.swap(up, Relaxed) && !up
    }

    pub fn state(&self) -> PortState<'_> {
        PortState { name: &self.config.name, enabled: self.enabled, up: self.info.up.load(Relaxed) }
    }

    /// The port as reports have it, with what all workers counted.
    pub fn view(&self, id: PortId, workers: &[Arc<SwitchStats>]) -> view::Port {
        let mut view = view::Port::new(&self.config);
        workers.iter().for_each(|worker| view.counts.count(worker.port(id)));
        self.describe(&mut view);
        view
    }

    /// Adds what the device knows.
    pub fn describe(&self, view: &mut view::Port) {
        view.enabled = self.enabled;
        view.link_up = self.info.up.load(Relaxed);
        view.mac = self.port.mac().to_string();
        let stats = self.port.stats();
        view.counts.device = stats.drops().map(|(why, packets)| (why.name().into(), packets)).collect();
        view.fault = self.port.fault().map(|fault| fault.to_string());
        if view.fault.is_some() || stats.faults != FaultStats::default() {
            view.fault_effects = stats.faults.named().map(|(what, packets)| (what.into(), packets)).collect();
        }
    }

    /// The queues of one worker.
    pub fn deal(&self, id: PortId, worker: usize, queues: &mut Queues) {
        let count = self.port.rx_queues();
        let polls = |queue: &u16| worker == self.poller(id, usize::from(*queue));
        queues.rx.extend((0..count).filter(polls).filter_map(|queue| Some((id, self.port.rx_queue(queue)?))));
        queues.tx.extend(self.port.tx_queue(worker as u16).map(|queue| (id, queue)));
    }

    /// Of several queues each worker polls the one that it sends on: the kernel steers a tap's flow
    /// to where its other direction was written, so that one worker keeps it. Of one queue each,
    /// the ports are dealt out in turn.
    fn poller(&self, id: PortId, queue: usize) -> usize {
        match self.pollers.as_slice() {
            [] if self.port.rx_queues() > 1 => queue % self.workers,
            [] => (usize::from(id) + queue) % self.workers,
            named => named[queue % named.len()],
        }
    }
}

fn log_failure(set: Result<(), PortError>) {
    if let Err(error) = set {
        tracing::warn!("{error}");
    }
}

/// The MAC with which the switch routes on a port: a NIC's own. The interface of a tap or veth port
/// has a MAC that a kernel answers to, the host's or the one under the switch, so there it is
/// another.
fn own_mac(dev: &Dev, device: Mac) -> Mac {
    let [a, b, c, d, e, f] = device.0;
    match dev {
        Dev::Pci { .. } => device,
        _ => Mac([(a | 2) & !1, b ^ 0x57, c, d, e, f]),
    }
}

/// The workers on the cores that the port names.
fn pollers(config: &PortConfig, cores: &[usize]) -> Result<Vec<usize>, String> {
    let worker = |core: &usize| {
        let found = cores.iter().position(|other| other == core);
        found.ok_or_else(|| format!("cores = {core}: the switch polls on {cores:?}"))
    };
    config.cores.iter().map(worker).collect()
}

/// Packet buffers that a port may hold at once: those of its queues, and what faults may hold back
/// of each.
pub(super) fn buffers_held(port: &PortConfig, workers: usize) -> usize {
    let plan = port.dev.queue_plan(port.queues, workers as u16);
    let faults = if port.fault.is_some() { usize::from(plan.rx + plan.tx) * FAULTS_HELD } else { 0 };
    plan.buffers(&port.dev, DESCRIPTORS) as usize + faults
}

/// Why the packet buffers are none for a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBuffers {
    #[error("port {port} needs {needed} packet buffers and {free} are free; start the switch with more (--buffers N)")]
    Few { port: String, needed: u32, free: u32 },
    #[error(
        "port {port}: its MTU of {mtu} bytes does not fit the packet buffers, whose size was set at the start for {max}"
    )]
    Small { port: String, mtu: u32, max: u32 },
}

/// Whether the pool has buffers for one more port. DPDK's drivers fill all descriptors of their
/// receive queues.
pub(super) fn has_room(port: &PortConfig, workers: usize, pool: &Mempool) -> Result<(), NoBuffers> {
    fits_buffers(port, pool)?;
    let plan = port.dev.queue_plan(port.queues, workers as u16);
    let needed = match port.dev {
        // Those that wait for frames, and two for each packet of a burst.
        Dev::Veth { .. } => 192,
        Dev::Memory | Dev::Null { .. } | Dev::Ring { .. } => 64,
        Dev::Xdp { .. } => plan.buffers(&port.dev, DESCRIPTORS) / 2,
        _ => u32::from(plan.rx) * u32::from(DESCRIPTORS),
    };
    let free = pool.available();
    if free < needed {
        return Err(NoBuffers::Few { port: port.name.clone(), needed, free });
    }
    Ok(())
}

/// Whether the pool's buffers hold the port's frames.
pub(super) fn fits_buffers(port: &PortConfig, pool: &Mempool) -> Result<(), NoBuffers> {
    let max = u32::from(pool.frame_bytes()).saturating_sub(FABRIC_L2_OVERHEAD);
    if port.mtu > max {
        return Err(NoBuffers::Small { port: port.name.clone(), mtu: port.mtu, max });
    }
    Ok(())
}

/// Ports as programs know them, by number. Numbers that no port has stand for ports without a name.
pub(super) fn counted_ports<'a>(ports: impl Iterator<Item = (PortId, &'a PortConfig)>) -> Vec<CountedPort> {
    let mut counted = Vec::new();
    for (id, config) in ports {
        let vacant = || CountedPort { name: String::new(), fabric: false };
        counted.resize_with(counted.len().max(usize::from(id) + 1), vacant);
        counted[usize::from(id)] = config.counted();
    }
    counted
}

/// The ports by number.
#[derive(Default)]
pub(super) struct PortSlots(Vec<Option<PortSlot>>);

impl PortSlots {
    pub fn iter(&self) -> impl Iterator<Item = (PortId, &PortSlot)> {
        (0..).zip(&self.0).filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    pub fn get(&self, id: PortId) -> Option<&PortSlot> {
        self.0.get(usize::from(id))?.as_ref()
    }

    pub fn get_mut(&mut self, id: PortId) -> Option<&mut PortSlot> {
        self.0.get_mut(usize::from(id))?.as_mut()
    }

    /// The ports as programs know them.
    pub fn counted(&self) -> Vec<CountedPort> {
        counted_ports(self.iter().map(|(id, slot)| (id, &slot.config)))
    }

    pub fn find(&self, name: &str) -> Option<PortId> {
        self.iter().find(|(_, slot)| slot.config.name == name).map(|(id, _)| id)
    }

    pub fn insert(&mut self, id: PortId, slot: PortSlot) {
        let at = usize::from(id);
        self.0.resize_with(self.0.len().max(at + 1), || None);
        self.0[at] = Some(slot);
    }

    pub fn remove(&mut self, id: PortId) -> Option<PortSlot> {
        self.0.get_mut(usize::from(id))?.take()
    }

    /// The numbers that no port has, the lowest first.
    pub fn vacant(&self) -> impl Iterator<Item = PortId> {
        let free = |id: &PortId| self.0.get(usize::from(*id)).is_none_or(Option::is_none);
        (0..MAX_PORTS as PortId).filter(free)
    }

    pub fn name(&self, id: PortId) -> &str {
        self.0.get(usize::from(id)).and_then(Option::as_ref).map_or("", |slot| &slot.config.name)
    }

    /// The names, for messages.
    pub fn names(&self) -> String {
        self.iter().map(|(_, slot)| slot.config.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}
