//! An Ethernet device of DPDK with its queues.

use std::{
    ffi::{CStr, CString},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering, fence},
    },
};

use super::{
    error::DpdkError,
    log,
    mbuf::{Burst, free_burst},
    mempool::Mempool,
    sys,
};

use crate::lock::Hold;

/// How a device, or a port of any kind, is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthConfig {
    pub rx_queues: u16,
    /// Fewer receive queues will do, where the device has not as many or cannot spread flows over
    /// them.
    pub fewer_rx: bool,
    pub tx_queues: u16,
    pub rx_descriptors: u16,
    pub tx_descriptors: u16,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Whether frames for other MAC addresses are taken in.
    pub promiscuous: bool,
    /// Whether the payload of a kernel's large frames may stay whole, where a device gives such.
    /// Then a packet of theirs can have two segments.
    pub whole_segments: bool,
}

impl Default for EthConfig {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            fewer_rx: false,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: 1500,
            promiscuous: true,
            whole_segments: false,
        }
    }
}

/// The device's own counters since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    /// Dropped by the device because they were not fetched in time.
    pub rx_missed: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Dropped because the pool had no buffer.
    pub rx_no_buffer: u64,
}

/// A started device. Stopped, closed and removed when it and all its queues are dropped.
#[derive(Debug)]
pub struct EthDev {
    id: u16,
    /// Its bus, and its name there.
    place: (&'static CStr, CString),
    info: Info,
    rx_taken: Box<[AtomicBool]>,
    tx_taken: Box<[AtomicBool]>,
    /// The device's descriptors hold buffers of this pool until it is closed.
    pool: Arc<Mempool>,
    /// Held while the device is changed or asked: DPDK leaves it to its callers that no two do so
    /// at once. False once it is closed, after which its number may be another's.
    open: Mutex<bool>,
    /// It was made promiscuous, which some drivers leave behind in the kernel.
    promiscuous: AtomicBool,
}

#[derive(Clone, Debug)]
struct Info {
    driver: String,
    max_rx_queues: u16,
    max_tx_queues: u16,
    max_mtu: u16,
    strips_vlan: bool,
    has_rss: bool,
}

impl EthDev {
    /// Makes a virtual device, `name` beginning with its driver's, and starts it.
    pub fn create(name: &str, arguments: &str, config: &EthConfig, pool: &Arc<Mempool>) -> Result<Self, DpdkError> {
        let name = c_string(name)?;
        let arguments = c_string(arguments)?;
        if name.to_bytes().starts_with(b"net_af_xdp") {
            log::hush_libbpf();
        }
        log::forget_errors();
        // SAFETY: EAL runs, as the pool holds it; three C strings, which the call copies.
        let code = unsafe { sys::rte_eal_hotplug_add(c"vdev".as_ptr(), name.as_ptr(), arguments.as_ptr()) };
        DpdkError::check("rte_eal_hotplug_add", code)?;
        Self::start(port_by_name(&name)?, (c"vdev", name), config, pool)
    }

    /// Starts the device at a PCI address; EAL has probed it if the address was among its
    /// arguments.
    pub fn open_pci(address: &str, config: &EthConfig, pool: &Arc<Mempool>) -> Result<Self, DpdkError> {
        let name = c_string(address)?;
        log::forget_errors();
        if port_by_name(&name).is_err() {
            // SAFETY: EAL runs, as the pool holds it; three C strings, which the call copies.
            let code = unsafe { sys::rte_eal_hotplug_add(c"pci".as_ptr(), name.as_ptr(), c"".as_ptr()) };
            DpdkError::check("rte_eal_hotplug_add", code)?;
        }
        Self::start(port_by_name(&name)?, (c"pci", name), config, pool)
    }

    fn start(
        id: u16,
        place: (&'static CStr, CString),
        config: &EthConfig,
        pool: &Arc<Mempool>,
    ) -> Result<Self, DpdkError> {
        let info = Info::of(id)?;
        let config = &EthConfig { rx_queues: info.rx_queues(config), ..*config };
        let flags = |n: u16| (0..n).map(|_| AtomicBool::new(false)).collect();
        // From here on Drop closes the device, also when a step fails.
        let device = Self {
            id,
            place,
            info,
            rx_taken: flags(config.rx_queues),
            tx_taken: flags(config.tx_queues),
            pool: pool.clone(),
            open: Mutex::new(true),
            promiscuous: AtomicBool::new(false),
        };
        device.enough(config.rx_queues, device.max_rx_queues(), "receive queues")?;
        device.enough(config.tx_queues, device.max_tx_queues(), "transmit queues")?;
        device.enough(config.mtu, device.max_mtu(), "bytes of MTU")?;
        device.configure(config)?;
        // SAFETY: the port is valid and configured.
        DpdkError::check("rte_eth_dev_start", unsafe { sys::rte_eth_dev_start(id) })?;
        if config.promiscuous {
            device.set_promiscuous(true)?;
        }
        log::forget_errors();
        Ok(device)
    }

    /// DPDK's own refusal does not say how much there is.
    fn enough(&self, asked: u16, max: u16, what: &str) -> Result<(), DpdkError> {
        if asked <= max {
            return Ok(());
        }
        let mut error = DpdkError::new("rte_eth_dev_configure", libc::EINVAL);
        error.detail = Some(format!("{asked} {what} asked for, {} has at most {max}", self.driver()));
        Err(error)
    }

    /// The pool of its buffers.
    pub(super) fn pool(&self) -> &Arc<Mempool> {
        &self.pool
    }

    /// The right to call the device's control functions, `None` once it is closed.
    pub(super) fn control(&self) -> Option<MutexGuard<'_, bool>> {
        let open = self.open.hold();
        open.then_some(open)
    }

    fn configure(&self, config: &EthConfig) -> Result<(), DpdkError> {
        let (id, mtu) = (self.id, u32::from(config.mtu));
        // SAFETY: the port is valid and not started.
        let code = unsafe { sys::weir_eth_configure(id, config.rx_queues, config.tx_queues, mtu) };
        DpdkError::check("rte_eth_dev_configure", code)?;
        // SAFETY: the port is valid; returns -1 where NUMA means nothing.
        let socket = unsafe { sys::rte_eth_dev_socket_id(id) } as u32;
        for queue in 0..config.rx_queues {
            let (n, pool) = (config.rx_descriptors, self.pool.as_ptr());
            // SAFETY: the port is configured, the pool lives as long as the device; null asks for
            // the defaults.
            let code = unsafe { sys::rte_eth_rx_queue_setup(id, queue, n, socket, std::ptr::null(), pool) };
            DpdkError::check("rte_eth_rx_queue_setup", code)?;
        }
        for queue in 0..config.tx_queues {
            // SAFETY: as above.
            let code =
                unsafe { sys::rte_eth_tx_queue_setup(id, queue, config.tx_descriptors, socket, std::ptr::null()) };
            DpdkError::check("rte_eth_tx_queue_setup", code)?;
        }
        // SAFETY: the port is valid. Drivers that have no notion of an MTU take any frame.
        optional("rte_eth_dev_set_mtu", unsafe { sys::rte_eth_dev_set_mtu(id, config.mtu) })
    }

    /// The receive queue, once: each has one owner.
    pub fn rx_queue(self: &Arc<Self>, queue: u16) -> Option<EthRx> {
        take(&self.rx_taken, queue).then(|| EthRx { _device: self.clone(), port: self.id, queue })
    }

    /// The transmit queue, once: each has one owner.
    pub fn tx_queue(self: &Arc<Self>, queue: u16) -> Option<EthTx> {
        take(&self.tx_taken, queue).then(|| EthTx { _device: self.clone(), port: self.id, queue })
    }

    pub fn driver(&self) -> &str {
        &self.info.driver
    }

    /// Receive queues that it was opened with.
    pub fn rx_queues(&self) -> u16 {
        self.rx_taken.len() as u16
    }

    pub fn max_rx_queues(&self) -> u16 {
        self.info.max_rx_queues
    }

    pub fn max_tx_queues(&self) -> u16 {
        self.info.max_tx_queues
    }

    pub fn max_mtu(&self) -> u16 {
        self.info.max_mtu
    }

    /// Whether the device may take VLAN tags out of frames, so that each must be looked at.
    pub fn strips_vlan(&self) -> bool {
        self.info.strips_vlan
    }

    pub fn link_up(&self) -> bool {
        let Some(_one) = self.control() else { return false };
        // SAFETY: the port is valid.
        unsafe { sys::weir_eth_link_up(self.id) > 0 }
    }

    /// Sets the link; `Ok(false)` when the driver cannot.
    pub fn set_link(&self, up: bool) -> Result<bool, DpdkError> {
        let Some(_one) = self.control() else { return Ok(false) };
        // SAFETY: the port is valid.
        let code =
            unsafe { if up { sys::rte_eth_dev_set_link_up(self.id) } else { sys::rte_eth_dev_set_link_down(self.id) } };
        if code == -libc::ENOTSUP { Ok(false) } else { DpdkError::check("rte_eth_dev_set_link", code).map(|_| true) }
    }

    /// Takes frames for other MAC addresses in, or no longer. Drivers that know no such thing take
    /// all.
    pub fn set_promiscuous(&self, on: bool) -> Result<(), DpdkError> {
        let Some(_one) = self.control() else { return Ok(()) };
        // SAFETY: the port is valid.
        let code = unsafe {
            if on { sys::rte_eth_promiscuous_enable(self.id) } else { sys::rte_eth_promiscuous_disable(self.id) }
        };
        optional("rte_eth_promiscuous", code)?;
        self.promiscuous.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// Changes the MTU while the device runs, where its driver allows that.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), DpdkError> {
        self.enough(mtu, self.max_mtu(), "bytes of MTU")?;
        let Some(_one) = self.control() else { return Ok(()) };
        // SAFETY: the port is valid. Drivers that have no notion of an MTU take any frame.
        optional("rte_eth_dev_set_mtu", unsafe { sys::rte_eth_dev_set_mtu(self.id, mtu) })
    }

    pub fn mtu(&self) -> u16 {
        let Some(_one) = self.control() else { return self.info.max_mtu };
        let mut mtu = 0;
        // SAFETY: the port is valid, and the call writes one u16.
        let code = unsafe { sys::rte_eth_dev_get_mtu(self.id, &mut mtu) };
        if code == 0 { mtu } else { self.info.max_mtu }
    }

    pub fn mac(&self) -> [u8; 6] {
        let Some(_one) = self.control() else { return [0; 6] };
        let mut mac = sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: the port is valid, and the call writes one address.
        unsafe { sys::rte_eth_macaddr_get(self.id, &mut mac) };
        mac.addr_bytes
    }

    pub fn stats(&self) -> EthStats {
        let Some(_one) = self.control() else { return EthStats::default() };
        // SAFETY: a structure of integers.
        let mut stats: sys::rte_eth_stats = unsafe { std::mem::zeroed() };
        // SAFETY: the port is valid, and the call writes one structure.
        unsafe { sys::rte_eth_stats_get(self.id, &mut stats) };
        EthStats {
            rx_packets: stats.ipackets,
            tx_packets: stats.opackets,
            rx_bytes: stats.ibytes,
            tx_bytes: stats.obytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            tx_errors: stats.oerrors,
            rx_no_buffer: stats.rx_nombuf,
        }
    }
}

impl Info {
    fn of(id: u16) -> Result<Self, DpdkError> {
        // SAFETY: integers and a pointer, for which zero is valid.
        let mut info: sys::weir_eth_info = unsafe { std::mem::zeroed() };
        // SAFETY: the port is valid, and the call writes one structure.
        DpdkError::check("rte_eth_dev_info_get", unsafe { sys::weir_eth_info(id, &mut info) })?;
        // SAFETY: the driver's name is a C string that lives as long as the driver.
        let driver = unsafe { CStr::from_ptr(info.driver) }.to_string_lossy().into_owned();
        Ok(Self {
            driver,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            max_mtu: info.max_mtu,
            strips_vlan: info.strips_vlan != 0,
            has_rss: info.has_rss != 0,
        })
    }

    /// A second queue of a device that does not spread flows would stay empty.
    fn rx_queues(&self, config: &EthConfig) -> u16 {
        match config.fewer_rx {
            true if self.has_rss => config.rx_queues.min(self.max_rx_queues),
            true => 1,
            false => config.rx_queues,
        }
    }
}

impl EthDev {
    /// Closes the device before its last owner is gone. False, and nothing done, while one
    /// of its queues exists.
    pub fn close(self: &Arc<Self>) -> bool {
        // From here on there will be no new queue, and each that there is owns the device as well.
        for taken in self.rx_taken.iter().chain(&self.tx_taken) {
            taken.store(true, Ordering::Release);
        }
        if Arc::strong_count(self) > 1 {
            return false;
        }
        fence(Ordering::Acquire);
        self.shut();
        true
    }

    /// To be called when no queue of the device is left, nor ever will be.
    fn shut(&self) {
        let mut open = self.open.hold();
        if !std::mem::replace(&mut *open, false) {
            return;
        }
        if self.driver() == "net_ring" {
            self.drain();
        }
        let (bus, name) = &self.place;
        // SAFETY: the port is valid until it is closed, which happens once, and no caller uses its
        // queues.
        unsafe {
            if self.promiscuous.load(Ordering::Relaxed) {
                sys::rte_eth_promiscuous_disable(self.id);
            }
            sys::rte_eth_dev_stop(self.id);
            sys::rte_eth_dev_close(self.id);
            sys::rte_eal_hotplug_remove(bus.as_ptr(), name.as_ptr());
        }
    }

    /// Frees what lies in a ring, which its driver forgets.
    fn drain(&self) {
        let mut burst = Burst::new();
        for queue in 0..self.rx_queues() {
            loop {
                receive(self.id, queue, &mut burst);
                if burst.is_empty() {
                    break;
                }
                free_burst(&mut burst);
            }
        }
    }
}

impl Drop for EthDev {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Appends packets that have come in. The queue must be the caller's alone.
#[inline(always)]
fn receive(port: u16, queue: u16, burst: &mut Burst) {
    let length = burst.len();
    let room = burst.remaining_capacity();
    // SAFETY: the queue is started and the caller's alone; `room` places are free behind `length`,
    // and the driver stores pointers to mbufs there that it gives up, which is what an `Mbuf` is.
    unsafe {
        let free = burst.as_mut_ptr().add(length).cast();
        let got = sys::weir_eth_rx_burst(port, queue, free, room as u16);
        burst.set_len(length + usize::from(got));
    }
}

/// A receive queue and its only owner.
#[derive(Debug)]
pub struct EthRx {
    _device: Arc<EthDev>,
    port: u16,
    queue: u16,
}

impl EthRx {
    /// Appends packets that have come in, at most as many as the burst has room for.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) {
        receive(self.port, self.queue, burst);
    }
}

/// A transmit queue and its only owner.
#[derive(Debug)]
pub struct EthTx {
    _device: Arc<EthDev>,
    port: u16,
    queue: u16,
}

impl EthTx {
    /// Sends as many packets from the front of the burst as the queue takes; returns their number.
    /// The rest moves to the front.
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        let length = burst.len();
        // SAFETY: the queue is started and ours alone. The driver takes over the first `sent`
        // mbufs, and the burst forgets exactly these.
        unsafe {
            let first = burst.as_mut_ptr();
            let sent = usize::from(sys::weir_eth_tx_burst(self.port, self.queue, first.cast(), length as u16));
            if sent < length {
                std::ptr::copy(first.add(sent), first, length - sent);
            }
            burst.set_len(length - sent);
            sent
        }
    }
}

fn take(flags: &[AtomicBool], queue: u16) -> bool {
    flags.get(usize::from(queue)).is_some_and(|taken| !taken.swap(true, Ordering::AcqRel))
}

/// A call that some drivers do not implement, and need not.
fn optional(call: &'static str, code: i32) -> Result<(), DpdkError> {
    if code == -libc::ENOTSUP { Ok(()) } else { DpdkError::check(call, code).map(drop) }
}

fn port_by_name(name: &CStr) -> Result<u16, DpdkError> {
    let mut id = 0;
    // SAFETY: a C string, and the call writes one u16.
    let code = unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut id) };
    DpdkError::check("rte_eth_dev_get_port_by_name", code).map(|_| id)
}

fn c_string(text: &str) -> Result<CString, DpdkError> {
    CString::new(text).map_err(|_| DpdkError::new("CString::new", libc::EINVAL))
}
