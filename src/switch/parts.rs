//! The parts of a switch that can be changed while it runs.

use super::{PortInfo, Telemetry};
use crate::forward::Forward;
use crate::pisa::BatchOrder;

/// The parts of a switch that can change while it runs. Those that are there change places with the
/// ones in use.
#[derive(Default)]
pub struct Parts {
    /// All ports by their numbers.
    pub ports: Option<Vec<PortInfo>>,
    pub forward: Option<Forward>,
    pub order: Option<BatchOrder>,
    pub telemetry: Option<Telemetry>,
}
