//! Traffic from outside, by pktgen's engine in a process of its own: how much comes back, how long
//! it takes at each load, and when the first frame came.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pktgen::engine::{MAX_BURST, Rig, RunPlan, RunResult, Setup, Watch};
use pktgen::latency::Latency;
use pktgen::pace::{Arrivals, Pace, Rate};
use pktgen::traffic::{FCS, FlowPlan, Generated, Protocol, Shape};
use serde::{Deserialize, Serialize};
use weir::port::Dev;
use weir::trace::Workload;

use super::measure::check_pages;

#[derive(Args)]
pub struct Generate {
    /// The device to send by
    #[arg(long)]
    tx: Dev,
    /// The device that frames come back by
    #[arg(long)]
    rx: Dev,
    #[arg(long, default_value_t = 0)]
    core: usize,
    #[arg(long, default_value_t = 1000)]
    flows: u32,
    /// Length of frames without FCS
    #[arg(long, default_value_t = 64)]
    size: u16,
    /// Seconds at each load
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    #[arg(long)]
    no_huge_pages: bool,
    /// Sends slowly until a frame comes back, and says when it came
    #[arg(long)]
    first: bool,
}

/// Throughput, and latency at parts of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Curve {
    /// Packets a second that come back when the generator sends as fast as its port takes them.
    pub throughput: f64,
    /// Packets a second that it sent meanwhile.
    pub offered: f64,
    pub points: Vec<LoadPoint>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LoadPoint {
    /// Percent of the throughput.
    pub load: u32,
    /// Share of the packets that did not come back.
    pub lost: f64,
    /// Microseconds: p50, p99, p99.9.
    pub latency: [f64; 3],
}

/// Loads in percent.
pub const LOADS: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Printed by the process when it sends and nothing has come back so far.
pub const SENDING: &str = "sending";
/// Packets a second until the first comes back.
const PROBES: f64 = 2000.0;
/// Longest wait for the first frame.
const PATIENCE: Duration = Duration::from_secs(30);
/// Nothing comes back any more after so long without a frame.
const DRAIN: Duration = Duration::from_millis(40);

impl Generate {
    /// Prints a [`Curve`], or when the first frame came in nanoseconds since 1970.
    pub fn run(&self) -> Result<()> {
        let shape =
            Shape { sizes: (self.size + FCS).to_string().parse().map_err(anyhow::Error::msg)?, ..Shape::default() };
        let setup = Setup {
            tx: self.tx.clone(),
            rx: Some(self.rx.clone()),
            cores: vec![Some(self.core)],
            longest: shape.longest(),
            fault: None,
            huge_pages: !self.no_huge_pages,
            buffers: None,
            eal: Vec::new(),
        };
        let plan = FlowPlan::in_turn(self.flows, Workload::default(), Protocol::Udp);
        let mut generator = Generator { rig: Rig::open(&setup)?, plan, shape, tag: 0 };
        check_pages(std::process::id(), !self.no_huge_pages)?;
        let first = generator.first(self.first)?;
        if self.first {
            println!("{}", first.duration_since(SystemTime::UNIX_EPOCH)?.as_nanos());
            return Ok(());
        }
        let curve = generator.curve(Duration::from_secs_f64(self.seconds))?;
        println!("{}", serde_json::to_string(&curve)?);
        Ok(())
    }
}

struct Generator {
    rig: Rig,
    plan: FlowPlan,
    shape: Shape,
    tag: u8,
}

impl Generator {
    fn send(
        &mut self,
        rate: Rate,
        time: Duration,
        stop: &AtomicBool,
        watch: Option<Arc<Watch>>,
    ) -> Result<RunResult<Generated>> {
        // Frames of an earlier run count as foreign.
        self.tag = self.tag.wrapping_add(1);
        let plan = RunPlan {
            pace: Pace::Rate(rate, Arrivals::Constant),
            shares: vec![1.0],
            seed: 1,
            duration: Some(time),
            burst: MAX_BURST,
            flows: self.plan.flows(),
            tag: self.tag,
            drain: DRAIN,
            stop,
            truth: None,
            watch,
            watches_times: false,
        };
        let source = Generated::new(&self.plan, &self.shape, 0, 1);
        self.rig.run(vec![source], &plan, |_| {})
    }

    /// Sends until a frame comes back; when it came.
    fn first(&mut self, tells: bool) -> Result<SystemTime> {
        let (stop, watch) = (AtomicBool::new(false), Arc::new(Watch::new(1)));
        let (seen, run) = thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let begin = Instant::now();
                let mut told = !tells;
                while begin.elapsed() < PATIENCE {
                    let now = watch.progress();
                    if now.received > 0 {
                        let seen = SystemTime::now();
                        stop.store(true, Relaxed);
                        return Some(seen);
                    }
                    if !told && now.sent > 0 {
                        println!("{SENDING}");
                        let _ = std::io::stdout().flush();
                        told = true;
                    }
                    sleep(Duration::from_micros(200));
                }
                None
            });
            let run = self.send(Rate::Packets(PROBES), PATIENCE, &stop, Some(watch.clone()));
            (looking.join().ok().flatten(), run)
        });
        run?;
        seen.ok_or_else(|| anyhow::anyhow!("no frame came back within {PATIENCE:?}"))
    }

    /// Packets a second that come back when the generator sends as fast as its port takes them, and
    /// that it sends: in the last two thirds of the time that it sends, when queues are full.
    fn fastest(&mut self, time: Duration) -> Result<(f64, f64)> {
        let (go, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let watch = Arc::new(Watch::new(1));
        let (span, run) = thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let (mut first, mut last) = (None, watch.progress());
                while !over.load(Relaxed) {
                    let now = watch.progress();
                    if now.seconds > time.as_secs_f64() {
                        break;
                    }
                    if now.seconds > time.as_secs_f64() / 3.0 {
                        first.get_or_insert(now);
                    }
                    last = now;
                    sleep(Duration::from_micros(200));
                }
                first.map(|first| (first, last))
            });
            let run = self.send(Rate::Max, time, &go, Some(watch.clone()));
            over.store(true, Relaxed);
            (looking.join().ok().flatten(), run)
        });
        run?;
        let (first, last) = span.context("the run ended before it could be measured")?;
        let rate = |now: u64, before: u64| (now - before) as f64 / (last.seconds - first.seconds).max(1e-9);
        Ok((rate(last.received, first.received), rate(last.sent, first.sent)))
    }

    fn curve(&mut self, time: Duration) -> Result<Curve> {
        let go = AtomicBool::new(false);
        let (throughput, offered) = self.fastest(time)?;
        ensure!(throughput > 0.0, "nothing came back");
        let mut points = Vec::new();
        for load in LOADS {
            let result = self.send(Rate::Packets(throughput * f64::from(load) / 100.0), time, &go, None)?;
            let (sent, received) = (result.sent().packets, result.counts().received);
            let latency = Latency::of(&result.latency()).unwrap_or_default();
            points.push(LoadPoint {
                load,
                lost: sent.saturating_sub(received) as f64 / sent.max(1) as f64,
                latency: [latency.p50_ns, latency.p99_ns, latency.p999_ns].map(|ns| ns as f64 / 1e3),
            });
        }
        Ok(Curve { throughput, offered, points })
    }
}
