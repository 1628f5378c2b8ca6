//! The history's side: an epoch is kept as the byte forms of its records. A query reads those of the
//! switches on a flow's path.
//!
//! In an archive an epoch is
//!
//! ```text
//! version 1 ‖ epoch ‖ switches that were to report ‖ unit and decoding as JSON ‖ { name ‖ parameters as JSON ‖ record }
//! ```
//! Texts and records have their length in bytes before them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::composite::{self, Sample};
use super::config::{Config, Decode, SketchKind};
use super::hashes::{KeyCrcs, LABEL};
use super::lookup::{Lookup, Noises};
use super::path::{Path, PathPlace};
use super::record::{Fragment, Shape};
use super::{DiSketch, Program, sizes};
use crate::answers::{
    Answers, ByRoute, CONFIDENCE, Estimate, FlowCount, FlowName, FlowSizes, FoundFlows, Frequency, HeavyFlows,
    ProgramAnswer, Query, Task, Unit, excess,
};
use crate::history::{ArchiveForm, Epochs, Kept, Reason, Reasons, SwitchCounters};
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{DecodeError, Reader, Writer};
use crate::program::{Coverage, Naming};
use crate::wire::Flow;

/// Version of the byte form of an archive.
const VERSION: u8 = 1;

/// Epochs over which a flow is taken to have packets equally often.
const STEADY: usize = 32;

/// The records of an epoch.
#[derive(Debug)]
pub struct KeptFragments {
    pub(super) unit: Unit,
    decode: Decode,
    epoch: u64,
    /// Number of switches that were to report.
    expected: usize,
    switches: Vec<Packed>,
}

/// A record as it is kept.
#[derive(Debug)]
struct Packed {
    switch: Arc<str>,
    shape: Arc<Shape>,
    bytes: Box<[u8]>,
    lookup: Lookup,
}

impl Packed {
    fn new(switch: Arc<str>, fragment: &Fragment) -> Self {
        let (bytes, marks) = fragment.marked();
        let lookup = Lookup::new(fragment, marks);
        Self { switch, shape: fragment.shape.clone(), bytes: bytes.into(), lookup }
    }
}

impl KeptFragments {
    pub(super) fn new(
        unit: Unit,
        decode: Decode,
        epoch: u64,
        expected: usize,
        switches: Vec<(Arc<str>, Box<Fragment>)>,
    ) -> Self {
        let packed = |(switch, fragment): (Arc<str>, Box<Fragment>)| Packed::new(switch, &fragment);
        Self { unit, decode, epoch, expected, switches: switches.into_iter().map(packed).collect() }
    }

    /// Reads the byte form of an archive.
    ///
    /// # Errors
    /// If these are no such bytes, or hold a record that is none.
    pub(super) fn restore(bytes: &[u8], hashes: &HashFamily, shapes: &mut Shapes) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let (epoch, expected) = (from.number("the epoch")?, from.number("the switches")?);
        let Ok(expected) = usize::try_from(expected) else { return from.wrong("the switches", "a number of switches") };
        let (unit, decode) = from.json("unit and decoding")?;
        let mut switches = Vec::new();
        while from.remaining() > 0 {
            let name = from.counted("a switch's name")?;
            let parameters = from.counted("a switch's parameters")?;
            let shape = shapes.get(name, parameters, hashes)?;
            let bytes = from.counted("a switch's record")?;
            switches.push(Packed::new(shape.0, &Fragment::decode(&shape.1, bytes)?));
        }
        Ok(Self { unit, decode, epoch, expected, switches })
    }

    /// What the records of each switch have in common.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.switches.iter().map(|packed| &*packed.shape)
    }
}

/// The shapes of the switches in an archive, each made once.
#[derive(Debug, Default)]
pub(super) struct Shapes(HashMap<[Vec<u8>; 2], Known>);

/// The name of a switch, and the shape of its records.
type Known = (Arc<str>, Arc<Shape>);

impl Shapes {
    /// Most shapes that are remembered.
    const MOST: usize = 4096;

    /// The name of the switch, and the shape of records of the switch of this name with these
    /// parameters.
    fn get(&mut self, name: &[u8], parameters: &[u8], hashes: &HashFamily) -> Result<Known, DecodeError> {
        let key = [name, parameters].map(<[u8]>::to_vec);
        if let Some(known) = self.0.get(&key).filter(|(_, shape)| shape.hashes.are_of(hashes)) {
            return Ok(known.clone());
        }
        let json = |what, why: String| DecodeError::Json { what, why };
        let name = str::from_utf8(name).map_err(|error| json("a switch's name", error.to_string()))?;
        let config: Config =
            serde_json::from_slice(parameters).map_err(|error| json("a switch's parameters", error.to_string()))?;
        config.validate()?;
        let shape = (name.into(), DiSketch::shape(&config, name, hashes));
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(key, shape.clone());
        Ok(shape)
    }
}

impl Packed {
    /// The counters of each sub-epoch.
    fn counters(&self) -> Vec<SwitchCounters> {
        let parts = Fragment::decode(&self.shape, &self.bytes).map(|fragment| fragment.parts).unwrap_or_default();
        let counters = parts.into_iter().map(|part| {
            let Coverage { of, sub_epochs, later_epochs } = part.coverage;
            let is_one = sub_epochs.is_power_of_two() && later_epochs == 0;
            SwitchCounters {
                switch: self.switch.clone(),
                hash: LABEL.into(),
                sub_epochs: of,
                sub_epoch: is_one.then(|| sub_epochs.trailing_zeros()),
                counters: part.counters,
            }
        });
        counters.collect()
    }
}

/// An epoch that is read, and what is known of the noise of its records.
struct Opened<'a> {
    kept: &'a KeptFragments,
    noises: Vec<Noises>,
}

impl<'a> Opened<'a> {
    fn new(kept: &'a KeptFragments) -> Self {
        Self { kept, noises: kept.switches.iter().map(|_| Noises::default()).collect() }
    }

    /// The records that count packets of a flow, each with its place on the flow's path; `None` where the
    /// path is not known.
    fn records(&self, path: Option<&Path>) -> Option<Vec<(&Packed, &Noises, PathPlace)>> {
        let of = |at: usize, place| Some((self.kept.switches.get(at)?, self.noises.get(at)?, place));
        if let (1, [_]) = (self.kept.expected, &self.kept.switches[..]) {
            return Some(of(0, PathPlace::ALONE).into_iter().collect());
        }
        let at = |wanted: &Arc<str>| self.kept.switches.iter().position(|packed| packed.switch == *wanted);
        Some(path?.switches.iter().filter_map(|(name, place)| of(at(name)?, *place)).collect())
    }
}

impl Kept for KeptFragments {
    /// Changes are those from the epoch before.
    const LOOKS_BACK: bool = true;

    fn bytes(&self) -> usize {
        let of = |packed: &Packed| size_of::<Packed>() + packed.bytes.len() + packed.lookup.bytes();
        self.switches.iter().map(of).sum()
    }

    fn archived(&self) -> Option<ArchiveForm> {
        let mut to = Writer(vec![VERSION]);
        to.number(self.epoch);
        to.number(self.expected as u64);
        to.json(&(self.unit, self.decode));
        for Packed { switch, shape, bytes, .. } in &self.switches {
            to.counted(switch.as_bytes());
            to.json(&shape.config);
            to.counted(bytes);
        }
        let hashes = self.switches.first().map(|packed| packed.shape.hashes.family().name());
        let counters = self.switches.iter().flat_map(Packed::counters).collect();
        Some(ArchiveForm { bytes: to.0, hashes, counters })
    }
}

/// The estimate of each flow over some epochs, and why it is not complete. What is worked out of the records
/// is kept for [`STEADY`] epochs at a time.
pub(super) fn frequencies(
    epochs: &[&KeptFragments],
    flows: &[Flow],
    routes: Option<&ByRoute>,
) -> Vec<(Estimate, Reasons)> {
    let mut sums: Vec<Sum> = flows.iter().map(|_| Sum::new(epochs.len())).collect();
    for epochs in epochs.chunks(STEADY) {
        let opened: Vec<_> = epochs.iter().map(|kept| Opened::new(kept)).collect();
        sums.iter_mut().zip(flows).for_each(|(sum, flow)| sum.add(&opened, flow, routes));
    }
    sums.into_iter().map(Sum::estimate).collect()
}

/// The estimate of one flow.
fn frequency(epochs: &[&KeptFragments], flow: &Flow, routes: Option<&ByRoute>) -> (Estimate, Reasons) {
    frequencies(epochs, std::slice::from_ref(flow), routes).pop().unwrap_or((Estimate::exact(0), Reasons::default()))
}

/// What is known of a flow after some epochs.
struct Sum {
    epochs: usize,
    lack: Reasons,
    sketch: SketchKind,
    /// By the paper's decoding, and by that of the configuration.
    paper: f64,
    number: f64,
    /// No epoch was cut, and the flow took one path in each.
    is_uncut: bool,
    /// Of the paper's estimate.
    variance: f64,
    excess: u64,
}

impl Sum {
    fn new(epochs: usize) -> Self {
        let sketch = SketchKind::Count;
        let (paper, number, variance) = (0.0, 0.0, 0.0);
        Self { epochs, lack: Reasons::default(), sketch, paper, number, is_uncut: true, variance, excess: 0 }
    }

    fn add(&mut self, epochs: &[Opened<'_>], flow: &Flow, routes: Option<&ByRoute>) {
        let (mut window, mut decode): (Vec<Vec<Sample<'_>>>, _) = (Vec::with_capacity(epochs.len()), Decode::Median);
        for epoch in epochs {
            if let Some(samples) = self.samples(epoch, flow, routes) {
                decode = epoch.kept.decode;
                self.lack.add_if(samples.is_empty(), Reason::Gap);
                self.bound(&samples);
                window.push(samples);
            }
        }
        let paper = window.iter().filter_map(|samples| composite::epoch(self.sketch, samples));
        let paper: Vec<f64> = paper.collect();
        self.number += match decode {
            Decode::Median => paper.iter().sum(),
            Decode::Likelihood => composite::expected(&window).unwrap_or_default(),
        };
        self.paper = paper.iter().fold(self.paper, |sum, more| sum + more);
    }

    /// The flow's counters in an epoch; `None` where it is not known where they are.
    fn samples<'a>(&mut self, epoch: &'a Opened<'_>, flow: &Flow, routes: Option<&ByRoute>) -> Option<Vec<Sample<'a>>> {
        let (kept, lack) = (epoch.kept, &mut self.lack);
        let path = Path::of(&routes.map(|routes| routes.in_epoch(flow, kept.epoch)).unwrap_or_default());
        lack.add_if(path.as_ref().is_some_and(|path| !path.is_whole), Reason::PathsUnknown);
        lack.add_if(kept.switches.is_empty(), Reason::NotAnalysed);
        let Some(records) = epoch.records(path.as_ref()) else {
            lack.add_if(!kept.switches.is_empty(), Reason::PathsUnknown);
            return None;
        };
        let crcs = records.first().and_then(|(packed, ..)| packed.shape.hashes.of_flow(flow));
        lack.add_if(crcs.is_none(), Reason::Gap);
        let (crcs, mut samples): (KeyCrcs, _) = (crcs?, Vec::with_capacity(records.len()));
        for (packed, noises, place) in records {
            let Packed { shape, bytes, lookup, .. } = packed;
            self.sketch = shape.config.sketch;
            lack.add_if(lookup.is_full, Reason::Saturated);
            lookup.samples((shape, bytes), noises, (crcs, kept.epoch, place), &mut samples);
        }
        Some(samples)
    }

    /// Adds to the bounds of the paper's estimate.
    fn bound(&mut self, samples: &[Sample<'_>]) {
        self.is_uncut &= samples.iter().all(|sample| sample.cuts == 0 && sample.share == 1.0);
        match self.sketch {
            SketchKind::Count | SketchKind::UnivMon => {
                let deviations: Vec<_> = samples.iter().map(|sample| sample.noise.deviation).collect();
                self.variance += composite::variance(&deviations);
            }
            SketchKind::CountMin => {
                let doubt = (1.0 - CONFIDENCE) / self.epochs.max(1) as f64;
                let total = samples.iter().map(|sample| sample.noise.total).max();
                let widths: Vec<_> = samples.iter().map(|sample| sample.noise.width).collect();
                let excess = total.and_then(|total| excess(total, &widths, doubt));
                self.excess = self.excess.saturating_add(excess.unwrap_or_default());
            }
        }
    }

    /// The estimate with its bounds. They are known where the whole of each epoch was counted: what a flow
    /// has in the other sub-epochs no record can tell.
    fn estimate(self) -> (Estimate, Reasons) {
        let Self { lack, sketch, paper, number, is_uncut, variance, excess, .. } = self;
        let rounded = |number: f64| number.max(0.0).round() as u64;
        if !is_uncut || !lack.is_empty() {
            return (Estimate::unbounded(rounded(number)), lack);
        }
        let doubt = 1.0 - CONFIDENCE;
        let (most, below) = match sketch {
            // Cantelli's inequality, over epochs that hash independently.
            SketchKind::Count | SketchKind::UnivMon => (None, (variance * (1.0 - doubt) / doubt).sqrt()),
            SketchKind::CountMin => (Some(rounded(paper)), excess as f64),
        };
        let least = rounded(paper - below);
        let number = rounded(number).max(least).min(most.unwrap_or(u64::MAX));
        (Estimate { number, least: 0, most, excess: Some(number - least.min(number)) }, lack)
    }
}

/// The flows of a query that some program names, each with its estimate.
pub(super) fn found(unit: Unit, epochs: &[&KeptFragments], query: &Query) -> FoundFlows {
    let routes = query.routes.as_ref();
    let (flows, named) = named(epochs, query);
    let mut found = FoundFlows { unit, lack: named, ..FoundFlows::default() };
    for (flow, (estimate, lack)) in flows.iter().zip(frequencies(epochs, &flows, routes)) {
        found.lack.extend(&lack);
        if estimate.number > 0 {
            found.flows.push(FlowCount { flow: FlowName::Flow(*flow), count: estimate.number.into() });
        }
    }
    found
}

/// The flows of a query that some program names, and why these are not all.
pub(super) fn named(epochs: &[&KeptFragments], query: &Query) -> (Vec<Flow>, Reasons) {
    let (naming, flows) = (naming(epochs), query.routes.as_ref().map(ByRoute::flows).unwrap_or_default());
    let narrowed = flows.iter().map(|flow| naming.narrow(flow));
    let candidates: BTreeSet<Flow> = narrowed.filter(|flow| flow.fields() == naming.key.fields()).collect();
    let mut lack = Reasons::default();
    // Flows that no program names are not there, and those that are named are the larger ones.
    lack.add(if candidates.is_empty() { Reason::Unnamed } else { Reason::BelowThreshold });
    (candidates.into_iter().filter(|flow| query.is_meant(&FlowName::Flow(*flow))).collect(), lack)
}

/// How flows of these epochs are named.
fn naming(epochs: &[&KeptFragments]) -> Naming {
    epochs.iter().flat_map(|kept| kept.shapes()).next().map(|shape| shape.config.naming()).unwrap_or_default()
}

fn unit(epochs: &Epochs<KeptFragments>) -> Unit {
    epochs.newest().map(|entry| entry.showed.unit).unwrap_or_default()
}

impl Answers for KeptFragments {
    const NEEDS_ROUTES: bool = true;

    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        let kept: Vec<&Self> = epochs.iter().map(|entry| &*entry.showed).collect();
        let unit = unit(epochs);
        match query.task {
            Task::Frequency => {
                let fields = naming(&kept).key.fields();
                let flow = query.flow.as_ref().and_then(|pattern| pattern.flow_by(fields));
                let (estimate, lack) = match flow {
                    Some(flow) => frequency(&kept, &flow, query.routes.as_ref()),
                    None => {
                        let found = found(unit, &kept, query);
                        (found.frequency(query), found.lack)
                    }
                };
                Some(Frequency::told(DiSketch::NAME, unit, query, estimate, lack))
            }
            Task::Heavy => Some(HeavyFlows::told(DiSketch::NAME, epochs, query, found(unit, &kept, query))),
            Task::Flows => Some(FlowSizes::told(sizes::all(found(unit, &kept, query), &kept), query)),
            Task::Cardinality => Some(sizes::of_each(epochs, query)),
            // Changes are told in packets.
            Task::Changes if unit == Unit::Packets => Some(sizes::changes(epochs, query)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Part;
    use super::super::{Config, Memory};
    use super::*;
    use crate::answers::{AnsweredRoutes, FlowSizes, HeavyChanges, HeavyFlows, Numbers};
    use crate::answers::{Certainty, Claimed, FlowPath, NamedFlows, Queryable, Route, Routes};
    use crate::history::{Entry, History, Room, Window};
    use crate::pisa::hash::HashFamily;
    use crate::program::{Coverage, Key, SubEpoch};
    use crate::wire::Headers;

    fn flow(sport: u16) -> Flow {
        let ip = |last: u8| Some([10, 0, 0, last].into());
        Flow { src: ip(1), dst: ip(2), sport: Some(sport), dport: Some(80), proto: Some(6) }
    }

    /// The record of a switch that saw these flows, each with a number of packets.
    fn record(switch: &str, epoch: u64, config: &Config, flows: &[(u16, i32)]) -> (Arc<str>, Box<Fragment>) {
        let shape = DiSketch::shape(config, switch, &HashFamily::reproducible(1));
        let mut fragment = Fragment::new(shape.clone());
        let mut counters = vec![0; config.counters()];
        for (sport, packets) in flows {
            let crcs = shape.hashes.of_headers(&Headers::of_flow(&flow(*sport)).unwrap()).unwrap();
            for level in 0..=crcs.level_of(config.sketch) {
                let place = shape.hashes.place_in(level, crcs, shape.hashes.constants(epoch));
                let is_negative = place.is_negative && config.sketch.is_signed();
                let slot = level * config.width().get() as usize + place.slot as usize;
                counters[slot] += if is_negative { -packets } else { *packets };
            }
        }
        let is_full = flows.iter().any(|(_, packets)| *packets == i32::MAX);
        let mut coverage = Coverage::default();
        coverage.enter(SubEpoch::WHOLE, true);
        fragment.parts.push(Part::new(coverage, is_full, counters.into()));
        (switch.into(), Box::new(fragment))
    }

    fn history(
        config: &Config,
        epochs: Vec<Vec<(Arc<str>, Box<Fragment>)>>,
        expected: usize,
    ) -> History<KeptFragments> {
        let history = History::new(Room { epochs: 99, bytes: 1 << 20 });
        for (number, records) in (1..).zip(epochs) {
            let switches = records.iter().map(|(switch, _)| switch.clone()).collect();
            let kept = KeptFragments::new(config.count, config.decode, number, expected, records);
            history.push(Entry { switches, ..Entry::new(number, kept) });
        }
        history
    }

    fn routes(paths: &[(u16, &[&str])]) -> ByRoute {
        let path = |(sport, switches): &(u16, &[&str])| {
            let switches = switches.iter().map(|name| (*name != "?").then(|| Arc::from(*name))).collect();
            FlowPath { switches, certainty: Certainty::Decided, ..FlowPath::of(FlowName::Flow(flow(*sport))) }
        };
        let answered = AnsweredRoutes::new(&paths.iter().map(path).collect::<Vec<_>>());
        ByRoute::new(Arc::new(NamedFlows { flows: vec![flow(9)], routes: Some(Arc::new(answered)) }))
    }

    fn ask(history: &History<KeptFragments>, sport: u16, routes: Option<ByRoute>) -> (u64, bool, Vec<Reason>) {
        let pattern = Some(flow(sport).to_string().parse().unwrap());
        let query = Query { flow: pattern, routes, ..Query::new(Task::Frequency, Window::All) };
        let found: Claimed<Frequency> = (history as &dyn Queryable).answer(&query).unwrap();
        let reasons = Reason::ALL.into_iter().filter(|reason| found.claim.incomplete.contains(*reason)).collect();
        (found.count().estimate, found.count().upper_bound.is_some() || found.confidence < 1.0, reasons)
    }

    /// A flow is counted where it passes: on the switches of its path, and after a change of it on those
    /// that all its paths share. What is not known of a path is said.
    #[test]
    fn flows_are_counted_on_their_paths() {
        for decode in [Decode::Median, Decode::Likelihood] {
            let config = Config { memory: Memory(4000), decode, ..Config::default() };
            let epoch = |number, by_b: bool| {
                let (own, other) = if by_b { ("b", "c") } else { ("c", "b") };
                vec![
                    record("a", number, &config, &[(1, 10), (2, 5)]),
                    record(own, number, &config, &[(1, 10)]),
                    record(other, number, &config, &[(2, 5)]),
                    record("d", number, &config, &[(1, 10)]),
                ]
            };
            let history = history(&config, vec![epoch(1, true), epoch(2, true), epoch(3, false)], 4);
            let ask = |paths: &[(u16, &[&str])]| ask(&history, 1, Some(routes(paths)));
            assert_eq!(ask(&[(1, &["a", "b", "d"]), (1, &["a", "c", "d"])]), (30, true, vec![]));
            // The path before the change alone: one epoch is seen by the ends of the path only.
            assert!((28..=30).contains(&ask(&[(1, &["a", "b", "d"])]).0));
            assert_eq!(ask(&[(1, &["a", "?", "d"])]), (0, false, vec![Reason::PathsUnknown]));
            assert_eq!(ask(&[(1, &["a", "?", "d"]), (1, &["a", "d"])]), (30, false, vec![Reason::PathsUnknown]));
            assert_eq!(ask(&[(2, &["a", "b", "d"])]), (0, false, vec![Reason::PathsUnknown]));
        }
    }

    /// Paths of one epoch each, and in the second one two with as many packets.
    #[derive(Debug)]
    struct Rerouted;

    impl Routes for Rerouted {
        fn of(&self, _: &Flow) -> Vec<Route> {
            Vec::new()
        }

        fn in_epoch(&self, _: &Flow, epoch: u64) -> Vec<Route> {
            let route = |switches: &[&str]| Route {
                switches: switches.iter().map(|name| Some(Arc::from(*name))).collect(),
                certainty: Certainty::Sure,
                packets: Some(500),
            };
            let (old, new) = (route(&["a", "b", "d"]), route(&["a", "c", "d"]));
            match epoch {
                1 => vec![old],
                2 => vec![old, new],
                _ => vec![new],
            }
        }
    }

    /// After a change of the path each epoch is answered by the switches of its own path, and the epoch of
    /// the change by all of both, each for its share of the packets.
    #[test]
    fn paths_may_change_in_mid_epoch() {
        for (decode, sketch) in [
            (Decode::Median, SketchKind::Count),
            (Decode::Likelihood, SketchKind::Count),
            (Decode::Median, SketchKind::CountMin),
        ] {
            let config = Config { memory: Memory(4000), decode, sketch, ..Config::default() };
            // A flow beside it makes the ends of the path useless, but for an epoch.
            let epoch = |number, b, c| {
                let noisy = if number == 3 { 0 } else { 70 };
                let crowd: Vec<_> = (0..2000).map(|sport| (1000 + sport, noisy)).chain([(1, 10)]).collect();
                vec![
                    record("a", number, &config, &crowd),
                    record("b", number, &config, &[(1, b)]),
                    record("c", number, &config, &[(1, c)]),
                    record("d", number, &config, &[(1, 10)]),
                ]
            };
            let history = history(&config, vec![epoch(1, 10, 0), epoch(2, 5, 5), epoch(3, 0, 10)], 4);
            let (count, is_bounded, lack) = ask(&history, 1, Some(ByRoute::new(Arc::new(Rerouted))));
            assert_eq!((count, is_bounded, lack), (30, false, vec![]), "{decode:?} {sketch:?}");
        }
    }

    /// One switch needs no path. Flows are named by others, and a full counter is said.
    #[test]
    fn flows_of_one_switch_need_names_alone() {
        let config = Config { memory: Memory(4000), ..Config::default() };
        let history = history(&config, vec![vec![record("a", 1, &config, &[(9, 7), (3, 4)])]], 1);
        assert_eq!(ask(&history, 3, None), (4, true, vec![]));
        let heavy = |routes| {
            let query = Query { routes, ..Query::new(Task::Heavy, Window::All) };
            let found: Claimed<HeavyFlows> = (&history as &dyn Queryable).answer(&query).unwrap();
            (
                found.counts().map(|heavy| (heavy.flow, heavy.count)).collect::<Vec<_>>(),
                found.claim.incomplete.contains(Reason::Unnamed),
            )
        };
        assert_eq!(heavy(Some(routes(&[]))), (vec![(flow(9), 7)], false));
        assert_eq!(heavy(None), (vec![], true));
        let full = self::history(&config, vec![vec![record("a", 1, &config, &[(9, i32::MAX)])]], 1);
        assert_eq!(ask(&full, 9, None).2, [Reason::Saturated]);
    }

    /// Flows that are named are summed up for each epoch and for all together, and compared with the epoch
    /// before. Without names nothing is known, and the answer says so.
    #[test]
    fn named_flows_are_summed_up_and_compared() {
        for sketch in [SketchKind::Count, SketchKind::CountMin, SketchKind::UnivMon] {
            let config = Config { memory: Memory(262_144), sketch, ..Config::default() };
            let epochs = [[(1, 8), (2, 4), (3, 4)], [(1, 8), (2, 0), (3, 24)]];
            let records = (1..).zip(&epochs).map(|(number, flows)| vec![record("a", number, &config, flows)]).collect();
            let history = history(&config, records, 1);
            let named = NamedFlows { flows: (1..9).map(flow).collect(), routes: None };
            let ask = |task, window, routes| Query { routes, ..Query::new(task, window) };
            let routes = Some(ByRoute::new(Arc::new(named)));
            let history: &dyn Queryable = &history;
            let sizes: Claimed<FlowSizes> = history.answer(&ask(Task::Flows, Window::All, routes.clone())).unwrap();
            // 16, 4 and 28 packets of 48.
            let entropy = [16.0, 4.0, 28.0].map(|size: f64| -size / 48.0 * (size / 48.0).log2()).iter().sum::<f64>();
            assert_eq!((sizes.flows, sizes.heavy.len()), (Some(3.0), 3), "{sketch:?}");
            assert!((sizes.entropy_bits.unwrap() - entropy).abs() < 1e-9);
            let numbers: Claimed<Numbers> =
                history.answer(&ask(Task::Cardinality, Window::All, routes.clone())).unwrap();
            let flows: Vec<_> = numbers.epochs.iter().map(|epoch| epoch.flows.unwrap()).collect();
            assert_eq!((flows, numbers.epochs[0].entropy_bits), (vec![3.0, 2.0], Some(1.5)));
            let changes: Claimed<HeavyChanges> = history.answer(&ask(Task::Changes, Window::All, routes)).unwrap();
            let changed: Vec<_> =
                changes.changes.iter().map(|of| (of.name, of.before_packets, of.after_packets)).collect();
            assert_eq!(changed, [(FlowName::Flow(flow(3)), 4, 24), (FlowName::Flow(flow(2)), 4, 0)]);
            assert!(changes.claim.incomplete.contains(Reason::BelowThreshold));
            let sizes: Claimed<FlowSizes> = history.answer(&ask(Task::Flows, Window::All, None)).unwrap();
            assert_eq!((sizes.flows, sizes.claim.incomplete.contains(Reason::Unnamed)), (Some(0.0), true));
        }
        let bytes = Config { count: Unit::Bytes, ..Config::default() };
        let history = history(&bytes, vec![vec![record("a", 1, &bytes, &[])]], 1);
        assert!((&history as &dyn Queryable).ask(&Query::new(Task::Changes, Window::All)).is_err());
    }

    /// On one switch flows may be named by fewer fields. A query for one of them needs no names, and names
    /// with more fields are narrowed.
    #[test]
    fn flows_have_the_fields_of_the_key() {
        let config = Config { key: Key::Source, ..Config::default() };
        let history = history(&config, vec![vec![record("a", 1, &config, &[(1, 5), (2, 2)])]], 1);
        let history: &dyn Queryable = &history;
        let ask = |pattern: &str| {
            let query = Query { flow: Some(pattern.parse().unwrap()), ..Query::new(Task::Frequency, Window::All) };
            let found: Claimed<Frequency> = history.answer(&query).unwrap();
            (found.count().estimate, found.claim.incomplete.contains(Reason::Unnamed))
        };
        assert_eq!(ask("10.0.0.1 → *"), (7, false));
        assert_eq!(ask("10.0.0.2 → *"), (0, false));
        assert_eq!(ask("10.0.0.1:1 → 10.0.0.2:80 tcp"), (0, true));
        let routes = Some(ByRoute::new(Arc::new(NamedFlows { flows: vec![flow(1), flow(2)], routes: None })));
        let heavy: Claimed<HeavyFlows> =
            history.answer(&Query { routes, ..Query::new(Task::Heavy, Window::All) }).unwrap();
        let counts: Vec<_> = heavy.counts().map(|heavy| (heavy.flow.to_string(), heavy.count)).collect();
        assert_eq!(counts, [("10.0.0.1 → *".to_string(), 7)]);
    }

    /// Count-Min's upper bound is certain where no epoch is cut.
    #[test]
    fn count_min_has_an_upper_bound() {
        let config = Config { memory: Memory(40), sketch: SketchKind::CountMin, ..Config::default() };
        let flows: Vec<_> = (0..40).map(|sport| (sport, 1 + i32::from(sport) % 7)).collect();
        let history = history(&config, vec![vec![record("a", 1, &config, &flows)]], 1);
        for (sport, packets) in flows {
            let query = Query {
                flow: Some(flow(sport).to_string().parse().unwrap()),
                ..Query::new(Task::Frequency, Window::All)
            };
            let found: Claimed<Frequency> = (&history as &dyn Queryable).answer(&query).unwrap();
            assert!(found.count().upper_bound.unwrap() >= packets as u64);
        }
    }
}
