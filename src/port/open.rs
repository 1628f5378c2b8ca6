//! Opening a port, and what can be asked of it while it runs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering},
};

use super::{
    Dev, FaultSpec, MemoryHandle, PortDrop, PortOptions, PortStats, RxQueue, TxQueue, Way,
    claim::{Claim, claim},
    fault::{FaultEnd, FaultPoint},
    files::NewFile,
    kernel::{self, KernelLosses, Watched},
    memory::Memory,
    queue::{Link, Mend, RxDriver, TxDriver},
    stats::QueueCounters,
    tap, vdev,
    veth::Veth,
    xdp,
};
use crate::lock::Hold;
use crate::{
    dpdk::{DpdkError, EthDev, Interface, LentBuffers, Mempool, Presence, SocketError, XdpSockets, cycles_per_second},
    wire::Mac,
};

/// Ethernet header and one VLAN tag, which the MTU leaves out.
const LINK_HEADER: usize = 14 + 4;

/// The time that the kernel has to release the queue of an AF_XDP socket that was closed.
const RELEASE: std::time::Duration = std::time::Duration::from_millis(100);

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
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The device cannot serve the port, and what mends that.
    #[error("{0}")]
    Unfit(String),
}

impl PortError {
    /// The device cannot serve the port.
    pub fn unfit(port: &str, dev: &Dev, why: String) -> Self {
        failed(port, dev, PortProblem::Unfit(why))
    }
}

/// The state of the interface that a port was opened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Sound,
    Gone,
    /// There is another one of its name, or one can be made: the port is to be opened again.
    Back,
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
    /// Largest MTU that the buffers hold.
    max_mtu: u16,
    /// Sockets of an xdp port. They close before the device does.
    sockets: XdpSockets,
    device: Device,
    /// The kernel's interface under an xdp port.
    under: Option<Interface>,
    /// Claim of a veth or xdp port: no other weir has the interface.
    claim: Mutex<Option<Claim>>,
    /// Descriptors of a tap port's interface.
    taps: Vec<i32>,
    /// What the kernel lost before the device had it, or behind it.
    kernel: Option<KernelLosses>,
    closed: AtomicBool,
    /// The port's counts from before it was opened again.
    earlier: PortStats,
    /// Packets that the device had not sent when it was closed.
    unsent: AtomicU64,
    /// Output of a pcap port, whose driver knows the file by its descriptor.
    _output: Option<NewFile>,
    link: Arc<Link>,
    /// The longest frame at the MTU that is set.
    longest: Arc<AtomicUsize>,
    /// Held while the link is looked at or set, so that no look from before a change outlasts it.
    links: Mutex<()>,
    rx: Box<[Seat]>,
    tx: Box<[Seat]>,
    /// The last result of [`Port::stats`].
    reported: Mutex<PortStats>,
    fault: Mutex<Option<FaultSpec>>,
    /// Cycles a second, by which faults measure time.
    hz: u64,
    /// Packets that had found no buffer when [`Port::nudge`] looked last.
    starved: AtomicU64,
}

/// A queue's counters, and whether a worker has the queue.
#[derive(Debug, Default)]
struct Seat {
    taken: AtomicBool,
    counters: Arc<QueueCounters>,
    faults: Arc<FaultPoint>,
}

impl Seat {
    fn end(&self) -> FaultEnd {
        FaultEnd::new(&self.faults, &self.counters)
    }
}

impl Port {
    /// Opens a port; works at any time while EAL runs.
    pub fn open(name: &str, dev: &Dev, options: &PortOptions, pool: &Arc<Mempool>) -> Result<Self, PortError> {
        let fail = |problem| failed(name, dev, problem);
        let (mut under, mut sockets, mut taps) = (None, XdpSockets::default(), Vec::new());
        let (claim, mut kernel) = watched(dev).map_err(fail)?;
        let output = vdev::output(dev).map_err(fail)?;
        let device = match dev {
            Dev::Memory => {
                let (memory, handle) = Memory::new(pool);
                Device::Memory(memory, handle)
            }
            Dev::Veth { interface, .. } => {
                Device::Veth(Veth::open(interface, options, pool).map_err(|e| fail(e.into()))?)
            }
            Dev::Xdp { interface, .. } => {
                let (opened, found, device) = xdp::open(interface, dev, options, pool).map_err(fail)?;
                (under, sockets) = (Some(opened), found);
                Device::Eth(Arc::new(device))
            }
            Dev::Tap { .. } => {
                let (device, found) = tap::opening(|| vdev::open(dev, options, pool, None));
                let device = device.map_err(fail)?;
                kernel = Some(KernelLosses::new(Watched::Tap(found.clone())));
                taps = found;
                Device::Eth(Arc::new(device))
            }
            _ => Device::Eth(Arc::new(vdev::open(dev, options, pool, output.as_ref()).map_err(fail)?)),
        };
        let rx_queues = match &device {
            Device::Eth(device) => device.rx_queues(),
            Device::Veth(_) | Device::Memory(..) => options.rx_queues,
        };
        let seats = |n: u16| (0..n).map(|_| Seat::default()).collect();
        let port = Self {
            name: name.to_owned(),
            dev: dev.clone(),
            options: *options,
            max_mtu: match dev {
                Dev::Xdp { .. } => pool.mtu().min(xdp::max_mtu(options.mtu)),
                _ => pool.mtu(),
            },
            sockets,
            device,
            under,
            claim: Mutex::new(claim),
            taps,
            kernel,
            closed: AtomicBool::new(false),
            earlier: PortStats::default(),
            unsent: AtomicU64::new(0),
            _output: output,
            link: Arc::new(Link {
                admin_up: AtomicBool::new(true),
                carrier: AtomicBool::new(true),
                mtu: AtomicU16::new(0),
            }),
            longest: Arc::default(),
            links: Mutex::new(()),
            rx: seats(rx_queues),
            tx: seats(options.tx_queues),
            reported: Mutex::default(),
            fault: Mutex::default(),
            hz: cycles_per_second(pool.eal()),
            starved: AtomicU64::new(0),
        };
        port.link_up();
        port.set_longest(port.mtu());
        Ok(port)
    }

    /// Receive queue `i`, for its one worker; `None` when it is taken or there is none.
    pub fn rx_queue(&self, i: u16) -> Option<RxQueue> {
        let seat = take(&self.rx, i)?;
        let driver = match &self.device {
            Device::Eth(device) => {
                RxDriver::Eth { queue: device.rx_queue(i)?, mend: self.mend(device), fed: self.dev.is_fed_by_a_peer() }
            }
            Device::Veth(veth) => RxDriver::Veth(veth.rx(i)?),
            Device::Memory(memory, _) => RxDriver::Memory(memory.clone()),
        };
        let (link, counters, faults) = (self.link.clone(), seat.counters.clone(), seat.end());
        Some(RxQueue { driver, link, counters, faults, waiting_since: None })
    }

    /// Transmit queue `i`, for its one worker; `None` when it is taken or there is none.
    pub fn tx_queue(&self, i: u16) -> Option<TxQueue> {
        let seat = take(&self.tx, i)?;
        let driver = match &self.device {
            Device::Eth(device) => TxDriver::Eth { queue: device.tx_queue(i)?, longest: self.longest() },
            Device::Veth(veth) => TxDriver::Veth(veth.tx(i)?),
            Device::Memory(memory, _) => TxDriver::Memory(memory.clone()),
        };
        Some(TxQueue { driver, link: self.link.clone(), counters: seat.counters.clone(), faults: seat.end() })
    }

    /// The work that the device leaves undone in a received frame.
    fn mend(&self, device: &EthDev) -> Mend {
        Mend {
            vlan: device.strips_vlan(),
            checksum: self.under.as_ref().is_some_and(|under| xdp::is_fed_by_a_kernel(&under.driver())),
        }
    }

    /// Longest frame that may be given to the driver. net_tap (22.11) stops at a longer one, and so
    /// would all behind it; what is longer than its frames net_af_xdp loses with its buffer.
    fn longest(&self) -> Option<Arc<AtomicUsize>> {
        matches!(self.dev, Dev::Tap { .. } | Dev::Xdp { .. }).then(|| self.longest.clone())
    }

    fn set_longest(&self, mtu: u16) {
        self.longest.store(usize::from(mtu) + LINK_HEADER, Ordering::Relaxed);
    }

    /// The other end of a `memory` port.
    pub fn memory(&self) -> Option<MemoryHandle> {
        match &self.device {
            Device::Memory(_, handle) => Some(handle.clone()),
            Device::Eth(_) | Device::Veth(_) => None,
        }
    }

    /// Receive queues that it was opened with.
    pub fn rx_queues(&self) -> u16 {
        self.rx.len() as u16
    }

    pub fn mtu(&self) -> u16 {
        match &self.device {
            // Its frames are split over buffers, although the driver reports another MTU.
            Device::Eth(_) if matches!(self.dev, Dev::Memif { .. }) => self.options.mtu,
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

    /// Whether packets can pass. Asks the device, and lets the port's queues know: to be called now
    /// and then, not by workers.
    pub fn link_up(&self) -> bool {
        let _one = self.links.hold();
        self.look_at_link()
    }

    fn look_at_link(&self) -> bool {
        let carrier = match (&self.device, &self.under) {
            // The driver calls every link up.
            (_, Some(under)) => runs(under) && self.is_bound(),
            (Device::Eth(device), None) => (device.link_up() || self.moved_away()) && tap::is_there(&self.taps),
            (Device::Veth(veth), _) => runs(&veth.interface) && veth.is_bound(),
            (Device::Memory(..), _) => true,
        };
        if let Device::Veth(veth) = &self.device {
            self.link.mtu.store(veth.interface.mtu().unwrap_or(0), Ordering::Relaxed);
        }
        let carrier = carrier && !self.closed.load(Ordering::Relaxed);
        let carrier = carrier && self.memory().is_none_or(|handle| handle.is_plugged());
        self.link.carrier.store(carrier, Ordering::Relaxed);
        carrier && self.link.admin_up.load(Ordering::Relaxed)
    }

    /// The state of the port's interface. To be asked now and then, not by workers.
    pub fn standing(&self) -> Standing {
        match (self.interface().map(Interface::presence), &self.dev) {
            (Some(Presence::Gone), _) => Standing::Gone,
            (Some(Presence::Replaced), _) => Standing::Back,
            // It has been elsewhere, or the port could not be opened when another one was closed.
            (Some(Presence::Here), _) if self.closed.load(Ordering::Relaxed) || !self.is_bound() => Standing::Back,
            // The driver makes it.
            (None, Dev::Tap { .. }) if self.closed.load(Ordering::Relaxed) || !tap::is_there(&self.taps) => {
                Standing::Back
            }
            (None, _) if self.closed.load(Ordering::Relaxed) => Standing::Back,
            _ => Standing::Sound,
        }
    }

    /// Whether what was opened on the interface is on it still. It is not once the interface has
    /// been in another network namespace.
    fn is_bound(&self) -> bool {
        match &self.device {
            Device::Veth(veth) => veth.is_bound(),
            Device::Eth(_) | Device::Memory(..) => self.sockets.are_bound(),
        }
    }

    /// The number of the kernel's interface that the port takes its packets from.
    pub fn interface_number(&self) -> Option<i32> {
        self.interface().map(Interface::index)
    }

    /// Reads what the kernel counts of the port's interface. To be called now and then, by a thread
    /// with the process's rights.
    pub fn look_at_kernel(&self) {
        if let Some(kernel) = &self.kernel {
            kernel.look();
        }
    }

    /// Counts on from what the port had counted before it was opened again.
    #[must_use]
    pub fn counting_from(mut self, earlier: PortStats) -> Self {
        self.earlier = earlier;
        self
    }

    /// Takes the link up or down while the port runs. Where the device has no such thing, the port
    /// alone stops.
    pub fn set_link(&self, up: bool) -> Result<(), PortError> {
        let _one = self.links.hold();
        let was = self.link.admin_up.load(Ordering::Relaxed);
        if !up {
            self.link.admin_up.store(false, Ordering::Relaxed);
        }
        let set = self.set_device_link(up);
        // A device that refuses leaves the port as it was.
        self.link.admin_up.store(if set.is_ok() { up } else { was }, Ordering::Relaxed);
        self.look_at_link();
        set
    }

    fn set_device_link(&self, up: bool) -> Result<(), PortError> {
        let set = match (&self.device, self.interface()) {
            // A state that holds already needs no rights to be set.
            (_, Some(interface)) if interface.is_up().is_ok_and(|is| is == up) => Ok(()),
            (_, Some(interface)) => interface.set_up(up).map_err(PortProblem::from),
            (Device::Eth(device), None) if !self.moved_away() => {
                device.set_link(up).map(drop).map_err(PortProblem::from)
            }
            _ => Ok(()),
        };
        set.map_err(|problem| failed(&self.name, &self.dev, problem))
    }

    /// The kernel's interface that the port takes its packets from.
    fn interface(&self) -> Option<&Interface> {
        match &self.device {
            Device::Veth(veth) => Some(&veth.interface),
            Device::Eth(_) | Device::Memory(..) => self.under.as_ref(),
        }
    }

    /// Takes frames for other MAC addresses in, or no longer, while the port runs. A device without
    /// such a filter takes all.
    pub fn set_promiscuous(&self, on: bool) -> Result<(), PortError> {
        let set = match &self.device {
            Device::Eth(device) => device.set_promiscuous(on).map_err(PortProblem::from),
            Device::Veth(veth) => veth.set_promiscuous(on).map_err(PortProblem::from),
            Device::Memory(..) => Ok(()),
        };
        set.map_err(|problem| failed(&self.name, &self.dev, problem))
    }

    /// Changes the largest IP packet, in bytes, while the port runs. It cannot outgrow the buffers.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), PortError> {
        let max = self.max_mtu;
        // Before the device changes, so that it never gets a frame that is too long for it.
        self.set_longest(mtu.min(self.mtu()));
        let set = match (&self.device, self.interface()) {
            _ if !(68..=max).contains(&mtu) => {
                Err(PortProblem::Unfit(format!("an MTU of {mtu}: 68 to {max}, which the packet buffers hold")))
            }
            (Device::Veth(_), Some(interface)) => interface.set_mtu(mtu).map_err(PortProblem::from),
            (Device::Eth(device), _) if !matches!(self.dev, Dev::Memif { .. }) => {
                device.set_mtu(mtu).map_err(PortProblem::from)
            }
            _ => Ok(()),
        };
        self.set_longest(self.mtu());
        set.map_err(|problem| failed(&self.name, &self.dev, problem))
    }

    /// Sets or ends the port's faults. Its queues follow within a burst.
    pub fn set_fault(&self, spec: Option<&FaultSpec>) {
        let mut fault = self.fault.hold();
        for (way, seats) in [(Way::Rx, &self.rx), (Way::Tx, &self.tx)] {
            for (queue, seat) in (0..).zip(seats) {
                seat.faults.set(spec, way, queue, self.hz);
            }
        }
        *fault = spec.cloned();
    }

    /// The faults that packets meet.
    pub fn fault(&self) -> Option<FaultSpec> {
        self.fault.hold().clone()
    }

    /// Wakes a tap port that ran out of buffers; see `tap.rs`. To be called now and then, not by
    /// workers.
    pub fn nudge(&self) {
        let (Dev::Tap { .. }, Device::Eth(device)) = (&self.dev, &self.device) else { return };
        let starved = device.stats().rx_no_buffer;
        if self.starved.swap(starved, Ordering::Relaxed) != starved {
            tap::wake();
        }
    }

    /// A TAP interface carries on in the network namespace it was moved to, but there DPDK, which
    /// asks for it by name, finds it no more and calls its link down.
    fn moved_away(&self) -> bool {
        matches!(&self.dev, Dev::Tap { interface } if Interface::open(interface).is_err())
    }

    /// Closes the device, so that nothing of it stays behind in the kernel. To be called when all
    /// its queues have been dropped; else nothing happens. What the port has counted can still be
    /// asked.
    pub fn close(&self) {
        let first = !self.closed.swap(true, Ordering::Relaxed);
        if first {
            self.look_at_kernel();
            self.stats();
            self.claim.hold().take();
        }
        let Device::Eth(device) = &self.device else { return };
        let mut lent = None;
        if first {
            self.unsent.fetch_add(self.sockets.unsent(device), Ordering::Relaxed);
            lent = self.under.as_ref().map(|_| self.sockets.lent(device));
            self.sockets.close();
        }
        if device.close() && first {
            self.sockets.reclaim();
            lent.into_iter().for_each(LentBuffers::give_back);
            if self.under.is_some() {
                // The kernel gives the interface's queue free later, on a thread of its own.
                std::thread::sleep(RELEASE);
            }
        }
    }

    pub fn stats(&self) -> PortStats {
        let mut now = self.earlier;
        now.add_drops(PortDrop::TxLost, self.unsent.load(Ordering::Relaxed));
        match &self.device {
            Device::Eth(device) => {
                let mut device = device.stats();
                // The driver knows of a part of them.
                device.rx_missed = device.rx_missed.max(self.sockets.missed());
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
        if let Some(losses) = self.kernel.as_ref().map(KernelLosses::get) {
            // The kernel counts a packet too that it refused, which the switch has counted.
            let refused: u64 = self.tx.iter().map(|seat| seat.counters.refused()).sum();
            now.add_drops(PortDrop::RxMissed, losses.rx_missed);
            now.add_drops(PortDrop::RxError, losses.rx_error);
            now.add_drops(PortDrop::TxLost, losses.tx_lost.saturating_sub(refused));
        }
        let mut reported = self.reported.hold();
        now.at_least(&reported);
        *reported = now;
        now
    }
}

/// Claims the interface that a port takes its packets from, if that is one that exists, and counts
/// what the kernel loses of them.
fn watched(dev: &Dev) -> Result<(Option<Claim>, Option<KernelLosses>), PortProblem> {
    let (Dev::Veth { interface: name, .. } | Dev::Xdp { interface: name, .. }) = dev else { return Ok((None, None)) };
    let interface = Interface::open(name)?;
    let claim = claim(&interface)?;
    if let Some((kind, master)) = kernel::master(interface.index()) {
        tracing::warn!(
            "{name} is a port of the {kind} {master} too, which forwards its packets as well: `ip link set {name} \
             nomaster` takes it out"
        );
    }
    let number = interface.index();
    let watched = if matches!(dev, Dev::Xdp { .. }) { Watched::Xdp(number) } else { Watched::Sockets(number) };
    Ok((claim, Some(KernelLosses::new(watched))))
}

impl Drop for Port {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether an interface is the one that was opened, and can carry packets.
fn runs(interface: &Interface) -> bool {
    interface.presence() == Presence::Here && interface.is_running().unwrap_or(false)
}

fn failed(port: &str, dev: &Dev, problem: PortProblem) -> PortError {
    PortError { port: port.to_owned(), dev: dev.to_string(), problem: Box::new(problem) }
}

fn take(seats: &[Seat], i: u16) -> Option<&Seat> {
    seats.get(usize::from(i)).filter(|seat| !seat.taken.swap(true, Ordering::AcqRel))
}
