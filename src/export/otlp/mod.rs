//! OTLP over gRPC: metrics and log records for an OpenTelemetry collector.
//!
//! `openmetrics` reads the text that `/metrics` serves and `metrics` makes data points of it, so that a new metric
//! is sent without another list. `records` makes log records and keeps those that wait, `events` makes some of what
//! weir logs, `epochs` of what final epochs showed. `client` sends both, and `thread` runs it beside a switch or a
//! controller.

mod client;
mod epochs;
mod events;
mod metrics;
mod openmetrics;
mod records;
mod thread;

#[cfg(test)]
mod tests;

pub use client::{Client, OtlpError};
pub use events::{EventLayer, open};
pub use records::LogQueue;
pub use thread::{OtlpThread, Source};
