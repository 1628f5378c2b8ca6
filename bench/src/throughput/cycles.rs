//! Cycles a packet, step by step: a null port's rx and tx alone, headers written, the switch alone,
//! and programs in it, each alone and all together, in both orders, and timed as the live worker
//! times them. All in one process, in turns.

use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Args;
use weir::assemble::assemble;
use weir::config::{BatchOrderConfig, Config, ForwardMode};
use weir::dpdk::{Eal, EalOptions, Lcore, Mbuf, Mempool, PoolOptions, cycles, cycles_per_second, free_burst};
use weir::pisa::PortId;
use weir::port::{Burst, Dev, Port, PortOptions, RxQueue, TxQueue};
use weir::switch::{Role, Switch, TelemetryHeader, TxBursts};
use weir::trace::{Frames, Trace, Tuple, Workload};
use weir::wire::{Frame, Shim, dscp, shim};

use super::{Spread, machine};

#[derive(Args)]
pub struct Cycles {
    /// The traffic; its flows' headers are written into every packet
    #[arg(long, default_value = "isp/burst,flows=400000,packets=10000000")]
    workload: String,
    /// A program; of several, each alone and then all together [default:
    /// hashpipe:stages=6,slots=4096 and chamelemon]
    #[arg(long = "program", value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Programs that each of the others is measured beside as well, in place of all together; they
    /// are measured without them too
    #[arg(long, value_name = "PROGRAM", requires = "programs")]
    beside: Vec<String>,
    /// Only the steps whose name holds this, for a profiler
    #[arg(long, default_value = "")]
    only: String,
    /// Rounds; in each, every step runs over the whole workload once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Role of the port by which packets come; from a fabric port they carry the telemetry header
    #[arg(long, value_enum, default_value_t)]
    from: Role,
    /// Role of the port by which they leave
    #[arg(long, value_enum, default_value_t)]
    to: Role,
    /// Carries class and epoch between switches
    #[arg(long, value_enum, default_value_t)]
    telemetry_header: TelemetryHeader,
}

/// Length of both MAC addresses, and of an Ethernet header.
const MACS: usize = 12;
const IPV4: usize = 14;
/// Frame length, and what differs in it from flow to flow: protocol, addresses, ports.
const FRAME: usize = 64;
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

/// Packets that are timed together: well under a millisecond.
const BATCH: usize = 1 << 13;

/// What is measured.
struct Step {
    name: String,
    /// Whether headers are written into the packets.
    headers: bool,
    switch: Option<Switch>,
    cycles: Vec<f64>,
}

struct Bench {
    rx: RxQueue,
    tx: TxQueue,
    /// Bytes that all packets have in common, `len` of them.
    template: [u8; WITH_SHIM],
    len: usize,
    headers: Vec<Header>,
}

impl Cycles {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds: at least one");
        let options = PoolOptions::default();
        let memory_mib = (options.bytes() >> 20) as u32 + 64;
        let eal = Eal::start(&EalOptions { memory_mib, ..EalOptions::default() })?;
        let pool = Arc::new(Mempool::new(&eal, options)?);
        let _lcore = Lcore::register(&eal, Some(self.core))?;
        let trace = self.workload.parse::<Workload>()?.generate();
        let (template, len) = self.template(&trace)?;
        let size = len as u16;
        let port = Port::open("a", &Dev::Null { size, copy: false, rx: true }, &PortOptions::default(), &pool)?;
        let (Some(rx), Some(tx)) = (port.rx_queue(0), port.tx_queue(0)) else { anyhow::bail!("no queues") };
        let mut bench = Bench { rx, tx, template, len, headers: headers(&trace) };

        let mut steps = vec![
            step("rx and tx", false, None),
            step("+ headers written", true, None),
            step("+ switch, xconnect, no program", true, Some(self.switch(&[], BatchOrderConfig::Packet)?)),
        ];
        let default = ["hashpipe:stages=6,slots=4096".into(), "chamelemon".into()];
        let programs = if self.programs.is_empty() { &default[..] } else { &self.programs };
        for set in &self.sets(programs) {
            for (order, how) in [(BatchOrderConfig::Packet, "packet"), (BatchOrderConfig::Stage, "stage")] {
                let name = format!("+ {}, {how} by {how}", set.join(" and "));
                steps.push(step(name, true, Some(self.switch(set, order)?)));
            }
            let mut timed = self.switch(set, BatchOrderConfig::Packet)?;
            timed.time_programs(cycles, cycles_per_second(&eal));
            steps.push(step(format!("+ {}, packet by packet, timed", set.join(" and ")), true, Some(timed)));
        }
        steps.retain(|step| step.name.contains(&self.only));
        ensure!(!steps.is_empty(), "--only {}: there is no such step", self.only);
        for _ in 0..self.rounds {
            for step in &mut steps {
                let median = bench.pass(step);
                step.cycles.push(median);
            }
        }
        self.report(&steps, cycles_per_second(&eal), eal.has_huge_pages());
        Ok(())
    }

    /// Programs that run together.
    fn sets(&self, programs: &[String]) -> Vec<Vec<String>> {
        let mut sets: Vec<_> = programs.chunks(1).map(<[String]>::to_vec).collect();
        if !self.beside.is_empty() {
            sets.push(self.beside.clone());
            sets.extend(programs.iter().map(|program| [&self.beside[..], std::slice::from_ref(program)].concat()));
        } else if programs.len() > 1 {
            sets.push(programs.to_vec());
        }
        sets
    }

    fn switch(&self, programs: &[String], order: BatchOrderConfig) -> Result<Switch> {
        let mut config = Config::default();
        config.switch.forward = ForwardMode::Xconnect;
        config.switch.order = order;
        config.switch.reproducible = Some(1);
        config.ports =
            vec!["a=null".parse().map_err(anyhow::Error::msg)?, "b=null".parse().map_err(anyhow::Error::msg)?];
        (config.ports[0].role, config.ports[1].role) = (self.from, self.to);
        config.switch.telemetry_header = self.telemetry_header;
        for program in programs {
            config.programs.push(program.parse()?);
        }
        Ok(assemble(&config, None, 1)?.switches.remove(0))
    }

    /// The bytes that packets from a port with the role `from` have in common, and their length.
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

    fn report(&self, steps: &[Step], hz: u64, huge: bool) {
        println!("{}, TSC {:.3} GHz, {} huge pages", machine(), hz as f64 / 1e9, if huge { "with" } else { "without" });
        println!("{}; median (least–most) of {} rounds in turns\n", self.workload, self.rounds);
        println!(
            "| step | TSC cycles a packet | ns a packet | M packets/s | ÷ rx and tx |\n| --- | --- | --- | --- | --- |"
        );
        let base = Spread::of(steps[0].cycles.clone()).median;
        for step in steps {
            let spread = Spread::of(step.cycles.clone());
            let ns = spread.median / hz as f64 * 1e9;
            println!("| {} | {spread:.1} | {ns:.1} | {:.1} | {:.2} |", step.name, 1e3 / ns, spread.median / base);
        }
    }
}

fn step(name: impl Into<String>, headers: bool, switch: Option<Switch>) -> Step {
    Step { name: name.into(), headers, switch, cycles: Vec::new() }
}

fn frame(tuple: Tuple) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    Frames::default().fill(tuple, 0, &mut frame);
    frame
}

/// What each packet of the trace has of its own, in order.
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

impl Bench {
    /// The whole workload once: the median over batches of the cycles a packet, so that the time
    /// that the kernel gives to others does not count.
    fn pass(&mut self, step: &mut Step) -> f64 {
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
            if step.headers {
                at = match self.len {
                    FRAME => self.write::<FRAME>(&mut burst, at),
                    _ => self.write::<WITH_SHIM>(&mut burst, at),
                };
            } else {
                at += burst.len();
            }
            match &mut step.switch {
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

#[inline(always)]
fn send(tx: &mut TxQueue, burst: &mut Burst) {
    tx.transmit(burst);
    free_burst(burst);
}
