//! A program's answers about a run that has an end, with exact counts beside them on request.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Failure;
use super::output::{self, Cell, Page, Table, row};
use crate::answers::{
    ByRoute, Claim, Claimed, CountedFlow, CountedFrom, Distribution, Document, Exact, FlowLatency, FlowLoop, FlowPath,
    FlowSizes, FlowUtilisation, Frequency, HeavyFlow, HeavyFlows, Latency, Loops, Losses, Numbers, Paths, Query,
    Queryable, Score, SizeClass, Task, Unit, Unresolved, Utilisation, Value, Values, digests, frequency_table,
    heavy_table, latency_table, loops_table, paths_table, score, utilisation_table,
};
use crate::history::{Reason, Reasons, Window};
use crate::program::ProgramConfig;
use crate::wire::Pattern;

/// One program's part of a report.
#[derive(Default, Serialize)]
pub struct Measured {
    pub unit: Unit,
    /// What is claimed of the answer to each task.
    pub claims: BTreeMap<Task, Claim>,
    pub heavy: Vec<HeavyFlow>,
    #[serde(flatten)]
    pub unresolved: Unresolved,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// The counts that were asked for, of programs that have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<Claimed<Frequency>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// `None` for programs that do not find paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<FlowPath>>,
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

/// What a program says about the number of flows and their sizes, with the truth beside it where
/// that is known.
#[derive(Default, Serialize)]
pub struct Flows {
    /// Number of flows; null when there are too many to estimate.
    pub flows: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub true_flows: Option<u64>,
    pub entropy_bits: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub true_entropy_bits: Option<f64>,
    /// Flows by size.
    pub distribution: Vec<SizeClass>,
    /// Weighted mean relative error of the distribution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution_wmre: Option<f64>,
    /// Heavy flows that were found, and whether every flow of at least `heavy_min_packets` is
    /// among them.
    pub heavy_candidates: u64,
    pub heavy_complete: bool,
    pub heavy_min_packets: u64,
    /// Flows with more packets entered than left, and flows with more packets left than entered.
    pub losses: Vec<CountedFlow>,
    pub gains: Vec<CountedFlow>,
    /// Measured packets that entered and did not leave, and that left and did not enter.
    pub lost_packets: u64,
    pub gained_packets: u64,
    /// Whether these are all losses, and why not.
    pub losses_complete: bool,
    pub losses_incomplete: Reasons,
}

impl Flows {
    fn new(sizes: &Claimed<FlowSizes>, losses: &Claimed<Losses>, exact: Option<&dyn Exact>) -> Self {
        let truth = exact.map(|exact| Distribution::of_sizes(exact.counts().values().copied()));
        let told = Distribution(sizes.distribution.iter().map(|class| (class.packets, class.flows)).collect());
        let error = |truth: &Distribution| told.error(&truth.rounded());
        Self {
            flows: sizes.flows,
            true_flows: exact.map(|exact| exact.counts().len() as u64),
            entropy_bits: sizes.entropy_bits,
            true_entropy_bits: truth.as_ref().map(Distribution::entropy_bits),
            distribution: sizes.distribution.clone(),
            distribution_wmre: truth.as_ref().filter(|_| !told.0.is_empty()).map(error),
            heavy_candidates: sizes.heavy_candidates,
            heavy_complete: sizes.claim.incomplete.clone().without(Reason::BelowThreshold).is_empty(),
            heavy_min_packets: sizes.named_from_packets,
            losses: losses.losses.clone(),
            gains: losses.gains.clone(),
            lost_packets: losses.lost_packets,
            gained_packets: losses.gained_packets,
            losses_complete: losses.claim.complete,
            losses_incomplete: losses.claim.incomplete.clone(),
        }
    }
}

impl Measured {
    /// The answers of a program about all epochs, with at most `top` flows of each kind, and the
    /// counts of the flows that match each pattern. `routes` are those of other programs, for a program
    /// that needs them. `exact` has the exact counts that the heaviest flows are scored with.
    pub fn new(
        history: &dyn Queryable,
        routes: Option<ByRoute>,
        top: usize,
        flows: &[Pattern],
        exact: Option<&dyn Exact>,
    ) -> Self {
        let mut measured = Self::default();
        let about = |flow: &Pattern| {
            let routes = routes.clone();
            Query { flow: Some(*flow), routes, ..Query::new(Task::Frequency, Window::All) }
        };
        for query in flows.iter().map(about) {
            let Ok(found) = history.answer::<Frequency>(&query) else { break };
            measured.unit = if found.bytes.is_some() { Unit::Bytes } else { Unit::Packets };
            measured.frequencies.push(match exact {
                Some(exact) => found.map(|found| found.scored(&query, exact)),
                None => found,
            });
        }
        let asking = Asking { history, routes: routes.clone(), top };
        if let Some(heavy) = measured.claimed::<HeavyFlows>(&asking, |_| true) {
            measured.unit = heavy.unit;
            (measured.heavy, measured.unresolved) = (heavy.heavy.clone(), heavy.unresolved);
            if let Some(exact) = exact {
                let truth = exact.counts();
                let count = |heavy: &HeavyFlow| heavy.name.flow().and_then(|flow| truth.get(&flow).copied());
                // A digest that names no flow has no truth.
                measured.heavy.iter_mut().filter(|heavy| heavy.name.digest32().is_none()).for_each(|heavy| {
                    *heavy = heavy.clone().with_truth(count(heavy).unwrap_or_default());
                });
                let report: Vec<_> = heavy.counts().collect();
                measured.score = Some(score(&report, truth, top, CountedFrom::Parsed));
            }
        }
        let sizes = measured.claimed::<FlowSizes>(&asking, |_| true);
        measured.claimed::<Numbers>(&asking, |_| true);
        let losses = measured.claimed::<Losses>(&asking, |_| true);
        measured.flows = sizes.zip(losses).map(|(sizes, losses)| Flows::new(&sizes, &losses, exact));
        measured.paths = measured.claimed::<Paths>(&asking, |paths| paths.asked).map(|found| found.paths.clone());
        if let Some(found) = measured.claimed::<Latency>(&asking, |found| found.query.is_some()) {
            measured.latencies = Some(found.latencies.clone());
            (measured.latency_query, measured.latency_largest_ns) = (found.query.clone(), found.largest_ns);
        }
        measured.loops = measured.claimed::<Loops>(&asking, |found| found.asked).map(|found| found.loops.clone());
        if let Some(found) = measured.claimed::<Utilisation>(&asking, |found| found.query.is_some()) {
            measured.utilisations = Some(found.utilisations.clone());
            (measured.utilisation_query, measured.utilisation_largest) = (found.query.clone(), found.largest);
        }
        let values = measured.claimed::<Values>(&asking, |found| !found.values.is_empty());
        measured.values = values.map(|found| found.values.clone()).unwrap_or_default();
        measured
    }

    /// The answer to a task, whose claim is noted; `None` if the program does not answer it, or
    /// nothing asked its packets for it.
    fn claimed<A: Document>(&mut self, asking: &Asking<'_>, is_asked: impl Fn(&A) -> bool) -> Option<Claimed<A>> {
        let routes = asking.routes.clone();
        let query = Query { routes, ..Query::new(A::TASK, Window::All).limited(asking.top, 1) };
        let answer: Claimed<A> = asking.history.ask(&query).ok()?.into_document()?;
        if answer.claim.last_epoch.is_some() && !is_asked(&answer) {
            return None;
        }
        self.claims.insert(A::TASK, answer.claim.clone());
        is_asked(&answer).then_some(answer)
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
            // A program whose tasks are about a network alone.
            [] if self.claims.is_empty() && self.frequencies.is_empty() => {
                "nothing to show of a capture by itself; weir sim and weir controller ask it about a network".into()
            }
            [] => "the heaviest flows".into(),
            [only] => format!("the {only} of flows"),
            [first @ .., last] => format!("the {} and {last} of flows", first.join(", ")),
        }
    }

    /// The flows, what else the program of this name says, and what all of it claims.
    pub fn page(&self, program: &str) -> Page {
        let claims: Vec<_> = self.claims.iter().map(|(task, of)| of.text(task.all())).collect();
        // Tasks about the same flows lack the same.
        let mut claims: Vec<_> = claims.iter().map(String::as_str).collect();
        claims.dedup();
        let counted: Vec<_> = self.frequencies.iter().map(|found| Frequency::claimed(found, &found.flow)).collect();
        let title = format!("{program}: {}", self.title());
        let page = self.tables(&title).text(claims.join("\n")).text(counted.join("\n"));
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
            add("paths", paths_table(found), "");
        }
        if let Some(latencies) = &self.latencies {
            let all =
                Latency { latencies: latencies.clone(), largest_ns: self.latency_largest_ns, ..Latency::default() };
            add("latency", titled(&self.latency_query, all.largest_text(), latency_table(latencies)), "");
        }
        if let Some(found) = &self.loops {
            add("loops", loops_table(found), "no packet came back to a switch");
        }
        if let Some(utilisations) = &self.utilisations {
            let largest = self.utilisation_largest;
            let all = Utilisation { utilisations: utilisations.clone(), largest, ..Utilisation::default() };
            let table = utilisation_table(utilisations);
            add("utilisation", titled(&self.utilisation_query, all.largest_text(), table), "");
        }
        if !is_alone || !self.values.is_empty() {
            return page.and(Values { values: self.values.clone() }.tables());
        }
        let digests = output::lines([digests(self.heavy.iter().map(|heavy| &heavy.name)), self.unresolved.text()]);
        let page = page.table("heavy", heavy_table(&self.heavy, self.unit)).text(digests);
        let page = match self.frequencies[..] {
            [] => page,
            ref asked => page.table("frequency", frequency_table(asked.iter().map(|found| &**found))),
        };
        match &self.flows {
            None => page,
            Some(flows) => page.table("estimates", estimates_table(flows)),
        }
    }
}

/// Checks that a program counts packets of flows, where `--frequency` asks for some.
pub fn answer_frequencies(flows: &[Pattern], programs: &[ProgramConfig]) -> Result<(), Failure> {
    match !flows.is_empty() && programs.iter().all(|program| program.rank(Task::Frequency).is_none()) {
        true => Err(Failure::Usage("--frequency: no program counts packets of flows".into())),
        false => Ok(()),
    }
}

/// A history, and the number of flows that it is to name.
struct Asking<'a> {
    history: &'a dyn Queryable,
    routes: Option<ByRoute>,
    top: usize,
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
