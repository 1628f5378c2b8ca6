//! Packets by the way that they took, one home for what tells several paths of one flow apart.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::program::pint::dataplane::Scheme;
use crate::program::pint::parameters::Coding;
use crate::program::pint::query::FlowDefinition;
use crate::program::pint::record::{Digests, Seen};
use crate::wire::FiveTuple;

/// A flow, and the switch where it leaves the network.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub flow: FiveTuple,
    pub sink: Arc<str>,
}

/// A flow, and which of its paths, where packets carry a checksum of theirs: the number of switches
/// and the checksum.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    pub key: Key,
    pub path: Option<(u8, u16)>,
}

impl Route {
    pub fn checksum(&self) -> Option<u16> {
        self.path.map(|(_, checksum)| checksum)
    }
}

/// A flow on paths of one length, or on that of one checksum.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Way {
    pub key: Key,
    pub hops: u8,
    pub checksum: Option<u16>,
}

impl Way {
    /// The flow, and its path if packets say which one that is.
    pub fn route(self) -> Route {
        Route { key: self.key, path: self.checksum.map(|checksum| (self.hops, checksum)) }
    }
}

/// The packets of these records, by sink, that have this plan: where packets have checksums those
/// that carry what is asked for, else all. A way may come several times: each time with packets of
/// one connection.
pub fn ways<'a>(
    flow: FlowDefinition,
    coding: &'a Coding,
    records: &'a [(Arc<str>, &Digests)],
    carries: impl Fn(&Seen) -> bool + 'a,
) -> impl Iterator<Item = (Way, Cow<'a, [Seen]>)> {
    let streams = records.iter().flat_map(|(sink, record)| record.streams().iter().map(move |stream| (sink, stream)));
    let of_plan = streams.filter(|(_, (stream, _))| stream.plan == coding.id);
    of_plan.flat_map(move |(sink, (stream, seen))| {
        let (key, hops) = (Key { flow: flow.key(stream.flow), sink: sink.clone() }, stream.hops);
        let way = move |(checksum, seen)| (Way { key: key.clone(), hops, checksum }, seen);
        by_checksum(&coding.scheme, &carries, seen.seen()).map(way)
    })
}

/// What streams have in common whose packets are put together: a flow, and with `by_length` the
/// number of switches on its path.
fn group(key: &Key, hops: u8, by_length: bool) -> (Key, u8) {
    (key.clone(), if by_length { hops } else { 0 })
}

/// As [`ways`], of packets that had the same chance: where streams of a flow have several shares of
/// their packets, those of the smallest are there. Paths of several lengths have one share, or with
/// `by_length` each its own.
pub fn sampled_ways<'a>(
    flow: FlowDefinition,
    coding: &'a Coding,
    records: &'a [(Arc<str>, &Digests)],
    carries: impl Fn(&Seen) -> bool + 'a,
    by_length: bool,
) -> impl Iterator<Item = (Way, Cow<'a, [Seen]>)> {
    let mut shares = HashMap::<_, u32>::new();
    // One network has one family of hashes.
    let sample = records.iter().find_map(|(_, record)| record.sample());
    for ((sink, record), sample) in records.iter().filter_map(|record| Some((record, sample.as_ref()?))) {
        for (stream, packets) in record.streams().iter().filter(|(stream, _)| stream.plan == coding.id) {
            let share = record.share(packets, sample);
            if share < u32::MAX {
                let key = Key { flow: flow.key(stream.flow), sink: sink.clone() };
                let least = shares.entry(group(&key, stream.hops, by_length)).or_insert(share);
                *least = share.min(*least);
            }
        }
    }
    ways(flow, coding, records, carries).map(move |(way, seen)| {
        let share = if shares.is_empty() { None } else { shares.get(&group(&way.key, way.hops, by_length)) };
        let Some((share, sample)) = share.zip(sample.as_ref()) else { return (way, seen) };
        let has = |seen: &&Seen| sample.hash_of(seen.identity) <= *share;
        let seen: Vec<_> = seen.iter().filter(has).copied().collect();
        (way, seen.into())
    })
}

/// Packets by the checksum of their path: those that carry what is asked for, where packets have
/// checksums, else all. Those without a checksum are among themselves.
fn by_checksum<'a>(
    scheme: &Scheme,
    carries: &dyn Fn(&Seen) -> bool,
    seen: &'a [Seen],
) -> impl Iterator<Item = (Option<u16>, Cow<'a, [Seen]>)> + use<'a> {
    let have_checksums = scheme.path().is_some_and(|path| path.checksum(0).is_some());
    let mut parts = BTreeMap::<_, Cow<'a, [Seen]>>::new();
    for seen in seen.iter().filter(|seen| have_checksums && carries(seen)) {
        let checksum = scheme.checksum(seen.identity, seen.digest);
        parts.entry(checksum).or_default().to_mut().push(*seen);
    }
    let whole = (!have_checksums).then(|| (None, seen.into()));
    whole.into_iter().chain(parts)
}
