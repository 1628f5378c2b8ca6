//! The switches of a network as what decodes knows them: candidates for the hops of paths, and their
//! names.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::program::pint::Config;
use crate::program::pint::dataplane::{Code, Coded};
use crate::program::pint::encoding::switch_id;
use crate::program::pint::inference::{Evidence, FragmentInference, Inference, Universe};
use crate::program::pint::record::Seen;

/// The switches of the network, as far as they are known.
pub struct Switches {
    pub code: Arc<Code>,
    names: Vec<Arc<str>>,
    blind: Universe,
    /// With the links that are configured, where there are any.
    linked: Option<Universe>,
}

impl Switches {
    pub fn new(code: &Arc<Code>, names: &BTreeSet<Arc<str>>, config: &Config) -> Self {
        let names: Vec<_> = names.iter().cloned().collect();
        let ids = || names.iter().map(|name| switch_id(name));
        let place = |name: &str| names.binary_search_by(|other| (**other).cmp(name)).ok();
        let pairs = config
            .neighbours
            .iter()
            .flat_map(|(name, others)| others.iter().filter_map(move |other| Some([place(name)?, place(other)?])));
        let pairs: Vec<_> = pairs.collect();
        let linked = (!pairs.is_empty()).then(|| Universe::new(code, ids(), Some(&pairs)));
        Self { blind: Universe::new(code, ids(), None), linked, code: code.clone(), names }
    }

    /// What the packets of a flow decide that left the network at `sink`. A path that is decided has
    /// the checksum that its packets carry.
    pub fn infer(&self, sink: &str, checksum: Option<u16>, hops: u8, seen: &[Seen]) -> Option<Decided> {
        let found = match self.code.is_fragmented() {
            true => self.by_fragments(sink, hops, seen),
            false => self.by_hashes(sink, hops, seen),
        };
        let agrees =
            |path: &Decided| path.hops.contains(&None) || self.code.checksum_of(&self.coded(&path.hops)) == checksum;
        found.filter(agrees)
    }

    /// What hashes decide, by the links if any path on them agrees.
    fn by_hashes(&self, sink: &str, hops: u8, seen: &[Seen]) -> Option<Decided> {
        let of = |universe| {
            let mut inference = Inference::new(&self.code, universe, hops.into());
            if let Ok(place) = self.names.binary_search_by(|name| (**name).cmp(sink)) {
                inference.fix(hops.into(), place);
            }
            inference.add_all(seen.iter().map(|seen| (seen.identity, seen.digest)));
            let hops = inference.hops().map(|hop| hop.map(|place| self.names[place].clone())).collect();
            let decided = Decided { hops, evidence: inference.evidence() };
            Some(decided).filter(|_| !inference.is_contradicted())
        };
        self.linked.as_ref().and_then(of).or_else(|| of(&self.blind))
    }

    /// What fragments decide. A switch that is not known is called by its identifier.
    fn by_fragments(&self, sink: &str, hops: u8, seen: &[Seen]) -> Option<Decided> {
        let mut inference = FragmentInference::new(&self.code, hops.into());
        inference.fix(hops.into(), switch_id(sink));
        seen.iter().for_each(|seen| inference.add(seen.identity, seen.digest));
        let name = |id: u32| {
            let known = self.blind.place(id).map(|place| self.names[place].clone());
            known.unwrap_or_else(|| format!("{UNKNOWN}{id:08x}").into())
        };
        let decided =
            Decided { hops: inference.hops().map(|id| id.map(name)).collect(), evidence: inference.evidence() };
        Some(decided).filter(|_| !inference.is_contradicted())
    }

    /// The switches of a path that is known.
    pub fn coded(&self, path: &[Option<Arc<str>>]) -> Vec<Coded> {
        let known = |name: &str| {
            let place = self.names.binary_search_by(|other| (**other).cmp(name)).ok()?;
            self.blind.switch(place).cloned()
        };
        let unknown = |name: &str| {
            let digits = name.strip_prefix(UNKNOWN).and_then(|digits| u32::from_str_radix(digits, 16).ok());
            self.code.switch(digits.unwrap_or_else(|| switch_id(name)))
        };
        path.iter().flatten().map(|name| known(name).unwrap_or_else(|| unknown(name))).collect()
    }
}

/// Stands before the identifier of a switch whose name is not known.
const UNKNOWN: &str = "0x";

/// The switches that are decided on a path, and how well digests bear them out.
pub struct Decided {
    pub hops: Vec<Option<Arc<str>>>,
    pub evidence: Evidence,
}
