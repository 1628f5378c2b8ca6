//! One run of weir's switch in a process of its own, which `bench suite` repeats: a worker between
//! two ports, or packets of many flows from null ports.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use weir::assemble::{Assembly, assemble};
use weir::config::{BatchOrderConfig, Config, ForwardMode};
use weir::dpdk::{Eal, EalOptions, HugePages, Lcore, Mempool, PoolOptions};
use weir::port::{Burst, Dev, Port, PortOptions};
use weir::switch::Switch;
use weir::trace::Workload;
use weir::worker::{Queues, Worker};

use super::cores::share;
use super::pass::{FRAME, Machine, Traffic, Way, Write};

#[derive(Args)]
pub struct Forward {
    /// The device of both ports: null, null:copy=1 or ring
    #[arg(long, default_value = "null")]
    dev: String,
    /// In place of a worker: headers of a workload's flows written into the packets of null ports
    #[arg(long, conflicts_with_all = ["dev", "swap_macs"])]
    workload: Option<Workload>,
    /// In place of a worker: MAC addresses swapped in the packets of null ports, as testpmd's macswap
    /// does
    #[arg(long, conflicts_with = "dev")]
    swap_macs: bool,
    /// With --workload: a program of the switch; may be given several times
    #[arg(long = "program", value_name = "PROGRAM", requires = "workload")]
    programs: Vec<String>,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long)]
    no_huge_pages: bool,
    /// The cores that forward; a worker has one
    #[arg(long = "core", value_delimiter = ',', default_value = "1")]
    cores: Vec<usize>,
}

/// Packets that circulate through each ring, as many as testpmd's burst.
const SEED: usize = 32;
/// Where MAC addresses are swapped no flow matters, and packets need none of their own.
const ANY: &str = "isp/uniform,flows=1,packets=1000000";

impl Forward {
    /// Prints packets per second.
    pub fn run(&self) -> Result<()> {
        let rate = match &self.workload {
            Some(workload) => self.written(workload, Write::Headers)?,
            None if self.swap_macs => self.written(&ANY.parse()?, Write::SwappedMacs)?,
            None => self.worker()?,
        };
        println!("{rate:.0}");
        Ok(())
    }

    fn huge_pages(&self) -> HugePages {
        if self.no_huge_pages { HugePages::Never } else { HugePages::Auto }
    }

    fn check(&self, eal: &Eal) -> Result<()> {
        ensure!(self.no_huge_pages || eal.has_huge_pages(), "there are not enough free huge pages");
        Ok(())
    }

    /// Packets per second of as many replicas of a switch as there are cores. Each has a null port of
    /// its own and a share of the flows, and goes through its packets until the time is over.
    fn written(&self, workload: &Workload, write: Write) -> Result<f64> {
        let dpdk = Machine::with(self.huge_pages())?;
        self.check(&dpdk.eal)?;
        let (way, trace, number) = (Way::default(), workload.clone().generate(), self.cores.len());
        let traffic = |core| {
            let name = format!("share{core}");
            match write {
                Write::Headers => dpdk.traffic(&name, &way, &share(&trace, core, number), FRAME as u16),
                _ => dpdk.traffic(&name, &way, &trace, FRAME as u16),
            }
        };
        let mut traffics = (0..number).map(traffic).collect::<Result<Vec<_>>>()?;
        let (_, assembly) = way.assemble(&self.programs, BatchOrderConfig::default(), number)?;
        let Assembly { mut switches, collector: _collector, .. } = assembly;
        let (begin, time) = (Barrier::new(number), Duration::from_secs_f64(self.seconds));
        thread::scope(|scope| {
            let cores = self.cores.iter().zip(&mut traffics).zip(&mut switches);
            let running: Vec<_> = cores
                .map(|((&core, traffic), switch)| {
                    let (eal, begin) = (&dpdk.eal, &begin);
                    scope.spawn(move || core_rate(eal, core, begin, time, write, traffic, switch))
                })
                .collect();
            running.into_iter().map(|core| core.join().ok().context("a core's thread died")?).sum()
        })
    }

    /// Packets per second of weir's own worker between two ports.
    fn worker(&self) -> Result<f64> {
        let options = PoolOptions::for_mtu(16_383, 1500);
        let memory_mib = (options.bytes() >> 20) as u32 + 64;
        let eal = Eal::start(&EalOptions { memory_mib, huge_pages: self.huge_pages(), ..EalOptions::default() })?;
        self.check(&eal)?;
        let pool = Arc::new(Mempool::new(&eal, options)?);

        let mut config = Config::default();
        config.switch.forward = ForwardMode::Xconnect;
        let mut ports = Vec::new();
        for name in ["a", "b"] {
            let dev = if self.dev == "ring" { format!("ring:{name}") } else { self.dev.clone() };
            let dev: Dev = dev.parse()?;
            ports.push(Port::open(name, &dev, &PortOptions::default(), &pool)?);
            config.ports.push(format!("{name}={dev}").parse().map_err(anyhow::Error::msg)?);
        }
        let switch = assemble(&config, None, 1)?.switches.remove(0);
        let stats = switch.stats().clone();
        let rx = (0..).zip(&ports).filter_map(|(id, port)| Some((id, port.rx_queue(0)?))).collect();
        let mut tx: Vec<_> = (0..).zip(&ports).filter_map(|(id, port)| Some((id, port.tx_queue(0)?))).collect();
        if self.dev == "ring" {
            for (_, queue) in &mut tx {
                let mut burst = Burst::new();
                ensure!(pool.alloc_bulk(&mut burst, SEED), "no packets for the rings");
                ensure!(burst.iter_mut().all(|packet| packet.resize(64)), "the buffers are too small");
                queue.transmit(&mut burst);
            }
        }
        let sent = || stats.ports().map(|port| port.tx_packets.get()).sum::<u64>();
        let stop = AtomicBool::new(false);
        let worker = Worker::new(switch, Queues { rx, tx }, ports.len());
        let core = *self.cores.first().context("--core: at least one")?;
        thread::scope(|scope| {
            let running = scope.spawn(|| worker.run(&eal, core, &stop, || {}));
            sleep(Duration::from_millis(300));
            let (started, before) = (Instant::now(), sent());
            sleep(Duration::from_secs_f64(self.seconds));
            let rate = (sent() - before) as f64 / started.elapsed().as_secs_f64();
            stop.store(true, Relaxed);
            running.join().ok().context("the worker died")??;
            Ok(rate)
        })
    }
}

/// Packets per second of one core by the clock on the wall, in whole passes over its packets. The
/// first pass brings registers and code into the caches and does not count.
fn core_rate(
    eal: &Eal,
    core: usize,
    begin: &Barrier,
    time: Duration,
    write: Write,
    traffic: &mut Traffic,
    switch: &mut Switch,
) -> Result<f64> {
    let lcore = Lcore::register(eal, Some(core));
    // All wait for each other, also for one that could not be had.
    begin.wait();
    let _lcore = lcore?;
    traffic.pass(write, Some(switch));
    begin.wait();
    let (started, mut packets) = (Instant::now(), 0);
    while packets == 0 || started.elapsed() < time {
        traffic.pass(write, Some(switch));
        packets += traffic.packets();
    }
    Ok(packets as f64 / started.elapsed().as_secs_f64())
}
