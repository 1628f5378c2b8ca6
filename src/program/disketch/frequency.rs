//! The count of a flow over some epochs, with its bounds: composite queries of the records that are kept.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::KeptFragments;
use super::composite::{self, Sample};
use super::config::{Decode, SketchKind};
use super::hashes::KeyCrcs;
use super::kept::Packed;
use super::lookup::Noises;
use super::path::{Path, PathPlace};
use crate::answers::{ByRoute, CONFIDENCE, Estimate, excess};
use crate::history::{Reason, Reasons};
use crate::wire::Flow;

/// Epochs over which a flow is taken to have packets equally often.
const STEADY: usize = 32;

/// An epoch that is read, and what is known of the noise of its records.
struct Opened<'a> {
    kept: &'a KeptFragments,
    noises: Vec<Noises>,
    /// The records that had a counter of some flow.
    used: Vec<Cell<bool>>,
    /// All records of the epoch are in this entry.
    is_alone: bool,
}

impl<'a> Opened<'a> {
    fn new(kept: &'a KeptFragments, is_alone: bool) -> Self {
        let noises = kept.switches.iter().map(|_| Noises::default()).collect();
        Self { kept, noises, used: kept.switches.iter().map(|_| Cell::new(false)).collect(), is_alone }
    }

    /// What a flow has at least, as other programs are certain. The paper's decoding knows no other programs.
    fn at_least(&self, flow: &Flow, routes: Option<&ByRoute>) -> i64 {
        let KeptFragments { decode, epoch, unit, .. } = *self.kept;
        match (decode, routes) {
            (Decode::Likelihood, Some(routes)) if self.is_alone => {
                i64::try_from(routes.at_least(flow, epoch, unit)).unwrap_or(i64::MAX)
            }
            _ => 0,
        }
    }

    /// The records that count packets of a flow, each with its place on the flow's path; `None` where the
    /// path is not known.
    fn records(&self, path: Option<&Path>) -> Option<Vec<OnPath<'_>>> {
        let of = |at: usize, place| {
            Some(OnPath {
                packed: self.kept.switches.get(at)?,
                noises: self.noises.get(at)?,
                used: self.used.get(at)?,
                place,
            })
        };
        if let (1, [_]) = (self.kept.expected, &self.kept.switches[..]) {
            return Some(of(0, PathPlace::ALONE).into_iter().collect());
        }
        let at = |wanted: &Arc<str>| self.kept.switches.iter().position(|packed| packed.switch == *wanted);
        Some(path?.switches.iter().filter_map(|(name, place)| of(at(name)?, *place)).collect())
    }
}

/// A record of a switch on a flow's path.
struct OnPath<'a> {
    packed: &'a Packed,
    noises: &'a Noises,
    used: &'a Cell<bool>,
    place: PathPlace,
}

/// Estimates of flows over some epochs.
pub struct Estimates {
    /// Of each flow, and why it is not complete.
    pub flows: Vec<(Estimate, Reasons)>,
    /// By switch, the number of epochs in which its record was used for some of the flows.
    pub rests_on: BTreeMap<String, u64>,
}

/// The estimate of each flow over some epochs. What is worked out of the records is kept for [`STEADY`]
/// epochs at a time.
pub fn frequencies(epochs: &[&KeptFragments], flows: &[Flow], routes: Option<&ByRoute>) -> Estimates {
    let mut sums: Vec<Sum> = flows.iter().map(|_| Sum::new(epochs.len())).collect();
    let mut used: BTreeMap<&str, Uses> = BTreeMap::new();
    let entries = epochs.chunk_by(|one, other| one.epoch == other.epoch);
    let entries: Vec<_> = entries.flat_map(|entries| entries.iter().map(|kept| (kept, entries.len() == 1))).collect();
    for entries in entries.chunks(STEADY) {
        let opened: Vec<_> = entries.iter().map(|(kept, is_alone)| Opened::new(kept, *is_alone)).collect();
        sums.iter_mut().zip(flows).for_each(|(sum, flow)| sum.add(&opened, flow, routes));
        for Opened { kept, used: of_epoch, .. } in &opened {
            let switches = kept.switches.iter().zip(of_epoch).filter(|(_, used)| used.get());
            switches.for_each(|(packed, _)| used.entry(&packed.switch).or_default().add(kept.epoch));
        }
    }
    let rests_on = used.into_iter().map(|(switch, uses)| (switch.to_owned(), uses.epochs)).collect();
    Estimates { flows: sums.into_iter().map(Sum::estimate).collect(), rests_on }
}

/// Epochs in which a switch's record was used. A record that came in parts is in several entries of one
/// epoch.
#[derive(Default)]
struct Uses {
    epochs: u64,
    newest: Option<u64>,
}

impl Uses {
    fn add(&mut self, epoch: u64) {
        self.epochs += u64::from(self.newest != Some(epoch));
        self.newest = Some(epoch);
    }
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
    /// What the flow has at least, as other programs are certain.
    certain: u64,
    /// Of the paper's estimate.
    variance: f64,
    excess: u64,
}

impl Sum {
    fn new(epochs: usize) -> Self {
        let sketch = SketchKind::Count;
        let (paper, number, variance, certain, excess) = (0.0, 0.0, 0.0, 0, 0);
        let (lack, is_uncut) = (Reasons::default(), true);
        Self { epochs, lack, sketch, paper, number, is_uncut, certain, variance, excess }
    }

    fn add(&mut self, epochs: &[Opened<'_>], flow: &Flow, routes: Option<&ByRoute>) {
        let mut window: Vec<Vec<Sample<'_>>> = Vec::with_capacity(epochs.len());
        let (mut least, mut decode) = (Vec::with_capacity(epochs.len()), Decode::Median);
        for epoch in epochs {
            decode = epoch.kept.decode;
            let samples = self.samples(epoch, flow, routes);
            if let Some(samples) = &samples {
                self.lack.add_if(samples.is_empty(), Reason::Gap);
                self.bound(samples);
            }
            window.push(samples.unwrap_or_default());
            least.push(epoch.at_least(flow, routes));
        }
        let paper = window.iter().filter_map(|samples| composite::epoch(self.sketch, samples));
        let paper: Vec<f64> = paper.collect();
        self.number += match decode {
            Decode::Median => paper.iter().sum(),
            Decode::Likelihood => composite::expected_above(&window, &least).unwrap_or_default(),
        };
        self.certain = least.iter().fold(self.certain, |sum, least| sum.saturating_add(least.unsigned_abs()));
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
        let crcs = records.first().and_then(|record| record.packed.shape.hashes.of_flow(flow));
        lack.add_if(crcs.is_none(), Reason::Gap);
        let (crcs, mut samples): (KeyCrcs, _) = (crcs?, Vec::with_capacity(records.len()));
        for OnPath { packed, noises, used, place } in records {
            let (Packed { shape, bytes, lookup, .. }, before) = (packed, samples.len());
            self.sketch = shape.config.sketch;
            lack.add_if(lookup.is_full, Reason::Saturated);
            lookup.samples((shape, bytes), noises, (crcs, kept.epoch, place), &mut samples);
            used.set(used.get() || samples.len() > before);
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
        let Self { lack, sketch, paper, number, is_uncut, certain, variance, excess, .. } = self;
        let rounded = |number: f64| number.max(0.0).round() as u64;
        let number = rounded(number).max(certain);
        if !is_uncut || !lack.is_empty() {
            return (Estimate { least: certain, ..Estimate::unbounded(number) }, lack);
        }
        let doubt = 1.0 - CONFIDENCE;
        let (most, below) = match sketch {
            // Cantelli's inequality, over epochs that hash independently.
            SketchKind::Count | SketchKind::UnivMon => (None, (variance * (1.0 - doubt) / doubt).sqrt()),
            SketchKind::CountMin => (Some(rounded(paper).max(certain)), excess as f64),
        };
        let least = rounded(paper - below);
        let number = number.max(least).min(most.unwrap_or(u64::MAX));
        (Estimate { number, least: certain, most, excess: Some(number - least.min(number)) }, lack)
    }
}
