//! Not in the paper: how often decoding names a flow that is not there, with sketches from half
//! full to far too full.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};

use weir::program::chamelemon::decoder::Verify;
use weir::trace::SplitMix64;

use crate::figures::plot::{Axis, Curve, Figure, Panel, Point, Source};
use crate::heavy::FoldHasher;

use super::search;
use super::sketch::{random_id, weir_sketch};

/// Flows a bucket. Peeling ends at 0.81.
const LOADS: [f64; 5] = [0.7, 1.0, 1.5, 2.5, 4.0];
/// Lengths of an array.
const WIDTHS: [usize; 2] = [16, 256];
/// Decodings with fingerprints for each of `trials`.
const MORE: u64 = 64;

/// What a number of decodings named wrongly.
#[derive(Default)]
struct Wrong {
    named: AtomicU64,
    /// By a decoding that calls itself complete.
    sure: AtomicU64,
}

fn wrong(width: usize, load: f64, verify: Verify, decodings: u32) -> Wrong {
    let wrong = Wrong::default();
    let flows = (3.0 * width as f64 * load) as usize;
    search::failures(decodings, u32::MAX, |trial| {
        let mut rng = SplitMix64::new(trial ^ (width as u64) << 40);
        let mut sketch = weir_sketch(width, 0, trial);
        let truth: HashMap<_, _, BuildHasherDefault<FoldHasher>> =
            (0..flows).map(|_| (random_id(&mut rng), 1 + rng.below(9) as i64)).collect();
        truth.iter().for_each(|(&id, &packets)| sketch.insert(id, packets));
        let decoded = sketch.decode(verify);
        let false_flows = decoded.flows.iter().filter(|(id, packets)| truth.get(id) != Some(packets)).count() as u64;
        wrong.named.fetch_add(false_flows, Ordering::Relaxed);
        wrong.sure.fetch_add(if decoded.complete { false_flows } else { 0 }, Ordering::Relaxed);
        true
    });
    wrong
}

pub fn figure(trials: u32, progress: impl Fn(&str)) -> (Figure, String) {
    let mut text = String::from("buckets,decodings,verified_by,false_flows,false_flows_in_complete_decodings\n");
    let mut curves = Vec::new();
    let (mut decodings, mut found, mut sure) = (0, 0, 0);
    for (color, width) in WIDTHS.into_iter().enumerate() {
        let mut rates = Vec::new();
        for load in LOADS {
            let rehash = (trials as usize * WIDTHS[0] / width).max(100) as u32;
            let fingerprint = (u64::from(rehash) * MORE) as u32;
            let (without, with) =
                (wrong(width, load, Verify::Rehash, rehash), wrong(width, load, Verify::Fingerprint, fingerprint));
            for (verify, n, wrong) in [("rehash", rehash, &without), ("fingerprint", fingerprint, &with)] {
                let [named, sure] = [&wrong.named, &wrong.sure].map(|n| n.load(Ordering::Relaxed));
                text += &format!("{},{n},{verify},{named},{sure}\n", 3 * width);
            }
            decodings += u64::from(fingerprint);
            found += with.named.load(Ordering::Relaxed);
            sure += without.sure.load(Ordering::Relaxed) + with.sure.load(Ordering::Relaxed);
            rates.push((load, without.named.load(Ordering::Relaxed) as f64 / f64::from(rehash), rehash));
        }
        let curve = |name: String, color, factor: f64| {
            let points = rates.iter().filter(|(_, rate, _)| *rate > 0.0).map(|&(x, rate, trials)| {
                let y = rate * factor;
                Point { x, y, min: y, max: y, trials: trials as usize }
            });
            Curve { name, color, source: Source::Weir, points: points.collect() }
        };
        curves.push(curve(format!("3 × {width} buckets, rehash alone"), color, 1.0));
        curves.push(curve(format!("3 × {width} buckets, the same / 2^20"), color + 2, (-20f64).exp2()));
    }
    // Zero of n say that the rate is below 3 / n, with 95 % confidence; this is above the exact
    // bound for more.
    let bound = (found as f64 + 2.0 * (found as f64).sqrt() + 3.0) / decodings as f64;
    progress(&format!(
        "false flows with fingerprints: {found} in {decodings} decodings (95 %: below 2^{:.1} a decoding); presented as sure, with or without: {sure}",
        bound.log2()
    ));
    let figure = Figure {
        name: "chamelemon_false_flows",
        title: "FermatSketch of the switch: flows named that are not there".into(),
        note: format!(
            "With fingerprints {found} were found in {decodings} decodings: below {bound:.1e} each with 95 % confidence (2^-20 is 9.5e-7)."
        ),
        x: Axis::new("flows a bucket", "flows_per_bucket").range(0.4, 4.2),
        y: Axis::new("false flows a decoding", "false_flows").log(),
        panels: vec![Panel { title: String::new(), order: "uniform", zoom: None, curves }],
    };
    (figure, text)
}
