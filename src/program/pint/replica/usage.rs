//! What PINT takes of the hardware.

use std::collections::BTreeSet;

use crate::pisa::{HashUse, ProgramUse, StageUse, range_entries};
use crate::program::pint::Pint;
use crate::program::pint::dataplane::{Code, Limits, MAX_HOPS, Scheme};
use crate::program::pint::encoding::{HOP_BITS, LAYER_BITS};
use crate::program::pint::loops::dataplane::LoopCode;
use crate::program::pint::loops::record::Looped;
use crate::program::pint::query::Value;
use crate::program::pint::record::Room;
use crate::program::pint::sample::Sampled;
use crate::program::pint::values::Aggregation;
use crate::program::pint::values::dataplane::{Codes, ValueCode};
use crate::program::{Program, ReportBuffer};

/// Bits of the number of a hop, and of that of a set of queries.
const NUMBER_BITS: u32 = 6;
const SET_BITS: u32 = 3;

/// Of a plan, with the stages that utilisations take.
pub fn of(scheme: Option<&Scheme>, ports: Option<Vec<StageUse>>, limit: u32, room: Room) -> ProgramUse {
    let reports = vec![Sampled::usage(limit), ReportBuffer::<Looped>::usage(room.loops as u32)];
    let mut chains = scheme.map_or_else(Vec::new, chains);
    if let Some(mut ports) = ports {
        // One hash rounds all codes but sums.
        if chains.iter().flatten().flat_map(|stage| &stage.hashes).any(|hash| hash.name == ROUNDING) {
            ports.iter_mut().for_each(|stage| stage.hashes.clear());
        }
        chains.push(ports);
    }
    // One identity serves all chains.
    if let Some([first, ..]) = chains.first_mut().map(Vec::as_mut_slice) {
        first.hashes.insert(0, hash("identity", 32, false));
    }
    ProgramUse { program: Pint::NAME, chains, reports }
}

/// The hash that rounds the codes of values, alike at all hops.
pub const ROUNDING: &str = "rounding";

fn hash(name: &'static str, bits: u32, added: bool) -> HashUse {
    HashUse { name, bits, added }
}

/// All chains but the registers of links. Each begins with the stage of the identity.
fn chains(scheme: &Scheme) -> Vec<Vec<StageUse>> {
    let is_shared = scheme.sets() > 1;
    let mut chains = Vec::new();
    chains.extend(scheme.path().map(|path| path_chain(path, is_shared)));
    let mut known = BTreeSet::new();
    chains.extend(
        scheme.values().iter().filter(|code| is_apart(code)).map(|code| value_chain(code, is_shared, &mut known)),
    );
    chains.extend(scheme.loops().map(|code| loop_chain(code, is_shared)));
    if is_shared {
        let firsts = std::iter::once(0).chain(scheme.sets.iter().map(|set| set.last.saturating_add(1)));
        let entries = firsts.zip(&scheme.sets).map(|(first, set)| range_entries(first, set.last)).sum();
        let of_set = StageUse::matching("set of queries", entries, u32::BITS);
        let [inner, last] = ["inner CRC of q", "q"].map(|name| StageUse::hashing(vec![hash(name, 32, true)]));
        chains.push(vec![StageUse::default(), inner, last, of_set]);
    }
    chains
}

/// The utilisation counts its own stages, which end with the digest; to be of hops it takes the hashes
/// that choose one beside these.
fn is_apart(code: &ValueCode) -> bool {
    code.query.value != Value::Utilisation || code.query.aggregation.is_of_hops()
}

/// Where packets carry several sets of queries, the set is found in the stage in which queries would
/// write at the earliest.
fn wait(is_shared: bool) -> impl Iterator<Item = StageUse> {
    is_shared.then(StageUse::default).into_iter()
}

fn path_chain(path: &Code, is_shared: bool) -> Vec<StageUse> {
    let each = |hashes: [HashUse; 3]| {
        let all = (0..path.instances()).flat_map(|_| hashes.iter().cloned());
        StageUse::hashing(all.collect())
    };
    let inner = ["inner CRC of layer", "inner CRC of g", "inner CRC of h"].map(|name| hash(name, 32, true));
    let last = [hash("layer", LAYER_BITS, true), hash("g", HOP_BITS, true), hash("h", path.bits(), true)];
    let mut chain = vec![StageUse::default(), each(inner), each(last)];
    // The fragment of an identifier is looked up by h.
    chain.extend(path.is_fragmented().then(|| StageUse::matching("fragment", path.fragments() as u64, 5)));
    chain.extend(wait(is_shared && !path.is_fragmented()));
    let acts = StageUse::matching("layer, hop and g", path_entries(&path.limits), match_bits(LAYER_BITS, is_shared));
    let matches = acts.matches.iter().cycle().take(path.instances()).cloned().collect();
    chain.push(StageUse { matches, ..acts });
    chain
}

/// Bits of a match on `more` bits, the number of a hop, its hash, and the set of queries.
fn match_bits(more: u32, is_shared: bool) -> u32 {
    more + NUMBER_BITS + HOP_BITS + if is_shared { SET_BITS } else { 0 }
}

/// Entries that find the hops that act in a baseline layer.
fn reservoir_entries(limits: &[u32]) -> u64 {
    limits.iter().take(MAX_HOPS + 1).skip(1).map(|last| range_entries(0, *last)).sum()
}

/// Entries that find what a hop does to the path's digest.
fn path_entries(limits: &Limits) -> u64 {
    let [baseline, xor @ ..] = &limits.layers[..] else { return 0 };
    let mut before = *baseline;
    let of_xor = xor.iter().zip(&limits.xor).map(|(end, limit)| {
        let layer = before.checked_add(1).map_or(0, |first| range_entries(first, *end));
        before = *end;
        // The first hop writes what others xor, and zeros where it does not act.
        layer * (2 * range_entries(0, *limit) + 1)
    });
    range_entries(0, *baseline) * reservoir_entries(&limits.hops) + of_xor.sum::<u64>()
}

/// `known` has the hashes of chains before: codes of one value choose the same hop, and all codes
/// round by one hash of the packet, but sums, which round anew at each hop.
fn value_chain(code: &ValueCode, is_shared: bool, known: &mut BTreeSet<&'static str>) -> Vec<StageUse> {
    let ([inner, last, acts], aggregation) = (names(code.query.value), code.query.aggregation);
    let (is_of_hops, is_sum) = (aggregation.is_of_hops(), aggregation == Aggregation::Sum);
    let bits = if matches!(code.codes(), Codes::Times(_)) { 4 } else { 32 };
    let [second, third] = [
        [(is_of_hops, inner, 32), (!is_sum, ROUNDING, bits), (is_sum, "inner CRC of rounding of sums", 32)],
        [(is_of_hops, last, HOP_BITS), (is_sum, "rounding of sums", 32), (false, "", 0)],
    ];
    let mut hashing = |hashes: [(bool, &'static str, u32); 3]| {
        let new = hashes.into_iter().filter(|(is_there, name, _)| *is_there && known.insert(name));
        StageUse::hashing(new.map(|(_, name, bits)| hash(name, bits, true)).collect())
    };
    // The code is looked up beside the third stage's hashes; that of a sum behind them.
    let mut chain = vec![StageUse::default(), hashing(second), hashing(third)];
    chain.extend(is_sum.then(StageUse::default));
    chain.extend(wait(is_shared && !is_sum));
    chain.push(match is_of_hops {
        true => StageUse::matching(acts, reservoir_entries(&code.limits), match_bits(0, is_shared)),
        false => StageUse::default(),
    });
    chain
}

fn loop_chain(code: &LoopCode, is_shared: bool) -> Vec<StageUse> {
    let each =
        |hashes: [(&'static str, u32); 2]| StageUse::hashing(hashes.map(|(name, bits)| hash(name, bits, true)).into());
    vec![
        StageUse::default(),
        each([("inner CRC of g of loops", 32), ("inner CRC of h of loops", 32)]),
        each([("g of loops", HOP_BITS), ("h of loops", code.bits())]),
        // The comparison with the digest.
        StageUse::default(),
        StageUse::matching("hop and g of loops", reservoir_entries(&code.limits), match_bits(1, is_shared)),
    ]
}

/// The hashes that choose the hop whose value a packet carries, and the match that compares.
fn names(value: Value) -> [&'static str; 3] {
    match value {
        Value::Latency => ["inner CRC of g of latency", "g of latency", "hop and g of latency"],
        Value::Queue => ["inner CRC of g of queue", "g of queue", "hop and g of queue"],
        Value::Congestion => ["inner CRC of g of congestion", "g of congestion", "hop and g of congestion"],
        Value::IngressPort => ["inner CRC of g of ingress port", "g of ingress port", "hop and g of ingress port"],
        Value::EgressPort => ["inner CRC of g of egress port", "g of egress port", "hop and g of egress port"],
        Value::IngressTime => ["inner CRC of g of ingress time", "g of ingress time", "hop and g of ingress time"],
        Value::Utilisation => ["inner CRC of g of utilisation", "g of utilisation", "hop and g of utilisation"],
        // They have hashes of their own.
        Value::Path | Value::Loops => ["inner CRC of g", "g", "hop and g"],
    }
}
