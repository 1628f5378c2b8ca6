//! One epoch of a network: the sketches of its edge switches, put together (§4.2).
//!
//! A switch's record of epoch e holds the ingress registers of exactly that epoch, and egress
//! registers that changed hands a transit time after its end. So the packets of e that left by a
//! switch are in two records: those that left after the transit time of e's beginning in the record
//! of e, the earlier ones in that of e − 1, both under e's bit.
//!
//! Losses are what entered at all switches less what left at all. So one switch of which something
//! is missing makes them unknown; the other tasks are answered for every switch that is there.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::completeness::losses_lack;
use super::decoder::{Change, Delta, Distribution, INFINITE, Losses, Mismatch, Sized};
use super::{Analysis, EncoderParameters, FlowId, Sketches};
use crate::history::{Gap, Reason, Reasons, SwitchGap};
use crate::program::{Before, Epoch};

/// What is known of one switch when an epoch closes.
pub type Reported<'a> = crate::program::Reported<'a, Sketches>;

/// One switch's sketches with its heavy hitters decoded.
pub struct Edge {
    pub switch: Arc<str>,
    pub analysis: Analysis,
}

/// The network's sketches of one epoch, and what they say.
pub type NetworkEpoch = Epoch<Network>;

/// The network's sketches, and what they say but for the gaps.
pub struct Network {
    /// What was ordered for the epoch.
    pub parameters: EncoderParameters,
    /// The switches whose flows are known.
    pub edges: Vec<Edge>,
    /// `None` when they are unknown because of a gap.
    pub losses: Option<Losses>,
}

impl NetworkEpoch {
    /// Puts the switches' records together.
    pub fn analyse(epoch: u64, parameters: EncoderParameters, parts: Vec<Reported<'_>>) -> Self {
        let (mut edges, mut gaps) = (Vec::with_capacity(parts.len()), Vec::new());
        let mut delta = None;
        let mut known = true;
        for Reported { switch, record, before } in parts {
            let mut lacks = |gap| gaps.push(SwitchGap { switch: switch.clone(), gap });
            match record.and_then(|sketches| measured_with(&parameters, sketches)) {
                Err(gap) => {
                    lacks(gap);
                    known = false;
                }
                Ok(sketches) => {
                    let analysis = Analysis::new(sketches);
                    if known {
                        let added = add(&mut delta, &analysis, before);
                        known = added.is_ok();
                        added.unwrap_or_else(|gap| [Some(gap), None]).into_iter().flatten().for_each(lacks);
                    } else if let Before::Unknown = before {
                        lacks(Gap::Before);
                    }
                    edges.push(Edge { switch, analysis });
                }
            }
        }
        let losses = delta.filter(|_| known).map(Delta::decode);
        let switches = edges.iter().map(|edge: &Edge| edge.switch.clone()).collect();
        Self { number: epoch, gaps, switches, network: Network { parameters, edges, losses } }
    }

    /// Whether every switch's flows are in it.
    pub fn has_all_flows(&self) -> bool {
        !self.gaps.iter().any(|gap| gap.gap.hides_flows())
    }

    /// Why its losses are not complete.
    pub fn losses_lack(&self) -> Reasons {
        losses_lack(self.losses.as_ref(), &self.parameters, !self.gaps.is_empty())
    }

    /// Why its heavy flows are not complete, whatever their size.
    pub fn flows_lack(&self) -> Reasons {
        let mut reasons = Reasons::default();
        reasons.add_if(!self.has_all_flows(), Reason::Gap);
        reasons.add_if(self.edges.is_empty() && self.gaps.is_empty(), Reason::NotAnalysed);
        reasons.add_if(self.parameters.partition.hh == 0, Reason::Unmeasured);
        reasons.add_if(!self.edges.iter().all(|edge| edge.analysis.hh().complete), Reason::Undecoded);
        reasons
    }

    /// Why the changes between two epochs are not complete: candidates are known at the switches
    /// where they were some.
    pub fn changes_lack(before: &Self, after: &Self) -> Reasons {
        let mut reasons = before.flows_lack();
        reasons.extend(&after.flows_lack());
        let switches = |epoch: &Self| epoch.edges.iter().map(|edge| edge.switch.clone()).collect::<Vec<_>>();
        reasons.add_if(switches(before) != switches(after), Reason::Gap);
        reasons
    }

    /// Whether all candidates of all switches that are there are known.
    pub fn hh_complete(&self) -> bool {
        self.edges.iter().all(|edge| edge.analysis.has_all_candidates())
    }

    /// Packets of a flow: decoded at the switches where it was a heavy-hitter candidate; else the
    /// largest that a classifier says, as a flow enters by one switch. `None` when it was too large
    /// for the classifier.
    pub fn flow_size(&self, id: FlowId) -> Option<u64> {
        let decoded = self.edges.iter().filter_map(|edge| edge.analysis.decoded_size(id));
        decoded.reduce(u64::saturating_add).or_else(|| self.classified(id))
    }

    fn classified(&self, id: FlowId) -> Option<u64> {
        let counters = self.edges.first()?.analysis.sketches().counters(id);
        let sizes = self.edges.iter().map(|edge| edge.analysis.sketches().size_at(&counters));
        sizes.max().filter(|&size| size != INFINITE).map(u64::from)
    }

    /// Flows of more than `threshold` packets, the largest first.
    pub fn heavy_hitters(&self, threshold: u64) -> Vec<Sized> {
        if let [edge] = &self.edges[..] {
            return edge.analysis.heavy_hitters(threshold);
        }
        let flows = self.edges.iter().map(|edge| edge.analysis.hh().flows.len()).sum();
        let mut sizes = FxHashMap::with_capacity_and_hasher(flows, Default::default());
        for Sized { id, packets } in self.edges.iter().flat_map(|edge| edge.analysis.candidates_sized()) {
            let size = sizes.entry(id).or_insert(0u64);
            *size = size.saturating_add(packets);
        }
        let heavy = sizes.into_iter().filter(|(_, packets)| *packets > threshold);
        let mut heavy: Vec<_> = heavy.map(|(id, packets)| Sized { id, packets }).collect();
        heavy.sort_unstable_by_key(|flow| (Reverse(flow.packets), flow.id));
        heavy
    }

    /// Flows whose sizes differ by more than `threshold` from the epoch before, the largest change
    /// first, over the switches that are in both epochs.
    pub fn heavy_changes(before: &Self, after: &Self, threshold: u64) -> Vec<Change> {
        let mut changes = Vec::<Change>::new();
        for edge in &after.edges {
            if let Some(earlier) = before.edges.iter().find(|earlier| earlier.switch == edge.switch) {
                changes.extend(Analysis::heavy_changes(&earlier.analysis, &edge.analysis, threshold));
            }
        }
        changes.sort_unstable_by_key(|change| change.id);
        changes.dedup_by(|next, change| {
            let same = next.id == change.id;
            if same {
                change.before = change.before.saturating_add(next.before);
                change.after = change.after.saturating_add(next.after);
            }
            same
        });
        changes.sort_unstable_by_key(|change| (Reverse(change.before.abs_diff(change.after)), change.id));
        changes
    }

    /// Number of flows; `None` when a classifier was too full to tell, or no switch is there.
    pub fn cardinality(&self) -> Option<f64> {
        let flows: Option<f64> = self.edges.iter().map(|edge| edge.analysis.cardinality()).sum();
        flows.filter(|_| !self.edges.is_empty())
    }

    /// What users are told of it ([`Analysis::reported_cardinality`]), likewise below.
    pub fn reported_cardinality(&self) -> Option<f64> {
        let told = self.edges.iter().all(|edge| edge.analysis.reported_cardinality().is_some());
        self.cardinality().filter(|_| told)
    }

    pub fn reported_distribution(&self) -> Option<Distribution> {
        let told = self.edges.iter().all(|edge| edge.analysis.reported_distribution().is_some());
        if told { self.distribution() } else { None }
    }

    pub fn reported_entropy_bits(&self) -> Option<f64> {
        let told = self.edges.iter().all(|edge| edge.analysis.reported_entropy_bits().is_some());
        if told { self.entropy_bits() } else { None }
    }

    /// Flows by size; `None` when a classifier was too full to tell, or no switch is there.
    pub fn distribution(&self) -> Option<Distribution> {
        let distributions = self.edges.iter().map(|edge| edge.analysis.distribution()).collect::<Option<Vec<_>>>()?;
        (!distributions.is_empty()).then(|| Distribution::sum(&distributions))
    }

    pub fn entropy_bits(&self) -> Option<f64> {
        self.distribution().map(|distribution| distribution.entropy_bits())
    }
}

/// Whether a record was measured as ordered.
fn measured_with(parameters: &EncoderParameters, sketches: Box<Sketches>) -> Result<Sketches, Gap> {
    match &*sketches {
        sketches if sketches.mixed => Err(Gap::Mixed),
        sketches if sketches.parameters != *parameters => Err(Gap::Parameters),
        _ => Ok(*sketches),
    }
}

/// Adds a switch to what entered and did not leave. Gaps that may only make losses seem more are
/// returned, another is an error.
fn add(delta: &mut Option<Delta>, analysis: &Analysis, before: Before<&Sketches>) -> Result<[Option<Gap>; 2], Gap> {
    let sketches = analysis.sketches();
    let delta = match delta {
        None => delta.insert(Delta::entered(analysis).map_err(|Mismatch| Gap::Mixed)?),
        Some(delta) => {
            delta.enter(analysis).map_err(|Mismatch| Gap::Foreign)?;
            delta
        }
    };
    delta.left(sketches, sketches.bit).map_err(|Mismatch| Gap::Foreign)?;
    let Sketches { mut unmarked, mut unfollowed, .. } = *sketches;
    match before {
        Before::Nothing => {}
        Before::Unknown => return Err(Gap::Before),
        Before::Elsewhere => return Err(Gap::Elsewhere),
        Before::Part(early) => {
            delta.left(early, early.bit).map_err(|Mismatch| Gap::Before)?;
            unmarked = unmarked.saturating_add(early.unmarked);
            unfollowed = unfollowed.saturating_add(early.unfollowed);
        }
    }
    let unmarked = (unmarked > 0).then_some(Gap::Unmarked { packets: unmarked });
    Ok([unmarked, (unfollowed > 0).then_some(Gap::Unfollowed { packets: unfollowed })])
}
