//! What all switches of a network and what decodes have in common, made and read: the plan, and the
//! code of each query. What a switch does with it is in [`dataplane`](super::dataplane).

use std::borrow::Cow;
use std::sync::Arc;

use super::dataplane::{CarriedSet, Code, Coded, Part, Scheme};
use super::encoding::{DIGEST_BITS, Layers};
use super::hashes;
use super::hops::Hops;
use super::loops::dataplane::LoopCode;
use super::plan::Plan;
use super::query::{PathActs, PathCoding, Query, Value};
use super::values::dataplane::ValueCode;
use crate::pisa::hash::{Global, HashFamily};

impl Scheme {
    /// The codes of these queries, of which no two have one [code](Query::code), by their plan. Parts
    /// of a digest stand in the order of the queries, the first one in the lowest bits. Paths have about
    /// `path_length` switches.
    pub fn new(queries: &[Query], plan: &Plan, path_length: u32, family: &HashFamily) -> Self {
        let find = |value| queries.iter().find(|query| query.value == value);
        let code = |query: &Query| {
            // A fragment says of one hop as much as there is to know of it, however few its bits.
            let bits = if query.coding == PathCoding::Fragments { DIGEST_BITS } else { query.bits };
            let layers = Layers::of_length(path_length, bits);
            let code = Code::new(query.bits, query.instances, &layers, family);
            let code = code.with_checksum(query.checksum);
            let code = if query.coding == PathCoding::Fragments { code.with_fragments() } else { code };
            Arc::new(if query.acts == PathActs::Vectors { code.with_vectors() } else { code })
        };
        let path = find(Value::Path).map(code);
        let loops = find(Value::Loops).map(|query| LoopCode::new(query.bits, query.threshold, family));
        let values: Vec<_> = queries.iter().flat_map(|query| ValueCode::all(query, family)).collect();
        let place = |query: &Query| values.iter().position(|code| code.query == query.code()).unwrap_or_default();
        // The instances of a path are one part, those of a value one each.
        let parts = |query: &Query| {
            let (number, bits) = match query.value {
                Value::Path => (1, query.demand().bits),
                _ => (query.instances as usize, query.bits),
            };
            let (value, first, mask) = (query.value, place(query), u16::MAX >> (DIGEST_BITS - bits));
            (0..number).map(move |instance| (bits, Part { value, code: first + instance, shift: 0, mask }))
        };
        let set = |planned: &super::plan::Planned| {
            let mut shift = 0;
            let carried = planned.set.queries().filter_map(|place| queries.get(place)).flat_map(parts);
            let carried = carried.map(|(bits, part): (u32, Part)| {
                let part = Part { shift, ..part };
                shift += bits;
                part
            });
            CarriedSet { last: planned.last, parts: carried.collect() }
        };
        let sets = plan.0.iter().map(set).collect();
        let chooses = Global::of(&hashes::plan(), family);
        let set = chooses.argument(&0u32.to_be_bytes());
        Self { sets, chooses, set, path, loops, values, family: family.clone() }
    }

    /// Number of sets of queries that packets carry.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// The code of the path query, if there is one.
    pub fn path(&self) -> Option<&Arc<Code>> {
        self.path.as_ref()
    }

    /// What packets carry for a query, if it has a code.
    pub fn value(&self, query: &Query) -> Option<CarriedValue<'_>> {
        let place = self.values.iter().position(|code| code.query == query.code())?;
        let (code, others) = self.values[place..].split_first()?;
        let others = &others[..others.iter().take_while(|other| other.query == code.query).count()];
        Some(CarriedValue { scheme: self, place, code, others })
    }

    /// The codes of all queries that have some, each instance of its own, those of a query in a row.
    pub fn values(&self) -> &[ValueCode] {
        &self.values
    }

    /// The code of the loop query, if there is one.
    pub fn loops(&self) -> Option<&LoopCode> {
        self.loops.as_ref()
    }

    /// The hashes of a switch with this identifier.
    pub fn switch(&self, id: u32) -> Coded {
        let path = self.path.as_ref().map(|path| path.switch(id)).unwrap_or_default();
        Coded { loops: self.loops.as_ref().map(|loops| loops.switch(id)), ..path }
    }

    /// The path's part of the digest of a packet that carries it.
    pub fn path_part(&self, identity: u32, digest: u16) -> Option<u16> {
        let part = self.parts(identity).iter().find(|part| part.value == Value::Path)?;
        Some(part.of(digest))
    }

    /// The checksum of the path that a packet took; `None` of one that carries none.
    pub fn checksum(&self, identity: u32, digest: u16) -> Option<u16> {
        self.path.as_ref()?.checksum(self.path_part(identity, digest)?)
    }

    /// The name of a part of a digest: its value, and the code's keys where there are several codes of
    /// that value.
    pub fn name(&self, part: &Part) -> Cow<'static, str> {
        let code = self.values.get(part.code).filter(|code| code.query.value == part.value);
        let is_other = |code: &ValueCode| {
            self.values.iter().any(|other| other.query.value == part.value && other.query != code.query)
        };
        code.filter(|code| is_other(code)).map_or(part.value.name().into(), |code| code.query.to_string().into())
    }
}

/// What packets carry for a query for a value.
#[derive(Clone, Copy, Debug)]
pub struct CarriedValue<'a> {
    scheme: &'a Scheme,
    /// The place of the first instance.
    place: usize,
    code: &'a ValueCode,
    /// The instances behind the first.
    others: &'a [ValueCode],
}

impl<'a> CarriedValue<'a> {
    /// The first instance's part of the digest of a packet that carries the query.
    pub fn part(&self, identity: u32, digest: u16) -> Option<u16> {
        self.part_of(self.code, self.scheme.parts(identity), digest)
    }

    /// An instance's part of the digest of a packet with these parts.
    fn part_of(&self, code: &ValueCode, parts: &[Part], digest: u16) -> Option<u16> {
        let its = (self.place + code.instance, code.query.value);
        Some(parts.iter().find(|part| (part.code, part.value) == its)?.of(digest))
    }

    /// The hop whose value the first instance holds behind a path of `length` switches, and its code;
    /// `None` of a packet that carries none.
    pub fn hop(&self, identity: u32, length: u8, digest: u16) -> Option<(usize, u16)> {
        self.hops(identity, length, digest).next()
    }

    /// The hops whose values all instances hold, each once, and their codes. Of several instances
    /// that hold one hop's value the first counts: they are one packet's, and the value is one.
    pub fn hops(&self, identity: u32, length: u8, digest: u16) -> impl Iterator<Item = (usize, u16)> {
        let (mut told, parts) = (Hops::default(), self.scheme.parts(identity));
        let hop = move |code: &ValueCode| {
            let held = self.part_of(code, parts, digest)?;
            Some((code.writer(identity, length.into())?, held))
        };
        let all = std::iter::once(self.code).chain(self.others);
        all.filter_map(hop).filter(move |(hop, _)| {
            let is_first = !told.contains(*hop);
            told.insert(*hop);
            is_first
        })
    }

    /// Number of instances.
    pub fn instances(&self) -> usize {
        1 + self.others.len()
    }

    pub fn code(&self) -> &'a ValueCode {
        self.code
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        let loops = |scheme: &Self| scheme.loops.as_ref().map(|code| (code.bits(), code.threshold()));
        self.sets == other.sets
            && self.path == other.path
            && loops(self) == loops(other)
            && self.values == other.values
            && self.family == other.family
    }
}
