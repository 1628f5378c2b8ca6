//! Heavy flows.

use super::titled;
use crate::answers::HeavyFlows;
use crate::web::answers::Answers;
use crate::web::frame::Section;
use crate::web::text;

pub fn section(answers: &Answers) -> Option<Section> {
    let heavy = answers.heavy.as_ref()?;
    Some(Section::whole("heavy", titled("heavy", "Heavy flows", text::page(&HeavyFlows::page(heavy)))))
}
