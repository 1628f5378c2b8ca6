//! The seven measurement tasks (§4.2), over one epoch's sketches.

use std::cmp::Reverse;

use super::estimate::{self, Distribution};
use super::{Decoded, Fermat, INFINITE, Mismatch, Sketches, Verify};
use crate::program::chamelemon::FlowId;

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
}

impl Analysis {
    pub fn new(sketches: Sketches) -> Self {
        let mut hh = sketches.hh.clone().decode(Verify::Fingerprint);
        hh.complete &= !sketches.mixed;
        Self { sketches, hh }
    }

    pub fn sketches(&self) -> &Sketches {
        &self.sketches
    }

    /// The heavy-hitter candidates, and the packets of each from the one that made it a candidate on.
    pub fn hh(&self) -> &Decoded {
        &self.hh
    }

    /// T_h − 1 packets came before the first one that was encoded.
    fn decoded_size(&self, id: FlowId) -> Option<u64> {
        let encoded = u64::try_from(*self.hh.flows.get(&id)?).ok()?;
        Some(encoded + u64::from(self.sketches.runtime.hh_threshold.max(1) - 1))
    }

    /// Packets of a flow: decoded for a heavy-hitter candidate, else what the classifier says, which is never less than the
    /// truth. `None` when all its counters are full and it was not decoded.
    pub fn flow_size(&self, id: FlowId) -> Option<u64> {
        let queried = || Some(self.sketches.query(id)).filter(|&size| size != INFINITE).map(u64::from);
        self.decoded_size(id).or_else(queried)
    }

    /// Flows of more than `threshold` packets, the largest first. All of them when the candidates' decoding is complete and
    /// T_h is not above the threshold.
    pub fn heavy_hitters(&self, threshold: u64) -> Vec<Sized> {
        let size = |&id: &FlowId| self.decoded_size(id).map(|packets| Sized { id, packets });
        let mut heavy: Vec<_> = self.hh.flows.keys().filter_map(size).filter(|f| f.packets > threshold).collect();
        heavy.sort_unstable_by_key(|flow| (Reverse(flow.packets), flow.id));
        heavy
    }

    /// Heavy-hitter candidates of either epoch whose sizes differ by more than `threshold`, the largest change first. A size that
    /// neither epoch can tell counts as T_h − 1, since the flow was no candidate.
    ///
    /// A flow falls on the same counters in both epochs, and much of what collides with it is there in both: the two errors
    /// largely cancel. Correcting only the size that was not decoded would make the difference worse.
    pub fn heavy_changes(before: &Self, after: &Self, threshold: u64) -> Vec<Change> {
        let size =
            |epoch: &Self, id| epoch.flow_size(id).unwrap_or(u64::from(epoch.sketches.runtime.hh_threshold.max(1) - 1));
        let candidates =
            before.hh.flows.keys().chain(after.hh.flows.keys().filter(|id| !before.hh.flows.contains_key(id)));
        let change = |&id: &FlowId| Change { id, before: size(before, id), after: size(after, id) };
        let mut changes: Vec<_> = candidates.map(change).filter(|c| c.before.abs_diff(c.after) > threshold).collect();
        changes.sort_unstable_by_key(|change| (Reverse(change.before.abs_diff(change.after)), change.id));
        changes
    }

    /// Number of flows, by linear counting on all the classifier's arrays; `None` when no counter is empty.
    pub fn cardinality(&self) -> Option<f64> {
        estimate::flows(&self.sketches.tower)
    }

    /// Flows by size. When the candidates' decoding is complete their decoded sizes stand for all sizes from T_h on.
    pub fn distribution(&self) -> Option<Distribution> {
        if !self.hh.complete {
            return estimate::distribution(&self.sketches.tower, None);
        }
        let sizes: Vec<_> = self.heavy_hitters(0).iter().map(|flow| flow.packets).collect();
        estimate::distribution(&self.sketches.tower, Some((self.sketches.runtime.hh_threshold.max(1), &sizes)))
    }

    /// Packets that entered this switch and did not leave it, by flow: the network is this switch alone.
    pub fn losses(&self) -> Losses {
        let delta = Delta::entered(self).and_then(|mut delta| {
            delta.left(&self.sketches, self.sketches.bit)?;
            // Registers that ran on over an epoch's end hold both bits.
            let other = !self.sketches.bit;
            let exits = &self.sketches.exits[usize::from(other)];
            if !exits.hl.is_blank() || !exits.ll.is_blank() {
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
    sure: bool,
}

impl Delta {
    /// What entered at one switch. Heavy-hitter candidates left as heavy-loss candidates, so they are put among those.
    ///
    /// # Errors
    /// If the switch's sketches could not be merged.
    pub fn entered(analysis: &Analysis) -> Result<Self, Mismatch> {
        let sketches = &analysis.sketches;
        if sketches.mixed {
            return Err(Mismatch);
        }
        let mut hl = sketches.hl.clone();
        analysis.hh.flows.iter().for_each(|(&id, &packets)| hl.insert(id, packets));
        Ok(Self { hl, ll: sketches.ll.clone(), sure: analysis.hh.complete })
    }

    /// Adds what entered at another switch.
    pub fn add(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.sure &= other.sure;
        self.hl.add(&other.hl)?;
        self.ll.add(&other.ll)
    }

    /// Takes off what left a switch and carried this epoch bit. The last packets of an epoch leave in the next one, so its
    /// sketches are taken off too, with the same bit.
    pub fn left(&mut self, sketches: &Sketches, bit: bool) -> Result<(), Mismatch> {
        let exits = &sketches.exits[usize::from(bit)];
        self.hl.subtract(&exits.hl)?;
        self.ll.subtract(&exits.ll)
    }

    pub fn decode(self) -> Losses {
        let estimated = [self.hl.estimated_flows(), self.ll.estimated_flows()];
        let (hl, ll) = (self.hl.decode(Verify::Fingerprint), self.ll.decode(Verify::Fingerprint));
        let mut packets = hl.flows.clone();
        ll.flows.iter().for_each(|(&id, lost)| *packets.entry(id).or_default() += lost);
        let loss = |(id, packets): (FlowId, i64)| Loss { id, packets, heavy: hl.flows.contains_key(&id) };
        let mut flows: Vec<_> = packets.into_iter().filter(|(_, packets)| *packets != 0).map(loss).collect();
        flows.sort_unstable_by_key(|loss| (Reverse(loss.packets), loss.id));
        let [hl_flows, ll_flows] = estimated;
        let known = |decoded: &Decoded, estimated: Option<f64>| {
            if decoded.complete { Some(decoded.flows.len() as f64) } else { estimated }
        };
        Losses {
            flows,
            hl_flows: known(&hl, hl_flows),
            ll_flows: known(&ll, ll_flows),
            complete: self.sure && hl.complete && ll.complete,
        }
    }
}

/// A victim flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub id: FlowId,
    /// Packets lost; below 0 when more left than entered, as when a packet was duplicated.
    pub packets: i64,
    /// Lost as a heavy-loss candidate; else found by sampling light ones.
    pub heavy: bool,
}

/// Which flows lost how many packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Losses {
    /// The most lost first.
    pub flows: Vec<Loss>,
    /// Number of victim flows: counted when decoding was complete, else estimated; `None` when too many to tell.
    pub hl_flows: Option<f64>,
    pub ll_flows: Option<f64>,
    /// These are all the losses that the encoders saw, and no others.
    pub complete: bool,
}

impl Losses {
    pub fn packets(&self) -> i64 {
        self.flows.iter().map(|loss| loss.packets).sum()
    }
}
