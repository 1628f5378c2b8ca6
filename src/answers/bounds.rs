//! Lower bounds of the counts of flows, as other programs are certain of them. A program that estimates
//! counts takes them from its queries ([`Routes::at_least`](super::Routes::at_least)).

use rustc_hash::FxHashMap;

use super::{FlowCount, FoundFlows, Query, Queryable, Unit};
use crate::wire::Flow;

/// Maximum number of bounds of a query. Each epoch has an equal share, whatever the query's flows are, so
/// that a flow has the same bounds alone and among others.
const MOST: usize = 1 << 19;

/// Lower bounds by flow, of each in ascending order of epochs.
#[derive(Debug, Default)]
pub struct LowerBounds(FxHashMap<Flow, Vec<Bound>>);

/// A count that a flow is not below in an epoch.
#[derive(Clone, Copy, Debug)]
struct Bound {
    epoch: u64,
    unit: Unit,
    count: u64,
}

impl LowerBounds {
    /// The bounds that these histories have in the window of `query`, of its flows. Each epoch of a history
    /// is read once.
    pub fn among<'a>(histories: impl Iterator<Item = &'a dyn Queryable>, query: &Query) -> Self {
        let mut bounds = Self::default();
        for history in histories {
            let epochs = history.certain_counts(query);
            let most = MOST / epochs.len().max(1);
            for (epoch, found) in epochs {
                found.into_iter().for_each(|found| bounds.add(epoch, found, most, query));
            }
        }
        bounds.0.values_mut().for_each(|of_flow| of_flow.sort_by_key(|bound| bound.epoch));
        bounds
    }

    /// Adds the largest counts of an epoch, at most `most`. The same flow may have names of fewer fields, or
    /// of prefixes: these say nothing about five-tuples, nor these about them.
    fn add(&mut self, epoch: u64, FoundFlows { unit, mut flows, .. }: FoundFlows, most: usize, query: &Query) {
        let mut floor = 0;
        if flows.len() > most {
            let number = |flow: &FlowCount| std::cmp::Reverse(flow.count.number);
            floor = flows.select_nth_unstable_by_key(most, number).1.count.number;
        }
        for FlowCount { flow, count } in flows.into_iter().filter(|flow| flow.count.number > floor) {
            let Some(flow) = flow.flow().filter(|flow| flow.fields() == [true; 5]) else { continue };
            if query.flow.is_some_and(|pattern| !pattern.matches(&flow)) {
                continue;
            }
            self.0.entry(flow).or_default().push(Bound { epoch, unit, count: count.number });
        }
    }

    /// What the flow has at least in an epoch; 0 where nothing is known.
    pub fn of(&self, flow: &Flow, epoch: u64, unit: Unit) -> u64 {
        let bounds = self.0.get(flow).map(|bounds| &bounds[..]).unwrap_or_default();
        let from = bounds.partition_point(|bound| bound.epoch < epoch);
        let of_epoch = bounds[from..].iter().take_while(|bound| bound.epoch == epoch);
        of_epoch.filter(|bound| bound.unit == unit).map(|bound| bound.count).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answers::{Answers, FlowName, ProgramAnswer, Task};
    use crate::history::{Entry, Epochs, Gap, History, Kept, Room, SwitchGap, Window};

    /// Flows that a program found, by source port.
    struct Table(Vec<(u16, u64)>);

    impl Kept for Table {
        fn bytes(&self) -> usize {
            0
        }
    }

    impl Answers for Table {
        fn answer(_: &Epochs<Self>, _: &Query) -> Option<ProgramAnswer> {
            None
        }

        fn certain(&self) -> Option<FoundFlows> {
            let of = |name, number: u64| FlowCount { flow: FlowName::Flow(name), count: number.into() };
            let mut flows: Vec<_> = self.0.iter().map(|(sport, number)| of(flow(*sport), *number)).collect();
            flows.push(of(flow(1).only([true, false, false, false, false]), 99));
            Some(FoundFlows { unit: Unit::Bytes, flows, ..FoundFlows::default() })
        }
    }

    fn flow(sport: u16) -> Flow {
        Flow::from_port(sport)
    }

    fn history(epochs: Vec<Entry<Table>>) -> Arc<dyn Queryable> {
        let history = History::new(Room { epochs: 99, bytes: 1 << 20 });
        epochs.into_iter().for_each(|entry| history.push(Entry { switches: vec!["a".into()], ..entry }));
        Arc::new(history)
    }

    fn among(histories: &[Arc<dyn Queryable>], query: &Query) -> LowerBounds {
        LowerBounds::among(histories.iter().map(|history| &**history), query)
    }

    /// Bounds are those of the epochs and flows that are asked for, in the unit that was counted; of several
    /// histories the largest. Epochs with several entries, and entries of several epochs, bound nothing.
    #[test]
    fn bounds_are_of_flows_epochs_and_units() {
        let entry = |epoch, flows: &[(u16, u64)]| Entry::new(epoch, Table(flows.to_vec()));
        let spans = SwitchGap { switch: "a".into(), gap: Gap::Spans { first_epoch: 4 } };
        let one = history(vec![
            entry(1, &[(1, 10), (2, 20)]),
            entry(2, &[(1, 11)]),
            entry(3, &[(1, 12)]),
            entry(3, &[(1, 13)]),
            Entry { first_epoch: 4, gaps: vec![spans], ..entry(5, &[(1, 14)]) },
        ]);
        let histories = [one, history(vec![entry(2, &[(1, 5)]), entry(1, &[(1, 15)])])];
        let bounds = |query: &Query| {
            let bounds = among(&histories, query);
            (1..=5).map(|epoch| [1, 2].map(|sport| bounds.of(&flow(sport), epoch, Unit::Bytes))).collect::<Vec<_>>()
        };
        let all = Query::new(Task::Heavy, Window::All);
        assert_eq!(bounds(&all), [[15, 20], [11, 0], [0, 0], [0, 0], [0, 0]]);
        assert_eq!(bounds(&Query { window: Window::Epoch(2), ..all.clone() })[..2], [[0, 0], [11, 0]]);
        let only = Query { flow: Some(flow(2).to_string().parse().unwrap()), ..all.clone() };
        assert_eq!(bounds(&only)[..2], [[0, 20], [0, 0]]);
        assert_eq!(among(&histories, &all).of(&flow(1), 1, Unit::Packets), 0);
        assert_eq!(among(&histories, &all).of(&flow(1).only([true, false, false, false, false]), 1, Unit::Bytes), 0);
    }

    /// Of an epoch with more flows the heaviest have bounds, the same ones whichever flows are asked for.
    #[test]
    fn bounds_are_of_the_heaviest_flows() {
        let mut bounds = LowerBounds::default();
        let found = || Table((0..100).map(|sport| (sport, 100 + u64::from(sport))).collect()).certain().unwrap();
        bounds.add(7, found(), 10, &Query::new(Task::Heavy, Window::All));
        let known: Vec<_> = (0..100).filter(|sport| bounds.of(&flow(*sport), 7, Unit::Bytes) > 0).collect();
        assert_eq!(known, (90..100).collect::<Vec<_>>());
        for sport in [89, 90] {
            let only = Some(flow(sport).to_string().parse().unwrap());
            let mut alone = LowerBounds::default();
            alone.add(7, found(), 10, &Query { flow: only, ..Query::new(Task::Heavy, Window::All) });
            assert_eq!(alone.of(&flow(sport), 7, Unit::Bytes), bounds.of(&flow(sport), 7, Unit::Bytes));
            assert_eq!(alone.0.len(), usize::from(sport >= 90));
        }
    }
}
