//! What the history keeps of an epoch, and the answers: the records in their byte form, which are read
//! where a query comes to them.

use std::cell::OnceCell;
use std::sync::Arc;

use super::composite::{self, Sample};
use super::config::{Decode, SketchKind};
use super::record::{Fragment, Key, Shape};
use super::{DiSketch, Program};
use crate::answers::{
    Answers, ByRoute, CONFIDENCE, Certainty, Estimate, FlowCount, FlowName, FoundFlows, Frequency, HeavyFlows,
    ProgramAnswer, Query, Route, Task, Unit, excess,
};
use crate::history::{Epochs, Kept, Reason, Reasons};
use crate::program::Record;
use crate::wire::{Flow, Pattern};

/// Epochs over which a flow is taken to have packets equally often.
const STEADY: usize = 32;

/// The records of an epoch.
#[derive(Debug)]
pub struct KeptFragments {
    unit: Unit,
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
    is_full: bool,
    bytes: Box<[u8]>,
}

impl KeptFragments {
    pub(super) fn new(
        unit: Unit,
        decode: Decode,
        epoch: u64,
        expected: usize,
        switches: Vec<(Arc<str>, Box<Fragment>)>,
    ) -> Self {
        let packed = |(switch, fragment): (Arc<str>, Box<Fragment>)| {
            let (is_full, bytes) = (fragment.is_full(), fragment.encode().into());
            Packed { switch, shape: fragment.shape, is_full, bytes }
        };
        Self { unit, decode, epoch, expected, switches: switches.into_iter().map(packed).collect() }
    }
}

/// An epoch whose records are read as they are needed.
struct Opened<'a> {
    kept: &'a KeptFragments,
    fragments: Vec<OnceCell<Option<Fragment>>>,
}

impl<'a> Opened<'a> {
    fn new(kept: &'a KeptFragments) -> Self {
        Self { kept, fragments: kept.switches.iter().map(|_| OnceCell::new()).collect() }
    }

    fn fragment(&self, at: usize) -> Option<&Fragment> {
        let packed = self.kept.switches.get(at)?;
        self.fragments.get(at)?.get_or_init(|| Fragment::decode(&packed.shape, &packed.bytes).ok()).as_ref()
    }

    /// The fragments that count all packets of a flow, and the number of switches on its path; `None`
    /// where the path is not known.
    fn fragments(&self, path: Option<&Path>) -> Option<(Vec<&Fragment>, usize)> {
        let switches = &self.kept.switches;
        if let (1, [_]) = (self.kept.expected, &switches[..]) {
            return Some((self.fragment(0).into_iter().collect(), 1));
        }
        let Path { switches: wanted, hops, .. } = path?;
        let at = |wanted: &Arc<str>| switches.iter().position(|packed| packed.switch == *wanted);
        Some((wanted.iter().filter_map(at).filter_map(|at| self.fragment(at)).collect(), *hops))
    }
}

/// The switches that see all packets of a flow: all on its path or, after a change, on all of its paths.
struct Path {
    switches: Vec<Arc<str>>,
    /// Number of switches on the longest path.
    hops: usize,
    /// No packets took a path of which a part is unknown.
    is_whole: bool,
}

impl Path {
    /// `None` without any path that is known as a whole.
    fn of(flow: &Flow, routes: Option<&ByRoute>) -> Option<Self> {
        let routes = routes.map(|routes| routes.of(flow)).unwrap_or_default();
        let known = |route: &Route| -> Option<Vec<Arc<str>>> {
            route.switches.iter().cloned().collect::<Option<_>>().filter(|_| route.certainty >= Certainty::Decided)
        };
        let paths: Vec<_> = routes.iter().filter_map(known).collect();
        let (first, others) = paths.split_first()?;
        let is_shared = |switch: &&Arc<str>| others.iter().all(|other| other.contains(switch));
        let switches = first.iter().filter(is_shared).cloned().collect();
        let hops = paths.iter().map(Vec::len).max().unwrap_or_default();
        Some(Self { switches, hops, is_whole: paths.len() == routes.len() })
    }
}

impl Kept for KeptFragments {
    fn bytes(&self) -> usize {
        self.switches.iter().map(|packed| size_of::<Packed>() + packed.bytes.len()).sum()
    }
}

/// The estimate of one flow over some epochs, and why it is not complete.
fn frequency(epochs: &[Opened<'_>], flow: &Flow, routes: Option<&ByRoute>) -> (Estimate, Reasons) {
    let (mut lack, Some(key)) = (Reasons::default(), Key::of(flow)) else {
        return (Estimate::exact(0), Reasons::default());
    };
    let mut window: Vec<Vec<Sample<'_>>> = Vec::new();
    let (mut sketch, mut decode) = (SketchKind::Count, Decode::Median);
    let path = Path::of(flow, routes);
    lack.add_if(path.as_ref().is_some_and(|path| !path.is_whole), Reason::PathsUnknown);
    for epoch in epochs {
        let kept = epoch.kept;
        lack.add_if(kept.switches.is_empty(), Reason::NotAnalysed);
        lack.add_if(kept.switches.iter().any(|packed| packed.is_full), Reason::Saturated);
        let Some((fragments, hops)) = epoch.fragments(path.as_ref()) else {
            lack.add_if(!kept.switches.is_empty(), Reason::PathsUnknown);
            continue;
        };
        let mut samples = Vec::with_capacity(fragments.len());
        let Some(crcs) = fragments.first().map(|fragment| fragment.hash(key)) else {
            lack.add(Reason::Gap);
            continue;
        };
        for fragment in &fragments {
            (sketch, decode) = (fragment.shape.config.sketch, kept.decode);
            fragment.samples(crcs, kept.epoch, hops == 1, &mut samples);
        }
        lack.add_if(samples.is_empty(), Reason::Gap);
        window.push(samples);
    }
    let paper: f64 = window.iter().filter_map(|samples| composite::epoch(sketch, samples)).sum();
    let likely = || window.chunks(STEADY).filter_map(composite::expected).sum();
    let number = match decode {
        Decode::Median => paper,
        Decode::Likelihood => likely(),
    };
    (bounded(sketch, &window, paper, number, lack.is_empty()), lack)
}

/// The estimate with its bounds. They are known where the whole of each epoch was counted: what a flow
/// has in the other sub-epochs no record can tell.
fn bounded(sketch: SketchKind, window: &[Vec<Sample<'_>>], paper: f64, number: f64, is_whole: bool) -> Estimate {
    let rounded = |number: f64| number.max(0.0).round() as u64;
    let is_uncut = window.iter().flatten().all(|sample| sample.cuts == 0);
    if !is_uncut || !is_whole {
        return Estimate::unbounded(rounded(number));
    }
    let doubt = 1.0 - CONFIDENCE;
    let (most, below) = match sketch {
        // Cantelli's inequality, over epochs that hash independently.
        SketchKind::Count => {
            let deviations =
                |samples: &Vec<Sample<'_>>| samples.iter().map(|sample| sample.noise.deviation).collect::<Vec<_>>();
            let variance: f64 = window.iter().map(|samples| composite::variance(&deviations(samples))).sum();
            (None, (variance * (1.0 - doubt) / doubt).sqrt())
        }
        SketchKind::CountMin => {
            let doubt = doubt / window.len().max(1) as f64;
            let bound = |samples: &Vec<Sample<'_>>| {
                let totals = samples.iter().map(|sample| sample.noise.total).max()?;
                let widths: Vec<_> = samples.iter().map(|sample| sample.noise.width).collect();
                excess(totals, &widths, doubt)
            };
            let below: u64 = window.iter().filter_map(bound).sum();
            (Some(rounded(paper)), below as f64)
        }
    };
    let least = rounded(paper - below);
    let number = rounded(number).max(least).min(most.unwrap_or(u64::MAX));
    Estimate { number, least: 0, most, excess: Some(number - least.min(number)) }
}

/// The flows of a query that some program names, each with its estimate.
fn found(epochs: &Epochs<KeptFragments>, opened: &[Opened<'_>], query: &Query) -> FoundFlows {
    let routes = query.routes.as_ref();
    let candidates: Vec<Flow> = routes.map(ByRoute::flows).unwrap_or_default();
    let mut found = FoundFlows { unit: unit(epochs), ..FoundFlows::default() };
    found.lack.add_if(candidates.is_empty(), Reason::Unnamed);
    for flow in candidates {
        let name = FlowName::Flow(flow);
        if !query.is_meant(&name) {
            continue;
        }
        let (estimate, lack) = frequency(opened, &flow, routes);
        found.lack.extend(&lack);
        if estimate.number > 0 {
            found.flows.push(FlowCount { flow: name, count: estimate.number.into() });
        }
    }
    found
}

fn unit(epochs: &Epochs<KeptFragments>) -> Unit {
    epochs.newest().map(|entry| entry.showed.unit).unwrap_or_default()
}

impl Answers for KeptFragments {
    const NEEDS_ROUTES: bool = true;

    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        let opened: Vec<_> = epochs.iter().map(|entry| Opened::new(&entry.showed)).collect();
        match query.task {
            Task::Frequency => {
                let flow = query.flow.as_ref().and_then(Pattern::flow);
                let (estimate, lack) = match flow {
                    Some(flow) => frequency(&opened, &flow, query.routes.as_ref()),
                    None => {
                        let found = found(epochs, &opened, query);
                        (found.frequency(query), found.lack)
                    }
                };
                Some(Frequency::told(DiSketch::NAME, unit(epochs), query, estimate, lack))
            }
            Task::Heavy => Some(HeavyFlows::told(DiSketch::NAME, epochs, query, found(epochs, &opened, query))),
            _ => None,
        }
    }
}
