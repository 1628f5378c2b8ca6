//! The demo's second network: switches in a row, of which one stands still for a while, where a program
//! finds that packets went and waited, and how many another one counts on a path.

use std::sync::Arc;

use serde::Serialize;

use super::{Failure, MILLISECOND};
use crate::answers::{
    Bounded, ByRoute, Certainty, Claimed, FlowLatency, FlowName, FlowPath, Frequency, Latency, NamedFlows, Paths,
    Query, Task, Unit, latency_table,
};
use crate::cli::output::{self, Page, time};
use crate::history::Window;
use crate::program::ProgramConfig;
use crate::sim::fault::SwitchName;
use crate::sim::{Fault, Setup, Shape, Simulation};
use crate::trace::Workload;
use crate::wire::FlowKey;

const SWITCHES: u32 = 5;
/// The switch that stands still, when, and for how long, in nanoseconds.
const SLOW: &str = "s2";
const AT: u64 = 100 * MILLISECOND;
const STANDS: u64 = 50 * MILLISECOND;
/// Both ways together. A simulated controller keeps 16 flows.
const FLOWS: u32 = 12;
const PACKETS: u64 = 12_000;

/// The paths of the flows, and the latencies of the one with the most packets.
#[derive(Serialize)]
pub struct Hops {
    program: String,
    flows: u64,
    /// Flows whose path the program names, and of these the ones with the true path.
    named_flows: u64,
    right_flows: u64,
    slow_switch: &'static str,
    /// The time for which it stood still.
    slow_ns: u64,
    #[serde(flatten)]
    latency: FlowLatency,
    /// Of the same flow; null where no program counts a flow by its path.
    counted: Option<Counted>,
}

/// The count of a flow, of a program that needs the flow's path for it.
#[derive(Serialize)]
struct Counted {
    program: String,
    memory_bytes: u64,
    #[serde(flatten)]
    count: Frequency,
}

impl Counted {
    /// What the first of these programs that needs paths says, with those that another one answers.
    fn of(programs: &[ProgramConfig], simulation: &Simulation, flow: &FlowName) -> Option<Self> {
        let histories = simulation.histories();
        let (program, history) = programs.iter().zip(&histories).find(|(_, history)| history.needs_routes())?;
        let flow = flow.flow()?.to_string().parse().ok()?;
        let query = Query { flow: Some(flow), ..Query::new(Task::Frequency, Window::All) };
        let routes = NamedFlows::among(&histories, &query);
        let query = Query { routes: Some(ByRoute::new(Arc::new(routes))), ..query };
        let found: Claimed<Frequency> = history.answer(&query).ok()?;
        let mut exact = program.exact();
        for flow in &simulation.network().generation(0).flows {
            exact.flow(&flow.tuple.flow(), flow.sent.into(), flow.sent_bytes);
        }
        let count = Frequency::clone(&found).scored(&query, &*exact);
        Some(Self { program: program.name().into(), memory_bytes: super::memory(program)?, count })
    }

    fn text(&self) -> String {
        let Self { program, memory_bytes, count } = self;
        let unit = if count.bytes.is_some() { Unit::Bytes } else { Unit::Packets };
        let Bounded { estimate, truth, .. } = count.count();
        format!(
            "{program}, {} KB of registers in each of these switches, counts {} {} of that flow along its\n\
             path; {} were sent.",
            output::grouped(memory_bytes / 1000),
            output::grouped(estimate),
            unit.name(),
            output::grouped(truth.unwrap_or_default()),
        )
    }
}

impl Hops {
    /// What the first of these programs that answers both tasks says, in a network that is like
    /// `first` otherwise; `None` when none does.
    pub fn of(programs: Vec<ProgramConfig>, first: &Setup) -> Result<Option<Self>, Failure> {
        let answers =
            |program: &ProgramConfig| [Task::Paths, Task::Latency].iter().all(|task| program.rank(*task).is_some());
        let Some(number) = programs.iter().position(answers) else { return Ok(None) };
        let workload = "isp/uniform".parse::<Workload>().map_err(Failure::failed)?;
        let setup = Setup {
            topology: Shape::Line { switches: SWITCHES }.build().map_err(Failure::failed)?,
            programs: programs.clone(),
            workload: Workload { flows: FLOWS, packets: PACKETS, seed: first.workload.seed, ..workload },
            losses: Vec::new(),
            transport: None,
            faults: vec![Fault::Pause { switch: SwitchName::One(SLOW.into()), at: AT, length: STANDS }],
            ..first.clone()
        };
        let mut simulation = Simulation::new(&setup).map_err(Failure::failed)?;
        simulation.epoch(&setup.workload, None);
        let reports = simulation.finish();
        let Some((report, answers)) = reports.first().zip(simulation.answers(number, 0)) else { return Ok(None) };
        let (paths, latency) = (answers.answer::<Paths>(usize::MAX), answers.answer::<Latency>(1));
        let Some((paths, latency)) = paths.zip(latency) else { return Ok(None) };
        let named = paths.paths.iter().filter(|path| path.certainty > Certainty::Undecided);
        let right = named.clone().filter(|path| is_true(path, setup.topology.switches()));
        let Some(first) = latency.latencies.first() else { return Ok(None) };
        Ok(Some(Self {
            program: answers.program.name().into(),
            flows: report.flows,
            named_flows: named.count() as u64,
            right_flows: right.count() as u64,
            slow_switch: SLOW,
            slow_ns: STANDS,
            counted: Counted::of(&programs, &simulation, &first.name),
            latency: first.clone(),
        }))
    }

    pub fn page(&self) -> Page {
        let Self { program, flows, named_flows, right_flows, slow_switch, slow_ns, latency, counted } = self;
        let text = format!(
            "{program}, in a second network of {SWITCHES} switches in a row, names the path of {named_flows} of the {flows} flows,\n\
             {right_flows} of them with the true switches. {slow_switch} stood still for {}: in each switch packets took",
            time(*slow_ns),
        );
        let counted = counted.as_ref().map(Counted::text).unwrap_or_default();
        Page::default().text(text).table("latency", latency_table(std::slice::from_ref(latency))).text(counted)
    }
}

/// Whether these are the switches of the row up to the one where the flow leaves: the first one or
/// the last.
fn is_true(path: &FlowPath, row: &[String]) -> bool {
    let found = path.switches.iter().map(|name| name.as_deref().unwrap_or_default());
    let row = row.iter().map(String::as_str);
    if row.clone().next() == Some(&*path.sink) { found.eq(row.rev()) } else { found.eq(row) }
}
