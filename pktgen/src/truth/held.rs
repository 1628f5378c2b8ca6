//! Truth that waits for late frames.

use std::collections::{BTreeMap, VecDeque};

use super::EpochTruth;

/// Most rows that wait, some 100 bytes each.
const ROWS: usize = 1 << 19;

/// Epochs in their order. One of which all frames came goes on when those before it do; another
/// waits for `patience` epochs, or as long as there is room.
#[derive(Debug)]
pub struct Held {
    patience: u64,
    most: usize,
    rows: usize,
    epochs: VecDeque<EpochTruth>,
    /// Late frames of epochs whose truth is not here yet, by epoch and flow's number.
    early: BTreeMap<(u64, u32), u64>,
    /// All epochs up to it have gone.
    gone: Option<u64>,
    /// Late frames whose epoch had gone, or for which there was no room.
    unplaced: u64,
}

impl Held {
    /// `patience`: how many epochs truth waits for late frames.
    pub fn new(patience: u64) -> Self {
        Self { patience, most: ROWS, rows: 0, epochs: VecDeque::new(), early: BTreeMap::new(), gone: None, unplaced: 0 }
    }

    /// Takes an epoch's truth; epochs come in their order but for a few.
    pub fn insert(&mut self, mut truth: EpochTruth) {
        let late = self.early.range((truth.epoch, 0)..=(truth.epoch, u32::MAX)).map(|(key, n)| (*key, *n));
        for (key, packets) in late.collect::<Vec<_>>() {
            self.early.remove(&key);
            if !truth.add_late(key.1, packets) {
                self.unplaced += packets;
            }
        }
        self.rows += truth.flows.len();
        let place = self.epochs.partition_point(|held| held.epoch < truth.epoch);
        self.epochs.insert(place, truth);
    }

    /// Takes a late frame.
    pub fn late(&mut self, epoch: u64, flow: u32) {
        if self.gone >= Some(epoch) {
            self.unplaced += 1;
            return;
        }
        let place = self.epochs.partition_point(|held| held.epoch < epoch);
        match self.epochs.get_mut(place).filter(|held| held.epoch == epoch) {
            Some(held) => self.unplaced += u64::from(!held.add_late(flow, 1)),
            None if self.early.len() < self.most => *self.early.entry((epoch, flow)).or_default() += 1,
            None => self.unplaced += 1,
        }
    }

    /// The oldest epoch, if it has to wait no more.
    pub fn take_over(&mut self) -> Option<EpochTruth> {
        let (oldest, newest) = (self.epochs.front()?, self.epochs.back()?);
        let is_over = newest.epoch - oldest.epoch > self.patience || self.rows > self.most;
        if is_over || oldest.is_whole() { self.pop() } else { None }
    }

    /// The oldest epoch that waits.
    pub fn oldest(&self) -> Option<u64> {
        self.epochs.front().map(|truth| truth.epoch)
    }

    /// The oldest epoch, at the end.
    pub fn pop(&mut self) -> Option<EpochTruth> {
        let oldest = self.epochs.pop_front()?;
        self.rows -= oldest.flows.len();
        self.gone = self.gone.max(Some(oldest.epoch));
        Some(oldest)
    }

    /// Late frames that are in no epoch's truth. At the end, those of epochs that never came too.
    pub fn unplaced(&self) -> u64 {
        self.unplaced + self.early.values().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::FlowTruth;

    /// Flows 0 to 2 sent ten frames each, and as many came in time.
    fn truth(epoch: u64, came: [u64; 3]) -> EpochTruth {
        let row = |(number, received_packets)| FlowTruth {
            number,
            epoch,
            sent_packets: 10,
            received_packets,
            ..FlowTruth::default()
        };
        EpochTruth { epoch, flows: (0..).zip(came).map(row).collect() }
    }

    fn counts(truth: &EpochTruth) -> Vec<(u64, u64)> {
        truth.flows.iter().map(|flow| (flow.received_packets, flow.late_packets)).collect()
    }

    #[test]
    fn late_frames_belong_to_their_flow() {
        let mut held = Held::new(100);
        held.late(6, 2);
        for epoch in 5..8 {
            held.insert(truth(epoch, [10, 7, 9]));
        }
        (0..3).for_each(|_| held.late(5, 1));
        held.late(5, 2);
        held.late(7, 2);
        assert_eq!(counts(&held.take_over().unwrap()), [(10, 0), (10, 3), (10, 1)], "epoch 5 is whole");
        assert_eq!(held.take_over(), None, "three frames of epoch 6 may still come");
        held.late(5, 0);
        assert_eq!(held.unplaced(), 1, "epoch 5 has gone");
        held.late(6, 9);
        assert_eq!(held.unplaced(), 2, "there is no flow 9");
        let rest: Vec<_> = std::iter::from_fn(|| held.pop()).map(|truth| counts(&truth)).collect();
        assert_eq!(rest, [vec![(10, 0), (7, 0), (10, 1)], vec![(10, 0), (7, 0), (10, 1)]]);
        held.late(9, 0);
        assert_eq!(held.unplaced(), 3, "no epoch 9 came");
    }

    #[test]
    fn an_epoch_waits_no_longer_than_its_patience_and_the_room() {
        let lossy = |held: &mut Held, epochs: std::ops::Range<u64>| {
            epochs.for_each(|epoch| held.insert(truth(epoch, [9, 9, 9])));
            std::iter::from_fn(|| held.take_over()).map(|truth| truth.epoch).collect::<Vec<_>>()
        };
        let mut held = Held::new(3);
        assert_eq!(lossy(&mut held, 0..4), [0; 0]);
        assert_eq!(lossy(&mut held, 4..6), [0, 1]);
        let mut held = Held { most: 10, ..Held::new(1000) };
        assert_eq!(lossy(&mut held, 0..3), [0; 0]);
        assert_eq!(lossy(&mut held, 3..5), [0, 1], "twelve rows, fifteen rows");
        let before = held.unplaced();
        (0..20).for_each(|flow| held.late(9, flow));
        assert_eq!((held.early.len(), held.unplaced() - before), (10, 20), "what waits is bounded and counted");
    }
}
