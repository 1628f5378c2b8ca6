//! A controller as a process.
//!
//! Threads of their own serve the connections of switches and decode records. One thread, the
//! [`ControllerLoop`], drives the pure [`Controller`](super::controller::Controller) with records
//! and time, and publishes its parameter updates.

mod members;
mod control_loop;
mod state;

pub use control_loop::ControllerLoop;
pub use members::ControllerServer;
pub use state::{State, StateError, StateFile};

use tokio::sync::oneshot;

use super::controller::{EvictError, JoinError, JoinRequest, Report};
use crate::telemetry::epoch::Nanos;

/// Messages from connections to the loop.
enum Event {
    Joins(JoinRequest, oneshot::Sender<Result<(), JoinError>>),
    /// With the switch's clock when it was sent.
    Reports(String, Report, Nanos),
    Leaves(String),
    /// Somebody asks for it.
    Evicts(String, oneshot::Sender<Result<(), EvictError>>),
}

#[cfg(test)]
mod tests;
