//! The form of results: pages of text and tables, CSV and Parquet, and numbers as people read them.

mod csv;
mod field;
pub mod fit;
mod page;
#[cfg(feature = "control")]
pub mod parquet;
mod style;
mod table;

use std::time::{Duration, UNIX_EPOCH};

pub use field::Field;
pub use page::Page;
pub use style::{Style, grouped};
pub(crate) use table::row;
pub use table::{Cell, Table};

/// A column of [`epoch`].
pub const EPOCH_START: &str = "from (UTC)|epoch,from_ns";

/// An epoch of this length: people read the time of day at which it starts.
pub fn epoch(epoch: u64, epoch_ns: u64) -> Cell {
    let from_ns = epoch.saturating_mul(epoch_ns);
    Cell { text: epoch_start(epoch, epoch_ns), values: vec![epoch.into(), from_ns.into()] }
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

/// The words before a count of a full register.
pub fn at_least(full: bool) -> String {
    String::from(if full { "at least " } else { "" })
}

/// An estimate, or that there are too many to tell.
pub fn estimate(number: Option<f64>, digits: usize) -> Cell {
    Cell::or("too many to tell", number.map(|number| Cell::number(number, digits)))
}

/// Those of these lines that say something.
pub fn lines<const N: usize>(lines: [String; N]) -> String {
    lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The flows that an answer does not name; empty where it names all.
pub fn unnamed(omitted_flows: u64, named_from: u64, what: &str) -> String {
    let omitted = match omitted_flows {
        0 => String::new(),
        1 => "1 flow is not named".into(),
        n => format!("{} flows are not named", grouped(n)),
    };
    let small = if named_from > 1 {
        format!("{what} fewer than {} packets are not named", grouped(named_from))
    } else {
        String::new()
    };
    lines([omitted, small])
}

/// The numbers between which a quantile lies: `1.20 to 3.50 ms`. An end that is not known is `?`.
pub fn between<T>(ends: [Option<T>; 2], text: impl Fn(T) -> String) -> String {
    match ends.map(|end| end.map(&text)) {
        [None, None] => "?".into(),
        [Some(low), None] => format!("{low} to ?"),
        [None, Some(high)] => format!("? to {high}"),
        [Some(low), Some(high)] if low == high => low,
        [Some(low), Some(high)] => {
            let unit = |text: &str| {
                text.rfind(' ')
                    .map(|at| text[at..].to_owned())
                    .filter(|unit| !unit[1..].starts_with(|c: char| c.is_ascii_digit()))
            };
            let common = unit(&low).filter(|of| unit(&high).as_ref() == Some(of));
            let low = common.and_then(|unit| low.strip_suffix(&unit).map(str::to_owned)).unwrap_or(low);
            format!("{low} to {high}")
        }
    }
}

/// A time, rounded to three digits from 1 µs to 1000 s.
pub fn time(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    // Digits behind the point, and the numbers that have as many once they are rounded.
    let forms = [(2, 9.995), (1, 99.95), (0, 999.5)];
    let units = [(1e3, "µs"), (1e6, "ms"), (1e9, "s")];
    let mut all = units.into_iter().flat_map(|unit| forms.map(|form| (unit, form)));
    let fits = all.find(|((unit, _), (_, end))| ns as f64 / unit < *end);
    let ((unit, name), (digits, _)) = fits.unwrap_or(((1e9, "s"), (0, 0.0)));
    format!("{:.digits$} {name}", ns as f64 / unit)
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
    fn times_have_three_digits() {
        let written = [256, 999, 1_234, 9_999, 12_345, 123_456, 999_999, 5_000_000, 1_073_741_824].map(time);
        let right = ["256 ns", "999 ns", "1.23 µs", "10.0 µs", "12.3 µs", "123 µs", "1.00 ms", "5.00 ms", "1.07 s"];
        assert_eq!(written, right);
        assert_eq!(time(5_000_000_000_000), "5000 s");
    }
}
