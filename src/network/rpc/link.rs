//! The link between a switch and its controller: which records are sent, which updates hold, and
//! how it goes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{mpsc, watch};

use super::proto::from_switch::What;
use super::proto::{FromSwitch, Ready, Record};
use crate::answers::EpochAttention;
use crate::json::Epoch;
use crate::lock::Hold;
use crate::network::controller::{ParameterUpdate, linked};
use crate::network::documents;
use crate::pisa::hash::HashFamily;
use crate::program::{AnySchedule, Strays};
use crate::telemetry::epoch::Nanos;
use crate::telemetry::epoch::wall_clock;
use crate::telemetry::{Closed, Sink};

/// Parameter updates that are kept for programs that come later.
const KEPT_UPDATES: usize = 8;
/// By so much the clocks of workers may differ from this one.
const SLACK: Nanos = 5_000_000;

#[derive(Debug)]
pub struct Link {
    at: String,
    standing: Mutex<Standing>,
    connections: AtomicU64,
    sent: AtomicU64,
    unsent: AtomicU64,
    foreign: AtomicU64,
    updates: AtomicU64,
    /// When the programs in use were put in place.
    renewed: watch::Sender<Nanos>,
}

#[derive(Debug, Default)]
struct Standing {
    /// Why there is no connection.
    why: Option<String>,
    /// In the order of the configuration.
    programs: Vec<LinkedProgram>,
    hashes: Option<HashFamily>,
    /// Of an epoch of the network, once it is known.
    length: Option<Nanos>,
    /// Where records go while the switch is taken in.
    to: Option<mpsc::Sender<FromSwitch>>,
    /// The number of `unsent` that the controller has been told of.
    reported_unsent: u64,
}

/// A program whose records are sent.
#[derive(Debug)]
struct LinkedProgram {
    /// Its place in the switch, and where its parameters are set.
    place: usize,
    schedule: AnySchedule,
    /// Why the controller does not take it.
    refused: Option<String>,
    /// By epoch.
    updates: Vec<ParameterUpdate>,
    /// Stray packets of records that were not sent: their epochs' answers lack them all the same.
    strays: Strays,
}

impl Link {
    /// To the controller at `at`, for those of these programs whose records a controller takes.
    pub fn new(at: String, schedules: &[AnySchedule]) -> Arc<Self> {
        let programs = linked(schedules).map(LinkedProgram::new).collect();
        let standing = Standing { programs, why: Some("not dialled yet".into()), ..Standing::default() };
        Arc::new(Self {
            at,
            standing: Mutex::new(standing),
            connections: AtomicU64::default(),
            sent: AtomicU64::default(),
            unsent: AtomicU64::default(),
            foreign: AtomicU64::default(),
            updates: AtomicU64::default(),
            renewed: watch::Sender::new(wall_clock()),
        })
    }

    /// Where the controller is, as it was configured.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// What the collector is to give its records to.
    pub fn reporter(self: &Arc<Self>) -> Box<dyn Sink> {
        Box::new(Reporter(self.clone()))
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.hold()
    }

    /// What tells when the switch's programs are replaced from now on.
    pub(super) fn generation(&self) -> watch::Receiver<Nanos> {
        self.renewed.subscribe()
    }

    pub(super) fn hashes_otherwise(&self, hashes: &HashFamily) -> bool {
        self.standing().hashes.as_ref() != Some(hashes)
    }

    /// The switch is taken in and hashes with `hashes`; the records of its programs that are not
    /// refused, of epochs of this length, go to `to`.
    pub(super) fn welcomed(
        &self,
        hashes: HashFamily,
        refused: Vec<Option<String>>,
        length: Nanos,
        to: mpsc::Sender<FromSwitch>,
    ) -> Result<(), String> {
        let mut standing = self.standing();
        // Programs are put in place within an epoch. The one that is running is whole when they are
        // older.
        let first_epoch = ((*self.renewed.borrow() + SLACK) / length + 1).max(wall_clock() / length);
        to.try_send(FromSwitch { what: Some(What::Ready(Ready { first_epoch })) })
            .map_err(|error| error.to_string())?;
        (standing.hashes, standing.length) = (Some(hashes), Some(length));
        (standing.to, standing.why) = (Some(to), None);
        for (program, refused) in standing.programs.iter_mut().zip(refused) {
            program.refuse(refused, &self.at);
        }
        drop(standing);
        self.connections.fetch_add(1, Relaxed);
        tracing::info!(target: "weir", event = "controller", connected = true, "controller {}: connected", self.at);
        Ok(())
    }

    /// Takes an update of the program at this place of the hello.
    pub(super) fn update(&self, program: usize, update: ParameterUpdate) -> Result<(), String> {
        self.updates.fetch_add(1, Relaxed);
        self.standing().programs.get_mut(program).map_or(Ok(()), |program| program.take(update))
    }

    /// There is no connection. Said once for each reason.
    pub(super) fn left(&self, why: &str) {
        let mut standing = self.standing();
        standing.to = None;
        if standing.why.as_deref() != Some(why) {
            tracing::warn!(target: "weir", event = "controller", connected = false, "controller {}: {why}", self.at);
            standing.why = Some(why.to_owned());
        }
    }

    pub fn view(&self) -> documents::ControllerLink {
        let standing = self.standing();
        documents::ControllerLink {
            at: self.at.clone(),
            connected: standing.to.is_some(),
            why: standing.why.clone(),
            connections: self.connections.load(Relaxed),
            sent_records: self.sent.load(Relaxed),
            unsent_records: self.unsent.load(Relaxed),
            foreign_records: self.foreign.load(Relaxed),
            updates: self.updates.load(Relaxed),
            programs: standing.programs.iter().map(|program| program.view(standing.length)).collect(),
        }
    }
}

/// The program that a record is of, if records of it are sent, and its place in the hello.
fn sender(programs: &mut [LinkedProgram], place: usize) -> Option<(usize, &mut LinkedProgram)> {
    programs.iter_mut().enumerate().find(|(_, program)| program.place == place)
}

impl LinkedProgram {
    fn new((place, schedule): (usize, &AnySchedule)) -> Self {
        let schedule = schedule.clone();
        Self { place, schedule, refused: None, updates: Vec::new(), strays: Strays::default() }
    }

    fn name(&self) -> &'static str {
        self.schedule.program().name()
    }

    /// In place of the one before, whose updates hold on.
    fn after(mut self, before: Option<Self>) -> Self {
        if let Some(Self { refused, updates, strays, .. }) = before {
            (self.refused, self.strays) = (refused, strays);
            for update in updates {
                // One that does not fit the new program comes again with the next welcome, or not
                // at all.
                let _ = self.take(update);
            }
        }
        self
    }

    /// The controller takes it, or does not. Said once for each reason.
    fn refuse(&mut self, refused: Option<String>, at: &str) {
        if let Some(why) = refused.as_ref().filter(|why| self.refused.as_ref() != Some(why)) {
            let program = self.name();
            tracing::warn!(target: "weir", event = "program_refused", program, "controller {at}: {program}: {why}");
        }
        self.refused = refused;
    }

    fn view(&self, length: Option<Nanos>) -> documents::LinkedProgram {
        let epoch = length.and_then(|length| wall_clock().checked_div(length));
        let epoch = epoch.map(|epoch| Epoch::new(epoch, length.unwrap_or_default()));
        let attention = epoch.and_then(|epoch| Some(EpochAttention::new(epoch, self.schedule.describe(epoch.number)?)));
        documents::LinkedProgram { program: self.name().into(), refused: self.refused.clone(), attention }
    }

    fn take(&mut self, update: ParameterUpdate) -> Result<(), String> {
        let told = self.tell(&update);
        self.updates.retain(|earlier| earlier.epoch < update.epoch);
        self.updates.push(update);
        if self.updates.len() > KEPT_UPDATES {
            self.updates.remove(0);
        }
        told
    }

    fn tell(&self, update: &ParameterUpdate) -> Result<(), String> {
        self.schedule.update(update.epoch, &update.parameters).map_err(|error| error.to_string())
    }
}

/// Sends records, on the collector's thread.
struct Reporter(Arc<Link>);

impl Sink for Reporter {
    fn closed(&mut self, epoch: Closed<'_>) {
        let link = &*self.0;
        let mut standing = link.standing();
        let Standing { to, hashes, reported_unsent, programs, .. } = &mut *standing;
        let Some((program, linked)) = sender(programs, epoch.program).filter(|(_, of)| of.refused.is_none()) else {
            return;
        };
        let Some(place) = to.as_ref().and_then(|to| to.try_reserve().ok()) else {
            link.unsent.fetch_add(1, Relaxed);
            return linked.strays.keep(epoch.record);
        };
        if !hashes.as_ref().is_some_and(|hashes| epoch.record.is_hashed_with(hashes)) {
            link.foreign.fetch_add(1, Relaxed);
            return linked.strays.keep(epoch.record);
        }
        let mut record = epoch.record.clone();
        linked.strays.tell_with(&mut record);
        let unsent = link.unsent.load(Relaxed);
        let unsent_since = unsent - std::mem::replace(reported_unsent, unsent);
        let record = Record {
            program: program as u32,
            first_epoch: epoch.first,
            last_epoch: epoch.last,
            record: record.encode().into(),
            unsent_records: unsent_since,
            sent_ns: wall_clock(),
            late_ns: epoch.late,
        };
        place.send(FromSwitch { what: Some(What::Record(record)) });
        link.sent.fetch_add(1, Relaxed);
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        let mut standing = self.0.standing();
        sender(&mut standing.programs, epoch.program).into_iter().for_each(|(_, of)| of.strays.keep(epoch.record));
    }

    fn renewed(&mut self, schedules: &[AnySchedule]) {
        let mut standing = self.0.standing();
        let mut before = std::mem::take(&mut standing.programs);
        let renewed = linked(schedules).map(|program| {
            let same = before.iter().position(|old| old.name() == program.1.program().name());
            LinkedProgram::new(program).after(same.map(|same| before.remove(same)))
        });
        standing.programs = renewed.collect();
        // Until it is known from which epoch on they have measured.
        standing.to = None;
        self.0.renewed.send_replace(wall_clock());
    }
}
