//! The metrics of an export to an IPFIX collector.

use std::fmt::Error;

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;

use super::Families;
use crate::api::view::Exported;

type ExportCounter = (&'static str, &'static str, fn(&Exported) -> u64);

const EXPORT_COUNTERS: [ExportCounter; 5] = [
    ("ipfix_messages", "Messages sent to the collector", |exported| exported.messages),
    ("ipfix_flow_records", "Records of flows sent to the collector", |exported| exported.flow_records),
    ("ipfix_unsent_messages", "Messages that the system did not take", |exported| exported.unsent_messages),
    ("ipfix_missed_epochs", "Epochs that were not analysed, or were forgotten before they were exported", |exported| {
        exported.missed_epochs
    }),
    ("ipfix_incomplete_answers", "Answers that were exported and were not complete", |exported| {
        exported.incomplete_answers
    }),
];

/// A reason why records of flows were not sent.
type UnsentReason = (&'static str, fn(&Exported) -> u64);

const UNSENT_REASONS: [UnsentReason; 3] = [
    ("unsent", |exported| exported.unsent_flow_records),
    ("unnamed", |exported| exported.unnamed_flows),
    ("long", |exported| exported.long_records),
];

impl Families<'_> {
    pub(super) fn exported(&mut self, exported: &Exported) -> Result<(), Error> {
        for (name, help, read) in EXPORT_COUNTERS {
            let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&read(exported), None)?;
        }
        let samples = UNSENT_REASONS.map(|(reason, read)| ([("reason", reason.into())], read(exported)));
        self.counters("ipfix_unsent_flow_records", "Records of flows that were not sent", samples.into_iter())
    }
}
