//! Answers about single flows that each epoch has anew: of several epochs, the newest of each flow.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{FlowName, Query};
use crate::history::{Epochs, Reason, Reasons};

/// The answer about a flow in an epoch.
pub trait OfFlow {
    /// Identifies the flow: equal in all epochs.
    type Key: Ord;

    fn key(&self) -> Self::Key;

    fn flow(&self) -> &FlowName;

    /// Packets that the answer rests on.
    fn packets(&self) -> u64;

    /// Switches that the flow's packets crossed, as far as they are known.
    fn switches(&self) -> impl Iterator<Item = &str>;

    /// Whether a query asks for the flow.
    fn is_asked_for(&self, query: &Query) -> bool {
        let mut switches = self.switches();
        let crosses = query.path.iter().all(|wanted| switches.any(|switch| switch == wanted));
        crosses && self.packets() >= query.threshold && query.is_meant(self.flow())
    }
}

/// The answers of an epoch about flows.
pub struct OfEpoch<'a, T> {
    pub flows: &'a [T],
    /// Flows that were evicted, since the start.
    pub evicted: u64,
    /// Why answers are missing.
    pub lack: &'a Reasons,
    pub precision: Precision,
}

/// The precision of all numbers of an epoch, as the plan of their packets has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The largest error of a number, and the largest factor by which it is off: whichever is more.
    pub error: f64,
    pub error_factor: f64,
    /// This number, and any beyond it, may stand for larger ones.
    pub largest: Option<f64>,
    /// Nothing is older than this, up to the newest packet; `None` is all time.
    pub window_ns: Option<u64>,
}

impl Precision {
    /// Of numbers that are exact, of all time.
    pub const EXACT: Self = Self { error: 0.0, error_factor: 1.0, largest: None, window_ns: None };

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
    pub lack: Reasons,
    /// Whether any of the epochs has an answer: without a query for it there is no answer.
    pub asked: bool,
    /// Flows that were found.
    pub flows: u64,
    /// The flows that are named, those of the most packets first.
    pub named: Vec<&'a T>,
    /// Flows that a query asks for and that are not named.
    pub omitted_flows: u64,
    /// Flows that were evicted, since the start.
    pub evicted_flows: u64,
    /// What holds of all that are named: plans of several epochs may differ. Without any, that of the
    /// newest epoch.
    pub precision: Precision,
}

impl<'a, T: OfFlow> Newest<'a, T> {
    /// The flows that the query asks for; `of` gives the answers of an epoch.
    pub fn new<K>(epochs: &'a Epochs<K>, query: &Query, of: impl Fn(&'a K) -> Option<OfEpoch<'a, T>>) -> Self {
        let (mut lack, mut newest) = (Reasons::default(), BTreeMap::new());
        let (mut asked, mut evicted_flows, mut last) = (false, 0, Precision::EXACT);
        for entry in epochs.iter() {
            let Some(OfEpoch { flows, evicted, lack: of_epoch, precision }) = of(&entry.showed) else {
                lack.add(Reason::NotAsked);
                continue;
            };
            asked = true;
            lack.extend(of_epoch);
            newest.extend(flows.iter().map(|flow| (flow.key(), (flow, precision))));
            (evicted_flows, last) = (evicted, precision);
        }
        let flows = newest.len() as u64;
        let mut named: Vec<_> = newest.into_values().filter(|(flow, _)| flow.is_asked_for(query)).collect();
        named.sort_by_key(|(flow, _)| Reverse(flow.packets()));
        let omitted_flows = named.len().saturating_sub(query.top) as u64;
        named.truncate(query.top);
        let precision = named.iter().map(|(_, precision)| *precision).reduce(Precision::and).unwrap_or(last);
        let named = named.into_iter().map(|(flow, _)| flow).collect();
        Self { lack, asked, flows, named, omitted_flows, evicted_flows, precision }
    }
}

/// The text in place of rows for tasks that packets answer only when a query asks. Empty where there
/// are rows, or no epoch has ended.
pub fn why_none(claim: &super::Claim, asked: Result<bool, &str>, none: &str) -> String {
    match asked {
        _ if claim.last_epoch.is_none() => String::new(),
        Err(what) => format!("not asked for: no query for {what} ran in these epochs"),
        Ok(true) => String::new(),
        Ok(false) => none.into(),
    }
}

/// Flows that are not named, and those that were evicted; empty where there are none.
pub fn others_text(omitted_flows: u64, evicted_flows: u64) -> String {
    use crate::output;
    let evicted = match evicted_flows {
        0 => String::new(),
        flows => format!("{} evicted by others", output::count(flows, "flow")),
    };
    output::lines([output::unnamed(omitted_flows, 0, ""), evicted])
}
