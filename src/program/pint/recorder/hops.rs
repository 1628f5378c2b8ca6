//! The values of hops, as samples of flows' packets: bounded in memory, over all epochs or over a
//! sliding [window](crate::program::pint::window).
//!
//! Each packet tells the value of one hop, drawn uniformly, or of several with instances, and a hash
//! chooses the packets that are kept of a flow with many. A packet is one sample of a hop at most,
//! whichever of its instances tell of it: two would not be independent. So each hop of a flow has a
//! uniform sample of its packets of an epoch: the flow's quantiles lie in the intervals of the
//! [answer](crate::answers::Quantiles), and its shares of frequent values are within the
//! error there. Samples of several epochs count alike, also where these have different shares of
//! their packets.
//!
//! What an epoch lacked of a flow's packets, its samples lack as long as they are kept.
//!
//! A window ends with the newest packet of the epoch that left at the flow's switch, by the clock of
//! that switch.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Recorder;
use super::kept::Kept;
use super::lack::Lack;
use super::values::Meaning;
use super::ways::{Key, Way, sampled_ways};
use crate::answers::{FlowName, FlowValues, HopNumbers, SwitchSamples, ValueAnswers};
use crate::history::{Reason, Reasons};
use crate::program::pint::parameters::Coding;
use crate::program::pint::query::{FlowDefinition, Query, Value};
use crate::program::pint::record::{Digests, Seen, Stream};
use crate::program::pint::samples::Samples;
use crate::program::pint::window::{PARTS, Parts, Window};
use crate::slices;

/// What is known of a way.
struct Known {
    hops: Vec<Parts<Samples>>,
    /// Reroutes ([`Recorder::path`]) when the samples began.
    reroutes: u64,
    /// Why samples are missing. A window has reasons of its own.
    lack: Reasons,
    last_epoch: u64,
}

impl Known {
    fn new(hops: u8, reroutes: u64, lack: Reasons) -> Self {
        Self { hops: vec![Parts::default(); hops.into()], reroutes, lack, last_epoch: 0 }
    }

    /// The hops of a path, as far as it is known.
    fn answer(&self, path: &[Option<Arc<str>>], meaning: &Meaning) -> Vec<HopNumbers> {
        let hop = |(place, parts): (usize, &Parts<Samples>)| {
            let several = if parts.only().is_some() { None } else { Samples::sum(parts.iter()) };
            let samples = parts.only().or(several.as_ref());
            meaning.told(path.get(place).cloned().flatten(), samples)
        };
        self.hops.iter().enumerate().map(hop).collect()
    }
}

/// The samples of one epoch, as codes, by switch.
#[derive(Default)]
struct OfSwitches(BTreeMap<Option<Arc<str>>, BTreeMap<u16, u64>>);

impl OfSwitches {
    /// Adds the samples of a way's hops, whose switches are known as far as `path` says.
    fn add(&mut self, path: &[Option<Arc<str>>], hops: Vec<BTreeMap<u16, u64>>) {
        for (place, counts) in hops.into_iter().enumerate().filter(|(_, counts)| !counts.is_empty()) {
            let sum = self.0.entry(path.get(place).cloned().flatten()).or_default();
            counts.into_iter().for_each(|(code, samples)| *sum.entry(code).or_default() += samples);
        }
    }

    fn numbers(self, meaning: &Meaning) -> Vec<SwitchSamples> {
        let number = |(code, samples)| (meaning.codes.number(meaning.query.value, code), samples);
        let of_switch = |(switch, counts): (_, BTreeMap<u16, u64>)| SwitchSamples {
            switch,
            counts: counts.into_iter().map(number).collect(),
        };
        self.0.into_iter().map(of_switch).collect()
    }
}

/// What an epoch told: flows, the samples of the epoch by switch, and why some are missing.
type ToldOfEpoch = (Vec<FlowValues>, OfSwitches, Reasons);

/// What a network has reported of a value of hops so far.
pub struct HopRecorder {
    /// What the samples are of.
    meaning: Meaning,
    window: Window,
    /// Bits of the paths' checksums.
    checksum: u32,
    flows: Kept<Way, Known>,
    /// Why samples of the window are missing, by the times of the newest packets.
    lack: Parts<Reasons>,
    newest_ns: u64,
}

impl HopRecorder {
    /// Of this query, with room for this number of flows.
    pub fn new(meaning: Meaning, room: usize) -> Self {
        Self {
            window: Window::of(meaning.query.window_ns),
            meaning,
            checksum: 0,
            flows: Kept::new(room, |known| known.last_epoch, 0),
            lack: Parts::default(),
            newest_ns: 0,
        }
    }

    /// Goes on with another query, or with this one under another plan. Samples stay where the same
    /// codes are asked of the same flows; else their flows are evicted. Those of a window are: each
    /// plan has its share of packets, and a window has packets of one plan.
    #[must_use]
    pub fn change(mut self, meaning: Meaning) -> Self {
        if self.query().identity() == meaning.query.identity() && meaning.query.window_ns.is_none() {
            self.meaning = meaning;
            return self;
        }
        self.flows.clear();
        Self { window: Window::of(meaning.query.window_ns), meaning, lack: Parts::default(), ..self }
    }

    pub fn query(&self) -> &Query {
        &self.meaning.query
    }

    /// The answer about an epoch that lacks this, of its records by sink; see [`epoch`](Self::epoch).
    /// It also lacks what the epochs did that its samples are of.
    pub fn answers(
        &mut self,
        epoch: u64,
        coding: Option<&Coding>,
        records: &[(Arc<str>, &Digests)],
        paths: &Recorder,
        lack: &Lack,
    ) -> ValueAnswers {
        if !lack.reasons().is_empty() {
            self.flows.iter_mut().for_each(|(way, known)| lack.add_to(&mut known.lack, &way.key.sink));
        }
        let told = coding.map(|coding| self.epoch(epoch, coding, records, paths, lack));
        let (flows, switches, mut of_samples) = told.unwrap_or_default();
        if self.query().window_ns.is_some() {
            of_samples = self.lack_of_window(records, lack.reasons());
        }
        of_samples.extend(lack.reasons());
        let answers = self.meaning.answers(flows, self.flows.evicted(), of_samples, 1);
        ValueAnswers { switches: switches.numbers(&self.meaning), ..answers }
    }

    /// What the epochs lacked that are in the window.
    fn lack_of_window(&mut self, records: &[(Arc<str>, &Digests)], lack: &Reasons) -> Reasons {
        // An epoch without packets is as late as the one before.
        self.newest_ns = records.iter().filter_map(|(_, record)| newest(record)).max().unwrap_or(self.newest_ns);
        self.lack.slide(&self.window.until(self.newest_ns));
        self.lack.at(self.window.part(self.newest_ns), Reasons::default).extend(lack);
        let mut all = Reasons::default();
        self.lack.iter().for_each(|lack| all.extend(lack));
        all
    }

    /// The parts of the window at each sink.
    fn windows(&self, records: &[(Arc<str>, &Digests)]) -> HashMap<Arc<str>, RangeInclusive<u64>> {
        let mut newest_ns = HashMap::<_, u64>::new();
        for (sink, record) in records {
            let newest_ns = newest_ns.entry(sink.clone()).or_default();
            *newest_ns = (*newest_ns).max(newest(record).unwrap_or_default());
        }
        newest_ns.into_iter().map(|(sink, newest_ns)| (sink, self.window.until(newest_ns))).collect()
    }

    /// Takes the records of an epoch, by sink, and gives the values of their flows, with what their
    /// samples lack. `paths` names switches where both mean the same by a flow, and has taken the
    /// records before. The samples of a flow begin anew when packets contradict a path that was
    /// sure.
    fn epoch(
        &mut self,
        epoch: u64,
        coding: &Coding,
        records: &[(Arc<str>, &Digests)],
        paths: &Recorder,
        lack: &Lack,
    ) -> ToldOfEpoch {
        let Some(value) = coding.scheme.value(self.query()) else { return Default::default() };
        let Query { space, flow, window_ns, .. } = self.meaning.query;
        let space = space.map(|space| if window_ns.is_some() { space / PARTS as u32 } else { space });
        let of_part = Query { space, ..self.meaning.query };
        let checksum = coding.checksum();
        if checksum != self.checksum {
            self.flows.clear();
            self.checksum = checksum;
        }
        // Packets that do not say which path they took may have taken several.
        let is_told = |way: &Way| paths.flow() == flow && (checksum == 0 || way.checksum.is_some());
        let path_of = |way: &Way| paths.path(&way.key, way.hops, way.checksum).filter(|_| is_told(way));
        let (window, windows) = (self.window, self.windows(records));
        let large = large(flow, records);
        let mut identities = HashSet::new();
        let counts_switches = self.query().value == Value::Latency;
        let mut of_switches = OfSwitches::default();
        let carries = |seen: &Seen| value.part(seen.identity, seen.digest).is_some();
        for (way, seen) in sampled_ways(flow, coding, records, carries, true) {
            slices::check();
            let (span, hops, sink) = (&windows[&way.key.sink], way.hops, way.key.sink.clone());
            let (path, reroutes) = path_of(&way).unwrap_or((&[][..], 0));
            let mut of_hops = vec![BTreeMap::new(); if counts_switches { hops.into() } else { 0 }];
            let fresh = || Known::new(hops, reroutes, lack.of_fresh(&sink));
            let is_large = !large.is_empty() && large.contains(&(way.key.clone(), hops));
            let known = self.flows.flow(way, fresh);
            if known.reroutes != reroutes {
                *known = fresh();
            }
            if known.last_epoch != epoch {
                known.last_epoch = epoch;
                known.hops.iter_mut().for_each(|parts| parts.slide(span));
            }
            known.lack.add_if(is_large, Reason::LargeFlows);
            identities.clear();
            for Seen { time_ns, identity, digest } in seen.iter() {
                let part = window.part(*time_ns);
                // Of a packet that was doubled the first copy counts.
                let mut told = value.hops(*identity, hops, *digest).peekable();
                if !span.contains(&part) || told.peek().is_none() || !identities.insert(*identity) {
                    continue;
                }
                for (hop, code) in told {
                    let Some(parts) = known.hops.get_mut(hop - 1) else { continue };
                    let sample = self.meaning.codes.sample(code, *time_ns);
                    parts.at(part, || Samples::of(&of_part)).add(sample);
                    if let Some(counts) = of_hops.get_mut(hop - 1) {
                        *counts.entry(sample).or_default() += 1;
                    }
                }
            }
            of_switches.add(path, of_hops);
        }
        let of_epoch = || self.flows.iter().filter(|(_, known)| known.last_epoch == epoch);
        let answer = |(way, known): (&Way, &Known)| {
            let path = path_of(way).map_or(&[][..], |(path, _)| path);
            let (flow, sink) = (FlowName::Flow(flow.flow(way.key.flow)), way.key.sink.clone());
            let told = known.answer(path, &self.meaning);
            FlowValues { flow, sink, checksum: way.checksum, path: Vec::new(), told }
        };
        let values = of_epoch().map(answer).collect();
        let mut lacks = Reasons::default();
        of_epoch().for_each(|(_, known)| lacks.extend(&known.lack));
        self.flows.trim();
        (values, of_switches, lacks)
    }
}

/// The flows of which a share is kept, with the numbers of switches on their paths.
fn large(flow: FlowDefinition, records: &[(Arc<str>, &Digests)]) -> HashSet<(Key, u8)> {
    let streams = records.iter().flat_map(|(sink, record)| record.streams().iter().map(move |of| (sink, of)));
    let large = streams.filter(|(_, (_, packets))| packets.left_out() > 0);
    let key = |sink: &Arc<str>, stream: &Stream| Key { flow: flow.key(stream.flow), sink: sink.clone() };
    large.map(|(sink, (stream, _))| (key(sink, stream), stream.hops)).collect()
}

/// The time of the newest packet.
fn newest(record: &Digests) -> Option<u64> {
    record.streams().values().filter_map(|packets| packets.seen().last()).map(|seen| seen.time_ns).max()
}

#[cfg(test)]
mod tests;
