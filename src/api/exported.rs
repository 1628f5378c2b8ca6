//! Counters of exports.

use std::sync::Mutex;

use super::view;
use crate::lock::Hold;

/// The error of a switch or controller that exports nothing.
pub const NOT_EXPORTED: &str = "nothing is exported as IPFIX; start it with --ipfix ADDRESS:PORT";

/// The error of one that sends nothing as OTLP.
pub const NOT_SENT: &str = "nothing is sent as OTLP; start it with --otlp http://HOST:PORT";

/// Counters of an exporter, which others read.
#[derive(Debug)]
pub struct ExportCounters<V = view::Exported>(Mutex<V>);

/// Counters of an OTLP export.
pub type OtlpCounters = ExportCounters<view::Otlp>;

impl ExportCounters {
    /// Of the export to this collector.
    pub fn new(collector: impl ToString) -> Self {
        Self(Mutex::new(view::Exported { collector: collector.to_string(), ..view::Exported::default() }))
    }
}

impl OtlpCounters {
    /// Of what is sent to this collector.
    pub fn to(collector: &str) -> Self {
        Self(Mutex::new(view::Otlp { collector: collector.to_owned(), ..view::Otlp::default() }))
    }
}

impl<V: Clone> ExportCounters<V> {
    pub fn count(&self, count: impl FnOnce(&mut V)) {
        count(&mut self.0.hold());
    }

    pub fn view(&self) -> V {
        self.0.hold().clone()
    }
}
