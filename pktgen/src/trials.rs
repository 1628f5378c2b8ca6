//! `pktgen throughput`, `steps` and `back-to-back`: series of runs on the same ports.

mod back_to_back;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use pktgen::engine::{Rig, RunPlan};
use pktgen::latency::Latency;
use pktgen::pace::{Arrivals, Pace, Rate};
use pktgen::search::{Found, Goals, Trial, throughput};
use pktgen::traffic::{FlowPlan, Generated, Shape};
use pktgen::words;
use serde::Serialize;
use weir::cli::output::{self, Cell, Page, Table, Tables};
use weir::cli::signals;

use crate::Failure;
use crate::run::{self, Report, Traffic};
pub use back_to_back::BackToBack;

#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  pktgen throughput --tx veth:h1 --rx veth:h2 --size 64
  pktgen throughput --tx veth:h1 --rx veth:h2 --loss 0 --loss 0.1% --json")]
pub struct Throughput {
    #[command(flatten)]
    run: run::Arguments,
    /// Largest share of the packets that may be lost; may be given several times [0]
    #[arg(long = "loss", value_name = "SHARE", value_parser = words::share)]
    losses: Vec<f64>,
    /// Ends when the loads that pass and fail are as near
    #[arg(long, value_name = "SHARE", value_parser = words::share, default_value = "0.5%")]
    resolution: f64,
    /// The lowest load that is tried, as a part of --rate
    #[arg(long, value_name = "SHARE", value_parser = words::share, default_value = "0.1%")]
    min: f64,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  pktgen steps --tx veth:h1 --rx veth:h2 --rate 1Mpps --steps 5 --duration 2s")]
pub struct Steps {
    #[command(flatten)]
    run: run::Arguments,
    /// As many loads, equal steps up to --rate
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    steps: u32,
    #[command(flatten)]
    tables: Tables,
}

/// Ports, and what is sent through them in each trial.
struct Session {
    rig: Rig,
    plan: FlowPlan,
    shape: Shape,
    rate: Rate,
    arrivals: Arrivals,
    arguments: run::Arguments,
    stop: Arc<AtomicBool>,
    tag: u8,
}

/// When a trial ends.
#[derive(Clone, Copy)]
enum Until {
    Time(Duration),
    Packets(u64),
}

/// Largest part by which a trial may be slower than asked for; with more it does not count.
const SHORT: f64 = 0.01;
/// So long, in seconds, the kernel may hold up a core at the end of a trial.
const PREEMPTED: f64 = 0.02;

impl Session {
    fn open(arguments: &run::Arguments) -> Result<Self, Failure> {
        if arguments.rx.is_none() {
            return Err(Failure::Usage("--rx: without the device that frames come back by no loss is seen".into()));
        }
        let traffic = arguments.traffic()?;
        let pace = arguments.pace(&traffic);
        let (Traffic::Flows(plan, shape), Pace::Rate(rate, arrivals)) = (traffic, pace) else {
            return Err(Failure::Usage("--pcap, --incast: with pktgen run alone".into()));
        };
        if arguments.has_truth() || shape.packets.is_some() {
            return Err(Failure::Usage("--truth, --score, --epoch, --packets: with pktgen run alone".into()));
        }
        if arguments.max_loss.is_some() || arguments.hgrm.is_some() || arguments.hlog.is_some() {
            return Err(Failure::Usage("--max-loss, --hgrm, --hlog: with pktgen run alone".into()));
        }
        if arguments.metrics.is_some() || arguments.live {
            return Err(Failure::Usage("--metrics, --live: with pktgen run alone".into()));
        }
        let stop = signals::stop(signals::clear_line).context("signals")?;
        let rig = Rig::open(&arguments.setup(shape.longest()))?;
        rig.wait_for_link(run::LINK);
        Ok(Self {
            rig,
            plan: *plan,
            shape: *shape,
            rate,
            arrivals,
            arguments: arguments.clone(),
            stop,
            tag: run::tag(),
        })
    }

    fn trial(&mut self, rate: Rate, until: Until) -> Result<Report> {
        // What an earlier trial left behind is a stranger.
        self.tag = self.tag.wrapping_add(1);
        let cores = self.rig.cores();
        let (shape, duration) = match until {
            Until::Time(time) => (self.shape.clone(), Some(time)),
            Until::Packets(packets) => (Shape { packets: Some(packets), ..self.shape.clone() }, None),
        };
        let sources = (0..cores).map(|core| Generated::new(&self.plan, &shape, core, cores)).collect();
        let pace = Pace::Rate(rate, self.arrivals);
        let plan = RunPlan {
            pace,
            shares: run::shares(&self.plan, cores),
            seed: self.arguments.seed,
            duration,
            burst: self.arguments.burst,
            flows: self.plan.flows(),
            tag: self.tag,
            drain: self.arguments.drain,
            stop: &self.stop,
            truth: None,
            watch: None,
            watches_times: false,
        };
        let result = self.rig.run(sources, &plan, |_| {})?;
        if self.stop.load(Relaxed) {
            return Err(anyhow!("stopped by a signal"));
        }
        let report = Report::new(pace, true, &self.rig, &result, None);
        let short = |error: f64| error < -SHORT && -error * report.seconds > PREEMPTED;
        if report.sent.rate_error.is_some_and(short) {
            let (sent, asked) = (report.sent.packets_per_second, report.sent.asked_packets_per_second);
            let why = "the rate was not held; give a lower --rate, or more cores";
            return Err(anyhow!("{why}: {sent:.0} of {:.0} packets per second", asked.unwrap_or_default()));
        }
        Ok(report)
    }

    fn time(&self) -> Until {
        Until::Time(self.arguments.duration().unwrap_or(Duration::from_secs(10)))
    }

    /// A trial at a part of the highest load. The fastest is that which was reached when nothing
    /// held it up.
    fn at(&mut self, part: f64) -> Result<Report> {
        if self.rate == Rate::Max {
            let report = self.trial(Rate::Max, self.time())?;
            self.rate = Rate::Packets(report.sent.packets_per_second.max(1.0));
            if part == 1.0 {
                return Ok(report);
            }
        }
        self.trial(self.rate.part(part), self.time())
    }
}

/// Loss and load of a trial, said as it ends.
fn told(part: f64, report: &Report) -> Trial {
    let loss = report.losses().filter(|_| report.sent.packets > 0).map_or(1.0, |losses| losses.lost_share);
    let load = report.sent.packets_per_second;
    crate::say(format_args!("{:6.2} %: {:.6} Mpps, {:.4} % lost", 100.0 * part, load / 1e6, 100.0 * loss));
    Trial { asked: part, load, loss }
}

#[derive(Serialize)]
struct ThroughputReport {
    results: Vec<Found>,
    trials: Vec<Trial>,
}

impl Throughput {
    pub fn run(&self) -> Result<(), Failure> {
        let format = self.tables.clone().format(self.run.json)?;
        let losses = if self.losses.is_empty() { vec![0.0] } else { self.losses.clone() };
        if self.resolution <= 0.0 || self.min <= 0.0 {
            return Err(Failure::Usage("--resolution and --min are above 0".into()));
        }
        let goals = Goals { losses, resolution: self.resolution, min: self.min };
        let mut session = Session::open(&self.run)?;
        let (results, trials) = throughput(&goals, |part| session.at(part).map(|report| told(part, &report)))?;
        Ok(output::page(&format, &ThroughputReport { results, trials }, ThroughputReport::page)?)
    }
}

fn mpps(load: f64) -> Cell {
    Cell::new(format!("{:.6}", load / 1e6), load)
}

/// A share, shown in percent with this number of digits.
fn percents(share: f64, digits: usize) -> Cell {
    Cell::new(format!("{:.digits$}", 100.0 * share), share)
}

impl ThroughputReport {
    fn page(&self) -> Page {
        let found = |Found { max_loss, load, above }: &Found| {
            vec![percents(*max_loss, 4), Cell::or("-", load.map(mpps)), Cell::or("-", above.map(mpps))]
        };
        let columns =
            [">at most lost, %|max_loss_share", ">Mpps|packets_per_second", ">more at Mpps|above_packets_per_second"];
        let results = Table::new(columns, self.results.iter().map(found));
        let trial = |trial: &Trial| vec![percents(trial.asked, 2), mpps(trial.load), percents(trial.loss, 4)];
        let columns = [">load, %|load_share", ">Mpps|packets_per_second", ">lost, %|lost_share"];
        let trials = Table::new(columns, self.trials.iter().map(trial));
        Page::default().table("results", results).table("trials", trials)
    }
}

impl Steps {
    pub fn run(&self) -> Result<(), Failure> {
        let format = self.tables.clone().format(self.run.json)?;
        let mut session = Session::open(&self.run)?;
        let mut reports = Vec::new();
        let mut rows = Vec::new();
        for step in 1..=self.steps {
            let part = f64::from(step) / f64::from(self.steps);
            let report = session.at(part)?;
            let trial = told(part, &report);
            let latency = |of: fn(&Latency) -> u64| {
                let ns = report.latency.as_ref().map(of);
                Cell::or("-", ns.map(|ns| Cell::new(format!("{:.2}", ns as f64 / 1e3), ns)))
            };
            rows.push(vec![
                percents(part, 1),
                mpps(trial.load),
                percents(trial.loss, 4),
                latency(|of| of.min_ns),
                latency(|of| of.p50_ns),
                latency(|of| of.p99_ns),
                latency(|of| of.p999_ns),
            ]);
            reports.push(report);
        }
        let columns = [
            ">load, %|load_share",
            ">Mpps|packets_per_second",
            ">lost, %|lost_share",
            ">min, µs|min_ns",
            ">p50, µs|p50_ns",
            ">p99, µs|p99_ns",
            ">p99.9, µs|p999_ns",
        ];
        let page = |_: &Vec<Report>| Page::default().table("steps", Table::new(columns, rows));
        Ok(output::page(&format, &reports, page)?)
    }
}
