use super::estimate::{distribution, linear_counting, untangle};
use super::*;
use crate::pisa::hash::HashFamily;
use crate::program::chamelemon::Parts;
use crate::trace::{SplitMix64, Workload};
use crate::wire::Tuple4;
use proptest::prelude::*;

mod keys;

const SHAPE: Shape = Shape { arrays: 3, small: 0, upstream: 4096, downstream: 3072, parts: Parts::Any };

fn hashes(seed: u64, rows: u32) -> Arc<Hashes> {
    Arc::new(Hashes::new(&HashFamily::reproducible(seed), 2, rows as usize))
}

fn random_id(rng: &mut SplitMix64) -> FlowId {
    FlowId::of_v4(Tuple4((u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) >> 24))
}

fn sketch(seed: u64, shape: Shape, buckets: u32) -> Fermat {
    Fermat::new(hashes(seed, shape.rows()), shape.sketch(buckets))
}

/// Ten thousand flows at 1.25 buckets a flow.
#[test]
fn ten_thousand_flows_decode() {
    let mut rng = SplitMix64::new(1);
    for seed in 0..5 {
        let mut sketch = sketch(seed, SHAPE, 4167);
        let flows: std::collections::HashMap<_, _> =
            (0..10_000).map(|_| (random_id(&mut rng), 1 + rng.below(5000) as i64)).collect();
        flows.iter().for_each(|(&id, &packets)| sketch.insert(id, packets));
        let decoded = sketch.decode(Verify::Fingerprint);
        assert!(decoded.complete);
        assert_eq!(decoded.flows.len(), flows.len());
        assert!(decoded.flows.iter().all(|(id, packets)| flows[id] == *packets));
    }
}

proptest! {
    /// What is taken off and what is left over decode alike, and addition undoes subtraction.
    #[test]
    fn losses_decode_exactly_or_say_that_they_do_not(
        seed in 0u64..50,
        flows in proptest::collection::vec((any::<u64>(), 1i64..3000, 0i64..3000), 0..120),
        buckets in 8u32..100,
        small in 0u32..4,
        fingerprint: bool,
    ) {
        let mut up = sketch(seed, Shape { small, ..SHAPE }, buckets);
        let mut down = up.clone();
        let mut lost = std::collections::BTreeMap::<_, i64>::new();
        for (flow, entered, left) in flows {
            let id = random_id(&mut SplitMix64::new(flow));
            up.insert(id, entered);
            down.insert(id, left);
            *lost.entry(id).or_default() += entered - left;
        }
        lost.retain(|_, packets| *packets != 0);
        let whole = up.clone();
        up.subtract(&down).unwrap();
        let mut again = up.clone();
        again.add(&down).unwrap();
        prop_assert_eq!(&again, &whole);
        let verify = if fingerprint { Verify::Fingerprint } else { Verify::Rehash };
        let decoded = up.decode(verify);
        prop_assert_eq!(decoded.complete, decoded.buckets_left == 0);
        if decoded.complete {
            prop_assert_eq!(decoded.flows.into_iter().collect::<std::collections::BTreeMap<_, _>>(), lost);
        } else if fingerprint {
            prop_assert!(decoded.flows.keys().all(|id| lost.contains_key(id)), "a wrong flow passed 20 bits and a rehash");
        }
    }
}

/// Sketches so full that most decodings fail: of the flows that they name, with fingerprints none
/// is wrong, without them some are.
#[test]
fn false_flows() {
    let (mut rng, mut wrong, mut named) = (SplitMix64::new(7), [0, 0], 0);
    for round in 0..2000 {
        let mut sketch = sketch(round % 8, SHAPE, 32);
        let flows: std::collections::HashMap<_, _> =
            (0..60 + rng.below(40)).map(|_| (random_id(&mut rng), 1 + rng.below(9) as i64)).collect();
        flows.iter().for_each(|(&id, &packets)| sketch.insert(id, packets));
        for (wrong, verify) in wrong.iter_mut().zip([Verify::Rehash, Verify::Fingerprint]) {
            let decoded = sketch.clone().decode(verify);
            let false_flows = decoded.flows.iter().filter(|(id, packets)| flows.get(id) != Some(packets)).count();
            assert!(!decoded.complete || false_flows == 0, "a wrong flow presented as sure");
            *wrong += false_flows;
            named += decoded.flows.len();
        }
    }
    println!("false flows without and with fingerprints: {wrong:?}, of {named} named");
    assert!(wrong[0] > 50 && named > 5_000, "the test asks for nothing: {wrong:?} of {named}");
    assert_eq!(wrong[1], 0);
}

/// A count of 32 bits that went round is not taken for one that did not.
#[test]
fn counts_that_went_round_are_not_decoded() {
    let mut rng = SplitMix64::new(11);
    for round in 0..200 {
        let mut sketch = sketch(round, SHAPE, 32);
        let (large, small) = (random_id(&mut rng), random_id(&mut rng));
        sketch.insert(large, (1 << 32) + rng.below(1 << 31) as i64);
        sketch.insert(small, 7);
        sketch.buckets.iter_mut().for_each(|bucket| bucket.count &= 0xffff_ffff);
        let decoded = sketch.decode(Verify::Fingerprint);
        assert!(!decoded.complete && !decoded.flows.contains_key(&large), "{decoded:?}");
    }
}

/// Two flows that share all their buckets stop the peeling; a small fourth array tells most of them
/// apart (NOTES: 1 000 flows need 2.44 buckets a flow with three arrays).
#[test]
fn a_small_array_helps_few_flows() {
    let (mut rng, mut failed) = (SplitMix64::new(3), [0, 0]);
    // 1 000 flows in about 1 440 buckets either way: 3 × 480, or 3 × 470 and 29.
    for seed in 0..600 {
        let shapes = [(SHAPE, 480), (Shape { small: 4, ..SHAPE }, 470)];
        let ids: Vec<_> = (0..1000).map(|_| random_id(&mut rng)).collect();
        for (failed, (shape, buckets)) in failed.iter_mut().zip(shapes) {
            let mut sketch = sketch(seed % 16, shape, buckets);
            assert!(sketch.buckets.len() <= 1440);
            ids.iter().for_each(|&id| sketch.insert(id, 1));
            *failed += u32::from(!sketch.decode(Verify::Fingerprint).complete);
        }
    }
    assert!(failed[0] >= 1 && failed[1] == 0, "{failed:?}");
}

/// Pairs of flows with the same bucket in every row of a short sketch.
fn twins(sketch: &Fermat, rng: &mut SplitMix64, pairs: usize) -> Vec<[FlowId; 2]> {
    let mut seen = std::collections::HashMap::new();
    let mut found: Vec<[FlowId; 2]> = Vec::new();
    while found.len() < pairs {
        let id = random_id(rng);
        let places = sketch.places(&sketch.key(id));
        let apart = found.iter().all(|[other, _]| {
            sketch.places(&sketch.key(*other)).iter().zip(&places).take(sketch.rows.len()).all(|(a, b)| a != b)
        });
        match seen.insert(places, id) {
            Some(first) if apart => found.push([first, id]),
            _ => {}
        }
    }
    found
}

proptest! {
    /// Two flows that share all buckets are told apart when one is known, and are never taken for
    /// others.
    #[test]
    fn twins_are_split_when_one_is_known(
        seed in 0u64..1000,
        small in 0u32..3,
        packets in [1i64..300, 1..300, 1..300, 1..300],
        sign in proptest::sample::select(&[1i64, -1]),
        which: bool,
    ) {
        let mut rng = SplitMix64::new(seed);
        let mut sketch = sketch(seed % 20, Shape { small, ..SHAPE }, 24);
        let pairs = twins(&sketch, &mut rng, 2);
        let flows = pairs.concat().into_iter().zip(packets.map(|packets| sign * packets));
        let mut expected: std::collections::BTreeMap<_, _> = flows.collect();
        expected.iter().for_each(|(&id, &packets)| sketch.insert(id, packets));
        // Only so many counts are tried: known flows that share a pair's buckets use them up.
        let mut taken = pairs.iter().map(|pair| sketch.places(&sketch.key(pair[0])));
        let taken = [taken.next(), taken.next()];
        let mut bystanders: Vec<_> = (0..1000).map(|_| random_id(&mut rng)).collect();
        bystanders.retain(|id| !taken.contains(&Some(sketch.places(&sketch.key(*id)))));
        let without = sketch.clone().decode_knowing(Verify::Fingerprint, bystanders.clone());
        prop_assert!(!without.complete && without.flows.is_empty(), "{:?}", without);
        // One of each pair, among others; then one of the first pair alone.
        let known = bystanders.into_iter().chain(pairs.iter().map(|pair| pair[usize::from(which)]));
        let decoded = sketch.clone().decode_knowing(Verify::Fingerprint, known);
        prop_assert!(decoded.complete);
        prop_assert_eq!(decoded.flows.into_iter().collect::<std::collections::BTreeMap<_, _>>(), expected.clone());
        let half = sketch.decode_knowing(Verify::Fingerprint, [pairs[0][0]]);
        expected.retain(|id, _| pairs[0].contains(id));
        prop_assert!(!half.complete);
        prop_assert_eq!(half.flows.into_iter().collect::<std::collections::BTreeMap<_, _>>(), expected);
    }

    /// Whatever the order of insertion, addition and subtraction, the sketch is that of the sum.
    #[test]
    fn sums_commute_with_insertion(
        packets in proptest::collection::vec((0u64..40, -9i64..2000, 0usize..3), 0..200),
        small in 0u32..3,
    ) {
        let empty = sketch(3, Shape { small, ..SHAPE }, 16);
        let mut parts = [empty.clone(), empty.clone(), empty.clone()];
        let mut all = empty.clone();
        for (flow, packets, part) in packets {
            let id = random_id(&mut SplitMix64::new(flow));
            parts[part].insert(id, packets);
            all.insert(id, if part == 2 { -packets } else { packets });
        }
        let [mut sum, second, taken] = parts;
        let mut otherwise = second.clone();
        otherwise.subtract(&taken).unwrap();
        otherwise.add(&sum).unwrap();
        sum.add(&second).unwrap();
        sum.subtract(&taken).unwrap();
        prop_assert_eq!(&sum, &all);
        prop_assert_eq!(otherwise, all);
    }
}

/// A heavy-hitter candidate and another flow, both victims, share all their buckets: the
/// candidate's ID tells them apart.
#[test]
fn losses_of_twins_are_known_from_heavy_hitters() {
    let sketch = sketch(9, SHAPE, 24);
    let [heavy, light] = twins(&sketch, &mut SplitMix64::new(2), 1)[0];
    let partition = crate::program::chamelemon::Partition { hh: 24, hl: 24, ll: 0 };
    let parameters = EncoderParameters { partition, hh_threshold: 1, hl_threshold: 1, sample: 0, sample_seed: 0 };
    let (blank, none) = (sketch.clone(), Fermat::new(hashes(9, SHAPE.rows()), SHAPE.sketch(0)));
    let parts = [&blank, &blank, &none, &blank, &none, &blank, &none].map(Fermat::clone);
    let mut sketches = Sketches::new(parameters, SHAPE, Vec::new(), parts, hashes(9, SHAPE.rows()));
    sketches.hh.insert(heavy, 70);
    sketches.hl.insert(light, 9);
    sketches.downstream_parts[0].hl.insert(heavy, 50);
    sketches.downstream_parts[0].hl.insert(light, 6);
    let losses = Analysis::new(sketches).losses();
    let found: Vec<_> = losses.flows.iter().map(|loss| (loss.id, loss.lost)).collect();
    assert_eq!((losses.decoded, found), (true, vec![(heavy, 20), (light, 3)]));
}

#[test]
fn sketches_of_other_hash_functions_do_not_mix() {
    let mut one = sketch(1, SHAPE, 16);
    assert_eq!(one.add(&sketch(2, SHAPE, 16)), Err(Mismatch));
    assert_eq!(one.subtract(&sketch(1, SHAPE, 17)), Err(Mismatch));
    assert_eq!(one.add(&sketch(1, SHAPE, 16)), Ok(()));
}

#[test]
fn a_sketch_without_memory_takes_nothing() {
    let mut none = sketch(1, SHAPE, 0);
    none.insert(random_id(&mut SplitMix64::new(1)), 5);
    assert!(none.buckets.is_empty() && none.decode(Verify::Rehash).complete);
}

#[test]
fn full_sketches_are_counted_from_their_empty_buckets() {
    let mut rng = SplitMix64::new(5);
    let mut full = sketch(1, SHAPE, 1000);
    (0..3000).for_each(|_| full.insert(random_id(&mut rng), 2));
    let flows = full.estimated_flows().unwrap();
    assert!((2700.0..3300.0).contains(&flows), "{flows}");
    assert_eq!(linear_counting(8, 0), None);
    assert_eq!(linear_counting(8, 8), Some(0.0));
}

/// Flow sizes with a heavy tail on counters at random.
fn tower(flows: &[u64], widths: &[(u32, usize)], rng: &mut SplitMix64) -> Vec<Level> {
    let level = |&(bits, width): &(u32, usize)| {
        let mut level = Level::new(bits, vec![0; width]);
        for &flow in flows {
            let counter = &mut level.sizes[rng.below(width as u64) as usize];
            *counter = counter.saturating_add(flow as u32);
        }
        let max = level.max();
        level.sizes.iter_mut().filter(|size| **size >= max).for_each(|size| *size = INFINITE);
        level
    };
    widths.iter().map(level).collect()
}

#[test]
fn the_distribution_of_flow_sizes() {
    let mut rng = SplitMix64::new(11);
    let flows: Vec<u64> =
        (0..40_000).map(|_| (1.0 / (1.0 - rng.unit()).powf(0.9)) as u64).map(|n| n.min(60_000)).collect();
    let truth = Distribution::of_sizes(flows.iter().copied());
    let tower = tower(&flows, &[(8, 65_536), (16, 32_768)], &mut rng);
    let known: Vec<u64> = flows.iter().copied().filter(|&flow| flow >= 250).collect();
    let with = distribution(&tower, Some((250, &known))).unwrap();
    let without = distribution(&tower, None).unwrap();
    // Another draw gave 0.018 and 0.021, with entropies off by 0.0009 and 0.0011.
    assert!(
        with.error(&truth) < 0.03 && without.error(&truth) < 0.06,
        "{} {}",
        with.error(&truth),
        without.error(&truth)
    );
    let entropy = |d: &Distribution| (d.entropy_bits() - truth.entropy_bits()).abs() / truth.entropy_bits();
    assert!(entropy(&with) < 0.005 && entropy(&without) < 0.01, "{} {}", entropy(&with), entropy(&without));
    assert!((with.flows() - 40_000.0).abs() < 600.0, "{}", with.flows());
    assert!(with.rounded().0.len() < 1856 && (with.rounded().flows() - with.flows()).abs() < 1e-6);
}

/// Flows of one size alone, of few sizes, and arrays of very different load: the number of flows is
/// right, and two arrays are no worse than either.
#[test]
fn arrays_are_taken_together() {
    let mut rng = SplitMix64::new(5);
    let flows: Vec<u64> = (0..30_000).map(|_| 1 + rng.below(3) * rng.below(40)).collect();
    let truth = Distribution::of_sizes(flows.iter().copied());
    let (mut alone, mut together, mut off) = ([0.0; 2], 0.0, [0.0; 3]);
    for _ in 0..6 {
        let tower = tower(&flows, &[(8, 40_000), (16, 20_000)], &mut rng);
        let error = |levels: &[Level]| distribution(levels, None).unwrap().error(&truth);
        alone = [alone[0] + error(&tower[..1]), alone[1] + error(&tower[1..])];
        together += error(&tower);
        let miss = |levels: &[Level]| (super::estimate::flows(levels).unwrap() - 30_000.0).powi(2);
        off = [off[0] + miss(&tower[..1]), off[1] + miss(&tower[1..]), off[2] + miss(&tower)];
    }
    assert!(together < alone[0] && together < alone[1], "{together} {alone:?}");
    assert!(off[2] < off[1] && off[2] / 6.0 < 200.0f64.powi(2), "{off:?}");
    // 16 counters for 30 000 flows say nothing, and do no harm.
    let mut lopsided = tower(&flows, &[(8, 40_000), (16, 16)], &mut rng);
    let both = distribution(&lopsided, None).unwrap();
    lopsided.truncate(1);
    assert_eq!(distribution(&lopsided, None), Some(both));
}

#[test]
fn counters_that_tell_nothing() {
    assert_eq!(distribution(&[], None), None);
    assert_eq!(distribution(&[Level::new(8, vec![INFINITE; 9])], None), None);
    let empty = distribution(&[Level::new(8, vec![0; 9])], None).unwrap();
    assert!(empty.flows() < 1.0, "{empty:?}");
    assert_eq!(Distribution::default().entropy_bits(), 0.0);
    assert_eq!(Distribution::of_sizes([1, 1, 2, 4]).entropy_bits(), 1.75);
}

proptest! {
    /// What counters hold of flows that come at known rates, with up to 24 of them on one, is taken
    /// apart into those rates.
    #[test]
    fn contents_are_untangled(
        rates in proptest::collection::vec((1..40u32, 0.001..0.2f64), 1..12),
        step in 1..9u32,
    ) {
        const MOST: usize = 1024;
        let mut expected = vec![0.0; MOST];
        rates.iter().for_each(|&(size, rate)| expected[size as usize] += rate);
        let all: f64 = expected.iter().sum();
        // Poisson: e^−λ λⁿ / n! of the counters have n flows, and the sizes of n flows are
        // convolved.
        let (mut held, mut flows, mut share) = (vec![0.0; MOST], vec![0.0; MOST], (-all).exp());
        flows[0] = 1.0;
        for number in 1..=24 {
            let mut next = vec![0.0; MOST];
            for (one, rate) in expected.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
                (one..MOST).for_each(|sum| next[sum] += flows[sum - one] * rate / all);
            }
            flows = next;
            share *= all / f64::from(number);
            held.iter_mut().zip(&flows).for_each(|(held, flows)| *held += share * flows);
        }
        let size = |class: usize| class as u32 * step;
        let mut contents: Vec<_> = (1..MOST).map(|class| (size(class), held[class])).collect();
        untangle(&mut contents, u32::MAX, 1e-9);
        for (&(size, rate), expected) in contents.iter().zip(&expected[1..]).take(200) {
            prop_assert!((rate - expected).abs() < 1e-3 * expected + 1e-5, "{} {} {}", size, rate, expected);
        }
    }
}

/// A classifier of the default size that measured a trace, and the answer that each flow's last
/// packet got.
fn classified(trace: &Workload, rng: &mut SplitMix64) -> (Vec<Level>, Vec<u32>) {
    let widths = [32_768, 16_384];
    let places: Vec<_> = (0..trace.flows).map(|_| widths.map(|width| rng.below(width) as usize)).collect();
    let [mut first, mut second] = widths.map(|width| vec![0u32; width as usize]);
    let mut answers = vec![0; places.len()];
    for flow in trace.sequence() {
        let [one, other] = places[flow as usize];
        first[one] = (first[one] + 1).min(255);
        second[other] = (second[other] + 1).min(65_535);
        answers[flow as usize] = if first[one] < 255 { first[one].min(second[other]) } else { second[other] };
    }
    first.iter_mut().filter(|size| **size == 255).for_each(|size| *size = INFINITE);
    (vec![Level::new(8, first), Level::new(16, second)], answers)
}

/// A flow is a candidate by its counters, and a classifier full of large flows makes candidates of
/// small ones: their number is foreseen at any threshold, also where two flows in five are not as
/// large as that.
#[test]
fn candidates_at_other_thresholds() {
    let mut rng = SplitMix64::new(3);
    for (law, flows) in
        [("dctcp", 12_500), ("dctcp", 25_000), ("hadoop", 25_000), ("vl2", 25_000), ("keyvalue", 25_000)]
    {
        let trace: Workload = format!("{law}/uniform,flows={flows}").parse().unwrap();
        let trace = Workload { longest: 5000, ..trace };
        let (tower, answers) = classified(&trace, &mut rng);
        let candidates = |threshold: u32| answers.iter().filter(|answer| **answer >= threshold).count() as f64;
        for decoded in [None, Some(5), Some(70), Some(900)] {
            // The first of its packets that is encoded comes when its answer is the threshold, so
            // what was lifted there has its smallest sizes.
            let sizes = trace.flow_sizes();
            let known = |threshold: u32| {
                let decoded = sizes.iter().zip(&answers).filter(|(_, answer)| **answer >= threshold);
                decoded.map(|(size, _)| u64::from(*size.max(&threshold))).collect::<Vec<_>>()
            };
            let known = decoded.map(|threshold| (threshold, known(threshold)));
            let known = known.as_ref().map(|(threshold, sizes)| (*threshold, &sizes[..]));
            let sizes = distribution(&tower, known).unwrap();
            let model = Candidates::of(&tower, &sizes, decoded);
            for threshold in [2, 3, 5, 20, 70, 200, 256, 400, 900, 2000, 4500] {
                let (is, expected) = (candidates(threshold), model.at(threshold).all());
                let far = (expected - is).abs() > 0.04 * is + 2.0 * is.sqrt() + 5.0;
                assert!(!far, "{law} {flows} {decoded:?}, T_h = {threshold}: {is}, expected {expected}");
            }
        }
    }
}
