//! A controller as a process: between the connections of switches and the pure [`Controller`](super::controller::Controller) stands a desk. Connections are served by
//! threads of their own, which decode records; one thread, the [`Drive`], tells the controller of them and of the time, and
//! publishes its updates.

mod door;
mod drive;
mod state;

pub use door::Desk;
pub use drive::Drive;
pub use state::{State, StateError, StateFile};

use tokio::sync::oneshot;

use super::controller::{ForgetError, JoinError, JoinRequest, Report};
use crate::telemetry::epoch::Nanos;

/// What connections tell the drive.
enum Event {
    Joins(JoinRequest, oneshot::Sender<Result<(), JoinError>>),
    /// With the switch's clock when it was sent.
    Reports(String, Report, Nanos),
    Leaves(String),
    /// Somebody asks for it.
    Forgets(String, oneshot::Sender<Result<(), ForgetError>>),
}

#[cfg(test)]
mod tests;
