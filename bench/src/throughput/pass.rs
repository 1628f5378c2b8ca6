//! A workload through a switch between two null ports, and the cycles that it takes a packet.

use std::sync::Arc;

use anyhow::{Context, Result};
use weir::assemble::{Assembly, assemble};
use weir::config::{BatchOrderConfig, Config, ForwardMode};
use weir::dpdk::{Eal, EalOptions, HugePages, Lcore, Mbuf, Mempool, PoolOptions, cycles, free_burst};
use weir::pisa::PortId;
use weir::port::{Burst, Dev, Port, PortOptions, RxQueue, TxQueue};
use weir::switch::{Role, Switch, TelemetryHeader, TxBursts};
use weir::trace::{Frames, Trace, Tuple};
use weir::wire::{Frame, Shim, dscp, shim};

use super::Spread;

/// Length of both MAC addresses, and of an Ethernet header.
const MACS: usize = 12;
const IPV4: usize = 14;
/// Frame length, and what differs in it from flow to flow: protocol, addresses, ports.
pub const FRAME: usize = 64;
const PROTO: usize = 23;
const ADDRESSES_AND_PORTS: std::ops::Range<usize> = 26..38;
/// The IPv4 identification, which hosts count.
const IDENTIFICATION: std::ops::Range<usize> = 18..20;
/// Length of a frame with a telemetry shim.
const WITH_SHIM: usize = FRAME + shim::LEN;
/// Class in the shim or the DSCP of packets from a fabric port.
const CLASS: u8 = 1;

/// One packet's own bytes. They lie in the order of the packets, so that reading them does not miss
/// the cache: a NIC would have put its headers there too.
#[derive(Clone, Copy)]
struct Header {
    proto: u8,
    addresses_and_ports: [u8; 12],
}

/// What is written into the packets that come from a null port, which are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Nothing,
    /// The headers of the flow whose turn it is.
    Headers,
    SwappedMacs,
}

/// Packets that are timed together: well under a millisecond.
const BATCH: usize = 1 << 13;

/// Roles of the port by which packets come and of the one by which they leave, and what carries
/// class and epoch between switches.
#[derive(Clone, Copy, Default)]
pub struct Way {
    pub from: Role,
    pub to: Role,
    pub telemetry_header: TelemetryHeader,
}

impl Way {
    /// A switch with these programs.
    ///
    /// # Errors
    /// If a program's parameters are wrong.
    pub fn switch(&self, programs: &[String], order: BatchOrderConfig) -> Result<Switch> {
        Ok(self.assemble(programs, order, 1)?.1.switches.remove(0))
    }

    /// Such a switch with a replica for each of several cores, and its configuration.
    ///
    /// # Errors
    /// If a program's parameters are wrong.
    pub fn assemble(
        &self,
        programs: &[String],
        order: BatchOrderConfig,
        replicas: usize,
    ) -> Result<(Config, Assembly)> {
        let mut config = Config::default();
        config.switch.forward = ForwardMode::Xconnect;
        config.switch.order = order;
        // Registers may exceed what a switch ASIC has.
        config.switch.target = "software".into();
        config.switch.reproducible = Some(1);
        config.ports =
            vec!["a=null".parse().map_err(anyhow::Error::msg)?, "b=null".parse().map_err(anyhow::Error::msg)?];
        (config.ports[0].role, config.ports[1].role) = (self.from, self.to);
        config.switch.telemetry_header = self.telemetry_header;
        for program in programs {
            config.programs.push(program.parse()?);
        }
        let assembly = assemble(&config, None, replicas)?;
        Ok((config, assembly))
    }

    /// The bytes that packets have in common, and their length.
    fn template(&self, trace: &Trace) -> Result<([u8; WITH_SHIM], usize)> {
        let mut frame = frame(trace.workload.tuple(0)).to_vec();
        match (self.from, self.telemetry_header) {
            (Role::Host, _) => {}
            (Role::Fabric, TelemetryHeader::Shim) => {
                let mut shim = [0; shim::LEN];
                Shim::new(1, 0, 0, CLASS).emit(&mut shim)?;
                frame.splice(MACS..MACS, shim);
            }
            (Role::Fabric, TelemetryHeader::Dscp) => {
                let bits = dscp::bits(CLASS, false);
                dscp::write(&mut frame[IPV4..], bits);
            }
        }
        let mut template = [0; WITH_SHIM];
        template[..frame.len()].copy_from_slice(&frame);
        Ok((template, frame.len()))
    }
}

/// DPDK with a pool of buffers, on one core or for threads that each take a core.
pub struct Machine {
    pub eal: Eal,
    pool: Arc<Mempool>,
    _lcore: Option<Lcore>,
}

impl Machine {
    pub fn start(core: usize) -> Result<Self> {
        let machine = Self::without_core()?;
        let lcore = Lcore::register(&machine.eal, Some(core))?;
        Ok(Self { _lcore: Some(lcore), ..machine })
    }

    pub fn without_core() -> Result<Self> {
        Self::with(HugePages::Auto)
    }

    pub fn with(huge_pages: HugePages) -> Result<Self> {
        let options = PoolOptions::default();
        let memory_mib = (options.bytes() >> 20) as u32 + 64;
        let eal = Eal::start(&EalOptions { memory_mib, huge_pages, ..EalOptions::default() })?;
        let pool = Arc::new(Mempool::new(&eal, options)?);
        Ok(Self { eal, pool, _lcore: None })
    }

    /// The packets of a trace on a null port. Frames have `size` bytes, and a shim where the way
    /// has one; the least size is [`FRAME`].
    pub fn traffic(&self, name: &str, way: &Way, trace: &Trace, size: u16) -> Result<Traffic> {
        let (template, len) = way.template(trace)?;
        let size = len as u16 + size.saturating_sub(FRAME as u16);
        let port = Port::open(name, &Dev::Null { size, copy: false, rx: true }, &PortOptions::default(), &self.pool)?;
        let rx = port.rx_queue(0).context("no rx queue")?;
        let tx = port.tx_queue(0).context("no tx queue")?;
        Ok(Traffic { rx, tx, template, len, headers: headers(trace), _port: port })
    }
}

/// The packets of a workload.
pub struct Traffic {
    rx: RxQueue,
    tx: TxQueue,
    /// Bytes that all packets have in common, `len` of them.
    template: [u8; WITH_SHIM],
    len: usize,
    headers: Vec<Header>,
    _port: Port,
}

fn frame(tuple: Tuple) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    Frames::default().fill(tuple, 0, &mut frame);
    frame
}

/// The headers of the packets of a trace, in order.
fn headers(trace: &Trace) -> Vec<Header> {
    let of_flow = |tuple| {
        let frame = frame(tuple);
        let mut header = Header { proto: frame[PROTO], addresses_and_ports: [0; 12] };
        header.addresses_and_ports.copy_from_slice(&frame[ADDRESSES_AND_PORTS]);
        header
    };
    let flows: Vec<_> = trace.tuples().into_iter().map(of_flow).collect();
    trace.sequence.iter().map(|&flow| flows[flow as usize]).collect()
}

impl Traffic {
    pub fn packets(&self) -> usize {
        self.headers.len()
    }

    /// The whole workload once: the median over batches of the cycles a packet, so that the time
    /// that the kernel gives to others does not count. Without a switch packets are sent as they
    /// come.
    pub fn pass(&mut self, write: Write, mut switch: Option<&mut Switch>) -> f64 {
        const INGRESS: PortId = 0;
        let mut tx_bursts = TxBursts::<Mbuf>::new(2);
        let mut burst = Burst::new();
        let mut at = 0;
        let mut batches = Vec::with_capacity(self.headers.len() / BATCH + 1);
        let (mut started, mut first) = (cycles(), 0);
        while at < self.headers.len() {
            if at - first >= BATCH {
                let now = cycles();
                batches.push((now - started) as f64 / (at - first) as f64);
                (started, first) = (now, at);
            }
            self.rx.receive(&mut burst);
            at = match (write, self.len) {
                (Write::Nothing, _) => at + burst.len(),
                (Write::SwappedMacs, _) => swap_macs(&mut burst, at),
                (Write::Headers, FRAME) => self.write::<FRAME>(&mut burst, at),
                (Write::Headers, _) => self.write::<WITH_SHIM>(&mut burst, at),
            };
            match &mut switch {
                None => send(&mut self.tx, &mut burst),
                Some(switch) => {
                    switch.process(INGRESS, &mut burst, at as u64, &mut tx_bursts);
                    tx_bursts.queues().for_each(|(_, queue)| send(&mut self.tx, queue));
                }
            }
        }
        batches.push((cycles() - started) as f64 / (at - first).max(1) as f64);
        Spread::of(batches).median
    }

    /// Gives each packet the header of the flow whose turn it is.
    #[inline(always)]
    fn write<const LEN: usize>(&self, burst: &mut Burst, at: usize) -> usize {
        let Some(template) = self.template.first_chunk::<LEN>() else { return at };
        for ((packet, header), number) in burst.iter_mut().zip(&self.headers[at..]).zip(at..) {
            let number = number as u16;
            if let Some(bytes) = packet.bytes_mut().first_chunk_mut::<LEN>() {
                *bytes = *template;
                let packet = &mut bytes[LEN - FRAME..];
                packet[PROTO] = header.proto;
                packet[IDENTIFICATION].copy_from_slice(&number.to_be_bytes());
                packet[ADDRESSES_AND_PORTS].copy_from_slice(&header.addresses_and_ports);
            }
        }
        at + burst.len()
    }
}

/// What testpmd's macswap does: source and destination address change places.
#[inline(always)]
fn swap_macs(burst: &mut Burst, at: usize) -> usize {
    for packet in burst.iter_mut() {
        if let Some(macs) = packet.bytes_mut().first_chunk_mut::<MACS>() {
            *macs = swapped(*macs);
        }
    }
    at + burst.len()
}

/// Both addresses in the other order, in two machine words: byte by byte takes twice as long as all
/// the rest of a packet's way.
#[inline(always)]
fn swapped(macs: [u8; MACS]) -> [u8; MACS] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = macs;
    let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let high = u64::from(u32::from_le_bytes([i, j, k, l]));
    let (low, high) = (low >> 48 | high << 16 | low << 48, (low >> 16) as u32);
    let mut swapped = [0; MACS];
    swapped[..8].copy_from_slice(&low.to_le_bytes());
    swapped[8..].copy_from_slice(&high.to_le_bytes());
    swapped
}

#[inline(always)]
fn send(tx: &mut TxQueue, burst: &mut Burst) {
    tx.transmit(burst);
    free_burst(burst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_change_places() {
        assert_eq!(swapped([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        let macs = [0xff, 0x80, 0xfe, 0x81, 0xfd, 0x82, 0x01, 0x90, 0x02, 0x91, 0x03, 0x92];
        assert_eq!(swapped(swapped(macs)), macs);
    }
}
