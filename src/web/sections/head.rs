//! The head of the page: what it is about, and for a simulation how its time passes.

use maud::{Markup, html};

use crate::web::pace::Pace;
use crate::web::{Source, frame::Section};

pub fn section<S: Source>(source: &S) -> Section {
    let html = html! {
        header #head {
            h1 { (source.name()) " " small { (S::KIND) } }
            @if let Some(pace) = source.pace() { (controls(pace)) }
        }
    };
    Section::whole("head", html)
}

/// The buttons of a simulation. Without a script they send forms.
fn controls(pace: &Pace) -> Markup {
    html! {
        form.pace method="post" {
            span #pace role="status" { (pace.text()) }
            @for ask in pace.offers() {
                button id={ "pace-" (ask.name()) } formaction={ "/pace/" (ask.name()) } { (ask.name()) }
            }
        }
    }
}
