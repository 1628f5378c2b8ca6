//! The code by which the switches of a path write their identifiers into the digests of many
//! packets, without a word between them: layers, and global hashes that say which hops act (§4.2,
//! Algorithm 1).
//!
//! ```text
//! layer  = L(packet)                    baseline with probability τ, else one of the xor layers
//! acts   = g(packet, hop) < 1 / hop     in the baseline layer: the last hop that acts is uniform
//!          g(packet, hop) < p           in an xor layer
//! value  = h(switch, packet)            `bits` bits; written over the digest, or xored onto it
//! ```
//! With `acts=vectors` bit vectors of the packet draw the hops that act, with the same probabilities
//! ([`vectors`]).
//!
//! The packets of queries for other values of hops are all of one baseline layer, and carry codes of
//! these values; on those of queries for a value of the whole way every hop acts
//! ([`values`](super::values)).
//!
//! Behind the instances there may be a checksum of the path, a sum to which each switch adds a hash of
//! its identifier and of its hop. It tells packets of several paths of one flow apart (§7).
//!
//! With fragments, `value` is a part of the switch's identifier itself, the same part at all hops of a
//! packet: h(packet) says which of them.
//!
//! Several instances stand side by side in the digest, the first one in its lowest bits. They share
//! no hash. What a switch does with a packet is in [`dataplane`](super::dataplane); here the code is
//! made and read.

use std::sync::OnceLock;

use super::dataplane::{Checksum, Code, Coded, Fragments, Instance, Limits, MAX_CODED_HOPS};
use super::hashes;
use super::hops::Hops;
use super::reading::Reading;
use super::vectors::{self, dataplane::Vectors};
use crate::pisa::hash::{Global, HashFamily, INIT, Polynomial, XOROUT, bitwise};

/// Bits of the digest that a packet carries.
pub const DIGEST_BITS: u32 = 16;

/// Bits of a switch's identifier.
pub const ID_BITS: u32 = 32;

/// Maximum number of xor layers.
pub const MAX_XOR_LAYERS: usize = 4;

/// How packets are shared out between layers, and the probabilities of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// Probability τ of the baseline layer.
    pub baseline: f64,
    /// The probability with which a hop acts on a packet of each xor layer. The layers have equal
    /// shares of the other packets.
    pub xor: Vec<f64>,
}

impl Layers {
    /// The baseline layer alone: a coupon collector.
    pub fn baseline() -> Self {
        Self { baseline: 1.0, xor: Vec::new() }
    }

    /// The layers of Algorithm 1, with the share of the baseline layer that §A.3 gives, for paths
    /// of about `length` switches.
    pub fn of_paper(length: u32) -> Self {
        let length = f64::from(length.max(2));
        let rest = length / iterated_logarithm(length);
        let share = iterated_logarithm(length).ln();
        let layers = (iterated_logarithm(rest).ceil() as usize).clamp(1, MAX_XOR_LAYERS);
        let powers = std::iter::successors(Some(1.0), |power: &f64| Some(power.exp()));
        let xor = powers.take(layers).map(|power| (power / rest).min(1.0)).collect();
        Self { baseline: (1.0 + share) / (2.0 + share), xor }
    }

    /// The layers with which hashes of this number of bits decode paths of about `length` switches from few
    /// packets, by simulation (docs/pint.md).
    ///
    /// The fewer bits a digest has, the less it says before all its hops but one are known: with one bit
    /// nothing. So the baseline's share goes from 3/4 with one bit to 3/8 with eight; as a multiple of
    /// 1/16 it takes three entries of a TCAM at most. In an xor layer four hops of the path act on
    /// average. On paths of more than 30 switches two layers with 3 and 12 such hops take fewer packets at
    /// the 99th percentile and depend less on the length, but for one bit.
    pub fn of_length(length: u32, bits: u32) -> Self {
        let is_long = length > 30;
        let baseline = match bits {
            0 | 1 if is_long => 0.6875,
            0 | 1 => 0.75,
            2 | 3 => 0.625,
            4..=7 => 0.5,
            _ => 0.375,
        };
        let acting: &[f64] = match bits {
            _ if !is_long => &[4.2],
            0 | 1 => &[4.4],
            _ => &[3.0, 12.0],
        };
        let probability = |hops: &f64| (hops / f64::from(length.max(1))).min(0.6);
        Self { baseline, xor: acting.iter().map(probability).collect() }
    }

    /// The interleaved scheme of Figure 5: one xor layer, and the baseline for three packets of
    /// four.
    pub fn interleaved(length: u32) -> Self {
        let log = f64::from(length.max(2)).ln();
        let p = if length <= 15 { 1.0 / log } else { log.ln() / log };
        Self { baseline: 0.75, xor: vec![p.min(1.0)] }
    }
}

/// How often the natural logarithm is taken until the result is at most 1; at least 1.
fn iterated_logarithm(of: f64) -> f64 {
    std::iter::successors(Some(of), |x| Some(x.ln())).take_while(|x| *x > 1.0).count().max(1) as f64
}

/// The first bits of a hash that are compared: with a layer's end, and with the limit of a hop. A
/// range of these is few enough entries of a TCAM, so that one match finds whether a hop acts and how
/// ([`usage`](super::replica)). Hops are still drawn alike within one part in 500 up to hop number
/// 256, and within one in 2000 up to number 62.
pub(super) const LAYER_BITS: u32 = 8;
pub(super) const HOP_BITS: u32 = 16;

/// The largest hash with which something of this probability happens, as a number of the hash's
/// first `bits` bits.
fn limit(probability: f64, bits: u32) -> u32 {
    let whole = 1u64 << bits;
    let number = ((probability * whole as f64).round() as u64).clamp(1, whole);
    ((number << (u32::BITS - bits)) - 1) as u32
}

impl Limits {
    pub fn new(layers: &Layers) -> Self {
        let number = layers.xor.len();
        let end = |layer: usize| layers.baseline + (1.0 - layers.baseline) * layer as f64 / number.max(1) as f64;
        let mut ends: Vec<_> = (0..=number).map(|layer| limit(end(layer), LAYER_BITS)).collect();
        // Each hash has a layer, whatever the rounding.
        ends[number] = u32::MAX;
        Self { layers: ends, xor: layers.xor.iter().map(|p| limit(*p, HOP_BITS)).collect(), hops: reservoir() }
    }
}

impl Code {
    /// `instances` of `bits` bits each, together at most [`DIGEST_BITS`].
    pub fn new(bits: u32, instances: u32, layers: &Layers, family: &HashFamily) -> Self {
        let bits = bits.clamp(1, DIGEST_BITS);
        let instance = |number: u32| {
            let acts = Global::of(&hashes::acts(number), family);
            let argument = |hop: usize| acts.argument(&(hop as u32).to_be_bytes());
            // No switch is hop 0, so its argument is free for the layer.
            let (layer, hops) = (argument(0), std::array::from_fn(argument));
            let values = Global::of(&hashes::values(number), family);
            let fragment = values.argument(&[0; 4]);
            let words = std::array::from_fn(|word| acts.argument(&vectors::argument(word).to_be_bytes()));
            Instance { shift: number * bits, acts, values, layer, fragment, hops, words }
        };
        let instances = (0..instances.clamp(1, DIGEST_BITS / bits)).map(instance).collect();
        let limits = Limits::new(layers);
        let family = family.clone();
        Self {
            bits,
            limits,
            instances,
            checksum: None,
            fragments: None,
            vectors: None,
            is_plain: true,
            reading: OnceLock::new(),
            family,
        }
    }

    /// With fragments of identifiers in place of hashes, where the bits of an instance are a power of
    /// two. A recorder of such digests needs no list of the switches.
    #[must_use]
    pub fn with_fragments(self) -> Self {
        let width_log = self.bits.trailing_zeros();
        let fragments = Fragments { number_bits: ID_BITS.trailing_zeros() - width_log, width_log };
        let fragments = self.bits.is_power_of_two().then_some(fragments);
        Self { fragments, is_plain: self.is_plain && fragments.is_none(), ..self }
    }

    /// With hops that are drawn by bit vectors in place of one hash each.
    #[must_use]
    pub fn with_vectors(self) -> Self {
        let vectors = Some(Box::new(Vectors::new(&self.limits)));
        Self { vectors, is_plain: false, reading: OnceLock::new(), ..self }
    }

    /// Fragments of an identifier, each in packets of its own; 1 where packets carry hashes.
    pub fn fragments(&self) -> usize {
        self.fragments.map_or(1, |fragments| 1 << fragments.number_bits)
    }

    /// Whether packets carry fragments of identifiers.
    pub fn is_fragmented(&self) -> bool {
        self.fragments.is_some()
    }

    /// With a checksum of the path, of this number of bits above the instances; 0 without one.
    #[must_use]
    pub fn with_checksum(self, bits: u32) -> Self {
        let shift = self.bits * self.instances.len() as u32;
        let bits = bits.min(DIGEST_BITS - shift);
        let terms = || Global::of(&hashes::checksum(), &self.family);
        let checksum = (bits > 0).then(|| Checksum { shift, mask: u16::MAX >> (DIGEST_BITS - bits), terms: terms() });
        Self { checksum, ..self }
    }

    /// Whether packets carry a checksum of their path.
    pub fn has_checksum(&self) -> bool {
        self.checksum.is_some()
    }

    /// The checksum that a packet carries in the path's part of its digest.
    pub fn checksum(&self, digest: u16) -> Option<u16> {
        self.checksum.as_ref().map(|checksum| checksum.of(digest))
    }

    /// The checksum of a path.
    pub fn checksum_of(&self, path: &[Coded]) -> Option<u16> {
        let terms = (1..).zip(path).filter_map(|(hop, switch): (usize, _)| switch.terms.get(hop));
        let checksum = self.checksum.as_ref()?;
        Some(checksum.of(terms.fold(0, |digest, term| checksum.add(digest, *term))))
    }

    /// Bits of an instance.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Number of instances.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// The hashes of a switch with this identifier.
    pub fn switch(&self, id: u32) -> Coded {
        let hashes = self.instances.iter().map(|instance| instance.values.argument(&id.to_be_bytes()));
        let terms = self.checksum.iter().flat_map(|Checksum { terms, .. }| {
            (0..=MAX_CODED_HOPS as u32).map(move |hop| terms.join(id, terms.argument(&hop.to_be_bytes())) as u16)
        });
        Coded { path: hashes.collect(), id, terms: terms.collect(), loops: None }
    }

    /// The digest behind the last switch of a path.
    pub fn digest(&self, path: &[Coded], identity: u32) -> u16 {
        (1..).zip(path).fold(0, |digest, (hop, switch)| self.encode_at(switch, hop, identity, digest))
    }

    /// Who wrote an instance's part of a digest, and what, after a path of `length` switches.
    pub fn read(&self, instance: usize, length: usize, identity: u32, digest: u16) -> Option<Observed> {
        let hashes = self.instances.get(instance)?;
        let reading = self.reading.get_or_init(|| Reading::of(self));
        let hops = reading.get(instance)?.hops(self, hashes, identity, length);
        let value = u32::from(digest) >> hashes.shift & self.mask();
        Some(Observed { instance, hops, value, identity })
    }

    /// What a switch writes into the instance of a packet that [`Self::read`] has looked at.
    #[inline(always)]
    pub fn value(&self, observed: &Observed, switch: &Coded) -> u32 {
        let (instance, hash) = (&self.instances[observed.instance], switch.path[observed.instance]);
        self.value_at::<false>(instance, observed.identity, hash, switch.id)
    }

    /// The number of the fragment that the instance of a packet holds; 0 where packets carry hashes.
    pub fn fragment(&self, observed: &Observed) -> usize {
        let instance = &self.instances[observed.instance];
        let hash = || instance.values.join(observed.identity, instance.fragment);
        self.fragments.map_or(0, |fragments| fragments.number(hash()) as usize)
    }

    /// Puts a fragment of an identifier in its place.
    pub fn place(&self, fragment: usize, value: u32) -> u32 {
        value << (fragment as u32 * self.bits)
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        let checksum = |code: &Self| code.checksum.as_ref().map(|checksum| checksum.mask);
        let shape =
            |code: &Self| (code.bits, code.instances.len(), code.fragments, code.vectors.is_some(), checksum(code));
        shape(self) == shape(other) && self.limits == other.limits && self.family == other.family
    }
}

/// The largest hash with which a hop acts in a baseline layer, by hop: with 1 / hop the last hop
/// that acts is uniform (reservoir sampling).
pub(super) fn reservoir<const N: usize>() -> [u32; N] {
    std::array::from_fn(|hop| limit(1.0 / hop.max(1) as f64, HOP_BITS))
}

/// A switch's identifier: the CRC-32 of its name, in one polynomial that all know.
pub fn switch_id(name: &str) -> u32 {
    bitwise::crc(Polynomial::STANDARD[0], INIT, XOROUT, name.as_bytes())
}

/// One instance's part of a packet's digest, as the sink reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    pub(super) instance: usize,
    /// The hops that wrote it.
    pub hops: Hops,
    /// The xor of what they wrote.
    pub value: u32,
    pub(super) identity: u32,
}
