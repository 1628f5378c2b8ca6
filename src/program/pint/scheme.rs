//! What all switches of a network and what decodes have in common, made and read: the plan, and the
//! code of each query. What a switch does with it is in [`dataplane`](super::dataplane).

use std::borrow::Cow;
use std::sync::Arc;

use super::dataplane::{CarriedSet, Code, Coded, Part, Scheme};
use super::encoding::{DIGEST_BITS, Layers};
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
        let values: Vec<_> = queries.iter().filter_map(|query| ValueCode::new(query, family)).collect();
        let place = |query: &Query| values.iter().position(|code| code.query == query.code()).unwrap_or_default();
        let set = |planned: &super::plan::Planned| {
            let mut shift = 0;
            let carried = planned.set.queries().filter_map(|place| queries.get(place)).map(|query| {
                let bits = query.demand().bits;
                let mask = u16::MAX >> (DIGEST_BITS - bits);
                let part = Part { value: query.value, code: place(query), shift, mask };
                shift += bits;
                part
            });
            CarriedSet { last: planned.last, parts: carried.collect() }
        };
        let sets = plan.0.iter().map(set).collect();
        let chooses = Global::derive(family, "pint/plan", 0);
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
        Some(CarriedValue { scheme: self, place, code: &self.values[place] })
    }

    /// The codes of all queries that have some.
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
        let is_same = |code: &&ValueCode| code.query.value == part.value;
        match self.values.get(part.code).filter(|_| self.values.iter().filter(is_same).count() > 1) {
            Some(code) if is_same(&code) => code.query.to_string().into(),
            _ => part.value.name().into(),
        }
    }
}

/// What packets carry for a query for a value.
#[derive(Clone, Copy, Debug)]
pub struct CarriedValue<'a> {
    scheme: &'a Scheme,
    place: usize,
    code: &'a ValueCode,
}

impl<'a> CarriedValue<'a> {
    /// The query's part of the digest of a packet that carries it.
    pub fn part(&self, identity: u32, digest: u16) -> Option<u16> {
        let is_its = |part: &&Part| (part.code, part.value) == (self.place, self.code.query.value);
        Some(self.scheme.parts(identity).iter().find(is_its)?.of(digest))
    }

    /// The hop whose value a packet holds behind a path of `length` switches, and its code; `None`
    /// of a packet that carries none.
    pub fn hop(&self, identity: u32, length: u8, digest: u16) -> Option<(usize, u16)> {
        let code = self.part(identity, digest)?;
        Some((self.code.writer(identity, length.into())?, code))
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
