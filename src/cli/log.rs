//! Logs on stderr: for people, or one JSON object a line.

use std::sync::OnceLock;

use clap::ValueEnum;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::output;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    /// One JSON object a line, with the time in UTC
    Json,
}

static FORMAT: OnceLock<Format> = OnceLock::new();

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
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
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
    match is_json() {
        true => tracing::info!(target: "weir", event = "ready", switch = name, "{describe}"),
        false => output::say(&format!("weir: {describe}")),
    }
}

/// The switch has taken its configuration over again; `changes` says what is different.
#[cfg(feature = "dpdk")]
pub fn reloaded(name: &str, changes: &str) {
    match is_json() {
        true => tracing::info!(target: "weir", event = "reloaded", switch = name, "{changes}"),
        false => output::say(&format!("weir: reloaded: {changes}")),
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
