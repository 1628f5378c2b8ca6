//! Faults on purpose, at any port: for tests, and to show what loss, delay and disorder do.
//!
//! They stand between the device and the switch. What they drop on the way in the switch never
//! sees; what they drop on the way out has been sent, as far as the switch can know. So their
//! counts stand with those of the device.

#[cfg(any(feature = "dpdk", test))]
mod engine;
mod filter;
#[cfg(feature = "dpdk")]
mod point;
mod spec;

#[cfg(feature = "dpdk")]
pub use engine::HELD;
#[cfg(feature = "dpdk")]
pub(super) use engine::{Counts, Engine, Sealed};
pub use filter::Filter;
#[cfg(feature = "dpdk")]
pub(super) use point::{FaultEnd, FaultPoint};
pub use spec::{FaultError, FaultSpec, Rate, Rule, Way};
