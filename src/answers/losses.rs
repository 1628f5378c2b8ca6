//! The task losses: packets that entered and did not leave, by flow, added up over epochs.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claimed, FlowName, ProgramAnswer, Query, Task, digests};
use crate::history::{Entry, Epochs, Kept, Reasons};
use crate::json::Epoch;
use crate::output::{self, Cell, Page, Table, row};

/// `weir show losses`: the flows that lost packets, added up over the epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Packets that entered and did not leave, whether their flows are known or not.
    pub lost_packets: u64,
    /// Packets among these that left later than the horizon, so far.
    pub late_packets: u64,
    /// Packets that left and did not enter. They are never taken off those that were lost.
    pub gained_packets: u64,
    /// Epochs without a result.
    pub unknown_epochs: u64,
    /// Flows that lost packets; at least this number, when not all of an epoch could be named.
    pub victims: u64,
    /// Flows that gained packets, with the same bound.
    pub gained_flows: u64,
    /// The flows that lost most.
    pub losses: Vec<CountedFlow>,
    /// The flows that gained most.
    pub gains: Vec<CountedFlow>,
    /// Flows that are not named here, though they lost or gained as much as was asked for.
    pub omitted_flows: u64,
    /// The last loss, also before these epochs, as long as epochs are kept.
    pub last_loss: Option<LastLoss>,
}

/// The newest epoch with lost packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastLoss {
    #[serde(flatten)]
    pub epoch: Epoch,
    /// Without those that left later than the horizon.
    pub lost_packets: u64,
}

/// A flow and the number of packets that it lost, or gained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CountedFlow {
    #[serde(flatten)]
    pub name: FlowName,
    pub packets: u64,
    /// Whether that is their exact number.
    pub exact: bool,
}

/// Packets of a flow that entered and did not leave, or left and did not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    pub flow: FlowName,
    pub lost: u64,
    pub gained: u64,
    /// Whether all packets of the flow were measured.
    pub exact: bool,
}

/// The losses that a program found in an epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossesFound {
    pub flows: Vec<Loss>,
    /// Packets, whether their flows are known or not.
    pub lost_packets: u64,
    pub gained_packets: u64,
}

/// Packets of each flow over several epochs, and whether they are exact.
#[derive(Default)]
struct Sums(FxHashMap<FlowName, (u64, bool)>);

impl Sums {
    fn add(&mut self, flow: FlowName, packets: u64, exact: bool) {
        if packets > 0 {
            let sum = self.0.entry(flow).or_insert((0, true));
            *sum = (sum.0.saturating_add(packets), sum.1 && exact);
        }
    }

    /// The largest ones that are asked for, and the number of the others.
    fn largest(self, query: &Query) -> (Vec<CountedFlow>, usize) {
        let is_asked_for =
            |(flow, (packets, _)): &(FlowName, (u64, bool))| *packets >= query.threshold && query.is_meant(flow);
        let mut flows: Vec<_> = self.0.into_iter().filter(is_asked_for).collect();
        flows.sort_unstable_by_key(|&(flow, (packets, _))| (Reverse(packets), flow));
        let omitted = flows.len().saturating_sub(query.top);
        let named = flows.into_iter().take(query.top);
        (named.map(|(name, (packets, exact))| CountedFlow { name, packets, exact }).collect(), omitted)
    }
}

impl Losses {
    /// The losses over these epochs. `of` gives those of an epoch, `None` where they are unknown, and
    /// why they are not complete.
    pub fn over<'k, K: Kept>(
        epochs: &'k Epochs<K>,
        query: &Query,
        of: impl Fn(&'k Entry<K>) -> (Option<&'k LossesFound>, Reasons),
    ) -> ProgramAnswer {
        let (mut lost, mut gained) = (Sums::default(), Sums::default());
        let (mut all, mut lack) = (Self::default(), Reasons::default());
        for entry in epochs.iter() {
            let (found, lack_of_epoch) = of(entry);
            let exact = lack_of_epoch.leave_counts_exact();
            lack.extend(&lack_of_epoch);
            all.late_packets = all.late_packets.saturating_add(entry.finality.late_packets);
            let Some(LossesFound { flows, lost_packets, gained_packets }) = found else {
                all.unknown_epochs += 1;
                continue;
            };
            all.lost_packets = all.lost_packets.saturating_add(*lost_packets);
            all.gained_packets = all.gained_packets.saturating_add(*gained_packets);
            for Loss { flow, lost: of_lost, gained: of_gained, exact: whole } in flows {
                lost.add(*flow, *of_lost, exact && *whole);
                gained.add(*flow, *of_gained, exact && *whole);
            }
        }
        (all.victims, all.gained_flows) = (lost.0.len() as u64, gained.0.len() as u64);
        let (losses, omitted) = lost.largest(query);
        let (gains, omitted_gains) = gained.largest(query);
        all.omitted_flows = (omitted + omitted_gains) as u64;
        all.last_loss = epochs
            .backwards()
            .find(|entry| entry.truly_lost() > 0)
            .map(|entry| LastLoss { epoch: Epoch::new(entry.epoch, epochs.length), lost_packets: entry.truly_lost() });
        ProgramAnswer::new(Self { losses, gains, ..all }, lack)
    }

    /// Lost less gained packets of each flow.
    pub fn nets(&self) -> FxHashMap<FlowName, i64> {
        let mut nets = FxHashMap::<FlowName, i64>::default();
        for (flows, sign) in [(&self.losses, 1), (&self.gains, -1)] {
            flows.iter().for_each(|flow| *nets.entry(flow.name).or_default() += sign * flow.packets as i64);
        }
        nets
    }

    pub fn page(losses: &Claimed<Self>) -> Page {
        let claimed = losses.claim.text(Task::Losses.all());
        let [lost, gained] = [(&losses.losses, ">lost packets"), (&losses.gains, ">gained packets")]
            .map(|(flows, heading)| counted_table(flows, heading).beside(&losses.claim.columns()));
        let page = Page::default().table("losses", lost).table("gains", gained);
        if losses.claim.last_epoch.is_none() {
            return page.text(claimed);
        }
        let digests = digests(losses.losses.iter().chain(&losses.gains).map(|counted| &counted.name));
        let unnamed = output::unnamed(losses.omitted_flows, 1, "");
        page.text(output::lines([losses.sum_text(), unnamed, digests, claimed]))
    }
}

impl Claimed<Losses> {
    /// All losses in words.
    fn sum_text(&self) -> String {
        let unknown = match self.unknown_epochs {
            0 => String::new(),
            1 => "; 1 epoch is unknown".into(),
            n => format!("; {n} epochs are unknown"),
        };
        let packets = |number: u64| output::count(number, "packet");
        let flows = |number: u64| output::count(number, "flow");
        let or_later = self
            .claim
            .lost_after_ns
            .map_or_else(String::new, |after| format!(" or later than {:.0} ms", after as f64 / 1e6));
        let (lost, victims) = (packets(self.lost_packets), flows(self.victims));
        let mut sum = format!("{lost} lost{or_later}, {victims} found{unknown}");
        if self.late_packets > 0 {
            sum += &format!("\nof these, {} left later and are not lost", packets(self.late_packets));
        }
        if self.gained_packets > 0 {
            let (packets, flows) = (packets(self.gained_packets), flows(self.gained_flows));
            sum += &format!("\n{packets} gained, {flows} found: more left than entered");
        }
        if self.lost_packets == self.late_packets {
            sum += &self.last_loss_text();
        }
        sum
    }

    /// The last loss before the epochs that were asked for.
    fn last_loss_text(&self) -> String {
        let (Some(last), Some(first)) = (&self.last_loss, self.claim.first_epoch) else { return String::new() };
        let epoch_ns = self.claim.epoch_ns;
        format!(
            "\nthe last loss before: {} in the epoch from {} UTC, {:.1} s earlier",
            output::count(last.lost_packets, "packet"),
            output::epoch_start(last.epoch.number, epoch_ns),
            first.saturating_sub(last.epoch.number).saturating_mul(epoch_ns) as f64 / 1e9
        )
    }
}

/// Flows and their packets; `~` stands before a number that is not exact.
fn counted_table(flows: &[CountedFlow], heading: &str) -> Table {
    let rows = flows.iter().map(|counted| {
        let about = if counted.exact { "" } else { "~" };
        let packets = Cell::new(format!("{about}{}", output::grouped(counted.packets)), counted.packets);
        row![counted.name.to_string(), packets, Cell::new("", counted.exact)]
    });
    Table::new(["flow", heading, "|exact"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, Room, Window};

    #[test]
    fn sums_stay_at_the_largest_number() {
        let history = History::new(Room { epochs: 2, bytes: usize::MAX });
        (1..=2).for_each(|epoch| history.push(Entry::new(epoch, ())));
        let loss = Loss { flow: FlowName::default(), lost: u64::MAX, gained: u64::MAX, exact: true };
        let found = LossesFound { flows: vec![loss], lost_packets: u64::MAX, gained_packets: u64::MAX };
        let epochs = history.select(Window::All, true);
        let told =
            Losses::over(&epochs, &Query::new(Task::Losses, Window::All), |_| (Some(&found), Reasons::default()));
        let super::super::Answer::Losses(losses) = told.answer else { panic!("{told:?}") };
        let sums = [losses.lost_packets, losses.gained_packets, losses.losses[0].packets, losses.gains[0].packets];
        assert_eq!(sums, [u64::MAX; 4]);
    }
}
