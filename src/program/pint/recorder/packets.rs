//! What the whole way of flows' packets had, by the packets of one epoch, bounded in memory.
//!
//! Each packet that carries the query tells of its whole way: of the busiest link, or of all that
//! it waited. Hashes choose these packets, and those that are kept of a flow with many, so they are
//! a uniform sample of the flow's packets of the epoch, whose median lies in the interval that the
//! answer has.

use std::collections::HashSet;
use std::sync::Arc;

use super::Recorder;
use super::kept::Kept;
use super::lack::Lack;
use super::values::Meaning;
use super::ways::{Route, sampled_ways};
use crate::answers::{FlowName, FlowValues, ValueAnswers};
use crate::program::pint::parameters::Coding;
use crate::program::pint::query::Query;
use crate::program::pint::record::{Digests, Seen};
use crate::program::pint::samples::Samples;
use crate::program::pint::values::Aggregation;
use crate::slices;

/// What makes answers of the digests of an epoch.
pub struct PacketRecorder {
    meaning: Meaning,
    /// Flows at most.
    room: usize,
    evicted: u64,
}

impl PacketRecorder {
    /// Of this query, with room for this number of flows of an epoch.
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

    /// What the records of an epoch tell, as an answer that lacks what they do; see
    /// [`epoch`](Self::epoch). Without a coding there is no record.
    pub fn answers(
        &mut self,
        coding: Option<&Coding>,
        records: &[(Arc<str>, &Digests)],
        paths: &Recorder,
        lack: &Lack,
    ) -> ValueAnswers {
        let flows = coding.map_or(Vec::new(), |coding| self.epoch(coding, records, paths));
        // Each hop rounds a sum anew.
        let sums = coding.filter(|_| self.meaning.query.aggregation == Aggregation::Sum);
        let streams = |coding: &Coding| {
            let id = coding.id;
            let all = records.iter().flat_map(|(_, record)| record.streams());
            all.filter(move |(stream, _)| stream.plan == id).map(|(stream, _)| stream.hops).max()
        };
        let roundings = sums.and_then(streams).unwrap_or(1);
        self.meaning.answers(flows, self.evicted, lack.reasons().clone(), roundings)
    }

    /// The values that the flows of an epoch met, by its records and their sinks. Flows of which no
    /// packet carried the query are not there. Where there are too many, those with the fewest
    /// packets make place. A flow is there for each path that its packets tell apart; `paths` names the
    /// switches of these where both mean the same by a flow, and has taken the records before.
    fn epoch(&mut self, coding: &Coding, records: &[(Arc<str>, &Digests)], paths: &Recorder) -> Vec<FlowValues> {
        let query = self.meaning.query;
        let Some(value) = coding.scheme.value(&query) else { return Vec::new() };
        let code = |seen: &Seen| value.part(seen.identity, seen.digest);
        let mut flows = Kept::<Route, Samples>::new(self.room, Samples::number, self.evicted);
        let mut identities = HashSet::new();
        // Each path that a checksum tells apart has a share of its own length.
        let by_length = coding.checksum() > 0;
        for (way, seen) in sampled_ways(query.flow, coding, records, |seen| code(seen).is_some(), by_length) {
            slices::check();
            identities.clear();
            // Of a packet that was doubled the first copy counts.
            let once = |seen: &Seen| code(seen).filter(|_| identities.insert(seen.identity));
            let mut codes = seen.iter().filter_map(once).peekable();
            if codes.peek().is_none() {
                continue;
            }
            let samples = flows.flow(way.route(), || Samples::of(&query));
            codes.for_each(|code| samples.add(code));
        }
        flows.trim();
        self.evicted += flows.evicted();
        let path = |Route { key, path }: &Route| {
            let Some((hops, checksum)) = *path else { return Vec::new() };
            let known = paths.path(key, hops, Some(checksum)).filter(|_| paths.flow() == query.flow);
            known.map_or_else(|| vec![None; hops.into()], |(path, _)| path.to_vec())
        };
        let answer = |(route, samples): (&Route, &Samples)| FlowValues {
            flow: FlowName::Flow(query.flow.flow(route.key.flow)),
            sink: route.key.sink.clone(),
            checksum: route.checksum(),
            path: path(route),
            told: vec![self.meaning.told(None, Some(samples))],
        };
        flows.iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::answers::Quantiles;
    use crate::pisa::hash::HashFamily;
    use crate::program::ReportBuffer;
    use crate::program::pint::Config;
    use crate::program::pint::dataplane::Measured;
    use crate::program::pint::encoding::switch_id;
    use crate::program::pint::query::Value;
    use crate::program::pint::record::{Arrival, Room};
    use crate::wire::FiveTuple;

    /// The digests of one epoch: of each packet a flow, and a utilisation in units of 2⁻²⁴.
    fn epoch(config: &Config, recorder: &mut PacketRecorder, packets: &[(u64, u32)]) -> Vec<FlowValues> {
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
        let record = Digests::of(&family, Room::of(config), &buffer.read(), 0);
        let paths = Recorder::new(config);
        recorder.answers(Some(&coding), &[("a".into(), &record)], &paths, &Lack::default()).flows
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
            assert_eq!((flow.samples(), &*flow.sink), (102, "a"));
            let Quantiles { p50, max, .. } = flow.told[0].quantiles.unwrap();
            for (found, truth) in [(p50, half), (max, 2 * half)] {
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
        let record = Digests::of(&family, Room::of(&config), &buffer.read(), 0);
        let found = recorder.epoch(&coding, &[("a".into(), &record)], &Recorder::new(&config));
        let [flow] = &found[..] else { panic!("one flow") };
        assert!(flow.samples() == 100 && flow.told[0].quantiles.unwrap().max < 1.0 / 15.0, "{flow:?}");
    }

    /// Flows are bounded: those with the fewest packets go, counted. Flows are what the query means
    /// by them, and packets without the query count for none.
    #[test]
    fn flows_are_bounded() {
        let packets: Vec<_> = (0..12u64).flat_map(|flow| vec![(flow, 1 << 20); flow as usize + 1]).collect();
        let five = config("utilisation:bits=8", 5);
        let mut recorder = of_config(&five);
        let found = epoch(&five, &mut recorder, &packets);
        let kept: Vec<_> = found.iter().map(FlowValues::samples).collect();
        assert_eq!((kept, recorder.evicted), (vec![12, 11, 10, 9, 8], 7));
        let pairs = config("path:bits=8:frequency=1/2+utilisation:bits=8:frequency=1/2:flow=pair", 5);
        let pairs = Config { budget: 8, ..pairs };
        let mut recorder = of_config(&pairs);
        let found = epoch(&pairs, &mut recorder, &packets);
        let [flow] = &found[..] else { panic!("{found:?}") };
        assert!((20..60).contains(&flow.samples()) && recorder.evicted == 0, "{flow:?}");
    }
    /// Paths of one flow to one switch. Two have the same numbers, and one is shorter.
    const WAYS: [&str; 5] = ["abcde", "abgde", "afcde", "agbde", "ace"];

    /// What a switch has, in units of 2⁻²⁴.
    fn utilisation(switch: char) -> u32 {
        match switch {
            'g' => 1 << 23,
            'f' => 1 << 20,
            _ => 1 << 17,
        }
    }

    /// An epoch of packets of one flow by their paths, as they arrive at one switch: what is recorded
    /// of them, and beside it the numbers that they carry.
    fn arrive(config: &Config, arrivals: &[(&str, u32)]) -> (Vec<FlowValues>, u64, Naive) {
        let family = HashFamily::reproducible(3);
        let coding = Coding::new(config.parameters(), &family);
        let query = config.queries.0[1];
        let (scheme, meaning) = (&coding.scheme, Meaning::new(query).unwrap());
        let value = scheme.value(&query).unwrap();
        let mut buffer = ReportBuffer::with_capacity(arrivals.len());
        let (mut numbers, mut seen) = (Naive::new(), HashSet::new());
        for (time_ns, (path, identity)) in (0..).zip(arrivals) {
            let (identity, hops) = (*identity, path.len() as u8);
            let digest = (1..).zip(path.chars()).fold(0, |digest, (hop, name)| {
                let (switch, latency_ns) = (scheme.switch(switch_id(&name.to_string())), utilisation(name));
                let measured = Measured { hop, identity, utilisation: latency_ns, latency_ns, ..Measured::default() };
                scheme.encode(&switch, measured, digest)
            });
            // Without ports, so that it has one key whatever is called a flow.
            let flow = FiveTuple([4 << 40, 0, 1, 0, 2]);
            buffer.push(Arrival { time_ns, plan: coding.id, flow, hops, identity, digest });
            if let Some(code) = value.part(identity, digest).filter(|_| seen.insert(identity)) {
                let route = scheme.checksum(identity, digest).map(|checksum| (path.len(), checksum));
                let (numbers, ways) = numbers.entry(route).or_default();
                numbers.push(meaning.codes.number(query.value, code));
                ways.insert(path.to_string());
            }
        }
        let record = Digests::of(&family, Room::of(config), &buffer.read(), 0);
        let (records, mut paths) = ([("e".into(), &record)], Recorder::new(config));
        "abcdefg".chars().for_each(|name| paths.name(&name.to_string().into()));
        paths.epoch(1, &coding, &records);
        let mut recorder = PacketRecorder::new(meaning, config.flows as usize);
        let found = recorder.epoch(&coding, &records, &paths);
        (found, recorder.evicted, numbers)
    }

    /// By number of switches and checksum, where packets have one: numbers, and the paths that have it.
    type Naive = BTreeMap<Option<(usize, u16)>, (Vec<f64>, BTreeSet<String>)>;

    /// The packets of one flow take several paths, are lost, doubled and out of order: each path that
    /// their checksums tell apart has its own packets, median and maximum, and its switches where
    /// both queries mean the same by a flow. Packets that do not carry the path have one answer.
    #[test]
    fn paths_of_one_flow_are_told_apart() {
        let mut rng = crate::trace::SplitMix64::new(4);
        let of = |text: &str| Config { packets: 4096, ..config(text, 9) };
        let of_path = "path:bits=5:checksum=3+";
        let apart =
            ["utilisation:bits=8", "utilisation:bits=8:aggregation=min", "latency:bits=8:aggregation=sum:to=1s"];
        let pair = "utilisation:bits=8:flow=pair";
        let half = "path:bits=5:checksum=3:frequency=1/2+utilisation:bits=8:frequency=1/2";
        let apart = apart.into_iter().chain([pair]).map(|query| (of(&format!("{of_path}{query}")), query == pair));
        let one = [half, "path:bits=5+utilisation:bits=8"].map(|text| (Config { budget: 13, ..of(text) }, false));
        for (config, is_other_flow) in apart.chain(one) {
            for _ in 0..2 {
                let copies = (0..2000).flat_map(|identity| {
                    let way = WAYS[rng.below(WAYS.len() as u64) as usize];
                    let copies = [1, 1, 1, 0, 2][rng.below(5) as usize];
                    vec![(way, identity); copies]
                });
                let mut arrivals: Vec<_> = copies.collect();
                for at in 1..arrivals.len() {
                    arrivals.swap(at, at - (rng.below(30) as usize).min(at));
                }
                let (found, _, naive) = arrive(&config, &arrivals);
                let told = |flow: &FlowValues| {
                    let Quantiles { p50, max, .. } = flow.told[0].quantiles.unwrap();
                    let path = flow.checksum.map(|checksum| (flow.path.len(), checksum));
                    (path, (flow.samples(), p50, max))
                };
                let expected = |(path, (numbers, _)): (&Option<(usize, u16)>, &(Vec<f64>, _))| {
                    let mut numbers = numbers.clone();
                    numbers.sort_by(f64::total_cmp);
                    (*path, (numbers.len() as u64, numbers[(numbers.len() - 1) / 2], *numbers.last().unwrap()))
                };
                let [found_by_path, expected]: [BTreeMap<_, _>; 2] =
                    [found.iter().map(told).collect(), naive.iter().map(expected).collect()];
                assert_eq!((found_by_path, found.len()), (expected, naive.len()), "{}", config.queries);
                // Paths that share a checksum are told apart by nothing.
                for flow in &found {
                    let (_, ways) = &naive[&flow.checksum.map(|checksum| (flow.path.len(), checksum))];
                    let names: String = flow.path.iter().map(|name| name.as_deref().unwrap_or("?")).collect();
                    let is_hidden = is_other_flow || flow.checksum.is_none();
                    let is_right = if is_hidden { names.chars().all(|c| c == '?') } else { ways.contains(&names) };
                    assert!(is_right || (!is_hidden && ways.len() > 1), "{}: {flow:?}", config.queries);
                }
            }
        }
        // Each has a path of its own here, and each path counts as a flow.
        let three = ["abcde", "abgde", "ace"];
        let arrivals: Vec<_> = (0..600).map(|identity| (three[identity as usize % 3], identity)).collect();
        for (flows, kept) in [(9, 3), (2, 2)] {
            let config = Config { flows, ..of("path:bits=4:checksum=4+utilisation:bits=8") };
            let (found, evicted, _) = arrive(&config, &arrivals);
            assert_eq!((found.len(), evicted), (kept, 3 - kept as u64), "{found:?}");
            for flow in &found {
                let busiest =
                    flow.path.iter().map(|name| utilisation(name.as_deref().unwrap().chars().next().unwrap()));
                let off = flow.told[0].quantiles.unwrap().p50 * f64::from(1 << 24) / f64::from(busiest.max().unwrap());
                assert!(flow.samples() == 200 && (0.95..1.05).contains(&off), "{flow:?}");
            }
        }
    }
}
