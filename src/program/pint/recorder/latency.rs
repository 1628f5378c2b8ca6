//! The latencies of hops, as samples of flows' packets: bounded in memory, over all epochs.
//!
//! Each packet tells the latency of one hop, drawn uniformly. So each hop of a flow has a uniform
//! sample of its packets, and the quantiles of the sample are those of the flow within the error
//! that [`HopLatency::rank_error`] states.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Key, Recorder, evict};
use crate::program::answers::{FlowLatency, FlowName, HopLatency};
use crate::program::pint::compress::Compression;
use crate::program::pint::parameters::Coding;
use crate::program::pint::plan::Share;
use crate::program::pint::query::Query;
use crate::program::pint::record::Digests;
use crate::program::pint::samples::Samples;

/// What is known of a flow on paths of one length.
struct Known {
    hops: Vec<Samples>,
    /// Reroutes ([`Recorder::path`]) when the samples began.
    reroutes: u64,
    last_epoch: u64,
}

impl Known {
    /// The hops of a path, as far as it is known.
    fn answer(&self, path: &[Option<Arc<str>>], codes: &Compression) -> Vec<HopLatency> {
        let hop = |(place, samples): (usize, &Samples)| HopLatency {
            switch: path.get(place).cloned().flatten(),
            samples: samples.number(),
            p50_ns: samples.quantile(0.5).map(|code| codes.expand(code.into())),
            p99_ns: samples.quantile(0.99).map(|code| codes.expand(code.into())),
            rank_error: samples.rank_error(),
        };
        self.hops.iter().enumerate().map(hop).collect()
    }
}

/// What a network has reported of latencies so far.
pub struct LatencyRecorder {
    /// What the samples are of.
    query: Query,
    codes: Compression,
    /// Flows at most.
    room: usize,
    /// By flow and number of switches.
    flows: HashMap<(Key, u8), Known>,
    evicted: u64,
}

impl LatencyRecorder {
    /// Of this query, with room for so many flows.
    pub fn new(query: Query, room: usize) -> Self {
        let codes = Compression::new(query.bits, query.range);
        Self { query, codes, room, flows: HashMap::new(), evicted: 0 }
    }

    /// Goes on with another query. Samples stay where the same codes are asked of the same flows;
    /// else their flows are evicted.
    #[must_use]
    pub fn change(mut self, query: Query) -> Self {
        let rest = |query: Query| Query { frequency: Share::ALL, ..query };
        if rest(self.query) == rest(query) {
            self.query = query;
            return self;
        }
        Self { evicted: self.evicted + self.flows.len() as u64, ..Self::new(query, self.room) }
    }

    /// The factor by which a time is off at most.
    pub fn error_factor(&self) -> f64 {
        self.codes.error_factor()
    }

    /// Flows that were evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Takes the records of an epoch, by sink, and gives the latencies of their flows. `paths` names
    /// switches where both mean the same by a flow, and has taken the records before. The samples of
    /// a flow begin anew when packets contradict a path that was sure.
    pub fn epoch(
        &mut self,
        epoch: u64,
        coding: &Coding,
        records: &[(Arc<str>, &Digests)],
        paths: &Recorder,
    ) -> Vec<FlowLatency> {
        let Query { bits, space, flow, .. } = self.query;
        let path_of = |key: &Key, hops| paths.path(key, hops).filter(|_| paths.flow() == flow);
        for (sink, record) in records {
            for (stream, seen) in record.streams().iter().filter(|(stream, _)| stream.plan == coding.id) {
                let key = (Key { flow: flow.key(stream.flow), sink: sink.clone() }, stream.hops);
                let reroutes = path_of(&key.0, stream.hops).map_or(0, |(_, reroutes)| reroutes);
                let fresh = || Known {
                    hops: (0..stream.hops).map(|_| Samples::new(bits, space)).collect(),
                    reroutes,
                    last_epoch: epoch,
                };
                let known = self.flows.entry(key).or_insert_with(fresh);
                if known.reroutes != reroutes {
                    *known = fresh();
                }
                known.last_epoch = epoch;
                for seen in seen {
                    let read = coding.scheme.read_latency(seen.identity, stream.hops, seen.digest);
                    if let Some((hop, code)) = read
                        && let Some(samples) = known.hops.get_mut(hop - 1)
                    {
                        samples.add(code);
                    }
                }
                if self.flows.len() > 2 * self.room {
                    self.evicted += evict(&mut self.flows, self.room, |known| known.last_epoch);
                }
            }
        }
        let of_epoch = self.flows.iter().filter(|(_, known)| known.last_epoch == epoch);
        let answer = |((key, hops), known): (&(Key, u8), &Known)| {
            let path = path_of(key, *hops).map_or(&[][..], |(path, _)| path);
            FlowLatency {
                flow: FlowName::Flow(flow.flow(key.flow)),
                sink: key.sink.clone(),
                hops: known.answer(path, &self.codes),
            }
        };
        let mut latencies: Vec<_> = of_epoch.map(answer).collect();
        latencies.sort_unstable_by(|a, b| {
            let place = |latency: &FlowLatency| (latency.flow, latency.sink.clone(), latency.hops.len());
            b.samples().cmp(&a.samples()).then_with(|| place(a).cmp(&place(b)))
        });
        self.evicted += evict(&mut self.flows, self.room, |known| known.last_epoch);
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::ReportBuffer;
    use crate::program::pint::Config;
    use crate::program::pint::dataplane::Measured;
    use crate::program::pint::encoding::switch_id;
    use crate::program::pint::query::Value;
    use crate::program::pint::record::{Arrival, Room};
    use crate::wire::FiveTuple;

    fn coding(config: &Config) -> (HashFamily, Coding) {
        let family = HashFamily::reproducible(3);
        (family.clone(), Coding::new(config.parameters(), &family))
    }

    fn recorders(config: &Config) -> (Recorder, LatencyRecorder) {
        let query = config.parameters().query(Value::Latency).unwrap();
        (Recorder::new(config), LatencyRecorder::new(query, config.flows as usize))
    }

    /// Flows are bounded: those that have been silent longest go, counted. Flows are what the query
    /// means by them, and hops have names only where the path means the same.
    #[test]
    fn flows_are_bounded() {
        for (definition, kept, named) in [("5tuple", 5, true), ("src", 1, false)] {
            let queries = format!("path:bits=8+latency:bits=8:flow={definition}").parse().unwrap();
            let config = Config { queries, flows: 5, ..Config::default() };
            let (mut paths, mut latency) = recorders(&config);
            paths.name(&"a".into());
            let (family, coding) = coding(&config);
            let scheme = &coding.scheme;
            for epoch in 0..12 {
                let mut buffer = ReportBuffer::with_capacity(64);
                for identity in 0..64 {
                    let flow = FiveTuple([4 << 40 | epoch << 8, 0, 1, 0, 2]);
                    let measured = Measured { hop: 1, identity, latency_ns: 1 << 20, ..Measured::default() };
                    let digest = scheme.encode(&scheme.switch(switch_id("a")), measured, 0);
                    buffer.push(Arrival { time_ns: identity.into(), plan: coding.id, flow, hops: 1, identity, digest });
                }
                let record = Digests::of(&family, Room::of(&config), &buffer.read());
                let records = [("a".into(), &record)];
                paths.epoch(epoch, &coding, &records);
                let [flow] = &latency.epoch(epoch, &coding, &records, &paths)[..] else { panic!("one flow") };
                let hop = &flow.hops[0];
                let epochs = if definition == "src" { epoch + 1 } else { 1 };
                assert_eq!((hop.samples, hop.switch.is_some()), (64 * epochs, named), "{flow:?}");
                let off = hop.p50_ns.unwrap() as f64 / f64::from(1 << 20);
                assert!((0.9..1.1).contains(&off), "{hop:?}");
            }
            assert_eq!((latency.flows.len(), latency.evicted()), (kept, if kept == 5 { 7 } else { 0 }));
        }
    }

    /// A switch that nobody knows contradicts the packets whenever a path is worked out. Samples
    /// stay all the same: no path was sure before.
    #[test]
    fn samples_outlive_contradictions() {
        let config = Config { queries: "path:bits=8+latency:bits=8".parse().unwrap(), ..Config::default() };
        let (mut paths, mut latency) = recorders(&config);
        paths.name(&"b".into());
        let (family, coding) = coding(&config);
        let scheme = &coding.scheme;
        for epoch in 0..20u32 {
            let mut buffer = ReportBuffer::with_capacity(64);
            for identity in 64 * epoch..64 * (epoch + 1) {
                let flow = FiveTuple([4 << 40, 0, 1, 0, 2]);
                let digest = (1..).zip(["unknown", "b"]).fold(0, |digest, (hop, name)| {
                    let measured = Measured { hop, identity, latency_ns: 1 << 20, ..Measured::default() };
                    scheme.encode(&scheme.switch(switch_id(name)), measured, digest)
                });
                buffer.push(Arrival { time_ns: identity.into(), plan: coding.id, flow, hops: 2, identity, digest });
            }
            let record = Digests::of(&family, Room::of(&config), &buffer.read());
            let records = [("b".into(), &record)];
            let contradictions = paths.epoch(epoch.into(), &coding, &records)[0].contradictions;
            let flow = &latency.epoch(epoch.into(), &coding, &records, &paths)[0];
            assert_eq!(flow.samples(), 64 * u64::from(epoch + 1));
            assert!(epoch == 0 || contradictions > 0);
        }
    }
}
