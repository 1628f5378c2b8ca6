//! Algorithm 1 as the paper writes it, with real numbers.

use std::collections::BTreeMap;

use weir::pisa::hash::{Global, HashFamily};
use weir::pisa::{Disposition, Phv};
use weir::program::pint::Config;
use weir::program::pint::encoding::{Layers, switch_id};
use weir::program::pint::record::{Seen, Stream};
use weir::wire::{FiveTuple, Fragment};

pub struct Naive {
    bits: u32,
    layers: Layers,
    /// g and h of each instance.
    hashes: Vec<[Global; 2]>,
    id: u32,
    arrivals: Vec<(Stream, Seen)>,
}

/// Of a hash of two arguments, a real number in [0, 1).
fn real(hash: &Global, packet: u32, argument: u32) -> f64 {
    let hash = hash.join(hash.packet(&packet.to_be_bytes()), hash.argument(&argument.to_be_bytes()));
    f64::from(hash) / 2f64.powi(32)
}

impl Naive {
    pub fn new(config: &Config, family: &HashFamily, name: &str) -> Self {
        let global =
            |label: &str, instance: u32| Global::new([0, 1, 2, 3].map(|i| family.derive(label, 4 * instance + i)));
        let hashes = |instance| ["pint/acts", "pint/values"].map(|label| global(label, instance));
        Self {
            bits: config.bits,
            layers: Layers::of_length(config.path_length),
            hashes: (0..config.instances).map(hashes).collect(),
            id: switch_id(name),
            arrivals: Vec::new(),
        }
    }

    pub fn packet(&mut self, phv: &mut Phv) {
        if !(phv.enters || phv.headers.shim) || phv.headers.fragment != Fragment::Whole {
            phv.shim = phv.shim.with_hop(63);
            return;
        }
        let mut parts: Vec<u32> = (0..self.hashes.len() as u32)
            .map(|instance| {
                let before = if phv.shim.hop() == 1 { 0 } else { u32::from(phv.digest) };
                before >> (instance * self.bits) & ((1 << self.bits) - 1)
            })
            .collect();
        for (part, [g, h]) in parts.iter_mut().zip(&self.hashes) {
            let (layer, acts) = (real(g, phv.identity, 0), real(g, phv.identity, phv.shim.hop().into()));
            let value = (real(h, phv.identity, self.id) * 2f64.powi(32)) as u32 & ((1 << self.bits) - 1);
            if phv.shim.hop() > 62 {
                // Too far: nothing is written any more.
            } else if layer < self.layers.baseline {
                *part = if acts < 1.0 / f64::from(phv.shim.hop()) { value } else { *part };
            } else {
                let share = (layer - self.layers.baseline) / (1.0 - self.layers.baseline);
                let number = (share * self.layers.xor.len() as f64) as usize;
                *part ^= if acts < self.layers.xor[number] { value } else { 0 };
            }
        }
        // Bits beyond the instances stay as they came.
        let own = self.bits * parts.len() as u32;
        let rest = if phv.shim.hop() == 1 { 0 } else { u32::from(phv.digest) >> own << own };
        let digest = (0..).zip(&parts).fold(rest, |digest, (instance, part)| digest | part << (instance * self.bits));
        phv.digest = digest as u16;
        if phv.disposition == Disposition::ToHost && phv.shim.hop() <= 62 {
            let stream = Stream { flow: FiveTuple::of(&phv.headers).unwrap(), hops: phv.shim.hop() };
            let seen = Seen { time_ns: phv.egress_ns, identity: phv.identity, digest: phv.digest };
            self.arrivals.push((stream, seen));
        }
    }

    /// What the bank has room for.
    pub fn streams(&self, config: &Config) -> BTreeMap<Stream, Vec<Seen>> {
        let mut streams: BTreeMap<Stream, Vec<Seen>> = BTreeMap::new();
        for (stream, seen) in self.arrivals.iter().take(config.reports as usize) {
            let kept = streams.entry(*stream).or_default();
            if kept.len() < config.packets as usize {
                kept.push(*seen);
            }
        }
        streams
    }

    pub fn missing(&self, config: &Config) -> u64 {
        self.arrivals.len().saturating_sub(config.reports as usize) as u64
    }
}
