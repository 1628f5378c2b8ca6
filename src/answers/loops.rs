//! The task loops: packets that come back to a switch that they have passed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::newest::{Newest, OfEpoch, OfFlow, Precision, why_none};
use super::{Claimed, FlowName, ProgramAnswer, Query, Task};
use crate::history::{Epochs, Reasons};
use crate::json::{Digits, digits};
use crate::output::{self, Cell, Page, Table, row};

/// `weir show loops`: the flows whose packets came back to a switch in these epochs, and the
/// switches that saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loops {
    /// Whether a query asks for loops in any of these epochs.
    pub asked: bool,
    /// Those with the most packets, one for each flow and switch.
    pub loops: Vec<FlowLoop>,
    /// Loops that are not named here.
    pub omitted_loops: u64,
    /// Loops that were evicted, since the start.
    pub evicted_loops: u64,
    /// Reports that found no room in these epochs.
    pub missing_reports: u64,
}

/// A flow of which a switch has seen packets in a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowLoop {
    #[serde(flatten)]
    pub flow: FlowName,
    /// The switch that saw it, so one of those in the loop.
    pub switch: Arc<str>,
    /// When it saw the first and the last of the packets, in nanoseconds of its clock since 1970.
    #[serde(with = "digits")]
    #[schemars(with = "Digits")]
    pub first_ns: u64,
    #[serde(with = "digits")]
    #[schemars(with = "Digits")]
    pub last_ns: u64,
    /// Packets that it reported.
    pub packets: u64,
    /// The fewest switches that one of these had passed, each time that it came by counted.
    pub least_hops: u32,
}

/// The loops that an epoch's packets were in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopAnswers {
    pub flows: Vec<FlowLoop>,
    /// Flows that were evicted so far.
    pub evicted: u64,
    /// Reports of the epoch that found no room.
    pub missing_reports: u64,
    /// Why loops, or packets of these, are missing.
    pub lack: Reasons,
}

impl OfFlow for FlowLoop {
    type Key = (FlowName, Arc<str>);

    fn key(&self) -> Self::Key {
        (self.flow, self.switch.clone())
    }

    fn flow(&self) -> &FlowName {
        &self.flow
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn switches(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.switch)
    }
}

impl Loops {
    /// A later answer counts the packets of the earlier ones too. `of` gives the answers of an epoch.
    pub fn over<'k, K>(
        epochs: &'k Epochs<K>,
        query: &Query,
        of: impl Fn(&'k K) -> Option<&'k LoopAnswers>,
    ) -> ProgramAnswer {
        let of_epoch = |kept: &'k K| {
            let LoopAnswers { flows, evicted, lack, .. } = of(kept)?;
            Some(OfEpoch { flows, evicted: *evicted, lack, precision: Precision::EXACT })
        };
        let Newest { lack, asked, named, omitted_flows: omitted_loops, evicted_flows: evicted_loops, .. } =
            Newest::new(epochs, query, of_epoch);
        let loops = named.into_iter().cloned().collect();
        let missing = epochs.iter().filter_map(|entry| of(&entry.showed));
        let missing_reports = missing.fold(0u64, |sum, loops| sum.saturating_add(loops.missing_reports));
        ProgramAnswer::new(Self { asked, loops, omitted_loops, evicted_loops, missing_reports }, lack)
    }

    pub fn page(found: &Claimed<Self>) -> Page {
        let claimed = found.claim.text(Task::Loops.all());
        let asked = found.asked.then_some(!found.loops.is_empty()).ok_or("loops");
        let page = Page::default()
            .table("loops", loops_table(&found.loops).beside(&found.claim.columns()))
            .text(why_none(&found.claim, asked, "no packet came back to a switch"));
        if asked != Ok(true) {
            return page.text(claimed);
        }
        let counted = |number, what: &str, how: &str| match number {
            0 => String::new(),
            number => format!("{} {how}", output::count(number, what)),
        };
        page.text(output::lines([
            claimed,
            counted(found.omitted_loops, "loop", "not named"),
            counted(found.evicted_loops, "loop", "evicted by others"),
            counted(found.missing_reports, "report", "of packets in loops found no room"),
        ]))
    }
}

/// A row for each flow and switch that saw it in a loop.
pub fn loops_table(loops: &[FlowLoop]) -> Table {
    let row = |found: &FlowLoop| {
        let FlowLoop { flow, switch, first_ns, last_ns, packets, least_hops } = found;
        let moment = |ns: u64| Cell::new(output::time_of(ns), ns);
        row![flow.to_string(), &**switch, moment(*first_ns), moment(*last_ns), *packets, Cell::plain(*least_hops)]
    };
    let columns = ["flow", "seen by|switch", "first|first_ns", "last|last_ns", ">packets", ">hops|least_hops"];
    Table::new(columns, loops.iter().map(row)).keyed(2)
}
