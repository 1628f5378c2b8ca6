//! Sends and receives over weir's ports: one thread on each core, which owns its queues, its flows
//! and its counts.

mod core;
mod live;
mod pair;
mod result;
mod rig;

pub use self::core::MAX_BURST;
pub use live::{Progress, Watch};
pub use pair::{Pair, PairPlan, PairProgress, PairResult};
pub use result::{CoreResult, Limit, RunResult, Sent};
pub use rig::{Rig, RunPlan, Setup};
