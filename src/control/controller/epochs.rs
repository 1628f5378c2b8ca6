//! Records come in, epochs close, orders go out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Controller, Member, Order, Report, ReportError, Terms};
use crate::epoch::Nanos;
use crate::program::chamelemon::attention::Decision;
use crate::program::chamelemon::network::{Before, Early, Gap, NetworkEpoch, Reported, SwitchGap};
use crate::program::chamelemon::{Runtime, Sketches};

/// Of more epochs in a row than this, on which nobody has reported, the last alone is closed, and the others are passed over:
/// the controller stood still, or the clock jumped.
const MOST_SILENT: u64 = 16;

/// What has been reported on an epoch.
#[derive(Default)]
pub(super) struct Open {
    records: BTreeMap<Arc<str>, Result<Box<Sketches>, Gap>>,
    /// Packets that may be of this epoch and left too late, as the records of the next one tell.
    strays: BTreeMap<Arc<str>, u64>,
}

/// An epoch of the network that has closed, and what was ordered from it.
pub(super) struct Closed {
    pub network: NetworkEpoch,
    pub decision: Option<(Order, Decision)>,
}

impl Controller {
    /// Takes a switch's record. When it was the last one that its epoch waited for, the epoch closes, and the order is for all
    /// switches. After that the answers are to be made with [`Self::answer`].
    ///
    /// # Errors
    /// If the record is of no use. It becomes a gap of its switch.
    pub fn report(&mut self, name: &str, report: Report, now: Nanos) -> Result<Option<Order>, ReportError> {
        let Report { first_epoch, epoch, mut sketches } = report;
        let unknown = || ReportError::Unknown { name: name.into() };
        let Some(shared) = self.name(name) else { return Err(unknown()) };
        self.begin(now);
        let Some(terms) = &self.terms else { return Err(unknown()) };
        let member = self.members.get_mut(name).ok_or_else(unknown)?;
        let running = now / terms.length;
        let name = || name.to_owned();
        if epoch >= running {
            return Err(ReportError::Early { name: name(), epoch, running });
        }
        let lengths = sketches.tower.iter().map(|level| (level.bits, level.sizes.len()));
        let agreed = terms.tower.0.iter().map(|level| (level.width.bits(), level.counters as usize));
        if sketches.shape != terms.shape || !lengths.eq(agreed) {
            return Err(ReportError::Shape { name: name(), epoch });
        }
        let reported = |open: &Open| open.records.get(&shared).is_some_and(Result::is_ok);
        if self.open.get(&epoch).is_some_and(reported) {
            return Err(ReportError::Twice { name: name(), epoch });
        }
        let (whole, started) = (first_epoch == epoch, epoch < member.first_epoch);
        let strays = sketches.strays;
        // Of several epochs' packets those of one bit cannot be told apart.
        if let Some(early) = Early::of(&mut sketches).filter(|_| whole) {
            member.early.insert(epoch, early);
            member.early.retain(|&of, _| of + 2 > self.next);
        }
        if let (1.., Some(before)) = (strays, first_epoch.checked_sub(1)) {
            self.strayed(before, &shared, strays);
        }
        if epoch < self.next {
            return Err(ReportError::Late { name: name(), epoch });
        }
        let record = match () {
            () if !whole => Err(Gap::Spans { first_epoch }),
            () if started => Err(Gap::Started),
            () => Ok(sketches),
        };
        for missed in first_epoch.max(self.next)..epoch {
            self.open.entry(missed).or_default().records.insert(shared.clone(), Err(Gap::Spans { first_epoch }));
        }
        self.open.entry(epoch).or_default().records.insert(shared, record);
        Ok(self.close_complete(now))
    }

    /// Packets of this epoch, which has closed or is still open, may have left a switch when its record was made already.
    fn strayed(&mut self, epoch: u64, switch: &Arc<str>, packets: u64) {
        if epoch >= self.next {
            let strays = self.open.entry(epoch).or_default().strays.entry(switch.clone()).or_default();
            *strays = strays.saturating_add(packets);
        } else if let Some(closed) = self.closed.iter_mut().find(|closed| closed.network.epoch == epoch) {
            SwitchGap::strayed(&mut closed.network.gaps, switch, packets);
        } else {
            self.kept.strayed(epoch, switch, packets);
        }
    }

    /// Closes the epochs whose deadline is over. The order of the last one, when any closed, is for all switches.
    pub fn tick(&mut self, now: Nanos) -> Option<Order> {
        let terms = self.terms.as_ref().filter(|_| !self.members.is_empty())?;
        let due = now.saturating_sub(terms.transit.saturating_add(self.settings.patience)) / terms.length;
        self.begin(now);
        self.close_before(due, now)
    }

    /// Closes the epochs before this one, whatever is missing of them, because no record of them can come any more. The order of
    /// the last one that closed is for all switches.
    pub fn close_before(&mut self, epoch: u64, now: Nanos) -> Option<Order> {
        let mut order = self.close_complete(now);
        while self.next < epoch {
            let reported = self.open.keys().next().copied();
            let silent = reported.unwrap_or(epoch).min(epoch - 1);
            if silent > self.next.saturating_add(MOST_SILENT) {
                self.passed_over += silent - self.next;
                self.go_on_from(silent);
            }
            order = self.close(now).or(order);
        }
        self.close_complete(now).or(order)
    }

    /// Epochs count from the one that is running when there is a switch to expect for the first time.
    pub(super) fn begin(&mut self, now: Nanos) {
        if !self.begun {
            self.begun = true;
            self.go_on_from(self.running(now));
        }
    }

    fn go_on_from(&mut self, epoch: u64) {
        self.next = epoch;
        self.open = self.open.split_off(&epoch);
    }

    /// When [`Self::tick`] has something to do next; `None` as long as no switch is known.
    pub fn deadline(&self) -> Option<Nanos> {
        let terms = self.terms.as_ref().filter(|_| !self.members.is_empty())?;
        let end = (self.next + 1).saturating_mul(terms.length);
        Some(end.saturating_add(terms.transit).saturating_add(self.settings.patience))
    }

    /// Closes the epochs on which all have reported.
    fn close_complete(&mut self, now: Nanos) -> Option<Order> {
        let mut order = None;
        while self.is_complete() {
            order = self.close(now).or(order);
        }
        order
    }

    fn is_complete(&self) -> bool {
        let Some(open) = self.open.get(&self.next) else { return false };
        let mut awaited = self.members.iter().filter(|(_, member)| member.joined && member.joined_in <= self.next);
        awaited.all(|(name, _)| open.records.contains_key(name))
    }

    fn close(&mut self, now: Nanos) -> Option<Order> {
        // Those that nobody asked for are not to pile up.
        self.answer();
        let epoch = self.next;
        self.next += 1;
        let mut open = self.open.remove(&epoch).unwrap_or_default();
        let runtime = self.runtime(epoch)?;
        let there = self.members.iter().filter(|(_, member)| member.since <= epoch);
        let reported = there.map(|(name, member)| Reported {
            switch: name.clone(),
            record: open.records.remove(name).unwrap_or(Err(Gap::Missing)),
            before: if self.settings.fabric { Before::Elsewhere } else { before(member, epoch) },
        });
        let mut network = NetworkEpoch::analyse(epoch, runtime, reported.collect());
        for (switch, packets) in &open.strays {
            SwitchGap::strayed(&mut network.gaps, switch, *packets);
        }
        let decision = self.decide(&network, now);
        let order = decision.as_ref().map(|(order, _)| *order);
        self.closed.push_back(Closed { network, decision });
        order
    }

    /// Shifts attention. The order is for the next epoch of which every switch can know before it begins.
    fn decide(&mut self, network: &NetworkEpoch, now: Nanos) -> Option<(Order, Decision)> {
        let Terms { length, transit, .. } = *self.terms.as_ref()?;
        let latest = self.orders.back()?;
        if !self.settings.shifts {
            return None;
        }
        // A switch looks its parameters up a transit time before their epoch begins.
        let notice = self.settings.notice.saturating_add(transit);
        let next = (now.saturating_add(notice) / length + 1).max(latest.epoch);
        let latest = latest.runtime;
        let attention = self.attention.as_mut()?;
        let decision = if network.edges.is_empty() {
            attention.keep(&latest, next, "no switch has reported: everything stays")
        } else {
            attention.shift(network, &latest, next)
        };
        let order = Order { epoch: next, runtime: decision.runtime };
        let unseeded = |runtime: Runtime| Runtime { sample_seed: 0, ..runtime };
        self.revision += u64::from(unseeded(latest) != unseeded(order.runtime));
        self.orders.retain(|order| order.epoch < next);
        self.orders.push_back(order);
        // The one in force at the oldest epoch that is open stays.
        while self.orders.get(1).is_some_and(|order| order.epoch <= self.next) {
            self.orders.pop_front();
        }
        Some((order, decision))
    }
}

fn before(member: &Member, epoch: u64) -> Before<'_> {
    match epoch.checked_sub(1) {
        None => Before::Nothing,
        Some(before) => member.early.get(&before).map_or(Before::Unknown, Before::Early),
    }
}
