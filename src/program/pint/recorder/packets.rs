//! What the whole way of flows' packets had, by the packets of one epoch, bounded in memory.
//!
//! Each packet that carries the query tells of its whole way: of the busiest link, or of all that it
//! waited. A hash chooses these packets, so they are a uniform sample of the flow's packets that are
//! reported: the first of the epoch, as many as `packets` says. Their median is that of these within
//! the error that [`Told::rank_error`](crate::program::answers::Told::rank_error) states.

use std::collections::HashSet;
use std::sync::Arc;

use super::Key;
use super::kept::Kept;
use super::values::Meaning;
use crate::program::answers::{FlowName, FlowValues, Reasons, ValueAnswers};
use crate::program::pint::parameters::Coding;
use crate::program::pint::query::Query;
use crate::program::pint::record::{Digests, Seen};
use crate::program::pint::samples::Samples;
use crate::program::pint::values::Aggregation;

/// What makes answers of the digests of an epoch.
pub struct PacketRecorder {
    meaning: Meaning,
    /// Flows at most.
    room: usize,
    evicted: u64,
}

impl PacketRecorder {
    /// Of this query, with room for so many flows of an epoch.
    pub fn new(meaning: Meaning, room: usize) -> Self {
        Self { meaning, room, evicted: 0 }
    }

    pub fn query(&self) -> &Query {
        &self.meaning.query
    }

    /// Goes on with another query.
    #[must_use]
    pub fn change(self, meaning: Meaning) -> Self {
        Self { evicted: self.evicted, ..Self::new(meaning, self.room) }
    }

    /// What the records of an epoch tell, as an answer that lacks what they do. Without a coding
    /// there is no record.
    pub fn answers(
        &mut self,
        coding: Option<&Coding>,
        records: &[(Arc<str>, &Digests)],
        lack: &Reasons,
    ) -> ValueAnswers {
        let flows = coding.map_or(Vec::new(), |coding| self.epoch(coding, records));
        // Each hop rounds a sum anew.
        let sums = coding.filter(|_| self.meaning.query.aggregation == Aggregation::Sum);
        let streams = |coding: &Coding| {
            let id = coding.id;
            let all = records.iter().flat_map(|(_, record)| record.streams());
            all.filter(move |(stream, _)| stream.plan == id).map(|(stream, _)| stream.hops).max()
        };
        let roundings = sums.and_then(streams).unwrap_or(1);
        self.meaning.answers(flows, self.evicted, lack.clone(), roundings)
    }

    /// The values that the flows of an epoch met, by its records and their sinks. Flows of which no
    /// packet carried the query are not there. Where there are too many, those with the fewest
    /// packets make place.
    fn epoch(&mut self, coding: &Coding, records: &[(Arc<str>, &Digests)]) -> Vec<FlowValues> {
        let query = self.meaning.query;
        let Some(value) = coding.scheme.value(&query) else { return Vec::new() };
        let mut flows = Kept::<Key, Samples>::new(self.room, Samples::number);
        let mut identities = HashSet::new();
        for (sink, record) in records {
            for (stream, seen) in record.streams().iter().filter(|(stream, _)| stream.plan == coding.id) {
                let key = Key { flow: query.flow.key(stream.flow), sink: sink.clone() };
                let code = |seen: &Seen| value.part(seen.identity, seen.digest);
                identities.clear();
                // Of a packet that was doubled the first copy counts.
                let once = |seen: &Seen| code(seen).filter(|_| identities.insert(seen.identity));
                let mut codes = seen.iter().filter_map(once).peekable();
                if codes.peek().is_none() {
                    continue;
                }
                let samples = flows.flow(key, || Samples::of(&query));
                codes.for_each(|code| samples.add(code));
            }
        }
        flows.trim();
        self.evicted += flows.evicted();
        let answer = |(key, samples): (&Key, &Samples)| FlowValues {
            flow: FlowName::Flow(query.flow.flow(key.flow)),
            sink: key.sink.clone(),
            checksum: None,
            told: vec![self.meaning.told(None, Some(samples))],
        };
        flows.iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::ReportBuffer;
    use crate::program::answers::FlowUtilisation;
    use crate::program::pint::Config;
    use crate::program::pint::dataplane::Measured;
    use crate::program::pint::query::Value;
    use crate::program::pint::record::{Arrival, Room};
    use crate::program::pint::recorder::values::utilisation;
    use crate::wire::FiveTuple;

    /// The digests of one epoch: of each packet a flow, and a utilisation in units of 2⁻²⁴.
    fn epoch(config: &Config, recorder: &mut PacketRecorder, packets: &[(u64, u32)]) -> Vec<FlowUtilisation> {
        let family = HashFamily::reproducible(3);
        let coding = Coding::new(config.parameters(), &family);
        let scheme = &coding.scheme;
        let mut buffer = ReportBuffer::with_capacity(packets.len());
        for (identity, (flow, utilisation)) in (0..).zip(packets) {
            let measured = Measured { hop: 1, identity, utilisation: *utilisation, ..Measured::default() };
            let digest = scheme.encode(&scheme.switch(1), measured, 0);
            let flow = FiveTuple([4 << 40 | flow << 8, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns: identity.into(), plan: coding.id, flow, hops: 1, identity, digest });
        }
        let record = Digests::of(&family, Room::of(config), &buffer.read());
        utilisation(recorder.answers(Some(&coding), &[("a".into(), &record)], &Reasons::default())).flows
    }

    fn config(queries: &str, flows: u32) -> Config {
        Config { queries: queries.parse().unwrap(), flows, ..Config::default() }
    }

    fn of_config(config: &Config) -> PacketRecorder {
        let query = config.parameters().query(Value::Utilisation).unwrap();
        PacketRecorder::new(Meaning::new(query).unwrap(), config.flows as usize)
    }

    /// The median and the maximum of an epoch are those of its packets, and nothing is left of the
    /// epoch before.
    #[test]
    fn answers_are_of_one_epoch() {
        let config = config("utilisation:bits=8", 9);
        let mut recorder = of_config(&config);
        let (_, factor) = recorder.meaning.codes.errors(Value::Utilisation);
        for half in [1 << 23, 1 << 20] {
            // As many at a half as at a sixteenth of that, and one more; a single one at twice that.
            let mut packets: Vec<_> = (0..100).map(|i| (1, if i % 2 == 0 { half } else { half >> 4 })).collect();
            packets.extend([(1, half), (1, 2 * half)]);
            let found = epoch(&config, &mut recorder, &packets);
            let [flow] = &found[..] else { panic!("{found:?}") };
            assert_eq!((flow.packets, &*flow.sink), (102, "a"));
            for (found, truth) in [(flow.median, half), (flow.max, 2 * half)] {
                let off = found / (f64::from(truth) / f64::from(1 << 24));
                assert!((1.0 / factor..factor).contains(&off), "{flow:?}: {off}");
            }
        }
    }

    /// A packet that was doubled on its way counts once, as it came first: the copies may have met
    /// other values behind the link that doubled it.
    #[test]
    fn doubled_packets_count_once() {
        let config = config("utilisation:bits=8", 9);
        let mut recorder = of_config(&config);
        let family = HashFamily::reproducible(3);
        let coding = Coding::new(config.parameters(), &family);
        let mut buffer = ReportBuffer::with_capacity(300);
        for (time_ns, identity, utilisation) in (0..100).flat_map(|i| [(i, i, 1 << 20), (i + 50, i, 1 << 23)]) {
            let measured = Measured { hop: 1, identity, utilisation, ..Measured::default() };
            let digest = coding.scheme.encode(&coding.scheme.switch(1), measured, 0);
            let flow = FiveTuple([4 << 40, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns: time_ns.into(), plan: coding.id, flow, hops: 1, identity, digest });
        }
        let record = Digests::of(&family, Room::of(&config), &buffer.read());
        let answers = recorder.answers(Some(&coding), &[("a".into(), &record)], &Reasons::default());
        let [flow] = &utilisation(answers).flows[..] else { panic!("one flow") };
        assert!(flow.packets == 100 && flow.max < 1.0 / 15.0, "{flow:?}");
    }

    /// Flows are bounded: those with the fewest packets go, counted. Flows are what the query means
    /// by them, and packets without the query count for none.
    #[test]
    fn flows_are_bounded() {
        let packets: Vec<_> = (0..12u64).flat_map(|flow| vec![(flow, 1 << 20); flow as usize + 1]).collect();
        let five = config("utilisation:bits=8", 5);
        let mut recorder = of_config(&five);
        let found = epoch(&five, &mut recorder, &packets);
        let kept: Vec<_> = found.iter().map(|flow| flow.packets).collect();
        assert_eq!((kept, recorder.evicted), (vec![12, 11, 10, 9, 8], 7));
        let pairs = config("path:bits=8:frequency=1/2+utilisation:bits=8:frequency=1/2:flow=pair", 5);
        let pairs = Config { budget: 8, ..pairs };
        let mut recorder = of_config(&pairs);
        let found = epoch(&pairs, &mut recorder, &packets);
        let [flow] = &found[..] else { panic!("{found:?}") };
        assert!((20..60).contains(&flow.packets) && recorder.evicted == 0, "{flow:?}");
    }
}
