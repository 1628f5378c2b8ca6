//! Digests as a record: by plan, flow and path length, how they merge, and their byte form.
//!
//! The form: a version; the plans of the epoch and of the one after it; packets that found no room;
//! the number of streams; and for each stream, in ascending order, its plan, its five-tuple in five
//! words, the length of its path, how often its share was halved, the packets that were left out,
//! and those that were kept in ascending order: time, identity, digest; then the reports of loops.
//! docs/record-format.md describes it to others.

mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dataplane::MAX_HOPS;
use super::loops::record::{LOOP_REPORTS, Looped};
use super::parameters::PlanId;
use super::sample::Sample;
use super::{Config, Pint};
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{MAX_U32, MAX_U64, Reader, Writer};
use crate::program::{DecodeError, MergeError, Program, Record, Report, Reports};
use crate::wire::FiveTuple;
use stream::MAX_HALVINGS;
pub use stream::{Packets, Seen, Stream};

/// The first byte.
const VERSION: u8 = 4;

/// What the sink reports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub time_ns: u64,
    pub plan: PlanId,
    pub flow: FiveTuple,
    /// Switches on its path.
    pub hops: u8,
    pub identity: u32,
    pub digest: u16,
}

impl Report for Arrival {
    /// Time, plan, IPv6 five-tuple, hops, identity, digest.
    const BITS: u32 = 64 + 32 + 296 + 6 + 32 + 16;
    const MAX_BYTES: usize = MAX_U64 + MAX_U32 + size_of::<FiveTuple>() + 1 + MAX_U32 + 3;

    fn encode(&self, to: &mut Writer) {
        to.number(self.time_ns);
        to.number(self.plan.into());
        to.bytes(&self.flow.bytes());
        to.number(self.hops.into());
        to.number(self.identity.into());
        to.number(self.digest.into());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (time_ns, plan) = (from.number("a time")?, from.u32("a plan")?);
        let (flow, hops) = (FiveTuple::from_bytes(from.take("a flow")?), read_hops(from)?);
        Ok(Self { time_ns, plan, flow, hops, identity: from.u32("an identity")?, digest: from.u16("a digest")? })
    }
}

pub(super) fn read_hops(from: &mut Reader<'_>) -> Result<u8, DecodeError> {
    match from.number("the length of a path")? {
        hops @ 1.. if hops <= MAX_HOPS as u64 => Ok(hops as u8),
        _ => from.wrong("the length of a path", "1 to 62 switches"),
    }
}

/// What there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Packets in all.
    pub packets: usize,
    /// Packets of a stream.
    pub of_stream: usize,
    /// Reports of loops.
    pub loops: usize,
}

impl Room {
    pub fn of(config: &Config) -> Self {
        Self { packets: config.reports as usize, of_stream: config.packets as usize, loops: LOOP_REPORTS }
    }

    /// The length in bytes that no record exceeds.
    pub fn longest(self) -> usize {
        let stream = MAX_U32 + size_of::<FiveTuple>() + 2 + 2 * MAX_U64;
        let packets = self.packets * (stream + MAX_U64 + MAX_U32 + 3);
        1 + 2 * PlanUse::MAX_BYTES + 2 * MAX_U64 + packets + Reports::<Looped>::max_bytes(self.loops)
    }
}

/// The plan by which a switch treated the packets of an epoch, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlanUse {
    /// The record does not say.
    #[default]
    Unknown,
    All(PlanId),
    /// Its cores had different ones, or the plan changed while the record was filled.
    Several,
}

impl PlanUse {
    const MAX_BYTES: usize = 1 + MAX_U32;

    /// Of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, known) | (known, Self::Unknown) => known,
            (Self::All(plan), Self::All(other)) if plan == other => self,
            _ => Self::Several,
        }
    }

    fn encode(self, to: &mut Writer) {
        match self {
            Self::Unknown => to.number(0),
            Self::Several => to.number(1),
            Self::All(plan) => {
                to.number(2);
                to.number(plan.into());
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match from.number("how a plan is used")? {
            0 => Ok(Self::Unknown),
            1 => Ok(Self::Several),
            2 => from.u32("a plan").map(Self::All),
            _ => from.wrong("how a plan is used", "0, 1 or 2"),
        }
    }
}

/// The plans of the packets of an epoch, and of those of the one after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanUses {
    pub epoch: PlanUse,
    pub next: PlanUse,
}

/// The digests that left a network at one switch, and the packets that it saw in a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Digests {
    family: HashFamily,
    room: Room,
    plans: PlanUses,
    streams: BTreeMap<Stream, Packets>,
    missing: u64,
    loops: Reports<Looped>,
    /// The switch, where the record has not left its process: the byte form has no name.
    sink: Arc<str>,
}

impl Digests {
    pub fn none(family: &HashFamily, room: Room) -> Self {
        let (streams, plans) = (BTreeMap::new(), PlanUses::default());
        let loops = Reports::none(room.loops);
        Self { family: family.clone(), room, plans, streams, missing: 0, loops, sink: "".into() }
    }

    /// By stream, each with as many packets as it has room for. The reports are a share of all that
    /// was halved so often.
    pub fn of(family: &HashFamily, room: Room, reports: &Reports<Arrival>, halvings: u8) -> Self {
        let mut digests = Self::none(family, room);
        let split = |&Arrival { time_ns, plan, flow, hops, identity, digest }: &Arrival| {
            (Stream { plan, flow, hops }, Seen { time_ns, identity, digest })
        };
        let mut packets: Vec<_> = reports.kept().iter().map(split).collect();
        packets.sort_unstable();
        // Of two reports that are alike one says nothing.
        packets.dedup();
        let stream = |packets: &[(Stream, Seen)]| {
            let seen = packets.iter().map(|(_, seen)| *seen).collect();
            (packets[0].0, Packets { seen, left_out: 0, halvings })
        };
        digests.streams = packets.chunk_by(|(one, _), (other, _)| one == other).map(stream).collect();
        digests.limit();
        digests.missing = reports.overflow();
        digests
    }

    /// Keeps of each stream the packets that it has room for.
    fn limit(&mut self) {
        let room = self.room.of_stream;
        let mut large = self.streams.values_mut().filter(|packets| packets.seen.len() > room).peekable();
        if large.peek().is_some() {
            let sample = Sample::new(&self.family);
            large.for_each(|packets| packets.limit(room, &sample));
        }
    }

    /// With these reports of loops, as far as there is room.
    #[must_use]
    pub fn with_loops(mut self, loops: &Reports<Looped>) -> Self {
        self.loops.merge(loops);
        self
    }

    /// Packets that the switch saw in a loop.
    pub fn loops(&self) -> &Reports<Looped> {
        &self.loops
    }

    /// As a record of this switch.
    #[must_use]
    pub fn at(self, sink: &Arc<str>) -> Self {
        Self { sink: sink.clone(), ..self }
    }

    /// The switch, `""` when that is not known.
    pub fn sink(&self) -> &Arc<str> {
        &self.sink
    }

    /// With the plans that were in use.
    #[must_use]
    pub fn planned(self, plans: PlanUses) -> Self {
        Self { plans, ..self }
    }

    pub fn plans(&self) -> PlanUses {
        self.plans
    }

    /// The hash functions of the digests.
    pub fn family(&self) -> &HashFamily {
        &self.family
    }

    pub fn streams(&self) -> &BTreeMap<Stream, Packets> {
        &self.streams
    }

    /// Packets that found no room in the record, beside those that a stream has no room for.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Packets that their streams have no room for.
    pub fn left_out(&self) -> u64 {
        self.streams.values().fold(0, |sum, packets| sum.saturating_add(packets.left_out))
    }

    /// What chooses shares of packets; `None` where all packets of all streams are there.
    pub fn sample(&self) -> Option<Sample> {
        let is_share = |packets: &Packets| packets.halvings > 0 || packets.left_out > 0;
        self.streams.values().any(is_share).then(|| Sample::new(&self.family))
    }

    /// The share of a stream's packets that these are: no packet is missing whose hash is at most
    /// this.
    pub fn share(&self, packets: &Packets, sample: &Sample) -> u32 {
        packets.share(self.room.of_stream, sample)
    }

    /// Takes packets out until there is room for the others: a share is kept, by the hash by which a
    /// bank keeps one.
    fn thin(&mut self) {
        let number = |digests: &Self| digests.streams.values().map(|packets| packets.seen.len()).sum::<usize>();
        let before = number(self);
        if before <= self.room.packets {
            return;
        }
        let mut sample = Sample::new(&self.family);
        while number(self) > self.room.packets && sample.halve() {
            for Packets { seen, halvings, .. } in self.streams.values_mut() {
                seen.retain(|seen| sample.has(seen.identity));
                *halvings = (*halvings).max(sample.halvings());
            }
        }
        let mut left = self.room.packets;
        for Packets { seen, .. } in self.streams.values_mut() {
            seen.truncate(left);
            left -= seen.len();
        }
        let mut missing = (before - number(self)) as u64;
        self.streams.retain(|_, Packets { seen, left_out, .. }| {
            missing = missing.saturating_add(if seen.is_empty() { *left_out } else { 0 });
            !seen.is_empty()
        });
        self.missing = self.missing.saturating_add(missing);
    }

    /// Reads the byte form of a record of a switch with these hash functions and this room.
    ///
    /// # Errors
    /// If these are not the bytes of one.
    pub fn decode(family: &HashFamily, room: Room, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let mut digests = Self::none(family, room);
        digests.plans = PlanUses { epoch: PlanUse::decode(&mut from)?, next: PlanUse::decode(&mut from)? };
        digests.missing = from.number("packets without room")?;
        let number = from.number("the number of streams")?;
        let mut left = room.packets as u64;
        let streams = from.ascending("a stream", number, |from| {
            let (plan, flow) = (from.u32("a plan")?, FiveTuple::from_bytes(from.take("a flow")?));
            let stream = Stream { plan, flow, hops: read_hops(from)? };
            let halvings = match from.number("the share of packets")? {
                halvings if halvings <= MAX_HALVINGS.into() => halvings as u8,
                _ => return from.wrong("the share of packets", "halved 32 times at most"),
            };
            let left_out = from.number("packets that are left out")?;
            let packets = from.number("the number of packets")?;
            if packets == 0 || packets > left.min(room.of_stream as u64) {
                return from.wrong("the number of packets", "at least one, and no more than there is room for");
            }
            left -= packets;
            let seen = from.ascending("a packet", packets, |from| {
                let (time_ns, identity) = (from.number("a time")?, from.u32("an identity")?);
                Ok((Seen { time_ns, identity, digest: from.u16("a digest")? }, ()))
            })?;
            let seen = seen.into_iter().map(|(seen, ())| seen).collect();
            Ok((stream, Packets { seen, left_out, halvings }))
        })?;
        digests.streams = streams.into_iter().collect();
        digests.loops = Reports::decode(&mut from, room.loops)?;
        from.end().map(|()| digests)
    }
}

impl Record for Digests {
    const PROGRAM: &'static str = Pint::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.room != other.room || self.family != other.family {
            return Err(MergeError::Shape { program: Self::PROGRAM, what: "parameters" });
        }
        other.streams.iter().for_each(|(stream, more)| self.streams.entry(*stream).or_default().merge(more));
        self.limit();
        let PlanUses { epoch, next } = other.plans;
        self.plans = PlanUses { epoch: self.plans.epoch.and(epoch), next: self.plans.next.and(next) };
        self.missing = self.missing.saturating_add(other.missing);
        self.loops.merge(&other.loops);
        self.thin();
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![VERSION]);
        self.plans.epoch.encode(&mut to);
        self.plans.next.encode(&mut to);
        to.number(self.missing);
        to.number(self.streams.len() as u64);
        for (Stream { plan, flow, hops }, Packets { seen, left_out, halvings }) in &self.streams {
            to.number((*plan).into());
            to.bytes(&flow.bytes());
            to.number((*hops).into());
            to.number((*halvings).into());
            to.number(*left_out);
            to.number(seen.len() as u64);
            for Seen { time_ns, identity, digest } in seen {
                to.number(*time_ns);
                to.number((*identity).into());
                to.number((*digest).into());
            }
        }
        self.loops.encode(&mut to);
        to.0
    }

    fn is_hashed_with(&self, hashes: &HashFamily) -> bool {
        self.family == *hashes
    }
}
