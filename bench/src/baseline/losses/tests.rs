use std::collections::{BTreeMap, BTreeSet};

use super::*;
use weir::trace::SplitMix64;

/// Packets that enter and leave a link, by flow, in an order at random: (flow, number in the flow,
/// whether it is lost).
fn packets(seed: u64, flows: u32) -> Vec<(u32, u16, bool)> {
    let mut rng = SplitMix64::new(seed);
    let mut all = Vec::new();
    for _ in 0..flows {
        let flow = rng.next_u64() as u32;
        let share = rng.below(4);
        all.extend((0..1 + rng.below(40) as u16).map(|number| (flow, number, rng.below(8) < share)));
    }
    for i in (1..all.len()).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
    all
}

/// Packets lost of each flow, by counting.
fn truth(packets: &[(u32, u16, bool)]) -> BTreeMap<u32, i64> {
    let mut lost = BTreeMap::new();
    packets.iter().filter(|(.., is_lost)| *is_lost).for_each(|(flow, ..)| *lost.entry(*flow).or_default() += 1);
    lost
}

fn sorted(found: Packets) -> BTreeMap<u32, i64> {
    found.into_iter().collect()
}

fn fermat<const K: u32, const C: u64>(packets: &[(u32, u16, bool)], width: usize, seed: u64) -> (Packets, bool) {
    let (mut up, mut down) = (FermatSketch::<K, C>::new(width, seed), FermatSketch::<K, C>::new(width, seed));
    for &(flow, _, lost) in packets {
        up.insert(flow, 1);
        if !lost {
            down.insert(flow, 1);
        }
    }
    up.subtract(&down);
    up.decode()
}

fn flow_radar(packets: &[(u32, u16, bool)], width: usize, seed: u64) -> (Packets, bool) {
    let [mut up, mut down] = [0; 2].map(|_| FlowRadar::new(width, seed));
    for &(flow, _, lost) in packets {
        up.insert(flow, 1);
        if !lost {
            down.insert(flow, 1);
        }
    }
    FlowRadar::losses(up, down)
}

fn loss_radar(packets: &[(u32, u16, bool)], width: usize, seed: u64) -> (Packets, bool) {
    let [mut up, mut down] = [0; 2].map(|_| LossRadar::new(width, seed));
    for &(flow, number, lost) in packets {
        up.insert(flow, number);
        if !lost {
            down.insert(flow, number);
        }
    }
    up.subtract(&down);
    up.decode()
}

#[test]
fn with_room_for_all_every_loss_is_exact() {
    for seed in 0..20 {
        let packets = packets(seed, 60);
        let lost = truth(&packets);
        for (found, complete) in [
            fermat::<32, 5>(&packets, 400, seed),
            fermat::<40, 87>(&packets, 400, seed),
            flow_radar(&packets, 400, seed),
            loss_radar(&packets, 2000, seed),
        ] {
            assert!(complete, "seed {seed}");
            assert_eq!(sorted(found), lost, "seed {seed}");
        }
    }
}

/// With too little memory a sketch says so. What is called complete is right.
#[test]
fn complete_means_right() {
    let mut incomplete = [0; 2];
    for seed in 0..400 {
        let packets = packets(seed, 40);
        let lost = truth(&packets);
        let width = 8 + seed as usize % 10;
        let results = [fermat::<40, 87>(&packets, width, seed), loss_radar(&packets, 8 * width, seed)];
        for (incomplete, (found, complete)) in incomplete.iter_mut().zip(results) {
            if complete {
                assert_eq!(sorted(found), lost, "seed {seed}");
            } else {
                *incomplete += 1;
            }
        }
    }
    assert!(incomplete.iter().all(|&n| (20..380).contains(&n)), "{incomplete:?}");
}

/// FlowRadar's filter hides flows when it is too full: then fewer are named, and counts may be
/// wrong.
#[test]
fn flow_radar_names_no_wrong_flow() {
    let (mut incomplete, mut exact) = (0, 0);
    for seed in 0..400 {
        let mut rng = SplitMix64::new(seed);
        let flows: BTreeMap<_, _> = (0..40).map(|_| (rng.next_u64() as u32, 1 + rng.below(30) as i64)).collect();
        let mut sketch = FlowRadar::new(12 + seed as usize % 10, seed);
        flows.iter().for_each(|(&flow, &packets)| sketch.insert(flow, packets));
        let (found, complete) = sketch.decode();
        assert!(found.keys().all(|flow| flows.contains_key(flow)));
        if complete && found.len() == flows.len() {
            assert_eq!(sorted(found), flows, "seed {seed}");
            exact += 1;
        }
        incomplete += u32::from(!complete);
    }
    assert!(incomplete > 20 && exact > 20, "{incomplete} {exact}");
}

/// One flow's packets together, or one by one among the others': the same sketch.
#[test]
fn flow_radar_takes_packets_together() {
    for seed in 0..50 {
        let packets = packets(seed, 90);
        let mut singly = FlowRadar::new(40, seed);
        packets.iter().for_each(|&(flow, ..)| singly.insert(flow, 1));
        let mut together = FlowRadar::new(40, seed);
        let mut seen = BTreeSet::new();
        for &(flow, ..) in packets.iter().filter(|&&(flow, ..)| seen.insert(flow)) {
            together.insert(flow, packets.iter().filter(|(other, ..)| *other == flow).count() as i64);
        }
        assert_eq!(singly, together);
    }
}
