//! Flows that a program knows by digests of 32 bits, and the names of these digests.
//!
//! A digest has a name when a packet of its flow was reported, in any of the epochs of an answer. It is
//! ambiguous when packets of several such flows were: its count is that of all of them together. What
//! has no name, or several, is never left out: it stands in the answer as a digest, and is counted.

use std::fmt;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Counted, FlowCount, FlowName, FoundFlows};
use crate::history::{Reason, Reasons};
use crate::output;
use crate::pisa::hash::FlowDigests;
use crate::wire::Flow;

/// The digest of a five-tuple that is not known: its CRC-32, as zlib has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Digest32 {
    pub is_ipv6: bool,
    #[serde(serialize_with = "to_hexadecimal", deserialize_with = "from_hexadecimal")]
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{8}$"))]
    pub crc: u32,
    /// Several flows that were reported have it.
    pub is_ambiguous: bool,
}

fn to_hexadecimal<S: Serializer>(crc: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{crc:08x}"))
}

fn from_hexadecimal<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let text = String::deserialize(from)?;
    u32::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
}

impl fmt::Display for Digest32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_ipv6, crc, is_ambiguous } = self;
        let family = if *is_ipv6 { "ipv6" } else { "ipv4" };
        let flows = if *is_ambiguous { "several flows" } else { "flow" };
        f.pad(&format!("{family} {flows} {crc:08x}"))
    }
}

/// Digests of an answer that name no flow, whether they stand in it or are omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unresolved {
    /// Those without a name.
    #[serde(skip_serializing_if = "is_none", default)]
    pub unnamed_digests: u64,
    /// Those of several flows.
    #[serde(skip_serializing_if = "is_none", default)]
    pub ambiguous_digests: u64,
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

impl Unresolved {
    /// The line about them; empty if there is none.
    pub fn text(self) -> String {
        let count =
            |number: u64, what: &str| (number > 0).then(|| format!("{} {what}", output::count(number, "digest")));
        let unnamed = count(self.unnamed_digests, "without a name: no packet was reported");
        let ambiguous = count(self.ambiguous_digests, "of several flows each");
        unnamed.into_iter().chain(ambiguous).collect::<Vec<_>>().join("; ")
    }
}

/// The flows of digests, by what a digest is without its names.
#[derive(Default)]
struct Names {
    digests: FlowDigests,
    /// `None` for a digest of several flows.
    flows: FxHashMap<(bool, u32), Option<Flow>>,
}

impl Names {
    fn add(&mut self, flow: Flow) {
        let Some(crc) = self.digests.of(&flow) else { return };
        let is_ipv6 = flow.src.is_some_and(|src| src.is_ipv6());
        let name = self.flows.entry((is_ipv6, crc)).or_insert(Some(flow));
        *name = name.filter(|known| *known == flow);
    }

    fn name(&self, digest: Digest32) -> FlowName {
        match self.flows.get(&(digest.is_ipv6, digest.crc)) {
            Some(Some(flow)) if !digest.is_ambiguous => FlowName::Flow(*flow),
            Some(None) => FlowName::Digest32(Digest32 { is_ambiguous: true, ..digest }),
            _ => FlowName::Digest32(digest),
        }
    }
}

impl FoundFlows {
    /// Gives digests the names of these flows, as far as they have any, and adds up counts of one name.
    pub fn resolve(&mut self, flows: impl IntoIterator<Item = Flow>) {
        if self.digests().next().is_none() {
            return;
        }
        let mut names = Names::default();
        flows.into_iter().for_each(|flow| names.add(flow));
        // A digest that is ambiguous in one epoch is ambiguous in all of them.
        let ambiguous = self.digests().filter(|digest| digest.is_ambiguous);
        for Digest32 { is_ipv6, crc, .. } in ambiguous.collect::<Vec<_>>() {
            names.flows.insert((is_ipv6, crc), None);
        }
        let mut counts: FxHashMap<FlowName, Counted> = FxHashMap::default();
        for FlowCount { flow, count } in self.flows.drain(..) {
            let name = flow.digest32().map_or(flow, |digest| names.name(digest));
            *counts.entry(name).or_default() += count;
        }
        self.flows = counts.into_iter().map(|(flow, count)| FlowCount { flow, count }).collect();
    }

    /// Gives digests the names of flows that are found by their names.
    pub fn resolve_by_own(&mut self) {
        let named: Vec<_> = self.flows.iter().filter_map(|flow| flow.flow.flow()).collect();
        self.resolve(named);
    }

    /// The digests of 32 bits.
    fn digests(&self) -> impl Iterator<Item = Digest32> {
        self.flows.iter().filter_map(|flow| flow.flow.digest32())
    }

    /// The numbers of digests that name no flow.
    pub fn unresolved(&self) -> Unresolved {
        let mut unresolved = Unresolved::default();
        for digest in self.digests() {
            let Unresolved { unnamed_digests, ambiguous_digests } = &mut unresolved;
            *if digest.is_ambiguous { ambiguous_digests } else { unnamed_digests } += 1;
        }
        unresolved
    }

    /// Why flows are missing among those with names.
    pub fn lack_of_names(&self) -> Reasons {
        let (unresolved, mut lack) = (self.unresolved(), Reasons::default());
        lack.add_if(unresolved.unnamed_digests > 0, Reason::DigestsUnnamed);
        lack.add_if(unresolved.ambiguous_digests > 0, Reason::DigestsAmbiguous);
        lack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::SplitMix64;

    /// Two flows with one CRC-32. Flows in a row have none in common, as a CRC is linear.
    fn twins() -> [Flow; 2] {
        let (mut met, digests) = (FxHashMap::default(), FlowDigests::default());
        let flow = |n: u64| {
            let [src, port] = [2 * n, 2 * n + 1].map(|at| SplitMix64::new(7).nth(at) as u32);
            Flow { src: Some(src.to_be_bytes().into()), ..Flow::from_port(port as u16) }
        };
        let twins = (0..1 << 20).find_map(|n| Some([met.insert(digests.of(&flow(n))?, n)?, n]));
        twins.expect("a million flows have twins").map(flow)
    }

    fn digest(flow: &Flow) -> FlowName {
        let crc = FlowDigests::default().of(flow).unwrap();
        FlowName::Digest32(Digest32 { is_ipv6: false, crc, is_ambiguous: false })
    }

    fn found(flows: &[(FlowName, u64)]) -> FoundFlows {
        let flows = flows.iter().map(|&(flow, count)| FlowCount { flow, count: count.into() }).collect();
        FoundFlows { flows, ..FoundFlows::default() }
    }

    fn counts(found: &FoundFlows) -> Vec<(FlowName, u64)> {
        found.heaviest(99).iter().map(|flow| (flow.flow, flow.count.number)).collect()
    }

    #[test]
    fn digests_take_the_names_of_reported_flows() {
        let [known, other] = [1, 2].map(Flow::from_port);
        let mut flows = found(&[(digest(&known), 7), (digest(&other), 5), (FlowName::Flow(known), 3)]);
        flows.resolve([known]);
        assert_eq!(counts(&flows), [(FlowName::Flow(known), 10), (digest(&other), 5)]);
        assert_eq!(flows.unresolved(), Unresolved { unnamed_digests: 1, ambiguous_digests: 0 });
        assert!(flows.lack_of_names().contains(Reason::DigestsUnnamed));
        assert_eq!(flows.unresolved().text(), "1 digest without a name: no packet was reported");
    }

    /// A digest of two flows names neither, whatever else is known, and has the counts of both.
    #[test]
    fn a_digest_with_two_names_is_ambiguous() {
        let [one, other] = twins();
        assert_ne!(one, other);
        let mut flows = found(&[(digest(&one), 7)]);
        flows.resolve([one, other]);
        let Some(ambiguous) = flows.flows[0].flow.digest32() else { panic!("a digest") };
        assert_eq!(flows.unresolved(), Unresolved { unnamed_digests: 0, ambiguous_digests: 1 });
        assert!(ambiguous.is_ambiguous);
        assert!(flows.lack_of_names().contains(Reason::DigestsAmbiguous));
        let mut sum = FoundFlows::sum([flows, found(&[(digest(&one), 2)])].into_iter());
        assert_eq!(counts(&sum), [(FlowName::Digest32(ambiguous), 9)]);
        sum.resolve([one]);
        assert_eq!(counts(&sum), [(FlowName::Digest32(ambiguous), 9)]);
    }

    /// Over several epochs a name of one of them is a name in all.
    #[test]
    fn sums_name_digests_by_other_epochs() {
        let flow = Flow::from_port(1);
        let sum = FoundFlows::sum([found(&[(digest(&flow), 7)]), found(&[(FlowName::Flow(flow), 2)])].into_iter());
        assert_eq!(counts(&sum), [(FlowName::Flow(flow), 9)]);
    }
}
