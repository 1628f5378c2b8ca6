//! Ports and cores that runs are made with, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use weir::config::{Config, PortConfig};
use weir::dpdk::{Lcore, LcoreError, cycles, cycles_per_second};
use weir::live::Devices;
use weir::port::{Dev, FaultSpec, Port, PortStats};

use super::core::{Control, Core, Job, Queues};
use super::live::{Progress, Watch};
use super::result::{CoreResult, RunResult};
use crate::pace::{Arrivals, Pace, Rate, Schedule};
use crate::tally::Tally;
use crate::traffic::Source;
use crate::truth::{Closed, CoreTruth, EpochTime};

/// What ports and cores are opened with.
#[derive(Clone, Debug)]
pub struct Setup {
    pub tx: Dev,
    /// The device that frames come back by; it may be that of `tx`.
    pub rx: Option<Dev>,
    /// The cores that send and receive; without a number the kernel chooses.
    pub cores: Vec<Option<usize>>,
    /// The longest frame without FCS.
    pub longest: u16,
    /// What frames meet on their way out by `tx` and in by `rx`.
    pub fault: Option<FaultSpec>,
    pub huge_pages: bool,
    pub buffers: Option<u32>,
    /// Arguments for DPDK.
    pub eal: Vec<String>,
}

/// Open ports, and the queues of each core.
#[derive(Debug)]
pub struct Rig {
    queues: Vec<Queues>,
    /// What is sent there comes back at once.
    loopback: Option<Queues>,
    cores: Vec<Option<usize>>,
    devices: Devices,
}

/// How a run is made.
pub struct RunPlan<'a> {
    pub pace: Pace,
    /// Each core's part of the packets.
    pub shares: Vec<f64>,
    pub seed: u64,
    /// Nothing is due after it.
    pub duration: Option<Duration>,
    pub burst: usize,
    pub flows: u32,
    pub tag: u8,
    /// Time without a frame after which all that is to come has come.
    pub drain: Duration,
    /// Ends the run.
    pub stop: &'a AtomicBool,
    pub truth: Option<(EpochTime, SyncSender<Closed>)>,
    /// Where others see the run; it is of as many cores, and of this run alone.
    pub watch: Option<Arc<Watch>>,
    /// Whether they see its latencies and latenesses as well.
    pub watches_times: bool,
}

const MTU_OVERHEAD: u16 = 14;
const LOOPBACK: &str = "ring:pktgen";
/// How long, and how fast, the generator measures itself.
const CALIBRATION: Duration = Duration::from_millis(50);
const CALIBRATION_PPS: f64 = 20_000.0;
/// How often progress is told.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for a core to be ready.
const READY: Duration = Duration::from_secs(10);
/// Frames are waited for at most this many times the quiet time.
const DRAINS: u32 = 50;

impl Rig {
    /// # Errors
    /// If DPDK or a port does not open; nor will they again in this process.
    pub fn open(setup: &Setup) -> Result<Self> {
        let (devices, used) = open_devices(setup, ["tx", "rx"], setup.rx.is_some())?;
        let mut queues = (0..setup.cores.len() as u16)
            .map(|core| {
                let tx =
                    devices.ports[0].tx_queue(core).with_context(|| format!("no transmit queue for core {core}"))?;
                Ok(Queues { tx, rx: Vec::new() })
            })
            .collect::<Result<Vec<_>>>()?;
        if setup.rx.is_some() {
            let port = &devices.ports[used - 1];
            for queue in 0..port.rx_queues() {
                let core = usize::from(queue) % queues.len();
                queues[core].rx.extend(port.rx_queue(queue));
            }
        }
        let loopback = devices
            .ports
            .get(used)
            .and_then(|port| Some(Queues { tx: port.tx_queue(0)?, rx: vec![port.rx_queue(0)?] }));
        Ok(Self { queues, loopback, cores: setup.cores.clone(), devices })
    }

    pub fn cores(&self) -> u32 {
        self.cores.len() as u32
    }

    pub fn hz(&self) -> u64 {
        cycles_per_second(&self.devices.eal)
    }

    pub fn eal(&self) -> &weir::dpdk::Eal {
        &self.devices.eal
    }

    /// The port that sends, and the one that receives if it is another: name and counters.
    pub fn port_stats(&self) -> Vec<(&'static str, PortStats)> {
        ["tx", "rx"].into_iter().zip(self.used().iter().map(Port::stats)).collect()
    }

    /// The ports but for the loopback.
    fn used(&self) -> &[Port] {
        let loopback = usize::from(self.loopback.is_some());
        &self.devices.ports[..self.devices.ports.len() - loopback]
    }

    /// Waits until the ports have a link. False when one has none in time.
    pub fn wait_for_link(&self, timeout: Duration) -> bool {
        have_link(self.used(), timeout)
    }

    /// Sends the sources' frames, one source on each core, and takes what comes back until no more
    /// does. `progress` is called now and then.
    ///
    /// # Errors
    /// If a core does not start.
    pub fn run<S: Source>(
        &mut self,
        sources: Vec<S>,
        plan: &RunPlan,
        mut progress: impl FnMut(&Progress),
    ) -> Result<RunResult<S>> {
        drive(&self.devices, &mut self.queues, &self.cores, sources, plan, &mut progress)
    }

    /// Latency of a frame that comes back at once, as this generator measures it: its own part of
    /// all latencies. `None` without a receiving port.
    ///
    /// # Errors
    /// If a core does not start.
    pub fn calibrate<S: Source>(&mut self, source: S) -> Result<Option<Histogram<u64>>> {
        let Some(loopback) = &mut self.loopback else { return Ok(None) };
        let plan = RunPlan {
            pace: Pace::Rate(Rate::Packets(CALIBRATION_PPS), Arrivals::Constant),
            shares: vec![1.0],
            seed: 0,
            duration: Some(CALIBRATION),
            burst: 1,
            flows: source.flows() as u32,
            tag: 0x5a,
            drain: CALIBRATION,
            stop: &AtomicBool::new(false),
            truth: None,
            watch: None,
            watches_times: false,
        };
        let queues = std::slice::from_mut(loopback);
        let result = drive(&self.devices, queues, &self.cores[..1], vec![source], &plan, &mut |_| {})?;
        Ok(Some(result.latency()))
    }
}

/// Opens the two devices of a setup, or one if they are the same, by these names, and a ring behind
/// them if a loopback is wanted. Gives how many there are without it.
pub(super) fn open_devices(setup: &Setup, names: [&str; 2], loopback: bool) -> Result<(Devices, usize)> {
    let mtu = u32::from(setup.longest.saturating_sub(MTU_OVERHEAD)).max(1500);
    let port =
        |name: &str, dev: &Dev| PortConfig { mtu, fault: setup.fault.clone(), ..PortConfig::new(name, dev.clone()) };
    let mut ports = vec![port(names[0], &setup.tx)];
    let rx = setup.rx.as_ref().filter(|rx| **rx != setup.tx);
    ports.extend(rx.map(|dev| port(names[1], dev)));
    let used = ports.len();
    if loopback {
        ports.push(PortConfig { mtu, ..PortConfig::new("loopback", LOOPBACK.parse().context(LOOPBACK)?) });
    }
    let mut config = Config { ports, ..Config::default() };
    config.switch.buffers = setup.buffers;
    config.switch.huge_pages = (!setup.huge_pages).then_some(false);
    Ok((Devices::open(&config, setup.cores.len(), setup.eal.clone())?, used))
}

/// Waits until these ports have a link. False when one has none in time.
pub(super) fn have_link(ports: &[Port], timeout: Duration) -> bool {
    let end = Instant::now() + timeout;
    loop {
        // Each is asked, so that each tells its queues.
        let up = ports.iter().filter(|port| port.link_up()).count() == ports.len();
        if up || Instant::now() > end {
            return up;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends and receives on these queues, of as many cores.
fn drive<S: Source>(
    devices: &Devices,
    queues: &mut [Queues],
    cpus: &[Option<usize>],
    sources: Vec<S>,
    plan: &RunPlan,
    progress: &mut impl FnMut(&Progress),
) -> Result<RunResult<S>> {
    let hz = cycles_per_second(&devices.eal);
    let control = Control::default();
    let watch = plan.watch.clone().unwrap_or_else(|| Arc::new(Watch::new(sources.len())));
    let receives = queues.iter().any(|queues| !queues.rx.is_empty());
    let (eal, pool) = (&devices.eal, &devices.pool);
    let mut jobs = Vec::new();
    for (core, ((source, queues), live)) in (0..).zip(sources.into_iter().zip(queues).zip(watch.cores())) {
        let truth = plan
            .truth
            .as_ref()
            .map(|(time, to)| CoreTruth::new(core, *time, eal, source.flows(), plan.flows, to.clone()));
        jobs.push(Job {
            schedule: Schedule::new(part(plan.pace, plan.shares[core as usize]), hz, plan.seed ^ u64::from(core)),
            source,
            end: plan.duration.map_or(u64::MAX, |time| (time.as_secs_f64() * hz as f64) as u64),
            burst: plan.burst,
            tag: plan.tag,
            tally: Tally::new(if queues.rx.is_empty() { 0 } else { plan.flows }),
            queues,
            pool,
            hz,
            control: &control,
            live,
            is_watched: plan.watches_times,
            truth,
        });
    }
    let results = thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .zip(cpus)
            .map(|(job, cpu)| {
                scope.spawn(move || {
                    let _lcore = Lcore::register(eal, *cpu)?;
                    Ok(Core::new(job).run())
                })
            })
            .collect();
        let supervised = supervise(&control, &threads, plan, receives, hz, &watch, progress);
        control.stop.store(true, Relaxed);
        let results = threads.into_iter().map(joined).collect::<Result<Vec<_>>>();
        // A core's error is the cause of the other.
        results.and_then(|results| supervised.map(|()| results))
    })?;
    Ok(RunResult { cores: results, hz })
}

type Thread<'scope, S> = ScopedJoinHandle<'scope, Result<CoreResult<S>, LcoreError>>;

fn joined<S>(thread: Thread<S>) -> Result<CoreResult<S>> {
    thread.join().map_err(|_| anyhow!("a core has died"))?.context("a core does not start")
}

/// Starts the cores together, waits until all have sent, and until nothing more comes.
fn supervise<S>(
    control: &Control,
    threads: &[Thread<S>],
    plan: &RunPlan,
    receives: bool,
    hz: u64,
    watch: &Watch,
    progress: &mut impl FnMut(&Progress),
) -> Result<()> {
    let asked = Instant::now();
    while control.ready.load(Relaxed) < threads.len() {
        if asked.elapsed() > READY || threads.iter().any(ScopedJoinHandle::is_finished) {
            bail!("a core does not start");
        }
        thread::sleep(Duration::from_micros(100));
    }
    control.start.store(cycles() + hz / 1000, Relaxed);
    watch.start();
    while control.done.load(Relaxed) < threads.len() {
        if plan.stop.load(Relaxed) {
            control.stop_sending.store(true, Relaxed);
        }
        thread::sleep(LOOK);
        progress(&watch.progress());
    }
    let (sent, mut came) = (Instant::now(), (watch.progress().came(), Instant::now()));
    while receives && sent.elapsed() < plan.drain * DRAINS {
        let now = watch.progress();
        if now.came() != came.0 {
            came = (now.came(), Instant::now());
        }
        if now.received >= now.sent || came.1.elapsed() >= plan.drain {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        progress(&now);
    }
    Ok(())
}

fn part(pace: Pace, share: f64) -> Pace {
    match pace {
        Pace::Rate(rate, arrivals) => Pace::Rate(rate.part(share), arrivals),
        Pace::Bursts { rate, packets, interval } => {
            Pace::Bursts { rate: rate.part(share), packets: (packets as f64 * share).round() as u64, interval }
        }
        Pace::Own(_) => pace,
    }
}
