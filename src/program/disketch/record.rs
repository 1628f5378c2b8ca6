//! Records of a fragment: the counters of each sub-epoch.
//!
//! ```text
//! version 1 ‖ parts ‖ { sub-epochs of the epoch ‖ those that it covers, a bit each ‖ later epochs ‖ full ‖ counters }
//! ```
//! All are LEB128 numbers, counters in zigzag order: 0, −1, 1, −2, … Behind a counter of 0 stands how many
//! more follow it. The number of counters follows from the configuration; those of all flows come first,
//! those of deeper levels behind them. `full` is 1 if a counter had its largest or smallest number. Parts
//! ascend and share no sub-epoch.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::composite::{Noise, Sample};
use super::hashes::{Hashes, KeyCrcs};
use super::path::PathPlace;
use super::{Config, DiSketch, equalise};
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{DecodeError, MAX_U32, MAX_U64, Reader, Writer};
use crate::program::{Coverage, MergeError, Program, Record, SubEpoch};

const VERSION: u8 = 1;

/// What fragments have in common that can be added.
#[derive(Debug, PartialEq)]
pub struct Shape {
    pub config: Config,
    pub hashes: Hashes,
}

/// Where a flow is counted in the records of a switch in an epoch.
pub struct Wanted {
    cuts: u32,
    first: u32,
    second: Option<u32>,
    pub level: usize,
    pub slot: usize,
    is_negative: bool,
    share: f64,
}

impl Wanted {
    /// The sub-epochs in which it is counted.
    pub fn sub_epochs(&self) -> impl Iterator<Item = u32> + use<> {
        [self.first].into_iter().chain(self.second)
    }

    pub fn sample<'a>(&self, sub_epoch: u32, counter: i32, noise: &'a Noise) -> Sample<'a> {
        let count = if self.is_negative { -i64::from(counter) } else { i64::from(counter) };
        Sample { cuts: self.cuts, sub_epoch, count, share: self.share, noise }
    }
}

impl Shape {
    /// Of a flow and a switch at this place on its path, in an epoch of 2 to the power of `cuts` sub-epochs:
    /// the counter of the deepest level that counts the flow.
    pub fn wanted(&self, cuts: u32, key: KeyCrcs, epoch: u64, at: PathPlace) -> Wanted {
        let Self { config, hashes } = self;
        let level = key.level_of(config.sketch);
        let place = hashes.place_in(level, key, hashes.constants(epoch));
        let place = if config.cover { place.moved(at.hop) } else { place };
        let first = place.sub_epoch(cuts);
        let twice = at.hops == 1 && config.single_hop && cuts > 0;
        Wanted {
            cuts,
            first,
            second: twice.then(|| first ^ 1 << (cuts - 1)),
            level,
            slot: place.slot as usize,
            is_negative: place.is_negative && config.sketch.is_signed(),
            share: at.share,
        }
    }
}

/// Whether a part of this coverage covers this sub-epoch of 2 to the power of `cuts`, and no other epoch.
pub(super) fn covers(coverage: Coverage, cuts: u32, sub_epoch: u32) -> bool {
    let Coverage { of, sub_epochs, later_epochs } = coverage;
    of == 1 << cuts && later_epochs == 0 && sub_epochs >> sub_epoch & 1 == 1
}

/// Counters from one mark to the next.
pub(super) const STEP: usize = 128;

/// The place of a counter in a byte form.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Where the number begins that holds it.
    pub(super) at: u32,
    /// Zeros before it that the same number holds.
    pub(super) before: u32,
}

impl Mark {
    /// No record is as long as a place that does not fit.
    fn new(at: usize, before: usize) -> Self {
        let [at, before] = [at, before].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Self { at, before }
    }
}

/// The counters of one sub-epoch, or of several that a late collector left in one bank.
#[derive(Clone)]
pub struct Part {
    pub coverage: Coverage,
    /// A counter was full: what it counts is a lower bound.
    pub is_full: bool,
    pub counters: Box<[i32]>,
    /// Of each level.
    noise: OnceLock<Box<[OnceLock<Noise>]>>,
}

impl Part {
    pub fn new(coverage: Coverage, is_full: bool, counters: Box<[i32]>) -> Self {
        Self { coverage, is_full, counters, noise: OnceLock::new() }
    }

    fn add(&mut self, other: &Self) {
        if self.coverage.of != other.coverage.of {
            // Flows were counted in other sub-epochs there: no query can tell which.
            self.coverage.later_epochs = self.coverage.later_epochs.max(1);
        }
        self.coverage.add(&other.coverage);
        self.is_full |= other.is_full;
        for (sum, more) in self.counters.iter_mut().zip(&other.counters) {
            let added = i64::from(*sum) + i64::from(*more);
            *sum = added.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            self.is_full |= added != i64::from(*sum);
        }
        self.noise = OnceLock::new();
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        (self.coverage, self.is_full, &self.counters) == (other.coverage, other.is_full, &other.counters)
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("coverage", &self.coverage).finish_non_exhaustive()
    }
}

/// A record: the counters of one switch in an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    pub shape: Arc<Shape>,
    /// In ascending order of their sub-epochs.
    pub parts: Vec<Part>,
}

impl Fragment {
    pub fn new(shape: Arc<Shape>) -> Self {
        Self { shape, parts: Vec::new() }
    }

    /// The record of an epoch without packets, in 2 to the power of `cuts` sub-epochs.
    pub fn zeroed(shape: &Arc<Shape>, cuts: u32) -> Self {
        let part = |index| {
            let mut coverage = Coverage::default();
            coverage.enter(SubEpoch { index, of: 1 << cuts }, true);
            Part::new(coverage, false, vec![0; shape.config.counters()].into())
        };
        Self { shape: shape.clone(), parts: (0..1 << cuts).map(part).collect() }
    }

    /// The binary logarithm of the number of sub-epochs; `None` of a record that is not of one epoch
    /// alone, or has nothing.
    pub fn cuts(&self) -> Option<u32> {
        let first = self.parts.first()?.coverage.of;
        let is_one = |part: &Part| part.coverage.of == first && part.coverage.later_epochs == 0;
        self.parts.iter().all(is_one).then(|| first.ilog2())
    }

    /// Number of sub-epochs that it covers.
    pub fn sub_epochs(&self) -> u32 {
        self.parts.iter().map(|part| part.coverage.sub_epochs.count_ones()).sum()
    }

    /// The mean error of its sub-epochs (equation 5), in packets or bytes, on the level of all flows.
    pub fn error(&self) -> f64 {
        let Config { sketch, rho, .. } = self.shape.config;
        let width = self.shape.config.width().get() as usize;
        let all_flows = |part: &Part| equalise::error(sketch, rho, &part.counters[..width.min(part.counters.len())]);
        let errors = self.parts.iter().map(all_flows);
        errors.sum::<f64>() / self.parts.len().max(1) as f64
    }

    /// Whether a counter was full.
    pub fn is_full(&self) -> bool {
        self.parts.iter().any(|part| part.is_full)
    }

    /// Adds the counters of a flow in an epoch, of a switch at this place on its path, of the deepest level
    /// that counts it: none where the sub-epoch is missing, and for a flow that crosses this switch alone
    /// those of two sub-epochs.
    pub fn samples<'a>(&'a self, key: KeyCrcs, epoch: u64, at: PathPlace, to: &mut Vec<Sample<'a>>) {
        let Some(cuts) = self.cuts() else { return };
        let wanted = self.shape.wanted(cuts, key, epoch, at);
        let Config { sketch, .. } = self.shape.config;
        let width = self.shape.config.width().get() as usize;
        for sub_epoch in wanted.sub_epochs() {
            let Some(part) = self.parts.iter().find(|part| covers(part.coverage, cuts, sub_epoch)) else { continue };
            let Some(counters) = part.counters.chunks(width).nth(wanted.level) else { continue };
            let Some(&counter) = counters.get(wanted.slot) else { continue };
            let noises = part.noise.get_or_init(|| (0..sketch.levels()).map(|_| OnceLock::new()).collect());
            let Some(noise) = noises.get(wanted.level) else { continue };
            let noise = noise.get_or_init(|| Noise::of(sketch, counters));
            to.push(wanted.sample(sub_epoch, counter, noise));
        }
    }

    /// Parts that share a sub-epoch, of two replicas, become one.
    fn add(&mut self, mut part: Part) {
        while let Some(at) = self.parts.iter().position(|own| own.coverage.overlaps(&part.coverage)) {
            let own = self.parts.swap_remove(at);
            part.add(&own);
        }
        let at = self.parts.partition_point(|own| own.coverage < part.coverage);
        self.parts.insert(at, part);
    }

    /// The byte form, and of each part the marks of its counters.
    pub(super) fn marked(&self) -> (Vec<u8>, Vec<Box<[Mark]>>) {
        let (mut to, mut all) = (Writer(vec![VERSION]), Vec::new());
        to.number(self.parts.len() as u64);
        for Part { coverage: Coverage { of, sub_epochs, later_epochs }, is_full, counters, .. } in &self.parts {
            [u64::from(*of), *sub_epochs, u64::from(*later_epochs), u64::from(*is_full)]
                .into_iter()
                .for_each(|number| to.number(number));
            let (mut marks, mut place) = (Vec::with_capacity(counters.len().div_ceil(STEP)), 0);
            for run in counters.chunk_by(|one, other| (*one == 0) == (*other == 0)) {
                let [0, more @ ..] = run else {
                    for counter in run {
                        if place % STEP == 0 {
                            marks.push(Mark::new(to.0.len(), 0));
                        }
                        to.number(zigzag(*counter).into());
                        place += 1;
                    }
                    continue;
                };
                let within = (place.next_multiple_of(STEP)..place + run.len()).step_by(STEP);
                marks.extend(within.map(|marked| Mark::new(to.0.len(), marked - place)));
                to.number(0);
                to.number(more.len() as u64);
                place += run.len();
            }
            all.push(marks.into());
        }
        (to.0, all)
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// If these are not the bytes of a fragment of this shape, whole and without anything behind them.
    pub fn decode(shape: &Arc<Shape>, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let mut fragment = Self::new(shape.clone());
        let number = shape.config.counters();
        for _ in 0..from.number("the number of parts")? {
            let (of, sub_epochs) = (from.u32("sub-epochs")?, from.number("sub-epochs")?);
            let coverage = Coverage { of, sub_epochs, later_epochs: from.u32("epochs")? };
            let last = fragment.parts.last().map(|part| part.coverage);
            let apart = fragment.parts.iter().all(|part| !part.coverage.overlaps(&coverage));
            let fits = of.is_power_of_two() && of <= shape.config.max_sub_epochs && (of == 64 || sub_epochs >> of == 0);
            // Parts that do not overlap are no more than there are sub-epochs.
            if sub_epochs == 0 || !fits || last >= Some(coverage) || !apart {
                return from.wrong("a part", "some sub-epochs of a power of two, each once, in ascending order");
            }
            let is_full = match from.number("whether a counter was full")? {
                full @ 0..=1 => full == 1,
                _ => return from.wrong("whether a counter was full", "0 or 1"),
            };
            fragment.parts.push(Part::new(coverage, is_full, counters(&mut from, number)?));
        }
        from.end().map(|()| fragment)
    }
}

fn counters(from: &mut Reader<'_>, width: usize) -> Result<Box<[i32]>, DecodeError> {
    let mut counters = Vec::with_capacity(width);
    let mut was_zero = false;
    while counters.len() < width {
        match from.u32("a counter")? {
            0 => {
                let more = from.number("zeros")?;
                let room = (width - counters.len() - 1) as u64;
                if more > room || was_zero {
                    return from.wrong("zeros", "all in a row together, as many as the switch has counters");
                }
                counters.resize(counters.len() + 1 + more as usize, 0);
                was_zero = true;
            }
            zigzag => {
                counters.push(unzigzag(zigzag));
                was_zero = false;
            }
        }
    }
    Ok(counters.into())
}

fn zigzag(counter: i32) -> u32 {
    (counter << 1 ^ counter >> 31) as u32
}

pub(super) fn unzigzag(zigzag: u32) -> i32 {
    (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32)
}

/// The length in bytes that no record of a switch exceeds.
pub(super) fn longest(config: &Config) -> usize {
    let part = config.counters().saturating_mul(MAX_U32).saturating_add(4 * MAX_U64);
    part.saturating_mul(config.max_sub_epochs as usize).saturating_add(1 + MAX_U64)
}

impl Record for Fragment {
    const PROGRAM: &'static str = DiSketch::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.shape != other.shape {
            return Err(MergeError::Shape { program: Self::PROGRAM, what: "parameters or hash functions" });
        }
        other.parts.iter().for_each(|part| self.add(part.clone()));
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        self.marked().0
    }

    fn is_hashed_with(&self, family: &HashFamily) -> bool {
        self.shape.hashes.are_of(family)
    }
}
