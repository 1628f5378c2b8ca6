//! The other answers, as `weir show` prints them, closed until a reader opens them.

use maud::html;

use super::titled;
use crate::answers::{Claimed, HeavyChanges, Latency, Loops, Numbers, Paths, Task, Utilisation, Values};
use crate::output::Page;
use crate::web::answers::{Answers, Asked};
use crate::web::frame::Section;
use crate::web::text;

pub fn section(answers: &Answers) -> Option<Section> {
    fn of<A>(task: Task, asked: &Asked<A>, page: fn(&Claimed<A>) -> Page) -> Option<(Task, Page)> {
        asked.as_ref().map(|answer| (task, page(answer)))
    }
    let all = [
        of(Task::Paths, &answers.paths, Paths::page),
        of(Task::Latency, &answers.latency, Latency::page),
        of(Task::Utilisation, &answers.utilisation, Utilisation::page),
        of(Task::Values, &answers.values, Values::page),
        of(Task::Loops, &answers.loops, Loops::page),
        of(Task::Cardinality, &answers.cardinality, Numbers::cardinality_page),
        of(Task::Changes, &answers.changes, HeavyChanges::page),
    ];
    let pages: Vec<_> = all.into_iter().flatten().collect();
    if pages.is_empty() {
        return None;
    }
    let content = html! {
        @for (task, page) in &pages {
            details #{ "more-" (task.name()) } {
                summary { (task.name()) }
                (text::page(page))
            }
        }
    };
    Some(Section::whole("more", titled("more", "Other answers", content)))
}
