//! Beside the dataplane: the collector that turns registers into answers, and the API that gives them.

pub mod api;
pub mod baseline;
pub mod client;
mod collector;
pub mod controller;
pub mod desk;
pub mod documents;
pub mod duties;
pub mod flows;
mod learning;
pub mod metrics;
mod routing;
pub mod rpc;
mod run;
pub mod score;
pub mod serve;
pub mod socket;
pub mod tables;
pub mod taps;
pub mod tls;
pub mod view;
pub mod watch;

pub use baseline::About;
pub use collector::{Closed, Collector, Sink};
pub use learning::Learning;
pub use routing::Routing;
pub use run::Run;

/// The system's time since 1970.
pub(crate) fn wall_clock() -> crate::epoch::Nanos {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as crate::epoch::Nanos)
}
