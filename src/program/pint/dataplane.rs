//! What a switch does with a packet: it looks up which queries the packet carries, and for each the
//! packet's layer, compares the hop's hash with the layer's limit, and writes the hash of its
//! identifier, the code of the packet's latency, or the largest code of a link's utilisation. It has
//! no state of a flow. The registers of links are in [`utilisation`](super::utilisation).

use std::hint::select_unpredictable;
use std::sync::{Arc, OnceLock};

use super::loops::dataplane::{Carried, Checked, LoopCode};
use super::query::Value;
use super::reading::Reading;
use super::values::dataplane::ValueCode;
use super::vectors::dataplane::{Vectors, WORDS, place};
use crate::pisa::hash::{Addends, Global, HashFamily};

/// Maximum number of switches on a path: the shim counts hops up to 63, and a count that stays
/// there means as many or more.
pub const MAX_HOPS: usize = 62;

/// Maximum number of switches on a path that the path's code can tell: more than the shim counts,
/// for carriers with room for a longer count.
pub const MAX_CODED_HOPS: usize = 256;

/// The layers as a switch compares hashes with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest layer hash of each layer, the baseline first.
    pub(super) layers: Vec<u32>,
    /// The largest hash with which a hop acts in each xor layer.
    pub(super) xor: Vec<u32>,
    /// The largest hash with which a hop acts in the baseline layer, by hop.
    pub(super) hops: [u32; MAX_CODED_HOPS + 1],
}

/// A packet's layer in one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The last hop that acts writes over the digest.
    Baseline,
    /// Each hop that acts xors onto it; the number of the layer.
    Xor(usize),
}

impl Limits {
    #[inline(always)]
    pub fn layer(&self, hash: u32) -> Layer {
        match self.layers.iter().position(|end| hash <= *end) {
            Some(layer @ 1..) => Layer::Xor(layer - 1),
            _ => Layer::Baseline,
        }
    }

    /// Whether a packet with these hashes is of the baseline layer, and whether the hop acts. By
    /// arithmetic: neither is to be predicted.
    #[inline(always)]
    fn decide(&self, layer: u32, hop: usize, hash: u32) -> (bool, bool) {
        let number = self.layers.iter().fold(0, |number, end| number + usize::from(layer > *end));
        let baseline = self.hops.get(hop).copied().unwrap_or_default();
        let limit = (1..)
            .zip(&self.xor)
            .fold(baseline, |limit, (layer, xor)| select_unpredictable(number == layer, *xor, limit));
        (number == 0, hash <= limit)
    }

    #[inline(always)]
    pub fn acts(&self, layer: Layer, hop: usize, hash: u32) -> bool {
        let limit = match layer {
            Layer::Baseline => self.hops.get(hop),
            Layer::Xor(layer) => self.xor.get(layer),
        };
        limit.is_some_and(|limit| hash <= *limit)
    }
}

/// What all switches of a network and what decodes have in common: the plan, and the code of each
/// query.
#[derive(Debug)]
pub struct Scheme {
    /// In the order of the hashes that choose them.
    pub(super) sets: Vec<CarriedSet>,
    /// The hash that chooses a packet's set (q of §4.1), and its second argument.
    pub(super) chooses: Global,
    pub(super) set: Addends,
    pub(super) path: Option<Arc<Code>>,
    pub(super) loops: Option<LoopCode>,
    /// Of the other values, in the order of the queries, each instance of its own.
    pub(super) values: Vec<ValueCode>,
    pub(super) family: HashFamily,
}

/// A set of queries of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedSet {
    /// The largest hash of its packets.
    pub(super) last: u32,
    pub(super) parts: Vec<Part>,
}

/// A query's place in the digests of a set, or that of one instance of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub value: Value,
    /// The place of its code, of values that have one.
    pub(super) code: usize,
    pub(super) shift: u32,
    /// As many ones as it has bits.
    pub(super) mask: u16,
}

impl Part {
    /// The query's bits of a digest.
    #[inline(always)]
    pub fn of(&self, digest: u16) -> u16 {
        digest >> self.shift & self.mask
    }

    /// A digest with these bits of the query.
    #[inline(always)]
    pub(super) fn set(&self, digest: u16, bits: u16) -> u16 {
        digest & !(self.mask << self.shift) | (bits & self.mask) << self.shift
    }
}

/// A packet as a switch measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The switch's place on the path, from 1.
    pub hop: u8,
    pub identity: u32,
    pub latency_ns: u32,
    /// The utilisation of the link that it leaves by, in units of 2⁻²⁴.
    pub utilisation: u32,
    /// The ports by which it comes in and leaves.
    pub ingress: u16,
    pub egress: u16,
    /// When the switch received it, in nanoseconds.
    pub ingress_ns: u64,
    /// Packets that wait for the port ahead of it, and their share of the queue's room, in units of
    /// 2⁻¹⁶.
    pub queue_packets: u16,
    pub queue_used: u16,
}

/// The hashes of an instance: the packet's layer, whether the hop acts (g), and what it writes (h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct InstanceHashes {
    layer: u32,
    acts: u32,
    value: u32,
}

impl Scheme {
    /// The queries that a packet carries.
    #[inline(always)]
    pub fn parts(&self, identity: u32) -> &[Part] {
        if let [all] = &self.sets[..] {
            return &all.parts;
        }
        let hash = self.chooses.join(identity, self.set);
        self.sets.iter().find(|set| hash <= set.last).map_or(&[], |set| &set.parts)
    }

    /// The digest behind a switch. Bits that no query has stay as they are.
    #[inline(always)]
    pub fn encode(&self, switch: &Coded, packet: Measured, digest: u16) -> u16 {
        let Measured { hop, identity, .. } = packet;
        // At the first hop nothing stands in the digest.
        let mut digest = if hop == 1 { 0 } else { digest };
        for part in self.parts(identity) {
            let before = part.of(digest);
            // No closures: the compiler would set those apart that several callers have.
            let after = match (part.value, &self.path, self.values.get(part.code)) {
                (Value::Path, Some(path), _) => path.encode(switch, hop, identity, before),
                // Of loops see `check_loop`.
                (Value::Path | Value::Loops, ..) | (_, _, None) => before,
                (value, _, Some(code)) => code.encode(hop, identity, packet.value(value), before),
            };
            digest = part.set(digest, after);
        }
        digest
    }

    /// The digest and the counter behind a switch, and whether it found the packet in a loop; `None`
    /// of a packet that does not carry the loop query.
    #[inline(always)]
    pub fn check_loop(&self, switch: &Coded, packet: Measured, carried: Carried) -> Option<Checked> {
        let (code, own) = (self.loops.as_ref()?, switch.loops?);
        let part = self.parts(packet.identity).iter().find(|part| part.value == Value::Loops)?;
        let before = Carried { digest: carried.digest >> part.shift & part.mask, ..carried };
        let Checked { carried: after, is_loop } = code.check(own, packet.hop, packet.identity, before);
        let digest = part.set(carried.digest, after.digest);
        Some(Checked { carried: Carried { digest, ..after }, is_loop })
    }
}

/// The code of the path query.
#[derive(Debug)]
pub struct Code {
    /// Bits of an instance.
    pub(super) bits: u32,
    pub(super) limits: Limits,
    pub(super) instances: Vec<Instance>,
    pub(super) checksum: Option<Checksum>,
    /// Packets carry fragments of identifiers in place of hashes.
    pub(super) fragments: Option<Fragments>,
    /// Hops are drawn by vectors in place of one hash each.
    pub(super) vectors: Option<Box<Vectors>>,
    /// Neither of these two.
    pub(super) is_plain: bool,
    /// What decodes has of each instance, once it begins.
    pub(super) reading: OnceLock<Vec<Reading>>,
    pub(super) family: HashFamily,
}

/// How an identifier is cut into fragments of the bits of an instance (§4.2). Both numbers are powers
/// of two, of which the exponents stand here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragments {
    /// Bits of the number of a fragment.
    pub number_bits: u32,
    /// The exponent of the bits of a fragment.
    pub width_log: u32,
}

impl Fragments {
    /// The number of the fragment that a packet with this hash carries.
    #[inline(always)]
    pub fn number(self, hash: u32) -> u32 {
        hash >> (u32::BITS - self.number_bits)
    }

    /// That fragment of an identifier, and what stands above it.
    #[inline(always)]
    pub fn of(self, id: u32, number: u32) -> u32 {
        id >> (number << self.width_log)
    }
}

/// The checksum of a packet's path so far, above the instances (§7): the sum of what its switches
/// add, which depends on a switch and its hop, and not on the packet.
#[derive(Debug)]
pub(super) struct Checksum {
    pub shift: u32,
    /// As many ones as it has bits.
    pub mask: u16,
    pub terms: Global,
}

impl Checksum {
    /// The digest behind a switch that adds this.
    #[inline(always)]
    pub fn add(&self, digest: u16, term: u16) -> u16 {
        let sum = self.of(digest).wrapping_add(term) & self.mask;
        digest & !(self.mask << self.shift) | sum << self.shift
    }

    #[inline(always)]
    pub fn of(&self, digest: u16) -> u16 {
        digest >> self.shift & self.mask
    }
}

/// The hashes of one instance, and its place in the digest.
#[derive(Debug)]
pub struct Instance {
    pub(super) shift: u32,
    pub(super) acts: Global,
    pub(super) values: Global,
    pub(super) layer: Addends,
    /// The argument of `values` that chooses the fragment of a packet.
    pub(super) fragment: Addends,
    pub(super) hops: [Addends; MAX_CODED_HOPS + 1],
    /// The arguments of `acts` that make the vectors' bits, eight hops each.
    pub(super) words: [Addends; WORDS],
}

/// A switch as the codes know it: the hashes of its identifier, of the path one an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coded {
    pub(super) path: Vec<Addends>,
    /// The identifier itself.
    pub(super) id: u32,
    /// What it adds to the checksum of a path, by hop; empty without a checksum.
    pub(super) terms: Vec<u16>,
    /// Of the loop query.
    pub(super) loops: Option<Addends>,
}

impl Instance {
    /// The hashes of a packet at a switch that has this argument and is hop number `hop`.
    #[inline(always)]
    fn hashes(&self, own: Addends, hop: usize, identity: u32) -> InstanceHashes {
        let argument = self.hops.get(hop).copied().unwrap_or_default();
        InstanceHashes {
            layer: self.acts.join(identity, self.layer),
            acts: self.acts.join(identity, argument),
            value: self.values.join(identity, own),
        }
    }
}

impl Code {
    /// The digest behind the switch that is hop number `hop` of the packet's path. Behind more than
    /// [`MAX_HOPS`] the number is not known, and the digest stays.
    #[inline(always)]
    fn encode(&self, switch: &Coded, hop: u8, identity: u32, digest: u16) -> u16 {
        if usize::from(hop) > MAX_HOPS { digest } else { self.encode_at(switch, hop.into(), identity, digest) }
    }

    /// The digest behind hops up to [`MAX_CODED_HOPS`].
    #[inline(always)]
    pub(super) fn encode_at(&self, switch: &Coded, hop: usize, identity: u32, digest: u16) -> u16 {
        match self.is_plain {
            true => self.encode_plain(switch, hop, identity, digest),
            false => self.encode_any(switch, hop, identity, digest),
        }
    }

    /// The digest by a plain code.
    #[inline(always)]
    fn encode_plain(&self, switch: &Coded, hop: usize, identity: u32, digest: u16) -> u16 {
        let mask = self.mask();
        // At the first hop nothing stands in the digest.
        let mut digest = if hop == 1 { 0 } else { digest };
        for (instance, own) in self.instances.iter().zip(&switch.path) {
            let InstanceHashes { layer, acts, value } = instance.hashes(*own, hop, identity);
            let (is_baseline, acts) = self.limits.decide(layer, hop, acts);
            // What is cleared, and what is xored: nothing where the hop does not act.
            let [clears, writes] = [acts & is_baseline, acts].map(|does| u32::from(does).wrapping_neg() & mask);
            digest = digest & !((clears << instance.shift) as u16) ^ ((value & writes) << instance.shift) as u16;
        }
        self.summed(switch, hop, digest)
    }

    /// The digest by any code. Out of line, because a plain code is what most networks have.
    #[inline(never)]
    pub(super) fn encode_any(&self, switch: &Coded, hop: usize, identity: u32, digest: u16) -> u16 {
        // At the first hop nothing stands in the digest.
        let mut digest = if hop == 1 { 0 } else { digest };
        for (instance, hash) in self.instances.iter().zip(&switch.path) {
            let layer = self.layer_of(instance, identity);
            if self.acts_at::<false>(instance, layer, identity, hop) {
                let value = self.value_at::<false>(instance, identity, *hash, switch.id);
                let mask = (self.mask() << instance.shift) as u16;
                let kept = if layer == Layer::Baseline { digest & !mask } else { digest };
                digest = kept ^ (value << instance.shift) as u16;
            }
        }
        self.summed(switch, hop, digest)
    }

    /// The digest with the switch's part of the checksum, if there is one.
    #[inline(always)]
    fn summed(&self, switch: &Coded, hop: usize, digest: u16) -> u16 {
        match (&self.checksum, switch.terms.get(hop)) {
            (Some(checksum), Some(term)) => checksum.add(digest, *term),
            _ => digest,
        }
    }

    /// What a switch writes into an instance of a packet: a hash of its identifier, or the packet's
    /// fragment of it.
    #[inline(always)]
    pub(super) fn value_at<const PLAIN: bool>(
        &self,
        instance: &Instance,
        identity: u32,
        hash: Addends,
        id: u32,
    ) -> u32 {
        let value = match self.fragments.filter(|_| !PLAIN) {
            None => instance.values.join(identity, hash),
            Some(fragments) => fragments.of(id, fragments.number(instance.values.join(identity, instance.fragment))),
        };
        value & self.mask()
    }

    #[inline(always)]
    pub(super) fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    #[inline(always)]
    pub(super) fn layer_of(&self, instance: &Instance, identity: u32) -> Layer {
        self.limits.layer(instance.acts.join(identity, instance.layer))
    }

    #[inline(always)]
    pub(super) fn acts_at<const PLAIN: bool>(
        &self,
        instance: &Instance,
        layer: Layer,
        identity: u32,
        hop: usize,
    ) -> bool {
        let Some(addends) = instance.hops.get(hop) else { return false };
        let hash = instance.acts.join(identity, *addends);
        let vectors = self.vectors.as_ref().filter(|_| !PLAIN);
        let Some(vectors) = vectors else { return self.limits.acts(layer, hop, hash) };
        let (word, bit) = place(hop);
        let Some(addends) = instance.words.get(word) else { return false };
        let candidates = vectors.candidates(layer, word, instance.acts.join(identity, *addends));
        candidates >> bit & 1 == 1 && vectors.limits.acts(layer, hop, hash)
    }
}
