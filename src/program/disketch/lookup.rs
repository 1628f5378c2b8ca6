//! Single counters of a record in its byte form, without reading the others.

use std::cell::OnceCell;

use super::composite::{Noise, Sample};
use super::hashes::KeyCrcs;
use super::histogram::Histogram;
use super::path::PathPlace;
use super::record::{Fragment, Mark, Part, STEP, Shape, covers, unzigzag};
use crate::program::Coverage;
use crate::program::bytes::Reader;

/// Where the counters of a record are in its byte form, and how they are distributed.
#[derive(Debug)]
pub struct Lookup {
    /// [`Fragment::cuts`].
    cuts: Option<u32>,
    pub is_full: bool,
    parts: Box<[PartLookup]>,
}

#[derive(Debug)]
struct PartLookup {
    coverage: Coverage,
    /// Of each [`STEP`]th counter.
    marks: Box<[Mark]>,
    levels: Box<[Histogram]>,
}

/// What queries have worked out of a record so far: the noise of each part and level.
#[derive(Default)]
pub struct Noises(OnceCell<Box<[OnceCell<Noise>]>>);

impl Lookup {
    /// With the marks of each part's counters.
    pub fn new(fragment: &Fragment, marks: Vec<Box<[Mark]>>) -> Self {
        let width = fragment.shape.config.width().get() as usize;
        let part = |(part, marks): (&Part, Box<[Mark]>)| PartLookup {
            coverage: part.coverage,
            marks,
            levels: part.counters.chunks(width).map(Histogram::of).collect(),
        };
        Self {
            cuts: fragment.cuts(),
            is_full: fragment.is_full(),
            parts: fragment.parts.iter().zip(marks).map(part).collect(),
        }
    }

    /// Memory on the heap, in bytes.
    pub fn bytes(&self) -> usize {
        let of_part = |part: &PartLookup| {
            let histograms: usize = part.levels.iter().map(|of| size_of::<Histogram>() + of.bytes()).sum();
            size_of::<PartLookup>() + size_of_val(&*part.marks) + histograms
        };
        self.parts.iter().map(of_part).sum()
    }

    /// Adds the counters of a flow, as [`Fragment::samples`]. `bytes` is the byte form of the record.
    pub fn samples<'a>(
        &self,
        (shape, bytes): (&Shape, &[u8]),
        noises: &'a Noises,
        (key, epoch, at): (KeyCrcs, u64, PathPlace),
        to: &mut Vec<Sample<'a>>,
    ) {
        let Some(cuts) = self.cuts else { return };
        let wanted = shape.wanted(cuts, key, epoch, at);
        let sketch = shape.config.sketch;
        let levels = sketch.levels() as usize;
        for sub_epoch in wanted.sub_epochs() {
            let covering = self.parts.iter().position(|part| covers(part.coverage, cuts, sub_epoch));
            let Some((number, part)) = covering.and_then(|number| Some((number, self.parts.get(number)?))) else {
                continue;
            };
            let place = wanted.level * shape.config.width().get() as usize + wanted.slot;
            let Some(counter) = part.marks.get(place / STEP).and_then(|mark| mark.counter(bytes, place % STEP)) else {
                continue;
            };
            let Some(histogram) = part.levels.get(wanted.level) else { continue };
            let fresh = || (0..self.parts.len() * levels).map(|_| OnceCell::new()).collect();
            let Some(noise) = noises.0.get_or_init(fresh).get(number * levels + wanted.level) else { continue };
            let noise = noise.get_or_init(|| Noise::new(sketch, histogram));
            to.push(wanted.sample(sub_epoch, counter, noise));
        }
    }
}

impl Mark {
    /// The counter that is this many behind the marked one.
    fn counter(self, bytes: &[u8], behind: usize) -> Option<i32> {
        let mut from = Reader::new(bytes.get(self.at as usize..)?);
        let mut before = behind as u64 + u64::from(self.before);
        loop {
            match from.u32("a counter").ok()? {
                0 => {
                    let zeros = from.number("zeros").ok()?.checked_add(1)?;
                    match before.checked_sub(zeros) {
                        Some(rest) => before = rest,
                        None => return Some(0),
                    }
                }
                zigzag if before == 0 => return Some(unzigzag(zigzag)),
                _ => before -= 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Config, DiSketch, Memory, SketchKind};
    use super::*;
    use crate::pisa::hash::HashFamily;
    use crate::program::{Record, SubEpoch};
    use crate::wire::Flow;

    fn fragment(config: &Config, cuts: u32, counters: impl Fn(usize, usize) -> i32) -> Fragment {
        let mut fragment = Fragment::new(DiSketch::shape(config, "a", &HashFamily::reproducible(1)));
        for index in 0..1 << cuts {
            let mut coverage = Coverage::default();
            coverage.enter(SubEpoch { index, of: 1 << cuts }, true);
            let counters = (0..config.counters()).map(|at| counters(index as usize, at)).collect();
            fragment.parts.push(Part::new(coverage, false, counters));
        }
        fragment
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        /// A counter is found by its mark, whatever stands before it, and bytes that end early have none.
        #[test]
        fn counters_are_found_by_their_marks(
            runs in prop::collection::vec((1..400usize, prop_oneof![Just(0), any::<i32>()]), 1..12),
        ) {
            let counters: Vec<i32> =
                runs.iter().flat_map(|(length, value)| std::iter::repeat_n(*value, *length)).collect();
            let config = Config { memory: Memory(4 * counters.len() as u64), ..Config::default() };
            let fragment = fragment(&config, 0, |_, at| counters[at]);
            let (bytes, marks) = fragment.marked();
            prop_assert_eq!(&bytes, &fragment.encode());
            prop_assert_eq!(marks[0].len(), counters.len().div_ceil(STEP));
            for (at, right) in counters.iter().enumerate() {
                let mark = marks[0][at / STEP];
                prop_assert_eq!(mark.counter(&bytes, at % STEP), Some(*right));
                prop_assert_eq!(mark.counter(&bytes[..mark.at as usize], at % STEP), None);
            }
        }
    }

    /// What is read of a kept record is what the record says, in each sub-epoch and level.
    #[test]
    fn samples_are_those_of_the_record() {
        for sketch in [SketchKind::Count, SketchKind::CountMin, SketchKind::UnivMon] {
            for (cuts, single_hop) in [(0, false), (3, false), (2, true)] {
                let config = Config { memory: Memory(40_000), sketch, single_hop, ..Config::default() };
                let fragment = fragment(&config, cuts, |part, at| {
                    if (at / 50).is_multiple_of(3) { 0 } else { (at * 7 + part) as i32 % 3000 }
                });
                let (bytes, marks) = fragment.marked();
                let (lookup, noises) = (Lookup::new(&fragment, marks), Noises::default());
                for sport in 0..200 {
                    let key = fragment.shape.hashes.of_flow(&Flow::from_port(sport)).unwrap();
                    let (mut read, mut right) = (Vec::new(), Vec::new());
                    let wanted = (key, u64::from(sport), PathPlace::ALONE);
                    lookup.samples((&fragment.shape, &bytes), &noises, wanted, &mut read);
                    fragment.samples(key, u64::from(sport), PathPlace::ALONE, &mut right);
                    let all = |samples: &[Sample<'_>]| format!("{samples:?}");
                    assert_eq!(all(&read), all(&right));
                    assert_eq!(read.len(), if single_hop { 2 } else { 1 });
                }
            }
        }
    }
}
