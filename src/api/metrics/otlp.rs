//! The metrics of an export to an OpenTelemetry collector.

use std::fmt::Error;

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;

use super::Families;
use crate::api::view::Otlp;

type OtlpCounter = (&'static str, &'static str, fn(&Otlp) -> u64);

const OTLP_COUNTERS: [OtlpCounter; 6] = [
    ("otlp_data_points", "Data points of metrics that the collector took", |otlp| otlp.data_points),
    ("otlp_rejected_data_points", "Data points that the collector refused", |otlp| otlp.rejected_data_points),
    ("otlp_log_records", "Log records that the collector took", |otlp| otlp.log_records),
    ("otlp_rejected_log_records", "Log records that the collector refused", |otlp| otlp.rejected_log_records),
    ("otlp_dropped_log_records", "Log records that were not sent because too many waited", |otlp| {
        otlp.dropped_log_records
    }),
    ("otlp_failed_requests", "Requests that came to nothing", |otlp| otlp.failed_requests),
];

impl Families<'_> {
    pub(super) fn otlp(&mut self, otlp: &Otlp) -> Result<(), Error> {
        for (name, help, read) in OTLP_COUNTERS {
            let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&read(otlp), None)?;
        }
        let requests = [("metrics", otlp.metric_requests), ("logs", otlp.log_requests)];
        let requests = requests.map(|(signal, requests)| ([("signal", signal.into())], requests));
        self.counters("otlp_requests", "Requests that the collector took", requests.into_iter())?;
        let help = "Log records that wait to be sent";
        let mut queued = self.0.encode_descriptor("otlp_queued_log_records", help, None, MetricType::Gauge)?;
        queued.encode_gauge(&otlp.queued_log_records)
    }
}
