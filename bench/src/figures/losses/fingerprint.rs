//! Figure 10: what a fingerprint of 8 bits does for decoding, with as many buckets a flow, and with
//! as much memory.

use crate::baseline::losses::{Fermat, FermatFingerprint, FermatSketch};
use crate::figures::plot::{Axis, Curve, Figure, Panel, Point, Source};

use super::{reference, search};

const FLOWS: [usize; 2] = [1000, 10_000];

/// Buckets a flow, for few and for many flows.
const AROUND_THRESHOLD: [[f64; 11]; 2] = [
    [1.2, 1.22, 1.24, 1.26, 1.28, 1.3, 1.33, 1.36, 1.4, 1.5, 1.6],
    [1.2, 1.21, 1.215, 1.22, 1.225, 1.23, 1.235, 1.24, 1.25, 1.27, 1.3],
];

/// Decodings that succeed, in percent.
struct Success {
    buckets_per_flow: f64,
    bytes_per_flow: f64,
    percent: f64,
    trials: u32,
}

fn success<const K: u32, const C: u64>(flows: usize, trials: u32) -> Vec<Success> {
    let steps = if flows > 5000 { AROUND_THRESHOLD[1] } else { AROUND_THRESHOLD[0] };
    let point = |buckets: f64| {
        let width = (buckets * flows as f64 / 3.0).round() as usize;
        let buckets_per_flow = (3 * width) as f64 / flows as f64;
        let failed = search::failures(trials, trials, |trial| {
            let mut sketch = FermatSketch::<K, C>::new(width, crate::heavy::mix(trial));
            // The first flows of a trace have sizes of all kinds; here 1 to 64 packets.
            (0..flows as u32).for_each(|flow| sketch.insert(flow.wrapping_mul(0x9e37_79b1), 1 + i64::from(flow % 64)));
            sketch.decode().1
        });
        Success {
            buckets_per_flow,
            bytes_per_flow: buckets_per_flow * FermatSketch::<K, C>::BUCKET_BYTES,
            percent: 100.0 * f64::from(trials - failed) / f64::from(trials),
            trials,
        }
    };
    steps.map(point).into()
}

/// Both figures, and lines that compare them with the paper.
pub fn figures(trials: u32, progress: impl Fn(&str)) -> (Vec<Figure>, String) {
    let mut text = String::from("figure,flows,most_percent_gained_by_fingerprint,paper\n");
    let mut measured = Vec::new();
    for (flows, paper) in FLOWS.into_iter().zip([6.73, 2.26]) {
        let trials = search::trials(trials, flows);
        let plain = success::<32, 5>(flows, trials);
        let print = success::<40, 87>(flows, trials);
        let gained = plain.iter().zip(&print).map(|(plain, print)| print.percent - plain.percent).fold(0.0, f64::max);
        progress(&format!(
            "figure 10, {flows} flows, {trials} trials a point: a fingerprint gains {gained:.2} points at most"
        ));
        text += &format!("10,{flows},{gained:.2},{paper}\n");
        measured.extend([(flows, false, plain), (flows, true, print)]);
    }
    let by_buckets = draw(
        "chamelemon_fig10a",
        "ChameleMon, Figure 10(a): 8-bit fingerprints, with as many buckets",
        Axis::new("buckets a flow", "buckets_per_flow").range(1.19, 1.61),
        &measured,
        |s| s.buckets_per_flow,
        1.0,
    );
    let by_memory = draw(
        "chamelemon_fig10b",
        "ChameleMon, Figure 10(b): 8-bit fingerprints, with as much memory",
        Axis::new("memory a flow (bytes)", "bytes_per_flow").range(9.5, 14.5),
        &measured,
        |s| s.bytes_per_flow,
        Fermat::BUCKET_BYTES,
    );
    (vec![by_buckets, by_memory], text)
}

/// `bytes` turns the reference's buckets a flow into the axis' unit.
fn draw(
    name: &'static str,
    title: &str,
    x: Axis,
    measured: &[(usize, bool, Vec<Success>)],
    at: fn(&Success) -> f64,
    bytes: f64,
) -> Figure {
    let mut curves = Vec::new();
    for (color, (flows, print, points)) in measured.iter().enumerate() {
        let name = format!("{} k flows{}", flows / 1000, if *print { " with fingerprint" } else { "" });
        let ours = points.iter().map(|s| Point {
            x: at(s),
            y: s.percent,
            min: s.percent,
            max: s.percent,
            trials: s.trials as usize,
        });
        curves.push(Curve { name: name.clone(), color, source: Source::Weir, points: ours.collect() });
        // Their class has fingerprints of 32 bits, which is another memory.
        let known = if *print { Vec::new() } else { reference::success(*flows, false) };
        let theirs = known.into_iter().map(|(buckets, success)| (buckets * bytes, 100.0 * success));
        let theirs = theirs.filter(|&(at, _)| x.range.is_none_or(|(_, to)| at < to)).map(|(x, y)| Point {
            x,
            y,
            min: y,
            max: y,
            trials: 0,
        });
        let theirs: Vec<_> = theirs.collect();
        if !theirs.is_empty() {
            curves.push(Curve { name, color, source: Source::Authors, points: theirs });
        }
    }
    Figure {
        name,
        title: title.into(),
        note: format!(
            "IDs of 32 bits: {} bytes a bucket, {} with fingerprint. Hollow: the authors' program, measured by us.",
            Fermat::BUCKET_BYTES,
            FermatFingerprint::BUCKET_BYTES
        ),
        x,
        y: Axis::new("decodings that succeed (%)", "success_percent").range(0.0, 101.0),
        panels: vec![Panel { title: String::new(), order: "uniform", zoom: None, curves }],
    }
}
