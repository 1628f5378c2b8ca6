//! One run of weir's own worker between two ports, without programs: what `bench peers` repeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use weir::assemble::assemble;
use weir::config::{Config, ForwardMode};
use weir::dpdk::{Eal, EalOptions, HugePages, Mempool, PoolOptions};
use weir::port::{Burst, Dev, Port, PortOptions};
use weir::worker::{Queues, Worker};

#[derive(Args)]
pub struct Forward {
    /// The device of both ports: null, null:copy=1 or ring
    #[arg(long, default_value = "null")]
    dev: String,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long)]
    no_huge_pages: bool,
    #[arg(long, default_value_t = 1)]
    core: usize,
}

/// Packets that circulate through each ring, as many as testpmd's burst.
const SEED: usize = 32;

impl Forward {
    /// Prints packets per second.
    pub fn run(&self) -> Result<()> {
        let huge_pages = if self.no_huge_pages { HugePages::Never } else { HugePages::Auto };
        let options = PoolOptions::for_mtu(16_383, 1500);
        let memory_mib = (options.bytes() >> 20) as u32 + 64;
        let eal = Eal::start(&EalOptions { memory_mib, huge_pages, ..EalOptions::default() })?;
        ensure!(self.no_huge_pages || eal.has_huge_pages(), "there are not enough free huge pages");
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
        let rate = std::thread::scope(|scope| {
            let running = scope.spawn(|| worker.run(&eal, self.core, &stop, || {}));
            sleep(Duration::from_millis(300));
            let (started, before) = (Instant::now(), sent());
            sleep(Duration::from_secs_f64(self.seconds));
            let rate = (sent() - before) as f64 / started.elapsed().as_secs_f64();
            stop.store(true, Relaxed);
            running.join().ok().context("the worker died")??;
            anyhow::Ok(rate)
        })?;
        println!("{rate:.0}");
        Ok(())
    }
}
