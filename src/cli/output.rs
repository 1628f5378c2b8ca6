//! How results are printed: pages for people, one JSON document for programs, a table as CSV, or all as Parquet.

#[cfg(feature = "control")]
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Failure, help};
pub(crate) use crate::output::row;
pub use crate::output::*;

/// The options of commands that print tables.
#[derive(Clone, Debug, Default, Args)]
pub struct Tables {
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

    /// Write every table as a Parquet file into this directory, and print the files' names
    #[cfg(feature = "control")]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        value_hint = clap::ValueHint::DirPath,
        conflicts_with_all = ["json", "csv"],
        help_heading = help::OUTPUT
    )]
    parquet: Option<PathBuf>,
}

impl Tables {
    /// # Errors
    /// When both are asked for. The command line itself refuses that where both stand behind the
    /// command's name.
    pub fn format(self, json: bool) -> Result<Format, Failure> {
        #[cfg(feature = "control")]
        match (self.parquet, &self.csv, json) {
            (None, ..) => {}
            (Some(directory), None, false) => return Ok(Format::Parquet(directory)),
            _ => return Err(Failure::Usage("--parquet, --csv and --json: one of them".into())),
        }
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
    /// Every table, as a file in this directory.
    #[cfg(feature = "control")]
    Parquet(PathBuf),
}

pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(Failure::failed)?;
    print(&text)
}

/// Prints a result: the document, or its text.
pub fn document<D: Serialize>(json: bool, document: &D, text: impl FnOnce(&D) -> String) -> Result<(), Failure> {
    if json { self::json(document) } else { print(&text(document)) }
}

/// Nothing needs to be said of what was done, unless a program asks.
#[cfg(feature = "control")]
pub fn done(json: bool, document: &impl Serialize) -> Result<(), Failure> {
    if json { self::json(document) } else { Ok(()) }
}

/// Prints a result. A reader that has gone away, as `head` does, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    print_while_read(text).map(drop)
}

/// Prints a result; false when the reader has gone.
pub fn print_while_read(text: &str) -> Result<bool, Failure> {
    use std::io::{ErrorKind, Write};
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::failed(e)),
    }
}

/// Prints a line on stderr, and ignores errors: stderr may be closed.
pub fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a result: the document, its page as text, a table of the page as CSV, or all in files.
pub fn page<D: Serialize>(format: &Format, document: &D, page: impl FnOnce(&D) -> Page) -> Result<(), Failure> {
    match format {
        Format::Json => json(document),
        Format::Text => print(&page(document).to_text(Style::current())),
        Format::Csv(wanted) => print(csv(&page(document), wanted, false)?.trim_end_matches('\n')),
        #[cfg(feature = "control")]
        Format::Parquet(directory) => parquet(&page(document), directory, None).map(drop),
    }
}

/// Prints one result of several, as [`page`] does; a JSON document is one line, CSV has one line of names, before
/// the first, and files have the result's number, from 1. False when the reader has gone.
pub fn next_page<D: Serialize>(
    format: &Format,
    document: &D,
    page: impl FnOnce(&D) -> Page,
    number: u64,
) -> Result<bool, Failure> {
    let text = match format {
        Format::Json => serde_json::to_string(document).map_err(Failure::failed)?,
        Format::Text => page(document).to_text(Style::current()) + "\n",
        Format::Csv(wanted) => {
            let text = csv(&page(document), wanted, number > 1)?;
            match text.strip_suffix('\n') {
                Some(text) => text.to_owned(),
                // No row.
                None => return Ok(true),
            }
        }
        #[cfg(feature = "control")]
        Format::Parquet(directory) => return parquet(&page(document), directory, Some(number)),
    };
    print_while_read(&text)
}

/// A table as CSV. What the page says besides goes to stderr, so that no answer loses the words that
/// it is not complete.
fn csv(page: &Page, wanted: &str, is_continued: bool) -> Result<String, Failure> {
    page.texts().for_each(say);
    let name = if wanted.is_empty() { String::new() } else { format!("={wanted}") };
    let table = page.named(wanted).map_err(|why| Failure::Usage(format!("--csv{name}: {why}")))?;
    Ok(table.csv(is_continued))
}

/// Writes the tables as files and prints their names. What the page says besides is in the files too.
#[cfg(feature = "control")]
fn parquet(page: &Page, directory: &std::path::Path, number: Option<u64>) -> Result<bool, Failure> {
    page.texts().for_each(say);
    let files = crate::output::parquet::write_page(page, directory, number).map_err(Failure::failed)?;
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    if names.is_empty() { Ok(true) } else { print_while_read(&names.join("\n")) }
}
