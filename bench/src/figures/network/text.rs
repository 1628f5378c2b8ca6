//! The comparison with the paper's text, for people.

use std::fmt::Write as _;

use super::runs::{PANELS, Point, Run, Sweep};
use super::{absorbed, cut, is_vl2, paper};
use weir::program::chamelemon::attention::State;

use crate::edges::EdgesReport;

pub fn of(runs: &[Run], scale: Option<u32>) -> String {
    let cut = cut(scale, runs.iter().any(is_vl2));
    let mut text = format!("In the simulated testbed; {cut}. Ranges are over seeds.\n");
    let alike =
        |a: &Run, b: &Run| (a.job.workload, a.job.order, a.job.sweep) == (b.job.workload, b.job.order, b.job.sweep);
    for seeds in runs.chunk_by(alike) {
        let job = seeds[0].job;
        let name = PANELS[job.workload][job.order];
        writeln!(text, "\n{name}, Figure {}, {} seeds:", 7 + job.sweep as u32, seeds.len())
            .expect("a string takes all");
        if job.sweep == Sweep::Time {
            time(&mut text, seeds);
        } else {
            (0..seeds[0].points.len()).for_each(|number| point(&mut text, seeds, number));
        }
    }
    text
}

/// Epochs until each change of Figure 9 is absorbed: how often after how many.
fn time(text: &mut String, seeds: &[Run]) {
    let of_seeds: Vec<_> = seeds.iter().map(|run| absorbed(&run.points)).collect();
    let changes = of_seeds.iter().map(Vec::len).max().unwrap_or(0);
    let range = |change: usize| {
        let epochs = of_seeds.iter().map(|changes| changes.get(change).copied().flatten());
        let epochs: Option<Vec<usize>> = epochs.collect();
        epochs.map_or("not".into(), |epochs| span(epochs.into_iter().map(|epochs| epochs as f64)))
    };
    let ours: Vec<_> = (0..changes).map(range).collect();
    let theirs = if seeds[0].job.workload == 0 { format!(" (paper: {:?})", paper::ABSORBED) } else { String::new() };
    writeln!(text, "  epochs until each change is absorbed: {}{theirs}", ours.join(", ")).expect("a string takes all");
}

/// A number, or the least and the most.
fn span(values: impl IntoIterator<Item = f64>) -> String {
    let values: Vec<f64> = values.into_iter().collect();
    let [min, max] = [f64::min, f64::max].map(|of| values.iter().copied().reduce(of).unwrap_or(f64::NAN));
    if (max - min).abs() < 0.5 { format!("{min:.0}") } else { format!("{min:.0}–{max:.0}") }
}

fn point(text: &mut String, seeds: &[Run], number: usize) {
    let points: Vec<&Point> = seeds.iter().filter_map(|run| run.points.get(number)).collect();
    let reports: Vec<&EdgesReport> = points.iter().map(|point| &point.report).collect();
    let of = |value: fn(&EdgesReport) -> f64| span(reports.iter().map(|report| value(report)));
    let ill = reports.iter().filter(|report| report.state == State::Ill).count();
    let state = match ill {
        0 => "healthy".into(),
        ill if ill == reports.len() => "ill".into(),
        ill => format!("ill in {ill} of {}", reports.len()),
    };
    let (job, load) = (seeds[0].job, points[0].load);
    let theirs = paper::state(job.workload, job.sweep, load).map_or("", |state| state.name());
    let decoded = reports.iter().filter(|report| report.is_decoded()).count();
    writeln!(
        text,
        "  {:5} {state} (paper {theirs})  HH {} HL {} LL {}  T_h {} T_l {}  sampled {} %  load {} % (paper {})  {decoded} of {} decoded",
        points[0].x,
        of(|r| r.parameters.partition.hh.into()),
        of(|r| r.parameters.partition.hl.into()),
        of(|r| r.parameters.partition.ll.into()),
        of(|r| r.parameters.hh_threshold.into()),
        of(|r| r.parameters.hl_threshold.into()),
        of(|r| 100.0 * r.sampled_share),
        of(|r| 100.0 * r.load.unwrap_or(f64::NAN)),
        paper::load(job.workload, job.sweep).map_or("-".into(), |load| format!("≥ {load} %")),
        points.len(),
    )
    .expect("a string takes all");
}
