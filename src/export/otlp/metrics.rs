//! Data points of OpenMetrics text.

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum, metric,
};

use super::openmetrics::{Family, Kind, Sample, families};
use super::records::attribute;

/// Data points of a request at most. With the longest labels they are fewer bytes than the 4 MiB that gRPC servers
/// take by default.
const REQUEST_POINTS: usize = 2000;

/// The name of the metric that says when the process started.
const START_TIME: &str = "weir_start_time_seconds";

/// The units of names, as UCUM has them. Behind them only `_total` follows.
const UNITS: [(&str, &str); 6] = [
    ("_seconds", "s"),
    ("_bytes", "By"),
    ("_bits", "bit"),
    ("_packets", "{packet}"),
    ("_epochs", "{epoch}"),
    ("_cycles", "{cycle}"),
];

/// Metrics of a request, and the number of their data points.
pub type Batch = (Vec<Metric>, u64);

/// Since when each cumulative series counts.
///
/// Those of the first text count since the start of the process. One that appears later counts since the text before,
/// and so does one that went down, because it began again at 0.
#[derive(Debug, Default)]
pub struct Starts {
    /// Time of the last text, in nanoseconds since 1970.
    last: Option<u64>,
    /// By name and labels: the total, and since when it is counted.
    series: HashMap<String, (f64, u64)>,
}

impl Starts {
    /// The metrics of a text of this time, in nanoseconds since 1970, in batches for requests.
    pub fn batches(&mut self, text: &str, now: u64) -> Vec<Batch> {
        let families = families(text);
        let mut points = Points::new(self, &families, now);
        let mut batches: Vec<Batch> = Vec::new();
        for (metric, added) in families.iter().flat_map(|family| points.metrics(family)) {
            match batches.last_mut().filter(|(_, points)| points + added <= REQUEST_POINTS as u64) {
                Some((metrics, points)) => {
                    metrics.push(metric);
                    *points += added;
                }
                None => batches.push((vec![metric], added)),
            }
        }
        let series = points.series;
        *self = Self { last: Some(now), series };
        batches
    }
}

/// Makes the data points of one text.
struct Points<'a> {
    before: &'a Starts,
    /// Since when series count that the text before did not have.
    start: u64,
    now: u64,
    series: HashMap<String, (f64, u64)>,
}

impl<'a> Points<'a> {
    fn new(before: &'a Starts, families: &[Family<'_>], now: u64) -> Self {
        let samples = families.iter().flat_map(|family| &family.samples);
        let started = samples.into_iter().find(|sample| sample.name == START_TIME);
        let started = started.and_then(|sample| sample.value.parse::<f64>().ok());
        let started = started.map_or(now, |seconds| ((seconds * 1e9) as u64).min(now));
        Self { before, start: before.last.unwrap_or(started), now, series: HashMap::new() }
    }

    /// Since when a series with this total counts.
    fn start(&mut self, series: &str, total: f64) -> u64 {
        let before = self.before.series.get(series).filter(|(before, _)| *before <= total);
        let start = before.map_or(self.start, |(_, start)| *start);
        self.series.insert(series.to_owned(), (total, start));
        start
    }

    /// The metrics of a family with the numbers of their data points: several where one has too many.
    fn metrics(&mut self, family: &Family<'_>) -> Vec<(Metric, u64)> {
        let Some(name) = family.samples.first().map(|sample| sample.name) else { return Vec::new() };
        match family.kind {
            Kind::Histogram => {
                let points = self.histograms(&family.samples);
                let name = name.rsplit_once('_').map_or(name, |(name, _)| name);
                in_parts(name, family.help, points, |data_points| {
                    let aggregation_temporality = AggregationTemporality::Cumulative.into();
                    metric::Data::Histogram(Histogram { data_points, aggregation_temporality })
                })
            }
            Kind::Counter => {
                let points = family.samples.iter().filter_map(|sample| self.number(sample, true)).collect();
                in_parts(name, family.help, points, |data_points| {
                    let aggregation_temporality = AggregationTemporality::Cumulative.into();
                    metric::Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
                })
            }
            Kind::Gauge => {
                let points = family.samples.iter().filter_map(|sample| self.number(sample, false)).collect();
                in_parts(name, family.help, points, |data_points| metric::Data::Gauge(Gauge { data_points }))
            }
        }
    }

    fn number(&mut self, sample: &Sample<'_>, is_total: bool) -> Option<NumberDataPoint> {
        let total: f64 = sample.value.parse().ok()?;
        let value = sample.value.parse().map_or(Value::AsDouble(total), Value::AsInt);
        Some(NumberDataPoint {
            attributes: attributes(&sample.labels),
            start_time_unix_nano: if is_total { self.start(sample.series, total) } else { 0 },
            time_unix_nano: self.now,
            value: Some(value),
            ..NumberDataPoint::default()
        })
    }

    /// A histogram for each set of labels. Its samples stand together: sum, number, buckets in the order of their bounds.
    fn histograms(&mut self, samples: &[Sample<'_>]) -> Vec<HistogramDataPoint> {
        let mut points: Vec<HistogramDataPoint> = Vec::new();
        let mut below = 0;
        for sample in samples {
            if sample.name.ends_with("_sum") {
                below = 0;
                points.push(HistogramDataPoint {
                    attributes: attributes(&sample.labels),
                    time_unix_nano: self.now,
                    sum: sample.value.parse().ok(),
                    ..HistogramDataPoint::default()
                });
            }
            let Some(point) = points.last_mut() else { continue };
            let count: u64 = sample.value.parse().unwrap_or_default();
            if sample.name.ends_with("_count") {
                point.count = count;
                point.start_time_unix_nano = self.start(sample.series, count as f64);
            } else if sample.name.ends_with("_bucket") {
                let bound = sample.labels.iter().find(|(label, _)| *label == "le");
                let bound = bound.and_then(|(_, bound)| bound.parse::<f64>().ok()).filter(|bound| bound.is_finite());
                point.explicit_bounds.extend(bound);
                point.bucket_counts.push(count.saturating_sub(below));
                below = count;
            }
        }
        points
    }
}

fn attributes(labels: &[(&str, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(label, value)| attribute(label, value.as_str())).collect()
}

/// A metric of these points, or several of the same name.
fn in_parts<P>(name: &str, help: &str, points: Vec<P>, data: impl Fn(Vec<P>) -> metric::Data) -> Vec<(Metric, u64)> {
    let bare = name.strip_suffix("_total").unwrap_or(name);
    let unit = UNITS.iter().find(|(suffix, _)| bare.ends_with(suffix)).map_or("", |(_, unit)| *unit);
    let mut points = points.into_iter().peekable();
    let mut parts = Vec::new();
    while points.peek().is_some() {
        let part: Vec<P> = points.by_ref().take(REQUEST_POINTS).collect();
        let added = part.len() as u64;
        let metric = Metric {
            name: name.into(),
            description: help.into(),
            unit: unit.into(),
            data: Some(data(part)),
            ..Metric::default()
        };
        parts.push((metric, added));
    }
    parts
}
