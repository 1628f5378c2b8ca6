//! Lost packets: of which flows, where, and since when.

use maud::html;

use super::titled;
use crate::answers::{Losses, Places};
use crate::web::answers::Answers;
use crate::web::frame::Section;
use crate::web::text;

pub fn section(answers: &Answers) -> Option<Section> {
    if answers.losses.is_none() && answers.places.is_none() {
        return None;
    }
    let content = html! {
        @if let Some(places) = &answers.places {
            h3 { "Where" }
            (text::page(&Places::page(places)))
        }
        @if let Some(losses) = &answers.losses {
            h3 { "Which flows" }
            (text::page(&Losses::page(losses)))
        }
    };
    Some(Section::whole("losses", titled("losses", "Losses", content)))
}
