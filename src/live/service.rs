//! What the API of a live switch answers and does.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Shared;
use super::change::{ChangeError, Next, State};
use super::slots::PortSlot;
use crate::answers::{Claimed, HeavyFlows, Query, Queryable, Task};
use crate::api::exported::{NOT_EXPORTED, NOT_SENT};
use crate::api::metrics::ProgramMetrics;
use crate::api::observers::ObservedPort;
use crate::api::view;
use crate::api::{Answering, HeavyQuery, NewPort, PendingDump, Service};
use crate::config::ForwardMode;
use crate::config::PortConfig;
use crate::history::Window;
use crate::network::rpc::Link;
use crate::observe::Observers;
use crate::pisa::PortId;
use crate::pisa::hash::HashFamily;
use crate::port::FaultSpec;
use crate::program::ProgramConfig;
use crate::tables::Tables;

impl Shared {
    fn add(&self, new: &NewPort) -> Result<view::Port, ChangeError> {
        let mut state = self.state();
        if state.slots.find(&new.name).is_some() {
            return Err(ChangeError::NameTaken { name: new.name.clone(), ports: state.slots.names() });
        }
        let refused = |why| ChangeError::PortFile { name: new.name.clone(), why };
        state.config.api.allows(&new.dev).map_err(refused)?;
        let mut next = running(&state);
        let NewPort { name, dev, role, mtu_bytes, pair } = new.clone();
        if let Some(peer) = pair {
            pair_with(&state, &name, &peer)?;
            next.pairs.push([name.clone(), peer]);
        }
        next.config.ports.push(PortConfig { role, mtu: mtu_bytes, ..PortConfig::new(&name, dev) });
        next.config.switch.pairs.clone_from(&next.pairs);
        self.change(&mut state, next)?;
        let (id, slot) =
            state.slots.iter().find(|(_, slot)| slot.config.name == name).ok_or_else(|| no_port(&state, &name))?;
        Ok(slot.view(id, &self.workers.stats))
    }

    /// Changes what the configuration says of a port.
    fn edit(&self, name: &str, edit: impl FnOnce(&mut PortConfig)) -> Result<(), ChangeError> {
        let mut state = self.state();
        let mut next = running(&state);
        edit(next.config.ports.iter_mut().find(|port| port.name == name).ok_or_else(|| no_port(&state, name))?);
        self.change(&mut state, next).map(drop)
    }

    fn remove(&self, name: &str) -> Result<view::Port, ChangeError> {
        let mut state = self.state();
        let id = state.slots.find(name).ok_or_else(|| no_port(&state, name))?;
        let mut next = running(&state);
        next.config.ports.retain(|port| port.name != name);
        next.pairs.retain(|pair| pair.iter().all(|port| port != name));
        next.config.switch.pairs.clone_from(&next.pairs);
        let last =
            state.slots.iter().find(|(other, _)| *other == id).map(|(_, slot)| slot.view(id, &self.workers.stats));
        self.change(&mut state, next)?;
        last.ok_or_else(|| no_port(&state, name))
    }

    fn reread(&self) -> Result<view::Reloaded, ChangeError> {
        let reread = self.reread.as_ref().ok_or(ChangeError::NoFile)?;
        let next = Next::new(reread().map_err(ChangeError::File)?)?;
        let changes = self.change(&mut self.state(), next)?;
        Ok(view::Reloaded { changes })
    }
}

/// The switch as it runs, to be changed.
fn running(state: &State) -> Next {
    Next { config: state.config.clone(), pairs: state.pairs.clone(), tables: false, hashes: None }
}

/// The switch as it runs, but for its hash functions.
pub(super) fn hashing(state: &State, hashes: HashFamily) -> Next {
    Next { hashes: Some(hashes), ..running(state) }
}

/// No program of the switch answers.
fn no_program(task: Task, query: &HeavyQuery) -> String {
    match &query.program {
        Some(name) => format!("no program {name} of this switch has such an answer"),
        None => {
            let programs = ProgramConfig::defaults().filter(|program| program.rank(task).is_some());
            let names = programs.map(|program| program.name()).collect::<Vec<_>>().join(" or ");
            format!("the switch runs no program that answers this; start it with --program {names}")
        }
    }
}

fn no_port(state: &State, name: &str) -> ChangeError {
    ChangeError::NoPort { name: name.to_owned(), ports: state.slots.names() }
}

/// Whether a new port can be joined with `peer`.
fn pair_with(state: &State, name: &str, peer: &str) -> Result<(), ChangeError> {
    let wrong = |why: String| Err(ChangeError::Pair { name: peer.to_owned(), why });
    if state.config.switch.forward != ForwardMode::Xconnect {
        return wrong("only switch.forward = xconnect joins ports in pairs".into());
    }
    if peer == name {
        return wrong("a port is not joined with itself".into());
    }
    if state.slots.find(peer).is_none() {
        return wrong(format!("there is no such port; the ports are {}", state.slots.names()));
    }
    match state.pairs.iter().find(|pair| pair.iter().any(|port| port == peer)) {
        None => Ok(()),
        Some([a, b]) => wrong(format!("it is joined with {}", if a == peer { b } else { a })),
    }
}

impl Shared {
    /// The heavy flows of all epochs that are kept, where a program finds some.
    pub(super) fn heavy(&self) -> Option<Claimed<HeavyFlows>> {
        let asked = HeavyQuery::default();
        let query = Query::new(Task::Heavy, Window::All).limited(asked.top, asked.threshold);
        self.history(Task::Heavy, &asked).ok()?.ask(&query).ok()?.into_document()
    }
}

impl Answering for Shared {
    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        let programs = {
            let state = self.state();
            state.config.programs_at(&state.slots.counted())
        };
        let program = query.choose(programs.iter(), task).ok_or_else(|| no_program(task, query))?;
        let elsewhere =
            |link: &Arc<Link>| format!("the switch reports to the controller {}, which answers with --name", link.at());
        let none = || self.link.as_ref().map_or_else(|| no_program(task, query), elsewhere);
        self.measurement.answers.find(|own| own == program).map(|(_, history)| history).ok_or_else(none)
    }

    fn measured(&self) -> Vec<ProgramMetrics> {
        self.measurement.measured.programs()
    }

    fn exported(&self) -> Result<view::Exported, String> {
        self.exported.as_ref().map(|counters| counters.view()).ok_or_else(|| NOT_EXPORTED.into())
    }

    fn otlp(&self) -> Result<view::Otlp, String> {
        self.otlp.as_ref().map(|counters| counters.view()).ok_or_else(|| NOT_SENT.into())
    }
}

impl Service for Shared {
    fn tables(&self) -> &Tables {
        &self.tables.all
    }

    fn ports(&self) -> view::Ports {
        let state = self.state();
        let configs = state.slots.iter().map(|(id, slot)| (id, &slot.config));
        let mut ports = view::Ports::collect(configs, state.removed.clone(), &self.workers.stats);
        for (view, (_, slot)) in ports.ports.iter_mut().zip(state.slots.iter()) {
            slot.describe(view);
        }
        if let Some(learning) = self.learning().as_ref() {
            ports.measurement.refused_macs = learning.refused();
            ports.measurement.moved_macs = learning.moved().0;
        }
        if let Some(routing) = self.routing() {
            ports.measurement.refused_neighbours = routing.refused();
        }
        ports.measurement.forgotten_epochs = self.measurement.answers.forgotten();
        ports
    }

    fn status(&self) -> view::Status {
        self.about.status(self.ports(), &self.workers.stats)
    }

    fn since_reset(&self) -> view::SinceReset {
        self.about.since_reset(self.ports())
    }

    fn reset(&self) {
        self.about.reset(self.ports());
    }

    fn macs(&self) -> view::MacTable {
        let state = self.state();
        let macs = self.learning().as_ref().map(|learning| learning.macs(|id| state.slots.name(id), self.now()));
        view::MacTable { macs: macs.unwrap_or_default() }
    }

    fn set_link(&self, name: &str, up: bool) -> Result<(), String> {
        let mut state = self.state();
        let id = state.slots.find(name).ok_or_else(|| no_port(&state, name).to_string())?;
        let Some(slot) = state.slots.get_mut(id) else { return Ok(()) };
        let was = std::mem::replace(&mut slot.enabled, up);
        // Before the device is told, so that nothing is sent that it would refuse.
        let fell = !up && slot.info.up.swap(false, Relaxed);
        let set = slot.port.set_link(up).map_err(|e| e.to_string());
        if set.is_err() {
            slot.enabled = was;
        } else if fell {
            self.forget_behind(id);
        }
        self.look_at_links(&state);
        set
    }

    fn set_promiscuous(&self, name: &str, on: bool) -> Result<(), String> {
        self.edit(name, |port| port.promiscuous = on).map_err(|error| error.to_string())
    }

    fn set_mtu(&self, name: &str, bytes: u32) -> Result<(), String> {
        self.edit(name, |port| port.mtu = bytes).map_err(|error| error.to_string())
    }

    fn set_fault(&self, name: &str, fault: Option<&FaultSpec>) -> Result<(), String> {
        self.edit(name, |port| port.fault = fault.cloned()).map_err(|error| error.to_string())
    }

    fn controller(&self) -> Result<view::ControllerLink, String> {
        let none = "the switch reports to no controller; start it with --controller ADDRESS";
        self.link.as_ref().map(|link| link.view()).ok_or_else(|| none.into())
    }

    fn registers(&self, program: Option<&str>) -> Result<PendingDump, String> {
        let state = self.state();
        let (config, epoch_ns) = (&state.config, state.config.switch.epoch.nanos());
        let programs = config.programs_at(&state.slots.counted());
        let programs = (config.known_as(), &programs[..]);
        PendingDump::new(&self.measurement.registers, programs, program, &self.workers.cores, epoch_ns)
    }

    fn observers(&self) -> &Observers {
        &self.observers
    }

    fn observed_ports(&self) -> Vec<ObservedPort> {
        let port = |(id, slot): (PortId, &PortSlot)| ObservedPort {
            id,
            name: slot.config.name.clone(),
            dev: slot.config.dev.to_string(),
            mtu_bytes: slot.config.mtu,
        };
        self.state().slots.iter().map(port).collect()
    }

    fn add_port(&self, new: &NewPort) -> Result<view::Port, String> {
        self.add(new).map_err(|error| error.to_string())
    }

    fn remove_port(&self, name: &str) -> Result<view::Port, String> {
        self.remove(name).map_err(|error| error.to_string())
    }

    fn reload(&self) -> Result<view::Reloaded, String> {
        self.reread().map_err(|error| {
            tracing::warn!(target: "weir", event = "refused", "not reloaded, everything stays as it was: {error}");
            error.to_string()
        })
    }
}
