//! The recording module: what is known of flows over all epochs, bounded in memory, and their paths
//! as far as digests decide them.

pub mod hops;
mod kept;
pub mod lack;
pub mod loops;
pub mod packets;
mod switches;
pub mod values;
mod ways;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::iter::repeat_n;
use std::sync::Arc;

use super::Config;
use super::dataplane::{Code, Scheme};
use super::inference::{Mark, Standing};
use super::parameters::{Coding, PlanId};
use super::query::{FlowDefinition, Value};
use super::record::{Digests, Seen};
use crate::answers::{Certainty, FlowName, FlowPath, SureOf};
use crate::slices;
use kept::Kept;
use switches::{Decided, Switches};
pub use ways::Key;
use ways::{Route, Way, ways};

/// The packets of which a path is sure.
struct Sure {
    first: Mark,
    last: Mark,
    /// `None` until a packet comes with the code that packets have now.
    standing: Option<Standing>,
}

/// What is known of a flow's path.
struct Known {
    hops: u8,
    /// In the order in which they came.
    seen: Vec<Seen>,
    /// Packets that the answer rests on.
    packets: u64,
    path: Arc<[Option<Arc<str>>]>,
    certainty: Certainty,
    /// Digests of the hop of which the fewest tell.
    digests: u32,
    /// There as long as the path is sure.
    sure: Option<Sure>,
    /// Packets that look like an earlier one of the same path.
    repeated: u64,
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
            path: repeat_n(None, hops.into()).collect(),
            certainty: Certainty::Undecided,
            digests: 0,
            sure: None,
            repeated: 0,
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

    /// Takes another packet that agrees with a path that is sure.
    fn stand(&mut self, code: &Code, packet: &Seen) {
        let Some(sure) = &mut self.sure else { return };
        let standing = sure.standing.get_or_insert_with(|| Standing::new(code, self.hops.into()));
        let mark = Mark { number: self.packets, time_ns: packet.time_ns };
        standing.add(code, (packet.identity, packet.digest), mark);
    }

    /// The path is sure from now on: of the packets between two that are kept.
    fn settle(&mut self, code: &Code, between: [u32; 2]) {
        let mut standing = Standing::new(code, self.hops.into());
        let mut ends = [Mark::default(); 2];
        for (number, Seen { time_ns, identity, digest }) in (1..).zip(&self.seen) {
            let mark = Mark { number, time_ns: *time_ns };
            standing.add(code, (*identity, *digest), mark);
            ends.iter_mut().zip(between).filter(|(_, of)| of == identity).for_each(|(end, _)| *end = mark);
        }
        let [first, last] = ends;
        self.sure = Some(Sure { first, last, standing: Some(standing) });
    }

    /// The packets of which the path is sure.
    fn sure_of(&self) -> Option<SureOf> {
        let Sure { first, last, standing } = self.sure.as_ref()?;
        let last = standing.as_ref().and_then(Standing::until).map_or(*last, |until| until.max(*last));
        Some(SureOf { packets: last.number - first.number + 1, since_ns: first.time_ns, until_ns: last.time_ns })
    }

    /// Whether it is to be worked out again: enough packets have come since.
    fn is_due(&self) -> bool {
        self.certainty != Certainty::Sure && self.seen.len() >= self.worked_out + (self.worked_out / 8).max(1)
    }
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
        let names = config.names().map(Into::into).collect();
        let flows = Kept::new(config.flows as usize, |known: &Known| known.last_epoch, 0);
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

    /// The path of a flow over this number of switches, as far as it is decided, and how often its packets
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
                Certainty::Sure => {
                    (known.seen, known.worked_out) = (Vec::new(), 0);
                    known.sure.iter_mut().for_each(|sure| sure.standing = None);
                }
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
        let carriers = carriers(self.flow, coding, records);
        let (mut packets, mut identities) = (Vec::new(), HashSet::new());
        for of_route in carriers.chunk_by(|one, other| one.route == other.route) {
            slices::check();
            let Carriers { route, hops, .. } = &of_route[0];
            packets.clear();
            of_route.iter().for_each(|carriers| packets.extend(carriers.path_parts(&coding.scheme)));
            // Several connections can be one flow.
            packets.sort_unstable();
            let known = self.flows.flow(route.clone(), || Known::new(*hops));
            known.last_epoch = epoch;
            let hops = newest_length(&packets).unwrap_or(known.hops);
            let are_several = packets.iter().any(|(_, length)| *length != hops);
            if known.hops != hops {
                known.change(hops);
            } else if are_several {
                known.changes += 1;
            }
            let of_length = packets.iter().filter(|(_, length)| *length == hops).map(|(seen, _)| *seen);
            take(known, of_length, switches, room, &mut identities);
        }
        let mut paths = Vec::new();
        for (route, known) in self.flows.iter_mut().filter(|(_, known)| known.last_epoch == epoch) {
            slices::check();
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

/// Packets of a route in an epoch, all with paths of one length.
struct Carriers<'a> {
    route: Route,
    hops: u8,
    seen: Cow<'a, [Seen]>,
}

impl Carriers<'_> {
    /// Those that carry the path, their path's part alone, each with the number of switches on its path.
    fn path_parts(&self, scheme: &Scheme) -> impl Iterator<Item = (Seen, u8)> {
        self.seen.iter().filter_map(|seen| Some((path_part(scheme, seen)?, self.hops)))
    }
}

/// The packets of an epoch, those of a route together.
fn carriers<'a>(flow: FlowDefinition, coding: &'a Coding, records: &'a [(Arc<str>, &Digests)]) -> Vec<Carriers<'a>> {
    let carries = |seen: &Seen| coding.scheme.path_part(seen.identity, seen.digest).is_some();
    let of_way = |(way, seen): (Way, _)| Carriers { hops: way.hops, route: way.route(), seen };
    let mut carriers: Vec<_> = ways(flow, coding, records, carries).map(of_way).collect();
    carriers.sort_by(|one, other| one.route.cmp(&other.route));
    carriers
}

/// Newest packets of an epoch that say how long a flow's path is. One of them may be late, or have
/// been doubled on a longer way.
const NEWEST: usize = 7;

/// The length of the path of most of the newest of these packets, which are in the order in which
/// they left. Of several lengths with as many packets, that of the newest.
fn newest_length(packets: &[(Seen, u8)]) -> Option<u8> {
    let newest = &packets[packets.len().saturating_sub(NEWEST)..];
    let number = |hops: u8| newest.iter().filter(|(_, other)| *other == hops).count();
    newest.iter().map(|(_, hops)| *hops).max_by_key(|hops| number(*hops))
}

/// A packet with the path's part of its digest alone; `None` of one that does not carry the path.
fn path_part(scheme: &Scheme, seen: &Seen) -> Option<Seen> {
    let digest = scheme.path_part(seen.identity, seen.digest)?;
    Some(Seen { digest, ..*seen })
}

/// The most room that `take` leaves in the set of identities, so that it is soon cleared.
const IDENTITIES: usize = 1024;

/// Takes the packets of a flow. Those that contradict a path that is certain begin another one. What is
/// in `identities` does not matter: each call has the same set, for its memory.
fn take(
    known: &mut Known,
    seen: impl Iterator<Item = Seen>,
    switches: &Switches,
    room: usize,
    identities: &mut HashSet<u32>,
) {
    let path = switches.coded(&known.path);
    identities.clear();
    identities.shrink_to(IDENTITIES);
    identities.extend(known.seen.iter().map(|seen| seen.identity));
    for packet in seen {
        if known.certainty == Certainty::Sure {
            if switches.code.digest(&path, packet.identity) == packet.digest {
                if identities.insert(packet.identity) {
                    known.packets += 1;
                    known.stand(&switches.code, &packet);
                }
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
        } else {
            known.repeated += 1;
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
        if let Some(decided) = switches.infer(&route.key.sink, route.checksum(), known.hops, rest) {
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
    let between = evidence.between.filter(|_| !hops.contains(&None));
    known.certainty = match (hops.contains(&None), between) {
        (true, _) => Certainty::Undecided,
        (false, None) => Certainty::Decided,
        (false, Some(_)) => Certainty::Sure,
    };
    known.path = hops.into();
    known.digests = evidence.digests;
    if given_up > 0 {
        known.changes += 1;
        known.seen.drain(..given_up);
    }
    known.packets = known.seen.len() as u64;
    known.worked_out = known.seen.len();
    if let Some(between) = between {
        known.settle(&switches.code, between);
    }
}

fn answer(flow: FlowDefinition, route: &Route, known: &Known) -> FlowPath {
    FlowPath {
        flow: FlowName::Flow(flow.flow(route.key.flow)),
        sink: route.key.sink.clone(),
        checksum: route.checksum(),
        switches: known.path.clone(),
        certainty: known.certainty,
        packets: known.packets,
        sure: known.sure_of(),
        repeated: known.repeated,
        least_digests: known.digests,
        contradictions: known.changes,
    }
}

#[cfg(test)]
mod tests;
