//! Packets that were dropped, by reason.

use super::titled;
use crate::output::Page;
use crate::web::frame::Section;
use crate::web::text;

pub fn section(drops: &Page) -> Section {
    Section::whole("drops", titled("drops", "Drops by reason", text::page(drops)))
}
