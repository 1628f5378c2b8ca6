//! What each program measures with, and why that changes: the division of memory, epoch by epoch, and the facts
//! about each switch, such as its fragment.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::titled;
use crate::answers::{Attention, Claimed, EpochAttention, SHARES_OF_MEMORY, parameter, parameter_name, switches_table};
use crate::output;
use crate::program::ProgramConfig;
use crate::web::answers::Answers;
use crate::web::frame::Section;
use crate::web::text;

/// Epochs of which the division is drawn.
const DRAWN: usize = 60;
/// Size of the drawing, and of an epoch in it.
const HEIGHT: f64 = 72.0;
const COLUMN: f64 = 10.0;

pub fn section(answers: &Answers) -> Option<Section> {
    if answers.attention.is_empty() {
        return None;
    }
    let content = html! { @for (program, attention) in &answers.attention { (program_of(program, attention)) } };
    Some(Section::whole("attention", titled("attention", "How it is measured", content)))
}

fn program_of(program: &str, attention: &Claimed<Attention>) -> Markup {
    let newest = attention.epochs.last();
    html! {
        h3 { (program) }
        @match newest {
            None => { p.says { (attention.claim.text("all epochs")) } }
            Some(newest) => {
                p { "state: " strong { (newest.state) } " in the epoch from "
                    (output::epoch_start(newest.epoch.number, attention.claim.epoch_ns)) " UTC" }
                (division(program, &attention.epochs))
                (facts(newest))
                @if let Some(change) = changed(&attention.epochs) { p.says { (change) } }
                @if let Some(switches) = newest.switches() { (text::table(&switches_table(switches))) }
            }
        }
    }
}

/// The parameters that are parts of one memory, with their numbers.
fn parts(parameters: &Map<String, Value>) -> Vec<(&String, f64)> {
    let parts = parameters.iter().filter(|(key, _)| key.ends_with(SHARES_OF_MEMORY));
    parts.filter_map(|(key, value)| Some((key, value.as_f64()?))).collect()
}

/// The division of memory in the newest epochs: a column each, and the newest in words.
fn division(program: &str, epochs: &[EpochAttention]) -> Markup {
    let drawn = &epochs[epochs.len().saturating_sub(DRAWN)..];
    let newest = drawn.last().map(|epoch| parts(&epoch.parameters)).unwrap_or_default();
    if newest.is_empty() {
        return html! {};
    }
    let width = COLUMN * drawn.len() as f64;
    html! {
        p.says { "Buckets of its memory by what they are for, an epoch a column, the newest on the right:" }
        div.wide tabindex="0" {
            svg.division role="img" aria-label="The division of memory, epoch by epoch" viewBox={ "0 0 " (width) " " (HEIGHT) }
                width=(width) height=(HEIGHT) {
                @for (at, epoch) in drawn.iter().enumerate() { (column(COLUMN * at as f64, &parts(&epoch.parameters))) }
            }
        }
        ul.legend {
            @for (place, (key, number)) in newest.iter().enumerate() {
                li { svg.key viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" {
                    rect class={ "part" (place) } width="10" height="10" {}
                } " " (parameter_name(key)) " " (output::grouped(*number as u64))
                    @if let Some(meaning) = ProgramConfig::meaning(program, key) { ": " (meaning) }
                }
            }
        }
    }
}

/// The parts of one epoch above each other.
fn column(x: f64, parts: &[(&String, f64)]) -> Markup {
    let sum = parts.iter().map(|(_, number)| number).sum::<f64>().max(1.0);
    let mut y = HEIGHT;
    let mut bars = Vec::new();
    for (_, number) in parts {
        let height = HEIGHT * number / sum;
        y -= height;
        bars.push(((10.0 * y).round() / 10.0, (10.0 * height).round() / 10.0));
    }
    html! {
        @for (place, (y, height)) in bars.into_iter().enumerate() {
            rect class={ "part" (place) } x=(x) y=(y) width=(COLUMN - 1.0) height=(height) {}
        }
    }
}

/// The other parameters and facts, which are numbers or words.
fn facts(epoch: &EpochAttention) -> Markup {
    let others = epoch.parameters.iter().filter(|(key, value)| !key.ends_with(SHARES_OF_MEMORY) && !value.is_object());
    html! {
        dl.facts {
            @for (key, value) in others {
                div { dt { (key.replace('_', " ")) } dd { (parameter(key, value)) } }
            }
        }
    }
}

/// The newest decision, and the epoch that it was made from.
fn changed(epochs: &[EpochAttention]) -> Option<String> {
    let decided = epochs.iter().rev().find(|epoch| !epoch.why.is_empty())?;
    Some(format!("changed by what epoch {} showed: {}", decided.epoch.number, decided.why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::answers::Claim;
    use crate::json::Epoch;

    fn epoch(number: u64, parameters: Value, why: &str) -> EpochAttention {
        let parameters = parameters.as_object().cloned().unwrap_or_default();
        let epoch = Epoch { number, ..Epoch::default() };
        EpochAttention { epoch, state: "healthy".into(), why: why.into(), parameters, ..EpochAttention::default() }
    }

    #[test]
    fn the_division_is_drawn_epoch_by_epoch() {
        let first = epoch(7, json!({ "hh_buckets": 30, "ll_buckets": 10 }), "more <losses>");
        let second = epoch(8, json!({ "hh_buckets": 20, "ll_buckets": 20, "sample_share": 0.5 }), "");
        let html = program_of("p", &Claimed::of(Claim::default(), Attention { epochs: vec![first, second] })).0;
        // Two parts in each of two epochs, and both in the legend.
        assert_eq!(
            (html.matches("class=\"part0\"").count(), html.matches("class=\"part1\"").count()),
            (3, 3),
            "{html}"
        );
        assert!(html.contains("class=\"part0\" x=\"0\" y=\"18\" width=\"9\" height=\"54\""), "{html}");
        assert!(html.contains("hh 20") && html.contains("ll 20") && html.contains("50.00 %"), "{html}");
        assert!(html.contains("changed by what epoch 7 showed: more &lt;losses&gt;"), "{html}");
    }

    /// Parts whose names say little are explained.
    #[test]
    fn parts_are_explained() {
        let explained = ProgramConfig::names()
            .filter_map(|program| Some((program, ProgramConfig::meaning(program, "ll_buckets")?)));
        let parameters = || json!({ "ll_buckets": 10, "other_buckets": 5 });
        let html = |program: &str| division(program, &[epoch(1, parameters(), "")]).0;
        let explained: Vec<_> = explained.collect();
        assert_eq!(explained.len(), 1);
        for (program, meaning) in explained {
            assert!(html(program).contains(&format!("ll 10: {meaning}")), "{}", html(program));
        }
        assert!(html("nobody").contains("ll 10</li>"), "{}", html("nobody"));
    }

    #[test]
    fn facts_about_switches_are_rows() {
        let switches = json!({ "switches": { "s1": { "sub_epochs": 4 }, "s2": { "sub_epochs": 16 } } });
        let html =
            program_of("p", &Claimed::of(Claim::default(), Attention { epochs: vec![epoch(1, switches, "")] })).0;
        assert_eq!(html.matches("<tr>").count(), 3, "{html}");
        assert!(html.contains("sub epochs") && html.contains(">16<") && !html.contains("<svg"), "{html}");
    }
}
