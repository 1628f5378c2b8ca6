//! Vectors against the probabilities that they stand for, and what is read against each hop by
//! itself.

use proptest::prelude::*;

use super::*;
use crate::pisa::hash::HashFamily;
use crate::program::pint::dataplane::{Code, MAX_CODED_HOPS, MAX_HOPS};
use crate::program::pint::encoding::Layers;
use crate::program::pint::hops::Hops;

fn layers() -> [Layers; 5] {
    let all = |p| Layers { baseline: 0.3, xor: vec![p, 0.5, 0.01] };
    [Layers::baseline(), Layers::of_length(8, 8), Layers::of_length(62, 1), Layers::of_paper(200), all(0.07)]
}

fn code(instances: u32, layers: &Layers, seed: u64) -> Code {
    Code::new(16 / instances, instances, layers, &HashFamily::reproducible(seed)).with_vectors()
}

/// With any number of the hash's first 16 bits as a limit: the share of candidates times the share
/// of these that acts is the very probability.
#[test]
fn probabilities_are_exact() {
    for number in 1..=1u64 << 16 {
        let limit = ((number << 16) - 1) as u32;
        let (vectors, of_candidate) = split(limit);
        assert_eq!((u64::from(of_candidate) + 1) >> vectors, number << 16, "{number}");
        assert!(vectors == VECTORS || of_candidate >= u32::MAX / 2, "{number}: no vector more would do");
    }
}

/// Each bit by itself: hop i is a candidate where its bit is set in each of the vectors that its
/// probability asks for.
#[test]
fn candidates_are_the_and_of_vectors() {
    for layers in &layers() {
        let code = code(1, layers, 1);
        let vectors = code.vectors.as_ref().unwrap();
        let instance = &code.instances[0];
        let kinds = std::iter::once(Layer::Baseline).chain((0..layers.xor.len()).map(Layer::Xor));
        for (layer, identity) in kinds.flat_map(|layer| (0..50).map(move |identity| (layer, identity))) {
            for hop in 1..=MAX_CODED_HOPS {
                let word = (hop - 1) / 8;
                let hash = instance.acts.join(identity, instance.words[word]);
                let limit = match layer {
                    Layer::Baseline => code.limits.hops[hop],
                    Layer::Xor(layer) => code.limits.xor[layer],
                };
                let p = (f64::from(limit) + 1.0) / 2f64.powi(32);
                let number = (1.0 / p).log2().floor().min(4.0) as usize;
                let naive = (0..number).all(|vector| hash >> (8 * vector + (hop - 1) % 8) & 1 == 1);
                let found = vectors.candidates(layer, word, hash) >> ((hop - 1) % 8) & 1 == 1;
                assert_eq!(found, naive, "{layer:?}, hop {hop}, {number} vectors");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is read of a packet is what each hop by itself says, for all lengths.
    #[test]
    fn what_is_read_is_what_each_hop_does(
        seed: u64,
        identity: u32,
        kind in 0..5usize,
        instances in 1..4u32,
        plain: bool,
    ) {
        let code = match plain {
            true => Code::new(16 / instances, instances, &layers()[kind], &HashFamily::reproducible(seed)),
            false => code(instances, &layers()[kind], seed),
        };
        for (length, number) in (1..=MAX_CODED_HOPS).flat_map(|length| (0..code.instances()).map(move |i| (length, i))) {
            let instance = &code.instances[number];
            let layer = code.layer_of(instance, identity);
            let acts = (1..=length).filter(|hop| code.acts_at::<false>(instance, layer, identity, *hop));
            let naive: Hops = if layer == Layer::Baseline { acts.last().into_iter().collect() } else { acts.collect() };
            prop_assert_eq!(code.read(number, length, identity, 0).unwrap().hops, naive, "{:?}, {}", layer, length);
        }
        prop_assert!(code.read(0, MAX_CODED_HOPS + 9, identity, 0) == code.read(0, MAX_CODED_HOPS, identity, 0));
    }
}

/// Chi-square over hops.
fn chi_square(counts: &[u32], expected: f64) -> f64 {
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

/// Each hop wrote the same share of the baseline packets, whatever the hashes and for each length up to
/// 64, more than the shim counts, and for some up to the longest that the code tells.
#[test]
fn baseline_hops_are_uniform() {
    const PACKETS: u32 = 20_000;
    for seed in 0..4 {
        let code = code(2, &Layers::baseline(), 5 + seed);
        for length in (1..=10).chain([16, 17, 31, 32, 33, 64, 65, 200, MAX_CODED_HOPS]) {
            let mut counts = vec![0u32; length];
            for packet in 0..PACKETS {
                let hops = code.read(seed as usize % 2, length, packet, 0).unwrap().hops;
                assert_eq!(hops.len(), 1);
                hops.iter().for_each(|hop| counts[hop - 1] += 1);
            }
            let chi2 = chi_square(&counts, f64::from(PACKETS) / length as f64);
            let degrees = (length - 1) as f64;
            assert!(chi2 <= degrees + 5.0 * (2.0 * degrees).sqrt(), "{length} hops: {chi2}");
        }
    }
}

/// Hops of an xor layer act with its probability, and by twos with its square: alone, and with
/// another hop of the same hash.
#[test]
fn xor_hops_act_with_their_probability() {
    const PACKETS: u32 = 60_000;
    for (number, p) in [0.5, 0.3, 0.1, 0.0726, 0.02].into_iter().enumerate() {
        let layers = Layers { baseline: 0.005, xor: vec![p] };
        let code = code(1, &layers, 40 + number as u64);
        let (mut counts, mut pairs, mut packets) = (vec![0u32; MAX_HOPS], vec![vec![0u32; 8]; MAX_HOPS / 8], 0);
        for packet in 0..PACKETS {
            let hops = code.read(0, MAX_HOPS, packet, 0).unwrap().hops;
            if code.layer_of(&code.instances[0], packet) != Layer::Xor(0) {
                continue;
            }
            packets += 1;
            let hops: Vec<_> = hops.iter().collect();
            for hop in &hops {
                counts[hop - 1] += 1;
                let next = (hop - 1) / 8 * 8 + hop % 8 + 1;
                if hops.contains(&next) && hop - 1 < MAX_HOPS / 8 * 8 {
                    pairs[(hop - 1) / 8][(hop - 1) % 8] += 1;
                }
            }
        }
        for (counts, p) in [(counts, p), (pairs.concat(), p * p)] {
            let (mean, hops) = (f64::from(packets) * p, counts.len() as f64);
            let chi2 = chi_square(&counts, mean) / (1.0 - p);
            assert!(chi2 <= hops + 5.0 * (2.0 * hops).sqrt(), "p = {p}: {chi2} of {hops}");
        }
    }
}
