//! A program's answers in a simulation beside the truth: a row for each epoch.

use super::super::output::{Cell, Page, Table, row};
use crate::answers::{self, Claimed, Frequency, Score};
use crate::history::Reasons;
use crate::sim::report::{
    LatencyCounts, LoopCounts, LossReport, LossScore, PathCounts, PlaceScore, UtilisationCounts, ValueCounts,
};
use crate::sim::{EpochReport, ProgramReport};

/// Whether a program answers a task, its columns, and the cells of an epoch.
type Answered = (bool, &'static [&'static str], fn(&ProgramReport) -> Vec<Cell>);

/// The tasks that the program answers, beside the truth.
pub fn table(reports: &[(&EpochReport, &ProgramReport)]) -> Table {
    let any = |is_there: fn(&ProgramReport) -> bool| reports.iter().any(|(_, report)| is_there(report));
    // All epochs have the values of the first that has some, or none.
    let values: Vec<_> =
        reports.iter().map(|(_, report)| &report.values).find(|of| !of.is_empty()).into_iter().flatten().collect();
    let tasks: [Answered; 7] = [
        (any(|report| report.losses.is_some()), &LOSSES, losses_row),
        (any(|report| report.places.is_some()), &PLACES, places_row),
        (any(|report| report.paths.is_some()), &PATHS, paths_row),
        (any(|report| report.score.is_some()), &HEAVY, heavy_row),
        (any(|report| report.latency.is_some()), &LATENCY, latency_row),
        (any(|report| report.loops.is_some()), &LOOPS, loops_row),
        (any(|report| report.utilisation.is_some()), &UTILISATION, utilisation_row),
    ];
    let tasks: Vec<_> = tasks.into_iter().filter(|(is_there, ..)| *is_there).collect();
    let sizes = any(|report| report.flows.is_some() || report.distribution_wmre.is_some());
    let mut columns = vec![">epoch".to_owned()];
    columns.extend(tasks.iter().flat_map(|(_, columns, _)| *columns).map(|column| (*column).to_owned()));
    columns.extend(values.iter().flat_map(|of| value_columns(of, &values)));
    columns.extend(SIZES.iter().filter(|_| sizes).map(|column| (*column).to_owned()));
    let row = |(epoch, report): &(&EpochReport, &ProgramReport)| {
        let mut row = row![Cell::plain(epoch.epoch)];
        row.extend(tasks.iter().flat_map(|(_, _, cells)| cells(report)));
        row.extend(values.iter().flat_map(|of| value_row(report, of)));
        row.extend(sizes_row(report).into_iter().filter(|_| sizes));
        row
    };
    Table::new(columns, reports.iter().map(row))
}

/// The counts of certain flows, epoch by epoch; nothing of a program that has none.
pub fn frequencies(program: &str, reports: &[(&EpochReport, &ProgramReport)]) -> Page {
    let found = || reports.iter().flat_map(|(epoch, report)| report.frequencies.iter().map(|of| (epoch.epoch, of)));
    let Some((_, first)) = found().next() else { return Page::default() };
    let row = |(epoch, frequency): (u64, &Claimed<Frequency>)| {
        let row = [row![Cell::plain(epoch)], frequency.row(), vec![said(&frequency.claim.incomplete)]];
        row.concat()
    };
    let columns = [vec![">epoch".to_owned()], Frequency::columns(Some(first)).into(), vec![SAYS.to_owned()]].concat();
    let doubt = found().map(|(_, frequency)| frequency.confidence_text()).find(|text| !text.is_empty());
    Page::default()
        .text(format!("{program}, the flows that were asked for:"))
        .table("frequency", Table::new(columns, found().map(row)))
        .text(doubt.unwrap_or_default())
}

const HEAVY: [&str; 4] = [">k", ">recall", ">precision", ">size error|size_error_share"];

fn heavy_row(report: &ProgramReport) -> Vec<Cell> {
    let share = |of: fn(&Score) -> f64| Cell::or("-", report.score.as_ref().map(|score| Cell::share(of(score))));
    let k = Cell::or("-", report.score.as_ref().map(|score| Cell::plain(score.k)));
    vec![k, share(|of| of.recall), share(|of| of.precision), share(|of| of.average_relative_error)]
}

const PLACES: [&str; 6] = [
    ">places|true_places",
    ">found|found_places",
    ">exact|exact_places",
    ">failed|failed_places",
    ">lost packets right|right_packets",
    SAYS,
];

fn places_row(report: &ProgramReport) -> Vec<Cell> {
    let Some(places) = &report.places else { return vec![Cell::default(); PLACES.len()] };
    let PlaceScore { true_places, found_places, exact_places, failed_places, right_packets, incomplete, .. } = places;
    row![*true_places, *found_places, *exact_places, *failed_places, *right_packets, said(incomplete)]
}

const PATHS: [&str; 6] = [
    ">flows out|flows_out",
    ">paths decided|decided_flows",
    ">sure|sure_flows",
    ">right|right_flows",
    ">wrong|wrong_flows",
    ">contradicted|contradicted_flows",
];

fn paths_row(report: &ProgramReport) -> Vec<Cell> {
    let PathCounts { flows, decided_flows, sure_flows, right_flows, wrong_flows, contradicted_flows, .. } =
        report.paths.unwrap_or_default();
    row![flows, decided_flows, sure_flows, right_flows, wrong_flows, contradicted_flows]
}

const LATENCY: [&str; 3] = [">latency samples", ">slowest hop, p99|slowest_hop_p99_ns", "at|slowest_switch"];

fn latency_row(report: &ProgramReport) -> Vec<Cell> {
    let LatencyCounts { samples, slowest_p99_ns, slowest_switch, .. } = report.latency.clone().unwrap_or_default();
    row![samples, Cell::or("-", slowest_p99_ns.map(Cell::ns)), Cell::or("-", slowest_switch.as_deref())]
}

const LOOPS: [&str; 2] = [">flows in loops", ">packets|packets_in_loops"];

fn loops_row(report: &ProgramReport) -> Vec<Cell> {
    let LoopCounts { flows, packets } = report.loops.unwrap_or_default();
    row![flows, packets]
}

const UTILISATION: [&str; 2] = [">packets of utilisation", ">busiest link|max_utilisation"];

fn utilisation_row(report: &ProgramReport) -> Vec<Cell> {
    let UtilisationCounts { packets, max_utilisation, .. } = report.utilisation.clone().unwrap_or_default();
    row![packets, Cell::or("-", max_utilisation.map(Cell::share))]
}

/// The columns of one of these values, by the shortest name that no other one has.
fn value_columns(of: &ValueCounts, all: &[&ValueCounts]) -> [String; 3] {
    let by_value = |of: &ValueCounts| of.value.to_owned();
    let by_aggregation = |of: &ValueCounts| {
        let flow = of.flow_definition.as_ref().map(|flow| format!(", flow={flow}"));
        format!("{}, {}{}", of.value, of.aggregation, flow.unwrap_or_default())
    };
    let is_alone =
        |name: &dyn Fn(&ValueCounts) -> String| all.iter().filter(|other| name(other) == name(of)).count() == 1;
    let name = match (is_alone(&by_value), is_alone(&by_aggregation)) {
        (true, _) => by_value(of),
        (false, true) => by_aggregation(of),
        (false, false) => of.query.clone(),
    };
    let csv: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    [
        format!(">packets of {name}|packets_{csv}"),
        format!(">largest p99|largest_p99_{csv}_{}", of.unit),
        format!("at|largest_switch_{csv}"),
    ]
}

/// The cells of an epoch for the query of these counts.
fn value_row(report: &ProgramReport, of: &ValueCounts) -> Vec<Cell> {
    let of_epoch = report.values.iter().find(|counts| counts.query == of.query);
    let Some(ValueCounts { unit, samples, largest_p99, largest_switch, .. }) = of_epoch else {
        return row![0u64, Cell::new("-", ""), Cell::new("-", "")];
    };
    let largest = largest_p99.map(|number| Cell::new(answers::number_text(unit, number), number));
    row![*samples, Cell::or("-", largest), Cell::or("-", largest_switch.as_deref())]
}

const SAYS: &str = "says|incomplete";
const LOSSES: [&str; 5] =
    [">victims|victim_flows", ">found|found_flows", ">exact|exact_flows", ">wrong|wrong_loss_flows", SAYS];

/// What a program says of an answer that lacks this.
fn said(incomplete: &Reasons) -> Cell {
    let lack = incomplete.iter().map(|reason| reason.name()).collect::<Vec<_>>();
    let says = if lack.is_empty() { "all".into() } else { format!("not all: {}", lack.join(", ")) };
    Cell::new(says, lack.join(" "))
}

fn losses_row(report: &ProgramReport) -> Vec<Cell> {
    let Some(LossReport { losses, incomplete }) = &report.losses else { return vec![Cell::default(); LOSSES.len()] };
    let of = |count: fn(&LossScore) -> u64| Cell::or("-", losses.as_ref().map(count));
    row![of(|l| l.true_flows), of(|l| l.right_flows), of(|l| l.exact_flows), of(|l| l.wrong_flows), said(incomplete),]
}

const SIZES: [&str; 3] =
    [">flows error|flows_error_share", ">entropy error|entropy_error_share", ">WMRE|distribution_wmre"];

fn sizes_row(report: &ProgramReport) -> Vec<Cell> {
    let error = |estimate: Option<f64>, truth: f64| match estimate {
        Some(estimate) if truth > 0.0 => Cell::share((estimate - truth).abs() / truth),
        _ => Cell::new("-", ""),
    };
    row![
        error(report.flows, report.true_flows as f64),
        error(report.entropy_bits, report.true_entropy_bits),
        Cell::or("-", report.distribution_wmre.map(|wmre| Cell::number(wmre, 3))),
    ]
}
