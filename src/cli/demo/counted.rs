//! The demo's third network: switches in a row, each with little memory, and the counts of some flows that
//! a program makes of all of them, beside what was sent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::{Failure, in_a_row, memory};
use crate::answers::{Claimed, Frequency, Heavy, HeavyFlows, Query, Task, Unit};
use crate::cli::output::{Page, grouped};
use crate::history::Window;
use crate::program::ProgramConfig;
use crate::sim::{Setup, Simulation};
use crate::wire::FlowKey;

const SWITCHES: u32 = 5;
/// Epochs with other flows each. The last one is asked about: by then switches that adapt to their
/// traffic have done so once.
const EPOCHS: u64 = 3;
const FLOWS: u32 = 2000;
const PACKETS: u64 = 40_000;
/// Settings for little memory, the same in all switches, where the program has them.
const SMALL: &str = "memory=7KB,max_sub_epochs=1";
/// Flows that are shown, by their place among the largest.
const PLACES: [u32; 3] = [1, 10, 100];

/// Counts of single flows.
#[derive(Serialize)]
pub struct CountedFlows {
    program: String,
    /// Registers of each switch.
    memory_bytes: u64,
    switches: u32,
    flows: u64,
    counts: Vec<CountedFlow>,
    /// Mean difference between the number that is answered for a flow and the one that was sent, of all
    /// flows.
    mean_error: f64,
}

#[derive(Serialize)]
struct CountedFlow {
    /// From 1, the largest.
    place: u32,
    #[serde(flatten)]
    count: Frequency,
}

/// The program with little memory.
pub fn with_little_memory(program: &ProgramConfig) -> ProgramConfig {
    program.with(SMALL).unwrap_or_else(|_| program.clone())
}

impl CountedFlows {
    /// What this program says in a network that is like `first` otherwise; `None` when it counts no single
    /// flows.
    pub fn of(program: ProgramConfig, first: &Setup) -> Result<Option<Self>, Failure> {
        let setup = in_a_row(SWITCHES, &program, (FLOWS, PACKETS), first)?;
        let mut simulation = Simulation::new(&setup).map_err(Failure::failed)?;
        (0..EPOCHS).for_each(|_| drop(simulation.epoch(&setup.workload, None)));
        simulation.finish();
        let Some(answers) = simulation.newest(0) else { return Ok(None) };
        let (network, mut exact) = (simulation.network(), program.exact());
        let truth = network.generation(EPOCHS - 1);
        truth.flows.iter().for_each(|flow| exact.flow(&flow.tuple.flow(), flow.sent.into(), flow.sent_bytes));
        let answers = answers.with_routes(truth, || network.routes(), &[]);
        let mut sent: Vec<_> = exact.counts().iter().map(|(flow, count)| (*flow, *count)).collect();
        sent.sort_by_key(|(flow, count)| (Reverse(*count), *flow));

        let ask = |place: u32| -> Option<CountedFlow> {
            let flow = sent.get(place as usize - 1)?.0.to_string().parse().ok()?;
            let window = Window::Epoch(answers.epoch);
            let query =
                Query { flow: Some(flow), routes: answers.routes.clone(), ..Query::new(Task::Frequency, window) };
            let count: Claimed<Frequency> = answers.history.answer(&query).ok()?;
            Some(CountedFlow { place, count: Frequency::clone(&count).scored(&query, &*exact) })
        };
        let counts: Option<Vec<_>> = PLACES.into_iter().map(ask).collect();
        let all: Option<Claimed<HeavyFlows>> = answers.answer(usize::MAX);
        let Some(((counts, all), memory_bytes)) = counts.zip(all).zip(memory(&program)) else { return Ok(None) };
        let found: BTreeMap<_, _> = all.counts().map(|Heavy { flow, count }| (flow, count)).collect();
        let error = |(flow, count): &(_, u64)| found.get(flow).copied().unwrap_or(0).abs_diff(*count) as f64;
        Ok(Some(Self {
            program: program.name().into(),
            memory_bytes,
            switches: SWITCHES,
            flows: sent.len() as u64,
            counts,
            mean_error: sent.iter().map(error).sum::<f64>() / sent.len().max(1) as f64,
        }))
    }

    pub fn page(&self) -> Page {
        let Self { program, memory_bytes, switches, flows, counts, mean_error } = self;
        let is_bytes = counts.iter().any(|flow| flow.count.bytes.is_some());
        let unit = if is_bytes { Unit::Bytes } else { Unit::Packets };
        let of = |CountedFlow { place, count }: &CountedFlow| {
            let [found, sent] = [count.count().estimate, count.count().truth.unwrap_or_default()].map(grouped);
            if *place == 1 {
                format!("{found} {} of the largest (true: {sent})", unit.name())
            } else {
                format!("{found} of the {place}th ({sent})")
            }
        };
        Page::default().text(format!(
            "{program}, {} KB of registers in each of {switches} switches of a third network, counts any of {} flows:\n\
             {}; mean error {mean_error:.0}.",
            grouped(memory_bytes / 1000),
            grouped(*flows),
            counts.iter().map(of).collect::<Vec<_>>().join(", "),
        ))
    }
}
