//! The hashes of all packets of a burst, computed together before digests are written, on CPUs that
//! take sixteen at a time. Digests are the same as packet by packet.

use super::dataplane::{Coded, Hashes, Instance, InstanceHashes, Scheme};
use super::encoding::DIGEST_BITS;
use super::sample::Sample;
use super::values::MAX_CODES;
use super::values::dataplane::ValueCode;
use crate::pisa::hash::Addends;
use crate::pisa::hash::burst::{BurstGlobal, Pairs, Words, set_pair};
use crate::pisa::{BATCH, Phv};

/// The hash units of a plan in the form for bursts.
#[derive(Debug)]
pub struct BurstHashes {
    /// Where packets carry several sets of queries.
    set: Option<BurstGlobal>,
    /// Of each instance of a plain path code: layer and g, and h.
    instances: Vec<[BurstGlobal; 2]>,
    /// Of each instance of each other code.
    codes: Vec<BurstGlobal>,
    /// By which the instances of all these codes round, and the argument, by the instance's number.
    roundings: Vec<(BurstGlobal, Addends)>,
}

impl BurstHashes {
    /// `None` where the CPU hashes packets one by one.
    pub fn new(scheme: &Scheme) -> Option<Self> {
        let set = BurstGlobal::new(&scheme.chooses)?;
        let set = (scheme.sets() > 1).then_some(set);
        let instance =
            |instance: &Instance| Some([BurstGlobal::new(&instance.acts)?, BurstGlobal::new(&instance.values)?]);
        let path = scheme.path.as_ref().filter(|path| path.is_plain);
        let instances = path.map_or(Some(Vec::new()), |path| path.instances.iter().map(instance).collect())?;
        let codes = scheme.values.iter().map(|code| BurstGlobal::new(&code.acts)).collect::<Option<_>>()?;
        let number = scheme.values.iter().map(|code| code.instance + 1).max().unwrap_or_default();
        let of_number = |number| scheme.values.iter().find(|code| code.instance == number);
        let rounding = |code: &ValueCode| Some((BurstGlobal::new(&code.rounds)?, code.hops[0][1]));
        let roundings = (0..number).map(|number| rounding(of_number(number)?)).collect::<Option<_>>()?;
        Some(Self { set, instances, codes, roundings })
    }
}

/// The hashes of a burst.
pub struct HashedBurst {
    identities: Words,
    hops: [u8; BATCH],
    /// Room for the hops' arguments of one hash.
    pairs: Pairs,
    set: Words,
    /// Of each instance: layer, g, h.
    instances: [[Words; 3]; DIGEST_BITS as usize],
    codes: [Words; MAX_CODES],
    roundings: [Words; DIGEST_BITS as usize],
    /// The hashes that choose reports, if they have been computed.
    samples: Words,
    sampled: bool,
}

impl Default for HashedBurst {
    fn default() -> Self {
        Self {
            identities: Words::default(),
            hops: [0; BATCH],
            pairs: Pairs::default(),
            set: Words::default(),
            instances: [[Words::default(); 3]; DIGEST_BITS as usize],
            codes: [Words::default(); MAX_CODES],
            roundings: [Words::default(); DIGEST_BITS as usize],
            samples: Words::default(),
            sampled: false,
        }
    }
}

impl HashedBurst {
    /// Hashes the packets of a burst, of at most [`BATCH`], by the plan of these hash units and at the
    /// switch that has these hashes of its own; where reports are chosen, by that hash as well.
    #[inline(always)]
    pub fn hash(
        &mut self,
        units: &BurstHashes,
        (scheme, own): (&Scheme, &Coded),
        chosen_by: Option<&Sample>,
        phvs: &[Phv],
    ) {
        let Self { identities, hops, pairs, set, instances, codes, roundings, samples, sampled } = self;
        let number = phvs.len().min(BATCH);
        let rooms = identities.as_flattened_mut().iter_mut().zip(hops.iter_mut());
        for (phv, (identity, hop)) in phvs.iter().zip(rooms) {
            (*identity, *hop) = (phv.identity, phv.shim.hop());
        }
        let packets = Packets::new(identities, &hops[..number]);
        if let Some(unit) = &units.set {
            unit.of_packets(identities, number, scheme.set, set);
        }
        if let Some(path) = &scheme.path {
            let of = units.instances.iter().zip(&path.instances).zip(&own.path);
            for ((([acts, values], instance), own), [layer, g, h]) in of.zip(instances) {
                acts.of_packets(identities, number, instance.layer, layer);
                packets.by_hop(acts, |hop| instance.hops[usize::from(hop)], pairs, g);
                values.of_packets(identities, number, *own, h);
            }
        }
        for ((unit, code), out) in units.codes.iter().zip(&scheme.values).zip(codes) {
            packets.by_hop(unit, |hop| code.argument(hop.into()), pairs, out);
        }
        for ((unit, argument), out) in units.roundings.iter().zip(roundings) {
            unit.inner_of_packets(identities, number, *argument, out);
        }
        *sampled = chosen_by.is_some_and(|sample| sample.hash_burst(identities, number, samples));
    }

    /// The hashes of the packet at this place.
    #[inline(always)]
    pub fn at(&self, place: usize) -> HashedPacket<'_> {
        HashedPacket { burst: self, place: place & (BATCH - 1) }
    }
}

/// The packets of a burst, and the hop of each.
struct Packets<'a> {
    identities: &'a Words,
    hops: &'a [u8],
    /// The hop of all of them, as at an edge where all come from hosts.
    sole: Option<u8>,
}

impl<'a> Packets<'a> {
    #[inline(always)]
    fn new(identities: &'a Words, hops: &'a [u8]) -> Self {
        let first = hops.first().copied().unwrap_or_default();
        let sole = hops.iter().fold(true, |sole, hop| sole & (*hop == first)).then_some(first);
        Self { identities, hops, sole }
    }

    /// Hashes each packet with the argument of its hop.
    #[inline(always)]
    fn by_hop(&self, unit: &BurstGlobal, argument: impl Fn(u8) -> Addends, pairs: &mut Pairs, out: &mut Words) {
        let number = self.hops.len();
        if let Some(hop) = self.sole {
            return unit.of_packets(self.identities, number, argument(hop), out);
        }
        for (place, hop) in self.hops.iter().enumerate() {
            set_pair(pairs, place, argument(*hop));
        }
        unit.of_pairs(self.identities, number, pairs, out);
    }
}

/// A packet's hashes among those of its burst.
#[derive(Clone, Copy)]
pub struct HashedPacket<'a> {
    burst: &'a HashedBurst,
    place: usize,
}

impl HashedPacket<'_> {
    /// The hash that says whether a sink reports it, if it has been computed.
    #[inline(always)]
    pub fn sample(self) -> Option<u32> {
        self.burst.sampled.then(|| self.of(&self.burst.samples))
    }

    #[inline(always)]
    fn of(self, words: &Words) -> u32 {
        words[self.place / 16][self.place % 16]
    }
}

impl Hashes for HashedPacket<'_> {
    #[inline(always)]
    fn set(&self) -> u32 {
        self.of(&self.burst.set)
    }

    #[inline(always)]
    fn instance(&self, number: usize, _: &Instance) -> InstanceHashes {
        let [layer, acts, value] = &self.burst.instances[number % DIGEST_BITS as usize];
        InstanceHashes { layer: self.of(layer), acts: self.of(acts), value: self.of(value) }
    }

    #[inline(always)]
    fn acts(&self, number: usize, _: &ValueCode) -> u32 {
        self.of(&self.burst.codes[number % MAX_CODES])
    }

    #[inline(always)]
    fn rounding(&self, code: &ValueCode) -> u32 {
        self.of(&self.burst.roundings[code.instance % DIGEST_BITS as usize])
    }
}
