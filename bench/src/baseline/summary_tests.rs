use super::*;
use crate::heavy::KeyMap;
use crate::summary::Summary;
use weir::program::chamelemon::decoder::Distribution;
use weir::trace::Workload;

const FLOWS: usize = 4000;

fn keys() -> (Vec<Tuple4>, KeyMap<u64>) {
    let trace = "isp-scaled/burst,flows=4000,packets=100000,seed=3".parse::<Workload>().unwrap().generate();
    let keys: Vec<Tuple4> = trace.sequence.iter().map(|&f| trace.workload.tuple(f).v4().unwrap()).collect();
    let mut truth = KeyMap::default();
    keys.iter().for_each(|&key| *truth.entry(key).or_default() += 1);
    (keys, truth)
}

fn fed<S: Summary>(mut sketch: S, keys: &[Tuple4]) -> S {
    keys.chunks(64).for_each(|keys| sketch.burst(keys));
    sketch.close();
    sketch
}

fn distribution(truth: &KeyMap<u64>) -> Distribution {
    Distribution::of_sizes(truth.values().copied())
}

fn close(estimate: Option<f64>, exact: f64, share: f64) {
    let estimate = estimate.unwrap();
    assert!((estimate - exact).abs() < share * exact, "{estimate} instead of {exact}");
}

#[test]
fn cm_and_cu_never_underestimate_and_cu_is_no_worse() {
    let (keys, truth) = keys();
    let (cm, cu) = (fed(Cm::<false>::new(20_000, 1), &keys), fed(Cu::new(20_000, 1), &keys));
    assert!(truth.iter().all(|(&key, &exact)| exact <= cu.size(key) && cu.size(key) <= cm.size(key)));
    assert!(truth.iter().any(|(&key, _)| cu.size(key) < cm.size(key)));
    let roomy = fed(Cm::<false>::new(100_000_000, 1), &keys);
    assert!(truth.iter().all(|(&key, &exact)| exact == roomy.size(key)));
}

#[test]
fn with_room_for_all_every_named_flow_is_exact() {
    let (keys, truth) = keys();
    assert_eq!(fed(PipeTable::new(16_000_000, 1), &keys).named(), truth);
    assert_eq!(fed(CountHeap::<3>::new(100_000_000, FLOWS, 1), &keys).named(), truth);
    // Two flows of 4000 may share one of a million buckets.
    let coco = fed(Coco::new(80_000_000, 1), &keys).named();
    assert!(truth.len() - coco.len() <= 3 && coco.iter().filter(|(key, count)| truth[*key] != **count).count() <= 3);
}

#[test]
fn a_heap_keeps_the_heaviest() {
    let (keys, truth) = keys();
    let mut ranked: Vec<(u64, Tuple4)> = truth.iter().map(|(&key, &count)| (count, key)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let heap = fed(CountHeap::<3>::new(1_000_000, 500, 1), &keys);
    assert_eq!(heap.named().len(), 500);
    assert!(ranked[..100].iter().all(|(_, key)| heap.named().contains_key(key)));
    let error = |&(count, key): &(u64, Tuple4)| heap.size(key).abs_diff(count) as f64 / count as f64;
    assert!(ranked[..100].iter().map(error).sum::<f64>() < 2.0);
}

#[test]
fn univmon_sums_over_all_flows() {
    let (keys, truth) = keys();
    let sketch = fed(UnivMon::new(4_000_000, 1), &keys);
    close(sketch.cardinality(), truth.len() as f64, 0.1);
    close(sketch.entropy_bits(), distribution(&truth).entropy_bits(), 0.03);
    let (&heaviest, &packets) = truth.iter().max_by_key(|(_, packets)| **packets).unwrap();
    close(Some(sketch.size(heaviest) as f64), packets as f64, 0.02);
}

/// Both have the same heavy part, and more room in the light one than there are flows.
#[test]
fn elastic_and_fcm_know_all_but_collisions() {
    fn check(sketch: impl Summary, truth: &KeyMap<u64>) {
        close(sketch.cardinality(), truth.len() as f64, 0.01);
        let exact = distribution(truth);
        let estimate = sketch.distribution().unwrap();
        assert!(estimate.error(&exact) < 0.08, "{}", estimate.error(&exact));
        close(Some(estimate.entropy_bits()), exact.entropy_bits(), 0.01);
        let right = truth.iter().filter(|&(&key, &exact)| sketch.size(key) == exact).count();
        // Who leaves a bucket takes a 32nd of its votes along, not its packets.
        assert!(right as f64 > 0.95 * truth.len() as f64, "{right}");
        let named = sketch.heavy(90);
        let heavy: Vec<_> = truth.iter().filter(|(_, count)| **count > 100).collect();
        let found = heavy.iter().filter(|(key, _)| named.contains(key)).count();
        assert!(100 * found >= 97 * heavy.len(), "{found} of {}", heavy.len());
    }
    let (keys, truth) = keys();
    check(fed(Elastic::new(1_000_000, 1), &keys), &truth);
    check(fed(Fcm::new(1_000_000, 1), &keys), &truth);
}

#[test]
fn mrac_finds_the_distribution() {
    let (keys, truth) = keys();
    let exact = distribution(&truth);
    let estimate = fed(Mrac::new(4 * 8192, 1), &keys).distribution().unwrap();
    assert!(estimate.error(&exact) < 0.2, "{}", estimate.error(&exact));
    close(Some(estimate.flows()), truth.len() as f64, 0.03);
    close(Some(estimate.entropy_bits()), exact.entropy_bits(), 0.02);
}
