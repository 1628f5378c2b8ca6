//! Completeness at a glance: what each answer claims of itself.

use maud::{Markup, html};

use crate::answers::{Claim, Claimed, Task};
use crate::output;
use crate::web::answers::{Answers, Asked};
use crate::web::frame::Section;

use super::titled;

pub fn section(answers: &Answers) -> Section {
    let claims = claims(answers);
    let content = html! {
        @if claims.is_empty() {
            p.says { "No program answers here: " (answers.why_no_losses) }
        } @else {
            ul.claims { @for (task, claim) in claims { li { (chip("claim", task, claim)) } } }
        }
    };
    Section::whole("claims", titled("claims", "Is it complete?", content))
}

/// The tasks that are answered, with the claims.
fn claims(answers: &Answers) -> Vec<(Task, &Claim)> {
    fn of<A>(task: Task, asked: &Asked<A>) -> Option<(Task, &Claim)> {
        asked.as_ref().map(|answer| (task, &answer.claim))
    }
    let all = [
        of(Task::Losses, &answers.losses),
        of(Task::Places, &answers.places),
        of(Task::Heavy, &answers.heavy),
        of(Task::Changes, &answers.changes),
        of(Task::Cardinality, &answers.cardinality),
        of(Task::Paths, &answers.paths),
        of(Task::Latency, &answers.latency),
        of(Task::Utilisation, &answers.utilisation),
        of(Task::Values, &answers.values),
        of(Task::Loops, &answers.loops),
    ];
    all.into_iter().flatten().collect()
}

/// A sign, a word and the reasons, so that colour is not needed. `place` makes the id differ from others of the
/// task.
fn chip(place: &str, task: Task, claim: &Claim) -> Markup {
    let (class, sign, word) = match claim {
        Claim { last_epoch: None, .. } => ("waiting", "…", "no epoch has ended yet"),
        Claim { complete: true, .. } => ("complete", "✓", "complete"),
        _ => ("incomplete", "!", "not complete"),
    };
    html! {
        details.claim.(class) #{ (place) "-" (task.name()) } {
            summary {
                span.sign aria-hidden="true" { (sign) } " "
                strong { (task.name()) } " " (word)
                @if !claim.gaps.is_empty() { ", " (output::count(claim.gaps.len() as u64, "gap")) }
            }
            p.says { (claim.text(task.all())) }
        }
    }
}

/// The claim of an answer about chosen flows, below it.
pub fn line<A>(task: Task, answer: &Claimed<A>) -> Markup {
    chip("chosen", task, &answer.claim)
}
