//! A program's answers for a run that has an end, with exact counts beside them on request.

use std::collections::BTreeMap;

use serde::Serialize;

use super::output::{self, Cell, Page, Table, row};
use super::{Failure, claim, latency, loops, paths, utilisation, values};
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

    fn title(&self) -> String {
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

    /// The flows, what else the program of this name says, and what all of it claims.
    pub fn page(&self, program: &str) -> Page {
        let claims: Vec<_> = self.claims.iter().map(|(task, of)| claim::text(of, claim::all_of(*task))).collect();
        // Tasks about the same flows lack the same.
        let mut claims: Vec<_> = claims.iter().map(String::as_str).collect();
        claims.dedup();
        let title = format!("{program}: {}", self.title());
        let page = self.tables(&title).text(claims.join("\n"));
        let score = self.score.iter().fold(Page::default(), |page, score| page.table("score", score_table(score)));
        page.and(score).of(program)
    }

    /// The tables, with a title above the first.
    fn tables(&self, title: &str) -> Page {
        let mut page = Page::default().text(title);
        let mut is_alone = true;
        let mut add = |name: &str, table: Table, none: &str| {
            is_alone = false;
            let none = if table.is_empty() { none } else { "" };
            page = std::mem::take(&mut page).table(name, table).text(none);
        };
        let titled = |query: &Option<String>, largest: String, table: Table| match query {
            Some(query) => table.titled(format!("{query}{largest}")),
            None => table,
        };
        if let Some(found) = &self.paths {
            add("paths", paths::paths_table(found), "");
        }
        if let Some(found) = &self.latencies {
            let largest = latency::largest_text(self.latency_largest_ns, found);
            add("latency", titled(&self.latency_query, largest, latency::latency_table(found)), "");
        }
        if let Some(found) = &self.loops {
            add("loops", loops::loops_table(found), "no packet came back to a switch");
        }
        if let Some(found) = &self.utilisations {
            let largest = utilisation::largest_text(self.utilisation_largest, found);
            add("utilisation", titled(&self.utilisation_query, largest, utilisation::utilisation_table(found)), "");
        }
        if !is_alone || !self.values.is_empty() {
            return page.and(values::values_page(&self.values));
        }
        let digests = output::digests(self.heavy.iter().map(|heavy| &heavy.name));
        let page = page.table("heavy", output::heavy_table(&self.heavy, self.unit)).text(digests);
        match &self.flows {
            None => page,
            Some(flows) => page.table("estimates", estimates_table(flows)),
        }
    }
}

fn estimates_table(flows: &Flows) -> Table {
    let number = |n: Option<f64>, digits| Cell::or("too many to tell", n.map(|n| Cell::number(n, digits)));
    let error = |estimate: Option<f64>, truth: Option<f64>| match (estimate, truth) {
        (Some(estimate), Some(truth)) if truth != 0.0 => Cell::share((estimate - truth).abs() / truth),
        _ => Cell::default(),
    };
    let true_flows = flows.true_flows.map(|n| n as f64);
    // Text beside a number, which is no error in CSV.
    let said = |text: &str| Cell::new(text, "");
    let complete = |complete: bool| said(if complete { "all" } else { "not all" });
    let heavy = match flows.heavy_complete {
        true => said(&format!("all of {} packets or more", output::grouped(flows.heavy_min_packets))),
        false => complete(false),
    };
    let entropy = error(flows.entropy_bits, flows.true_entropy_bits);
    let of = |text: &str, name: &str| Cell::new(text, name);
    let mut rows = vec![
        row![of("flows", "flows"), number(flows.flows, 0), error(flows.flows, true_flows)],
        row![of("entropy of flow sizes, bits", "entropy_bits"), number(flows.entropy_bits, 4), entropy],
        row![of("heavy candidates", "heavy_candidates"), flows.heavy_candidates, heavy],
        row![of("flows with losses", "flows_with_losses"), flows.losses.len(), complete(flows.losses_complete)],
        row![of("lost packets", "lost_packets"), flows.lost_packets, complete(flows.losses_complete)],
    ];
    if flows.gained_packets > 0 {
        rows.push(row![of("gained packets", "gained_packets"), flows.gained_packets, ""]);
    }
    let wmre = flows.distribution_wmre.map(Cell::share);
    let told = if flows.distribution.is_empty() { "too many to tell" } else { "" };
    if wmre.is_some() || !told.is_empty() {
        rows.push(row![of("distribution of flow sizes", "distribution"), said(told), Cell::or("", wmre)]);
    }
    Table::new(["estimate", ">value", ">error|error_share"], rows)
}

/// How near the heavy flows are to the truth.
fn score_table(score: &Score) -> Table {
    let row = |name: &str, value: f64| row![Cell::new(name, name.replace(' ', "_")), Cell::share(value)];
    let (k, flows) = (output::grouped(score.k as u64), output::grouped(score.flows as u64));
    Table::new(
        [&format!("top {k} of {flows} flows|score"), ">share"],
        [
            row("precision", score.precision),
            row("recall", score.recall),
            row("false negatives", score.false_negatives),
            row("false positives", score.false_positives),
            row("average relative error", score.average_relative_error),
        ],
    )
}
