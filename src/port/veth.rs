//! The driver of `veth` ports: frames of the kernel made into packets, and back.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use super::{
    PortDrop, PortOptions, Sent, checksum,
    gso::{SegmentPlan, Segmentation, SplitFrame},
    queue::{Link, insert_vlan},
    stats::QueueCounters,
};
use crate::{
    dpdk::{
        Burst, Direction, Interface, Mbuf, Mempool, PacketSocket, Received, RxBatch, SocketError, TxBatch, VnetHeader,
    },
    wire::Frame,
};

/// An interface of the kernel with a socket for each queue.
#[derive(Debug)]
pub(super) struct Veth {
    pub interface: Interface,
    rx: Vec<Arc<PacketSocket>>,
    tx: Vec<Arc<PacketSocket>>,
    pool: Arc<Mempool>,
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
        Ok(Self { interface, rx, tx, pool: pool.clone() })
    }

    pub fn rx(&self, i: u16) -> Option<VethRx> {
        let socket = self.rx.get(usize::from(i))?.clone();
        let pool = self.pool.clone();
        Some(VethRx { socket, pool, batch: RxBatch::default(), received: 0, next: 0, segmenting: None })
    }

    pub fn tx(&self, i: u16) -> Option<VethTx> {
        let socket = self.tx.get(usize::from(i))?.clone();
        Some(VethTx { socket, batch: TxBatch::default() })
    }

    pub fn set_promiscuous(&self, on: bool) -> Result<(), SocketError> {
        // One socket asks for all.
        self.rx.first().map_or(Ok(()), |socket| socket.set_promiscuous(&self.interface, on))
    }

    /// Frames that found a full socket.
    pub fn missed(&self) -> u64 {
        self.rx.iter().map(|socket| socket.missed()).sum()
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
        while self.next < self.received && !burst.is_full() {
            self.give(burst, counters);
        }
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

    /// Moves as many packets of the next frame into the burst as it has room for.
    fn give(&mut self, burst: &mut Burst, counters: &QueueCounters) {
        let received = self.batch.received(self.next);
        if self.segmenting.is_none() && received.header.segmentation() != 0 && !received.truncated {
            self.segmenting = plan(&received, self.batch.parts(self.next)).map(|plan| (plan, 0));
        }
        if let Some((plan, packet)) = &mut self.segmenting {
            let (head, tail) = self.batch.parts(self.next);
            while *packet < plan.packets() && !burst.is_full() {
                match segment(plan, *packet, SplitFrame { head, tail }, &received, &self.pool) {
                    Ok(mbuf) => burst.push(mbuf),
                    Err(why) => counters.lose(why, 1),
                }
                *packet += 1;
            }
            if *packet < plan.packets() {
                return;
            }
        } else {
            match whole(&mut self.batch, self.next, &received) {
                Ok(mbuf) => burst.push(mbuf),
                Err(why) => counters.lose(why, 1),
            }
        }
        self.segmenting = None;
        self.next += 1;
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

/// One packet of a large frame.
fn segment(
    plan: &SegmentPlan,
    packet: usize,
    frame: SplitFrame<'_>,
    from: &Received,
    pool: &Mempool,
) -> Result<Mbuf, PortDrop> {
    let mut mbuf = pool.alloc().ok_or(PortDrop::RxNoBuffer)?;
    if !mbuf.resize(plan.len(packet)) {
        return Err(PortDrop::RxTooLong);
    }
    plan.write(frame, packet, mbuf.bytes_mut());
    mbuf.set_needs_checksum(true);
    restore_vlan(mbuf, from)
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
        if checksum::position(mbuf.bytes()) == Some(kernels) {
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
}

impl VethTx {
    pub fn transmit(&mut self, burst: &mut Burst, counters: &QueueCounters, link: &Link) -> Sent {
        let (mut done, mut sent) = (0, Sent::default());
        if burst.iter().any(|mbuf| mbuf.segments() > 1) {
            drop_chains(burst, counters);
        }
        while done < burst.len() {
            match self.batch.send(&self.socket, &burst[done..], header) {
                Ok(now) => {
                    sent.packets += now;
                    sent.bytes += bytes(&burst[done..done + now]) as u64;
                    done += now;
                }
                Err(error) => match refused(error.raw_os_error().unwrap_or(0), link) {
                    Refused::All => break,
                    Refused::Again => {}
                    Refused::One(why) => {
                        counters.lose(why, 1);
                        done += 1;
                    }
                },
            }
        }
        if sent.packets > 0 {
            counters.sent(sent.packets, sent.bytes as usize);
        }
        burst.drain(..done);
        sent
    }
}

/// The consequence of a kernel's error for frames that are still to be sent.
enum Refused {
    All,
    Again,
    One(PortDrop),
}

fn refused(errno: i32, link: &Link) -> Refused {
    match errno {
        libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => Refused::All,
        libc::ENETDOWN | libc::ENODEV | libc::ENXIO => {
            link.carrier.store(false, Ordering::Relaxed);
            Refused::All
        }
        libc::EINTR => Refused::Again,
        libc::EMSGSIZE => Refused::One(PortDrop::TxTooLong),
        _ => Refused::One(PortDrop::TxError),
    }
}

fn header(mbuf: &Mbuf) -> VnetHeader {
    if !mbuf.needs_checksum() {
        return VnetHeader::default();
    }
    checksum::position(mbuf.bytes()).map_or(VnetHeader::default(), |(start, at)| VnetHeader::partial(start, at))
}

/// Makes each frame one segment, and drops those that are longer than a buffer.
fn drop_chains(burst: &mut Burst, counters: &QueueCounters) {
    burst.retain(|mbuf| {
        let single = mbuf.linearize();
        if !single {
            counters.lose(PortDrop::TxTooLong, 1);
        }
        single
    });
}

fn bytes(mbufs: &[Mbuf]) -> usize {
    mbufs.iter().map(Frame::wire_len).sum()
}
