//! What a switch does with a packet: it looks the packet's layer up, compares the hop's hash with the
//! layer's limit, and writes the hash of its identifier. It has no register and no state of a flow.

use crate::pisa::hash::{Addends, Global, HashFamily};

/// Maximum number of switches on a path: the shim counts hops up to 63, and a count that stays
/// there means as many or more.
pub const MAX_HOPS: usize = 62;

/// The layers as a switch compares hashes with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest layer hash of each layer, the baseline first.
    pub(super) layers: Vec<u32>,
    /// The largest hash with which a hop acts in each xor layer.
    pub(super) xor: Vec<u32>,
    /// The largest hash with which a hop acts in the baseline layer, by hop.
    pub(super) hops: [u32; MAX_HOPS + 1],
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

    #[inline(always)]
    pub fn acts(&self, layer: Layer, hop: usize, hash: u32) -> bool {
        let limit = match layer {
            Layer::Baseline => self.hops.get(hop),
            Layer::Xor(layer) => self.xor.get(layer),
        };
        limit.is_some_and(|limit| hash <= *limit)
    }
}

/// The code of a network: all of its switches and what decodes have the same.
#[derive(Debug)]
pub struct Code {
    /// Bits of an instance.
    pub(super) bits: u32,
    pub(super) limits: Limits,
    pub(super) instances: Vec<Instance>,
    pub(super) family: HashFamily,
}

/// The hashes of one instance, and its place in the digest.
#[derive(Debug)]
pub(super) struct Instance {
    pub shift: u32,
    pub acts: Global,
    pub values: Global,
    pub layer: Addends,
    pub hops: [Addends; MAX_HOPS + 1],
}

/// A switch as the code knows it: the hashes of its identifier, one an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded(pub(super) Vec<Addends>);

impl Code {
    /// The digest behind the switch that is hop number `hop` of the packet's path.
    #[inline(always)]
    pub fn encode(&self, switch: &Coded, hop: u8, identity: u32, digest: u16) -> u16 {
        // At the first hop nothing stands in the digest.
        let mut digest = if hop == 1 { 0 } else { digest };
        for (instance, value) in self.instances.iter().zip(&switch.0) {
            let mask = self.mask() << instance.shift;
            let packet = instance.values.packet(&identity.to_be_bytes());
            let value = (instance.values.join(packet, *value) & self.mask()) << instance.shift;
            let (layer, packet) = self.layer_of(instance, identity);
            if self.acts_at(instance, layer, packet, hop.into()) {
                let kept = if layer == Layer::Baseline { digest & !(mask as u16) } else { digest };
                digest = kept ^ value as u16;
            }
        }
        digest
    }

    #[inline(always)]
    pub(super) fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    #[inline(always)]
    pub(super) fn layer_of(&self, instance: &Instance, identity: u32) -> (Layer, u32) {
        let packet = instance.acts.packet(&identity.to_be_bytes());
        (self.limits.layer(instance.acts.join(packet, instance.layer)), packet)
    }

    #[inline(always)]
    pub(super) fn acts_at(&self, instance: &Instance, layer: Layer, packet: u32, hop: usize) -> bool {
        let Some(addends) = instance.hops.get(hop) else { return false };
        self.limits.acts(layer, hop, instance.acts.join(packet, *addends))
    }
}
