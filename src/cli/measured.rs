//! A program's answers for a run that has an end, with exact counts beside them on request.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Failure, claim, latency, loops, output, paths, utilisation, values};
use crate::api::flows::Flows;
use crate::api::view::{self, Claim, FlowLatency, FlowLoop, FlowUtilisation, HeavyFlow, Path, Value};
use crate::program::answers::{EpochAnswers, Task};
use crate::program::{Exact, Heavy, Unit};
use crate::telemetry::score::{CountedFrom, Score, score};
use crate::telemetry::{Answered, Run};
use crate::wire::Flow;

/// One program's part of a report.
#[derive(Serialize)]
pub struct Measured {
    pub unit: Unit,
    /// What is claimed of the answer to each task.
    pub claims: BTreeMap<Task, Claim>,
    pub heavy: Vec<HeavyFlow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// `None` for programs that do not find paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<Path>>,
    /// `None` for programs that do not measure latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latencies: Option<Vec<FlowLatency>>,
    /// The query in words that these are the answers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_query: Option<String>,
    /// This time, and any beyond it, may stand for longer ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_largest_ns: Option<u64>,
    /// `None` for programs that do not look for loops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loops: Option<Vec<FlowLoop>>,
    /// `None` for programs that do not measure utilisations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisations: Option<Vec<FlowUtilisation>>,
    /// The query in words that these are the answers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation_query: Option<String>,
    /// This utilisation, and any beyond it, may stand for larger ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation_largest: Option<f64>,
    /// Of programs that measure other values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
}

impl Measured {
    /// Reports the `top` heaviest flows of program number `number`, and scores the heaviest
    /// `scored`.
    pub fn new(
        number: usize,
        run: &Run,
        (top, scored): (usize, usize),
        exact: Option<&dyn Exact>,
    ) -> Result<Self, Failure> {
        let truth = exact.map(|exact| exact.counts());
        let Answered { epochs, tasks, distribution_wmre } =
            run.answers(number, truth, top.max(scored)).unwrap_or_default();
        let claimed = |task: &Task| {
            let document = view::document(*task, "", epochs.clone(), top, 1).map_err(Failure::failed)?;
            Ok((*task, document.claim))
        };
        let claims = tasks.iter().map(claimed).collect::<Result<_, Failure>>()?;
        let EpochAnswers { network, losses, losses_lack, paths, loops, values, .. } =
            &*epochs.epochs.first().cloned().unwrap_or_default();
        let flows = losses.as_ref().map(|losses| Flows::new(network, losses, losses_lack.clone()));
        let flows = flows.map(|flows| match truth {
            Some(truth) => flows.with_truth(truth, distribution_wmre),
            None => flows,
        });
        let of_task = |task| values.iter().find(|answers| answers.task == task);
        let [latency, utilisation] = [Task::Latency, Task::Utilisation].map(of_task);
        let [latency_query, utilisation_query] =
            [latency, utilisation].map(|found| found.map(|found| found.query.to_string()));
        let others = values.iter().filter(|answers| answers.task == Task::Values);
        let mut measured = Self {
            unit: network.unit,
            claims,
            heavy: network.heavy.iter().map(|flow| HeavyFlow::new(flow, network.unit)).collect(),
            score: None,
            flows,
            paths: paths.as_ref().map(|paths| paths.flows.iter().take(top).map(Path::from).collect()),
            latencies: latency.map(|found| found.flows.iter().take(top).map(FlowLatency::from).collect()),
            latency_query,
            latency_largest_ns: latency.and_then(|found| found.largest).map(|ns| ns as u64),
            loops: loops.as_ref().map(|loops| loops.flows.iter().take(top).map(FlowLoop::from).collect()),
            utilisations: utilisation
                .map(|found| found.flows.iter().take(top).filter_map(FlowUtilisation::new).collect()),
            utilisation_query,
            utilisation_largest: utilisation.and_then(|found| found.largest),
            values: others.map(|answers| Value::of(answers, top)).collect(),
        };
        if let Some(truth) = truth.filter(|_| tasks.contains(&Task::Heavy)) {
            let count = |flow: &Flow| truth.get(flow).copied().unwrap_or_default();
            measured.heavy = measured.heavy.into_iter().map(|h| h.clone().with_truth(count(&h.name.flow))).collect();
            let report = measured.heavy.iter().map(|h| Heavy { flow: h.name.flow, count: h.count() });
            measured.score = Some(score(&report.collect::<Vec<_>>(), truth, scored, CountedFrom::Parsed));
        }
        measured.heavy.truncate(top);
        Ok(measured)
    }

    /// The title above [`Self::text`].
    pub fn title(&self) -> String {
        let words = [
            self.paths.as_ref().map(|_| "paths"),
            self.latencies.as_ref().map(|_| "latencies"),
            self.loops.as_ref().map(|_| "loops"),
            self.utilisations.as_ref().map(|_| "busiest links"),
            (!self.values.is_empty()).then_some("values"),
        ];
        match &words.into_iter().flatten().collect::<Vec<_>>()[..] {
            [] => "the heaviest flows".into(),
            [only] => format!("the {only} of flows"),
            [first @ .., last] => format!("the {} and {last} of flows", first.join(", ")),
        }
    }

    /// The flows, what else the program says, and what all of it claims.
    pub fn text(&self) -> String {
        let claims: Vec<_> = self.claims.iter().map(|(task, of)| claim::text(of, claim::all_of(*task))).collect();
        // Tasks about the same flows lack the same.
        let mut claims: Vec<_> = claims.iter().map(String::as_str).collect();
        claims.dedup();
        [self.tables(), claims.join("\n")].join("\n\n").trim_end().to_owned()
    }

    fn tables(&self) -> String {
        let paths = self.paths.as_deref().map(paths::paths_table);
        let titled = |query: &Option<String>, largest: String, table: String| match query {
            Some(query) => format!("{query}{largest}\n{table}"),
            None => table,
        };
        let latencies = self.latencies.as_deref().map(|found| {
            let largest = latency::largest_text(self.latency_largest_ns, found);
            titled(&self.latency_query, largest, latency::latency_table(found))
        });
        let loops = self.loops.as_deref().map(|found| match found {
            [] => "no packet came back to a switch".into(),
            found => loops::loops_table(found),
        });
        let utilisations = self.utilisations.as_deref().map(|found| {
            let largest = utilisation::largest_text(self.utilisation_largest, found);
            titled(&self.utilisation_query, largest, utilisation::utilisation_table(found))
        });
        let values = (!self.values.is_empty()).then(|| values::values_tables(&self.values));
        let tables: Vec<_> = [paths, latencies, loops, utilisations, values].into_iter().flatten().collect();
        if !tables.is_empty() {
            return tables.join("\n\n");
        }
        let digests = output::digests(self.heavy.iter().map(|heavy| &heavy.name));
        let heavy = output::heavy_table(&self.heavy, self.unit) + &digests;
        match &self.flows {
            None => heavy,
            Some(flows) => format!("{heavy}\n\n{}", flows_text(flows)),
        }
    }
}

fn flows_text(flows: &Flows) -> String {
    let number = |n: Option<f64>, digits: usize| n.map_or("too many to tell".into(), |n| format!("{n:.digits$}"));
    let error = |estimate: Option<f64>, truth: Option<f64>| match (estimate, truth) {
        (Some(estimate), Some(truth)) if truth != 0.0 => output::percent((estimate - truth).abs() / truth),
        _ => String::new(),
    };
    let true_flows = flows.true_flows.map(|n| n as f64);
    let complete = |complete: bool| String::from(if complete { "all" } else { "not all" });
    let heavy = match flows.heavy_complete {
        true => format!("all of {} packets or more", output::grouped(flows.heavy_min_packets)),
        false => complete(false),
    };
    let mut rows = vec![
        ["flows".to_string(), number(flows.flows, 0), error(flows.flows, true_flows)],
        [
            "entropy of flow sizes, bits".to_string(),
            number(flows.entropy_bits, 4),
            error(flows.entropy_bits, flows.true_entropy_bits),
        ],
        ["heavy candidates".to_string(), flows.heavy_candidates.to_string(), heavy],
        ["flows with losses".to_string(), flows.losses.len().to_string(), complete(flows.losses_complete)],
        ["lost packets".to_string(), flows.lost_packets.to_string(), complete(flows.losses_complete)],
    ];
    if flows.gained_packets > 0 {
        rows.push(["gained packets".into(), flows.gained_packets.to_string(), String::new()]);
    }
    let wmre = flows.distribution_wmre.map(output::percent);
    let told = if flows.distribution.is_empty() { "too many to tell" } else { "" };
    if wmre.is_some() || !told.is_empty() {
        rows.push(["distribution of flow sizes".into(), told.into(), wmre.unwrap_or_default()]);
    }
    output::table(["estimate", ">", ">error"], rows)
}
