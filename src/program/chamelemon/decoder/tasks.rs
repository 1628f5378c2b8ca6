//! The seven measurement tasks (§4.2), over one epoch's sketches.

use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::estimate;
use super::series::Below;
use super::{Decoded, DownstreamParts, Fermat, INFINITE, Mismatch, Sketches, Verify};
use crate::answers::Distribution;
use crate::history::Reason;
use crate::program::chamelemon::completeness::unmeasured;
use crate::program::chamelemon::{EncoderParameters, FlowId, Hashes};

/// A flow and its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sized {
    pub id: FlowId,
    pub packets: u64,
}

/// A flow whose size changed between two epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub id: FlowId,
    pub before: u64,
    pub after: u64,
}

/// One epoch's sketches with its heavy hitters decoded.
#[derive(Clone, Debug)]
pub struct Analysis {
    sketches: Sketches,
    hh: Decoded,
    /// Of several epochs: what came before flows were candidates.
    below: Option<Below>,
    distribution: OnceLock<Option<Distribution>>,
}

impl Analysis {
    pub fn new(sketches: Sketches) -> Self {
        let mut hh = sketches.hh.clone().decode(Verify::Fingerprint);
        hh.complete &= !sketches.mixed;
        Self::of_decoded(sketches, hh)
    }

    /// The same with the candidates that were decoded before.
    pub fn of_decoded(sketches: Sketches, hh: Decoded) -> Self {
        Self { sketches, hh, below: None, distribution: OnceLock::new() }
    }

    /// Adds a later epoch of the same switch: its classifier and its candidates.
    pub fn add_epoch(&mut self, later: &Self) {
        self.hh.complete = self.has_all_candidates() && later.has_all_candidates();
        let below = self.below.take().unwrap_or_else(|| Below::of(&self.sketches));
        self.below = Some(below.and(&later.sketches));
        self.sketches.add_classifier(&later.sketches);
        let threshold = &mut self.sketches.parameters.hh_threshold;
        *threshold = later.sketches.parameters.hh_threshold.max(*threshold);
        for (id, packets) in &later.hh.flows {
            let sum = self.hh.flows.entry(*id).or_default();
            *sum = sum.saturating_add(*packets);
        }
        self.distribution = OnceLock::new();
    }

    /// Every flow of as many packets was a heavy-hitter candidate.
    pub fn least_named(&self) -> u64 {
        let epochs = self.below.as_ref().map_or(1, Below::epochs);
        u64::from(self.sketches.hh_threshold() - 1).saturating_mul(epochs).saturating_add(1)
    }

    pub fn sketches(&self) -> &Sketches {
        &self.sketches
    }

    /// Whether all heavy-hitter candidates are known: they had memory and were decoded.
    pub fn has_all_candidates(&self) -> bool {
        self.hh.complete && self.sketches.parameters.partition.hh > 0
    }

    /// The heavy-hitter candidates, and the packets of each from the one that made it a candidate
    /// on.
    pub fn hh(&self) -> &Decoded {
        &self.hh
    }

    /// Packets of a flow that was a heavy-hitter candidate: T_h − 1 came before the first one that
    /// was encoded. Of a series, in each epoch as many as its counters say, up to T_h − 1.
    pub fn decoded_size(&self, id: FlowId) -> Option<u64> {
        let encoded = u64::try_from(*self.hh.flows.get(&id)?).ok()?;
        let before = match &self.below {
            None => u64::from(self.sketches.hh_threshold() - 1),
            Some(below) => below.size_at(&self.sketches.counters(id)),
        };
        Some(encoded.saturating_add(before))
    }

    /// Packets of a flow: decoded for a heavy-hitter candidate, else what the classifier says,
    /// which is never less than the truth. `None` when all its counters are full and it was not
    /// decoded.
    pub fn flow_size(&self, id: FlowId) -> Option<u64> {
        let queried = || Some(self.sketches.query(id)).filter(|&size| size != INFINITE).map(u64::from);
        self.decoded_size(id).or_else(queried)
    }

    /// The heavy-hitter candidates with their sizes, in no order.
    pub fn candidates_sized(&self) -> impl Iterator<Item = Sized> {
        self.hh.flows.keys().filter_map(|&id| self.decoded_size(id).map(|packets| Sized { id, packets }))
    }

    /// Flows of more than `threshold` packets, the largest first. All of them when the candidates'
    /// decoding is complete and T_h is not above the threshold.
    pub fn heavy_hitters(&self, threshold: u64) -> Vec<Sized> {
        let mut heavy: Vec<_> = self.candidates_sized().filter(|flow| flow.packets > threshold).collect();
        heavy.sort_unstable_by_key(|flow| (Reverse(flow.packets), flow.id));
        heavy
    }

    /// Heavy-hitter candidates of either epoch whose sizes differ by more than `threshold`, the
    /// largest change first. A size that neither epoch can tell counts as T_h − 1, since the flow
    /// was no candidate.
    ///
    /// A flow falls on the same counters in both epochs, and much of what collides with it is there
    /// in both: the two errors largely cancel. Correcting only the size that was not decoded would
    /// make the difference worse.
    pub fn heavy_changes(before: &Self, after: &Self, threshold: u64) -> Vec<Change> {
        let size = |epoch: &Self, id| epoch.flow_size(id).unwrap_or(u64::from(epoch.sketches.hh_threshold() - 1));
        let candidates =
            before.hh.flows.keys().chain(after.hh.flows.keys().filter(|id| !before.hh.flows.contains_key(id)));
        let change = |&id: &FlowId| Change { id, before: size(before, id), after: size(after, id) };
        let mut changes: Vec<_> = candidates.map(change).filter(|c| c.before.abs_diff(c.after) > threshold).collect();
        changes.sort_unstable_by_key(|change| (Reverse(change.before.abs_diff(change.after)), change.id));
        changes
    }

    /// Number of flows, by linear counting on all the classifier's arrays; `None` when no counter
    /// is empty.
    pub fn cardinality(&self) -> Option<f64> {
        estimate::flows(&self.sketches.tower)
    }

    /// Number of heavy-hitter candidates: counted when all were decoded, else estimated; `None`
    /// when too many to tell.
    pub fn candidates(&self) -> Option<f64> {
        match self.sketches.parameters.partition.hh {
            0 => None,
            _ if self.hh.complete => Some(self.hh.flows.len() as f64),
            _ => self.sketches.hh.estimated_flows(),
        }
    }

    /// Flows by size; `None` when the classifier was too full to tell. When the candidates'
    /// decoding is complete their decoded sizes stand for all sizes from T_h on. It is computed
    /// once.
    pub fn distribution(&self) -> Option<&Distribution> {
        self.distribution.get_or_init(|| self.estimated()).as_ref()
    }

    /// The number of flows where its standard error is at most [`estimate::MAX_ERROR`]: what users
    /// are told.
    pub fn reported_cardinality(&self) -> Option<f64> {
        let error = estimate::flows_error(&self.sketches.tower)?;
        self.cardinality().filter(|_| error <= estimate::MAX_ERROR)
    }

    /// The distribution where it can be trusted: what users are told. Estimated from arrays with
    /// more than [`estimate::MAX_LOAD`] flows a counter it would be wrong for most sizes.
    pub fn reported_distribution(&self) -> Option<&Distribution> {
        let decoded = self.hh.complete && self.sketches.hh_threshold() == 1;
        self.distribution().filter(|_| decoded || estimate::tells_sizes(&self.sketches.tower))
    }

    /// The entropy where it can be trusted. Flows with most packets decide it, so where these were
    /// decoded a full classifier makes it at most 2 % wrong.
    pub fn reported_entropy_bits(&self) -> Option<f64> {
        let told = if self.hh.complete { self.distribution() } else { self.reported_distribution() };
        told.map(Distribution::entropy_bits)
    }

    fn estimated(&self) -> Option<Distribution> {
        // Over several epochs a flow can have more than T_h packets and have been no candidate.
        if !self.has_all_candidates() || self.below.is_some() {
            return estimate::distribution(&self.sketches.tower, None);
        }
        let sizes = self.candidates_sized().map(|flow| flow.packets);
        match self.sketches.hh_threshold() {
            // Every flow was a candidate.
            1 => Some(Distribution::of_sizes(sizes)),
            threshold => estimate::distribution(&self.sketches.tower, Some((threshold, &sizes.collect::<Vec<_>>()))),
        }
    }

    /// Packets that entered this switch and did not leave it, by flow: the network is this switch
    /// alone. Registers that ran on over an epoch's end hold both bits.
    pub fn losses(&self) -> Losses {
        let delta = Delta::entered(self).and_then(|mut delta| {
            delta.left(&self.sketches, self.sketches.bit)?;
            let other = !self.sketches.bit;
            let downstream_parts = &self.sketches.downstream_parts[usize::from(other)];
            if !downstream_parts.hl.is_blank() || !downstream_parts.ll.is_blank() {
                delta.left(&self.sketches, other)?;
            }
            Ok(delta)
        });
        delta.map(Delta::decode).unwrap_or_default()
    }
}

/// Packets that entered a network and did not leave it.
#[derive(Clone, Debug)]
pub struct Delta {
    hl: Fermat,
    ll: Fermat,
    /// Heavy-hitter candidates, whose IDs help to decode.
    known: Vec<FlowId>,
    /// Packets that entered less packets that left, of heavy and of light losses.
    packets: [i64; 2],
    sure: bool,
    parameters: EncoderParameters,
    hashes: Arc<Hashes>,
}

impl Delta {
    /// What entered at one switch.
    ///
    /// # Errors
    /// If the switch's sketches could not be merged.
    pub fn entered(analysis: &Analysis) -> Result<Self, Mismatch> {
        let sketches = &analysis.sketches;
        let (hl, ll) = (sketches.hl.clone(), sketches.ll.clone());
        let (parameters, hashes) = (sketches.parameters, sketches.hashes.clone());
        let mut delta = Self { hl, ll, known: Vec::new(), packets: [0; 2], sure: true, parameters, hashes };
        delta.candidates(analysis)?;
        Ok(delta)
    }

    /// Adds what entered at another switch.
    ///
    /// # Errors
    /// If its sketches could not be merged, or do not fit. The sum is then worth nothing.
    pub fn enter(&mut self, analysis: &Analysis) -> Result<(), Mismatch> {
        self.hl.add(&analysis.sketches.hl)?;
        self.ll.add(&analysis.sketches.ll)?;
        self.candidates(analysis)
    }

    /// Heavy-hitter candidates left as heavy-loss candidates, so they are put among those; without
    /// memory for these nobody knows what left of them.
    fn candidates(&mut self, analysis: &Analysis) -> Result<(), Mismatch> {
        let Sketches { parameters, hh, hl, ll, mixed, .. } = &analysis.sketches;
        if *mixed {
            return Err(Mismatch);
        }
        self.packets[1] = self.packets[1].saturating_add(ll.packets());
        if parameters.partition.hl > 0 {
            let heavy = hh.packets().saturating_add(hl.packets());
            self.packets[0] = self.packets[0].saturating_add(heavy);
            self.sure &= analysis.hh.complete;
            self.known.extend(analysis.hh.flows.keys());
            analysis.hh.flows.iter().for_each(|(&id, &packets)| self.hl.insert(id, packets));
        }
        Ok(())
    }

    /// Takes off what left a switch and carried this epoch bit. The first packets of an epoch may
    /// have left before the registers of the egress stages changed hands: those are in the record
    /// of the epoch before, with the same bit.
    ///
    /// # Errors
    /// If the sketches do not fit. The sum is then worth nothing.
    pub fn left(&mut self, sketches: &Sketches, bit: bool) -> Result<(), Mismatch> {
        let DownstreamParts { hl, ll } = &sketches.downstream_parts[usize::from(bit)];
        self.packets[0] = self.packets[0].saturating_sub(hl.packets());
        self.packets[1] = self.packets[1].saturating_sub(ll.packets());
        self.hl.subtract(hl)?;
        self.ll.subtract(ll)
    }

    /// Which flows are left over. Heavy losses can be told when all heavy-hitter candidates are
    /// known.
    pub fn decode(self) -> Losses {
        let Self { hl, ll, known, packets, sure, parameters, hashes } = self;
        let measured = parameters.partition.hl > 0;
        let estimated = [hl.estimated_flows().filter(|_| sure && measured), ll.estimated_flows()];
        let mut hl = if sure { hl.decode_knowing(Verify::Fingerprint, known) } else { Decoded::default() };
        hl.complete &= measured;
        let ll = ll.decode(Verify::Fingerprint);
        let decoded = hl.complete && ll.complete;
        let whole = |id| match unmeasured(&parameters) {
            None => true,
            Some(Reason::Sampled) => parameters.samples(hashes.sample(id)),
            Some(_) => false,
        };
        let heavy = hl.flows.iter().map(|(&id, &packets)| (id, Loss::new(id, packets, true)));
        let mut lost: FxHashMap<_, _> = heavy.collect();
        ll.flows.iter().for_each(|(&id, &packets)| add_light(&mut lost, id, packets));
        let mut flows: Vec<_> =
            lost.into_values().map(|loss| Loss { exact: decoded && whole(loss.id), ..loss }).collect();
        flows.sort_unstable_by_key(|loss| (Reverse(loss.lost), Reverse(loss.gained), loss.id));
        let [heavy_sums, light_sums] = [sums(&hl, packets[0]), sums(&ll, packets[1])];
        let [hl_flows, ll_flows] = estimated;
        let victims = |decoded: Decoded, estimated: Option<f64>, packets: i64| Victims {
            flows: if decoded.complete { Some(decoded.flows.len() as f64) } else { estimated },
            complete: decoded.complete,
            packets,
        };
        let (heavy, light) = (victims(hl, hl_flows, packets[0]), victims(ll, ll_flows, packets[1]));
        let [lost_packets, gained_packets] = [0, 1].map(|i| heavy_sums[i].saturating_add(light_sums[i]));
        Losses { flows, heavy, light, lost_packets, gained_packets, decoded }
    }
}

fn add_light(lost: &mut FxHashMap<FlowId, Loss>, id: FlowId, packets: i64) {
    let light = Loss::new(id, packets, false);
    let loss = lost.entry(id).or_insert(Loss { lost: 0, gained: 0, ..light });
    (loss.lost, loss.gained) = (loss.lost.saturating_add(light.lost), loss.gained.saturating_add(light.gained));
}

/// Packets lost and gained of one class, the difference of which is `net`. Of flows that were not
/// decoded the difference alone is known: they count as lost, or as gained, by the fewest packets.
fn sums(decoded: &Decoded, net: i64) -> [u64; 2] {
    let sum = |sign: i128| decoded.flows.values().map(|packets| (i128::from(*packets) * sign).max(0)).sum::<i128>();
    let net = i128::from(net);
    let gained = sum(-1).max(sum(1) - net);
    [net + gained, gained].map(|packets| packets.try_into().unwrap_or(u64::MAX))
}

/// A flow of which not as many packets left as entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub id: FlowId,
    /// Packets that entered and did not leave, net within its class.
    pub lost: u64,
    /// Packets that left and did not enter, as when a link doubles them.
    pub gained: u64,
    /// Lost as a heavy-loss candidate; else found by sampling light ones.
    pub heavy: bool,
    /// All packets of the flow were measured and all classes decoded: the counts are exact, unless
    /// packets of the epoch could not be followed.
    pub exact: bool,
}

impl Loss {
    /// `packets` of one class: below 0 when more left than entered.
    pub fn new(id: FlowId, packets: i64, heavy: bool) -> Self {
        let [lost, gained] = [packets.max(0), packets.min(0)].map(i64::unsigned_abs);
        Self { id, lost, gained, heavy, exact: true }
    }
}

/// Victim flows of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Victims {
    /// Counted when decoding was complete, else estimated; `None` when too many to tell.
    pub flows: Option<f64>,
    /// Whether all of them were decoded.
    pub complete: bool,
    /// Packets that entered less packets that left: exact, also when the flows could not be
    /// decoded.
    pub packets: i64,
}

/// Which flows lost how many packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Losses {
    /// The most lost first, then those that only gained packets.
    pub flows: Vec<Loss>,
    /// Those that lost packets as heavy-loss or heavy-hitter candidates.
    pub heavy: Victims,
    /// Those that lost packets as sampled light-loss candidates.
    pub light: Victims,
    /// Packets that the encoders saw enter and not leave, and those that they saw leave and not
    /// enter. The difference is exact, also when the flows could not be decoded; each is then the
    /// least that it can be.
    pub lost_packets: u64,
    pub gained_packets: u64,
    /// These are all the flows that the encoders saw, and no others. Whether they saw all is
    /// another question, which
    /// [`losses_lack`](crate::program::chamelemon::completeness::losses_lack) answers.
    pub decoded: bool,
}

impl Losses {
    /// Number of flows that lost packets.
    pub fn victims(&self) -> usize {
        self.flows.partition_point(|loss| loss.lost > 0)
    }

    /// Number of flows that gained packets.
    pub fn gainers(&self) -> usize {
        self.flows.iter().filter(|loss| loss.gained > 0).count()
    }

    /// Drops all but `max` flows that lost packets, and `max` that only gained some.
    pub fn truncate(&mut self, max: usize) {
        let victims = self.victims();
        self.flows.drain(max.min(victims)..victims);
        self.flows.truncate(max.min(victims).saturating_add(max));
        self.flows.shrink_to_fit();
    }
}
