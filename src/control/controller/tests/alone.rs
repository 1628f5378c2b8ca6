//! A switch that is its own controller.

use std::sync::Mutex;

use super::*;
use crate::control::Closed;

struct Switch {
    alone: Alone,
    edge: Edge,
    board: Board,
}

impl Switch {
    fn new(transit: Nanos, epoch: u64) -> Self {
        let edge = Edge::new("alone", epoch, config().runtime());
        let board = Board::default();
        let settings = AloneSettings { length: LENGTH, transit, history: 100, fabric: false };
        let schedules = [AnySchedule::new(edge.schedule.clone())];
        let alone = Alone::new("alone", Arc::new(Mutex::new(settings)), &schedules, board.clone(), 3);
        Self { alone, edge, board }
    }

    /// Some flows, of which one loses a packet.
    fn traffic(&mut self, epoch: u64) {
        for flow in 0..30 {
            let phv = self.edge.enter(flow, epoch);
            if flow > 0 {
                self.edge.leave(phv);
            }
        }
    }

    fn take(&mut self, report: Report, now: Nanos) {
        let Report { first_epoch, epoch, record } = report;
        self.alone.take(Closed { program: 0, first: first_epoch, last: epoch, record: &record }, now);
    }

    /// The epochs that were answered, with what is missing of each.
    fn answered(&self) -> Vec<(u64, Vec<Gap>)> {
        let epochs = self.board.last(f64::MAX).epochs;
        epochs.iter().map(|epoch| (epoch.epoch, epoch.gaps.iter().map(|gap| gap.gap).collect())).collect()
    }
}

/// However far the collector is behind, what it has a record of is answered; what it has none of is a gap.
#[test]
fn records_that_waited() {
    let mut switch = Switch::new(TRANSIT, 100);
    let mut records: Vec<_> = (100..106)
        .map(|epoch| {
            switch.traffic(epoch);
            switch.edge.end(epoch, |_| {})
        })
        .collect();
    records.remove(3);
    records.into_iter().for_each(|record| switch.take(record, 120 * LENGTH));
    let expected = [
        (100, vec![Gap::Started]),
        (101, vec![]),
        (102, vec![]),
        (103, vec![Gap::Missing]),
        (104, vec![Gap::Before]),
        (105, vec![]),
    ];
    assert_eq!(switch.answered(), expected);
    let newest = &switch.board.last(0.0).epochs[0];
    assert!(newest.has_all_losses() && newest.losses.as_ref().unwrap().lost_packets == 1);
}

#[test]
fn the_longest_transit_time() {
    let mut switch = Switch::new(LENGTH / 2, 100);
    for epoch in 100..110 {
        switch.traffic(epoch);
        let record = switch.edge.end_prepared(epoch, |_| {});
        switch.edge.program.prepare(epoch + 2);
        switch.take(record, (epoch + 1) * LENGTH + LENGTH / 2 + 1_000_000);
    }
    let answered = switch.answered();
    assert!(answered[1..].iter().all(|(_, gaps)| gaps.is_empty()), "{answered:?}");
    let epochs = switch.board.last(f64::MAX).epochs;
    let first = AnyParameters::new(config().runtime()).describe();
    assert!(
        epochs.iter().any(|epoch| Some(&epoch.adaptation.as_ref().unwrap().measured) != first.as_ref()),
        "orders take effect"
    );
}
