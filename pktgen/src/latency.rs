//! Latencies: percentiles of one histogram, and its files.

pub mod coarse;

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use serde::{Deserialize, Serialize};

/// The longest that is told from longer ones, in nanoseconds: a minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Decimal digits that a recorded value keeps.
const DIGITS: u8 = 3;

/// An empty histogram of nanoseconds. Its size does not depend on what is recorded.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("right bounds")
}

/// All numbers are of one histogram, so minimum ≤ percentiles ≤ maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub packets: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub p9999_ns: u64,
    pub max_ns: u64,
}

impl Latency {
    /// `None` of an empty histogram.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            packets: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: histogram.max(),
        })
    }
}

/// Writes the percentiles as HdrHistogram's plotter reads them, in microseconds.
pub fn write_hgrm(histogram: &Histogram<u64>, to: &mut impl Write) -> io::Result<()> {
    const SCALE: f64 = 1000.0;
    writeln!(to, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for value in histogram.iter_quantiles(5) {
        total += value.count_since_last_iteration();
        let (microseconds, quantile) = (value.value_iterated_to() as f64 / SCALE, value.quantile_iterated_to());
        write!(to, "{microseconds:12.3} {quantile:2.12} {total:10}")?;
        if quantile < 1.0 { writeln!(to, " {:14.2}", 1.0 / (1.0 - quantile))? } else { writeln!(to)? }
    }
    let (mean, deviation) = (histogram.mean() / SCALE, histogram.stdev() / SCALE);
    writeln!(to, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
    let max = histogram.max() as f64 / SCALE;
    writeln!(to, "#[Max     = {max:12.3}, Total count    = {:12}]", histogram.len())?;
    let buckets = histogram.distinct_values();
    writeln!(to, "#[Buckets = {buckets:12}, SubBuckets     = {:12}]", 1 << (DIGITS + 8))
}

/// Writes an interval log of one interval: the whole run.
pub fn write_hlog(
    histogram: &Histogram<u64>,
    began: SystemTime,
    length: Duration,
    to: &mut impl Write,
) -> io::Result<()> {
    let mut serializer = V2Serializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_start_time(began)
        .with_base_time(began)
        .add_comment("pktgen: latencies in nanoseconds")
        .with_max_value_divisor(1e6)
        .begin_log_with(to, &mut serializer)?;
    log.write_histogram(histogram, Duration::ZERO, length, None).map_err(|error| io::Error::other(format!("{error:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn recorded() -> Histogram<u64> {
        let mut histogram = histogram();
        (1..=100_000u64).for_each(|n| histogram.record(n * 10).unwrap());
        histogram
    }

    #[test]
    fn percentiles_are_of_one_data_set() {
        let latency = Latency::of(&recorded()).unwrap();
        let Latency { min_ns, p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, max_ns, .. } = latency;
        let all = [min_ns, p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, max_ns];
        assert!(all.is_sorted(), "{all:?}");
        for (got, want) in all.into_iter().zip([10, 500_000, 900_000, 990_000, 999_000, 999_900, 1_000_000]) {
            assert!(got.abs_diff(want) <= want / 900, "{got} {want}");
        }
        assert!((latency.mean_ns - 500_005.0).abs() < 300.0);
        assert_eq!(Latency::of(&histogram()), None);
    }

    #[test]
    fn a_log_is_read_back() {
        let (histogram, mut log) = (recorded(), Vec::new());
        write_hlog(&histogram, SystemTime::UNIX_EPOCH, Duration::from_secs(3), &mut log).unwrap();
        let entry = IntervalLogIterator::new(&log).find_map(|entry| match entry.unwrap() {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let bytes = base64(entry.unwrap().encoded_histogram());
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read, histogram);
    }

    fn base64(text: &str) -> Vec<u8> {
        let value = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(value).collect();
        let mut bytes = Vec::new();
        for four in digits.chunks(4) {
            let bits = four.iter().enumerate().fold(0u32, |bits, (i, digit)| bits | u32::from(*digit) << (18 - 6 * i));
            bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
        }
        bytes
    }

    #[test]
    fn a_percentile_file_has_its_form() {
        let mut text = Vec::new();
        write_hgrm(&recorded(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.len() > 20 && rows.is_sorted_by(|a, b| a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]));
        let last = rows.last().unwrap();
        assert_eq!((last[1], last[2]), (1.0, 100_000.0));
        assert!(text.contains("#[Mean") && text.contains("#[Max"));
    }
}
