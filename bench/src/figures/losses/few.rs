//! Not in the paper: the memory that the switch's own sketch needs for few and for many flows, with
//! a small array more, and what its way from hash to bucket costs.

use weir::pisa::hash::HighRange;
use weir::program::chamelemon::decoder::{Fermat as WeirFermat, Verify};
use weir::program::chamelemon::{Parts, Shape};
use weir::trace::SplitMix64;

use crate::baseline::losses::Fermat;
use crate::figures::plot::{Axis, Curve, Figure, Panel, Point, Source};

use super::search;
use super::sketch::{client_id, hashes, random_id, weir_sketch};

const FLOWS: [usize; 5] = [100, 300, 1000, 3000, 10_000];

/// A small array of 2^−`small` of the others' length (0 is none), and the share of the flows whose
/// IDs are known from elsewhere.
#[derive(Clone, Copy)]
struct Variant {
    small: u32,
    known: f64,
}

impl Variant {
    fn all() -> impl Iterator<Item = Self> {
        let known = [0.0, 0.5, 1.0].map(|known| Self { small: 0, known });
        known.into_iter().chain([1, 2, 3, 4, 5, 6, 8].map(|small| Self { small, known: 0.0 }))
    }

    fn name(self) -> String {
        match self {
            Self { small: 0, known } if known > 0.0 => format!("{:.0} % of the IDs known", 100.0 * known),
            Self { small: 0, .. } => "three arrays".into(),
            Self { small, .. } => format!("small = {small}"),
        }
    }

    /// Buckets of the whole sketch.
    fn buckets(self, width: usize) -> usize {
        3 * width + if self.small > 0 { (width >> self.small).max(1) } else { 0 }
    }

    fn decodes(self, flows: usize, width: usize, trial: u64) -> bool {
        let mut sketch = weir_sketch(width, self.small, trial);
        let mut rng = SplitMix64::new(trial ^ 0x66_6577);
        let ids: Vec<_> = (0..flows).map(|_| random_id(&mut rng)).collect();
        ids.iter().for_each(|&id| sketch.insert(id, 1 + rng.below(64) as i64));
        let known = ids.into_iter().take((self.known * flows as f64) as usize);
        sketch.decode_knowing(Verify::Fingerprint, known).complete
    }
}

pub fn small(trials: u32, progress: impl Fn(&str)) -> Figure {
    let point = |flows: usize, variant: Variant| {
        let trials = search::trials(trials, flows);
        let least = search::min(flows, trials, |width, trial| variant.decodes(flows, width, trial));
        let [y, min] = [least.width, least.too_short].map(|width| variant.buckets(width) as f64 / flows as f64);
        let name = variant.name();
        progress(&format!("{flows:6} flows, {name}: {y:.3} buckets a flow, {} of {trials} failed", least.failures));
        Point { x: flows as f64, y, min, max: y, trials: trials as usize }
    };
    let curve = |(color, variant): (usize, Variant)| Curve {
        name: variant.name(),
        color,
        source: Source::Weir,
        points: FLOWS.map(|flows| point(flows, variant)).into(),
    };
    Figure {
        name: "chamelemon_small",
        title: "FermatSketch: buckets a flow for 99.9 %, with one more array of 2^-small of the length".into(),
        note: "Bar: the next smaller sketch that was tried.".into(),
        x: Axis::new("flows", "flows").range(80.0, 12_000.0).log(),
        y: Axis::new("buckets a flow", "buckets_per_flow"),
        panels: vec![Panel {
            title: String::new(),
            order: "uniform",
            zoom: None,
            curves: Variant::all().enumerate().map(curve).collect(),
        }],
    }
}

/// Success of 10 000 flows around the threshold: with hash functions as good as random ones, with
/// all bits of the index hash modulo the length, and with D.1's few bits of it, of which the first
/// buckets get more.
pub fn hashing(trials: u32, progress: impl Fn(&str)) -> Figure {
    const FLOWS: usize = 10_000;
    let width = |buckets: f64| (buckets * FLOWS as f64 / 3.0).round() as usize;
    let curve = |color: usize, name: &str, decodes: &(dyn Fn(usize, u64) -> bool + Sync)| {
        let point = |buckets: f64| {
            // Where many fail a few trials tell.
            let trials = if buckets < 1.245 { trials.div_ceil(5) } else { trials };
            let failed = search::failures(trials, trials, |trial| decodes(width(buckets), trial));
            let y = 100.0 * f64::from(trials - failed) / f64::from(trials);
            progress(&format!("{name}, {buckets} buckets a flow: {failed} of {trials} failed"));
            Point { x: buckets, y, min: y, max: y, trials: trials as usize }
        };
        let points = [1.23, 1.24, 1.25, 1.2525].map(point).into();
        Curve { name: name.into(), color, source: Source::Weir, points }
    };
    let filled = |mut sketch: WeirFermat, trial: u64, verify| {
        let mut rng = SplitMix64::new(trial);
        (0..FLOWS).for_each(|_| sketch.insert(random_id(&mut rng), 1 + rng.below(64) as i64));
        sketch.decode(verify).complete
    };
    let of_clients = |width: usize, trial: u64| {
        let mut sketch = weir_sketch(width, 0, trial);
        let mut rng = SplitMix64::new(trial);
        (0..FLOWS).for_each(|flow| sketch.insert(client_id(trial, flow), 1 + rng.below(64) as i64));
        sketch.decode(Verify::Fingerprint).complete
    };
    let whole = |width: usize, trial| {
        let shape = Shape { arrays: 3, small: 0, upstream: 0, downstream: 0, parts: Parts::Any };
        let mut part = shape.sketch(width as u32);
        part.iter_mut().for_each(|row| {
            row.range = HighRange::new(row.range.slots().try_into().expect("a row has buckets"), u32::BITS)
        });
        WeirFermat::new(hashes(trial), part)
    };
    let curves = vec![
        curve(3, "the switch", &|width, trial| filled(weir_sketch(width, 0, trial), trial, Verify::Fingerprint)),
        curve(1, "all bits modulo the length", &|width, trial| filled(whole(width, trial), trial, Verify::Fingerprint)),
        curve(0, "random functions, IDs of 32 bits", &ideal),
        curve(2, "the switch without fingerprint", &|width, trial| {
            filled(weir_sketch(width, 0, trial), trial, Verify::Rehash)
        }),
        curve(4, "the switch, clients' keys", &of_clients),
    ];
    Figure {
        name: "chamelemon_hashing",
        title: "FermatSketch, 10 000 flows: what hash functions cost".into(),
        note: "One decoding in 1500 fails because two flows share all three buckets.".into(),
        x: Axis::new("buckets a flow", "buckets_per_flow").range(1.21, 1.265),
        y: Axis::new("decodings that succeed (%)", "success_percent").range(0.0, 101.0),
        panels: vec![Panel { title: String::new(), order: "uniform", zoom: None, curves }],
    }
}

fn ideal(width: usize, trial: u64) -> bool {
    let mut sketch = Fermat::new(width, crate::heavy::mix(trial));
    let mut rng = SplitMix64::new(trial);
    (0..10_000).for_each(|_| sketch.insert(rng.next_u64() as u32, 1 + rng.below(64) as i64));
    sketch.decode().1
}
