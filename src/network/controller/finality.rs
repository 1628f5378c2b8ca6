//! When answers are final: the records that can count an epoch's packets up to the horizon have
//! come, or were missed.
//!
//! A packet is lost when it has not left by the transit time and the horizon after the end of its
//! epoch. One that leaves later than the transit time is counted as a stray, in the record of the
//! epoch in which it leaves. So the losses of an epoch may change with the records of as many later
//! epochs as the horizon has, and not after: packets that leave later still are lost by definition,
//! and are counted as late beside the answer, which is amended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::Controller;
use super::epochs::Open;
use crate::history::{Gap, Reason, SwitchGap};
use crate::switch::TelemetryHeader;
use crate::telemetry::epoch::Nanos;

/// Number of earlier epochs of the same lowest bit whose losses are doubted.
const DOUBTED: u64 = 32;

/// Epochs that have closed and are not final.
#[derive(Default)]
pub(super) struct Pending {
    /// In their order, each with the switches that reported.
    epochs: VecDeque<(u64, BTreeSet<Arc<str>>)>,
    /// By epoch, the switches whose record says how many packets left late in it.
    heard: BTreeMap<u64, BTreeSet<Arc<str>>>,
}

impl Pending {
    /// The switches of an epoch whose records of the epochs after it, up to `last`, have not all
    /// come.
    fn unconfirmed(&self, epoch: u64, last: u64, switches: &BTreeSet<Arc<str>>) -> Vec<SwitchGap> {
        let missed = |switch: &Arc<str>| {
            let heard = |later: &u64| self.heard.get(later).is_some_and(|heard| heard.contains(switch));
            let epoch = (epoch + 1..=last).find(|later| !heard(later))?;
            Some(SwitchGap { switch: switch.clone(), gap: Gap::Unconfirmed { epoch } })
        };
        switches.iter().filter_map(missed).collect()
    }
}

impl Controller {
    /// Epochs for which answers wait; `None` when they are never final.
    pub(super) fn horizon(&self) -> Option<u64> {
        if self.analyser.counts_late() { self.settings.horizon } else { Some(0) }
    }

    /// Time after the end of its epoch by which a packet has left, or is lost. `None` for a switch
    /// alone, which a packet leaves in the burst in which it enters.
    pub(super) fn lost_after(&self) -> Option<Nanos> {
        let profile = self.profile.as_ref().filter(|_| !self.settings.one_clock)?;
        let horizon = self.settings.horizon?.saturating_mul(profile.length);
        Some(profile.transit.saturating_add(horizon))
    }

    /// Whether a packet of `epoch` that left in `last` left later than the horizon.
    pub(super) fn is_beyond_the_horizon(&self, epoch: u64, last: u64) -> bool {
        // What a switch alone counts late is a gap, whenever it says so.
        let horizon = self.horizon().filter(|_| !self.settings.one_clock);
        horizon.is_some_and(|horizon| last > epoch.saturating_add(horizon))
    }

    /// Notes which switches have counted the packets that left late in an epoch, as it closes.
    pub(super) fn confirm(&mut self, epoch: u64, open: &Open) {
        if self.horizon().is_none_or(|horizon| horizon == 0) {
            return;
        }
        // A record of several epochs counts the late packets of all of them. A part of one, or one
        // of a switch that has started again, may lack some.
        let counts = |record: &Result<_, Gap>| matches!(record, Ok(_) | Err(Gap::Spans { .. }));
        let heard = open.records.iter().filter(|(_, record)| counts(record)).map(|(name, _)| name.clone());
        let reported = open.records.iter().filter(|(_, record)| record.is_ok()).map(|(name, _)| name.clone());
        let Pending { epochs, heard: all } = &mut self.pending;
        all.insert(epoch, heard.collect());
        epochs.retain(|(earlier, _)| *earlier < epoch);
        epochs.push_back((epoch, reported.collect()));
        all.retain(|&of, _| of <= epoch && epochs.front().is_some_and(|(oldest, _)| of > *oldest));
    }

    /// Makes the answers final that waited for epoch `closed`.
    pub(super) fn finalise(&mut self, closed: u64) {
        let Some(horizon) = self.horizon() else { return };
        // By one bit, packets that waited were counted in another epoch, and no later record says so.
        let one_bit = self.has_one_bit();
        while let Some((epoch, switches)) = self.pending.epochs.front() {
            let last = epoch.saturating_add(horizon);
            if last > closed {
                return;
            }
            let (epoch, gaps) = (*epoch, self.pending.unconfirmed(*epoch, last, switches));
            let stays = |waiting: &SwitchGap| one_bit || gaps.iter().any(|gap| gap.switch == waiting.switch);
            self.history.finalise(epoch, &gaps, &stays);
            self.pending.epochs.pop_front();
        }
    }

    pub(super) fn has_one_bit(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.header == TelemetryHeader::Dscp)
    }

    /// More packets left in this epoch than entered. With one bit they may be late ones of earlier
    /// epochs, where they seem lost.
    pub(super) fn doubt_epochs_of_the_same_bit(&self, epoch: u64) {
        let earlier = (1..=DOUBTED).map_while(|pairs| epoch.checked_sub(2 * pairs));
        earlier.for_each(|epoch| self.history.doubt_losses(epoch, Reason::OneBit));
    }
}
