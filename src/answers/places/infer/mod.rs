//! Where packets were lost, inferred from what the edges of a network know: the packets that each flow sent
//! and lost, and its path. For the members of a network that do not count.
//!
//! **Model.** Each member loses a packet that crosses it with a rate of its own. A *healthy* member's rate is at
//! most the alarm rate, a *failed* one's is above it; each has a prior that is uniform in the logarithm. A flow
//! takes the path that is believed, but for a share [`WRONG_PATHS`] of flows, which take any path between the
//! same two switches; so does a flow whose path is not known. Both directions of a link fail together more
//! often than two members that have nothing in common: a cable is one cause.
//!
//! A member that counts what it lost has that rate, and is not looked for.
//!
//! **Search.** [`Search`] finds the set of failed members with the largest posterior: members are added, removed
//! and exchanged as long as that raises it. Gibbs sampling from there on, with a fixed seed, visits the sets
//! beside it. Each set's rates are those of the maximum likelihood ([`Fit`](fit::Fit)), with a factor for the width of
//! the peak. A fit starts from the rates of the set that this one was made of, and is left after two rounds where it cannot
//! come near the most likely one. A member's confidence is the share of the sets visited that have it, by posterior.
//!
//! **Packets and flows.** Packets of a flow are often lost together, and a model of independent packets is then
//! too sure. So everything is done twice: with packets as trials, and with flows, which either lost packets or
//! did not. A member's confidence is the smaller of both.

mod fit;
mod observed;
mod place;
mod search;
mod survivors;
mod trials;

pub use observed::{EdgesOfEpoch, InferredPlace, Observed};
use search::Search;
use trials::{FlowTrial, Trials};

/// Share of flows that take another path than the one that is believed.
const WRONG_PATHS: f64 = 0.01;
/// Prior probability that a member has failed.
const FAILED: f64 = 1e-3;
/// Probability that a link's other direction has failed, given that one has.
const BOTH_DIRECTIONS: f64 = 0.3;

/// Confidence from which on a member is called failed, and the one that it must have with flows as trials.
const NAMED: f64 = 0.5;
const NAMED_BY_FLOWS: f64 = 0.05;

/// Losses of a member, as inferred.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Losing {
    /// The probability that it has failed: that it loses more than the alarm rate.
    pub confidence: f64,
    /// It has failed, more likely than not where packets are trials, and where flows are not quite unlikely.
    pub failed: bool,
    /// Expected lost packets, and their standard deviation.
    pub packets: f64,
    pub deviation: f64,
    /// Packets that reached it.
    pub reached: f64,
}

/// Losses of all members, and of each flow that lost packets.
#[derive(Clone, Debug, Default, PartialEq)]
struct Inferred {
    members: Vec<Losing>,
    /// By flow in the order of the trials: members that may have lost its packets, each with the expected
    /// number and the probability of none.
    flows: Vec<Vec<(usize, f64, f64)>>,
}

/// Infers which members lost packets. `alarm_rate` is the largest rate of a healthy member.
fn infer(trials: &Trials, alarm_rate: f64) -> Inferred {
    let by_packets = Search::new(trials, alarm_rate).posterior();
    let flows = trials.as_flows();
    let by_flows = Search::new(&flows, flows.rate_of_flows(alarm_rate)).posterior();
    let mut inferred = by_packets.inferred(trials);
    for (member, losing) in inferred.members.iter_mut().enumerate() {
        let of_flows = by_flows.confidence(member);
        losing.failed = losing.confidence >= NAMED && of_flows >= NAMED_BY_FLOWS;
        losing.confidence = losing.confidence.min(of_flows);
    }
    inferred
}

#[cfg(test)]
mod tests;
