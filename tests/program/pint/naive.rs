//! Algorithms 1 and 2, the plan and the latency query as the paper writes them, with real
//! numbers.

use std::collections::BTreeMap;

use weir::pisa::hash::{Global, HashFamily};
use weir::pisa::{Disposition, Phv};
use weir::program::pint::encoding::{Layers, switch_id};
use weir::program::pint::loops::record::Looped;
use weir::program::pint::query::{PathActs, PathCoding, Query, Value};
use weir::program::pint::record::{Seen, Stream};
use weir::program::pint::{Config, PlanId};
use weir::wire::{FiveTuple, Fragment};

pub struct Naive {
    /// Each set of queries with the share of packets up to its end.
    sets: Vec<(Vec<Query>, f64)>,
    q: Global,
    layers: Layers,
    /// g and h of each instance of the path.
    paths: Vec<[Global; 2]>,
    /// What a switch adds to the checksum of a path at a hop.
    terms: Global,
    /// Of each instance g of the latency, and the hash that rounds it.
    latency: Vec<[Global; 2]>,
    /// g and h of the loop query.
    loops: [Global; 2],
    id: u32,
    looped: Vec<Looped>,
    plan: PlanId,
    sample: Global,
    arrivals: Vec<(Stream, Seen)>,
}

/// Of a hash of two arguments, a real number in [0, 1).
fn real(hash: &Global, packet: u32, argument: u32) -> f64 {
    f64::from(hash.join(packet, hash.argument(&argument.to_be_bytes()))) / 2f64.powi(32)
}

/// A probability as switches know it: a number of a hash's first bits.
pub fn rounded(probability: f64, bits: i32) -> f64 {
    (probability * 2f64.powi(bits)).round() / 2f64.powi(bits)
}

/// Whether a hop acts on a packet with this probability: by its hash alone, or, with vectors, where
/// all bits are set that the next hash of its eight hops has for it, as many as halve a one until it is
/// the probability at least, and no more than four.
fn acts(g: &Global, phv: &Phv, query: &Query, probability: f64) -> bool {
    let hop = u32::from(phv.shim.hop());
    let (mut share, mut candidate) = (1.0, true);
    if query.acts == PathActs::Vectors {
        let bits = (real(g, phv.identity, 65_536 + (hop - 1) / 8) * 2f64.powi(32)) as u32;
        for vector in 0..4 {
            if share / 2.0 >= probability {
                share /= 2.0;
                candidate &= bits >> (8 * vector + (hop - 1) % 8) & 1 == 1;
            }
        }
    }
    candidate && real(g, phv.identity, hop) * share < probability
}

/// The bits that the layers of a path query follow from.
fn bits_of(path: Query) -> u32 {
    if path.coding == PathCoding::Fragments { 16 } else { path.bits }
}

impl Naive {
    pub fn new(config: &Config, family: &HashFamily, name: &str) -> Self {
        let global = |label: &str, instance: u32| Global::derive(family, label, instance);
        let hashes = |instance| ["pint/acts", "pint/values"].map(|label| global(label, instance));
        let parameters = config.parameters();
        let queries = &parameters.queries.0;
        let mut end = 0.0;
        let sets = parameters.plan().unwrap();
        let sets = sets.shares().map(|(set, share)| {
            end += share;
            (set.queries().map(|query| queries[query]).collect(), end)
        });
        Self {
            sets: sets.collect(),
            q: global("pint/plan", 0),
            layers: Layers::of_length(config.path_length, parameters.query(Value::Path).map_or(1, bits_of)),
            paths: (0..16).map(hashes).collect(),
            terms: global("pint/checksum", 0),
            latency: (0..16)
                .map(|instance| ["pint/latency", "pint/rounding"].map(|label| global(label, instance)))
                .collect(),
            loops: ["pint/loops/acts", "pint/loops/values"].map(|label| global(label, 0)),
            id: switch_id(name),
            looped: Vec::new(),
            plan: parameters.id(),
            sample: global("pint/sample", 0),
            arrivals: Vec::new(),
        }
    }

    pub fn packet(&mut self, phv: &mut Phv) {
        if !(phv.enters || phv.headers.shim) || phv.headers.fragment != Fragment::Whole {
            phv.shim = phv.shim.with_hop(63);
            return;
        }
        let chosen = real(&self.q, phv.identity, 0);
        let (queries, _) = self.sets.iter().find(|(_, end)| chosen < *end).unwrap().clone();
        let before = if phv.shim.hop() == 1 { 0 } else { u32::from(phv.digest) };
        let (mut digest, mut from) = (before, 0);
        for query in &queries {
            for instance in 0..query.instances {
                let mask = ((1 << query.bits) - 1) << from;
                let part = (before & mask) >> from;
                let part = match query.value {
                    _ if phv.shim.hop() > 62 => part,
                    Value::Path => self.path(phv, instance, query, part),
                    Value::Latency => self.latency(phv, instance, query, part),
                    Value::Loops => self.check_loop(phv, query, part),
                    _ => unreachable!("`values.rs` and `utilisation.rs` hold them to naive switches of their own"),
                };
                // Bits beyond the queries stay as they came.
                digest = digest & !mask | part << from;
                from += query.bits;
            }
            if query.checksum > 0 {
                let term = (real(&self.terms, self.id, phv.shim.hop().into()) * 2f64.powi(32)) as u32;
                let term = if phv.shim.hop() > 62 { 0 } else { term };
                let sum = ((before >> from) + term % (1 << query.checksum)) % (1 << query.checksum);
                digest = digest & !(((1 << query.checksum) - 1) << from) | sum << from;
                from += query.checksum;
            }
        }
        phv.digest = digest as u16;
        if phv.disposition == Disposition::ToHost && phv.shim.hop() <= 62 {
            let stream = Stream { plan: self.plan, flow: FiveTuple::of(&phv.headers).unwrap(), hops: phv.shim.hop() };
            let seen = Seen { time_ns: phv.egress_ns, identity: phv.identity, digest: phv.digest };
            self.arrivals.push((stream, seen));
        }
    }

    fn path(&self, phv: &Phv, instance: u32, query: &Query, part: u32) -> u32 {
        let ([g, h], bits) = (&self.paths[instance as usize], query.bits);
        let layer = real(g, phv.identity, 0);
        let fragments = 32 / bits;
        let fragment = (real(h, phv.identity, 0) * f64::from(fragments)) as u32;
        let value = match query.coding {
            PathCoding::Hash => (real(h, phv.identity, self.id) * 2f64.powi(32)) as u32,
            PathCoding::Fragments => self.id >> (fragment * bits),
        };
        let value = value & ((1 << bits) - 1);
        if layer < rounded(self.layers.baseline, 8) {
            return if acts(g, phv, query, rounded(1.0 / f64::from(phv.shim.hop()), 16)) { value } else { part };
        }
        // The xor layers have equal shares of what the baseline leaves.
        let (xor, first) = (&self.layers.xor, self.layers.baseline);
        let end = |number: usize| first + (1.0 - first) * (number + 1) as f64 / xor.len() as f64;
        let number = (0..xor.len() - 1).find(|number| layer < rounded(end(*number), 8)).unwrap_or(xor.len() - 1);
        part ^ if acts(g, phv, query, rounded(xor[number], 16)) { value } else { 0 }
    }

    fn latency(&self, phv: &Phv, instance: u32, query: &Query, part: u32) -> u32 {
        let [acts, rounds] = &self.latency[instance as usize];
        if real(acts, phv.identity, phv.shim.hop().into()) >= rounded(1.0 / f64::from(phv.shim.hop()), 16) {
            return part;
        }
        // The highest bit of the time is kept and the seven behind it; what is looked up is the middle of
        // all times that have these.
        let whole = f64::from(phv.latency_ns);
        let width = ((whole.max(1.0).log2().floor() - 7.0).max(0.0)).exp2();
        let time = ((whole / width).floor() * width + (width - 1.0) / 2.0).max(1.0);
        // Equal steps of the logarithm; sixteenths of a step are kept, and the rest of the hash
        // rounds them up or down.
        let codes = f64::from((1 << query.bits) - 1);
        let [from, to] = [query.range.from, query.range.to].map(f64::from);
        let steps = (time / from).log2() / (to / from).log2() * codes;
        let sixteenths = (16.0 * steps).round().clamp(0.0, 16.0 * codes);
        let random = rounds.inner(phv.identity, rounds.argument(&[0; 4])) % 16;
        ((sixteenths + f64::from(random)) / 16.0) as u32
    }

    /// Algorithm 2. At the first hop neither the digest nor the counter says anything.
    fn check_loop(&mut self, phv: &mut Phv, query: &Query, part: u32) -> u32 {
        let [g, h] = &self.loops;
        let hops = phv.shim.hop();
        let own = (real(h, phv.identity, self.id) * 2f64.powi(32)) as u32 % (1 << query.bits);
        let mut c = if hops == 1 { 0 } else { phv.shim.loops() };
        if hops > 1 && part == own {
            if u32::from(c) >= query.threshold {
                let flow = FiveTuple::of(&phv.headers).unwrap();
                self.looped.push(Looped { time_ns: phv.egress_ns, flow, hops, identity: phv.identity });
                return part;
            }
            c += 1;
        }
        phv.shim = phv.shim.with_loops(c);
        if c == 0 && real(g, phv.identity, hops.into()) < rounded(1.0 / f64::from(hops), 16) { own } else { part }
    }

    /// What was reported of loops.
    pub fn loops(&self) -> &[Looped] {
        &self.looped
    }

    /// What the bank and each stream have room for, and the packets of each stream that it has none
    /// for: those with the largest hashes.
    pub fn streams(&self, config: &Config) -> BTreeMap<Stream, (Vec<Seen>, u64)> {
        let mut streams: BTreeMap<Stream, (Vec<Seen>, u64)> = BTreeMap::new();
        for (stream, seen) in self.sample(config) {
            streams.entry(*stream).or_default().0.push(*seen);
        }
        for (kept, left_out) in streams.values_mut() {
            let hash = |seen: &Seen| real(&self.sample, seen.identity, 0);
            kept.sort_by(|a, b| hash(a).total_cmp(&hash(b)).then(a.cmp(b)));
            *left_out = kept.len().saturating_sub(config.packets as usize) as u64;
            kept.truncate(config.packets as usize);
            kept.sort();
        }
        streams
    }

    /// Of more arrivals than there is room for, those in the largest half, quarter, eighth … of all
    /// hashes that fits.
    fn sample(&self, config: &Config) -> Vec<&(Stream, Seen)> {
        let room = config.reports as usize;
        let of = |halvings: i32| {
            let share = 0.5f64.powi(halvings);
            self.arrivals.iter().filter(move |(_, seen)| real(&self.sample, seen.identity, 0) < share)
        };
        let halvings = (0..32).find(|halvings| of(*halvings).count() <= room).unwrap_or(32);
        of(halvings).take(room).collect()
    }

    pub fn missing(&self, config: &Config) -> u64 {
        (self.arrivals.len() - self.sample(config).len()) as u64
    }
}
