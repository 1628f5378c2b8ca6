//! `pktgen run`: sends at a rate, receives, and says what became of each frame.

mod drops;
mod follow;
mod keeper;
mod metrics;
mod options;
mod report;
mod view;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use pktgen::engine::{Rig, RunPlan, Watch};
use pktgen::latency::{Latency, write_hgrm, write_hlog};
use pktgen::pace::Pace;
use pktgen::traffic::{FlowPlan, Generated, Replay, Shape, Source};
use pktgen::truth::EpochTime;
use weir::cli::{screen, signals};
use weir::wire::Flow;

use crate::Failure;
use drops::SwitchDrops;
use follow::{Followed, Follower};
use keeper::Keeper;
pub use options::Arguments;
pub use options::Traffic;
pub use report::{Counters, Report, print};

/// Longest wait for the ports' links.
pub const LINK: Duration = Duration::from_secs(5);

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let traffic = arguments.traffic()?;
    let recorded = traffic.recorded();
    for line in recorded.iter().flat_map(|recorded| recorded.text(arguments.longest_gap())) {
        crate::say(format_args!("pktgen: {line}"));
    }
    let drops = || -> Result<_, Failure> {
        let drops = arguments.switch()?.as_ref().map(SwitchDrops::read).transpose().context("--score")?;
        Ok(drops.flatten())
    };
    let before = drops()?;
    let stop = signals::stop(if follow::is_live(arguments) { screen::give_back } else { signals::clear_line })
        .context("signals")?;
    let mut rig = Rig::open(&arguments.setup(traffic.longest()))?;
    if !rig.wait_for_link(LINK) {
        crate::say(format_args!("pktgen: a port has no link; frames for it wait until it has"));
    }
    let own = Generated::new(&FlowPlan::single(), &Shape::default(), 0, 1);
    let own = rig.calibrate(own)?.as_ref().and_then(Latency::of);
    let cores = rig.cores();
    let (pace, words) = (arguments.pace(&traffic), traffic.describe());
    let report = match &traffic {
        Traffic::Flows(plan, shape) => {
            let sources = (0..cores).map(|core| Generated::new(plan, shape, core, cores)).collect();
            let load = Load { sources, shares: shares(plan, cores), flows: plan.flows(), pace, words };
            let flows = || (0..plan.flows()).map(|number| plan.tuple(number).flow()).collect();
            one(arguments, &mut rig, load, flows, &stop)?
        }
        Traffic::Capture(recording, rounds) => {
            let sources: Vec<_> = (0..cores).map(|core| Replay::new(recording, *rounds, core, cores)).collect();
            let shares = sources.iter().map(|source| source.packets() as f64 / recording.packets() as f64).collect();
            let load = Load { sources, shares, flows: recording.flows().len() as u32, pace, words };
            one(arguments, &mut rig, load, || recording.flows().to_vec(), &stop)?
        }
    };
    // A switch that has gone since is named by the score.
    let after = drops().ok().flatten();
    let switch_drops = after.zip(before).map(|(after, before)| after.since(&before));
    let mut report = Report { own, traffic: traffic.describe(), switch_drops, capture: recorded, ..report };
    print(arguments.json, &report, || report.text())?;
    match report.error.take() {
        Some(error) => Err(error.into()),
        None => report.judge(arguments),
    }
}

/// Each core's part of the packets.
pub fn shares(plan: &FlowPlan, cores: u32) -> Vec<f64> {
    (0..cores).map(|core| plan.order_len(core, cores) as f64 / plan.round() as f64).collect()
}

/// What the cores of a run send, and when.
struct Load<S> {
    sources: Vec<S>,
    shares: Vec<f64>,
    flows: u32,
    pace: Pace,
    /// All that in words.
    words: String,
}

/// One run, and its report.
fn one<S: Source>(
    arguments: &Arguments,
    rig: &mut Rig,
    load: Load<S>,
    names: impl FnOnce() -> Vec<Flow>,
    stop: &Arc<AtomicBool>,
) -> Result<Report, Failure> {
    let epochs = arguments.epochs()?;
    let began = SystemTime::now();
    let Load { sources, shares, flows, pace, words } = load;
    let mut plan = RunPlan {
        pace,
        shares,
        seed: arguments.seed,
        duration: arguments.duration(),
        burst: arguments.burst,
        flows,
        tag: tag(),
        drain: arguments.drain,
        stop,
        truth: None,
        watch: None,
        watches_times: false,
    };
    let keeper = match epochs {
        None => None,
        Some((time, scorer)) => {
            let (keeper, to) = Keeper::start(rig.cores(), time.length, names(), arguments.truth.as_deref(), scorer)?;
            plan.pace = made_up(plan.pace, time);
            plan.truth = Some((time, to));
            Some(keeper)
        }
    };
    let followed = Followed {
        watch: Arc::new(Watch::new(sources.len())),
        traffic: words,
        pace,
        duration: plan.duration,
        receives: arguments.rx.is_some(),
        is_signed: S::IS_SIGNED,
        score: keeper.as_ref().map(|keeper| keeper.score.clone()),
    };
    plan.watch = Some(followed.watch.clone());
    plan.watches_times = arguments.metrics.is_some() || follow::is_live(arguments);
    if let Some(address) = arguments.metrics {
        crate::say(format_args!("pktgen: metrics at http://{}/metrics", metrics::serve(address, followed.clone())?));
    }
    let mut follower = Follower::new(arguments, followed, stop.clone()).context("--live")?;
    let result = rig.run(sources, &plan, |_| follower.show());
    // The terminal is as it was before anything is printed.
    drop(follower);
    // Without a sender left the keeper ends, also after an error.
    drop(plan.truth.take());
    let kept = keeper.map(Keeper::finish).transpose();
    let (result, mut kept) = (result?, kept?);
    files(arguments, &result.latency(), began, result.seconds())?;
    let late = kept.as_ref().map(|kept| (kept.late_packets, kept.unplaced_packets));
    let report = Report::new(pace, arguments.rx.is_some(), rig, &result, late);
    let unknown_epochs = kept.as_ref().map(|kept| kept.unknown_epochs).filter(|epochs| *epochs > 0);
    let error = kept.as_mut().and_then(|kept| kept.error.take());
    Ok(Report { score: kept.and_then(|kept| kept.score), unknown_epochs, error, ..report })
}

/// Pauses before epochs' ends are made up for while sending.
fn made_up(pace: Pace, time: EpochTime) -> Pace {
    let sending = (time.length - time.pause).as_secs_f64() / time.length.as_secs_f64();
    match pace {
        Pace::Rate(rate, arrivals) => Pace::Rate(rate.part(1.0 / sending), arrivals),
        Pace::Bursts { rate, packets, interval } => {
            Pace::Bursts { rate: rate.part(1.0 / sending), packets, interval: interval.mul_f64(sending) }
        }
        Pace::Own(_) => pace,
    }
}

/// Keeps frames of this run apart from those of another that are still under way.
pub fn tag() -> u8 {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    (nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ std::process::id() as u8
}

/// Writes the histograms that are asked for.
fn files(arguments: &Arguments, latency: &Histogram<u64>, began: SystemTime, seconds: f64) -> Result<()> {
    let write = |path: &Path, write: &dyn Fn(&mut BufWriter<File>) -> std::io::Result<()>| {
        let mut file = BufWriter::new(File::create(path)?);
        write(&mut file)?;
        file.flush()
    };
    if let Some(path) = &arguments.hgrm {
        write(path, &|file| write_hgrm(latency, file)).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &arguments.hlog {
        let length = Duration::from_secs_f64(seconds);
        write(path, &|file| write_hlog(latency, began, length, file)).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Rates that a run is held to.
pub(crate) fn asked(pace: Pace, mean_length: f64) -> Option<f64> {
    match pace {
        Pace::Rate(rate, _) => rate.packets(mean_length),
        Pace::Bursts { packets, interval, .. } => Some(packets as f64 / interval.as_secs_f64()),
        Pace::Own(_) => None,
    }
}
