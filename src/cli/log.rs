//! Logs on stderr: for people, or one JSON object a line. What weir logs also goes to an OpenTelemetry collector
//! where there is one.

use std::sync::OnceLock;

use clap::ValueEnum;
#[cfg(feature = "control")]
use tracing_subscriber::Layer;
#[cfg(feature = "control")]
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::output;
#[cfg(feature = "control")]
use crate::export::otlp::EventLayer;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    /// One JSON object a line, with the time in UTC
    Json,
}

static FORMAT: OnceLock<Format> = OnceLock::new();

/// The name of events that people read in another form than as lines of the log.
#[cfg(feature = "control")]
const SAID: &str = "said";

/// Logs weir's own messages and warnings of libraries; `verbose` asks for more, `RUST_LOG`
/// overrules both, unless it cannot be read.
pub fn start(verbose: u8, format: Format) {
    let level = match verbose {
        0 => "warn,weir=info",
        1 => "info",
        _ => "debug",
    };
    let asked = std::env::var("RUST_LOG").ok().filter(|asked| !asked.is_empty());
    let filter: Option<Targets> = asked.and_then(|asked| asked.parse().ok()).or_else(|| level.parse().ok());
    let colours = std::env::var_os("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let registry = tracing_subscriber::registry().with(filter);
    #[cfg(feature = "control")]
    let registry = registry.with(EventLayer::new());
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        #[cfg(feature = "control")]
        Format::Text => {
            let unsaid = FilterFn::new(|metadata| metadata.name() != SAID);
            registry.with(log.with_ansi(colours).without_time().with_filter(unsaid)).init();
        }
        #[cfg(not(feature = "control"))]
        Format::Text => registry.with(log.with_ansi(colours).without_time()).init(),
        Format::Json => {
            registry.with(log.json().flatten_event(true).with_current_span(false).with_span_list(false)).init()
        }
    }
    let _ = FORMAT.set(format);
}

fn is_json() -> bool {
    FORMAT.get() == Some(&Format::Json)
}

/// The switch named `name` forwards, or the controller serves.
#[cfg(feature = "control")]
pub fn ready(name: &str, describe: &str) {
    tracing::info!(name: SAID, target: "weir", event = "ready", switch = name, "{describe}");
    if !is_json() {
        output::say(&format!("weir: {describe}"));
    }
}

/// The switch has taken its configuration over again; `changes` says what is different.
#[cfg(feature = "dpdk")]
pub fn reloaded(name: &str, changes: &str) {
    tracing::info!(name: SAID, target: "weir", event = "reloaded", switch = name, "{changes}");
    if !is_json() {
        output::say(&format!("weir: reloaded: {changes}"));
    }
}

/// The totals of a switch that has ended; people read them on stdout.
#[cfg(feature = "dpdk")]
pub fn stopped(name: &str, seconds: f64, packets: &crate::api::view::Packets) {
    if is_json() {
        tracing::info!(
            target: "weir",
            event = "stopped",
            switch = name,
            seconds,
            rx_packets = packets.rx_packets,
            copied_packets = packets.copied_packets,
            tx_packets = packets.tx_packets,
            dropped_packets = packets.dropped_packets,
            "stopped"
        );
    }
}

/// The command ends early with this exit code.
pub fn failed(code: u8, message: &str) {
    match is_json() {
        true => tracing::error!(target: "weir", event = "failed", exit_code = code, "{message}"),
        false => output::say(&format!("weir: {message}")),
    }
}
