//! What a program answers: its gaps, and when an answer is complete.

mod completeness;
mod gap;

pub use completeness::{Reason, Reasons};
pub use gap::{Gap, SwitchGap};
