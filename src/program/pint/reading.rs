//! The hops that wrote a packet, as what decodes finds them: by one hash a hop, or by
//! [`vectors`](super::vectors). Hashes of one packet are computed together where the CPU can.

use super::dataplane::{Code, Instance, Layer, MAX_CODED_HOPS};
use super::hops::{Bits, Hops};
use super::vectors::HOPS;
use super::vectors::dataplane::{Vectors, WORDS};
use crate::pisa::hash::{Arguments, Sixteen};

const WORD: usize = u64::BITS as usize;

/// The hashes of one instance.
#[derive(Debug)]
pub(super) struct Reading {
    /// Of each hop from 1, or of each eight hops with vectors.
    arguments: Arguments,
    /// The largest hash with which each hop acts without vectors, in a baseline layer and in each xor
    /// layer.
    baseline: Vec<Sixteen>,
    xor: Vec<Vec<Sixteen>>,
}

impl Reading {
    /// Of each instance of a code.
    pub fn of(code: &Code) -> Vec<Self> {
        let sixteens = |limits: &[u32]| limits.as_chunks().0.to_vec();
        let baseline = sixteens(&code.limits.hops[1..]);
        let xor: Vec<_> = code.limits.xor.iter().map(|limit| sixteens(&[*limit; MAX_CODED_HOPS])).collect();
        let one = |instance: &Instance| {
            let arguments = if code.vectors.is_some() { &instance.words[..] } else { &instance.hops[1..] };
            let arguments = Arguments::new(&instance.acts, arguments);
            Self { arguments, baseline: baseline.clone(), xor: xor.clone() }
        };
        code.instances.iter().map(one).collect()
    }

    /// The hops that wrote an instance's part of a packet, of a path of `length` switches.
    pub fn hops(&self, code: &Code, instance: &Instance, identity: u32, length: usize) -> Hops {
        let (layer, length) = (code.layer_of(instance, identity), length.min(MAX_CODED_HOPS));
        if let Some(vectors) = &code.vectors {
            return self.by_vectors(vectors, instance, layer, identity, length);
        }
        if self.arguments.is_wide() {
            return self.by_hashes(layer, identity, length);
        }
        let acts = |hop: &usize| code.acts_at::<true>(instance, layer, identity, *hop);
        match layer {
            Layer::Baseline => (1..=length).rev().find(acts).into_iter().collect(),
            Layer::Xor(_) => (1..=length).filter(acts).collect(),
        }
    }

    /// Sixty-four hops at a time.
    fn by_hashes(&self, layer: Layer, identity: u32, length: usize) -> Hops {
        let limits = match layer {
            Layer::Baseline => &self.baseline,
            Layer::Xor(layer) => &self.xor[layer],
        };
        let acting = |word: usize| {
            let number = (length - WORD * word).min(WORD);
            let acting = self.arguments.at_most(identity, limits, word, number);
            acting & (u64::MAX >> (WORD - number))
        };
        let words = 0..length.div_ceil(WORD);
        match layer {
            Layer::Baseline => {
                let last = |word: usize| Some(WORD * word + acting(word).checked_ilog2()? as usize + 1);
                words.rev().find_map(last).into_iter().collect()
            }
            Layer::Xor(_) => {
                let mut all = [0; MAX_CODED_HOPS / WORD];
                words.for_each(|word| all[word] = acting(word));
                Hops::of_words(all)
            }
        }
    }

    /// Eight hops at a time.
    fn by_vectors(&self, vectors: &Vectors, instance: &Instance, layer: Layer, identity: u32, length: usize) -> Hops {
        let words = 0..length.div_ceil(HOPS);
        let mut hashes = [[0; 16]; WORDS / 16];
        if self.arguments.is_wide() {
            self.arguments.hashes(identity, &mut hashes[..words.len().div_ceil(16)]);
        }
        let candidates = |word: usize| {
            let hash = match self.arguments.is_wide() {
                true => hashes.as_flattened()[word],
                false => self.arguments.hash(identity, word),
            };
            let rest = length - HOPS * word;
            let on_path = if rest < HOPS { (1 << rest) - 1 } else { u32::MAX };
            vectors.candidates(layer, word, hash) & on_path
        };
        let acts = |hop: &usize| {
            let hash = instance.acts.join(identity, instance.hops[*hop]);
            vectors.limits.acts(layer, *hop, hash)
        };
        let hop = |word: usize, bit: usize| HOPS * word + bit + 1;
        let last = |word: usize| {
            let mut open = candidates(word);
            let highest = || {
                let bit = open.checked_ilog2()?;
                open ^= 1 << bit;
                Some(hop(word, bit as usize))
            };
            std::iter::from_fn(highest).find(acts)
        };
        match layer {
            Layer::Baseline => words.rev().find_map(last).into_iter().collect(),
            Layer::Xor(_) => {
                let of_word = |word| Bits(candidates(word).into()).map(move |bit| hop(word, bit));
                words.flat_map(of_word).filter(acts).collect()
            }
        }
    }
}
