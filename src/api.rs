//! The HTTP API, on threads of its own; it never touches a worker.

pub mod view;

#[cfg(feature = "control")]
mod answers;
#[cfg(feature = "control")]
mod archived;
#[cfg(feature = "control")]
pub mod baseline;
#[cfg(feature = "control")]
pub mod client;
#[cfg(feature = "control")]
pub mod controller;
#[cfg(feature = "control")]
pub mod exported;
#[cfg(feature = "control")]
mod messages;
#[cfg(feature = "control")]
pub mod metrics;
#[cfg(feature = "control")]
pub mod observers;
#[cfg(feature = "control")]
pub mod openapi;
#[cfg(feature = "control")]
mod registers;
#[cfg(feature = "control")]
mod routes;
#[cfg(feature = "control")]
pub mod serve;
#[cfg(feature = "control")]
mod service;

#[cfg(feature = "control")]
pub use answers::{document, in_turn};
#[cfg(feature = "control")]
pub use archived::ArchivedAnswers;
#[cfg(feature = "control")]
pub use messages::{Changes, Fault, Flows, HeavyQuery, Link, Mtu, NewPort, Promiscuous};
#[cfg(feature = "control")]
pub use registers::{PendingDump, RegisterQuery};
#[cfg(feature = "control")]
pub use service::{Answering, Service, respond, serve, serve_metrics, serve_registry, switch_metrics};

#[cfg(all(test, feature = "control"))]
pub(crate) mod tests;
