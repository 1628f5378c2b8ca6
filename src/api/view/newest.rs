//! Answers about single flows that each epoch has anew: of several epochs, the newest of each flow.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Claim;
use crate::program::answers::{EpochAnswers, Reason, Reasons};
use crate::telemetry::Selected;

/// What an epoch says of flows.
pub struct OfEpoch<'a, T> {
    pub flows: &'a [T],
    /// Number of flows that were found, whether they are kept or not.
    pub found: usize,
    /// Flows that made place for others, since the start.
    pub evicted: u64,
    /// Why answers are missing.
    pub lack: &'a Reasons,
    pub bounds: Bounds,
}

/// What holds of all numbers of an epoch, as the plan of their packets has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// By how much a number is off at most, and by which factor: whichever is more.
    pub error: f64,
    pub error_factor: f64,
    /// This number, and any beyond it, may stand for larger ones.
    pub largest: Option<f64>,
    /// Nothing is older than this, up to the newest packet; `None` is all time.
    pub window_ns: Option<u64>,
}

impl Bounds {
    /// Of numbers that are exact, of all time.
    pub const NONE: Self = Self { error: 0.0, error_factor: 1.0, largest: None, window_ns: None };

    /// What holds of the numbers of both.
    fn and(self, other: Self) -> Self {
        Self {
            error: self.error.max(other.error),
            error_factor: self.error_factor.max(other.error_factor),
            largest: self.largest.into_iter().chain(other.largest).reduce(f64::min),
            window_ns: self.window_ns.zip(other.window_ns).map(|(one, other)| one.max(other)),
        }
    }
}

/// The newest answer of each flow.
pub struct Newest<'a, T> {
    pub claim: Claim,
    /// Whether any of the epochs has an answer: what is not asked for has none.
    pub asked: bool,
    /// Flows that were found.
    pub flows: u64,
    /// The flows that are named, those of the most packets first.
    pub named: Vec<&'a T>,
    /// Flows that were found and are not named.
    pub omitted_flows: u64,
    /// Flows that made place for others, since the start.
    pub evicted_flows: u64,
    /// What holds of all that are named: plans of several epochs may differ. Without any, that of the
    /// newest epoch.
    pub bounds: Bounds,
}

impl<'a, T> Newest<'a, T> {
    /// `of` gives what an epoch says, `key` what is one flow, and `packets` how much an answer rests
    /// on. Names at most `top` flows, of at least `threshold` packets.
    pub fn new<K: Ord>(
        selected: &'a Selected,
        of: impl for<'e> Fn(&'e EpochAnswers) -> Option<OfEpoch<'e, T>>,
        key: impl Fn(&'a T) -> K,
        packets: impl Fn(&T) -> u64,
        (top, threshold): (usize, u64),
    ) -> Self {
        let lack = |epoch: &EpochAnswers| {
            let Some(answers) = of(epoch) else { return [Reason::NotAsked].into_iter().collect() };
            let mut lack = answers.lack.clone();
            lack.add_if(answers.found > answers.flows.len(), Reason::NotKept);
            lack
        };
        let claim = Claim::new(selected, lack);
        let mut newest = BTreeMap::new();
        let (mut not_kept, mut evicted_flows, mut last) = (0, 0, Bounds::NONE);
        let asked = selected.epochs.iter().any(|epoch| of(epoch).is_some());
        for OfEpoch { flows, found, evicted, bounds, .. } in selected.epochs.iter().filter_map(|epoch| of(epoch)) {
            newest.extend(flows.iter().map(|flow| (key(flow), (flow, bounds))));
            not_kept = not_kept.max(found.saturating_sub(flows.len()));
            (evicted_flows, last) = (evicted, bounds);
        }
        let flows = (newest.len() + not_kept) as u64;
        let mut named: Vec<_> = newest.into_values().filter(|(flow, _)| packets(flow) >= threshold).collect();
        named.sort_by_key(|(flow, _)| Reverse(packets(flow)));
        let omitted_flows = (named.len().saturating_sub(top) + not_kept) as u64;
        named.truncate(top);
        let bounds = named.iter().map(|(_, bounds)| *bounds).reduce(Bounds::and).unwrap_or(last);
        let named = named.into_iter().map(|(flow, _)| flow).collect();
        Self { claim, asked, flows, named, omitted_flows, evicted_flows, bounds }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::view::Utilisation;
    use crate::api::view::queries::tests::answers;
    use crate::program::answers::{Task, ValueAnswers};

    /// An epoch that found one flow more than these of it: a number that names the flow, and packets.
    fn epoch(number: u64, flows: &[(u16, u64)]) -> Arc<EpochAnswers> {
        let flows: Vec<_> = flows.iter().map(|&(flow, packets)| (flow, packets, number as f64)).collect();
        let error_factor = 1.0 + number as f64;
        let of_epoch = answers(Task::Utilisation, "utilisation", &flows);
        let values = vec![ValueAnswers { evicted: number, error_factor, ..of_epoch }];
        Arc::new(EpochAnswers { epoch: number, values, ..EpochAnswers::default() })
    }

    #[test]
    fn each_flow_has_its_newest_answer() {
        let epochs = vec![epoch(1, &[(1, 50), (2, 40), (3, 1)]), epoch(2, &[(1, 10)]), epoch(3, &[(4, 30)])];
        let selected = Selected { epochs, first: 1, ..Selected::default() };
        let found = Utilisation::new(&selected, 2, 2);
        let named = found.utilisations.iter().map(|of| (of.name.flow.sport, of.packets, of.median_utilisation));
        assert_eq!(named.collect::<Vec<_>>(), [(Some(2), 40, 1.0), (Some(4), 30, 3.0)]);
        assert_eq!((found.error_factor, Utilisation::new(&selected, 9, 99).error_factor), (4.0, 4.0));
        // Flow 1 is not named because of `top`, flow 3 was not asked for, and one was not kept.
        assert_eq!((found.flows, found.omitted_flows, found.evicted_flows), (5, 2, 3));
        assert!(found.claim.incomplete.contains(Reason::NotKept) && !found.claim.complete);
        let epochs = vec![Arc::new(EpochAnswers::default())];
        let none = Utilisation::new(&Selected { epochs, ..selected }, 2, 2);
        assert!(none.claim.incomplete.contains(Reason::NotAsked) && none.flows == 0);
    }
}
