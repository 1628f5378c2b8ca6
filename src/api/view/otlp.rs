//! How the export of metrics and log records to a collector stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::output::{Cell, Page, Table, row};

/// `weir show otlp`: totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Otlp {
    /// Where the collector is.
    pub collector: String,
    /// Requests that the collector took, and the data points of metrics in them.
    pub metric_requests: u64,
    pub data_points: u64,
    /// Data points that the collector refused.
    pub rejected_data_points: u64,
    /// Requests that the collector took, and the log records in them.
    pub log_requests: u64,
    pub log_records: u64,
    /// Log records that the collector refused.
    pub rejected_log_records: u64,
    /// Requests that came to nothing. Log records in them are sent again.
    pub failed_requests: u64,
    /// Log records that wait.
    pub queued_log_records: u64,
    /// Log records that were not sent because too many waited.
    pub dropped_log_records: u64,
    /// Why the last request that failed, or was refused in whole or in part, was.
    pub last_error: Option<String>,
}

impl Otlp {
    pub fn page(&self) -> Page {
        let row = |(what, count): (&str, u64)| row![Cell::new(what, what.replace(' ', "_")), count];
        let counts = [
            ("metric requests", self.metric_requests),
            ("data points", self.data_points),
            ("rejected data points", self.rejected_data_points),
            ("log requests", self.log_requests),
            ("log records", self.log_records),
            ("rejected log records", self.rejected_log_records),
            ("failed requests", self.failed_requests),
            ("queued log records", self.queued_log_records),
            ("dropped log records", self.dropped_log_records),
        ];
        let page = Page::default().text(format!("OTLP to {}", self.collector));
        let page = page.table("otlp", Table::new(["OTLP|what", ">count"], counts.into_iter().map(row)));
        match &self.last_error {
            Some(error) => page.text(format!("the last request that was not taken: {error}")),
            None => page,
        }
    }
}
