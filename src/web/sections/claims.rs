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
            p.says { "Nothing is measured, packets are counted by port alone: " (answers.why_no_losses) }
        } @else {
            p.says { "What each answer about the last 10 seconds says of itself. Open one for the epochs and the reasons." }
            ul.claims { @for (task, claim, is_asked) in claims { li { (chip("claim", task, claim, is_asked)) } } }
        }
    };
    Section::whole("claims", titled("claims", "Is it complete?", content))
}

/// The tasks that are answered, with the claims, and whether a query asked for them.
fn claims(answers: &Answers) -> Vec<(Task, &Claim, bool)> {
    fn of<A>(task: Task, answer: &Asked<A>, is_asked: fn(&A) -> bool) -> Option<(Task, &Claim, bool)> {
        answer.as_ref().map(|answer| (task, &answer.claim, is_asked(answer)))
    }
    let all = [
        of(Task::Losses, &answers.losses, |_| true),
        of(Task::Places, &answers.places, |_| true),
        of(Task::Heavy, &answers.heavy, |_| true),
        of(Task::Changes, &answers.changes, |_| true),
        of(Task::Cardinality, &answers.cardinality, |_| true),
        of(Task::Paths, &answers.paths, |paths| paths.asked),
        of(Task::Latency, &answers.latency, |latency| latency.query.is_some()),
        of(Task::Utilisation, &answers.utilisation, |utilisation| utilisation.query.is_some()),
        of(Task::Values, &answers.values, |values| !values.values.is_empty()),
        of(Task::Loops, &answers.loops, |loops| loops.asked),
    ];
    all.into_iter().flatten().collect()
}

/// A sign, a word and the reasons, so that colour is not needed. `place` makes the id differ from others of the
/// task.
fn chip(place: &str, task: Task, claim: &Claim, is_asked: bool) -> Markup {
    let (class, sign, word) = match claim {
        Claim { last_epoch: None, .. } => ("waiting", "…", "no epoch has ended yet"),
        // Gaps say nothing about what no packet was asked.
        _ if !is_asked => ("waiting", "–", "not asked for"),
        Claim { complete: true, .. } => ("complete", "✓", "complete"),
        _ => ("incomplete", "!", "not complete"),
    };
    html! {
        details.claim.(class) #{ (place) "-" (task.name()) } {
            summary {
                span.sign aria-hidden="true" { (sign) } " "
                strong { (task.name()) } " " (word)
                @if is_asked && !claim.gaps.is_empty() { ", " (output::count(claim.gaps.len() as u64, "gap")) }
            }
            p.says { (claim.text(task.all())) }
        }
    }
}

/// The claim of an answer about chosen flows, below it.
pub fn line<A>(task: Task, answer: &Claimed<A>, is_asked: bool) -> Markup {
    chip("chosen", task, &answer.claim, is_asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Paths;

    /// An answer that no query asked for is called neither complete nor incomplete.
    #[test]
    fn what_no_query_asked_for_is_said() {
        let claim = || Claim { last_epoch: Some(7), ..Claim::default() };
        let of = |asked| {
            let paths = Some(Claimed::of(claim(), Paths { asked, ..Paths::default() }));
            section(&Answers { paths, ..Answers::default() }).html.0
        };
        assert!(of(true).contains("claim incomplete") && of(true).contains("not complete"), "{}", of(true));
        assert!(of(false).contains("claim waiting") && of(false).contains("not asked for"), "{}", of(false));
    }
}
