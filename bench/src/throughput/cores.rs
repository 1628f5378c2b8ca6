//! Several cores beside one: packets per second, and what the programs answer about the same
//! packets. Each core has a null port, a replica of the switch, and the flows that a NIC's RSS would
//! give it.

use std::slice;
use std::sync::Barrier;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::Args;
use weir::answers::{Claimed, CountedFrom, HeavyFlows, Query, Task, Truth, score};
use weir::assemble::Assembly;
use weir::config::{BatchOrderConfig, Config};
use weir::dpdk::{Eal, Lcore, cycles_per_second};
use weir::history::Window;
use weir::network::controller::{LocalAnswers, LocalControllers};
use weir::program::ProgramConfig;
use weir::switch::Switch;
use weir::telemetry::Collector;
use weir::trace::{Trace, Workload};

use super::pass::{FRAME, Machine, Traffic, Way, Write};
use super::{Spread, machine};

#[derive(Args)]
pub struct Cores {
    /// The traffic; each flow's packets go to one core
    #[arg(long, default_value = "isp/burst,flows=400000,packets=5000000")]
    workload: String,
    /// A program; of several, each alone and then all together
    #[arg(long = "program", value_name = "PROGRAM", default_values = ["hashpipe:stages=6,slots=4096", "chamelemon"])]
    programs: Vec<String>,
    /// The cores that work together; the last one also works alone
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cores: Vec<usize>,
    /// Rounds; in each, one core and all cores run over the whole workload once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// A flow is heavy that has this share of the packets.
const HEAVY: f64 = 2e-4;

/// A switch with its replicas, and the rates that were measured.
struct Contender {
    config: Config,
    switches: Vec<Switch>,
    collector: Collector,
    answers: LocalAnswers,
    /// Packets per TSC cycle, of all cores together.
    /// By round, of each core.
    rates: Vec<Vec<f64>>,
}

impl Contender {
    fn new(programs: &[String], cores: usize) -> Result<Self> {
        let (config, assembly) = Way::default().assemble(programs, BatchOrderConfig::default(), cores)?;
        let Assembly { switches, mut collector, schedules, .. } = assembly;
        let (controllers, answers) = LocalControllers::of_run(&schedules, None, 0);
        collector.subscribe(Box::new(controllers));
        Ok(Self { config, switches, collector, answers, rates: Vec::new() })
    }

    /// Each switch works on its own packets, all at the same time.
    fn round(&mut self, eal: &Eal, cores: &[usize], traffics: &mut [Traffic]) -> Result<()> {
        let begin = Barrier::new(cores.len());
        let rates: Result<Vec<f64>> = thread::scope(|scope| {
            let work = |((&core, traffic), switch)| {
                let begin = &begin;
                scope.spawn(move || core_rate(eal, core, begin, traffic, switch))
            };
            let running: Vec<_> = cores.iter().zip(traffics).zip(&mut self.switches).map(work).collect();
            running.into_iter().map(|core| core.join().ok().context("a core's thread died")?).collect()
        });
        self.rates.push(rates?);
        Ok(())
    }

    /// Packets per TSC cycle of all cores together, by round.
    fn sums(&self) -> impl Iterator<Item = f64> {
        self.rates.iter().map(|cores| cores.iter().sum())
    }

    /// The sum of what each core had in its median round. A core that another machine slows down for
    /// less than half of the rounds does not show in it, whatever the others do in these rounds.
    fn sum_of_medians(&self) -> f64 {
        let cores = self.rates.first().map_or(0, Vec::len);
        (0..cores).map(|core| Spread::of(self.rates.iter().map(|round| round[core]).collect()).median).sum()
    }

    /// The heavy flows of each program that finds some, by its name.
    fn answers(&mut self) -> Vec<(String, Claimed<HeavyFlows>)> {
        self.switches.iter_mut().for_each(Switch::finish);
        self.collector.finish();
        let query = Query::new(Task::Heavy, Window::All);
        let named = ProgramConfig::named(&self.config.programs).zip(self.answers.all());
        named.filter_map(|((name, _), history)| Some((name, history.answer(&query).ok()?))).collect()
    }
}

/// Packets per TSC cycle of one core. All wait for each other, also for one that could not be had.
fn core_rate(eal: &Eal, core: usize, begin: &Barrier, traffic: &mut Traffic, switch: &mut Switch) -> Result<f64> {
    let lcore = Lcore::register(eal, Some(core));
    begin.wait();
    let _lcore = lcore?;
    Ok(1.0 / traffic.pass(Write::Headers, Some(switch)))
}

/// The packets of a trace whose flows one of several cores gets.
pub(super) fn share(trace: &Trace, core: usize, of: usize) -> Trace {
    let own = |flow: &u32| *flow as usize % of == core;
    Trace { sequence: trace.sequence.iter().copied().filter(own).collect(), ..trace.clone() }
}

impl Cores {
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds: at least one");
        let mut distinct = self.cores.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let (number, alone) = (self.cores.len(), &self.cores[self.cores.len() - 1..]);
        ensure!(number > 1 && distinct.len() == number, "--cores: at least two, each once");
        let dpdk = Machine::without_core()?;
        let hz = cycles_per_second(&dpdk.eal) as f64;
        let trace = self.workload.parse::<Workload>()?.generate();
        let way = Way::default();
        let mut whole = dpdk.traffic("whole", &way, &trace, FRAME as u16)?;
        let shared = |core| dpdk.traffic(&format!("share{core}"), &way, &share(&trace, core, number), FRAME as u16);
        let mut shares = (0..number).map(shared).collect::<Result<Vec<_>>>()?;

        let mut sets = vec![Vec::new()];
        sets.extend(self.programs.chunks(1).map(<[String]>::to_vec));
        if self.programs.len() > 1 {
            sets.push(self.programs.clone());
        }
        let pair = |set: &Vec<String>| Ok((Contender::new(set, 1)?, Contender::new(set, number)?));
        let mut contenders = sets.iter().map(pair).collect::<Result<Vec<_>>>()?;
        for _ in 0..self.rounds {
            for (one, all) in &mut contenders {
                one.round(&dpdk.eal, alone, slice::from_mut(&mut whole))?;
                all.round(&dpdk.eal, &self.cores, &mut shares)?;
            }
        }

        let pages = if dpdk.eal.has_huge_pages() { "with" } else { "without" };
        println!("{}, TSC {:.3} GHz, {pages} huge pages", machine(), hz / 1e9);
        println!(
            "{}, {FRAME}-byte frames, null ports; median (least–most) of {} rounds in turns\n",
            self.workload, self.rounds
        );
        println!("| programs | one core, M packets/s | {number} cores | ÷ one core | each core's median ÷ one core |");
        println!("| --- | --- | --- | --- | --- |");
        for (set, (one, all)) in sets.iter().zip(&contenders) {
            let name = if set.is_empty() { "none".into() } else { set.join(" and ") };
            let rates = |of: &Contender| Spread::of(of.sums().map(|rate| rate * hz / 1e6).collect());
            let ratio = Spread::of(all.sums().zip(one.sums()).map(|(all, one)| all / one).collect());
            let medians = all.sum_of_medians() / one.sum_of_medians();
            println!("| {name} | {:.1} | {:.1} | {ratio:.2} | {medians:.2} |", rates(one), rates(all));
        }

        // The registers of the rounds hold the packets several times. New ones hold them once.
        let truth: Truth = trace.truth().flows().iter().map(|flow| (flow.flow, flow.packets)).collect();
        let least = (trace.sequence.len() as f64 * HEAVY).ceil() as u64;
        let heavy = truth.values().filter(|&&count| count >= least).count();
        println!(
            "\nThe answers about these packets, beside the truth: recall of the {heavy} flows with {:.2} % of the packets \
             or more, and the average relative error of their sizes.\n\n| program | with | one core: recall, error | \
             {number} cores: recall, error |\n| --- | --- | --- | --- |",
            HEAVY * 100.0
        );
        for set in &sets {
            let (mut one, mut all) = pair(set)?;
            one.round(&dpdk.eal, alone, slice::from_mut(&mut whole))?;
            all.round(&dpdk.eal, &self.cores, &mut shares)?;
            let with = if set.len() > 1 { "the others" } else { "none" };
            for ((name, one), (_, all)) in one.answers().into_iter().zip(all.answers()) {
                println!("| {name} | {with} | {} | {} |", beside(&one, &truth, heavy), beside(&all, &truth, heavy));
            }
        }
        Ok(())
    }
}

/// Recall and average relative error of the heaviest flows.
fn beside(answers: &HeavyFlows, truth: &Truth, heaviest: usize) -> String {
    let score = score(&answers.counts().collect::<Vec<_>>(), truth, heaviest, CountedFrom::Sent);
    format!("{:.2} %, {:.3} %", score.recall * 100.0, score.average_relative_error * 100.0)
}
