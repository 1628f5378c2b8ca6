//! Answers by task, whatever the program: with their epochs and gaps, and why they are not
//! complete.

mod completeness;
mod distribution;
mod epoch;
mod gap;
mod loops;
mod paths;
mod task;
mod values;

pub use completeness::{Reason, Reasons};
pub use distribution::{Distribution, rounded};
pub use epoch::{
    Adaptation, Change, Changes, Described, EpochAnswers, Finality, FlowAnswers, FlowCount, FlowName, Limits, Loss,
    Losses, SwitchAnswers,
};
pub use gap::{Gap, SwitchGap};
pub use loops::{FlowLoop, LoopAnswers};
pub use paths::{Certainty, FlowPath, PathAnswers, SureOf};
pub use task::Task;
pub use values::{Between, FlowValues, Frequent, Mean, Quantiles, Told, ValueAnswers, ValueUnit};
