//! Beside the dataplane: the collector that turns registers into answers, and the API that gives them.

pub mod api;
pub mod client;
mod collector;
pub mod flows;
mod history;
mod learning;
mod routing;
pub mod score;
pub mod socket;
pub mod tables;
pub mod taps;
pub mod view;

pub use collector::Collector;
pub use history::{Epoch, History, Window};
pub use learning::Learning;
pub use routing::Routing;
