//! A controller as a process.
//!
//! Threads of their own serve the connections of switches and decode records. One thread, the
//! [`ControllerLoop`], drives the pure [`Controller`](super::controller::Controller) of each program
//! with records and time, and publishes their parameter updates. A program is named by its place in
//! the configuration.

mod members;
mod control_loop;
mod state;

pub use control_loop::ControllerLoop;
pub use members::ControllerServer;
pub use state::{State, StateError, StateFile};

use tokio::sync::oneshot;

use super::controller::{ChangeError, EvictError, JoinError, JoinRequest, Report};
use crate::program::ProgramConfig;
use crate::telemetry::epoch::Nanos;

/// Messages from connections to the loop.
enum Event {
    /// A switch with some of the programs.
    Joins(Vec<(usize, JoinRequest)>, oneshot::Sender<Result<(), JoinError>>),
    /// A record of a program, with the switch's clock when it was sent.
    Reports(usize, String, Report, Nanos),
    Leaves(String),
    /// Somebody asks for it.
    Evicts(String, oneshot::Sender<Result<(), EvictError>>),
    /// Somebody has another configuration of a program measured with.
    Changes(ProgramConfig, oneshot::Sender<Result<u64, ChangeError>>),
}

#[cfg(test)]
mod tests;
