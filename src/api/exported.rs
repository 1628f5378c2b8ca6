//! Counters of an IPFIX export.

use std::sync::Mutex;

use super::view;
use crate::lock::Hold;

/// The error of a switch or controller that exports nothing.
pub const NOT_EXPORTED: &str = "nothing is exported as IPFIX; start it with --ipfix ADDRESS:PORT";

/// Counters of an exporter, which others read.
#[derive(Debug)]
pub struct ExportCounters(Mutex<view::Exported>);

impl ExportCounters {
    /// Of the export to this collector.
    pub fn new(collector: impl ToString) -> Self {
        Self(Mutex::new(view::Exported { collector: collector.to_string(), ..view::Exported::default() }))
    }

    pub fn count(&self, count: impl FnOnce(&mut view::Exported)) {
        count(&mut self.0.hold());
    }

    pub fn view(&self) -> view::Exported {
        self.0.hold().clone()
    }
}
