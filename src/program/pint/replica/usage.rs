//! What PINT takes of the hardware.

use std::collections::BTreeSet;

use crate::pisa::hash::HashLayout;
use crate::pisa::{
    Added, ChipForm, ChipStep, Computation, HashUse, Layout, LookupUse, Side, StageUse, StepTable, range_entries,
};
use crate::program::pint::Pint;
use crate::program::pint::compress::{Compression, EXPONENT_BITS, MANTISSA_BITS};
use crate::program::pint::dataplane::{Code, MAX_HOPS, Part, Scheme};
use crate::program::pint::encoding::{HOP_BITS, LAYER_BITS};
use crate::program::pint::hashes;
use crate::program::pint::loops::dataplane::LoopCode;
use crate::program::pint::loops::record::Looped;
use crate::program::pint::query::Value;
use crate::program::pint::record::Room;
use crate::program::pint::sample::Sampled;
use crate::program::pint::values::Aggregation;
use crate::program::pint::values::dataplane::{Codes, ValueCode};
use crate::program::{Program, ReportBuffer};

/// The hash that rounds the codes of values, alike at all hops.
pub const ROUNDING: &str = "rounding";

/// The hash of a packet to which all others add their arguments.
const IDENTITY: &str = "identity";

/// The bits of a part of a latency's code that are the code.
const WHOLE_STEPS: &str = "whole steps of a code";

/// The match that finds which queries a packet carries.
const SET: &str = "set of queries";

/// The tables that a latency's code is looked up in: its highest bit, and the bits behind that.
const EXPONENT: &str = "exponent of latency";
const CODES: &str = "codes of latency";

/// Bits of the number of a hop, of a set of queries, of a fragment and of the loop counter.
const NUMBER_BITS: u32 = 6;
const SET_BITS: u32 = 3;
const FRAGMENT_BITS: u32 = 5;
const COUNTER_BITS: u32 = 2;

/// Of a plan, with the stages that utilisations take.
pub fn of(scheme: Option<&Scheme>, ports: Option<Vec<StageUse>>, limit: u32, room: Room) -> Layout {
    let reports = vec![Sampled::usage(limit), ReportBuffer::<Looped>::usage(room.loops as u32)];
    let mut chains = scheme.map_or_else(Vec::new, |scheme| Chains::new(scheme, ports).all);
    // One identity serves all chains; a constant is added to it for each hash.
    if let Some([first, ..]) = chains.first_mut().map(Vec::as_mut_slice) {
        first.hashes.insert(0, hash(IDENTITY, 32, Added::Constant, &hashes::identity()));
        // The addresses are joined first.
        first.chip = ChipForm::behind_steps(vec![ChipStep::actions()]);
    }
    let layout = chains.into_iter().fold(Layout::new(Pint::NAME), |layout, chain| layout.with(Side::Egress, chain));
    Layout {
        other_hashes: scheme.map_or_else(|| vec![hashes::sample()], other_hashes),
        reads: reads(scheme),
        writes: &["digest", "shim.hop", "shim.loops"],
        reports,
        ..layout
    }
}

/// Hashes that no stage computes: which packets are reported; those of the switch alone; and those
/// that the hash units of a value's code have and do not use.
fn other_hashes(scheme: &Scheme) -> Vec<HashLayout> {
    let path = scheme.path().filter(|path| path.has_checksum()).map(|_| hashes::checksum());
    let of_code = |code: &ValueCode| {
        [hashes::code(code.query.value, code.instance as u32), hashes::rounding(code.instance as u32)]
    };
    [hashes::sample(), hashes::plan()].into_iter().chain(path).chain(scheme.values().iter().flat_map(of_code)).collect()
}

/// Fields that the queries of a plan read.
fn reads(scheme: Option<&Scheme>) -> Vec<&'static str> {
    let of_value = |value: Value| match value {
        Value::Path | Value::Loops => &["switch"][..],
        Value::Latency => &["phv.latency_ns"],
        Value::Queue => &["phv.queue_depth"],
        Value::Congestion => &["phv.queue_used"],
        Value::IngressPort => &["phv.ingress"],
        Value::EgressPort => &["phv.egress"],
        Value::IngressTime => &["phv.egress_ns", "phv.held_ns"],
        Value::Utilisation => &["phv.egress", "phv.egress_ns", "phv.wire_bytes", "phv.queue_used"],
    };
    let of_all = ["phv.disposition", "phv.enters", "ip.fragment", "shim.hop", "shim.epoch", "digest"];
    let path = scheme.and_then(Scheme::path).map(|_| Value::Path);
    let values = scheme.into_iter().flat_map(|scheme| scheme.values().iter().map(|code| code.query.value));
    of_all.into_iter().chain(path.into_iter().chain(values).flat_map(|value| of_value(value).iter().copied())).collect()
}

/// The stage, from 1, that writes each part of the digest, by the value and the place of its code.
pub struct Writes(Vec<(Value, Option<usize>, u32)>);

impl Writes {
    pub fn of(scheme: &Scheme, ports: Option<Vec<StageUse>>) -> Self {
        Self(Chains::new(scheme, ports).writes)
    }

    pub fn stage(&self, part: &Part) -> Option<u32> {
        let is_its = |value: Value, place: Option<usize>| value == part.value && place.is_none_or(|at| at == part.code);
        self.0.iter().find_map(|(value, place, stage)| is_its(*value, *place).then_some(*stage))
    }
}

fn hash(name: &'static str, bits: u32, added: Added, of: &HashLayout) -> HashUse {
    HashUse::new(name, bits, added, Some(of))
}

/// The numbers that a chip adds to words in front of a stage's CRCs: it finds them by the number
/// of the hop.
fn arguments(name: &'static str, hashes: usize) -> ChipForm {
    let table = StepTable::new(name, MAX_HOPS as u64, NUMBER_BITS, hashes as u32 * u32::BITS);
    ChipForm::behind_steps(vec![ChipStep::looking_up(table).behind(&[IDENTITY])])
}

/// The same where they are the same at all hops.
fn constants() -> ChipForm {
    ChipForm::behind_steps(vec![ChipStep::actions().behind(&[IDENTITY])])
}

/// All chains, each of which begins with the stage of the identity, and the hashes that they have:
/// codes of one value choose the same hop, and all codes but sums round by one hash of the packet.
/// Each instance has hashes of its own.
struct Chains<'a> {
    scheme: &'a Scheme,
    all: Vec<Vec<StageUse>>,
    /// By their names and the numbers of their instances.
    known: BTreeSet<(&'static str, usize)>,
    /// The codes whose table a chain has.
    tables: Vec<Compression>,
    rounding_bits: u32,
    /// See [`Writes`].
    writes: Vec<(Value, Option<usize>, u32)>,
}

impl<'a> Chains<'a> {
    fn new(scheme: &'a Scheme, ports: Option<Vec<StageUse>>) -> Self {
        let are_times = |code: &ValueCode| matches!(code.codes(), Codes::Times(_));
        let rounding_bits = if ports.is_none() && scheme.values().iter().all(are_times) { 4 } else { 32 };
        let (all, known, tables, writes) = (Vec::new(), BTreeSet::new(), Vec::new(), Vec::new());
        let mut chains = Self { scheme, all, known, tables, rounding_bits, writes };
        // Which queries a packet carries is a part of what all of them match.
        if scheme.sets() > 1 {
            chains.all.push(set_chain(scheme));
        }
        if let Some(path) = scheme.path() {
            let path = chains.path(path);
            chains.writes.extend(path.first().map(|chain| (Value::Path, None, chain.len() as u32)));
            chains.all.extend(path);
        }
        for code in scheme.values() {
            chains.value(code);
        }
        if let Some(code) = scheme.loops() {
            let chain = chains.loops(code);
            chains.writes.push((Value::Loops, None, chain.len() as u32));
            chains.all.push(chain);
        }
        if let Some(ports) = ports {
            chains.ports(ports);
        }
        chains
    }

    /// A match on the number of a hop, its hash, the set of queries, and `more` bits: with these
    /// entries for each set that has the query.
    fn matching(&self, name: &'static str, more: u32, entries: u64, is_its: impl Fn(&Part) -> bool) -> StageUse {
        let sets = self.scheme.sets.iter().filter(|set| set.parts.iter().any(&is_its)).count() as u64;
        let set_bits = if self.scheme.sets() > 1 { SET_BITS } else { 0 };
        StageUse::matching(name, entries * sets, NUMBER_BITS + HOP_BITS + set_bits + more).behind(&[SET])
    }

    /// A chain for each instance.
    fn path(&self, path: &Code) -> Vec<Vec<StageUse>> {
        let vectors = path.vectors.as_deref();
        let h = if path.is_fragmented() { FRAGMENT_BITS } else { path.bits() };
        let hashing = |instance: u32| {
            let [acts, values] = [hashes::acts(instance), hashes::values(instance)];
            let outer = [
                ("inner CRC of layer", "layer", LAYER_BITS, true, &acts),
                ("inner CRC of g", "g", HOP_BITS, true, &acts),
                ("inner CRC of h", "h", h, true, &values),
                ("inner CRC of vectors", "vectors", u32::BITS, vectors.is_some(), &acts),
            ];
            let outer = outer.into_iter().filter(|(.., is_there, _)| *is_there);
            let (inner, outer): (Vec<_>, Vec<_>) = outer
                .map(|(inner, name, bits, _, of)| {
                    (hash(inner, 32, Added::Constant, of), hash(name, bits, Added::No, of))
                })
                .unzip();
            let [first, second] = ["first arguments of the path", "second arguments of the path"]
                .map(|name| arguments(name, inner.len()));
            let (inner, outer) = (StageUse::hashing(inner), StageUse::hashing(outer));
            vec![StageUse::default(), inner.on_chips(first), outer.on_chips(second)]
        };
        // The fragment of an identifier is looked up by h.
        let fragment = || StageUse::matching("fragment", path.fragments() as u64, FRAGMENT_BITS);
        let is_its = |part: &Part| part.value == Value::Path;
        let (name, more) = match vectors {
            None => ("layer, hop and g", LAYER_BITS),
            Some(_) => ("layer, hop, vectors and g", LAYER_BITS + u32::BITS),
        };
        let matching = self.matching(name, more, path_entries(path), is_its);
        let behind: Vec<_> = path.is_fragmented().then(fragment).into_iter().chain([matching]).collect();
        (0..path.instances() as u32).map(|instance| [hashing(instance), behind.clone()].concat()).collect()
    }

    /// A utilisation's code, and what writes it, are in the stages of its registers. The instances of a
    /// code have a chain each.
    fn value(&mut self, code: &ValueCode) {
        let Names { inner, outer, first, second, .. } = names(code.query.value);
        let (is_of_hops, is_sum) = (code.query.aggregation.is_of_hops(), code.query.aggregation == Aggregation::Sum);
        let instance = code.instance as u32;
        let [acts, rounds] = [hashes::code(code.query.value, instance), hashes::rounding(instance)];
        if !is_sum {
            self.rounding(code.instance);
        }
        let inner = [
            (is_of_hops, hash(inner, 32, Added::Constant, &acts)),
            (is_sum, hash("inner CRC of rounding of sums", 32, Added::Constant, &rounds)),
        ];
        let outer = [
            (is_of_hops, hash(outer, HOP_BITS, Added::No, &acts)),
            (is_sum, hash("rounding of sums", 32, Added::No, &rounds)),
        ];
        let mut chain =
            vec![StageUse::default(), self.hashing(code.instance, inner), self.hashing(code.instance, outer)];
        for (stage, name) in chain[1..].iter_mut().zip([first, second]).filter(|(stage, _)| !stage.hashes.is_empty()) {
            stage.chip = arguments(name, stage.hashes.len());
        }
        if code.query.value != Value::Utilisation {
            let mut write = self.write(code);
            match code.codes() {
                Codes::Times(codes) => {
                    self.times(codes);
                    write.needs.extend([CODES, WHOLE_STEPS]);
                }
                // The code is looked up, of all but sums beside the third stage's hashes.
                _ if is_sum => chain.push(StageUse::default().behind(&["rounding of sums"])),
                _ => chain[2].needs.push(ROUNDING),
            }
            chain.push(write);
            self.writes.push((code.query.value, self.place(code), chain.len() as u32));
        }
        self.all.push(chain);
    }

    /// The hash that rounds, unless a chain before has it.
    fn rounding(&mut self, instance: usize) {
        let of = hashes::rounding(instance as u32);
        let rounding = self.hashing(instance, [(true, hash(ROUNDING, self.rounding_bits, Added::No, &of))]);
        if !rounding.hashes.is_empty() {
            self.all.push(vec![StageUse::default(), rounding.on_chips(constants())]);
        }
    }

    /// The tables of a latency's codes, as far as no chain before has them: the highest bit of the time
    /// in the second stage, and the code in the third, whose action adds the hash that rounds. A chip adds
    /// it in a step of its own, and cuts the code out of the sum in another one.
    fn times(&mut self, codes: &Compression) {
        let exponents = self
            .known
            .insert((EXPONENT, 0))
            .then(|| StageUse::matching(EXPONENT, codes.exponents().count() as u64, u32::BITS));
        let is_new = !self.tables.contains(codes);
        let lookup = is_new.then(|| {
            self.tables.push(codes.clone());
            let (entries, key_bits) = (codes.entries().count() as u64, EXPONENT_BITS + MANTISSA_BITS);
            LookupUse { name: CODES, entries, key_bits, action_bits: codes.part_bits() }
        });
        let rounded = ChipStep::actions().behind(&[CODES, ROUNDING]);
        let chip = ChipForm {
            behind: vec![rounded, ChipStep::joining(&[(WHOLE_STEPS, u8::BITS)])],
            waits_for: Some(vec![EXPONENT]),
            is_on_the_way: !is_new,
            ..ChipForm::default()
        };
        let computes = lookup.iter().map(|_| Computation::Code).collect();
        let looked_up = StageUse { lookups: lookup.into_iter().collect(), computes, ..StageUse::default() };
        let code = looked_up.behind(&[EXPONENT, ROUNDING]).on_chips(chip);
        self.all.push(vec![StageUse::default(), exponents.unwrap_or_default(), code]);
    }

    /// These hashes, as far as no chain before has them.
    fn hashing<const N: usize>(&mut self, instance: usize, hashes: [(bool, HashUse); N]) -> StageUse {
        let new = hashes.into_iter().filter(|(is_there, hash)| *is_there && self.known.insert((hash.name, instance)));
        StageUse::hashing(new.map(|(_, hash)| hash).collect())
    }

    /// The stage that writes a code into the digest.
    fn write(&self, code: &ValueCode) -> StageUse {
        let Names { outer, acts, .. } = names(code.query.value);
        let place = self.place(code);
        let is_its = |part: &Part| part.value == code.query.value && Some(part.code) == place;
        match code.query.aggregation.is_of_hops() {
            true => self.matching(acts, 0, reservoir_entries(&code.limits), is_its).behind(&[SET, outer]),
            false => StageUse::default().behind(&[SET]),
        }
    }

    fn place(&self, code: &ValueCode) -> Option<usize> {
        self.scheme.values().iter().position(|of| of == code)
    }

    fn loops(&self, code: &LoopCode) -> Vec<StageUse> {
        let of = [hashes::loop_acts(), hashes::loop_values()];
        let each = |hashes: [(&'static str, u32, Added); 2]| {
            let hash = |((name, bits, added), of): (_, &HashLayout)| hash(name, bits, added, of);
            StageUse::hashing(hashes.into_iter().zip(&of).map(hash).collect())
        };
        // Each count that goes on, and the report.
        let counted = u64::from(code.threshold()) + 1;
        let is_its = |part: &Part| part.value == Value::Loops;
        vec![
            StageUse::default(),
            each([("inner CRC of g of loops", 32, Added::Constant), ("inner CRC of h of loops", 32, Added::Constant)])
                .on_chips(arguments("first arguments of loops", 2)),
            each([("g of loops", HOP_BITS, Added::No), ("h of loops", code.bits(), Added::No)])
                .on_chips(arguments("second arguments of loops", 2)),
            // The comparison with the digest.
            StageUse::default(),
            self.matching("hop and g of loops", 1 + COUNTER_BITS, reservoir_entries(&code.limits) + counted, is_its),
        ]
    }

    /// The registers of links, whose last stage writes.
    fn ports(&mut self, mut ports: Vec<StageUse>) {
        self.rounding(0);
        let codes = self.scheme.values().iter().filter(|code| code.query.value == Value::Utilisation);
        self.writes.push((Value::Utilisation, None, ports.len() as u32));
        if let Some(last) = ports.last_mut() {
            for write in codes.map(|code| self.write(code)) {
                last.matches.extend(write.matches);
                last.needs.extend(write.needs);
            }
        }
        self.all.push(ports);
    }
}

/// Finds the set of queries that a packet carries.
fn set_chain(scheme: &Scheme) -> Vec<StageUse> {
    let firsts = std::iter::once(0).chain(scheme.sets.iter().map(|set| set.last.saturating_add(1)));
    let entries = firsts.zip(&scheme.sets).map(|(first, set)| range_entries(first, set.last)).sum();
    vec![
        StageUse::default(),
        StageUse::hashing(vec![hash("inner CRC of q", 32, Added::Constant, &hashes::plan())]).on_chips(constants()),
        StageUse::hashing(vec![hash("q", 32, Added::No, &hashes::plan())]).on_chips(constants()),
        StageUse::matching(SET, entries, u32::BITS),
    ]
}

/// Entries that find the hops that act in a baseline layer.
fn reservoir_entries(limits: &[u32]) -> u64 {
    limits.iter().take(MAX_HOPS + 1).skip(1).map(|last| range_entries(0, *last)).sum()
}

/// Entries that find what a hop does to the path's digest.
fn path_entries(path: &Code) -> u64 {
    let limits = path.vectors.as_ref().map_or(&path.limits, |vectors| &vectors.limits);
    let places = |xor| path.vectors.as_ref().map_or(1, |vectors| vectors.places(xor));
    let [baseline, xor @ ..] = &limits.layers[..] else { return 0 };
    let mut before = *baseline;
    let of_xor = xor.iter().zip(&limits.xor).enumerate().map(|(number, (end, limit))| {
        let layer = before.checked_add(1).map_or(0, |first| range_entries(first, *end));
        before = *end;
        // The first hop writes what others xor, and zeros where it does not act.
        layer * ((1 + places(number)) * range_entries(0, *limit) + 1)
    });
    range_entries(0, *baseline) * reservoir_entries(&limits.hops) + of_xor.sum::<u64>()
}

/// The hashes that choose the hop whose value a packet carries, the tables of what is added in front of
/// them, and the match that compares.
struct Names {
    inner: &'static str,
    outer: &'static str,
    first: &'static str,
    second: &'static str,
    acts: &'static str,
}

fn names(value: Value) -> Names {
    macro_rules! of {
        ($value:literal) => {
            Names {
                inner: concat!("inner CRC of g of ", $value),
                outer: concat!("g of ", $value),
                first: concat!("first arguments of ", $value),
                second: concat!("second arguments of ", $value),
                acts: concat!("hop and g of ", $value),
            }
        };
    }
    match value {
        Value::Latency => of!("latency"),
        Value::Queue => of!("queue"),
        Value::Congestion => of!("congestion"),
        Value::IngressPort => of!("ingress port"),
        Value::EgressPort => of!("egress port"),
        Value::IngressTime => of!("ingress time"),
        Value::Utilisation => of!("utilisation"),
        // They have hashes of their own.
        Value::Path | Value::Loops => of!("the path or loops"),
    }
}
