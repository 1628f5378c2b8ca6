//! What an answer claims, as people read it.

use super::output;
use crate::api::view::Claim;
use crate::program::answers::{Reason, Task};

/// What a complete answer to a task is called.
pub fn all_of(task: Task) -> &'static str {
    match task {
        Task::Heavy | Task::Flows => "all heavy flows",
        Task::Cardinality => "all flows",
        Task::Losses => "all losses",
        Task::Changes => "all heavy changes",
        Task::Attention => "all epochs",
        Task::Paths => "all paths",
        Task::Latency => "all latencies",
        Task::Loops => "all loops",
        Task::Utilisation => "all utilisations",
        Task::Values => "all values",
    }
}

/// The epochs that an answer covers, and their gaps.
pub fn text(claim: &Claim, all: &str) -> String {
    let (Some(first), Some(last)) = (claim.first_epoch, claim.last_epoch) else {
        return "no epoch has ended yet".into();
    };
    let complete = complete_text(claim, all);
    let mut text = match claim.epoch_ns {
        // A replay of a whole capture.
        0 => complete,
        length => format!("{}, {:.1} s: {complete}", output::span((first, last), length), claim.seconds),
    };
    if let (true, Some(age)) = (claim.outdated, claim.age_seconds) {
        text += &format!("\n  old: the last of these ended {age:.1} s ago, and none since has an answer");
    }
    if claim.amendments > 0 {
        text += &format!("\n  amended {} since it was final", output::count(claim.amendments, "time"));
    }
    if claim.switches.len() > 1 {
        text += &format!("\n  switches: {}", listed(&claim.switches));
    }
    // Gaps and epochs that are not there are listed by themselves.
    let told =
        |reason: &Reason| matches!(reason, Reason::Gap | Reason::NotAnalysed | Reason::EdgesUnnamed | Reason::Outdated);
    for reason in claim.incomplete.iter().filter(|reason| !told(reason)) {
        text += &format!("\n  {reason}");
    }
    match claim.missing_epochs {
        0 => {}
        1 => text += "\n  1 epoch of these was not analysed",
        n => text += &format!("\n  {n} epochs of these were not analysed"),
    }
    const SHOWN: usize = 5;
    for gap in claim.gaps.iter().rev().take(SHOWN) {
        text += &match claim.epoch_ns {
            0 => format!("\n  gap: {}", gap.gap),
            length => {
                format!("\n  gap: {}, {}: {}", output::epoch_start(gap.epoch.number, length), gap.switch, gap.gap)
            }
        };
    }
    if claim.gaps.len() > SHOWN {
        let before = claim.gaps.len() - SHOWN;
        text += &format!("\n  and {before} {} before", if before == 1 { "gap" } else { "gaps" });
    }
    text
}

/// Whether an answer is complete, and why not.
fn complete_text(claim: &Claim, all: &str) -> String {
    let mut reasons = claim.incomplete.iter();
    match (reasons.next(), reasons.next()) {
        (None, _) if claim.complete => all.to_owned(),
        (Some(Reason::EdgesUnnamed), None) => {
            format!("{all} if no other switch has hosts; weir controller --switch names those that have")
        }
        _ => format!("not {all}"),
    }
}

/// Names, as many as fit a line.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
