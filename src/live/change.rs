//! Changing the switch while it runs: all that can fail is done before the first worker hears of
//! it.

use std::sync::MutexGuard;
use std::time::Duration;

use crossbeam_channel::bounded;

use super::Shared;
use super::diff::{Diff, Ports, ports};
use super::slots::{NoBuffers, PortSlot, PortSlots, counted_ports, fits_buffers, has_room};
use crate::answers::CountedPort;
use crate::api::view;
use crate::assemble::{self, AssembleError, Forwarding, Telemetries, port_info, routed};
use crate::config::{Config, ConfigError, ForwardMode, PortConfig, PortFileError};
use crate::dpdk::{cycles, cycles_per_second};
use crate::forward::Forward;
use crate::lock::Hold;
use crate::pisa::PortId;
use crate::pisa::hash::HashFamily;
use crate::port::PortError;
use crate::program::AnySchedule;
use crate::switch::{PortInfo, Role, TxBursts};
use crate::tables::Desired;
use crate::tables::{Learning, Routing};
use crate::telemetry::epoch::Collecting;
use crate::worker::{Change, Died, Queues, WorkerHandle};

/// How long the collector may take to go on with other programs.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a running switch stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Buffers(#[from] NoBuffers),
    #[error("port {name}: {why}")]
    PortFile { name: String, why: PortFileError },
    #[error("{key} = {wanted}: it is {running}, and to change it takes a restart")]
    Restart { key: String, wanted: String, running: String },
    #[error("there is no port {name}; the ports are {ports}")]
    NoPort { name: String, ports: String },
    #[error("port {name}: there is one of this name; the ports are {ports}")]
    NameTaken { name: String, ports: String },
    #[error("port {name}: port {other} has {dev}")]
    DeviceTaken { name: String, dev: String, other: String },
    #[error("port {name}: all numbers for ports are taken")]
    NoSlot { name: String },
    #[error("--pair {name}: {why}")]
    Pair { name: String, why: String },
    #[error("port {name} stands in the table {table}; take it out there first: weir table show {table}")]
    InTable { name: String, table: &'static str },
    #[error("the switch was started without a file (--config), so there is none to read again")]
    NoFile,
    #[error("{0}")]
    File(String),
    #[error(transparent)]
    Died(#[from] Died),
}

/// What the switch is to become.
pub(super) struct Next {
    pub config: Config,
    /// The names of the ports that `xconnect` joins, also those that the configuration joins by
    /// their order.
    pub pairs: Vec<[String; 2]>,
    /// The tables set on ports become what the configuration says as well; else they stay as they
    /// are.
    pub tables: bool,
    /// The programs hash with this family instead of the one so far.
    pub hashes: Option<HashFamily>,
}

impl Next {
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let name = |id: PortId| config.ports[usize::from(id)].name.clone();
        let pairs = config.pairs()?.into_iter().map(|(a, b)| [name(a), name(b)]).collect();
        Ok(Self { config, pairs, tables: true, hashes: None })
    }
}

/// What the control side knows of the running switch.
pub(super) struct State {
    pub config: Config,
    pub pairs: Vec<[String; 2]>,
    pub slots: PortSlots,
    pub removed: view::Removed,
    pub handles: Vec<WorkerHandle>,
}

/// The collector's ends of other programs' rotation, and what is told when it has taken them.
pub(super) struct Renewal {
    pub replicas: Vec<Collecting>,
    pub schedules: Vec<AnySchedule>,
    pub taken: crossbeam_channel::Sender<()>,
}

/// What has been made for a change, and not been given to the workers yet.
struct Made {
    opened: Vec<(PortId, PortSlot)>,
    removed: Vec<PortId>,
    /// All ports by number, if any has changed.
    infos: Option<Vec<PortInfo>>,
    learning: Option<Option<Learning>>,
    routing: Option<Option<Routing>>,
    forwards: Option<Vec<Forward>>,
    telemetries: Option<Telemetries>,
}

impl Shared {
    /// Makes the switch what `next` says, or says why not and leaves it as it is. Gives what has
    /// changed, in words.
    pub(super) fn change(&self, state: &mut MutexGuard<'_, State>, next: Next) -> Result<Vec<String>, ChangeError> {
        let mut diff = Diff::new(state, &next)?;
        next.config.validate()?;
        let wanted = next.tables.then(|| assemble::desired(&next.config, &assemble::hashes(&next.config)?));
        let wanted = wanted.transpose()?;
        if let Some(wanted) = &wanted {
            diff.look_at_tables(&self.tables.all.differing(wanted));
        }
        if diff.is_empty() {
            return Ok(Vec::new());
        }
        let made = self.make(state, &next, &diff)?;
        let Made { opened, removed, infos, learning, routing, forwards, telemetries } = made;
        let (telemetries, collected) =
            telemetries.map_or((None, None), |m| (Some(m.telemetries), Some((m.collecting, m.schedules))));
        let (mut forwards, mut telemetries) = (forwards.map(Vec::into_iter), telemetries.map(Vec::into_iter));
        let (workers, hz) = (state.handles.len(), cycles_per_second(self.workers.pool.eal()));
        let changes = (0..workers).map(|worker| {
            let mut change =
                Change { remove: removed.clone(), old: Queues::with_room(removed.len()), ..Change::default() };
            opened.iter().for_each(|(id, slot)| slot.deal(*id, worker, &mut change.queues));
            change.tx_bursts = infos.as_ref().map(|infos| TxBursts::new(infos.len()));
            change.parts.ports.clone_from(&infos);
            change.parts.forward = forwards.as_mut().and_then(Iterator::next);
            let telemetry = telemetries.as_mut().and_then(Iterator::next);
            change.parts.telemetry = telemetry.map(|t| t.timed(&self.workers.stats[worker], cycles, hz));
            change.parts.order = Some(next.config.switch.order.into());
            change
        });
        let changes: Vec<_> = changes.collect();
        if let Some(wanted) = &wanted {
            self.give_up(state, &removed)?;
            self.set_tables(state, &opened, wanted);
        }
        *self.measurement.settings.hold() = super::setup::local(&next.config);
        self.tell(state, changes)?;
        if let Some((collecting, schedules)) = collected {
            self.renew(collecting, schedules);
        }
        self.settle(state, &removed, opened, (learning, routing));
        self.adopt(state, next, &diff);
        Ok(diff.words)
    }

    /// All that can fail.
    fn make(&self, state: &mut State, next: &Next, diff: &Diff) -> Result<Made, ChangeError> {
        let config = &next.config;
        let workers = state.handles.len();
        let own = assemble::hashes(config)?;
        let hashes = next.hashes.clone().or_else(|| self.hashes()).unwrap_or_else(|| own.clone());
        assemble::place(config, &hashes)?;
        let Ports { kept, added, taking_over, removed } = ports(state, config)?;
        for name in removed.iter().map(|id| state.slots.name(*id)) {
            if let Some(table) = self.tables.all.naming(name, next.tables) {
                return Err(ChangeError::InTable { name: name.to_owned(), table });
            }
        }
        kept.iter().try_for_each(|(_, config)| fits_buffers(config, &self.workers.pool))?;
        let mut opened = self.open(&added, workers)?;
        let awaited: Vec<_> = taking_over.into_iter().map(|(id, config)| (id, port_info(&config), config)).collect();
        let new = opened.iter().map(|(id, slot)| (*id, &slot.info, &slot.config));
        let new: Vec<_> = new.chain(awaited.iter().map(|(id, info, config)| (*id, info, config))).collect();
        let infos = infos(state, &kept, &new);
        let pairs = numbered(next, &kept, &new);
        let epoch = config.switch.epoch.nanos();
        let programs = config.programs_at(&counted(&kept, &new));
        let telemetries =
            diff.telemetry.then(|| assemble::telemetries(config, &programs, Some(epoch), &hashes, workers));
        let telemetries = telemetries.transpose()?;
        let (mut learning, mut routing, mut forwards) = (None, None, None);
        let named = named(&kept, &new);
        let routes = |config: &Config| config.switch.forward == ForwardMode::Route;
        if diff.forward
            && config.switch.forward == ForwardMode::Learn
            && state.config.switch.forward == ForwardMode::Learn
        {
            // Only the size of the table can differ, and the action for the bridge group.
            let old = self.learning();
            if let Some((new, dataplanes)) = old.as_ref().map(|old| old.resized(&config.switch, workers)) {
                (learning, forwards) = (Some(Some(new)), Some(dataplanes));
            }
        } else if let (true, Some(old)) =
            (diff.forward && !diff.routing && routes(config) && routes(&state.config), self.routing())
        {
            // Only ports have come or gone: the tables stay, with all that was changed and learned
            // since.
            let (new, dataplanes) = old.renewed(&named, routed(&infos), &removed, workers);
            (routing, forwards) = (Some(Some(new)), Some(dataplanes));
        } else if diff.forward {
            let new = assemble::forwarding(config, &pairs, &named, &infos, &own, workers)?;
            let Forwarding { learning: new, routing: router, forwards: dataplanes } = new;
            (learning, routing, forwards) = (Some(new), Some(router), Some(dataplanes));
        }
        set_devices(state, &kept)?;
        let taken = self.take_over(state, &removed, awaited);
        opened.extend(taken.inspect_err(|_| restore_devices(state, &kept))?);
        let infos = diff.ports.then_some(infos);
        Ok(Made { opened, removed, infos, learning, routing, forwards, telemetries })
    }

    /// That of the network that the switch is of.
    fn hashes(&self) -> Option<HashFamily> {
        self.network.hold().clone()
    }

    pub(super) fn open(
        &self,
        added: &[(PortId, PortConfig)],
        workers: usize,
    ) -> Result<Vec<(PortId, PortSlot)>, ChangeError> {
        let mut opened = Vec::new();
        for (id, config) in added {
            has_room(config, workers, &self.workers.pool)?;
            let slot = PortSlot::open(config, &self.workers.cores, &self.workers.pool)?;
            slot.look_at_link();
            opened.push((*id, slot));
        }
        Ok(opened)
    }

    /// Has every worker make its change, and drops what was replaced.
    pub(super) fn tell(&self, state: &State, changes: Vec<Change>) -> Result<(), Died> {
        for (handle, change) in state.handles.iter().zip(changes) {
            handle.send(change)?;
        }
        for (handle, stats) in state.handles.iter().zip(&self.workers.stats) {
            let mut change = handle.done()?;
            // Sends off the banks of the running epoch.
            if let Some(telemetry) = &mut change.parts.telemetry {
                telemetry.finish(stats);
            }
        }
        Ok(())
    }

    /// Has every worker let go of ports before the tables are changed, so that what is set on a
    /// port holds for all that comes in by it.
    pub(super) fn give_up(&self, state: &State, removed: &[PortId]) -> Result<(), Died> {
        if removed.is_empty() {
            return Ok(());
        }
        let change = || Change { remove: removed.to_vec(), old: Queues::with_room(removed.len()), ..Change::default() };
        self.tell(state, state.handles.iter().map(|_| change()).collect())
    }

    /// The collector takes what the old programs sent last, and goes on with the new ones.
    fn renew(&self, replicas: Vec<Collecting>, schedules: Vec<AnySchedule>) {
        let (taken, wait) = bounded(1);
        // A collector that has ended says so when the switch stops.
        if self.measurement.renewals.send(Renewal { replicas, schedules, taken }).is_ok() {
            let _ = wait.recv_timeout(TIMEOUT);
        }
    }

    /// The workers have let go of what went and have what came.
    fn settle(
        &self,
        state: &mut State,
        removed: &[PortId],
        opened: Vec<(PortId, PortSlot)>,
        (learning, routing): (Option<Option<Learning>>, Option<Option<Routing>>),
    ) {
        let now = self.now();
        if let Some(new) = routing {
            *self.forwarding.routing.hold() = new;
        }
        let mut current = self.learning();
        if let Some(new) = learning {
            *current = new;
        }
        for &id in removed {
            if let Some(learning) = current.as_mut() {
                learning.flush_port(id, now);
            }
            if let Some(slot) = state.slots.remove(id) {
                slot.port.close();
                state.removed.add(&slot.view(id, &self.workers.stats));
                self.workers.stats.iter().for_each(|worker| worker.port(id).clear());
            }
        }
        opened.into_iter().for_each(|(id, slot)| state.slots.insert(id, slot));
    }

    /// Before the workers have new ports, so that none is used without what is set on it.
    fn set_tables(&self, state: &State, opened: &[(PortId, PortSlot)], wanted: &Desired) {
        self.name_ports(state.slots.iter().chain(opened.iter().map(|(id, slot)| (*id, slot))));
        self.tables.all.reconcile(wanted, &self.tables.publisher);
    }

    /// Tables know the ports by these names from now on.
    fn name_ports<'a>(&self, slots: impl Iterator<Item = (PortId, &'a PortSlot)>) {
        let mut names = Vec::new();
        for (id, slot) in slots {
            names.resize(names.len().max(usize::from(id) + 1), (String::new(), false));
            names[usize::from(id)] = (slot.config.name.clone(), slot.info.role == Role::Fabric);
        }
        self.tables.names.set(names);
    }

    /// What the workers need not be told.
    fn adopt(&self, state: &mut State, next: Next, diff: &Diff) {
        let switch = &next.config.switch;
        if let Some(learning) = self.learning().as_mut() {
            learning.set_ageing(switch.mac_age.0);
        }
        self.workers.idle_timeout.set(switch.idle.0);
        for config in &next.config.ports {
            if let Some(slot) = state.slots.find(&config.name).and_then(|id| state.slots.get_mut(id)) {
                slot.adopt(config);
            }
        }
        if !diff.words.is_empty() {
            tracing::info!("changed: {}", diff.words.join("; "));
        }
        if let Some(hashes) = next.hashes {
            *self.network.hold() = Some(hashes);
        }
        (state.config, state.pairs) = (next.config, next.pairs);
        self.name_ports(state.slots.iter());
    }
}

/// Sets the devices of ports that stay, all or none.
fn set_devices(state: &State, kept: &[(PortId, PortConfig)]) -> Result<(), PortError> {
    for (done, (id, config)) in kept.iter().enumerate() {
        let Some(slot) = state.slots.get(*id) else { continue };
        slot.set_device(config).inspect_err(|_| restore_devices(state, &kept[..done]))?;
    }
    Ok(())
}

fn restore_devices(state: &State, kept: &[(PortId, PortConfig)]) {
    for (slot, config) in kept.iter().filter_map(|(id, config)| Some((state.slots.get(*id)?, config))) {
        slot.restore_device(config);
    }
}

/// A port that comes: its number, and what the switch knows of it.
type New<'a> = (PortId, &'a PortInfo, &'a PortConfig);

/// All ports by number as they will be.
fn infos(state: &State, kept: &[(PortId, PortConfig)], new: &[New<'_>]) -> Vec<PortInfo> {
    let old = |id: PortId| state.slots.iter().find(|(other, _)| *other == id).map(|(_, slot)| slot.info.clone());
    let old = kept
        .iter()
        .filter_map(|(id, config)| Some((*id, PortInfo { role: config.role, mtu: config.mtu, ..old(*id)? })));
    let all: Vec<_> = old.chain(new.iter().map(|(id, info, _)| (*id, (*info).clone()))).collect();
    let mut infos: Vec<_> =
        (0..all.iter().map(|(id, _)| usize::from(*id) + 1).max().unwrap_or(0)).map(|_| PortInfo::vacant()).collect();
    all.into_iter().for_each(|(id, info)| infos[usize::from(id)] = info);
    infos
}

/// The ports' numbers and names as they will be.
fn named(kept: &[(PortId, PortConfig)], new: &[New<'_>]) -> Vec<(PortId, String)> {
    let kept = kept.iter().map(|(id, config)| (*id, config.name.clone()));
    kept.chain(new.iter().map(|(id, _, config)| (*id, config.name.clone()))).collect()
}

/// The ports as programs will know them, by number.
fn counted(kept: &[(PortId, PortConfig)], new: &[New<'_>]) -> Vec<CountedPort> {
    let all = kept.iter().map(|(id, config)| (*id, config)).chain(new.iter().map(|(id, _, config)| (*id, *config)));
    counted_ports(all)
}

/// The pairs by the numbers that the ports will have.
fn numbered(next: &Next, kept: &[(PortId, PortConfig)], new: &[New<'_>]) -> Vec<(PortId, PortId)> {
    let find = |name: &str| {
        let kept = kept.iter().map(|(id, config)| (*id, config));
        let mut all = kept.chain(new.iter().map(|(id, _, config)| (*id, *config)));
        all.find(|(_, config)| config.name == name).map(|(id, _)| id)
    };
    next.pairs.iter().filter_map(|[a, b]| Some((find(a)?, find(b)?))).collect()
}
