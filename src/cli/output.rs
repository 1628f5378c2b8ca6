//! How results are printed: tables for people, one JSON document for programs.

mod style;

use std::time::{Duration, UNIX_EPOCH};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use super::Failure;
use crate::api::flows::NamedFlow;
use crate::api::view::HeavyFlow;
use crate::program::Unit;
pub use style::{Style, grouped};

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

/// A plain table; columns whose heading starts with '>' are flushed right.
pub fn table<const N: usize>(headings: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    wide_table(&headings, rows.into_iter().map(Vec::from))
}

/// [`table`] for a number of columns that is not fixed; every row has as many cells as there are
/// headings.
pub fn wide_table(headings: &[impl AsRef<str>], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| heading.as_ref().trim_start_matches('>')));
    for (i, heading) in headings.iter().enumerate() {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((0, 2));
            if heading.as_ref().starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    table.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// Heading of a column of [`epoch_start`].
pub const EPOCH_START: &str = "from (UTC)";

/// Time of day at which an epoch of this length starts, in UTC: "21:40:01.123".
pub fn epoch_start(epoch: u64, epoch_ns: u64) -> String {
    time_of_day(epoch.saturating_mul(epoch_ns))
}

/// Time of day, in UTC: "21:40:01.123".
pub fn time_of_day(at_ns: u64) -> String {
    let since_1970 = Duration::from_nanos(at_ns);
    let text = humantime::format_rfc3339_millis(UNIX_EPOCH + since_1970).to_string();
    text.split_once('T').map_or(text.as_str(), |(_, time)| time.trim_end_matches('Z')).to_owned()
}

/// Times of day from the start of the first epoch to the end of the last:
/// "21:40:01.123 to 21:40:11.123 UTC".
pub fn span((first, last): (u64, u64), epoch_ns: u64) -> String {
    format!("{} to {} UTC", epoch_start(first, epoch_ns), epoch_start(last.saturating_add(1), epoch_ns))
}

/// When a packet was seen, in UTC: `2026-11-20T21:40:01.123456789Z`.
pub fn time_of(at_ns: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_nanos(at_ns));
    at.map_or_else(|| at_ns.to_string(), |at| humantime::format_rfc3339_nanos(at).to_string())
}

/// "1 packet", "2 packets".
pub fn count(n: impl Into<u128>, what: &str) -> String {
    let n = n.into();
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// 0.0123 as "1.23 %".
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

pub fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Packets => "packets",
        Unit::Bytes => "bytes",
    }
}

/// What was counted of a heavy flow: "1 234", or "at least 1 234" where a register was full.
pub fn heavy_count(heavy: &HeavyFlow) -> String {
    at_least(heavy.at_least) + &grouped(heavy.count())
}

/// Stands before a number of which a register may have held no more.
pub fn at_least(full: bool) -> String {
    String::from(if full { "at least " } else { "" })
}

/// Heavy flows, with the true counts beside them when they are known.
pub fn heavy_table(heavy: &[HeavyFlow], unit: Unit) -> String {
    let counted = format!(">{}", unit_name(unit));
    let rank_and_flow = |(i, heavy): (usize, &HeavyFlow)| (format!("{}", i + 1), heavy.name.to_string());
    if heavy.iter().all(|heavy| heavy.truth().is_none()) {
        let row = |(i, heavy): (usize, &HeavyFlow)| {
            let (rank, flow) = rank_and_flow((i, heavy));
            [rank, flow, heavy_count(heavy)]
        };
        return table([">#", "flow", &counted], heavy.iter().enumerate().map(row));
    }
    let row = |(i, heavy): (usize, &HeavyFlow)| {
        let (rank, flow) = rank_and_flow((i, heavy));
        let truth = heavy.truth().unwrap_or_default();
        let error = if truth == 0 { "-".into() } else { percent(heavy.count().abs_diff(truth) as f64 / truth as f64) };
        [rank, flow, heavy_count(heavy), grouped(truth), error]
    };
    table([">#", "flow", &counted, ">true", ">error"], heavy.iter().enumerate().map(row))
}

/// The line behind a list of flows that says how many of these have no name; empty if all have one.
pub fn digests<'a>(flows: impl Iterator<Item = &'a NamedFlow>) -> String {
    match flows.filter(|flow| flow.ipv6_digest.is_some()).count() {
        0 => String::new(),
        1 => "\n1 flow is known by a digest alone: its switch had no room for its name".into(),
        n => format!("\n{n} flows are known by a digest alone: switches had no room for their names"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_times_of_day() {
        assert_eq!(epoch_start(26_753_081_231, 1 << 26), "17:34:49.912");
        assert_eq!(span((0, 1), 50_000_000), "00:00:00.000 to 00:00:00.100 UTC");
        assert_eq!(span((u64::MAX, u64::MAX), u64::MAX).len(), "00:00:00.000 to 00:00:00.000 UTC".len());
    }

    #[test]
    fn columns_line_up() {
        let text = table(["name", ">count"], [["a".into(), "1".into()], ["long".into(), "1000".into()]]);
        assert_eq!(text, "name  count\na         1\nlong   1000");
    }
}
