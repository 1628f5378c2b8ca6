//! The output of a command: paragraphs and tables, as text, as JSON, or one of the tables as CSV.

use clap::Args;
use serde::Serialize;

use super::{Style, Table, fit};
use crate::api::view::Claim;
use crate::cli::{Failure, help};

/// The option of commands that print tables.
#[derive(Clone, Debug, Default, Args)]
pub struct Csv {
    /// Print a table as CSV: the first, or the one of this name (docs/csv.md lists them)
    #[arg(
        long,
        global = true,
        value_name = "TABLE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "json",
        help_heading = help::OUTPUT
    )]
    csv: Option<String>,
}

impl Csv {
    /// # Errors
    /// When both are asked for. The command line itself refuses that where both stand behind the
    /// command's name.
    pub fn format(self, json: bool) -> Result<Format, Failure> {
        match (self.csv, json) {
            (Some(_), true) => Err(Failure::Usage("--csv and --json: one document or one table".into())),
            (Some(table), false) => Ok(Format::Csv(table)),
            (None, true) => Ok(Format::Json),
            (None, false) => Ok(Format::Text),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    /// The table of this name; the first, if it is empty.
    Csv(String),
}

/// Paragraphs and tables, in their order.
#[derive(Clone, Debug, Default)]
pub struct Page(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// With its name.
    Table(String, Table),
}

impl Page {
    /// A paragraph; none where there is nothing to say.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Part::Text(text.into()));
        self
    }

    /// A table. In the text it is left out when it has no rows.
    pub fn table(mut self, name: impl Into<String>, table: Table) -> Self {
        self.0.push(Part::Table(name.into(), table));
        self
    }

    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The page with `prefix` before the names of its tables.
    pub fn of(mut self, prefix: &str) -> Self {
        for part in &mut self.0 {
            if let Part::Table(name, _) = part {
                *name = format!("{prefix}.{name}");
            }
        }
        self
    }

    /// The page with [`Table::claimed`] tables.
    pub fn claimed(mut self, claim: &Claim) -> Self {
        for part in &mut self.0 {
            if let Part::Table(_, table) = part {
                *table = std::mem::take(table).claimed(claim);
            }
        }
        self
    }

    /// The parts with an empty line between them.
    pub fn to_text(&self, style: Style) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => paragraph(text.trim_matches('\n'), style),
            Part::Table(_, table) if table.is_empty() => String::new(),
            Part::Table(_, table) => table.text(style),
        };
        self.0.iter().map(part).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// The tables with their names.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.0.iter().filter_map(|part| match part {
            Part::Table(name, table) => Some((name.as_str(), table)),
            Part::Text(_) => None,
        })
    }

    /// The table of this name, or the first.
    fn named(&self, wanted: &str) -> Result<&Table, Failure> {
        let found = self.tables().find(|(name, _)| wanted.is_empty() || *name == wanted);
        found.map(|(_, table)| table).ok_or_else(|| {
            let names: Vec<_> = self.tables().map(|(name, _)| name).collect();
            Failure::Usage(match names.is_empty() {
                true => "--csv: there is no table in this answer".into(),
                false => format!("--csv={wanted}: there is no such table; there are {}", names.join(", ")),
            })
        })
    }

    /// The table as CSV. What the page says besides goes to stderr, so that no answer loses the
    /// words that it is not complete.
    fn csv(&self, wanted: &str, is_continued: bool) -> Result<String, Failure> {
        let texts = self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.trim_matches('\n')),
            Part::Table(..) => None,
        });
        texts.filter(|text| !text.is_empty()).for_each(super::say);
        self.named(wanted).map(|table| table.csv(is_continued))
    }
}

/// A text whose lines fit a terminal.
fn paragraph(text: &str, style: Style) -> String {
    match style {
        Style::Plain => text.to_owned(),
        Style::Terminal { columns } => {
            text.lines().flat_map(|line| fit::wrapped(line, columns)).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Prints a result: the document, its page as text, or a table of the page as CSV.
pub fn page<D: Serialize>(format: &Format, document: &D, page: impl FnOnce(&D) -> Page) -> Result<(), Failure> {
    match format {
        Format::Json => super::json(document),
        Format::Text => super::print(&page(document).to_text(Style::current())),
        Format::Csv(wanted) => super::print(page(document).csv(wanted, false)?.trim_end_matches('\n')),
    }
}

/// Prints one result of several, as [`page`] does; a JSON document is one line, and CSV has one line
/// of names, before the first. False when the reader has gone.
pub fn next_page<D: Serialize>(
    format: &Format,
    document: &D,
    page: impl FnOnce(&D) -> Page,
    is_first: bool,
) -> Result<bool, Failure> {
    let text = match format {
        Format::Json => serde_json::to_string(document).map_err(Failure::failed)?,
        Format::Text => page(document).to_text(Style::current()) + "\n",
        Format::Csv(wanted) => {
            let text = page(document).csv(wanted, !is_first)?;
            match text.strip_suffix('\n') {
                Some(text) => text.to_owned(),
                // No row.
                None => return Ok(true),
            }
        }
    };
    super::print_while_read(&text)
}
