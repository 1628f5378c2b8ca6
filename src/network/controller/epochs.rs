//! Records come in, epochs close, updates go out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ChangeError, Controller, Member, NetworkProfile, ParameterUpdate, Report, ReportError};
use crate::history::{Finality, Gap, Reason, Reasons, SwitchGap};
use crate::program::{AnyRecord, AnyReported, Before, Closing, Difference, ProgramConfig, Strays};
use crate::telemetry::epoch::Nanos;

/// Of more epochs in a row than this, on which nobody has reported, the last alone is closed, and
/// the others are passed over: the controller stood still, or the clock jumped.
const MAX_SILENT: u64 = 16;

/// Records by which a switch's clock is compared with this one.
const OFFSETS: usize = 4;
/// Reports about epochs more than this many after the next one to close are not kept.
const MAX_AHEAD: u64 = 128;

/// What has been reported on an epoch.
#[derive(Default)]
pub(super) struct Open {
    /// The first epoch that the records cover, if it is another one.
    first_epoch: Option<u64>,
    pub(super) records: BTreeMap<Arc<str>, Result<AnyRecord, Gap>>,
    /// What records of other epochs tell of it: packets that left too late.
    gaps: Vec<SwitchGap>,
    /// Gaps until later records say how many packets were late.
    waiting: Vec<SwitchGap>,
    /// Packets that left later than the horizon.
    late_packets: u64,
}

impl Controller {
    /// Takes a switch's record. When it was the last one that its epoch waited for, the epoch
    /// closes, and the update is for all switches. A record that is not of one whole epoch is a gap of
    /// its switch, unless counts just add.
    ///
    /// # Errors
    /// If the record is of no use. It becomes a gap of its switch.
    pub fn report(&mut self, name: &str, report: Report, now: Nanos) -> Result<Option<ParameterUpdate>, ReportError> {
        let Report { first_epoch, epoch, whole, late, mut record } = report;
        self.keep();
        let unknown = || ReportError::Unknown { name: name.into() };
        let Some(shared) = self.name(name) else { return Err(unknown()) };
        self.begin(now);
        let Some(profile) = &self.profile else { return Err(unknown()) };
        let running = now / profile.length;
        if !self.analyser.fits(&record) {
            return Err(ReportError::Shape { name: name.into(), epoch });
        }
        if let Some(strays) = record.strays() {
            self.hear_strays(&shared, epoch, strays);
        }
        self.check_clock(&shared, epoch);
        let name = || name.to_owned();
        if epoch >= running {
            return Err(ReportError::Early { name: name(), epoch, running });
        }
        if self.open.get(&epoch).is_some_and(|open| open.records.get(&shared).is_some_and(Result::is_ok)) {
            self.spoil(epoch, &shared, Gap::Repeated);
            return Err(ReportError::Twice { name: name(), epoch });
        }
        let member = self.members.get_mut(&shared).ok_or_else(unknown)?;
        if member.first_epoch > running + 1 {
            // It said so when its clock was ahead.
            member.first_epoch = epoch + 1;
            self.next_parts.forget(Some(&shared), 0);
        }
        let spans = (first_epoch < epoch).then_some(Gap::Spans { first_epoch });
        let started = (epoch < member.first_epoch).then_some(Gap::Started);
        // Of several epochs' packets those of one bit cannot be told apart.
        if let Some(part) = record.split_next().filter(|_| whole && spans.is_none()) {
            self.next_parts.add(&shared, epoch, part);
        }
        self.pass_quiet_epochs(first_epoch);
        let gap = spans.or(started).or((!whole).then_some(Gap::Part));
        if self.adds() {
            return Ok(self.add(&shared, Report { first_epoch, epoch, whole, late, record }, gap, now));
        }
        if epoch < self.next {
            self.repeats(epoch, &shared);
            return Err(ReportError::Late { name: name(), epoch });
        }
        for missed in first_epoch.max(self.next)..epoch {
            self.open.entry(missed).or_default().records.insert(shared.clone(), Err(Gap::Spans { first_epoch }));
        }
        let open = self.open.entry(epoch).or_default();
        if late > 0 && self.analyser.counts_late() {
            SwitchGap::add(&mut open.waiting, &shared, Gap::StoodStill { nanos: late });
        }
        open.records.insert(shared, gap.map_or(Ok(record), Err));
        Ok(self.close_complete(now))
    }

    /// Whether a record answers for the epochs, or the part of one, that it covers. Records of
    /// several switches are put together by epoch, so they must be whole.
    fn adds(&self) -> bool {
        self.members.len() == 1 && self.analyser.adds()
    }

    /// Takes the only switch's record, whatever it covers, with its gap. Its epochs before the last
    /// have no answers of their own. A late record is answered beside the earlier one.
    fn add(&mut self, switch: &Arc<str>, report: Report, gap: Option<Gap>, now: Nanos) -> Option<ParameterUpdate> {
        let Report { first_epoch, epoch, record, .. } = report;
        let update = self.close_before(first_epoch, now);
        if epoch < self.next {
            let mut open = Open { first_epoch: Some(first_epoch), ..Open::default() };
            open.records.insert(switch.clone(), Ok(record));
            SwitchGap::add(&mut open.gaps, switch, gap.unwrap_or(Gap::Part));
            self.put_together(epoch, open, vec![switch.clone()], Before::Unknown, None);
            return update;
        }
        if first_epoch < epoch {
            self.go_on_from(epoch);
        }
        let open = self.open.entry(epoch).or_default();
        open.first_epoch = Some(first_epoch);
        open.records.insert(switch.clone(), Ok(record));
        gap.into_iter().for_each(|gap| SwitchGap::add(&mut open.gaps, switch, gap));
        self.close_complete(now).or(update)
    }

    /// The clock was set back, and records of this epoch and those after it come again.
    pub(super) fn set_back(&mut self, epoch: u64) {
        if self.adds() {
            self.keep();
            self.history.forget_from(epoch);
        }
    }

    /// The clock of a switch when it sent the record that comes next.
    pub fn clock(&mut self, name: &str, sent: Nanos, now: Nanos) {
        if let Some(member) = self.members.get_mut(name) {
            if member.offsets.len() == OFFSETS {
                member.offsets.pop_front();
            }
            member.offsets.push_back(sent.wrapping_sub(now) as i64);
        }
    }

    /// A clock that is off by more than packets and updates are given makes what its switch says of
    /// an epoch say something of another.
    fn check_clock(&mut self, switch: &Arc<str>, epoch: u64) {
        let allowed =
            self.settings.lead_time.saturating_add(self.profile.as_ref().map_or(0, |profile| profile.transit));
        let ahead = self.members.get(switch).map_or(0, Member::ahead);
        if ahead.unsigned_abs() > allowed {
            self.spoil(epoch, switch, Gap::Clock { ahead });
        }
    }

    /// What a record, whose last epoch is `last`, says of packets that left when their own epoch
    /// was not counted. It holds also when the record itself is of no use.
    fn hear_strays(&mut self, switch: &Arc<str>, last: u64, strays: &Strays) {
        let one_bit = self.has_one_bit();
        for (epoch, packets) in strays.epochs(last) {
            if !one_bit && self.is_beyond_the_horizon(epoch, last) {
                self.count_late(epoch, packets);
                continue;
            }
            let gap = Gap::Strays { packets };
            self.spoil(epoch, switch, gap);
            if one_bit {
                // By one bit the epoch before the running one is not told from the one after it.
                self.spoil(epoch.saturating_add(2), switch, gap);
            }
        }
        if strays.elsewhere() > 0 {
            let gap = Gap::Unplaced { packets: strays.elsewhere() };
            (self.next..=last.min(self.next + MAX_AHEAD)).for_each(|epoch| self.spoil(epoch, switch, gap));
            self.history.spoil_all(switch, gap);
        }
    }

    /// Packets of this epoch left later than the horizon.
    fn count_late(&mut self, epoch: u64, packets: u64) {
        match self.open.get_mut(&epoch) {
            Some(open) if epoch >= self.next => open.late_packets = open.late_packets.saturating_add(packets),
            _ => self.history.count_late(epoch, packets),
        }
    }

    /// A record of an epoch that has closed is the second one when the answer has the first.
    fn repeats(&mut self, epoch: u64, switch: &Arc<str>) {
        let hides = |gap: &SwitchGap| gap.switch == *switch && gap.gap.hides_flows();
        if self.history.outline(epoch).is_some_and(|entry| !entry.gaps.iter().any(hides)) {
            self.spoil(epoch, switch, Gap::Repeated);
        }
    }

    /// Of this epoch, which has closed, is still open or comes soon, something is missing.
    fn spoil(&mut self, epoch: u64, switch: &Arc<str>, gap: Gap) {
        if epoch >= self.next {
            // Later ones are measured anew when they come.
            if epoch - self.next <= MAX_AHEAD {
                SwitchGap::add(&mut self.open.entry(epoch).or_default().gaps, switch, gap);
            }
        } else {
            self.history.spoil(epoch, switch, gap);
        }
    }

    /// Closes the epochs whose deadline is over. The update of the last one, when any closed, is
    /// for all switches.
    pub fn tick(&mut self, now: Nanos) -> Option<ParameterUpdate> {
        self.keep();
        let profile = self.profile.as_ref().filter(|_| !self.members.is_empty())?;
        let due = now.saturating_sub(profile.transit.saturating_add(self.settings.record_timeout)) / profile.length;
        self.begin(now);
        self.close_before(due, now)
    }

    /// Closes the epochs before this one, whatever is missing of them, because no record of them
    /// can come any more. The update of the last one that closed is for all switches.
    pub fn close_before(&mut self, epoch: u64, now: Nanos) -> Option<ParameterUpdate> {
        let mut update = self.close_complete(now);
        while self.next < epoch {
            let reported = self.open.keys().next().copied();
            let silent = reported.unwrap_or(epoch).min(epoch - 1);
            if silent > self.next.saturating_add(MAX_SILENT) {
                self.history.pass_over(silent - self.next);
                self.go_on_from(silent);
            }
            update = self.close(now).or(update);
        }
        self.close_complete(now).or(update)
    }

    /// Epochs count from the one that is running when there is a switch to expect for the first
    /// time, or when the clock was set back behind what has closed.
    pub(super) fn begin(&mut self, now: Nanos) {
        let running = self.running(now);
        if !self.begun {
            self.begun = true;
            self.go_on_from(running);
        } else if self.next > running.saturating_add(1) {
            self.go_back_to(running);
        }
    }

    /// The clock was set back: numbers of epochs come again. What was kept under them is forgotten,
    /// so that nobody takes it for what is measured now, and the last update holds as soon as
    /// the switches can know of it.
    fn go_back_to(&mut self, running: u64) {
        self.keep();
        self.history.pass_over(self.next - running);
        self.next = running;
        self.open.clear();
        self.history.forget_from(running);
        self.next_parts.forget(None, 0);
        for member in self.members.values_mut() {
            member.offsets.clear();
            member.since = member.since.min(running);
            member.joined_in = member.joined_in.min(running);
            member.first_epoch = member.first_epoch.min(running + 1);
        }
        if let Some(latest) = self.updates.pop_back() {
            self.updates = [ParameterUpdate { epoch: running + 2, ..latest }].into();
        }
    }

    /// Of a replay, epochs without a record had no packets: the next epoch stands for them too.
    fn pass_quiet_epochs(&mut self, first: u64) {
        if self.settings.replays && first > self.next && self.open.is_empty() {
            self.quiet = Some((first, self.next));
            self.go_on_from(first);
        }
    }

    fn go_on_from(&mut self, epoch: u64) {
        self.next = epoch;
        self.open = self.open.split_off(&epoch);
    }

    /// When [`Self::tick`] has something to do next; `None` as long as no switch is known.
    pub fn deadline(&self) -> Option<Nanos> {
        let profile = self.profile.as_ref().filter(|_| !self.members.is_empty())?;
        let end = (self.next + 1).saturating_mul(profile.length);
        Some(end.saturating_add(profile.transit).saturating_add(self.settings.record_timeout))
    }

    /// Closes the epochs on which all have reported.
    fn close_complete(&mut self, now: Nanos) -> Option<ParameterUpdate> {
        let mut update = None;
        while self.is_complete() {
            update = self.close(now).or(update);
        }
        update
    }

    fn is_complete(&self) -> bool {
        let Some(open) = self.open.get(&self.next) else { return false };
        let mut awaited = self.members.iter().filter(|(_, member)| member.joined && member.joined_in <= self.next);
        awaited.all(|(name, _)| open.records.contains_key(name))
    }

    /// Adds what has closed to the history, where clients find it. This takes as long again as the
    /// update, which should be on its way before. All that changes the history does this first.
    pub fn keep(&mut self) {
        while let Some(epoch) = self.analyser.keep() {
            if self.has_one_bit() && self.history.has_gained(epoch) {
                self.doubt_epochs_of_the_same_bit(epoch);
            }
            self.finalise(epoch);
        }
    }

    fn close(&mut self, now: Nanos) -> Option<ParameterUpdate> {
        self.keep();
        let epoch = self.next;
        self.next += 1;
        let open = self.open.remove(&epoch).unwrap_or_default();
        self.confirm(epoch, &open);
        let there = self.members.iter().filter(|(_, member)| member.since <= epoch);
        let switches = there.map(|(name, _)| name.clone()).collect();
        let is_first = self.settings.replays && self.history.newest().is_none();
        let before = match self.quiet {
            _ if self.settings.fabric => Before::Elsewhere,
            Some((after, _)) if after == epoch => Before::Nothing,
            _ if epoch == 0 || is_first => Before::Nothing,
            _ => Before::Part(()),
        };
        let next = self.settings.shifts.then(|| self.first_update(now)).flatten();
        self.put_together(epoch, open, switches, before, next)
    }

    /// Puts the records of an epoch of these switches together. With `next` parameters are decided that
    /// hold from that epoch on.
    fn put_together(
        &mut self,
        epoch: u64,
        open: Open,
        switches: Vec<Arc<str>>,
        before: Before<()>,
        next: Option<u64>,
    ) -> Option<ParameterUpdate> {
        self.keep();
        let Open { first_epoch, mut records, gaps, waiting, late_packets } = open;
        let parameters = self.parameters(epoch)?.to_vec();
        let latest = self.updates.back()?.parameters.clone();
        let mut reported = |switch: Arc<str>| {
            let record = records.remove(&switch).unwrap_or(Err(Gap::Missing));
            let before = before.with(self.next_parts.about(&switch, epoch));
            AnyReported { switch, record, before }
        };
        let quiet_from = self.quiet.filter(|(after, _)| *after == epoch).map(|(_, from)| from);
        let mut doubts = Reasons::default();
        doubts.add_if(!self.settings.edges_named, Reason::EdgesUnnamed);
        let is_final = self.horizon() == Some(0);
        let closing = Closing {
            epoch,
            first_epoch: quiet_from.or(first_epoch).unwrap_or(epoch),
            parameters: &parameters,
            reported: switches.into_iter().map(&mut reported).collect(),
            gaps,
            doubts,
            finality: Finality { is_final, waiting, late_packets, ..Finality::default() },
            decide: next.map(|next| (next, &*latest)),
        };
        let decided = self.analyser.close(closing).inspect_err(|error| tracing::error!("epoch {epoch}: {error}"));
        self.next_parts.close(epoch);
        let (next, decision) = next.zip(decided.ok()?)?;
        self.update(next, decision.parameters.clone());
        Some(ParameterUpdate { epoch: next, parameters: decision.parameters })
    }

    /// The next epoch whose parameters every switch can know before it begins.
    fn first_update(&self, now: Nanos) -> Option<u64> {
        let NetworkProfile { length, transit, .. } = *self.profile.as_ref()?;
        // A switch looks its parameters up a transit time before their epoch begins, by a clock
        // that may be ahead by another one.
        let skew = if self.settings.one_clock { 0 } else { transit };
        let lead_time = self.settings.lead_time.saturating_add(transit).saturating_add(skew);
        Some((now.saturating_add(lead_time) / length + 1).max(self.updates.back()?.epoch))
    }

    fn update(&mut self, epoch: u64, parameters: Vec<u8>) {
        let alike = |latest: &ParameterUpdate| {
            let program = self.profile.as_ref().map(|profile| &profile.program);
            program.is_some_and(|program| program.alike(&parameters, &latest.parameters))
        };
        let alike = self.updates.back().is_some_and(alike);
        self.revision += u64::from(!alike);
        self.updates.retain(|update| update.epoch < epoch);
        self.updates.push_back(ParameterUpdate { epoch, parameters });
        // The one in force at the oldest epoch that is open stays.
        while self.updates.get(1).is_some_and(|update| update.epoch <= self.next) {
            self.updates.pop_front();
        }
    }

    /// Has all switches measure with what a configuration of the program begins with, from the epoch
    /// on that is returned.
    ///
    /// # Errors
    /// If switches with that configuration could not stand in this network, or the parameters follow
    /// the state of the network.
    pub fn change(&mut self, program: &ProgramConfig, now: Nanos) -> Result<u64, ChangeError> {
        let name = program.name();
        let unknown = || ChangeError::Unknown(name.into());
        let network = self.profile.as_ref().filter(|network| network.program.name() == name).ok_or_else(unknown)?;
        if self.settings.shifts {
            return Err(ChangeError::Shifts(name));
        }
        if let Some(Difference { key, value, other: ours }) = program.difference(&network.program) {
            return Err(ChangeError::Differs { program: name, key, value, ours });
        }
        program.validate().map_err(|error| ChangeError::Parameters(error.to_string()))?;
        let parameters = program.start();
        let switches = self.members.values().filter_map(|member| member.program.as_ref());
        let misfit = [&network.program].into_iter().chain(switches).find_map(|of| of.fits(&parameters).err());
        if let Some(error) = misfit {
            return Err(ChangeError::Parameters(error.to_string()));
        }
        let epoch = self.first_update(now).ok_or_else(unknown)?;
        self.update(epoch, parameters);
        Ok(epoch)
    }
}
