//! Where switches are taken in or refused, and leave their records.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, unbounded};
use tokio::sync::{oneshot, watch};

use super::Event;
use crate::lock::Hold;
use crate::network::controller::{
    ChangeError, EvictError, JoinError, JoinRequest, NetworkProfile, ParameterUpdate, Report,
};
use crate::network::documents;
use crate::network::rpc::{BadMessage, Hello, LONGEST_RECORD, Network, Offer, Refusal, Welcome, proto};
use crate::pisa::hash::HashFamily;
use crate::program::{Difference, ProgramConfig, RecordReader};
use crate::telemetry::epoch::Nanos;

/// Maximum number of records of each program that wait for the loop; further ones are refused.
const WAITING: usize = 64;

/// What is known of a switch that is there, or has been of the network.
#[derive(Default)]
struct MemberState {
    /// Whether the controller has taken it in.
    member: bool,
    /// Since when it is connected.
    since: Option<Instant>,
    software: String,
    /// Those whose records it sends.
    programs: Vec<&'static str>,
    /// What reads the records of each, by the program's place among the network's.
    readers: BTreeMap<usize, RecordReader>,
    connections: u64,
    records: u64,
    unsent: u64,
    refused: u64,
    refusal: Option<String>,
}

/// The switches of a network, as the connection threads see them.
pub struct ControllerServer {
    /// Of each program; they differ in nothing else.
    profiles: Vec<NetworkProfile>,
    hashes: HashFamily,
    /// The switches that may join; empty for any.
    expected: Vec<String>,
    /// Switches of which something is known.
    max: usize,
    seen: Mutex<BTreeMap<String, MemberState>>,
    events: Sender<Event>,
    waiting: Arc<AtomicUsize>,
    updates: watch::Sender<Vec<(usize, ParameterUpdate)>>,
}

/// The loop's end.
pub(super) struct Waiting {
    pub events: Receiver<Event>,
    pub reports: Arc<AtomicUsize>,
}

impl ControllerServer {
    /// Takes at most `max` switches in, only expected ones if any are expected.
    pub(super) fn new(
        profiles: Vec<NetworkProfile>,
        hashes: HashFamily,
        expected: Vec<String>,
        max: usize,
    ) -> (Self, Waiting) {
        let (events, receiver) = unbounded();
        let waiting = Arc::new(AtomicUsize::default());
        let server = Self {
            profiles,
            hashes,
            expected,
            max,
            seen: Mutex::default(),
            events,
            waiting: waiting.clone(),
            updates: watch::Sender::default(),
        };
        (server, Waiting { events: receiver, reports: waiting })
    }

    /// The network's programs.
    pub fn programs(&self) -> impl Iterator<Item = &ProgramConfig> {
        self.profiles.iter().map(|profile| &profile.program)
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, MemberState>> {
        self.seen.hold()
    }

    fn set_member(&self, switch: &str, member: bool) {
        if let Some(seen) = self.seen().get_mut(switch) {
            seen.member = member;
        }
    }

    /// All switches are to have these updates.
    pub(super) fn publish(&self, updates: Vec<(usize, ParameterUpdate)>) {
        self.updates.send_if_modified(|published| {
            let new = *published != updates;
            *published = updates;
            new
        });
    }

    /// The controller has no use for a switch's record.
    pub(super) fn refuse(&self, switch: &str, why: String) {
        if let Some(seen) = self.seen().get_mut(switch) {
            seen.refused += 1;
            seen.refusal = Some(why);
        }
    }

    /// The switches that have been here, and those that are expected.
    pub fn view(&self) -> documents::NetworkSwitches {
        let seen = self.seen();
        let view = |(name, seen): (&String, &MemberState)| documents::NetworkSwitch {
            name: name.clone(),
            connected: seen.since.is_some(),
            connected_seconds: seen.since.map(|since| since.elapsed().as_secs_f64()),
            software: seen.software.clone(),
            programs: seen.programs.iter().map(|program| (*program).into()).collect(),
            connections: seen.connections,
            records: seen.records,
            unsent_records: seen.unsent,
            refused_records: seen.refused,
            last_refusal: seen.refusal.clone(),
        };
        let absent = self.expected.iter().filter(|name| !seen.contains_key(*name));
        let absent = absent.map(|name| documents::NetworkSwitch { name: name.clone(), ..Default::default() });
        let mut switches: Vec<_> = seen.iter().map(view).chain(absent).collect();
        switches.sort_by(|a, b| a.name.cmp(&b.name));
        let (epoch_ns, transit_ns) = self.profiles.first().map_or((0, 0), |profile| (profile.length, profile.transit));
        documents::NetworkSwitches { epoch_ns, transit_ns, passed_over_epochs: 0, late_packets: 0, switches }
    }

    /// Has all switches measure with another configuration of a program, from the epoch on that is
    /// returned.
    ///
    /// # Errors
    /// If the network cannot.
    pub async fn change(&self, program: ProgramConfig) -> Result<u64, ChangeError> {
        let (answer, answered) = oneshot::channel();
        let unknown = Err(ChangeError::Unknown(program.name().into()));
        let _ = self.events.send(Event::Changes(program, answer));
        answered.await.unwrap_or(unknown)
    }

    /// Nanoseconds of an epoch.
    pub fn length(&self) -> Nanos {
        self.profiles.first().map_or(1, |profile| profile.length)
    }

    /// Takes a switch that has left out of the network.
    ///
    /// # Errors
    /// If it has not left, is expected, or is not known.
    pub async fn evict(&self, name: &str) -> Result<(), EvictError> {
        if self.expected.iter().any(|expected| expected == name) {
            return Err(EvictError::Expected(name.into()));
        }
        let (answer, answered) = oneshot::channel();
        let _ = self.events.send(Event::Evicts(name.into(), answer));
        let unknown = Err(EvictError::Unknown(name.into()));
        let evicted = answered.await.unwrap_or(unknown);
        let mut seen = self.seen();
        // One that was refused before it could join was never the controller's.
        let gone = seen.get(name).is_some_and(|seen| seen.since.is_none());
        if gone && !matches!(evicted, Err(EvictError::Connected(_))) {
            seen.remove(name);
            return Ok(());
        }
        evicted
    }

    /// Of each of the switch's programs: its place among the network's, or why it has none.
    fn places(&self, hello: &Hello) -> Result<Vec<Result<usize, Refusal>>, Refusal> {
        let Hello { length, transit, header, key, .. } = hello;
        let pairs = |own: &NetworkProfile| {
            [
                ("switch.epoch", format!("{length} ns"), format!("{} ns", own.length)),
                ("switch.transit", format!("{transit} ns"), format!("{} ns", own.transit)),
                ("switch.telemetry_header", header.name().into(), own.header.name().into()),
                ("switch.key", key.name().into(), own.key.name().into()),
            ]
        };
        let differing = self.profiles.iter().flat_map(pairs).find(|(_, theirs, ours)| theirs != ours);
        if let Some((what, theirs, ours)) = differing {
            return Err(Refusal::Differs { what: what.into(), theirs, ours });
        }
        let mut places = Vec::with_capacity(hello.programs.len());
        for offer in &hello.programs {
            let place = self.place(offer);
            let taken = place.as_ref().ok().filter(|_| places.contains(&place)).map(|place| &self.profiles[*place]);
            let taken = taken.map(|profile| Refusal::Same(profile.program.name()));
            places.push(taken.map_or(place, Err));
        }
        match places.iter().all(Result::is_err).then(|| places.pop()).flatten() {
            Some(Err(refusal)) => Err(refusal),
            _ => Ok(places),
        }
    }

    fn place(&self, offer: &Result<Offer, BadMessage>) -> Result<usize, Refusal> {
        let Offer { program, .. } = offer.as_ref().map_err(BadMessage::clone)?;
        let name = program.name();
        let own = self.profiles.iter().enumerate().find(|(_, own)| own.program.name() == name);
        let Some((place, own)) = own else {
            let programs = self.programs().map(|program| program.name()).collect::<Vec<_>>().join(" and ");
            return Err(Refusal::Unknown { name, programs });
        };
        if let Some(Difference { key, value: theirs, other: ours }) = program.difference(&own.program) {
            return Err(Refusal::Differs { what: format!("{name}.{key}"), theirs, ours });
        }
        let (theirs, ours) = (program.longest(), own.program.longest().max(LONGEST_RECORD));
        if theirs > ours { Err(Refusal::TooLong { program: name, theirs, ours }) } else { Ok(place) }
    }
}

impl Network for ControllerServer {
    fn welcomes(&self, hello: &Hello) -> Result<Welcome, Refusal> {
        let name = &hello.name;
        let programs = self.places(hello)?;
        if !self.expected.is_empty() && !self.expected.contains(name) {
            return Err(Refusal::Unexpected { name: name.clone(), expected: self.expected.join(", ") });
        }
        let mut seen = self.seen();
        if seen.len() >= self.max && !seen.contains_key(name) {
            return Err(JoinError::Full { name: name.clone(), max: self.max }.into());
        }
        let seen = seen.entry(name.clone()).or_default();
        if seen.since.is_some() {
            return Err(Refusal::Twice(name.clone()));
        }
        seen.since = Some(Instant::now());
        seen.software.clone_from(&hello.software);
        seen.programs = programs.iter().flatten().map(|place| self.profiles[*place].program.name()).collect();
        let taken = hello.programs.iter().zip(&programs);
        let taken = taken.filter_map(|(offer, place)| Some((*place.as_ref().ok()?, &offer.as_ref().ok()?.program)));
        seen.readers = taken.map(|(place, program)| (place, program.reader(name, &self.hashes))).collect();
        seen.connections += 1;
        tracing::info!(target: "weir", event = "switch_connected", switch = name, "{name}: connected");
        for why in programs.iter().filter_map(|place| place.as_ref().err()) {
            tracing::warn!(target: "weir", event = "program_refused", switch = name, "{name}: {why}");
        }
        Ok(Welcome { hashes: self.hashes.clone(), programs })
    }

    async fn joins(&self, hello: &Hello, programs: &[Result<usize, Refusal>], first_epoch: u64) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let request = |(offer, place): (&Result<Offer, BadMessage>, &Result<usize, Refusal>)| {
            let (Offer { program, parameters }, place) = (offer.clone().ok()?, *place.as_ref().ok()?);
            let (name, profile) = (hello.name.clone(), hello.profile(program));
            Some((place, JoinRequest { name, profile, parameters, first_epoch }))
        };
        let requests = hello.programs.iter().zip(programs).filter_map(request).collect();
        self.set_member(&hello.name, true);
        let _ = self.events.send(Event::Joins(requests, answer));
        let joined = answered.await.map_err(|_| Refusal::Stopping)?;
        if joined.is_err() {
            self.set_member(&hello.name, false);
        }
        Ok(joined?)
    }

    fn reports(&self, switch: &str, program: usize, record: proto::Record) -> Result<(), BadMessage> {
        let proto::Record { first_epoch, last_epoch: epoch, record, unsent_records, sent_ns, late_ns, .. } = record;
        let bad = |why: String| BadMessage { field: "record.record", why };
        let reader = self.seen().get_mut(switch).and_then(|seen| {
            seen.records += 1;
            seen.unsent += unsent_records;
            seen.readers.get(&program).cloned()
        });
        let Some(read) = reader else { return Err(bad("of a program that is not taken".into())) };
        let record = read(&record).map_err(|error| bad(error.to_string()))?;
        if self.waiting.load(Relaxed) >= WAITING * self.profiles.len() {
            self.refuse(switch, format!("epoch {epoch}: the controller is behind"));
            return Ok(());
        }
        self.waiting.fetch_add(1, Relaxed);
        let report = Report { first_epoch, epoch, whole: true, late: late_ns, record };
        let _ = self.events.send(Event::Reports(program, switch.to_owned(), report, sent_ns));
        Ok(())
    }

    fn leaves(&self, switch: &str) {
        let mut seen = self.seen();
        if let Entry::Occupied(mut left) = seen.entry(switch.to_owned()) {
            left.get_mut().since = None;
            // One that was never of the network leaves nothing behind.
            if !left.get().member {
                left.remove();
            }
        }
        drop(seen);
        let _ = self.events.send(Event::Leaves(switch.to_owned()));
        tracing::warn!(target: "weir", event = "switch_gone", switch, "{switch}: gone");
    }

    fn updates(&self) -> watch::Receiver<Vec<(usize, ParameterUpdate)>> {
        self.updates.subscribe()
    }
}
