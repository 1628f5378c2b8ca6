//! When frames are sent: an open schedule, which does not wait for what became of the frames before.

mod arrivals;
mod rate;
mod schedule;

pub use arrivals::Arrivals;
pub use rate::{Layer, Rate};
pub use schedule::{Pace, Schedule};
