//! IPFIX (RFC 7011) over UDP: heavy flows, flows that lost packets, paths and drops, for any collector.
//!
//! Every element is IANA's, so that a collector needs no file of ours. `template` says what records consist of,
//! `flows` and `options` make records of answers and counters, `message` packs them into messages that fit the
//! path's MTU, `exporter` follows the histories, and `thread` runs it beside a switch or a controller.

mod element;
mod exporter;
mod flows;
mod message;
mod options;
mod template;
mod thread;

#[cfg(test)]
mod tests;

pub use exporter::{Exporter, Source};
pub use flows::{FlowRecord, Measured};
pub use message::{Message, Messages, Refused, Sink};
pub use options::OptionsRecord;
pub use template::Template;
pub use thread::ExportThread;
