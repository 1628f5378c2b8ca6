//! One run: a network's packets go through fragments, and flows are asked for.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use weir::answers::{Certainty, Route};
use weir::pisa::hash::HashFamily;
use weir::program::disketch::composite::{self, Sample};
use weir::program::disketch::hashes::{Hashes, KeyCrcs, Place};
use weir::program::disketch::levels::{self, Leveled, Summary};
use weir::program::disketch::path::PathPlace;
use weir::program::disketch::record::Shape;
use weir::program::disketch::{Config, Decode, DiSketch, Fragment, Memory, SketchKind, equalise};

use super::fabric::{self, Flow, Loaded};
use super::methods::{Filling, Method};
use crate::hashpipe::HashPipe;
use crate::heavy::HeavyHitter;

/// Epochs of the window.
pub const EPOCHS: usize = 32;
/// Epochs after which a decision holds.
const DELAY: usize = 2;
/// Rows of the sketches in core switches.
const ROWS: u32 = 5;
/// Flows that are asked for: the heaviest, and of the others about as many as this.
const HEAVIEST: usize = 1000;
const ASKED: usize = 12_000;
/// The HashPipe of an edge switch: 13 KB.
const TABLE_STAGES: usize = 6;
const TABLE_SLOTS: usize = 128;
/// Switches on the longest path.
const LONGEST: usize = 5;
/// Most sub-epochs of an epoch, as a power of two.
const MOST_CUTS: u32 = 6;

/// How much of a change of paths a query knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Known {
    /// The path of each epoch, and the packets on both paths of the epoch in which it changes.
    Changes,
    /// Both paths, and not when.
    Both,
    /// The first path.
    First,
}

impl Known {
    pub const ALL: [Self; 3] = [Self::Changes, Self::Both, Self::First];

    pub fn name(self) -> &'static str {
        match self {
            Self::Changes => "aware",
            Self::Both => "shared",
            Self::First => "unaware",
        }
    }
}

pub struct Experiment<'a> {
    network: &'a Loaded,
    widths: &'a [u32],
    sketch: SketchKind,
    family: HashFamily,
    flows: Vec<Crossing>,
    /// Flows that are asked for, and whether they stand for all.
    asked: Vec<(u32, bool)>,
    known: Known,
    /// By flow, its packets on the first path in the epoch in which it changes, and on the second one.
    at_change: HashMap<u32, [u64; 2]>,
}

/// Errors over the flows that were asked for.
pub struct Outcome {
    /// Of flows with a full path.
    pub rmse: f64,
    /// The same without cutting estimates at 0.
    pub signed_rmse: f64,
    /// Mean of those errors.
    pub bias: f64,
    /// Of the heaviest 1 000 flows.
    pub top: f64,
    pub mean_sub_epochs: f64,
    /// Number of flows behind [`Self::rmse`].
    pub queried: usize,
    by_hops: Vec<(usize, f64)>,
    /// Of the flows that were asked for.
    pub summary: Summary,
}

impl Outcome {
    /// Of all paths.
    pub fn rmse_of_all(&self) -> f64 {
        root(self.by_hops.iter().map(|(_, error)| *error))
    }

    /// Of flows with paths of this length.
    pub fn rmse_of(&self, hops: usize) -> f64 {
        root(self.by_hops.iter().filter(|(of, _)| *of == hops).map(|(_, error)| *error))
    }
}

fn root(errors: impl Iterator<Item = f64>) -> f64 {
    let (sum, number) = errors.fold((0.0, 0.0f64), |(sum, number), error| (sum + error * error, number + 1.0));
    (sum / number.max(1.0)).sqrt()
}

/// What the rows need of a flow, close together.
struct Crossing {
    crcs: KeyCrcs,
    path: [u16; LONGEST],
    hops: u8,
    /// The path stands in the network alone, as it changes.
    changes: bool,
}

impl Crossing {
    fn new(flow: &Flow, crcs: KeyCrcs) -> Self {
        let mut path = [0; LONGEST];
        path[..flow.path.len()].copy_from_slice(&flow.path);
        Self { crcs, path, hops: flow.path.len() as u8, changes: flow.later.is_some() }
    }

    fn path(&self) -> &[u16] {
        &self.path[..usize::from(self.hops)]
    }
}

/// What a method leaves in the switches.
pub struct Filled {
    filling: Filling,
    /// By epoch, the fragments of each switch.
    epochs: Vec<(u64, Vec<Vec<Fragment>>)>,
    mean_sub_epochs: f64,
}

/// A row, and how it was filled.
struct Row {
    shape: Arc<Shape>,
    width: usize,
    cuts: u32,
    fragment: Fragment,
}

impl Row {
    fn new(shape: Arc<Shape>) -> Self {
        let width = shape.config.width().get() as usize;
        Self { fragment: Fragment::zeroed(&shape, 0), width, shape, cuts: 0 }
    }

    /// The counters of the epoch that ends; the next one has 2 to the power of `cuts` sub-epochs.
    fn end(&mut self, cuts: u32) -> Fragment {
        self.cuts = cuts;
        std::mem::replace(&mut self.fragment, Fragment::zeroed(&self.shape, cuts))
    }
}

impl<'a> Experiment<'a> {
    pub fn new(network: &'a Loaded, widths: &'a [u32], sketch: SketchKind, seed: u64) -> Self {
        let queried: Vec<u32> =
            (0u32..).zip(&network.flows).filter(|(_, flow)| flow.is_queried).map(|(number, _)| number).collect();
        let step = (queried.len() / ASKED).max(1);
        let asked = queried.iter().enumerate().map(|(place, flow)| (*flow, place % step == 0));
        let asked =
            asked.enumerate().filter(|(place, (_, stands))| *stands || *place < HEAVIEST).map(|(_, asked)| asked);
        let family = HashFamily::reproducible(seed);
        let hashes = Hashes::new(&Config::default(), "", &family);
        let flows = network.flows.iter().map(|flow| Crossing::new(flow, hashes.key_crcs(flow.key))).collect();
        let (known, asked) = (Known::Changes, asked.collect());
        Self { network, widths, sketch, family, flows, asked, known, at_change: at_change(network) }
    }

    /// Queries know this of paths.
    #[must_use]
    pub fn knowing(self, known: Known) -> Self {
        Self { known, ..self }
    }

    /// All flows are asked for.
    #[must_use]
    pub fn of_all(self) -> Self {
        let asked = (0..self.network.flows.len() as u32).map(|flow| (flow, true)).collect();
        Self { asked, ..self }
    }

    /// The rows of all switches.
    fn rows(&self, filling: Filling) -> Vec<Vec<Row>> {
        let config = |width: u32| Config {
            sketch: self.sketch,
            memory: Memory(u64::from(width) * 4),
            rho: filling.rho.unwrap_or_default(),
            single_hop: filling.single_hop,
            cover: filling.cover,
            ..Config::default()
        };
        let row = |switch: usize, row: u32, width: u32| {
            let shape = DiSketch::shape(&config(width), &format!("s{switch}-{row}"), &self.family);
            Row::new(shape)
        };
        let of = |(switch, &width): (usize, &u32)| match (filling.core_alone, self.network.first_core) {
            (true, Some(first)) if switch < usize::from(first) => Vec::new(),
            (true, _) => (0..ROWS).map(|number| row(switch, number, (width / ROWS).max(1))).collect(),
            _ => vec![row(switch, 0, width)],
        };
        self.widths.iter().enumerate().map(of).collect()
    }

    pub fn run(&self, method: Method, single_hop: bool) -> Outcome {
        self.ask(&self.fill(method.filling(single_hop)), method)
    }

    /// Methods that leave the same in the switches share it if they stand beside each other.
    pub fn run_all(&self, methods: &[Method]) -> Vec<Outcome> {
        let mut last: Option<Filled> = None;
        let run = |method: &Method| {
            let filling = method.filling(false);
            let filled = last.take().filter(|filled| filled.filling == filling);
            let filled = last.insert(filled.unwrap_or_else(|| self.fill(filling)));
            self.ask(filled, *method)
        };
        methods.iter().map(run).collect()
    }

    /// Sends all packets.
    fn fill(&self, filling: Filling) -> Filled {
        let mut rows = self.rows(filling);
        let windows = if filling.one_window { 1 } else { EPOCHS };
        let packets = self.network.sequence.len();
        let decisions = vec![vec![0u32; rows.len()]; EPOCHS + DELAY];
        let (mut decisions, mut target, mut cut) = (decisions, filling.target, 0.0);
        let mut epochs: Vec<(u64, Vec<Vec<Fragment>>)> = Vec::new();
        for epoch in 0..windows {
            let (first, end) = (epoch * packets / windows, (epoch + 1) * packets / windows);
            self.fill_epoch(&mut rows, epoch as u64, first..end, filling);
            cut += rows.iter().flatten().map(|row| f64::from(1u32 << row.cuts)).sum::<f64>();
            if filling.rho.is_some() {
                let errors: Vec<f64> = rows.iter().flatten().map(|row| row.fragment.error()).collect();
                let target = *target.get_or_insert_with(|| median(&errors));
                for (switch, row) in rows.iter().enumerate() {
                    let next = equalise::next_cuts(row[0].cuts, errors[switch], target, MOST_CUTS);
                    decisions[epoch + DELAY][switch] = next;
                }
            }
            let end = |(switch, rows): (usize, &mut Vec<Row>)| {
                let cuts = if filling.rho.is_some() { decisions[epoch + 1][switch] } else { 0 };
                rows.iter_mut().map(|row| row.end(cuts)).collect()
            };
            epochs.push((epoch as u64, rows.iter_mut().enumerate().map(end).collect()));
        }
        let number: usize = rows.iter().map(Vec::len).sum();
        Filled { filling, epochs, mean_sub_epochs: cut / (windows * number) as f64 }
    }

    fn ask(&self, filled: &Filled, method: Method) -> Outcome {
        let tables = if method == Method::Table { self.tables() } else { Vec::new() };
        let estimate = |(flow, _): &(u32, bool)| {
            let samples = filled.epochs.iter().map(|(epoch, rows)| self.samples(rows, *epoch, *flow));
            match method.decode() {
                Decode::Median => samples.filter_map(|samples| composite::epoch(self.sketch, &samples)).sum(),
                Decode::Likelihood => {
                    let least: Vec<i64> =
                        tables.iter().map(|table| table.get(flow).copied().unwrap_or_default()).collect();
                    composite::expected_above(&samples.collect::<Vec<_>>(), &least).unwrap_or_default()
                }
            }
        };
        let estimates: Vec<f64> = self.asked.iter().map(estimate).collect();
        self.outcome(&estimates, filled.mean_sub_epochs)
    }

    /// By epoch, what a HashPipe in the first switch of each flow knows of it.
    fn tables(&self) -> Vec<HashMap<u32, i64>> {
        let packets = self.network.sequence.len();
        let of = |epoch: usize| {
            let mut pipes: HashMap<u16, HashPipe> = HashMap::new();
            for at in epoch * packets / EPOCHS..(epoch + 1) * packets / EPOCHS {
                let flow = &self.network.flows[self.network.sequence[at] as usize];
                let Some(first) = flow.path_of(at).first() else { continue };
                let pipe = || HashPipe::with(TABLE_STAGES * TABLE_SLOTS, TABLE_STAGES, &self.family);
                pipes.entry(*first).or_insert_with(pipe).packet(flow.key);
            }
            let mut counts = HashMap::new();
            for (key, count) in pipes.into_values().flat_map(HeavyHitter::read_out) {
                *counts.entry(fabric::number_of(key)).or_default() += count as i64;
            }
            counts
        };
        (0..EPOCHS).map(of).collect()
    }

    fn fill_epoch(&self, rows: &mut [Vec<Row>], epoch: u64, packets: Range<usize>, filling: Filling) {
        let number = packets.len().max(1);
        let constants: Vec<Vec<_>> =
            rows.iter().map(|rows| rows.iter().map(|row| row.shape.hashes.constants(epoch)).collect()).collect();
        let first = packets.start;
        for (place, number_of) in self.network.sequence[packets].iter().enumerate() {
            let flow = &self.flows[*number_of as usize];
            let path = match flow.changes {
                true => self.network.flows[*number_of as usize].path_of(first + place),
                false => flow.path(),
            };
            let (is_single, crcs) = (filling.single_hop && path.len() == 1, flow.crcs);
            let level = crcs.level_of(self.sketch);
            // The finest sub-epoch of this moment; coarser ones are its leading bits.
            let moment = (place << MOST_CUTS) / number;
            for (switch, hop) in path.iter().zip(1..) {
                let of_switch = rows[usize::from(*switch)].iter_mut().zip(&constants[usize::from(*switch)]);
                for (row, constants) in of_switch {
                    let (now, hashes) = (moment >> (MOST_CUTS - row.cuts), &row.shape.hashes);
                    let at = hashes.join(crcs, *constants);
                    let sampled = if filling.cover { at.moved(hop) } else { at };
                    let away = sampled.sub_epoch(row.cuts) ^ now as u32;
                    if away != 0 && !(is_single && away == 1 << row.cuts >> 1) {
                        continue;
                    }
                    let (width, counters) = (row.width, &mut row.fragment.parts[now].counters);
                    let mut count = |level: usize, at: Place| {
                        let is_negative = at.is_negative && self.sketch.is_signed();
                        counters[level * width + at.slot as usize] += if is_negative { -1 } else { 1 };
                    };
                    count(0, at);
                    (1..=level).for_each(|level| count(level, hashes.place_in(level, crcs, *constants)));
                }
            }
        }
    }

    fn samples<'b>(&self, rows: &'b [Vec<Fragment>], epoch: u64, flow: u32) -> Vec<Sample<'b>> {
        let crcs = self.flows[flow as usize].crcs;
        let mut samples = Vec::new();
        for (switch, place) in self.path(epoch as usize, flow) {
            rows[switch].iter().for_each(|fragment| fragment.samples(crcs, epoch, place, &mut samples));
        }
        samples
    }

    /// The switches that are asked for a flow in an epoch.
    fn path(&self, epoch: usize, number: u32) -> Vec<(usize, PathPlace)> {
        let flow = &self.network.flows[number as usize];
        let whole = |path: &[u16]| {
            let place = |hop| PathPlace { hop, hops: path.len() as u8, share: 1.0 };
            path.iter().zip(1..).map(|(switch, hop)| (usize::from(*switch), place(hop))).collect()
        };
        let Some((change, later)) = flow.later.as_ref().filter(|_| self.known != Known::First) else {
            return whole(&flow.path);
        };
        let of_change = change * EPOCHS / self.network.sequence.len();
        let counts = match self.known {
            Known::Changes if epoch < of_change => return whole(&flow.path),
            Known::Changes if epoch > of_change => return whole(later),
            Known::Changes => self.at_change.get(&number).copied(),
            _ => None,
        };
        let route = |(path, packets): (&[u16], Option<u64>)| Route {
            switches: path.iter().map(|switch| Some(switch.to_string().into())).collect(),
            certainty: Certainty::Sure,
            packets,
        };
        let packets = |path: usize| counts.map(|counts| counts[path]);
        let seen =
            weir::program::disketch::path::Path::of(&[(&flow.path[..], packets(0)), (later, packets(1))].map(route));
        let number = |(name, place): &(Arc<str>, PathPlace)| Some((name.parse().ok()?, *place));
        seen.iter().flat_map(|seen| seen.switches.iter().filter_map(number)).collect()
    }

    /// The number of flows and their entropy, from these estimates. Less than half a packet is none.
    fn summary(&self, estimates: &[f64]) -> Summary {
        let leveled = |(estimate, (flow, _)): (&f64, &(u32, bool))| {
            let depth = self.flows[*flow as usize].crcs.level_of(self.sketch) as u32;
            (*estimate >= 0.5).then_some(Leveled { depth, size: estimate.round() })
        };
        levels::summary(estimates.iter().zip(&self.asked).filter_map(leveled).collect())
    }

    fn outcome(&self, estimates: &[f64], mean_sub_epochs: f64) -> Outcome {
        let error = |(estimate, (flow, stands)): (&f64, &(u32, bool))| {
            let hops = self.network.flows[*flow as usize].path.len();
            (hops, estimate.max(0.0) - f64::from(self.network.sizes[*flow as usize]), *stands, estimate.min(0.0))
        };
        let errors: Vec<_> = estimates.iter().zip(&self.asked).map(error).collect();
        let is_full = |of: &&(usize, f64, bool, f64)| of.0 == self.network.longest;
        let full: Vec<f64> = errors.iter().filter(|of| of.2).filter(is_full).map(|of| of.1).collect();
        let signed: Vec<f64> = errors.iter().filter(|of| of.2).filter(is_full).map(|of| of.1 + of.3).collect();
        Outcome {
            rmse: root(full.iter().copied()),
            signed_rmse: root(signed.iter().copied()),
            bias: signed.iter().sum::<f64>() / signed.len().max(1) as f64,
            top: root(errors.iter().take(HEAVIEST).filter(is_full).map(|of| of.1)),
            mean_sub_epochs,
            queried: full.len(),
            by_hops: errors.iter().filter(|of| of.2).map(|of| (of.0, of.1)).collect(),
            summary: self.summary(estimates),
        }
    }
}

fn at_change(network: &Loaded) -> HashMap<u32, [u64; 2]> {
    let (mut counts, packets) = (HashMap::default(), network.sequence.len());
    for (place, number) in network.sequence.iter().enumerate() {
        let Some((change, _)) = &network.flows[*number as usize].later else { continue };
        if change * EPOCHS / packets == place * EPOCHS / packets {
            counts.entry(*number).or_insert([0; 2])[usize::from(place >= *change)] += 1;
        }
    }
    counts
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
