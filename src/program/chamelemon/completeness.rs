//! When an answer is complete: one rule for switches, controllers, simulations and replays.
//!
//! A flow's loss in an epoch is its net: the packets of it that entered the network in that epoch,
//! less those of them that left, whenever they left. An answer about losses is complete when it has
//! the exact net of every flow. FermatSketch knows nothing but nets, so it cannot tell a flow that
//! lost one packet and had another one doubled from a flow that had neither. Losses of an epoch in
//! which any flow gained packets are therefore not complete.
//!
//! The other answers are complete when no flow that they ask for is missing.

use super::decoder::Losses;
use super::{EncoderParameters, Partition};
use crate::history::{Reason, Reasons};

/// Why the losses of an epoch are not complete. `None` stands for losses that are unknown.
pub fn losses_lack(losses: Option<&Losses>, parameters: &EncoderParameters, has_gaps: bool) -> Reasons {
    let mut reasons = Reasons::default();
    reasons.add_if(has_gaps, Reason::Gap);
    match losses {
        None => reasons.add_if(!has_gaps, Reason::NotAnalysed),
        Some(losses) => {
            reasons.add_if(!losses.decoded, Reason::Undecoded);
            reasons.add_if(losses.gained_packets > 0, Reason::Gained);
        }
    }
    unmeasured(parameters).into_iter().for_each(|reason| reasons.add(reason));
    reasons
}

/// Why packets of some flows are not encoded, whatever becomes of them; `None` when all are.
pub fn unmeasured(parameters: &EncoderParameters) -> Option<Reason> {
    let Partition { hh, hl, ll } = parameters.partition;
    let light = parameters.hl_threshold > 1;
    if hh == 0 || hl == 0 || (light && ll == 0) {
        Some(Reason::Unmeasured)
    } else if light && parameters.sample < EncoderParameters::ALL {
        Some(Reason::Sampled)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
