//! Not in the paper: the memory that the switch's own sketch needs for few and for many flows, with a small array more, and what its way
//! from hash to bucket costs.

use weir::program::chamelemon::Shape;
use weir::program::chamelemon::collector::{Fermat as WeirFermat, Verify};
use weir::trace::SplitMix64;

use crate::baseline::losses::{Fermat, FermatFingerprint, FermatSketch};
use crate::figures::plot::{Axis, Curve, Figure, Legend, Panel, Point, Source};

use super::search;
use super::sketch::{hashes, random_id, weir_sketch};

const FLOWS: [usize; 5] = [100, 300, 1000, 3000, 10_000];
const SMALL: std::ops::RangeInclusive<u32> = 0..=8;

/// Buckets of a sketch with three arrays of `width` and a small one.
fn buckets(width: usize, small: u32) -> usize {
    3 * width + if small > 0 { (width >> small).max(1) } else { 0 }
}

pub fn small(trials: u32, progress: impl Fn(&str)) -> Figure {
    let point = |flows: usize, small: u32| {
        let trials = search::trials(trials, flows);
        let least = search::least(flows, trials, |width, trial| {
            let mut sketch = weir_sketch(width, small, trial);
            let mut rng = SplitMix64::new(trial ^ 0x66_6577);
            (0..flows).for_each(|_| sketch.insert(random_id(&mut rng), 1 + rng.below(64) as i64));
            sketch.decode(Verify::Fingerprint).complete
        });
        let [y, min] = [least.width, least.too_short].map(|width| buckets(width, small) as f64 / flows as f64);
        progress(&format!(
            "{flows:6} flows, small = {small}: {y:.3} buckets a flow, {} of {trials} failed",
            least.failures
        ));
        Point { x: flows as f64, y, min, max: y, trials: trials as usize }
    };
    let curve = |small: u32| Curve {
        name: if small == 0 { "three arrays".into() } else { format!("small = {small}") },
        color: small as usize,
        source: Source::Weir,
        points: FLOWS.map(|flows| point(flows, small)).into(),
    };
    Figure {
        name: "chamelemon_small",
        title: "FermatSketch: buckets a flow for 99.9 %, with one more array of 2^-small of the length".into(),
        note: "Bar: the next smaller sketch that was tried.".into(),
        x: Axis { label: "flows", column: "flows", from: 80.0, to: 12_000.0, log: true },
        y: Axis { label: "buckets a flow", column: "buckets_per_flow", from: 1.0, to: 6.5, log: false },
        legend: Legend::UpperRight,
        panels: vec![Panel { title: String::new(), order: "uniform", curves: SMALL.map(curve).collect() }],
    }
}

/// Success of 10 000 flows around the threshold: with hash functions as good as random ones, with CRC modulo the length, and with D.1's
/// few bits of CRC modulo the length, of which the first buckets get more.
pub fn hashing(trials: u32, progress: impl Fn(&str)) -> Figure {
    const FLOWS: usize = 10_000;
    let width = |buckets: f64| (buckets * FLOWS as f64 / 3.0).round() as usize;
    let curve = |color: usize, name: &str, decodes: &(dyn Fn(usize, u64) -> bool + Sync)| {
        let point = |buckets: f64| {
            let failed = search::failures(trials, trials, |trial| decodes(width(buckets), trial));
            let y = 100.0 * f64::from(trials - failed) / f64::from(trials);
            progress(&format!("{name}, {buckets} buckets a flow: {failed} of {trials} failed"));
            Point { x: buckets, y, min: y, max: y, trials: trials as usize }
        };
        let points = [1.22, 1.23, 1.24, 1.245, 1.25, 1.2525, 1.26].map(point).into();
        Curve { name: name.into(), color, source: Source::Weir, points }
    };
    let filled = |mut sketch: WeirFermat, trial: u64, verify| {
        let mut rng = SplitMix64::new(trial);
        (0..FLOWS).for_each(|_| sketch.insert(random_id(&mut rng), 1 + rng.below(64) as i64));
        sketch.decode(verify).complete
    };
    let whole = |width: usize, trial| {
        let shape = Shape { arrays: 3, small: 0, upstream: 0, downstream: 0 };
        let mut part = shape.sketch(width as u32);
        part.iter_mut().for_each(|row| row.mask = u32::MAX);
        WeirFermat::new(hashes(trial), part)
    };
    let curves = vec![
        curve(0, "random functions, no fingerprint", &ideal::<32, 5>),
        curve(1, "random functions, 8-bit fingerprint", &ideal::<40, 87>),
        curve(2, "CRC modulo the length", &|width, trial| filled(whole(width, trial), trial, Verify::Fingerprint)),
        curve(3, "the switch", &|width, trial| filled(weir_sketch(width, 0, trial), trial, Verify::Fingerprint)),
        curve(3, "the switch without fingerprint", &|width, trial| {
            filled(weir_sketch(width, 0, trial), trial, Verify::Rehash)
        }),
    ];
    Figure {
        name: "chamelemon_hashing",
        title: "FermatSketch, 10 000 flows: what hash functions cost".into(),
        note: format!("{trials} trials a point. One in 1500 fails because two flows share all three buckets."),
        x: Axis { label: "buckets a flow", column: "buckets_per_flow", from: 1.21, to: 1.265, log: false },
        y: Axis { label: "decodings that succeed (%)", column: "success_percent", from: 0.0, to: 101.0, log: false },
        legend: Legend::LowerRight,
        panels: vec![Panel { title: String::new(), order: "uniform", curves }],
    }
}

fn ideal<const K: u32, const C: u64>(width: usize, trial: u64) -> bool {
    let mut sketch = FermatSketch::<K, C>::new(width, crate::heavy::mix(trial));
    let mut rng = SplitMix64::new(trial);
    (0..10_000).for_each(|_| sketch.insert(rng.next_u64() as u32, 1 + rng.below(64) as i64));
    sketch.decode().1
}

const _: () = assert!(Fermat::PRIME < FermatFingerprint::PRIME);
