use std::collections::HashMap;

use super::*;
use crate::hashpipe::HashPipe;
use crate::heavy::HeavyHitter;
use weir::trace::Workload;

fn keys() -> (Vec<Tuple4>, HashMap<Tuple4, u64>) {
    let trace = "zipf1/burst,flows=2000,packets=40000,seed=3".parse::<Workload>().unwrap().generate();
    let keys: Vec<Tuple4> = trace.sequence.iter().map(|&f| trace.workload.tuple(f).v4().unwrap()).collect();
    let mut truth = HashMap::new();
    keys.iter().for_each(|&key| *truth.entry(key).or_default() += 1);
    (keys, truth)
}

fn fed(mut h: impl HeavyHitter, keys: &[Tuple4]) -> HashMap<Tuple4, u64> {
    keys.iter().for_each(|&key| h.packet(key));
    let mut sums = HashMap::new();
    h.read_out().into_iter().for_each(|(key, count)| *sums.entry(key).or_default() += count);
    sums
}

/// Space-Saving in its plainest form. Which minimum goes is open, so only what does not depend on
/// it is compared.
#[test]
fn space_saving_keeps_its_promises() {
    let (keys, truth) = keys();
    for counters in [1, 7, 100, 3000] {
        let mut h = SpaceSaving::new(counters);
        for (n, &key) in keys.iter().enumerate() {
            h.packet(key);
            if n % 5000 == 0 {
                let counts: Vec<u64> = h.entries.iter().map(|e| e.count).collect();
                assert!(counts.is_sorted());
                assert_eq!(counts.iter().sum::<u64>(), n as u64 + 1, "every packet is counted once");
            }
        }
        let min = h.entries[0].count;
        let table: HashMap<_, _> = h.read_out().into_iter().collect();
        assert!(table.iter().all(|(key, &count)| count >= truth[key] && count <= truth[key] + min));
        assert!(truth.iter().all(|(key, &count)| count <= min || table.contains_key(key)), "{counters}");
    }
}

#[test]
fn with_room_for_all_every_count_is_exact() {
    let (keys, truth) = keys();
    assert_eq!(fed(SpaceSaving::new(2000), &keys), truth);
    assert_eq!(fed(HashPipe::new(2_000_000, 6, 1), &keys), truth);
    assert_eq!(fed(HashParallel::new(2_000_000, 6), &keys), truth);
    // Sampling all packets from the first on.
    assert_eq!(fed(SampleAndHold::new(40_000, 40_000, 1), &keys), truth);
}

#[test]
fn hashpipe_never_overestimates_and_count_min_never_underestimates() {
    let (keys, truth) = keys();
    assert!(fed(HashPipe::new(300, 6, 1), &keys).iter().all(|(key, &count)| count <= truth[key]));
    assert!(fed(SampleAndHold::new(300, keys.len(), 1), &keys).iter().all(|(key, &count)| count <= truth[key]));
    assert!(fed(CountMin::new(300, 100), &keys).iter().all(|(key, &count)| count >= truth[key]));
}
