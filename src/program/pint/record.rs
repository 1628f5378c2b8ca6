//! Digests as a record: by flow and path length, how they merge, and their byte form.
//!
//! The form: a version; packets that found no room; the number of flows; and for each flow, in
//! ascending order, its five-tuple in five words, the length of its path, and its packets in
//! ascending order: time, identity, digest. docs/record-format.md describes it to others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dataplane::{MAX_HOPS, Scheme};
use super::{Config, Pint};
use crate::pisa::hash::HashFamily;
use crate::program::bytes::{MAX_U32, MAX_U64, Reader, Writer};
use crate::program::{DecodeError, MergeError, Program, Record, Report, Reports};
use crate::wire::FiveTuple;

/// The first byte.
const VERSION: u8 = 1;

/// What the sink reports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    pub time_ns: u64,
    pub flow: FiveTuple,
    /// Switches on its path.
    pub hops: u8,
    pub identity: u32,
    pub digest: u16,
}

impl Report for Arrival {
    /// Time, IPv6 five-tuple, hops, identity, digest.
    const BITS: u32 = 64 + 296 + 6 + 32 + 16;
    const MAX_BYTES: usize = MAX_U64 + size_of::<FiveTuple>() + 1 + MAX_U32 + 3;

    fn encode(&self, to: &mut Writer) {
        to.number(self.time_ns);
        to.bytes(&self.flow.bytes());
        to.number(self.hops.into());
        to.number(self.identity.into());
        to.number(self.digest.into());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (time_ns, flow) = (from.number("a time")?, FiveTuple::from_bytes(from.take("a flow")?));
        let hops = read_hops(from)?;
        Ok(Self { time_ns, flow, hops, identity: from.u32("an identity")?, digest: from.u16("a digest")? })
    }
}

fn read_hops(from: &mut Reader<'_>) -> Result<u8, DecodeError> {
    match from.number("the length of a path")? {
        hops @ 1.. if hops <= MAX_HOPS as u64 => Ok(hops as u8),
        _ => from.wrong("the length of a path", "1 to 62 switches"),
    }
}

/// The packets of a flow on paths of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    pub flow: FiveTuple,
    pub hops: u8,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub time_ns: u64,
    pub identity: u32,
    pub digest: u16,
}

/// What there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Packets in all.
    pub packets: usize,
    /// Packets of a stream.
    pub of_stream: usize,
}

impl Room {
    pub fn of(config: &Config) -> Self {
        Self { packets: config.reports as usize, of_stream: config.packets as usize }
    }

    /// The length in bytes that no record exceeds.
    pub fn longest(self) -> usize {
        let stream = size_of::<FiveTuple>() + 1 + MAX_U64;
        1 + 2 * MAX_U64 + self.packets * (stream + MAX_U64 + MAX_U32 + 3)
    }
}

/// The digests that left a network at one switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Digests {
    scheme: Arc<Scheme>,
    room: Room,
    streams: BTreeMap<Stream, Vec<Seen>>,
    missing: u64,
    /// The switch, where the record has not left its process: the byte form has no name.
    sink: Arc<str>,
}

impl Digests {
    pub fn none(scheme: &Arc<Scheme>, room: Room) -> Self {
        Self { scheme: scheme.clone(), room, streams: BTreeMap::new(), missing: 0, sink: "".into() }
    }

    /// By flow, each with its first packets.
    pub fn of(scheme: &Arc<Scheme>, room: Room, reports: &Reports<Arrival>) -> Self {
        let mut digests = Self::none(scheme, room);
        for &Arrival { time_ns, flow, hops, identity, digest } in reports.kept() {
            let seen = digests.streams.entry(Stream { flow, hops }).or_default();
            if seen.len() < room.of_stream {
                seen.push(Seen { time_ns, identity, digest });
            }
        }
        // Of two reports that are alike one says nothing.
        digests.streams.values_mut().for_each(Vec::dedup);
        digests.missing = reports.overflow();
        digests
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

    pub fn scheme(&self) -> &Arc<Scheme> {
        &self.scheme
    }

    pub fn streams(&self) -> &BTreeMap<Stream, Vec<Seen>> {
        &self.streams
    }

    /// Packets that found no room, beside those beyond the first ones of a stream.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Takes the streams out that began last, until there is room for all.
    fn evict(&mut self) {
        let mut packets: usize = self.streams.values().map(Vec::len).sum();
        if packets <= self.room.packets {
            return;
        }
        let begin = |(stream, seen): (&Stream, &Vec<Seen>)| (seen.first().map(|seen| seen.time_ns), *stream);
        let mut order: Vec<_> = self.streams.iter().map(begin).collect();
        order.sort_unstable();
        while packets > self.room.packets
            && let Some((_, stream)) = order.pop()
        {
            let gone = self.streams.remove(&stream).map_or(0, |seen| seen.len());
            packets -= gone;
            self.missing = self.missing.saturating_add(gone as u64);
        }
    }

    /// Reads the byte form of a record of a switch with this scheme and room.
    ///
    /// # Errors
    /// If these are not the bytes of one.
    pub fn decode(scheme: &Arc<Scheme>, room: Room, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        from.version(VERSION)?;
        let mut digests = Self::none(scheme, room);
        digests.missing = from.number("packets without room")?;
        let number = from.number("the number of flows")?;
        let mut left = room.packets as u64;
        let streams = from.ascending("a flow", number, |from| {
            let flow = FiveTuple::from_bytes(from.take("a flow")?);
            let stream = Stream { flow, hops: read_hops(from)? };
            let packets = from.number("the number of packets")?;
            if packets == 0 || packets > left.min(room.of_stream as u64) {
                return from.wrong("the number of packets", "at least one, and no more than there is room for");
            }
            left -= packets;
            let seen = from.ascending("a packet", packets, |from| {
                let (time_ns, identity) = (from.number("a time")?, from.u32("an identity")?);
                Ok((Seen { time_ns, identity, digest: from.u16("a digest")? }, ()))
            })?;
            Ok((stream, seen.into_iter().map(|(seen, ())| seen).collect()))
        })?;
        digests.streams = streams.into_iter().collect();
        from.end().map(|()| digests)
    }
}

impl Record for Digests {
    const PROGRAM: &'static str = Pint::NAME;

    fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.room != other.room || !(Arc::ptr_eq(&self.scheme, &other.scheme) || self.scheme == other.scheme) {
            return Err(MergeError::Shape { program: Self::PROGRAM, what: "parameters" });
        }
        for (stream, more) in &other.streams {
            let seen = self.streams.entry(*stream).or_default();
            seen.extend(more);
            seen.sort_unstable();
            seen.dedup();
            seen.truncate(self.room.of_stream);
        }
        self.missing = self.missing.saturating_add(other.missing);
        self.evict();
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut to = Writer(vec![VERSION]);
        to.number(self.missing);
        to.number(self.streams.len() as u64);
        for (Stream { flow, hops }, seen) in &self.streams {
            to.bytes(&flow.bytes());
            to.number((*hops).into());
            to.number(seen.len() as u64);
            for Seen { time_ns, identity, digest } in seen {
                to.number(*time_ns);
                to.number((*identity).into());
                to.number((*digest).into());
            }
        }
        to.0
    }

    fn is_hashed_with(&self, hashes: &HashFamily) -> bool {
        self.scheme.family == *hashes
    }
}
