//! What PINT takes of the hardware.

use std::collections::BTreeSet;

use crate::pisa::{HashUse, ProgramUse, StageUse};
use crate::program::pint::Pint;
use crate::program::pint::dataplane::Scheme;
use crate::program::pint::loops::dataplane::LoopCode;
use crate::program::pint::loops::record::Looped;
use crate::program::pint::query::Value;
use crate::program::pint::record::Room;
use crate::program::pint::sample::Sampled;
use crate::program::pint::values::Aggregation;
use crate::program::pint::values::dataplane::{Codes, ValueCode};
use crate::program::{Program, ReportBuffer};

/// Of a plan, with the stages that utilisations take.
pub fn of(scheme: Option<&Scheme>, ports: Option<Vec<StageUse>>, limit: u32, room: Room) -> ProgramUse {
    let hash = |name, bits, added| HashUse { name, bits, added };
    let identity = || StageUse::hashing(vec![hash("identity", 32, false)]);
    let mut chains = Vec::new();
    if let Some(path) = scheme.and_then(Scheme::path) {
        let each = |hashes: &[HashUse]| {
            let all = (0..path.instances()).flat_map(|_| hashes.iter().cloned());
            StageUse::hashing(all.collect())
        };
        let packet = ["packet for g", "packet for h"].map(|name| hash(name, 32, false));
        let middle = ["middle CRC of layer", "middle CRC of g", "middle CRC of h"].map(|name| hash(name, 32, true));
        let last = [hash("layer", 32, true), hash("g", 32, true), hash("h", path.bits(), true)];
        chains.push(vec![
            identity(),
            each(&packet),
            each(&middle),
            each(&last),
            StageUse::default(),
            StageUse::default(),
        ]);
    }
    let three = |first: StageUse, name: [&'static str; 3], bits| {
        vec![
            first,
            StageUse::hashing(vec![hash(name[0], 32, false)]),
            StageUse::hashing(vec![hash(name[1], 32, true)]),
            StageUse::hashing(vec![hash(name[2], bits, true)]),
        ]
    };
    // The utilisation counts its own stages, which end with the digest; to be of hops it takes the
    // hashes that choose one beside these.
    let codes = scheme.map_or(&[][..], Scheme::values).iter();
    let is_apart = |code: &&ValueCode| code.query.value != Value::Utilisation || code.query.aggregation.is_of_hops();
    let codes: Vec<_> = codes.filter(is_apart).collect();
    let mut chosen = BTreeSet::new();
    for ValueCode { query, .. } in codes.iter().copied() {
        // One identity serves all chains.
        let first = if chains.is_empty() { identity() } else { StageUse::default() };
        // The value is known beside the hashes; its code is looked up, then written. Codes of one
        // value choose the same hop.
        let [packet, middle, last] = hash_names(query.value);
        let acts = if query.aggregation.is_of_hops() && chosen.insert(query.value) {
            three(first, [packet, middle, last], 32)
        } else {
            vec![first, StageUse::default(), StageUse::default(), StageUse::default()]
        };
        chains.push([acts, vec![StageUse::default(), StageUse::default()]].concat());
    }
    // All codes round by one packet hash: the largest and the smallest value alike at all hops, others
    // anew at each.
    let is_alike = |code: &&ValueCode| matches!(code.query.aggregation, Aggregation::Max | Aggregation::Min);
    let alike = codes.iter().copied().filter(is_alike).count();
    let kinds = [
        (codes.len() > alike, "middle CRC of rounding", "rounding"),
        (alike > 0, "middle CRC of rounding alike", "rounding alike"),
    ];
    let kinds = || kinds.into_iter().filter(|(is_there, ..)| *is_there);
    if !codes.is_empty() {
        let bits = if codes.iter().all(|code| matches!(code.codes(), Codes::Times(_))) { 4 } else { 32 };
        chains.push(vec![
            StageUse::default(),
            StageUse::hashing(vec![hash("packet for rounding", 32, false)]),
            StageUse::hashing(kinds().map(|(_, middle, _)| hash(middle, 32, true)).collect()),
            StageUse::hashing(kinds().map(|(.., last)| hash(last, bits, true)).collect()),
        ]);
    }
    let loops = scheme.and_then(Scheme::loops);
    if let Some(bits) = loops.map(LoopCode::bits) {
        let first = if chains.is_empty() { identity() } else { StageUse::default() };
        let acts = three(first, ["packet for g of loops", "middle CRC of g of loops", "g of loops"], 32);
        // The comparison with the digest, then the write.
        chains.push([acts, vec![StageUse::default(), StageUse::default()]].concat());
        chains.push(three(
            StageUse::default(),
            ["packet for h of loops", "middle CRC of h of loops", "h of loops"],
            bits,
        ));
    }
    if let Some(ports) = ports {
        chains.push(ports);
        if let [only] = &mut chains[..] {
            only[0].hashes.push(hash("identity", 32, false));
        }
    }
    if scheme.is_some_and(|scheme| scheme.sets() > 1) {
        chains.push(three(StageUse::default(), ["packet for q", "middle CRC of q", "q"], 32));
    }
    let reports = vec![Sampled::usage(limit), ReportBuffer::<Looped>::usage(room.loops as u32)];
    ProgramUse { program: Pint::NAME, chains, reports }
}

/// The hashes that choose the hop whose value a packet carries.
fn hash_names(value: Value) -> [&'static str; 3] {
    match value {
        Value::Latency => ["packet for g of latency", "middle CRC of g of latency", "g of latency"],
        Value::Queue => ["packet for g of queue", "middle CRC of g of queue", "g of queue"],
        Value::Congestion => ["packet for g of congestion", "middle CRC of g of congestion", "g of congestion"],
        Value::IngressPort => ["packet for g of ingress port", "middle CRC of g of ingress port", "g of ingress port"],
        Value::EgressPort => ["packet for g of egress port", "middle CRC of g of egress port", "g of egress port"],
        Value::IngressTime => ["packet for g of ingress time", "middle CRC of g of ingress time", "g of ingress time"],
        Value::Utilisation => ["packet for g of utilisation", "middle CRC of g of utilisation", "g of utilisation"],
        // They have hashes of their own.
        Value::Path | Value::Loops => ["packet for g", "middle CRC of g", "g"],
    }
}
