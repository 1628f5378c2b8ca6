//! How results are printed: tables for people, one JSON document for programs.

mod csv;
pub mod fit;
mod page;
mod style;
mod table;

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::Failure;
use crate::api::flows::NamedFlow;
use crate::api::view::HeavyFlow;
use crate::program::Unit;
pub use page::{Csv, Format, Page, next_page, page};
pub use style::{Style, grouped};
pub(crate) use table::row;
pub use table::{Cell, Table};

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

/// A column of [`epoch`].
pub const EPOCH_START: &str = "from (UTC)|epoch,from_ns";

/// An epoch of this length: people read the time of day at which it starts.
pub fn epoch(epoch: u64, epoch_ns: u64) -> Cell {
    let from_ns = epoch.saturating_mul(epoch_ns);
    Cell { text: epoch_start(epoch, epoch_ns), values: vec![epoch.to_string(), from_ns.to_string()] }
}

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

/// The count of a heavy flow: "1 234", or "at least 1 234" where a register was full.
pub fn heavy_count(heavy: &HeavyFlow) -> Cell {
    Cell::new(at_least(heavy.at_least) + &grouped(heavy.count()), heavy.count())
}

/// The words before a count of a full register.
pub fn at_least(full: bool) -> String {
    String::from(if full { "at least " } else { "" })
}

/// Heavy flows, with the true counts beside them when they are known.
pub fn heavy_table(heavy: &[HeavyFlow], unit: Unit) -> Table {
    let row = |(i, heavy): (usize, &HeavyFlow)| {
        let truth = heavy.truth();
        let error = truth.filter(|truth| *truth > 0);
        let error = error.map(|truth| Cell::share(heavy.count().abs_diff(truth) as f64 / truth as f64));
        row![
            (i + 1).to_string(),
            heavy.name.to_string(),
            heavy_count(heavy),
            Cell::new("", heavy.at_least),
            Cell::or("-", truth),
            Cell::or("-", error),
        ]
    };
    let unit = unit_name(unit);
    let [counted, truth] = [format!(">{unit}"), format!(">true?|true_{unit}")];
    let columns = [">#|rank", "flow", &counted, "|at_least", &truth, ">error?|error_share"];
    Table::new(columns, heavy.iter().enumerate().map(row)).keyed(2)
}

/// The line that says how many of these flows have no name; empty if all have one.
pub fn digests<'a>(flows: impl Iterator<Item = &'a NamedFlow>) -> String {
    match flows.filter(|flow| flow.ipv6_digest.is_some()).count() {
        0 => String::new(),
        1 => "1 flow is known by a digest alone: its switch had no room for its name".into(),
        n => format!("{n} flows are known by a digest alone: switches had no room for their names"),
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
}
