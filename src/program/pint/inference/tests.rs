//! The code against a naive one, and inference: exact or undecided, never wrong.

use super::*;
use crate::pisa::hash::HashFamily;
use crate::program::pint::encoding::{Layers, switch_id};

/// Numbers that look drawn.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn below(state: &mut u64, bound: usize) -> usize {
    (draw(state) % bound as u64) as usize
}

fn ids(number: usize) -> Vec<u32> {
    (0..number).map(|i| switch_id(&format!("s{i}"))).collect()
}

fn layers() -> [Layers; 4] {
    [Layers::baseline(), Layers::of_length(8, 8), Layers::of_paper(20), Layers { baseline: 0.3, xor: vec![0.1, 0.5] }]
}

const SHAPES: [(u32, u32); 7] = [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (8, 2), (4, 4)];

/// A path without a switch twice.
fn path(state: &mut u64, switches: usize, length: usize) -> Vec<usize> {
    let mut path = Vec::new();
    while path.len() < length {
        let next = below(state, switches);
        if !path.contains(&next) {
            path.push(next);
        }
    }
    path
}

/// Switches in a ring with some chords, and a walk on it that never turns back.
fn ring(state: &mut u64, switches: usize, length: usize) -> (Vec<[usize; 2]>, Vec<usize>) {
    let mut pairs: Vec<_> = (0..switches).map(|i| [i, (i + 1) % switches]).collect();
    pairs.extend((0..switches / 3).map(|_| [below(state, switches), below(state, switches)]));
    let links = |at: usize| {
        let ends = pairs.iter().filter(move |[a, b]| a != b && (*a == at || *b == at));
        ends.map(move |[a, b]| a + b - at).collect::<Vec<_>>()
    };
    let mut walk = vec![below(state, switches)];
    while walk.len() < length {
        let at = walk[walk.len() - 1];
        let before = walk.len().checked_sub(2).map(|before| walk[before]);
        let next: Vec<_> = links(at).into_iter().filter(|next| Some(*next) != before).collect();
        walk.push(next[below(state, next.len())]);
    }
    (pairs, walk)
}

/// The hops that the observation names wrote exactly what it holds, whatever the layers and bits.
#[test]
fn what_is_read_is_what_was_written() {
    let mut state = 1;
    for (bits, instances) in SHAPES {
        for layers in &layers() {
            let code = Code::new(bits, instances, layers, &HashFamily::reproducible(draw(&mut state)));
            let switches: Vec<_> = ids(30).into_iter().map(|id| code.switch(id)).collect();
            for length in [1, 2, 5, 30] {
                for _ in 0..50 {
                    let identity = draw(&mut state) as u32;
                    let digest = code.digest(&switches[..length], identity);
                    for instance in 0..code.instances() {
                        let read = code.read(instance, length, identity, digest).unwrap();
                        let value = read.hops.iter().fold(0, |sum, hop| sum ^ code.value(&read, &switches[hop - 1]));
                        assert_eq!(value, read.value);
                    }
                    let used = bits * instances;
                    assert_eq!(u32::from(digest) >> used, 0, "bits beyond the instances stay zero");
                }
            }
        }
    }
}

/// Chi-square of the reservoir for each length up to 64, and for some up to the longest that the code
/// tells: each hop wrote the same share of the packets. The shim counts no more than 62 hops; the code
/// itself has no such limit.
#[test]
fn baseline_hops_are_uniform() {
    const PACKETS: u32 = 20_000;
    let code = Code::new(8, 2, &Layers::baseline(), &HashFamily::reproducible(5));
    for instance in 0..2 {
        for length in (1..=10).chain([16, 17, 31, 32, 33, 64, 65, 200, MAX_CODED_HOPS]) {
            let mut counts = vec![0u32; length];
            for packet in 0..PACKETS {
                let hops = code.read(instance, length, packet, 0).unwrap().hops;
                assert_eq!(hops.len(), 1);
                hops.iter().for_each(|hop| counts[hop - 1] += 1);
            }
            let expected = f64::from(PACKETS) / length as f64;
            let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let chi2: f64 = counts.iter().map(square).sum();
            let degrees = (length - 1) as f64;
            // Five standard deviations; packets are numbered, as the identities of a flow may be.
            assert!(chi2 <= degrees + 5.0 * (2.0 * degrees).sqrt(), "{length} hops: {chi2}");
        }
    }
}

/// Layers have their shares of the packets, and hops act with their layer's probability.
#[test]
fn layers_have_their_shares() {
    const PACKETS: u32 = 40_000;
    let layers = Layers { baseline: 0.5, xor: vec![0.1, 0.4] };
    let code = Code::new(8, 1, &layers, &HashFamily::reproducible(6));
    // Without hops the baseline never acts, and each xor layer acts at each hop with its share.
    let masks = (0..PACKETS).map(|packet| code.read(0, 40, packet, 0).unwrap().hops.len());
    let mean = masks.sum::<usize>() as f64 / f64::from(PACKETS);
    let expected = 0.5 + 0.25 * 40.0 * 0.1 + 0.25 * 40.0 * 0.4;
    assert!((mean - expected).abs() < 0.05 * expected, "{mean} and {expected}");
}

/// Whatever the code, the topology and the packets: a decided path is the true one, and after
/// enough packets it is decided.
#[test]
fn a_decided_path_is_the_true_one() {
    let mut state = 2;
    let mut decided = [0, 0];
    for round in 0..60 {
        let (bits, instances) = SHAPES[round % SHAPES.len()];
        let layers = &layers()[round % 4];
        let code = Code::new(bits, instances, layers, &HashFamily::reproducible(round as u64));
        let length = 1 + below(&mut state, 12);
        let (pairs, walk) = ring(&mut state, 40, length);
        let anywhere = path(&mut state, 40, length);
        for (known, path) in [(Some(&pairs[..]), walk), (None, anywhere)] {
            let universe = Universe::new(&code, ids(40), known);
            let coded: Vec<_> = path.iter().map(|switch| universe.switches[*switch].clone()).collect();
            let mut inference = Inference::new(&code, &universe, length);
            for packet in 0..60 * length {
                let identity = draw(&mut state) as u32;
                inference.add(identity, code.digest(&coded, identity));
                assert!(!inference.is_contradicted());
                let whole = inference.hops().zip(&path).all(|(hop, truth)| hop.is_none_or(|hop| hop == *truth));
                assert!(whole, "after {packet} packets");
                if inference.path().is_some() {
                    decided[usize::from(known.is_some())] += 1;
                    break;
                }
            }
        }
    }
    assert!(decided[0] >= 58 && decided[1] >= 58, "{decided:?} of 60");
}

/// Whatever the order in which inference looks at digests, it leaves the candidates that all rules for
/// all digests leave, after each packet, also where packets contradict each other.
#[test]
fn candidates_are_those_of_naive_elimination() {
    let mut state = 33;
    let (mut contradicted, mut decided) = (0, 0);
    for round in 0..96usize {
        let (bits, instances) = SHAPES[round % SHAPES.len()];
        let code = Code::new(bits, instances, &layers()[round % 4], &HashFamily::reproducible(round as u64));
        let code = if round % 3 == 0 { code.with_vectors() } else { code };
        let (length, switches) = (1 + below(&mut state, 9), 20 + below(&mut state, 120));
        let (pairs, walk) = ring(&mut state, switches, length);
        let (on_links, falsified) = (round % 2 == 0, round % 8 > 5);
        let (links, path) =
            if on_links { (Some(&pairs[..]), walk) } else { (None, path(&mut state, switches, length)) };
        let universe = Universe::new(&code, ids(switches), links);
        let coded: Vec<_> = path.iter().map(|switch| universe.switches[*switch].clone()).collect();
        let mut naive = naive::Naive::new(&code, &universe, links, length);
        let mut inference = Inference::new(&code, &universe, length);
        if round % 5 == 0 {
            naive.fix(length, path[length - 1]);
            inference.fix(length, path[length - 1]);
        }
        let mut packets = Vec::new();
        for packet in 0..12 * length {
            let identity = draw(&mut state) as u32;
            let wrong = if falsified && packet % 9 == 8 { 1 } else { 0 };
            packets.push((identity, code.digest(&coded, identity) ^ wrong));
            let (identity, digest) = packets[packet];
            naive.add(identity, digest);
            inference.add(identity, digest);
            assert_eq!(inference.is_contradicted(), naive.is_contradicted, "round {round}, {packet} packets");
            if naive.is_contradicted {
                break;
            }
            let sets = inference.candidates.iter();
            let found = sets.map(|set| set.iter().collect::<std::collections::BTreeSet<_>>());
            assert!(found.eq(naive.candidates.iter().cloned()), "round {round}, {packet} packets");
        }
        // All at once leave the same.
        let mut at_once = Inference::new(&code, &universe, length);
        if round % 5 == 0 {
            at_once.fix(length, path[length - 1]);
        }
        at_once.add_all(packets);
        assert_eq!(at_once.is_contradicted(), inference.is_contradicted());
        assert!(at_once.hops().eq(inference.hops()) && at_once.path() == inference.path());
        assert!(inference.is_contradicted() || at_once.candidates == inference.candidates);
        assert_eq!(at_once.evidence(), inference.evidence());
        contradicted += usize::from(naive.is_contradicted);
        decided += usize::from(inference.path().is_some());
    }
    assert!(contradicted >= 10 && decided >= 50, "{contradicted} and {decided}");
}

/// A topology decides with fewer packets, and its candidates are those of walks alone.
#[test]
fn a_topology_prunes() {
    let code = Code::new(8, 1, &Layers::of_length(5, 8), &HashFamily::reproducible(3));
    // A line: the path's switches follow from one of them and the direction.
    let pairs: Vec<_> = (0..29).map(|i| [i, i + 1]).collect();
    let universe = Universe::new(&code, ids(30), Some(&pairs));
    let mut inference = Inference::new(&code, &universe, 30);
    assert!(inference.path().is_none());
    inference.fix(30, 29);
    assert_eq!(inference.path(), Some((0..30).collect()), "no packet was needed");
    // No walk is as long.
    assert!(Inference::new(&code, &universe, 31).is_contradicted());
    let blind = Universe::new(&code, ids(30), None);
    assert!(Inference::new(&code, &blind, 30).path().is_none());
}

/// A digest that no path explains.
#[test]
fn a_foreign_digest_contradicts() {
    let code = Code::new(16, 1, &Layers::baseline(), &HashFamily::reproducible(4));
    let universe = Universe::new(&code, ids(10), None);
    let mut inference = Inference::new(&code, &universe, 3);
    for identity in 0..5 {
        inference.add(identity, 0x1234);
    }
    assert!(inference.is_contradicted() && inference.path().is_none());
    assert!(inference.hops().all(|hop| hop.is_none()));
}

/// What goes wrong on the way: the packets change their path, a switch is missing among the
/// candidates, the topology lacks a link or has a wrong one, the hop count is wrong. A wrong path
/// is never called certain.
#[test]
fn a_wrong_path_is_never_certain() {
    let mut state = 9;
    let mut wrongly_decided = 0;
    for round in 0..300u64 {
        let (bits, instances) = SHAPES[round as usize % SHAPES.len()];
        let code = Code::new(bits, instances, &layers()[round as usize % 4], &HashFamily::reproducible(round % 16));
        let length = 2 + below(&mut state, 6);
        let (mut pairs, walk) = ring(&mut state, 20, length);
        let other = path(&mut state, 20, length);
        let fault = round % 5;
        let mut known = 20;
        match fault {
            // Of the links that it takes one is not there, and some are that do not exist.
            0 => pairs.retain(|[a, b]| ![[*a, *b], [*b, *a]].contains(&[walk[0], walk[1]])),
            1 => known = 15,
            _ => {}
        }
        let all: Vec<_> = ids(20).into_iter().map(|id| code.switch(id)).collect();
        let coded = |path: &[usize]| path.iter().map(|switch| all[*switch].clone()).collect::<Vec<_>>();
        let (first, second) = (coded(&walk), coded(if fault == 2 { &other } else { &walk }));
        let links = (fault == 0).then_some(&pairs[..]);
        let universe = Universe::new(&code, ids(20).into_iter().take(known), links);
        let told = if fault == 3 { length + 1 } else { length };
        let mut inference = Inference::new(&code, &universe, told);
        let change = below(&mut state, 60);
        for packet in 0..400 {
            let identity = draw(&mut state) as u32;
            let path = if packet < change { &first } else { &second };
            // Also packets that come by turns on two paths.
            let path = if fault == 4 && packet % 2 == 0 { &second } else { path };
            inference.add(identity, code.digest(path, identity));
            let Some(found) = inference.path() else { continue };
            let right = found == walk || (fault == 2 && found == other);
            wrongly_decided += u32::from(!right);
            assert!(right || !inference.evidence().is_certain(), "round {round}, {packet} packets");
        }
    }
    assert!(wrongly_decided > 0, "the faults do harm");
}

/// A path that nothing disturbs is certain in the end.
#[test]
fn a_path_becomes_certain() {
    let code = Code::new(8, 2, &Layers::of_length(5, 8), &HashFamily::reproducible(8));
    let universe = Universe::new(&code, ids(50), None);
    let mut inference = Inference::new(&code, &universe, 5);
    let coded = &universe.switches[10..15];
    let mut certain = None;
    for packet in 1..200u32 {
        inference.add(packet, code.digest(coded, packet));
        if inference.evidence().is_certain() && certain.is_none() {
            certain = Some(packet);
        }
    }
    assert_eq!(inference.path(), Some((10..15).collect()));
    assert!(certain.is_some_and(|packets| packets < 80), "{certain:?}");
    assert!(inference.evidence().digests > 20);
}

/// From fragments alone: every identifier is found, no other one is decided on the way, and what is
/// written is what is read.
#[test]
fn fragments_tell_identifiers() {
    let mut state = 12;
    for (bits, instances) in [(1, 4), (2, 1), (4, 2), (8, 1), (8, 2), (16, 1)] {
        for (number, length) in [1, 2, 5, 12].into_iter().enumerate() {
            let family = HashFamily::reproducible(draw(&mut state));
            let code = Code::new(bits, instances, &layers()[number], &family).with_fragments();
            let ids: Vec<u32> = (0..length).map(|_| draw(&mut state) as u32).collect();
            let path: Vec<_> = ids.iter().map(|id| code.switch(*id)).collect();
            let mut inference = FragmentInference::new(&code, length);
            let mut packets = 0;
            while inference.hops().any(|hop| hop.is_none()) {
                let identity = draw(&mut state) as u32;
                let digest = code.digest(&path, identity);
                for instance in 0..code.instances() {
                    let read = code.read(instance, length, identity, digest).unwrap();
                    let written = read.hops.iter().fold(0, |sum, hop| sum ^ code.value(&read, &path[hop - 1]));
                    assert_eq!(written, read.value);
                }
                inference.add(identity, digest);
                assert!(!inference.is_contradicted());
                let found = inference.hops().zip(&ids);
                assert!(
                    found.into_iter().all(|(hop, id)| hop.is_none_or(|hop| hop == *id)),
                    "{bits} bits, {length} hops"
                );
                packets += 1;
                assert!(packets < 20_000, "{bits} bits, {length} hops");
            }
        }
    }
}

/// A sink that is known takes no packets, and one that is not on the path contradicts.
#[test]
fn a_known_end_helps() {
    let code = Code::new(8, 1, &Layers::baseline(), &HashFamily::reproducible(2)).with_fragments();
    let path: Vec<_> = [1, 2].map(|id| code.switch(id)).into();
    for (end, right) in [(2, true), (3, false)] {
        let mut inference = FragmentInference::new(&code, 2);
        inference.fix(2, end);
        assert_eq!(inference.hops().collect::<Vec<_>>(), [None, Some(end)]);
        (0..100).for_each(|packet| inference.add(packet, code.digest(&path, packet)));
        assert_eq!(!inference.is_contradicted(), right);
        assert!(!right || inference.hops().eq([Some(1), Some(2)]));
    }
}

/// Packets that come by another path from one on, or by turns on two: nothing wrong is certain. A
/// path that nothing disturbs is.
#[test]
fn fragments_of_two_paths_are_never_certain() {
    let mut state = 21;
    let mut certain = 0;
    for round in 0..120u64 {
        let (bits, length) = ([4, 8, 8, 16][round as usize % 4], 1 + below(&mut state, 5));
        let code = Code::new(bits, 1, &layers()[round as usize % 3], &HashFamily::reproducible(round)).with_fragments();
        let mut ids = || (0..length).map(|_| draw(&mut state) as u32).collect::<Vec<_>>();
        let (first, mut second) = (ids(), ids());
        // Often they differ at one hop alone.
        if round % 3 > 0 {
            second[1..].copy_from_slice(&first[1..]);
        }
        let coded = [&first, &second].map(|path| path.iter().map(|id| code.switch(*id)).collect::<Vec<_>>());
        let (fault, change) = (round / 4 % 3, below(&mut state, 1500));
        let mut inference = FragmentInference::new(&code, length);
        for packet in 0..2000 {
            let identity = draw(&mut state) as u32;
            let on_second = [packet >= change, packet % 2 == 0, false][fault as usize];
            inference.add(identity, code.digest(&coded[usize::from(on_second)], identity));
            if packet % 50 > 0 || inference.is_contradicted() || !inference.evidence().is_certain() {
                continue;
            }
            let found: Option<Vec<_>> = inference.hops().collect();
            assert!(found.is_some_and(|found| found == first || found == second), "round {round}, {packet} packets");
            certain += u32::from(fault == 2);
        }
        assert!(fault < 2 || (!inference.is_contradicted() && inference.evidence().is_certain()), "round {round}");
    }
    assert!(certain > 0);
}

/// With the default layers a path takes no more packets than in our simulation of the paper's text
/// (bench/data/pint_path_packets.csv, its best layers), at points with few and many bits and hops.
#[test]
fn default_layers_take_few_packets() {
    let points = [
        (5, 80, (1, 1), 47.7),
        (5, 80, (8, 2), 5.3),
        (10, 753, (4, 1), 43.0),
        (36, 157, (1, 1), 398.6),
        (36, 157, (4, 1), 123.1),
        (59, 753, (1, 1), 1003.6),
        (59, 753, (8, 2), 82.5),
    ];
    let mut state = 77;
    for (length, switches, (bits, instances), reference) in points {
        let layers = Layers::of_length(length as u32, bits);
        let runs = if bits == 1 { 20 } else { 100 };
        let packets = (0..runs).map(|_| {
            let code = Code::new(bits, instances, &layers, &HashFamily::reproducible(draw(&mut state)));
            let universe = Universe::new(&code, ids(switches), None);
            let path = path(&mut state, switches, length);
            let coded: Vec<_> = path.iter().map(|switch| universe.switches[*switch].clone()).collect();
            let mut inference = Inference::new(&code, &universe, length);
            let decided = (1..).find(|_| {
                let identity = draw(&mut state) as u32;
                inference.add(identity, code.digest(&coded, identity));
                inference.path().is_some()
            });
            assert_eq!(inference.path(), Some(path));
            decided.unwrap()
        });
        let mean = packets.sum::<u32>() as f64 / f64::from(runs);
        assert!(mean < 1.05 * reference, "{length} hops, {instances} × {bits} bits: {mean}");
    }
}
