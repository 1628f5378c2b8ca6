//! The task utilisation: how busy the links are that flows cross.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::newest::{Newest, others_text, why_none};
use super::paths::{PATH, path_of};
use super::values::{self, FlowValues, HopNumbers, Quantiles, ValueAnswers};
use super::{Claimed, FlowName, ProgramAnswer, Query, Task};
use crate::history::Epochs;
use crate::output::{self, Cell, Page, Table, row};

/// `weir show utilisation`: how busy the busiest link of each flow is, in the newest of the epochs
/// in which packets of it reported one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilisation {
    /// The query in words, without its frequency, that the newest epoch has for utilisations: all of
    /// these are its answers, and epochs without it have none. Null where no epoch has one.
    pub query: Option<String>,
    /// Flows whose packets reported one.
    pub flows: u64,
    /// The largest factor by which a utilisation is off, because packets carry it in few bits.
    pub error_factor: f64,
    /// This utilisation, and any beyond it, may stand for larger ones.
    pub largest: Option<f64>,
    /// The flows with the most packets that reported one.
    pub utilisations: Vec<FlowUtilisation>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that were evicted, since the start.
    pub evicted_flows: u64,
}

/// The busiest links of a flow's packets. 1 is a full link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowUtilisation {
    #[serde(flatten)]
    pub name: FlowName,
    /// The switch where it leaves the network.
    pub sink: Arc<str>,
    /// Of the packets' path, where they carry one; else null. A flow of several paths is there for
    /// each.
    pub checksum: Option<u16>,
    /// The switches of that path, from the first to the last; null where they are not decided.
    pub path: Vec<Option<Arc<str>>>,
    /// Packets of the epoch that reported one.
    pub packets: u64,
    /// The median and the maximum over these packets.
    pub median_utilisation: f64,
    pub max_utilisation: f64,
    /// Between these the median of all packets of the epoch lies, in 95 of 100 cases; null where too
    /// few packets reported one to say.
    pub median_low: Option<f64>,
    pub median_high: Option<f64>,
}

impl FlowUtilisation {
    /// `None` where no packet reported one.
    pub fn new(of: &FlowValues) -> Option<Self> {
        let HopNumbers { samples, quantiles, .. } = of.told.first()?;
        let Quantiles { p50, p50_between, max, .. } = (*quantiles)?;
        Some(Self {
            name: of.flow,
            sink: of.sink.clone(),
            checksum: of.checksum,
            path: of.path.clone(),
            packets: *samples,
            median_utilisation: p50,
            max_utilisation: max,
            median_low: p50_between.low,
            median_high: p50_between.high,
        })
    }
}

impl Utilisation {
    /// `of` gives the answers of an epoch to each query.
    pub fn over<'k, K>(
        epochs: &'k Epochs<K>,
        query: &Query,
        of: impl Fn(&'k K) -> &'k [ValueAnswers],
    ) -> ProgramAnswer {
        let meant = values::of_task(epochs, Task::Utilisation, &of);
        let Newest { lack, flows, named, omitted_flows, evicted_flows, precision, .. } =
            values::newest(epochs, query, meant, &of);
        let answer = Self {
            query: meant.map(|answers| answers.query.to_string()),
            flows,
            error_factor: precision.error_factor,
            largest: precision.largest,
            utilisations: named.into_iter().filter_map(FlowUtilisation::new).collect(),
            omitted_flows,
            evicted_flows,
        };
        ProgramAnswer::new(answer, lack)
    }

    pub fn page(found: &Claimed<Self>) -> Page {
        let claimed = found.claim.text(Task::Utilisation.all());
        let asked = found.query.is_some().then_some(!found.utilisations.is_empty()).ok_or("utilisations");
        let page = Page::default()
            .table("utilisation", utilisation_table(&found.utilisations).beside(&found.claim.columns()))
            .text(why_none(&found.claim, asked, "no packet reported a utilisation"));
        if asked != Ok(true) {
            return page.text(claimed);
        }
        let query = found.query.as_deref().unwrap_or_default();
        let error = format!("{query}; utilisations are off by a factor of {:.3} at most", found.error_factor);
        let others = others_text(found.omitted_flows, found.evicted_flows);
        page.text(output::lines([error + &found.largest_text(), claimed, others]))
    }

    /// A note that the largest utilisation stands for larger ones too, where the table has it.
    pub fn largest_text(&self) -> String {
        values::largest_text("share", self.largest, self.utilisations.iter().map(|flow| flow.max_utilisation))
    }
}

/// A row for each flow, or for each of its paths.
pub fn utilisation_table(flows: &[FlowUtilisation]) -> Table {
    let row = |flow: &FlowUtilisation| {
        row![
            flow.name.to_string(),
            path_of(flow.checksum, &flow.path),
            &*flow.sink,
            flow.packets,
            Cell::share(flow.median_utilisation),
            Cell::between([flow.median_low, flow.median_high], output::percent),
            Cell::share(flow.max_utilisation),
        ]
    };
    let columns = [
        "flow",
        PATH,
        "leaves at|sink",
        ">packets",
        ">median|median_utilisation",
        ">between|median_low,median_high",
        ">maximum|max_utilisation",
    ];
    Table::new(columns, flows.iter().map(row)).keyed(2)
}
