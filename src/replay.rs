//! The replayer: drives [`Switch::process`] with frames from memory, as fast as it goes, on the
//! frames' own clock.
//!
//! Each packet has its own time. Packets of several times pass the switch as one burst where only
//! programs look at the time, which find a packet's own in its PHV. Epochs and sub-epochs end
//! between bursts. Where forwarding or a rate limit looks at the time as well, a burst has packets of
//! one time.

use std::sync::Arc;

use crate::answers::Queryable;
use crate::api::view;
use crate::assemble::{AssembleError, Assembly, assemble};
use crate::config::Config;
use crate::history::Gap;
use crate::network::controller::{LocalAnswers, LocalControllers};
use crate::observe::PacketTrace;
use crate::pisa::PortId;
use crate::switch::{BURST, Burst, Parts, PortInfo, Switch, TxBursts};
use crate::tables::{Learning, Routing};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::{Collector, Sink};
use crate::wire::{Frame, HeapFrame};

/// MTU of ports that take every frame, in bytes: more than any record of a capture claims.
const NO_MTU: u32 = u32::MAX / 2;

/// A packet that comes in.
#[derive(Clone, Copy, Debug)]
pub struct RxPacket<'a> {
    pub ingress: PortId,
    /// When the switch works on it.
    pub at: Nanos,
    /// How long the switch had held it by then, in nanoseconds.
    pub held_ns: u32,
    pub bytes: &'a [u8],
    /// Length on the wire; `bytes` may be shorter.
    pub wire_len: usize,
}

impl<'a> RxPacket<'a> {
    /// A whole packet that was not held.
    pub fn new(ingress: PortId, at: Nanos, bytes: &'a [u8]) -> Self {
        Self { ingress, at, held_ns: 0, bytes, wire_len: bytes.len() }
    }
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub struct TxPacket<'a> {
    pub egress: PortId,
    /// Its own time: that of the packet that came in, also of copies and fragments. What the switch
    /// makes of its own has the time of its burst.
    pub at: Nanos,
    pub bytes: &'a [u8],
    /// Length on the wire; `bytes` may be shorter.
    pub wire_len: usize,
}

/// Receives the packets that leave, those of a port in the order in which they leave.
pub type TxSink = Box<dyn FnMut(TxPacket<'_>) + Send>;

/// One switch in memory.
pub struct Replayer {
    config: Config,
    switch: Switch,
    collector: Collector,
    ports: Vec<PortInfo>,
    answers: LocalAnswers,
    learning: Option<Learning>,
    routing: Option<Routing>,
    burst: Burst<HeapFrame>,
    ingress: PortId,
    /// The time of the first packet of the burst, and of the last one.
    now: Nanos,
    latest: Nanos,
    tx_bursts: TxBursts<HeapFrame>,
    tx_sink: Option<TxSink>,
    pool: Vec<HeapFrame>,
}

impl Replayer {
    /// A switch that ends an epoch whenever the frames' clock says so.
    pub fn new(config: Config) -> Result<Self, AssembleError> {
        let epoch = config.switch.epoch.nanos();
        Self::with_epoch(config, Some(epoch))
    }

    /// A switch that measures all frames as one epoch.
    pub fn single_epoch(config: Config) -> Result<Self, AssembleError> {
        Self::with_epoch(config, None)
    }

    fn with_epoch(config: Config, epoch: Option<Nanos>) -> Result<Self, AssembleError> {
        let Assembly { mut switches, mut collector, learning, routing, ports, schedules, .. } =
            assemble(&config, epoch, 1)?;
        let (controllers, answers) = LocalControllers::of_run(&schedules, epoch, config.switch.transit.nanos());
        collector.subscribe(Box::new(controllers));
        Ok(Self {
            tx_bursts: TxBursts::without_queues(config.ports.len()),
            switch: switches.remove(0),
            config,
            collector,
            ports,
            answers,
            learning,
            routing,
            burst: Burst::new(),
            ingress: 0,
            now: 0,
            latest: 0,
            tx_sink: None,
            pool: (0..BURST).map(|_| HeapFrame::new(&[])).collect(),
        })
    }

    /// The collector, for sinks that see every epoch.
    pub fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    /// Lets frames of every length through. A capture with receive or segmentation offload holds
    /// frames of 64 KB and more, which no link carried as such.
    #[must_use]
    pub fn without_mtu(mut self) -> Self {
        self.ports.iter_mut().for_each(|port| port.mtu = NO_MTU);
        self.switch.exchange(&mut Parts { ports: Some(self.ports.clone()), ..Parts::default() });
        self
    }

    /// Hands the packets that leave to `sink`.
    pub fn watch_tx(&mut self, sink: TxSink) {
        self.tx_sink = Some(sink);
    }

    /// Takes one frame in by a port. Times must not go back; one that does counts as the latest so
    /// far.
    #[inline]
    pub fn packet(&mut self, ingress: PortId, at: Nanos, bytes: &[u8]) {
        self.cut_packet(ingress, at, bytes, bytes.len());
    }

    /// Takes one frame in by a port, of which a capture kept `bytes` and that was `wire_len` bytes
    /// long.
    #[inline]
    pub fn cut_packet(&mut self, ingress: PortId, at: Nanos, bytes: &[u8], wire_len: usize) {
        self.receive(RxPacket { ingress, at, held_ns: 0, bytes, wire_len });
    }

    /// Takes one packet in. One of a port that the switch does not have is ignored.
    #[inline]
    pub fn receive(&mut self, RxPacket { ingress, at, held_ns, bytes, wire_len }: RxPacket<'_>) {
        let at = self.latest.max(at);
        // An empty burst has no time, and would begin an epoch at 0.
        if !self.burst.is_empty() && (ingress != self.ingress || self.burst.is_full() || self.is_of_another_time(at)) {
            self.flush();
        }
        self.latest = at;
        if self.burst.is_empty() {
            (self.ingress, self.now) = (ingress, at);
        }
        let mut frame = self.pool.pop().unwrap_or_else(|| HeapFrame::new(&[]));
        frame.refill_cut(bytes, wire_len);
        frame.set_at_ns(at);
        frame.set_held_ns(held_ns);
        self.burst.push(frame);
    }

    /// Processes what has been taken in, then takes one frame through alone, and tells all that
    /// happens to it.
    pub fn trace(&mut self, ingress: PortId, at: Nanos, bytes: &[u8], wire_len: usize) -> PacketTrace {
        if !self.burst.is_empty() {
            self.flush();
        }
        self.latest = self.latest.max(at);
        self.now = self.latest;
        let mut frame = HeapFrame::new(&[]);
        frame.refill_cut(bytes, wire_len);
        let trace = self.switch.trace(ingress, frame, self.now, &mut self.tx_bursts);
        self.send();
        trace
    }

    /// Whether a packet of this time cannot be in the burst.
    fn is_of_another_time(&mut self, at: Nanos) -> bool {
        at > self.now && (at >= self.switch.due() || self.switch.reads_time())
    }

    /// Processes what has been taken in, and counts what goes out.
    pub fn flush(&mut self) {
        loop {
            self.switch.process(self.ingress, &mut self.burst, self.now, &mut self.tx_bursts);
            self.send();
            if self.burst.is_empty() {
                return;
            }
        }
    }

    /// Counts what goes out and hands it on, and serves what stands beside the switch.
    fn send(&mut self) {
        for (port, queue) in self.tx_bursts.queues() {
            let stats = self.switch.stats().port(port);
            stats.tx_packets.add(queue.len() as u64);
            stats.tx_bytes.add(queue.iter().map(|frame| frame.wire_len() as u64).sum());
            if let Some(sink) = &mut self.tx_sink {
                for frame in queue.iter() {
                    let at = frame.at_ns().unwrap_or(self.now);
                    sink(TxPacket { egress: port, at, bytes: frame.bytes(), wire_len: frame.wire_len() });
                }
            }
            self.pool.extend(queue.drain(..));
        }
        self.pool.truncate(2 * BURST);
        self.pool.resize_with(self.pool.len().max(BURST), || HeapFrame::new(&[]));
        self.collector.collect_ready();
        if let Some(learning) = &mut self.learning {
            learning.serve(self.now);
        }
        if let Some(routing) = &self.routing {
            routing.serve(self.now);
        }
    }

    /// Processes the rest and closes all epochs.
    pub fn finish(&mut self) {
        self.flush();
        self.switch.finish();
        self.collector.finish();
    }

    /// Hands the records of epochs on as they close, also to this sink.
    pub fn subscribe(&mut self, sink: Box<dyn Sink>) {
        self.collector.subscribe(sink);
    }

    /// The histories of the programs, in their order: what they have measured in the epochs that are
    /// closed.
    pub fn histories(&self) -> Vec<Arc<dyn Queryable>> {
        self.answers.all()
    }

    /// Says that all answers lack something.
    pub fn lacks(&self, gap: Gap) {
        self.histories().iter().for_each(|history| history.spoil_all(&LocalControllers::RUN.into(), gap));
    }

    /// Packets that no program measures: neither IPv4 nor IPv6.
    pub fn unmeasured_packets(&self) -> u64 {
        self.switch.stats().unmeasured.get()
    }

    /// Packets whose flow lacks something, such as ports.
    pub fn lacking(&self) -> view::Lacking {
        self.ports().measurement.lacking
    }

    /// Packets of tunnels, where the flows inside are measured.
    pub fn tunnels(&self) -> view::Tunnelled {
        self.ports().measurement.tunnels
    }

    /// The counters, as `weir show ports` has them.
    pub fn ports(&self) -> view::Ports {
        view::Ports::collect(
            (0..).zip(&self.config.ports),
            view::Removed::default(),
            std::slice::from_ref(self.switch.stats()),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::lock::Hold;
    use crate::pisa::ArrayCells;
    use crate::telemetry::{BankOrigin, RegisterSink};
    use crate::wire::shim;

    /// A host port and a fabric port that are joined, and a program that measures latencies.
    const SWITCH: &str = r#"
        [switch]
        forward = "xconnect"
        epoch = "100ms"
        reproducible = 1
        [[port]]
        name = "h"
        dev = "memory"
        [[port]]
        name = "f"
        dev = "memory"
        role = "fabric"
        [[program]]
        name = "pint"
        queries = "latency:bits=8"
        [[program]]
        name = "hashpipe"
        "#;

    type Shared<T> = Arc<Mutex<Vec<T>>>;

    struct Epochs(Shared<(usize, u64, Vec<ArrayCells>)>);

    impl RegisterSink for Epochs {
        fn bank(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>) {
            self.0.hold().push((of.program, of.last, arrays()));
        }
    }

    /// Packets that left, each with its port, time and bytes; and by epoch how many bytes of HashPipe's registers are
    /// in use.
    type Left = (Vec<(PortId, Nanos, Vec<u8>)>, Vec<(u64, usize)>);

    fn replayed(packets: &[RxPacket<'_>]) -> Left {
        let mut replayer = Replayer::new(Config::parse(SWITCH).unwrap()).unwrap();
        let (left, banks) = (Shared::default(), Shared::default());
        let sink = left.clone();
        replayer.watch_tx(Box::new(move |TxPacket { egress, at, bytes, wire_len }| {
            assert_eq!(bytes.len(), wire_len);
            sink.hold().push((egress, at, bytes.to_vec()));
        }));
        replayer.collector().watch_registers(Box::new(Epochs(banks.clone())));
        packets.iter().for_each(|packet| replayer.receive(*packet));
        replayer.finish();
        let used =
            |arrays: &[ArrayCells]| arrays.iter().flat_map(|array| &array.bytes).filter(|byte| **byte > 0).count();
        let banks =
            banks.hold().iter().filter(|bank| bank.0 == 1).map(|(_, epoch, arrays)| (*epoch, used(arrays))).collect();
        (left.hold().clone(), banks)
    }

    /// Packets in two directions and in two epochs, and how long the switch held them.
    #[test]
    fn what_leaves_is_handed_on() {
        const EPOCH: Nanos = 100_000_000;
        let mut frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45][..], &[0; 49]].concat();
        frame[17] = 46;
        (frame[22], frame[23]) = (64, 17);
        let times = [(0, 10 * EPOCH), (0, 10 * EPOCH + 5), (1, 10 * EPOCH + 5), (0, 12 * EPOCH)];
        let packets = |held_ns| times.map(|(ingress, at)| RxPacket { held_ns, ..RxPacket::new(ingress, at, &frame) });
        let (left, banks) = replayed(&packets(0));
        let shown: Vec<_> = left.iter().map(|(port, at, _)| (*port, *at)).collect();
        assert_eq!(shown, times.map(|(ingress, at)| (1 - ingress, at)));
        for (port, _, bytes) in &left {
            let shim = if *port == 1 { shim::LEN } else { 0 };
            assert_eq!((bytes.len(), &bytes[12 + shim..]), (frame.len() + shim, &frame[12..]));
        }
        let epochs: Vec<_> = banks.iter().map(|(epoch, _)| *epoch).collect();
        assert!(epochs.contains(&10) && epochs.contains(&12), "{epochs:?}");
        assert!(banks.iter().all(|(epoch, used)| (*used > 0) == [10, 12].contains(epoch)), "{banks:?}");

        let (held, _) = replayed(&packets(3_000_000));
        let digest = |left: &(PortId, Nanos, Vec<u8>)| shim::read(&left.2).unwrap().digest();
        assert!(
            left.iter().zip(&held).filter(|(left, _)| left.0 == 1).all(|(left, held)| digest(left) != digest(held))
        );
        // A port that is not there takes nothing in.
        assert_eq!(replayed(&[RxPacket::new(7, 0, &frame)]).0, []);
    }
}
