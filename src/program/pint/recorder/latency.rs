//! The latencies of hops, as samples of flows' packets: bounded in memory, over all epochs.
//!
//! Each packet tells the latency of one hop, drawn uniformly. So each hop of a flow has a uniform
//! sample of its packets, and the quantiles of the sample are those of the flow within the error
//! that [`HopLatency::rank_error`] states.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Key, Recorder};
use crate::program::answers::{FlowLatency, FlowName, HopLatency};
use crate::program::pint::Config;
use crate::program::pint::compress::Compression;
use crate::program::pint::query::{FlowDefinition, Value};
use crate::program::pint::record::Digests;
use crate::program::pint::samples::Samples;

/// What is known of a flow on paths of one length.
struct Known {
    hops: Vec<Samples>,
    /// [`Recorder::path`]'s changes when the samples began.
    changes: u64,
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
    bits: u32,
    space: Option<u32>,
    /// Which packets are one flow.
    flow: FlowDefinition,
    /// Flows at most.
    room: usize,
    /// By flow and number of switches.
    flows: HashMap<(Key, u8), Known>,
    evicted: u64,
}

impl LatencyRecorder {
    /// `None` where latencies are not asked for.
    pub fn new(config: &Config) -> Option<Self> {
        let query = config.query(Value::Latency)?;
        let room = config.flows as usize;
        Some(Self { bits: query.bits, space: query.space, flow: query.flow, room, flows: HashMap::new(), evicted: 0 })
    }

    /// Flows that were evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Takes the records of an epoch, by sink, and gives the latencies of their flows. `paths` names
    /// switches where both mean the same by a flow, and has taken the records before. The samples of a flow begin anew when its path
    /// is found to have changed.
    pub fn epoch(&mut self, epoch: u64, records: &[(Arc<str>, &Digests)], paths: &Recorder) -> Vec<FlowLatency> {
        let path_of = |key: &Key, hops| paths.path(key, hops).filter(|_| paths.flow() == self.flow);
        for (sink, record) in records {
            for (stream, seen) in record.streams() {
                let key = (Key { flow: self.flow.key(stream.flow), sink: sink.clone() }, stream.hops);
                let changes = path_of(&key.0, stream.hops).map_or(0, |(_, changes)| changes);
                let fresh = || Known {
                    hops: (0..stream.hops).map(|_| Samples::new(self.bits, self.space)).collect(),
                    changes,
                    last_epoch: epoch,
                };
                let known = self.flows.entry(key).or_insert_with(fresh);
                if known.changes != changes {
                    *known = fresh();
                }
                known.last_epoch = epoch;
                for seen in seen {
                    let read = record.scheme().read_latency(seen.identity, stream.hops, seen.digest);
                    if let Some((hop, code)) = read
                        && let Some(samples) = known.hops.get_mut(hop - 1)
                    {
                        samples.add(code);
                    }
                }
            }
        }
        let Some(code) = records.first().and_then(|(_, first)| first.scheme().latency()) else { return Vec::new() };
        let of_epoch = self.flows.iter().filter(|(_, known)| known.last_epoch == epoch);
        let answer = |((key, hops), known): (&(Key, u8), &Known)| {
            let path = path_of(key, *hops).map_or(&[][..], |(path, _)| path);
            FlowLatency {
                flow: FlowName::Flow(self.flow.flow(key.flow)),
                sink: key.sink.clone(),
                hops: known.answer(path, code.compression()),
            }
        };
        let mut latencies: Vec<_> = of_epoch.map(answer).collect();
        latencies.sort_unstable_by(|a, b| {
            b.samples().cmp(&a.samples()).then_with(|| (a.flow, &a.sink).cmp(&(b.flow, &b.sink)))
        });
        self.evict();
        latencies
    }

    /// Forgets the flows that have been silent longest.
    fn evict(&mut self) {
        let surplus = self.flows.len().saturating_sub(self.room);
        if surplus == 0 {
            return;
        }
        let mut order: Vec<_> = self.flows.iter().map(|(key, known)| (known.last_epoch, key.clone())).collect();
        order.sort_unstable();
        order.into_iter().take(surplus).for_each(|(_, key)| _ = self.flows.remove(&key));
        self.evicted += surplus as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::ReportBuffer;
    use crate::program::pint::dataplane::Measured;
    use crate::program::pint::encoding::switch_id;
    use crate::program::pint::record::{Arrival, Room};
    use crate::wire::FiveTuple;

    /// Flows are bounded: those that have been silent longest go, counted. Flows are what the query
    /// means by them, and hops have names only where the path means the same.
    #[test]
    fn flows_are_bounded() {
        for (definition, kept, named) in [("5tuple", 5, true), ("src", 1, false)] {
            let queries = format!("path:bits=8+latency:bits=8:flow={definition}").parse().unwrap();
            let config = Config { queries, flows: 5, ..Config::default() };
            let (mut paths, mut latency) = (Recorder::new(&config), LatencyRecorder::new(&config).unwrap());
            paths.name(&"a".into());
            let scheme = Arc::new(config.scheme(&HashFamily::reproducible(3)));
            for epoch in 0..12 {
                let mut buffer = ReportBuffer::with_capacity(64);
                for identity in 0..64 {
                    let flow = FiveTuple([4 << 40 | epoch << 8, 0, 1, 0, 2]);
                    let measured = Measured { hop: 1, identity, latency_ns: 1 << 20 };
                    let digest = scheme.encode(&scheme.switch(switch_id("a")), measured, 0);
                    buffer.push(Arrival { time_ns: identity.into(), flow, hops: 1, identity, digest });
                }
                let record = Digests::of(&scheme, Room::of(&config), &buffer.read());
                let records = [("a".into(), &record)];
                paths.epoch(epoch, &records);
                let [flow] = &latency.epoch(epoch, &records, &paths)[..] else { panic!("one flow") };
                let hop = &flow.hops[0];
                assert_eq!((hop.samples % 64, hop.switch.is_some()), (0, named), "{flow:?}");
                let off = hop.p50_ns.unwrap() as f64 / f64::from(1 << 20);
                assert!((0.9..1.1).contains(&off), "{hop:?}");
            }
            assert_eq!((latency.flows.len(), latency.evicted()), (kept, if kept == 5 { 7 } else { 0 }));
        }
    }
}
