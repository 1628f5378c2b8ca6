//! The packets of a flow, or of all flows of a pattern, over several epochs.
//!
//! A flow's packets are those that were encoded for it as a heavy-hitter candidate, and what its
//! counters say of those before. Its counters in the classifier (TowerSketch, §3.1.1) count all of
//! its packets and some of other flows, so they are an upper bound. How much they exceed the truth
//! is bounded as in a count-min sketch, with counter arrays of different widths; an array in which
//! the flow's counter was full is left out. What was encoded is certain.
//!
//! A pattern that matches several flows is answered from the candidates among them. The upper bound
//! is all packets, less those that were encoded for candidates that do not match.

use arrayvec::ArrayVec;

use super::dataplane::MAX_LEVELS;
use super::decoder::{Analysis, INFINITE, Level};
use super::kept::Showed;
use super::{ChameleMon, FlowId};
use crate::answers::{CONFIDENCE, Estimate, Frequency, ProgramAnswer, Query, Unit, excess};
use crate::history::{Epochs, Reason, Reasons};
use crate::program::{MAX_REPLICAS, Program};

/// The answer about these epochs; `None` to a query that names no flows.
pub fn told(epochs: &Epochs<Showed>, query: &Query) -> Option<ProgramAnswer> {
    let pattern = query.flow?;
    let (network, found) = Showed::together(epochs);
    let analyses: Vec<_> = network.iter().flat_map(|network| &network.edges).map(|edge| &edge.analysis).collect();
    let encoded =
        |is_meant: bool| epochs.iter().map(|entry| entry.showed.encoded(query, is_meant)).fold(0, u64::saturating_add);
    let id = pattern.flow().and_then(|flow| analyses.first()?.sketches().id(&flow));
    let mut lack = Reasons::default();
    let estimate = match id {
        Some(id) => of_flow(&analyses, id),
        None => {
            lack.extend(&found.lack);
            lack.add_if(found.named_from.is_none_or(|from| from > 1), Reason::BelowThreshold);
            let totals = analyses.iter().map(|analysis| packets(&analysis.sketches().tower));
            let total = totals.reduce(|sum, more| sum?.checked_add(more?)).flatten();
            let most = total.filter(|_| network.is_some()).map(|total| total.saturating_sub(encoded(false)));
            Estimate { least: encoded(true), most, ..found.frequency(query) }
        }
    };
    lack.add_if(epochs.iter().any(|entry| entry.switches.is_empty()), Reason::NotAnalysed);
    Some(Frequency::told(ChameleMon::NAME, Unit::Packets, query, estimate, lack))
}

/// Packets of a flow that may have entered by any of these switches.
fn of_flow(analyses: &[&Analysis], id: FlowId) -> Estimate {
    let doubt = (1.0 - CONFIDENCE) / analyses.len().max(1) as f64;
    let (mut sum, mut lower) = (Estimate::exact(0), 0u64);
    for at_switch in analyses.iter().map(|analysis| analysis.entered(id, doubt)) {
        lower = lower.saturating_add(at_switch.lower_bound());
        sum += at_switch;
    }
    // A flow usually enters by one switch; at the others its counters have packets of other flows
    // alone.
    let decoded = analyses.iter().filter_map(|analysis| analysis.decoded_size(id)).reduce(u64::saturating_add);
    let number = decoded.or_else(|| analyses.iter().map(|analysis| analysis.uncoded_size(id)).max());
    let number = number.unwrap_or_default().max(lower);
    Estimate { number, excess: Some(number - lower), ..sum }
}

impl Analysis {
    /// Estimate of the packets of a flow that was no candidate: what the classifier says, and less than
    /// T_h in each epoch where all candidates are known.
    fn uncoded_size(&self, id: FlowId) -> u64 {
        let below = self.has_all_candidates().then(|| self.least_named() - 1);
        self.flow_size(id).into_iter().chain(below).min().unwrap_or_default()
    }

    /// Packets of a flow that entered by this switch. The excess is larger than the estimate's with
    /// a probability of at most `doubt`.
    fn entered(&self, id: FlowId, doubt: f64) -> Estimate {
        let sketches = self.sketches();
        let encoded = self.hh().flows.get(&id).map_or(0, |&packets| u64::try_from(packets).unwrap_or_default());
        let queried = Some(sketches.query(id)).filter(|&size| size != INFINITE).map(u64::from);
        // Each core counts up to T_h − 1 packets of a flow before it is a candidate there.
        let before = (self.least_named() - 1).saturating_mul(MAX_REPLICAS as u64);
        let decoded = self.has_all_candidates().then(|| encoded.saturating_add(before));
        let counters = sketches.counters(id);
        let levels = sketches.tower.iter().zip(&counters);
        let is_open = |level: &Level, counter: usize| level.sizes.get(counter).is_some_and(|&size| size != INFINITE);
        let open = levels.filter(|&(level, &counter)| is_open(level, counter));
        let open: ArrayVec<u64, MAX_LEVELS> = open.map(|(level, _)| level.sizes.len() as u64).collect();
        // Which arrays are left depends on their counts: the bound holds for each choice of them.
        let choices = f64::from((1u32 << sketches.tower.len()) - 1);
        let excess = packets(&sketches.tower).and_then(|total| excess(total, &open, doubt / choices));
        Estimate {
            number: queried.unwrap_or(encoded),
            least: encoded,
            most: [queried, decoded].into_iter().flatten().min(),
            excess: excess.filter(|_| queried.is_some()),
        }
    }
}

/// Packets that a classifier counted; `None` where each array has a full counter.
fn packets(tower: &[Level]) -> Option<u64> {
    let open = tower.iter().rev().find(|level| !level.sizes.contains(&INFINITE))?;
    Some(open.sizes.iter().map(|&size| u64::from(size)).sum())
}
