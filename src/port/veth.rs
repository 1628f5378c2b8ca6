//! The driver of `veth` ports: frames of the kernel made into packets, and back.

use std::{
    io,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use super::{
    PortDrop, PortOptions, Sent, checksum,
    gso::{SegmentPlan, Segmentation, SplitFrame},
    join::{self, Packet},
    queue::{Link, insert_vlan},
    stats::QueueCounters,
};
use crate::{
    dpdk::{
        Burst, Direction, Interface, JOINED_HEADERS, Mbuf, Mempool, PacketSocket, Received, Run, RxBatch, SocketError,
        TX_SEGMENTS, TxBatch, VnetHeader,
    },
    wire::{BURST, Frame, identity},
};

/// First bytes of the payload that a packet of a large frame has beside its headers, while the rest
/// stays in the large frame: what identifies a packet is among them ([`crate::wire::identity`]).
const KEPT_PAYLOAD: usize = 16;

const _: () = assert!(KEPT_PAYLOAD >= identity::MAX_PAYLOAD);

/// An interface of the kernel with a socket for each queue.
#[derive(Debug)]
pub(super) struct Veth {
    pub interface: Interface,
    rx: Vec<Arc<PacketSocket>>,
    tx: Vec<Arc<PacketSocket>>,
    pool: Arc<Mempool>,
    /// Buffers for large frames, where their payload is not to be copied into packets.
    large: Option<Arc<Mempool>>,
}

impl Veth {
    pub fn open(interface: &str, options: &PortOptions, pool: &Arc<Mempool>) -> Result<Self, SocketError> {
        let interface = Interface::open(interface)?;
        if !interface.is_up()? {
            interface.set_up(true)?;
        }
        // An interface below the port's MTU would drop larger packets before weir sees them. One
        // above is left alone.
        if interface.mtu()? < options.mtu {
            interface.set_mtu(options.mtu)?;
        }
        let receive =
            Direction::Receive { promiscuous: options.promiscuous, group: (options.rx_queues > 1).then(fanout_group) };
        let open = |n: u16, direction| {
            (0..n).map(|_| PacketSocket::open(&interface, direction).map(Arc::new)).collect::<Result<Vec<_>, _>>()
        };
        let rx = open(options.rx_queues, receive)?;
        let tx = open(options.tx_queues, Direction::Transmit)?;
        let large = options.whole_segments.then(|| large_buffers(options.rx_queues, pool)).flatten();
        Ok(Self { interface, rx, tx, pool: pool.clone(), large })
    }

    pub fn rx(&self, i: u16) -> Option<VethRx> {
        let socket = self.rx.get(usize::from(i))?.clone();
        let pool = self.pool.clone();
        let batch = RxBatch::new(self.large.clone());
        Some(VethRx { socket, pool, batch, whole: self.large.is_some(), received: 0, next: 0, segmenting: None })
    }

    pub fn tx(&self, i: u16) -> Option<VethTx> {
        let socket = self.tx.get(usize::from(i))?.clone();
        Some(VethTx { socket, batch: TxBatch::default(), unjoined: 0 })
    }

    pub fn set_promiscuous(&self, on: bool) -> Result<(), SocketError> {
        // One socket asks for all.
        self.rx.first().map_or(Ok(()), |socket| socket.set_promiscuous(&self.interface, on))
    }

    /// Whether its sockets are bound to the interface still.
    pub fn is_bound(&self) -> bool {
        self.rx.iter().chain(&self.tx).all(|socket| socket.is_bound(&self.interface))
    }

    /// Frames that found a full socket.
    pub fn missed(&self) -> u64 {
        self.rx.iter().map(|socket| socket.missed()).sum()
    }
}

/// Without memory for them packets are copies, as they are for other ports.
fn large_buffers(queues: u16, pool: &Mempool) -> Option<Arc<Mempool>> {
    match Mempool::new(pool.eal(), RxBatch::large_buffers(queues)) {
        Ok(large) => Some(Arc::new(large)),
        Err(error) => {
            tracing::warn!("no memory to keep large frames whole: their packets are copied: {error}");
            None
        }
    }
}

/// A number for the sockets that share one interface: unlike any other of this process, and likely
/// of others.
fn fanout_group() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    (std::process::id() as u16).wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Frames are fetched many at a time and given out as bursts have room for them; a large one takes
/// several bursts.
#[derive(Debug)]
pub(super) struct VethRx {
    socket: Arc<PacketSocket>,
    batch: RxBatch,
    /// Behind the batch, whose buffers go back to it first.
    pool: Arc<Mempool>,
    /// Payload of large frames stays where it was received.
    whole: bool,
    /// Frames in the batch, and the first that has not been given out whole.
    received: usize,
    next: usize,
    /// Segmentation of that frame, when it is a large one, and its next packet.
    segmenting: Option<(SegmentPlan, usize)>,
}

impl VethRx {
    pub fn descriptor(&self) -> i32 {
        self.socket.fd()
    }

    pub fn receive(&mut self, burst: &mut Burst, counters: &QueueCounters, link: &Link) {
        if self.next == self.received {
            self.fetch(counters, link);
        }
        let (packets, before) = (burst.len(), bytes(burst));
        while self.next < self.received && !burst.is_full() && self.give(burst, counters) {}
        if burst.len() > packets {
            counters.received(burst.len() - packets, bytes(burst) - before);
        }
    }

    fn fetch(&mut self, counters: &QueueCounters, link: &Link) {
        self.next = 0;
        self.received = match self.batch.receive(&self.socket, &self.pool) {
            Ok(frames) => frames,
            Err(error) => {
                match error.raw_os_error() {
                    Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => link.carrier.store(false, Ordering::Relaxed),
                    Some(libc::EINTR) => {}
                    // A frame whose segmentation the header has no word for.
                    _ => counters.lose(PortDrop::RxError, 1),
                }
                0
            }
        };
    }

    /// Moves as many packets of the next frame into the burst as it has room for. False, and
    /// nothing moved, when they had better begin another burst: what is in one burst can leave as
    /// one frame.
    fn give(&mut self, burst: &mut Burst, counters: &QueueCounters) -> bool {
        let received = self.batch.received(self.next);
        if self.segmenting.is_none() && received.header.segmentation() != 0 && !received.truncated {
            self.segmenting = plan(&received, self.batch.parts(self.next)).map(|plan| (plan, 0));
        }
        if let Some((plan, packet)) = self.segmenting {
            let packets = plan.packets();
            if packet == 0 && self.whole && packets <= BURST && burst.remaining_capacity() < packets {
                return false;
            }
            let until = packets.min(packet + burst.remaining_capacity());
            for packet in packet..until {
                match self.segment(&plan, packet, &received) {
                    Ok(mbuf) => burst.push(mbuf),
                    Err(why) => counters.lose(why, 1),
                }
            }
            if until < packets {
                self.segmenting = Some((plan, until));
                return true;
            }
        } else {
            match whole(&mut self.batch, self.next, &received) {
                Ok(mbuf) => burst.push(mbuf),
                Err(why) => counters.lose(why, 1),
            }
        }
        self.segmenting = None;
        self.next += 1;
        true
    }

    /// One packet of the next frame. Its payload stays where it is if it can: the packet refers to
    /// it.
    fn segment(&mut self, plan: &SegmentPlan, packet: usize, from: &Received) -> Result<Mbuf, PortDrop> {
        let mut mbuf = self.pool.alloc().ok_or(PortDrop::RxNoBuffer)?;
        let (length, kept) = (plan.len(packet), plan.header() + KEPT_PAYLOAD);
        // So every packet can be gathered into its first buffer.
        if length > mbuf.room() {
            return Err(PortDrop::RxTooLong);
        }
        // A tag goes into the packet, and there is none in large frames that are sent.
        if length > kept && from.vlan.is_none() {
            let (at, rest) = (plan.at(packet) + KEPT_PAYLOAD, length - kept);
            if mbuf.resize(kept) && self.batch.append(self.next, at, rest, &mut mbuf, &self.pool) {
                return Ok(self.written(mbuf, plan, packet));
            }
        }
        if !mbuf.resize(length) {
            return Err(PortDrop::RxTooLong);
        }
        restore_vlan(self.written(mbuf, plan, packet), from)
    }

    fn written(&self, mut mbuf: Mbuf, plan: &SegmentPlan, packet: usize) -> Mbuf {
        let (head, tail) = self.batch.parts(self.next);
        plan.write(SplitFrame { head, tail }, packet, mbuf.bytes_mut());
        mbuf.set_needs_checksum(true);
        mbuf
    }
}

fn plan(received: &Received, (head, tail): (&[u8], &[u8])) -> Option<SegmentPlan> {
    let segmentation = match received.header.segmentation() {
        VnetHeader::TCP4 | VnetHeader::TCP6 => Segmentation::Tcp,
        VnetHeader::UDP => Segmentation::Udp,
        _ => return None,
    };
    let (start, _) = received.header.checksum()?;
    SegmentPlan::new(SplitFrame { head, tail }, segmentation, received.header.gso_size.into(), start)
}

/// A frame that is one packet.
fn whole(batch: &mut RxBatch, i: usize, received: &Received) -> Result<Mbuf, PortDrop> {
    if received.truncated {
        return Err(PortDrop::RxTooLong);
    }
    if received.header.segmentation() != 0 {
        return Err(PortDrop::RxBadGso);
    }
    let mut mbuf = batch.take(i).ok_or(PortDrop::RxTooLong)?;
    if let Some(kernels) = received.header.checksum() {
        // On the way out the place is found from the headers. Where that differs from the kernel's,
        // do it now.
        if checksum::position(mbuf.bytes(), mbuf.wire_len()) == Some(kernels) {
            mbuf.set_needs_checksum(true);
        } else if !checksum::complete_at(mbuf.bytes_mut(), kernels.0, kernels.1) {
            return Err(PortDrop::RxError);
        }
    }
    restore_vlan(mbuf, received)
}

fn restore_vlan(mut mbuf: Mbuf, received: &Received) -> Result<Mbuf, PortDrop> {
    match received.vlan {
        Some((tpid, tci)) if !insert_vlan(&mut mbuf, tpid, tci) => Err(PortDrop::RxError),
        _ => Ok(mbuf),
    }
}

#[derive(Debug)]
pub(super) struct VethTx {
    socket: Arc<PacketSocket>,
    batch: TxBatch,
    /// Bursts that are still to go without frames of several packets, because the kernel refused one.
    unjoined: u32,
}

/// Bursts until a frame of several packets is tried again: rare enough that refusals cost little.
const UNJOINED: u32 = 256;

impl VethTx {
    pub fn transmit(&mut self, burst: &mut Burst, counters: &QueueCounters, link: &Link) -> Sent {
        if burst.iter().any(|mbuf| mbuf.segments() > 1) {
            drop_chains(burst, counters);
            return self.transmit_joined(burst, counters, link);
        }
        let (mut done, mut sent) = (0, Sent::default());
        while done < burst.len() {
            match self.batch.send(&self.socket, &burst[done..], header) {
                Ok(now) => {
                    sent.add(&burst[done..done + now]);
                    done += now;
                }
                Err(error) if refused(&error, &mut done, counters, link).is_break() => break,
                Err(_) => {}
            }
        }
        ended(burst, done, sent, counters)
    }

    /// As [`Self::transmit`]. Packets whose payload lies in a large frame leave in one again, as far
    /// as they follow each other still.
    #[inline(never)]
    fn transmit_joined(&mut self, burst: &mut Burst, counters: &QueueCounters, link: &Link) -> Sent {
        let (mut done, mut sent) = (0, Sent::default());
        // Packets up to here go one by one: the kernel does not take the frame that they make.
        let mut single = 0;
        let longest = usize::from(link.mtu.load(Ordering::Relaxed));
        let packets = burst.len();
        self.unjoined = self.unjoined.saturating_sub(1);
        while done < packets {
            let unjoined = self.unjoined > 0;
            let next = |rest: &[Mbuf], head: &mut _| match rest {
                [first, ..] if unjoined || packets - rest.len() < single => Run::single(header(first)),
                _ => run(rest, longest, head),
            };
            match self.batch.send_runs(&self.socket, &burst[done..], next) {
                Ok(now) => {
                    sent.add(&burst[done..done + now]);
                    done += now;
                }
                Err(error) if self.batch.first_run() > 1 && is_of_frame(&error) => {
                    if error.raw_os_error() == Some(libc::ENOBUFS) {
                        counters.refuse();
                    }
                    single = done + self.batch.first_run();
                    self.unjoined = UNJOINED;
                }
                Err(error) if refused(&error, &mut done, counters, link).is_break() => break,
                Err(_) => {}
            }
        }
        ended(burst, done, sent, counters)
    }
}

/// Takes packets that are done with from the front of the burst.
fn ended(burst: &mut Burst, done: usize, sent: Sent, counters: &QueueCounters) -> Sent {
    if sent.packets > 0 {
        counters.sent(sent.packets, sent.bytes as usize);
    }
    burst.drain(..done);
    sent
}

/// As many packets from the first on as can be one frame.
fn run(rest: &[Mbuf], longest: usize, head: &mut [u8; JOINED_HEADERS]) -> Run {
    let partial = rest.iter().take_while(|mbuf| mbuf.needs_checksum());
    let packets = partial.map(|mbuf| Packet { bytes: mbuf.bytes(), length: mbuf.wire_len() });
    match join::join(packets, longest, head) {
        Some(joined) => Run { packets: joined.packets, header: joined.vnet, joined: joined.header },
        None => Run::single(rest.first().map_or(VnetHeader::default(), header)),
    }
}

/// Acts on a kernel's error, which is of packet `done`: one that can never be sent is counted as
/// lost and passed over. Breaks when nothing more can be sent now.
fn refused(error: &io::Error, done: &mut usize, counters: &QueueCounters, link: &Link) -> ControlFlow<()> {
    let mut lose = |why| {
        counters.lose(why, 1);
        *done += 1;
        ControlFlow::Continue(())
    };
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOBUFS => {
            counters.refuse();
            ControlFlow::Break(())
        }
        libc::EAGAIN | libc::ENOMEM => ControlFlow::Break(()),
        libc::ENETDOWN | libc::ENODEV | libc::ENXIO => {
            link.carrier.store(false, Ordering::Relaxed);
            ControlFlow::Break(())
        }
        libc::EINTR => ControlFlow::Continue(()),
        libc::EMSGSIZE => lose(PortDrop::TxTooLong),
        _ => lose(PortDrop::TxError),
    }
}

/// Whether an error may be due to a frame of several packets. A kernel that would have to segment it
/// for the interface drops it with ENOBUFS (`__dev_direct_xmit`).
fn is_of_frame(error: &io::Error) -> bool {
    let others = [libc::EAGAIN, libc::EINTR, libc::ENETDOWN, libc::ENODEV, libc::ENXIO];
    !others.contains(&error.raw_os_error().unwrap_or(0))
}

fn header(mbuf: &Mbuf) -> VnetHeader {
    if !mbuf.needs_checksum() {
        return VnetHeader::default();
    }
    let place = checksum::position(mbuf.bytes(), mbuf.wire_len());
    place.map_or(VnetHeader::default(), |(start, at)| VnetHeader::partial(start, at))
}

/// Makes frames of more segments than are sent one, and drops those that are longer than a buffer.
fn drop_chains(burst: &mut Burst, counters: &QueueCounters) {
    burst.retain(|mbuf| {
        let fits = usize::from(mbuf.segments()) <= TX_SEGMENTS || mbuf.linearize();
        if !fits {
            counters.lose(PortDrop::TxTooLong, 1);
        }
        fits
    });
}

fn bytes(mbufs: &[Mbuf]) -> usize {
    mbufs.iter().map(Frame::wire_len).sum()
}
