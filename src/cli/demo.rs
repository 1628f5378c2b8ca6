//! `weir demo`: two switches with a lossy link between them, and what they measured beside the
//! truth; then some in a row, of which one stands still; then some in a row with little memory.

mod counted;
mod hops;

use std::time::Instant;

use clap::Args;
use counted::CountedFlows;
use hops::Hops;
use serde::Serialize;

use super::output::{self, Page, Table, Tables, row};
use super::{Failure, Programs, help, in_memory, placed};
use crate::answers::{self, Claimed, FlowName, HeavyFlow, Score, Task, Unit, heavy_table};
use crate::api::view::Counts;
use crate::history::Reasons;
use crate::program::ProgramConfig;
use crate::sim::report::{EpochAnswers, LossReport, LossScore};
use crate::sim::{Crossed, Fabric, Generation, Loss, ProgramReport, Setup, Shape, Simulation};
use crate::switch::TelemetryHeader;
use crate::trace::Workload;
use crate::wire::FlowKey;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir demo",
    "weir demo --loss link=0,rate=1% --top 10",
    "weir demo --program {networked} --json",
]))]
pub struct Demo {
    /// The traffic of one second: LAW/ORDER[,flows=…,packets=…,seed=…]
    #[arg(long, default_value = "isp/burst,flows=50000,packets=2000000")]
    workload: Workload,
    /// Packets that the link loses, in both directions: link=0,rate=…, or flows=…,rate=…
    #[arg(long, default_value = "link=0,rate=0.05%", value_name = "LOSS")]
    loss: Loss,
    #[command(flatten)]
    programs: Programs,
    /// Name this many of the flows that lost most, and of the heaviest
    #[arg(long, default_value_t = 3, value_name = "K")]
    top: usize,
    #[command(flatten)]
    tables: Tables,
}

/// The epoch, which is all there is, in nanoseconds.
const EPOCH: u64 = 1_000_000_000;
/// Delay of the link: packets within it make up bursts.
const DELAY: u64 = 50_000;
const MILLISECOND: u64 = 1_000_000;

#[derive(Serialize)]
struct Document {
    build: Build,
    workload: String,
    loss: String,
    flows: u64,
    packets: u64,
    delivered_packets: u64,
    lost_packets: u64,
    /// Time to make the packets, and to take them through switches and link.
    seconds: f64,
    /// Packets that switches took in, over `seconds`; none where the compiler did not optimise.
    switched_packets_per_second: Option<f64>,
    losses: Option<Lost>,
    heavy: Option<HeavyFlows>,
    hops: Option<Hops>,
    counted: Option<CountedFlows>,
    switches: Vec<Switch>,
    links: Vec<Link>,
}

/// How this program was compiled.
#[derive(Serialize)]
struct Build {
    profile: &'static str,
    optimised: bool,
}

/// The flows that lost packets, as a program found them.
#[derive(Serialize)]
struct Lost {
    program: String,
    memory_bytes: u64,
    #[serde(flatten)]
    score: LossScore,
    incomplete: Reasons,
    flows: Vec<LostFlow>,
}

#[derive(Serialize)]
struct LostFlow {
    #[serde(flatten)]
    name: FlowName,
    lost_packets: u64,
    true_lost_packets: u64,
    true_packets: u64,
}

/// The heaviest flows, as a program found them.
#[derive(Serialize)]
struct HeavyFlows {
    program: String,
    memory_bytes: u64,
    unit: Unit,
    flows: Vec<HeavyFlow>,
    score: Score,
}

#[derive(Serialize)]
struct Switch {
    name: String,
    #[serde(flatten)]
    counts: Counts,
}

/// One direction of the link.
#[derive(Serialize)]
struct Link {
    from: String,
    to: String,
    sent_packets: u64,
    delivered_packets: u64,
    lost_packets: u64,
}

impl Demo {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.clone().format(json)?;
        let programs = self.chosen()?;
        let failure = |error| Failure::Usage(format!("--workload, --loss or --program: {error}"));
        let setup = self.setup(programs)?;
        output::say("Two switches with a lossy link between them, and a host at each. Sending their packets …");
        let started = Instant::now();
        let mut simulation = Simulation::new(&setup).map_err(failure)?;
        simulation.epoch(&setup.workload, setup.victims());
        let report = simulation.finish().pop().ok_or_else(|| Failure::failed("no epoch has ended"))?;
        let seconds = started.elapsed().as_secs_f64();

        let tracing = self.tracing(&setup.programs);
        let counted = match self.counting(&tracing) {
            Some(program) => CountedFlows::of(program, &setup)?,
            None => None,
        };
        let hops = Hops::of(tracing, &setup)?;
        let network = simulation.network();
        let build = Build { profile: env!("WEIR_PROFILE"), optimised: matches!(env!("WEIR_OPTIMISATION"), "2" | "3") };
        let truth = network.generation(0);
        let found = |task| {
            let (number, program) = best(&setup.programs, task)?;
            let (name, _) = ProgramConfig::named(&setup.programs).nth(number)?;
            Some((program, report.programs.get(&name)?, simulation.answers(number, 0)?))
        };
        let document = Document {
            workload: setup.workload.to_string(),
            loss: self.loss.to_string(),
            flows: report.flows,
            packets: report.sent_packets,
            delivered_packets: report.delivered_packets,
            lost_packets: report.lost_packets,
            seconds,
            switched_packets_per_second: build.optimised.then(|| network.hops() as f64 / seconds),
            build,
            losses: found(Task::Losses)
                .and_then(|(program, report, answers)| self.losses(program, report, &answers, truth)),
            heavy: found(Task::Heavy)
                .and_then(|(program, report, answers)| self.heavy(program, report, &answers, truth)),
            hops,
            counted,
            switches: switches(&simulation),
            links: links(&simulation),
        };
        output::page(&format, &document, page)
    }

    /// The programs given, or those that answer best what is shown.
    fn chosen(&self) -> Result<Vec<ProgramConfig>, Failure> {
        let given = self.programs.parse()?;
        if !given.is_empty() {
            return Ok(given);
        }
        let all: Vec<_> = ProgramConfig::defaults().collect();
        let mut chosen: Vec<ProgramConfig> = Vec::new();
        for (_, program) in [Task::Losses, Task::Heavy].into_iter().filter_map(|task| best(&all, task)) {
            if !chosen.contains(program) {
                chosen.push(program.clone());
            }
        }
        Ok(chosen)
    }

    /// The programs for the second network: those given, or each as it answers all of its tasks.
    fn tracing(&self, chosen: &[ProgramConfig]) -> Vec<ProgramConfig> {
        if self.programs.programs.is_empty() { ProgramConfig::for_all_tasks().collect() } else { chosen.to_vec() }
    }

    /// The program for the third network: as it is given, or with little memory.
    fn counting(&self, tracing: &[ProgramConfig]) -> Option<ProgramConfig> {
        let program = tracing.iter().find(|program| program.needs_routes())?;
        let given = !self.programs.programs.is_empty();
        Some(if given { program.clone() } else { counted::with_little_memory(program) })
    }

    fn setup(&self, programs: Vec<ProgramConfig>) -> Result<Setup, Failure> {
        Ok(Setup {
            topology: Shape::Line { switches: 2 }.build().map_err(Failure::failed)?,
            programs,
            everywhere: true,
            workload: self.workload.clone(),
            losses: vec![self.loss.clone()],
            epoch: EPOCH,
            transit: 10 * MILLISECOND,
            latency: MILLISECOND,
            shifts: true,
            delay: DELAY,
            rate: None,
            queue_timeout: MILLISECOND,
            faults: Vec::new(),
            transport: None,
            wait: None,
            patterns: Vec::new(),
            watched: false,
            fabric: Fabric { telemetry_header: TelemetryHeader::default(), ..Fabric::default() },
        })
    }

    /// `None` when the program cannot tell.
    fn losses(
        &self,
        program: &ProgramConfig,
        report: &ProgramReport,
        answers: &EpochAnswers<'_>,
        truth: &Generation,
    ) -> Option<Lost> {
        let LossReport { losses, incomplete } = report.losses.clone()?;
        let [mut lost, mut sent] = [program.exact(), program.exact()];
        for flow in &truth.flows {
            let tuple = flow.tuple.flow();
            // Losses are packets, whatever else the program counts.
            lost.flow(&tuple, flow.lost.into(), flow.lost.into());
            sent.flow(&tuple, flow.sent.into(), flow.sent.into());
        }
        let found: Claimed<answers::Losses> = answers.answer(usize::MAX)?;
        let row = |flow: FlowName, packets| {
            let true_of = |counts: &dyn crate::program::Exact| {
                flow.flow().and_then(|flow| counts.counts().get(&flow).copied()).unwrap_or_default()
            };
            LostFlow {
                name: flow,
                lost_packets: packets,
                true_lost_packets: true_of(&*lost),
                true_packets: true_of(&*sent),
            }
        };
        let mut flows: Vec<_> = found.losses.iter().map(|loss| row(loss.name, loss.packets)).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse((flow.lost_packets, flow.true_packets)));
        flows.truncate(self.top);
        Some(Lost { program: program.name().into(), memory_bytes: memory(program)?, score: losses?, incomplete, flows })
    }

    fn heavy(
        &self,
        program: &ProgramConfig,
        report: &ProgramReport,
        answers: &EpochAnswers<'_>,
        truth: &Generation,
    ) -> Option<HeavyFlows> {
        let mut exact = program.exact();
        for flow in &truth.flows {
            exact.flow(&flow.tuple.flow(), flow.sent.into(), flow.sent_bytes);
        }
        let found: Claimed<answers::HeavyFlows> = answers.answer(self.top)?;
        let row = |heavy: &HeavyFlow| {
            let truth = heavy.name.flow().and_then(|flow| exact.counts().get(&flow).copied());
            heavy.clone().with_truth(truth.unwrap_or_default())
        };
        Some(HeavyFlows {
            program: program.name().into(),
            memory_bytes: memory(program).unwrap_or_default(),
            unit: found.unit,
            flows: found.heavy.iter().map(row).collect(),
            score: report.score?,
        })
    }
}

/// The program that answers a task first, and its place.
pub(super) fn best(programs: &[ProgramConfig], task: Task) -> Option<(usize, &ProgramConfig)> {
    let ranked = programs.iter().enumerate().filter_map(|(i, program)| Some((program.rank(task)?, i, program)));
    ranked.min_by_key(|(rank, ..)| *rank).map(|(_, i, program)| (i, program))
}

/// Bytes of registers that a program takes of one switch.
fn memory(program: &ProgramConfig) -> Option<u64> {
    let placement = placed(&in_memory(vec![program.clone()]), None).ok()?;
    Some(placement.register_bits_used() / 8)
}

fn switches(simulation: &Simulation) -> Vec<Switch> {
    let network = simulation.network();
    let names = network.topology().switches().iter().cloned();
    names.zip(network.counts()).map(|(name, counts)| Switch { name, counts }).collect()
}

/// Both directions of the link.
fn links(simulation: &Simulation) -> Vec<Link> {
    let network = simulation.network();
    let name = |switch: u32| network.topology().switches()[switch as usize].clone();
    let link = |Crossed { from, crossed, lost, .. }: Crossed| {
        Some(Link {
            from: name(network.owner(from).0),
            to: name(network.peer(from)?),
            sent_packets: crossed + lost,
            delivered_packets: crossed,
            lost_packets: lost,
        })
    };
    network.crossed().filter_map(link).collect()
}

/// Switches in a row that lose no packets, with one program, and else like `first`.
fn in_a_row(
    switches: u32,
    program: &ProgramConfig,
    (flows, packets): (u32, u64),
    first: &Setup,
) -> Result<Setup, Failure> {
    let workload = "isp/uniform".parse::<Workload>().map_err(Failure::failed)?;
    Ok(Setup {
        topology: Shape::Line { switches }.build().map_err(Failure::failed)?,
        programs: vec![program.clone()],
        workload: Workload { flows, packets, seed: first.workload.seed, ..workload },
        losses: Vec::new(),
        transport: None,
        ..first.clone()
    })
}

fn page(document: &Document) -> Page {
    let losses = match &document.losses {
        Some(losses) => losses_page(losses),
        None => Page::default().text("No program of these tells the flows that lost packets."),
    };
    let heavy = match &document.heavy {
        Some(heavy) => heavy_page(heavy),
        None => Page::default().text("No program of these tells the heavy flows."),
    };
    let hops = match &document.hops {
        Some(hops) => hops.page(),
        None => Page::default().text("No program of these tells the paths of flows and the latencies of their hops."),
    };
    let counted = document.counted.as_ref().map(CountedFlows::page).unwrap_or_default();
    let measured = losses.and(heavy).and(hops).and(counted);
    Page::default().text(head(document)).and(measured).and(balance_page(document)).text(NEXT)
}

fn head(document: &Document) -> String {
    let mut text = format!(
        "{} packets of {} flows, a second of traffic, in {:.1} s. The link lost {} of them.\n",
        output::grouped(document.packets),
        output::grouped(document.flows),
        document.seconds,
        output::grouped(document.lost_packets),
    );
    text += &match document.switched_packets_per_second {
        Some(rate) => format!("The switches took in {:.1} M packets/s on one core", rate / 1e6),
        None => "This is a build for testing, which is slow".into(),
    };
    text + match document.build.profile {
        "demo" => " (the demo's build; make build optimises further).",
        _ => ".",
    }
}

fn losses_page(losses: &Lost) -> Page {
    let Lost { program, memory_bytes, score, incomplete, flows } = losses;
    let row =
        |flow: &LostFlow| row![flow.name.to_string(), flow.lost_packets, flow.true_lost_packets, flow.true_packets];
    let says = if incomplete.is_empty() { "says that these are all" } else { "does not call these all" };
    let text = format!(
        "{program}, {} KB of registers a switch, names {} of the {} flows that lost packets,\n\
         {} of them with the exact number, and {} others. It {says}. The {} that lost most:",
        output::grouped(memory_bytes / 1000),
        output::grouped(score.right_flows),
        output::grouped(score.true_flows),
        output::grouped(score.exact_flows),
        output::grouped(score.wrong_flows),
        flows.len(),
    );
    let columns = ["flow", ">lost packets", ">true|true_lost_packets", ">of|true_packets"];
    Page::default().text(text).table("losses", Table::new(columns, flows.iter().map(row)))
}

fn heavy_page(heavy: &HeavyFlows) -> Page {
    let HeavyFlows { program, memory_bytes, unit, flows, score } = heavy;
    let text = format!(
        "{program}, {} KB of registers a switch, names {} of the {} heaviest of {} flows:",
        output::grouped(memory_bytes / 1000),
        output::percent(score.recall),
        score.k,
        output::grouped(score.flows as u64),
    );
    Page::default().text(text).table("heavy", heavy_table(flows, *unit))
}

fn balance_page(document: &Document) -> Page {
    let switch = |Switch { name, counts }: &Switch| {
        row![
            format!("switch {name}"),
            counts.rx_packets + counts.copied_packets,
            counts.tx_packets,
            counts.dropped_packets(),
        ]
    };
    let link = |link: &Link| {
        row![format!("link {} → {}", link.from, link.to), link.sent_packets, link.delivered_packets, link.lost_packets,]
    };
    let rows = document.switches.iter().map(switch).chain(document.links.iter().map(link));
    let columns = ["where", ">in|in_packets", ">out|out_packets", ">dropped or lost|lost_packets"];
    let sum = format!(
        "Every packet is accounted for: sent {} = delivered {} + lost {}.",
        output::grouped(document.packets),
        output::grouped(document.delivered_packets),
        output::grouped(document.lost_packets),
    );
    Page::default().text(sum).table("balance", Table::new(columns, rows))
}

const NEXT: &str = "
What next:
  weir replay FILE.pcap --score    your own capture through the same dataplane, beside exact counts
  weir sim                         a network of ten switches, over several epochs
  weir budget                      what the pipeline takes of a switch ASIC, stage by stage
  weir doctor                      what this machine lacks for live ports (make build, README.md)";
