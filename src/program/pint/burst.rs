//! The packets of a burst whose digests a switch writes, column by column, on CPUs that hash many
//! at a time. Digests are the same as packet by packet.

use super::dataplane::{CarriedSet, Code, Coded, Instance, Part, Scheme};
use super::encoding::DIGEST_BITS;
use super::hops::Bits;
use super::query::Value;
use super::values::dataplane::ValueCode;
use super::values::{Aggregation, MAX_CODES};
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
    /// The fewest packets that take less time together than one by one.
    pub least: usize,
}

impl BurstHashes {
    /// `None` where the CPU hashes packets one by one.
    pub fn new(scheme: &Scheme) -> Option<Self> {
        let set = BurstGlobal::new(&scheme.chooses)?;
        let least = set.least();
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
        Some(Self { set, instances, codes, roundings, least })
    }
}

/// Packets of a burst, and their hashes, a column each. What stands behind the last packet is of no
/// meaning.
pub struct Columns {
    number: usize,
    /// The place of each in the burst.
    places: [u8; BATCH],
    identities: Words,
    hops: [u8; BATCH],
    digests: Words,
    /// The hop of all of them, as at an edge where all come from hosts.
    sole_hop: Option<u8>,
    /// Room for the hops' arguments of one hash.
    pairs: Pairs,
    /// The hashes that choose the queries, and of a set of queries all ones for the packets that carry it.
    set: Words,
    members: Words,
    /// Of each instance of the path: layer, g, h.
    instances: [[Words; 3]; DIGEST_BITS as usize],
    codes: [Words; MAX_CODES],
    roundings: [Words; DIGEST_BITS as usize],
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            number: 0,
            places: [0; BATCH],
            identities: Words::default(),
            hops: [0; BATCH],
            digests: Words::default(),
            sole_hop: None,
            pairs: Pairs::default(),
            set: Words::default(),
            members: Words::default(),
            instances: [[Words::default(); 3]; DIGEST_BITS as usize],
            codes: [Words::default(); MAX_CODES],
            roundings: [Words::default(); DIGEST_BITS as usize],
        }
    }
}

impl Columns {
    /// Takes these packets of a burst of at most [`BATCH`], a bit each, whose hops are counted.
    #[inline(always)]
    pub fn take(&mut self, phvs: &[Phv], packets: u64) {
        let Self { number, places, identities, hops, digests, sole_hop, .. } = self;
        let rooms = identities.as_flattened_mut().iter_mut().zip(digests.as_flattened_mut());
        let rooms = rooms.zip(places).zip(hops.iter_mut());
        *number = 0;
        for (place, (((identity, digest), at), room)) in Bits(packets).zip(rooms) {
            let Some(phv) = phvs.get(place) else { break };
            let hop = phv.shim.hop();
            (*identity, *room, *at) = (phv.identity, hop, place as u8);
            // At the first hop nothing stands in the digest.
            *digest = if hop == 1 { 0 } else { phv.digest.into() };
            *number += 1;
        }
        let first = hops[0];
        let is_sole = hops.iter().take(*number).fold(true, |sole, hop| sole & (*hop == first));
        *sole_hop = is_sole.then_some(first);
    }

    /// The packets' places in the burst, and their digests.
    #[inline(always)]
    pub fn digests(&self) -> impl Iterator<Item = (usize, u16)> {
        let digests = self.digests.as_flattened().iter().map(|digest| *digest as u16);
        self.places.iter().map(|place| usize::from(*place)).zip(digests).take(self.number)
    }

    /// Writes the digests of the packets by the plan of these hash units, at the switch that has these
    /// hashes of its own. `value` is the value of the packet at a place of the burst.
    #[inline(always)]
    pub fn encode(&mut self, units: &BurstHashes, scheme: &Scheme, own: &Coded, value: impl Fn(usize, Value) -> u64) {
        self.hash(units, scheme, own);
        let mut before = None;
        for set in &scheme.sets {
            self.find_members(before.replace(set.last), set, scheme);
            for part in &set.parts {
                match (part.value, &scheme.path, scheme.values.get(part.code)) {
                    (Value::Path, Some(path), _) if path.is_plain => self.encode_path(part, path, own),
                    (Value::Path, Some(path), _) => self.encode_any_path(part, path, own),
                    // Of loops see `Scheme::check_loop`.
                    (Value::Path | Value::Loops, ..) | (_, _, None) => {}
                    (of, _, Some(code)) => self.encode_value(part, code, |place| value(place, of)),
                }
            }
        }
    }

    #[inline(always)]
    fn hash(&mut self, units: &BurstHashes, scheme: &Scheme, own: &Coded) {
        let Self { number, identities, hops, sole_hop, pairs, set, instances, codes, roundings, .. } = self;
        let packets = Packets { identities, hops: &hops[..*number], sole_hop: *sole_hop };
        let number = *number;
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
    }

    /// Finds the packets that carry a set of queries, by the last hash of the set before it.
    #[inline(always)]
    fn find_members(&mut self, before: Option<u32>, set: &CarriedSet, scheme: &Scheme) {
        if scheme.sets.len() == 1 {
            self.members = [[u32::MAX; 16]; BATCH / 16];
            return;
        }
        for (members, hashes) in self.members.iter_mut().zip(&self.set) {
            for (member, hash) in members.iter_mut().zip(hashes) {
                let is_member = *hash <= set.last && before.is_none_or(|before| *hash > before);
                *member = u32::from(is_member).wrapping_neg();
            }
        }
    }

    /// The path's part of digests by a plain code.
    #[inline(always)]
    fn encode_path(&mut self, part: &Part, path: &Code, own: &Coded) {
        let (limits, mask) = (&path.limits, path.mask());
        // The baseline layer's limits.
        let baselines = self.of_hops(|hop| limits.hops[usize::from(hop)]);
        let Self { number, digests, members, instances, .. } = self;
        for (instance, [layers, acts, values]) in path.instances.iter().zip(instances) {
            let shift = part.shift + instance.shift;
            let rows = digests.iter_mut().zip(layers).zip(acts).zip(values).zip(&*members).zip(&baselines);
            for (((((digests, layers), acts), values), members), baselines) in rows.take(number.div_ceil(16)) {
                let (mut numbers, mut limit) = ([0; 16], *baselines);
                for end in &limits.layers {
                    for (number, layer) in numbers.iter_mut().zip(&*layers) {
                        *number += u32::from(*layer > *end);
                    }
                }
                for (layer, xor) in (1..).zip(&limits.xor) {
                    for (limit, number) in limit.iter_mut().zip(&numbers) {
                        *limit = if *number == layer { *xor } else { *limit };
                    }
                }
                for at in 0..16 {
                    // What is cleared, and what is xored: nothing where the hop does not act.
                    let writes = if acts[at] <= limit[at] { members[at] & mask } else { 0 };
                    let clears = if numbers[at] == 0 { writes } else { 0 };
                    digests[at] = digests[at] & !(clears << shift) ^ (values[at] & writes) << shift;
                }
            }
        }
        if let Some(checksum) = &path.checksum {
            self.rewrite(part, self.bits_of_members(), |hop, _, before| {
                own.terms.get(usize::from(hop)).map_or(before, |term| checksum.add(before, *term))
            });
        }
    }

    /// The same by any other code.
    #[inline(always)]
    fn encode_any_path(&mut self, part: &Part, path: &Code, own: &Coded) {
        let members = self.bits_of_members();
        self.rewrite(part, members, |hop, identity, before| path.encode_any(own, hop.into(), identity, before));
    }

    /// A value's part of digests. Where a hop's own value stands alone, only the packets on which it acts
    /// need the value.
    #[inline(always)]
    fn encode_value(&mut self, part: &Part, code: &ValueCode, value: impl Fn(usize) -> u64) {
        let aggregation = code.query.aggregation;
        let replaces = matches!(aggregation, Aggregation::Quantiles | Aggregation::Frequent);
        let packets = if replaces { self.bits_of_acting(part, code) } else { self.bits_of_members() };
        for at in Bits(packets) {
            let (word, lane) = (at / 16 % (BATCH / 16), at % 16);
            let rounding = self.roundings[code.instance % DIGEST_BITS as usize][word][lane];
            let (identity, hop) = (self.identities[word][lane], usize::from(self.hops[at % BATCH]));
            let value = value(self.places[at % BATCH].into());
            let digest = &mut self.digests[word][lane];
            let after = match replaces {
                true => code.own(value, rounding),
                false => code.aggregate((hop, identity), value, rounding, part.of(*digest as u16)),
            };
            *digest = part.set(*digest as u16, after).into();
        }
    }

    /// The members on which the hop acts by this code.
    #[inline(always)]
    fn bits_of_acting(&self, part: &Part, code: &ValueCode) -> u64 {
        let limits = self.of_hops(|hop| code.limits.get(usize::from(hop)).copied().unwrap_or_default());
        let mut acting = Words::default();
        let Some(codes) = self.codes.get(part.code) else { return 0 };
        let rows = acting.iter_mut().zip(codes).zip(&limits).zip(&self.members);
        for (((acting, hashes), limits), members) in rows {
            for at in 0..16 {
                acting[at] = if hashes[at] <= limits[at] { members[at] } else { 0 };
            }
        }
        bits(&acting, self.number)
    }

    #[inline(always)]
    fn bits_of_members(&self) -> u64 {
        bits(&self.members, self.number)
    }

    /// A number of the hop of each packet.
    #[inline(always)]
    fn of_hops(&self, of: impl Fn(u8) -> u32) -> Words {
        if let Some(hop) = self.sole_hop {
            return [[of(hop); 16]; BATCH / 16];
        }
        let mut words = Words::default();
        words.as_flattened_mut().iter_mut().zip(&self.hops).for_each(|(word, hop)| *word = of(*hop));
        words
    }

    /// Rewrites a part of the digests of these packets, by their hops, identities and what it was.
    #[inline(always)]
    fn rewrite(&mut self, part: &Part, packets: u64, with: impl Fn(u8, u32, u16) -> u16) {
        for at in Bits(packets) {
            let (word, lane) = (at / 16 % (BATCH / 16), at % 16);
            let digest = &mut self.digests[word][lane];
            let after = with(self.hops[at % BATCH], self.identities[word][lane], part.of(*digest as u16));
            *digest = part.set(*digest as u16, after).into();
        }
    }
}

/// Packets that are hashed with the arguments of their hops.
struct Packets<'a> {
    identities: &'a Words,
    hops: &'a [u8],
    sole_hop: Option<u8>,
}

impl Packets<'_> {
    #[inline(always)]
    fn by_hop(&self, unit: &BurstGlobal, argument: impl Fn(u8) -> Addends, pairs: &mut Pairs, out: &mut Words) {
        let number = self.hops.len();
        if let Some(hop) = self.sole_hop {
            return unit.of_packets(self.identities, number, argument(hop), out);
        }
        for (place, hop) in self.hops.iter().enumerate() {
            set_pair(pairs, place, argument(*hop));
        }
        unit.of_pairs(self.identities, number, pairs, out);
    }
}

/// A bit for each of the first `number` words that is not 0.
#[inline(always)]
fn bits(words: &Words, number: usize) -> u64 {
    let all = words.as_flattened().iter().enumerate();
    let bits = all.fold(0, |bits, (at, word)| bits | u64::from(*word != 0) << at);
    bits & u64::MAX.checked_shr(BATCH.saturating_sub(number) as u32).unwrap_or(0)
}
