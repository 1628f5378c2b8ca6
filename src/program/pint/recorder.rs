//! The recording module: what is known of flows over all epochs, bounded in memory, and their paths
//! as far as digests decide them.

pub mod hops;
mod kept;
pub mod loops;
pub mod packets;
pub mod values;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::Config;
use super::dataplane::{Code, Coded, Scheme};
use super::encoding::switch_id;
use super::inference::{Evidence, FragmentInference, Inference, Universe};
use super::parameters::{Coding, PlanId};
use super::query::{FlowDefinition, Value};
use super::record::{Digests, Seen};
use crate::program::answers::{Certainty, FlowName, FlowPath};
use crate::wire::FiveTuple;
use kept::Kept;

/// A flow, and the switch where it leaves the network.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub flow: FiveTuple,
    pub sink: Arc<str>,
}

/// A flow, and which of its paths, where packets carry a checksum of theirs: the number of switches
/// and the checksum.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Route {
    key: Key,
    path: Option<(u8, u16)>,
}

impl Route {
    fn checksum(&self) -> Option<u16> {
        self.path.map(|(_, checksum)| checksum)
    }
}

/// What is known of a flow's path.
struct Known {
    hops: u8,
    /// In the order in which they came.
    seen: Vec<Seen>,
    /// Packets that the answer rests on.
    packets: u64,
    path: Vec<Option<Arc<str>>>,
    certainty: Certainty,
    /// Digests of the hop of which the fewest tell.
    digests: u32,
    /// Times that digests contradicted those before.
    changes: u64,
    /// Times that they contradicted a path that was sure, or had another length.
    reroutes: u64,
    /// Packets that there were when the path was last worked out.
    worked_out: usize,
    last_epoch: u64,
}

impl Known {
    fn new(hops: u8) -> Self {
        Self {
            hops,
            seen: Vec::new(),
            packets: 0,
            path: vec![None; hops.into()],
            certainty: Certainty::Undecided,
            digests: 0,
            changes: 0,
            reroutes: 0,
            worked_out: 0,
            last_epoch: 0,
        }
    }

    /// Begins anew with another path.
    fn change(&mut self, hops: u8) {
        let reroutes = self.reroutes + 1;
        *self = Self { changes: self.changes + 1, reroutes, last_epoch: self.last_epoch, ..Self::new(hops) };
    }

    /// Gives up the earliest packets.
    fn forget(&mut self, packets: usize) -> impl Iterator<Item = Seen> {
        self.worked_out = self.worked_out.saturating_sub(packets);
        self.seen.drain(..packets)
    }

    /// Whether it is to be worked out again: enough packets have come since.
    fn is_due(&self) -> bool {
        self.certainty != Certainty::Sure && self.seen.len() >= self.worked_out + (self.worked_out / 8).max(1)
    }
}

/// The switches of the network, as far as they are known.
struct Switches {
    code: Arc<Code>,
    names: Vec<Arc<str>>,
    blind: Universe,
    /// With the links that are configured, where there are any.
    linked: Option<Universe>,
}

impl Switches {
    fn new(code: &Arc<Code>, names: &BTreeSet<Arc<str>>, config: &Config) -> Self {
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

    /// What the packets of a flow decide. A path that is decided has the checksum that its packets
    /// carry.
    fn infer(&self, route: &Route, hops: u8, seen: &[Seen]) -> Option<Decided> {
        let found = match self.code.is_fragmented() {
            true => self.by_fragments(&route.key.sink, hops, seen),
            false => self.by_hashes(&route.key.sink, hops, seen),
        };
        let agrees = |path: &Decided| {
            path.hops.contains(&None) || self.code.checksum_of(&self.coded(&path.hops)) == route.checksum()
        };
        found.filter(agrees)
    }

    /// What hashes decide, by the links if any path on them agrees.
    fn by_hashes(&self, sink: &str, hops: u8, seen: &[Seen]) -> Option<Decided> {
        let of = |universe| {
            let mut inference = Inference::new(&self.code, universe, hops.into());
            if let Ok(place) = self.names.binary_search_by(|name| (**name).cmp(sink)) {
                inference.fix(hops.into(), place);
            }
            seen.iter().for_each(|seen| inference.add(seen.identity, seen.digest));
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
    fn coded(&self, path: &[Option<Arc<str>>]) -> Vec<Coded> {
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
struct Decided {
    hops: Vec<Option<Arc<str>>>,
    evidence: Evidence,
}

/// What a network has reported so far.
pub struct Recorder {
    config: Config,
    /// Of the code that the kept packets have.
    plan: Option<PlanId>,
    /// Which packets are one flow.
    flow: FlowDefinition,
    /// Bits of the checksums by which paths of a flow are told apart.
    checksum: u32,
    names: BTreeSet<Arc<str>>,
    switches: Option<Switches>,
    flows: Kept<Route, Known>,
}

impl Recorder {
    pub fn new(config: &Config) -> Self {
        let ends = config.neighbours.iter().flat_map(|(name, others)| std::iter::once(name).chain(others));
        let names = ends.map(|name| name.as_str().into()).collect();
        let flows = Kept::new(config.flows as usize, |known: &Known| known.last_epoch);
        let (flow, checksum) = (FlowDefinition::default(), 0);
        Self { config: config.clone(), plan: None, flow, checksum, names, switches: None, flows }
    }

    /// Flows that were evicted so far.
    pub fn evicted(&self) -> u64 {
        self.flows.evicted()
    }

    /// A switch of the network.
    pub fn name(&mut self, switch: &Arc<str>) {
        if self.names.insert(switch.clone()) {
            self.switches = None;
        }
    }

    /// Which packets are one flow.
    pub fn flow(&self) -> FlowDefinition {
        self.flow
    }

    /// The path of a flow over so many switches, as far as it is decided, and how often its packets
    /// contradicted one that was sure. `None` where packets tell of no path: it may have changed.
    /// Where paths have checksums, it is that of packets with this one.
    pub fn path(&self, key: &Key, hops: u8, checksum: Option<u16>) -> Option<(&[Option<Arc<str>>], u64)> {
        self.switches.as_ref()?;
        let route = Route { key: key.clone(), path: checksum.map(|checksum| (hops, checksum)) };
        let known = self.flows.get(&route).filter(|known| known.hops == hops)?;
        Some((&known.path, known.reroutes))
    }

    /// Packets have another code from now on, which does not tell of those that are kept. Paths that
    /// are sure stay: packets of any code can contradict them.
    fn change(&mut self, coding: &Coding) {
        let query = coding.parameters.query(Value::Path);
        let (flow, checksum) = query.map_or((self.flow, self.checksum), |query| (query.flow, query.checksum));
        if (flow, checksum) != (self.flow, self.checksum) {
            self.flows.clear();
        }
        for (_, known) in self.flows.iter_mut() {
            match known.certainty {
                Certainty::Sure => (known.seen, known.worked_out) = (Vec::new(), 0),
                _ => {
                    let Known { changes, reroutes, last_epoch, .. } = *known;
                    *known = Known { changes, reroutes, last_epoch, ..Known::new(known.hops) };
                }
            }
        }
        (self.plan, self.flow, self.checksum, self.switches) = (Some(coding.id), flow, checksum, None);
    }

    /// Takes the records of an epoch, by sink, and gives the paths of their flows. Of the records,
    /// the packets with this plan count.
    pub fn epoch(&mut self, epoch: u64, coding: &Coding, records: &[(Arc<str>, &Digests)]) -> Vec<FlowPath> {
        if self.plan != Some(coding.id) {
            self.change(coding);
        }
        let Some(code) = coding.scheme.path() else { return Vec::new() };
        let (names, config) = (&self.names, &self.config);
        let room = config.packets as usize;
        let switches = self.switches.get_or_insert_with(|| Switches::new(code, names, config));
        for ((key, hops, checksum), mut carriers) in carriers(self.flow, coding, records) {
            // Several connections can be one flow.
            carriers.sort_unstable();
            let route = Route { key, path: checksum.map(|checksum| (hops, checksum)) };
            let known = self.flows.flow(route, || Known::new(hops));
            known.last_epoch = epoch;
            if known.hops != hops {
                known.change(hops);
            }
            take(known, carriers, switches, room);
        }
        let mut paths = Vec::new();
        for (route, known) in self.flows.iter_mut().filter(|(_, known)| known.last_epoch == epoch) {
            if known.is_due() && !known.seen.is_empty() {
                work_out(known, route, switches);
            }
            paths.push(answer(self.flow, route, known));
        }
        paths.sort_unstable_by(|a, b| {
            let [one, other] = [a, b].map(|path| (path.flow, &path.sink, path.switches.len(), path.checksum));
            b.packets.cmp(&a.packets).then_with(|| one.cmp(&other))
        });
        self.flows.trim();
        paths
    }
}

/// Flows with the number of switches passed and the checksum of the path, if there is one.
type Carriers = BTreeMap<(Key, u8, Option<u16>), Vec<Seen>>;

/// The packets of each flow of these records that carry the path.
fn carriers(flow: FlowDefinition, coding: &Coding, records: &[(Arc<str>, &Digests)]) -> Carriers {
    let mut carriers = Carriers::new();
    for (sink, record) in records {
        for (stream, seen) in record.streams().iter().filter(|(stream, _)| stream.plan == coding.id) {
            let key = Key { flow: flow.key(stream.flow), sink: sink.clone() };
            for (checksum, seen) in by_checksum(&coding.scheme, Value::Path, seen) {
                let of_path = seen.iter().filter_map(|seen| path_part(&coding.scheme, seen));
                let carriers = carriers.entry((key.clone(), stream.hops, checksum)).or_default();
                carriers.extend(of_path);
            }
        }
    }
    carriers
}

/// Packets by the checksum of their path: those that carry this value, where packets have checksums,
/// else all. Those without a checksum are among themselves.
fn by_checksum<'a>(scheme: &Scheme, value: Value, seen: &'a [Seen]) -> BTreeMap<Option<u16>, Cow<'a, [Seen]>> {
    if scheme.path().is_none_or(|path| path.checksum(0).is_none()) {
        return [(None, seen.into())].into_iter().collect();
    }
    let mut parts = BTreeMap::<_, Cow<'a, [Seen]>>::new();
    for seen in seen.iter().filter(|seen| scheme.part(value, seen.identity, seen.digest).is_some()) {
        let checksum = scheme.checksum(seen.identity, seen.digest);
        parts.entry(checksum).or_default().to_mut().push(*seen);
    }
    parts
}

/// A packet with the path's part of its digest alone; `None` of one that does not carry the path.
fn path_part(scheme: &Scheme, seen: &Seen) -> Option<Seen> {
    let digest = scheme.part(Value::Path, seen.identity, seen.digest)?;
    Some(Seen { digest, ..*seen })
}

/// Takes the packets of a flow. Those that contradict a path that is certain begin another one.
fn take(known: &mut Known, seen: Vec<Seen>, switches: &Switches, room: usize) {
    let path = switches.coded(&known.path);
    let mut identities: HashSet<_> = known.seen.iter().map(|seen| seen.identity).collect();
    for packet in seen {
        if known.certainty == Certainty::Sure {
            if switches.code.digest(&path, packet.identity) == packet.digest {
                known.packets += u64::from(identities.insert(packet.identity));
                continue;
            }
            known.change(known.hops);
            identities.clear();
        }
        // A packet that comes twice says nothing new.
        if identities.insert(packet.identity) {
            if known.seen.len() >= 2 * room {
                known.forget(room).for_each(|seen| _ = identities.remove(&seen.identity));
            }
            known.seen.push(packet);
            known.packets = known.seen.len() as u64;
        }
    }
    let surplus = known.seen.len().saturating_sub(room);
    if surplus > 0 {
        known.forget(surplus).for_each(drop);
        known.packets = known.seen.len() as u64;
    }
}

/// Works a path out. Packets that contradict each other came by several paths: the older half is
/// given up until the rest agrees.
fn work_out(known: &mut Known, route: &Route, switches: &Switches) {
    let mut given_up = 0;
    let decided = loop {
        let rest = &known.seen[given_up..];
        if let Some(decided) = switches.infer(route, known.hops, rest) {
            break decided;
        }
        if rest.len() < 2 {
            // Not even one packet is explained: a switch on the path is not known.
            let (changes, seen) = (known.changes + 1, std::mem::take(&mut known.seen));
            let reroutes = known.reroutes;
            *known = Known { changes, reroutes, seen, last_epoch: known.last_epoch, ..Known::new(known.hops) };
            known.packets = known.seen.len() as u64;
            known.worked_out = known.seen.len();
            return;
        }
        given_up += rest.len().div_ceil(2);
    };
    let Decided { hops, evidence } = decided;
    known.certainty = match (!hops.contains(&None), evidence.is_certain) {
        (false, _) => Certainty::Undecided,
        (true, false) => Certainty::Decided,
        (true, true) => Certainty::Sure,
    };
    known.path = hops;
    known.digests = evidence.digests;
    if given_up > 0 {
        known.changes += 1;
        known.seen.drain(..given_up);
    }
    known.packets = known.seen.len() as u64;
    known.worked_out = known.seen.len();
}

fn answer(flow: FlowDefinition, route: &Route, known: &Known) -> FlowPath {
    FlowPath {
        flow: FlowName::Flow(flow.flow(route.key.flow)),
        sink: route.key.sink.clone(),
        checksum: route.checksum(),
        switches: known.path.clone(),
        certainty: known.certainty,
        packets: known.packets,
        least_digests: known.digests,
        contradictions: known.changes,
    }
}

#[cfg(test)]
mod tests;
