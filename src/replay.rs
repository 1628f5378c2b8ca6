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

    /// Counts what goes out, and serves what stands beside the switch.
    fn send(&mut self) {
        for (port, queue) in self.tx_bursts.queues() {
            let stats = self.switch.stats().port(port);
            stats.tx_packets.add(queue.len() as u64);
            stats.tx_bytes.add(queue.iter().map(|frame| frame.wire_len() as u64).sum());
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

    /// The counters, as `weir show ports` has them.
    pub fn ports(&self) -> view::Ports {
        view::Ports::collect(
            (0..).zip(&self.config.ports),
            view::Removed::default(),
            std::slice::from_ref(self.switch.stats()),
        )
    }
}
