//! Ports that are opened once another has been closed.
//!
//! An interface that went away and is back under its name, as that of a container that is started
//! again, has a number of its own, and what was opened on the old one stays dead. One that was moved
//! to another network namespace and back may have the same number, and is dead all the same. So the
//! port is opened again, in its slot and with its counters, once the workers have let go of its
//! queues.
//!
//! A configuration that is read again may give one port's device to another port. Both cannot have
//! it at once.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::Shared;
use super::change::{ChangeError, State};
use super::slots::PortSlot;
use crate::config::PortConfig;
use crate::pisa::PortId;
use crate::port::Standing;
use crate::switch::PortInfo;
use crate::worker::Change;

/// Time between the first two tries to open a port again, and the longest between two. It doubles:
/// each try at an xdp port that fails costs the buffers that net_af_xdp (22.11) had put into its
/// rings.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(64);

/// Tries to open a port again that failed.
#[derive(Debug, Default)]
pub(super) struct Retry {
    next: Option<Instant>,
    wait: Duration,
    said: String,
}

impl Shared {
    /// Opens ports again whose interface is back. True when it was tried, which may have started
    /// threads.
    pub(super) fn reopen_ports(&self, state: &mut State, now: Instant) -> bool {
        let due = |retry: &Retry| retry.next.is_none_or(|next| now >= next);
        let back = state.slots.iter().filter(|(_, slot)| due(&slot.retry) && slot.port.standing() == Standing::Back);
        let back: Vec<_> = back.map(|(id, _)| id).collect();
        for &id in &back {
            let reopened = self.reopen(state, id);
            let kept = state.config.switch.runtime_ports;
            let Some(slot) = state.slots.get_mut(id) else { continue };
            let port = &slot.config.name;
            match reopened {
                Ok(()) => {
                    slot.retry = Retry::default();
                    let message = "its interface is back: port opened again";
                    tracing::info!(target: "weir", event = "port_reopened", port, "{message}");
                }
                Err(error) => {
                    let why = if kept { "" } else { "; with runtime_ports = false it takes a restart" };
                    let error = format!("its interface is back and cannot be opened: {error}{why}");
                    if slot.retry.said != error {
                        tracing::warn!(target: "weir", event = "port_not_reopened", port, "{error}");
                    }
                    let wait = (2 * slot.retry.wait).clamp(SHORTEST, LONGEST);
                    slot.retry = Retry { next: Some(now + wait), wait, said: error };
                }
            }
        }
        !back.is_empty()
    }

    /// Opens ports on devices that others of `removed` have, which close first. When one cannot be
    /// opened, these are opened again.
    pub(super) fn take_over(
        &self,
        state: &mut State,
        removed: &[PortId],
        new: Vec<(PortId, PortInfo, PortConfig)>,
    ) -> Result<Vec<(PortId, PortSlot)>, ChangeError> {
        let has = |id: &PortId, dev| state.slots.get(*id).is_some_and(|slot| slot.has(dev));
        let holders = removed.iter().copied().filter(|id| new.iter().any(|(.., config)| has(id, &config.dev)));
        let holders: Vec<_> = holders.collect();
        self.give_up(state, &holders)?;
        for slot in holders.iter().filter_map(|id| state.slots.get(*id)) {
            slot.info.up.store(false, Relaxed);
            slot.port.close();
        }
        let workers = state.handles.len();
        let open = |(id, info, config): (PortId, PortInfo, PortConfig)| {
            let mut opened = self.open(&[(id, config)], workers)?;
            for (_, slot) in &mut opened {
                info.mac.store(slot.info.mac.load(Relaxed), Relaxed);
                info.up.store(slot.info.up.load(Relaxed), Relaxed);
                slot.info = info.clone();
            }
            Ok(opened)
        };
        let opened: Result<Vec<_>, ChangeError> = new.into_iter().map(open).collect();
        match opened {
            Ok(opened) => Ok(opened.into_iter().flatten().collect()),
            Err(error) => {
                for id in holders {
                    if let Err(error) = self.reopen(state, id) {
                        tracing::warn!("port {} stays closed for now: {error}", state.slots.name(id));
                    }
                }
                Err(error)
            }
        }
    }

    fn reopen(&self, state: &mut State, id: PortId) -> Result<(), ChangeError> {
        self.give_up(state, &[id])?;
        self.forget_behind(id);
        let workers = state.handles.len();
        let Some(slot) = state.slots.get_mut(id) else { return Ok(()) };
        slot.info.up.store(false, Relaxed);
        slot.reopen(&self.workers.cores, &self.workers.pool)?;
        let changes = (0..workers).map(|worker| {
            let mut change = Change::default();
            slot.deal(id, worker, &mut change.queues);
            change
        });
        let changes = changes.collect();
        Ok(self.tell(state, changes)?)
    }
}
