//! Loops by flow and by the switch that saw them: bounded in memory, over all epochs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::kept::Kept;
use crate::answers::{FlowLoop, FlowName, LoopAnswers};
use crate::history::Reason;
use crate::program::pint::query::{FlowDefinition, Query};
use crate::program::pint::record::Digests;
use crate::wire::FiveTuple;

/// A flow, and the switch that saw it in a loop.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    flow: FiveTuple,
    switch: Arc<str>,
}

/// What is known of it.
struct Known {
    first_ns: u64,
    last_ns: u64,
    packets: u64,
    least_hops: u32,
    last_epoch: u64,
}

/// What a network has reported of loops so far.
pub struct LoopRecorder {
    /// Which packets are one flow.
    flow: FlowDefinition,
    flows: Kept<Key, Known>,
    /// The packets that each switch reported in the last epoch, at most as many as a record has room
    /// for. A packet that still loops is no other one.
    before: HashMap<Arc<str>, HashSet<(FiveTuple, u32)>>,
}

impl LoopRecorder {
    /// Of this query, with room for this number of flows.
    pub fn new(query: Query, room: usize) -> Self {
        Self { flow: query.flow, flows: Kept::new(room, |known| known.last_epoch, 0), before: HashMap::new() }
    }

    /// Goes on with another query. Where it means something else by a flow, those that are known are
    /// evicted.
    #[must_use]
    pub fn change(mut self, query: Query) -> Self {
        if self.flow != query.flow {
            self.flows.clear();
            self.before.clear();
        }
        Self { flow: query.flow, ..self }
    }

    /// Takes the records of an epoch, by switch, and gives the loops of which they have packets.
    pub fn epoch<'a>(
        &mut self,
        epoch: u64,
        records: impl IntoIterator<Item = (&'a Arc<str>, &'a Digests)>,
    ) -> LoopAnswers {
        let (mut missing_reports, before) = (0u64, std::mem::take(&mut self.before));
        for (switch, record) in records {
            missing_reports = missing_reports.saturating_add(record.loops().overflow());
            // A packet is reported each time that it comes round.
            let mut packets = HashSet::new();
            let earlier = before.get(switch);
            for report in record.loops().kept() {
                let key = Key { flow: self.flow.key(report.flow), switch: switch.clone() };
                let (time_ns, hops) = (report.time_ns, u32::from(report.hops));
                let fresh =
                    Known { first_ns: time_ns, last_ns: time_ns, packets: 0, least_hops: hops, last_epoch: epoch };
                let known = self.flows.flow(key, || fresh);
                known.last_epoch = epoch;
                known.first_ns = known.first_ns.min(time_ns);
                known.last_ns = known.last_ns.max(time_ns);
                known.least_hops = known.least_hops.min(hops);
                let packet = (report.flow, report.identity);
                let is_new = packets.insert(packet) && !earlier.is_some_and(|earlier| earlier.contains(&packet));
                known.packets += u64::from(is_new);
            }
            if !packets.is_empty() {
                self.before.insert(switch.clone(), packets);
            }
        }
        let of_epoch = self.flows.iter().filter(|(_, known)| known.last_epoch == epoch);
        let mut flows: Vec<_> = of_epoch.map(|(key, known)| self.answer(key, known)).collect();
        flows.sort_unstable_by(|a, b| {
            b.packets.cmp(&a.packets).then_with(|| (a.flow, &a.switch).cmp(&(b.flow, &b.switch)))
        });
        self.flows.trim();
        let mut answers = LoopAnswers { flows, evicted: self.flows.evicted(), ..LoopAnswers::default() };
        answers.missing_reports = missing_reports;
        answers.lack.add_if(missing_reports > 0, Reason::Overflow);
        answers
    }

    fn answer(&self, key: &Key, known: &Known) -> FlowLoop {
        let Known { first_ns, last_ns, packets, least_hops, .. } = *known;
        let flow = FlowName::Flow(self.flow.flow(key.flow));
        FlowLoop { flow, switch: key.switch.clone(), first_ns, last_ns, packets, least_hops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::ReportBuffer;
    use crate::program::pint::Config;
    use crate::program::pint::loops::record::{LOOP_REPORTS, Looped};
    use crate::program::pint::query::Value;
    use crate::program::pint::record::Room;

    fn flow(port: u64) -> FiveTuple {
        FiveTuple([4 << 40 | port << 8, 0, 1, 0, 2])
    }

    /// The record of these reports, with room for this number.
    fn record(config: &Config, room: usize, reports: &[Looped]) -> Digests {
        let mut buffer = ReportBuffer::with_capacity(room);
        reports.iter().for_each(|report| buffer.push(*report));
        Digests::none(&HashFamily::reproducible(3), Room::of(config)).with_loops(&buffer.read())
    }

    /// Packets count once however often they come round, by switch; reports without room are told.
    #[test]
    fn packets_count_once() {
        let config = Config::default();
        let mut recorder = LoopRecorder::new(Query::new(Value::Loops), 5);
        let [a, b] = ["a".into(), "b".into()];
        let round = |identity, time_ns, hops| Looped { time_ns, flow: flow(7), hops, identity };
        let first =
            record(&config, LOOP_REPORTS, &[round(1, 30, 14), round(1, 20, 11), round(2, 50, 9), round(2, 60, 12)]);
        let second = record(&config, 1, &[round(1, 25, 12), round(1, 35, 15)]);
        let answers = recorder.epoch(4, [(&a, &first), (&b, &second)]);
        let found = answers.flows.iter().map(|f| (&*f.switch, f.first_ns, f.last_ns, f.packets, f.least_hops));
        assert_eq!(found.collect::<Vec<_>>(), [("a", 20, 60, 2, 9), ("b", 25, 25, 1, 12)]);
        assert_eq!((answers.missing_reports, answers.lack.contains(Reason::Overflow)), (1, true));
        // Later packets add to them, but one that still goes round does not; and an epoch without any
        // has no loop.
        let later = record(&config, 9, &[round(1, 80, 40), round(3, 90, 8)]);
        let answers = recorder.epoch(5, [(&a, &later)]);
        let FlowLoop { first_ns, last_ns, packets, least_hops, .. } = answers.flows[0];
        assert_eq!((first_ns, last_ns, packets, least_hops), (20, 90, 3, 8));
        assert!(answers.lack.is_empty() && recorder.epoch(6, [(&a, &record(&config, 9, &[]))]).flows.is_empty());
        // Other hashes change nothing; other flows begin anew.
        let recorder = recorder.change(Query { bits: 4, ..Query::new(Value::Loops) });
        assert_eq!((recorder.flows.len(), recorder.flows.evicted()), (2, 0));
        let recorder = recorder.change(Query { flow: FlowDefinition::Source, ..Query::new(Value::Loops) });
        assert_eq!((recorder.flows.len(), recorder.flows.evicted()), (0, 2));
    }

    /// Flows are bounded, within an epoch and over epochs; those that are silent longest go, counted.
    #[test]
    fn loops_are_bounded() {
        let (config, a) = (Config::default(), "a".into());
        let mut recorder = LoopRecorder::new(Query::new(Value::Loops), 5);
        for epoch in 0..6 {
            let report = |port| Looped { time_ns: port, flow: flow(100 * epoch + port), hops: 9, identity: 1 };
            let reports: Vec<_> = (0..40).map(report).collect();
            let answers = recorder.epoch(epoch, [(&a, &record(&config, LOOP_REPORTS, &reports))]);
            assert!(answers.flows.len() <= 10);
            assert_eq!(recorder.flows.len(), 5);
            assert_eq!(recorder.flows.evicted(), 40 * (epoch + 1) - 5);
        }
    }
}
