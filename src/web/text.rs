//! The text and tables of an answer, as `weir show` prints them, as HTML.

use maud::{Markup, html};

use super::answers::LISTED;
use crate::output::fit::Column;
use crate::output::{Page, Style, Table, grouped};
use crate::text::url_encoded;
use crate::wire::Pattern;

/// The heading of columns that name flows.
const FLOW: &str = "flow";

/// Text is made for people from now on, by this thread: thousands are grouped.
pub fn for_people() {
    Style::Terminal { columns: usize::MAX }.set();
}

/// All of a page.
pub fn page(page: &Page) -> Markup {
    html! { @for part in page.each(paragraph, table) { (part) } }
}

pub fn paragraph(text: &str) -> Markup {
    html! { @if !text.is_empty() { p.says { (text) } } }
}

/// A table with at most [`LISTED`] rows; nothing of one without rows. Flows in it can be chosen.
pub fn table(table: &Table) -> Markup {
    let columns = table.columns();
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or_default();
    html! {
        @if rows > 0 {
            div.wide tabindex="0" {
                table {
                    thead { tr { @for column in &columns { th class=[aligned(column)] scope="col" { (column.heading) } } } }
                    tbody {
                        @for row in 0..rows.min(LISTED) {
                            tr { @for column in &columns { td class=[aligned(column)] { (cell(column, row)) } } }
                        }
                    }
                }
            }
            @if rows > LISTED { p.more { "and " (grouped((rows - LISTED) as u64)) " more, which are not listed" } }
        }
    }
}

fn aligned(column: &Column<'_>) -> Option<&'static str> {
    column.is_right.then_some("n")
}

fn cell(column: &Column<'_>, row: usize) -> Markup {
    let text = column.cells[row];
    match column.heading {
        FLOW => flow(text),
        _ => html! { (text) },
    }
}

/// The name of a flow: a link that chooses it, if packets have it in their headers.
pub fn flow(name: &str) -> Markup {
    html! {
        @if name.parse::<Pattern>().is_ok() {
            a href=(flow_link(name)) { (name) }
        } @else {
            (name)
        }
    }
}

pub fn flow_link(name: &str) -> String {
    format!("/?flow={}", url_encoded(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::row;

    #[test]
    fn tables_are_bounded_and_escaped() {
        let rows = (0..LISTED + 3).map(|n| row![format!("10.0.0.1:{n} → 10.0.0.2:80 tcp"), "<b>", n]);
        let html = table(&Table::new(["flow", "<i>", ">packets"], rows)).0;
        assert_eq!(html.matches("<tr>").count(), 1 + LISTED);
        assert!(html.contains("and 3 more"), "{html}");
        assert!(html.contains("&lt;b&gt;") && html.contains("&lt;i&gt;") && !html.contains("<b>"), "{html}");
        let link = "<a href=\"/?flow=10.0.0.1%3A0%20%E2%86%92%2010.0.0.2%3A80%20tcp\">10.0.0.1:0 → 10.0.0.2:80 tcp</a>";
        assert!(html.contains(link), "{html}");
        assert!(html.contains("<th class=\"n\" scope=\"col\">packets</th>"), "{html}");
        assert_eq!(table(&Table::new(["flow"], Vec::new())).0, "");
    }

    #[test]
    fn a_digest_cannot_be_chosen() {
        assert_eq!(flow("ipv6 flow 00ff").0, "ipv6 flow 00ff");
        assert!(flow("10.0.0.1 → *").0.starts_with("<a "));
    }
}
