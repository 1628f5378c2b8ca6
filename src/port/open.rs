//! Opening a port, and what can be asked of it while it runs.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use super::{
    Dev, MemoryHandle, PortDrop, PortStats, RxQueue, TxQueue,
    memory::Memory,
    queue::{Link, RxDriver, TxDriver},
    stats::QueueCounters,
    tap,
    veth::Veth,
};
use crate::{
    dpdk::{DpdkError, EthConfig, EthDev, Interface, Mempool, SocketError},
    wire::Mac,
};

/// Ethernet header and one VLAN tag, which the MTU leaves out.
const LINK_HEADER: usize = 14 + 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOptions {
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub rx_descriptors: u16,
    pub tx_descriptors: u16,
    pub mtu: u16,
    pub promiscuous: bool,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self { rx_queues: 1, tx_queues: 1, rx_descriptors: 1024, tx_descriptors: 1024, mtu: 1500, promiscuous: true }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("port {port} ({dev}): {problem}")]
pub struct PortError {
    pub port: String,
    pub dev: String,
    #[source]
    pub problem: Box<PortProblem>,
}

#[derive(Debug, thiserror::Error)]
pub enum PortProblem {
    #[error(transparent)]
    Device(#[from] DpdkError),
    #[error(transparent)]
    Interface(#[from] SocketError),
}

#[derive(Debug)]
enum Device {
    Eth(Arc<EthDev>),
    Veth(Veth),
    Memory(Memory, MemoryHandle),
}

/// An open port. It closes when it and all its queues are dropped.
#[derive(Debug)]
pub struct Port {
    name: String,
    dev: Dev,
    options: PortOptions,
    device: Device,
    link: Arc<Link>,
    rx: Box<[Seat]>,
    tx: Box<[Seat]>,
    /// What [`Port::stats`] said last.
    reported: Mutex<PortStats>,
    /// Packets that had found no buffer when [`Port::nudge`] looked last.
    starved: AtomicU64,
}

/// A queue's counters, and whether a worker has the queue.
#[derive(Debug, Default)]
struct Seat {
    taken: AtomicBool,
    counters: Arc<QueueCounters>,
}

impl Port {
    /// Opens a port; works at any time while EAL runs.
    pub fn open(name: &str, dev: &Dev, options: &PortOptions, pool: &Arc<Mempool>) -> Result<Self, PortError> {
        let device = match dev {
            Dev::Memory => {
                let (memory, handle) = Memory::new(pool);
                Device::Memory(memory, handle)
            }
            Dev::Veth { interface } => {
                Device::Veth(Veth::open(interface, options, pool).map_err(|problem| failed(name, dev, problem))?)
            }
            _ => Device::Eth(Arc::new(open_eth(name, dev, options, pool)?)),
        };
        let seats = |n: u16| (0..n).map(|_| Seat::default()).collect();
        let port = Self {
            name: name.to_owned(),
            dev: dev.clone(),
            options: *options,
            device,
            link: Arc::new(Link { wanted: AtomicBool::new(true), carrier: AtomicBool::new(true) }),
            rx: seats(options.rx_queues),
            tx: seats(options.tx_queues),
            reported: Mutex::default(),
            starved: AtomicU64::new(0),
        };
        port.link_up();
        Ok(port)
    }

    /// Receive queue `i`, for its one worker; `None` when it is taken or there is none.
    pub fn rx_queue(&self, i: u16) -> Option<RxQueue> {
        let seat = take(&self.rx, i)?;
        let driver = match &self.device {
            Device::Eth(device) => RxDriver::Eth { queue: device.rx_queue(i)?, strips_vlan: device.strips_vlan() },
            Device::Veth(veth) => RxDriver::Veth(veth.rx(i)?),
            Device::Memory(memory, _) => RxDriver::Memory(memory.clone()),
        };
        Some(RxQueue { driver, link: self.link.clone(), counters: seat.counters.clone() })
    }

    /// Transmit queue `i`, for its one worker; `None` when it is taken or there is none.
    pub fn tx_queue(&self, i: u16) -> Option<TxQueue> {
        let seat = take(&self.tx, i)?;
        let driver = match &self.device {
            Device::Eth(device) => TxDriver::Eth { queue: device.tx_queue(i)?, longest: self.longest() },
            Device::Veth(veth) => TxDriver::Veth(veth.tx(i)?),
            Device::Memory(memory, _) => TxDriver::Memory(memory.clone()),
        };
        Some(TxQueue { driver, link: self.link.clone(), counters: seat.counters.clone() })
    }

    /// Longest frame that may be given to the driver. net_tap (22.11) stops at a longer one, and so would all behind it.
    fn longest(&self) -> Option<usize> {
        matches!(self.dev, Dev::Tap { .. }).then(|| usize::from(self.mtu()) + LINK_HEADER)
    }

    /// The other end of a `memory` port.
    pub fn memory(&self) -> Option<MemoryHandle> {
        match &self.device {
            Device::Memory(_, handle) => Some(handle.clone()),
            Device::Eth(_) | Device::Veth(_) => None,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dev(&self) -> &Dev {
        &self.dev
    }

    /// Receive queues that it was opened with.
    pub fn rx_queues(&self) -> u16 {
        self.options.rx_queues
    }

    /// Most receive queues that the device could be opened with.
    pub fn max_rx_queues(&self) -> u16 {
        match &self.device {
            Device::Eth(device) => device.max_rx_queues(),
            Device::Veth(_) | Device::Memory(..) => u16::MAX,
        }
    }

    /// Most transmit queues that the device could be opened with.
    pub fn max_tx_queues(&self) -> u16 {
        match &self.device {
            Device::Eth(device) => device.max_tx_queues(),
            Device::Veth(_) | Device::Memory(..) => u16::MAX,
        }
    }

    pub fn mtu(&self) -> u16 {
        match &self.device {
            Device::Eth(device) => device.mtu(),
            Device::Veth(veth) => veth.interface.mtu().unwrap_or(self.options.mtu),
            Device::Memory(..) => self.options.mtu,
        }
    }

    pub fn mac(&self) -> Mac {
        match &self.device {
            Device::Eth(device) => Mac(device.mac()),
            Device::Veth(veth) => Mac(veth.interface.mac().unwrap_or_default()),
            // Locally administered, and no two are ever compared.
            Device::Memory(..) => Mac([2, 0, 0, 0, 0, 0]),
        }
    }

    /// Whether packets can pass. Asks the device, and lets the port's queues know: to be called now and then, not by
    /// workers.
    pub fn link_up(&self) -> bool {
        let carrier = match &self.device {
            Device::Eth(device) => device.link_up() || self.moved_away(),
            Device::Veth(veth) => veth.interface.is_running().unwrap_or(false),
            Device::Memory(..) => true,
        };
        self.link.carrier.store(carrier, Ordering::Relaxed);
        carrier && self.link.wanted.load(Ordering::Relaxed)
    }

    /// Takes the link up or down while the port runs. Where the device has no such thing, the port alone stops.
    pub fn set_link(&self, up: bool) -> Result<(), PortError> {
        let was = self.link.wanted.load(Ordering::Relaxed);
        if !up {
            self.link.wanted.store(false, Ordering::Relaxed);
        }
        let set = self.set_device_link(up);
        // A device that refuses leaves the port as it was.
        self.link.wanted.store(if set.is_ok() { up } else { was }, Ordering::Relaxed);
        self.link_up();
        set
    }

    fn set_device_link(&self, up: bool) -> Result<(), PortError> {
        match &self.device {
            Device::Eth(_) if self.moved_away() => Ok(()),
            Device::Eth(device) => {
                device.set_link(up).map(drop).map_err(|problem| failed(&self.name, &self.dev, problem))
            }
            // What is so already needs no rights to be set.
            Device::Veth(veth) if veth.interface.is_up().is_ok_and(|is| is == up) => Ok(()),
            Device::Veth(veth) => veth.interface.set_up(up).map_err(|problem| failed(&self.name, &self.dev, problem)),
            Device::Memory(..) => Ok(()),
        }
    }

    /// Wakes a tap port that ran out of buffers; see `tap.rs`. To be called now and then, not by workers.
    pub fn nudge(&self) {
        let (Dev::Tap { .. }, Device::Eth(device)) = (&self.dev, &self.device) else { return };
        let starved = device.stats().rx_no_buffer;
        if self.starved.swap(starved, Ordering::Relaxed) != starved {
            tap::wake();
        }
    }

    /// A TAP interface carries on in the network namespace it was moved to, but there DPDK, which asks for it by name,
    /// finds it no more and calls its link down.
    fn moved_away(&self) -> bool {
        matches!(&self.dev, Dev::Tap { interface } if Interface::open(interface).is_err())
    }

    pub fn stats(&self) -> PortStats {
        let mut now = PortStats::default();
        match &self.device {
            Device::Eth(device) => {
                let device = device.stats();
                now.add_device(&device);
                // Others count what they leave in the burst, which the switch counts as well.
                if matches!(self.dev, Dev::Pci { .. } | Dev::Pcap { .. }) {
                    now.add_drops(PortDrop::TxError, device.tx_errors);
                }
            }
            Device::Veth(veth) => now.add_drops(PortDrop::RxMissed, veth.missed()),
            Device::Memory(..) => {}
        }
        for seat in self.rx.iter().chain(&self.tx) {
            now.add_queue(&seat.counters);
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        now.at_least(&reported);
        *reported = now;
        now
    }
}

fn failed(port: &str, dev: &Dev, problem: impl Into<PortProblem>) -> PortError {
    PortError { port: port.to_owned(), dev: dev.to_string(), problem: Box::new(problem.into()) }
}

fn take(seats: &[Seat], i: u16) -> Option<&Seat> {
    seats.get(usize::from(i)).filter(|seat| !seat.taken.swap(true, Ordering::AcqRel))
}

fn open_eth(name: &str, dev: &Dev, options: &PortOptions, pool: &Arc<Mempool>) -> Result<EthDev, PortError> {
    let config = EthConfig {
        rx_queues: options.rx_queues,
        tx_queues: options.tx_queues,
        rx_descriptors: options.rx_descriptors,
        tx_descriptors: options.tx_descriptors,
        mtu: options.mtu,
        promiscuous: options.promiscuous,
    };
    let device = match dev {
        Dev::Pci { address } => EthDev::open_pci(address, &config, pool),
        _ => {
            let (driver, arguments) = vdev(dev, options.rx_queues);
            let create = || EthDev::create(&unique(driver), &arguments, &config, pool);
            if driver == "net_tap" { tap::opening(create) } else { create() }
        }
    };
    device.map_err(|problem| failed(name, dev, problem))
}

/// The DPDK driver of a virtual device, and its arguments.
fn vdev(dev: &Dev, rx_queues: u16) -> (&'static str, String) {
    match dev {
        Dev::Tap { interface } => ("net_tap", format!("iface={interface}")),
        Dev::Pcap { input, output, infinite } => {
            // One file feeds one queue; as an endless source it may feed many.
            let inputs = if *infinite { rx_queues.into() } else { 1 };
            let mut arguments = vec![format!("rx_pcap={input}"); if input.is_empty() { 0 } else { inputs }];
            if !output.is_empty() {
                arguments.push(format!("tx_pcap={output}"));
            }
            if *infinite {
                arguments.push("infinite_rx=1".to_owned());
            }
            ("net_pcap", arguments.join(","))
        }
        Dev::Ring { .. } => ("net_ring", String::new()),
        Dev::Null { size, copy } => ("net_null", format!("size={size},copy={}", u8::from(*copy))),
        Dev::Pci { .. } | Dev::Veth { .. } | Dev::Memory => unreachable!("not on DPDK's vdev bus"),
    }
}

/// Device names are the process's; ports' names may repeat once a port has been closed.
fn unique(driver: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{driver}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}
