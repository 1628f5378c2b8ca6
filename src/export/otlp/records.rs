//! Log records, and those that wait to be sent.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};

use crate::lock::Hold;
use crate::telemetry::epoch::wall_clock;

/// Log records that wait at most.
pub const ROOM: usize = 2048;
/// Longest text of a log record, in bytes.
const LONGEST_TEXT: usize = 1024;

/// Log records that wait to be sent. One that finds no room is dropped and counted.
#[derive(Debug, Default)]
pub struct LogQueue {
    records: Mutex<VecDeque<LogRecord>>,
    dropped: AtomicU64,
}

impl LogQueue {
    pub fn push(&self, record: LogRecord) {
        let mut records = self.records.hold();
        if records.len() < ROOM {
            records.push_back(record);
        } else {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Takes the oldest records out.
    pub fn take(&self, at_most: usize) -> Vec<LogRecord> {
        let mut records = self.records.hold();
        let taken = records.len().min(at_most);
        records.drain(..taken).collect()
    }

    pub fn len(&self) -> usize {
        self.records.hold().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// A log record of this event. `time` is when it happened, in nanoseconds since 1970; `None` is now.
pub fn record(
    event: &str,
    severity: SeverityNumber,
    time: Option<u64>,
    body: &str,
    attributes: Vec<KeyValue>,
) -> LogRecord {
    let now = wall_clock();
    let text = severity.as_str_name().trim_start_matches("SEVERITY_NUMBER_");
    LogRecord {
        time_unix_nano: time.unwrap_or(now),
        observed_time_unix_nano: now,
        severity_number: severity.into(),
        severity_text: text.into(),
        body: Some(body.into_value()),
        attributes,
        event_name: event.into(),
        ..LogRecord::default()
    }
}

/// What can be the value of an attribute.
pub trait IntoValue {
    fn into_value(self) -> AnyValue;
}

impl IntoValue for &str {
    fn into_value(self) -> AnyValue {
        AnyValue { value: Some(Value::StringValue(clipped(self, LONGEST_TEXT))) }
    }
}

impl IntoValue for i64 {
    fn into_value(self) -> AnyValue {
        AnyValue { value: Some(Value::IntValue(self)) }
    }
}

impl IntoValue for u64 {
    fn into_value(self) -> AnyValue {
        i64::try_from(self).unwrap_or(i64::MAX).into_value()
    }
}

impl IntoValue for bool {
    fn into_value(self) -> AnyValue {
        AnyValue { value: Some(Value::BoolValue(self)) }
    }
}

impl IntoValue for f64 {
    fn into_value(self) -> AnyValue {
        AnyValue { value: Some(Value::DoubleValue(self)) }
    }
}

impl IntoValue for Vec<String> {
    fn into_value(self) -> AnyValue {
        let values = self.iter().map(|text| text.as_str().into_value()).collect();
        AnyValue { value: Some(Value::ArrayValue(ArrayValue { values })) }
    }
}

pub fn attribute(key: &str, value: impl IntoValue) -> KeyValue {
    KeyValue { key: key.into(), value: Some(value.into_value()), ..KeyValue::default() }
}

/// The text's first bytes, up to a whole character.
pub fn clipped(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.into();
    }
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &text[..end])
}
