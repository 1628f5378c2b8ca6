//! Log records of what weir logs.

use std::fmt;
use std::sync::{Arc, OnceLock};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::records::{IntoValue, LogQueue, attribute, record};

/// Where the process's log records wait, once they are wanted.
static QUEUE: OnceLock<Arc<LogQueue>> = OnceLock::new();

/// Keeps what weir logs from now on. The queue is that of the process.
pub fn open() -> Arc<LogQueue> {
    QUEUE.get_or_init(Arc::default).clone()
}

/// Makes log records of what weir logs, but not its libraries.
pub struct EventLayer(&'static OnceLock<Arc<LogQueue>>);

impl EventLayer {
    /// For the queue of the process.
    pub fn new() -> Self {
        Self(&QUEUE)
    }

    /// For another queue.
    pub fn for_queue(queue: &'static OnceLock<Arc<LogQueue>>) -> Self {
        Self(queue)
    }
}

impl Default for EventLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Subscriber> Layer<S> for EventLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(queue) = self.0.get() else { return };
        let metadata = event.metadata();
        if metadata.target() != "weir" && !metadata.target().starts_with("weir::") {
            return;
        }
        let severity = match *metadata.level() {
            Level::ERROR => SeverityNumber::Error,
            Level::WARN => SeverityNumber::Warn,
            Level::INFO => SeverityNumber::Info,
            Level::DEBUG => SeverityNumber::Debug,
            Level::TRACE => SeverityNumber::Trace,
        };
        let mut fields = Fields::default();
        event.record(&mut fields);
        queue.push(record(&fields.event, severity, None, &fields.message, fields.attributes));
    }
}

/// The fields of an event: what it is called, its message, and the rest.
#[derive(Default)]
struct Fields {
    event: String,
    message: String,
    attributes: Vec<KeyValue>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: impl IntoValue) {
        self.attributes.push(attribute(field.name(), value));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "event" => {
                value.clone_into(&mut self.event);
                self.add(field, value);
            }
            _ => self.add(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
