//! The demo's second network: switches in a row, of which one stands still for a while, and where a
//! program finds that packets went and waited.

use serde::Serialize;

use super::{Failure, MILLISECOND, in_a_row};
use crate::answers::{Certainty, FlowLatency, FlowPath, Latency, Paths, Task, latency_table};
use crate::cli::output::Page;
use crate::cli::output::time;
use crate::program::ProgramConfig;
use crate::sim::fault::SwitchName;
use crate::sim::{Fault, Setup, Simulation};

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
}

impl Hops {
    /// What the first of these programs that answers both tasks says, in a network that is like
    /// `first` otherwise; `None` when none does.
    pub fn of(programs: Vec<ProgramConfig>, first: &Setup) -> Result<Option<Self>, Failure> {
        let answers =
            |program: &ProgramConfig| [Task::Paths, Task::Latency].iter().all(|task| program.rank(*task).is_some());
        let Some(program) = programs.into_iter().find(answers) else { return Ok(None) };
        let faults = vec![Fault::Pause { switch: SwitchName::One(SLOW.into()), at: AT, length: STANDS }];
        let setup = Setup { faults, ..in_a_row(SWITCHES, &program, (FLOWS, PACKETS), first)? };
        let mut simulation = Simulation::new(&setup).map_err(Failure::failed)?;
        simulation.epoch(&setup.workload, None);
        let reports = simulation.finish();
        let Some((report, answers)) = reports.first().zip(simulation.answers(0, 0)) else { return Ok(None) };
        let (paths, latency) = (answers.answer::<Paths>(usize::MAX), answers.answer::<Latency>(1));
        let Some((paths, latency)) = paths.zip(latency) else { return Ok(None) };
        let named = paths.paths.iter().filter(|path| path.certainty > Certainty::Undecided);
        let right = named.clone().filter(|path| is_true(path, setup.topology.switches()));
        let Some(first) = latency.latencies.first() else { return Ok(None) };
        Ok(Some(Self {
            program: program.name().into(),
            flows: report.flows,
            named_flows: named.count() as u64,
            right_flows: right.count() as u64,
            slow_switch: SLOW,
            slow_ns: STANDS,
            latency: first.clone(),
        }))
    }

    pub fn page(&self) -> Page {
        let Self { program, flows, named_flows, right_flows, slow_switch, slow_ns, latency } = self;
        let text = format!(
            "{program}, in a second network of {SWITCHES} switches in a row, names the path of {named_flows} of the {flows} flows,\n\
             {right_flows} of them with the true switches. {slow_switch} stood still for {}: in each switch packets took",
            time(*slow_ns),
        );
        Page::default().text(text).table("latency", latency_table(std::slice::from_ref(latency)))
    }
}

/// Whether these are the switches of the row up to the one where the flow leaves: the first one or
/// the last.
fn is_true(path: &FlowPath, row: &[String]) -> bool {
    let found = path.switches.iter().map(|name| name.as_deref().unwrap_or_default());
    let row = row.iter().map(String::as_str);
    if row.clone().next() == Some(&*path.sink) { found.eq(row.rev()) } else { found.eq(row) }
}
