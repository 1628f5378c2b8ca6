//! What the paper says of Figures 7 to 9 and of Figures 14 to 19 (§5.2, appendix E). Its curves
//! exist as pictures only; this is their text.

use weir::program::chamelemon::attention::State;

use super::runs::{Load, Sweep};

/// The largest number of flows, in thousands, at which the network is still healthy, and the least
/// load in percent where not all flows are recorded; none where the text names none.
pub const TEXT: [(&str, u32, Option<f64>); 4] =
    [("DCTCP", 70, Some(65.0)), ("CACHE", 70, None), ("VL2", 60, Some(51.0)), ("HADOOP", 60, Some(47.0))];

/// The same against the share of victims: healthy up to 12.5 % for all four.
const HEALTHY_VICTIMS: f64 = 12.5;
const VICTIMS_LOAD: [Option<f64>; 4] = [Some(65.0), None, Some(53.0), Some(48.0)];

/// Epochs in which the eight changes of Figure 9 are absorbed, DCTCP.
pub const ABSORBED: [usize; 8] = [1, 2, 3, 2, 2, 1, 1, 1];

/// The state that the paper reports.
pub fn state(workload: usize, sweep: Sweep, (flows, victims): Load) -> Option<State> {
    let healthy = match sweep {
        Sweep::Flows => flows <= TEXT[workload].1,
        Sweep::Victims => victims <= HEALTHY_VICTIMS,
        Sweep::Time => return None,
    };
    Some(if healthy { State::Healthy } else { State::Ill })
}

/// The load in percent that it never falls below.
pub fn load(workload: usize, sweep: Sweep) -> Option<f64> {
    match sweep {
        Sweep::Flows => TEXT[workload].2,
        Sweep::Victims => VICTIMS_LOAD[workload],
        Sweep::Time => None,
    }
}
