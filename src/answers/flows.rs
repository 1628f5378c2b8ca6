//! The task flows: how many flows there are of each size, and the largest of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claimed, Distribution, FoundFlows, HeavyFlow, ProgramAnswer, Query, Task, digests};
use crate::history::Reasons;
use crate::output::{self, Cell, Page, Table, row};

/// `weir show flows`: the flows of the newest epoch, or of a whole run or window, and their sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowSizes {
    /// Number of flows; null when there are too many to estimate.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    /// Smaller flows are counted, and cannot be named.
    pub named_from_packets: u64,
    /// Flows of at least as many packets that were found.
    pub heavy_candidates: u64,
    /// The largest of them.
    pub heavy: Vec<HeavyFlow>,
    /// Flows that are not named here, though they are as large as was asked for.
    pub omitted_flows: u64,
    /// Flows by size.
    pub distribution: Vec<SizeClass>,
}

/// Flows of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeClass {
    pub packets: u32,
    pub flows: f64,
}

/// Number, sizes and entropy of flows, as far as a program estimates them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// Number of flows; `None` when it is not measured, or too large to tell.
    pub flows: Option<f64>,
    pub entropy_bits: Option<f64>,
    /// Flows by size in packets. Sizes from 256 on are rounded down to seven binary digits.
    pub distribution: Option<Distribution>,
    pub found: FoundFlows,
}

impl FlowSizes {
    /// The answer of what a program knows about the epochs together.
    pub fn told(sizes: Sizes, query: &Query) -> ProgramAnswer {
        let Sizes { flows, entropy_bits, distribution, found } = sizes;
        let (unit, lack, found_flows) = (found.unit, found.lack_of(query), found.flows.len() as u64);
        let named_from_packets = found.named_from.unwrap_or_default();
        let (heavy, omitted_flows) = found.named(query);
        let classes = distribution.into_iter().flat_map(|distribution| distribution.0);
        let answer = Self {
            flows,
            entropy_bits,
            named_from_packets,
            heavy_candidates: found_flows,
            heavy: heavy.iter().map(|flow| HeavyFlow::new(flow, unit)).collect(),
            omitted_flows,
            distribution: classes.map(|(packets, flows)| SizeClass { packets, flows }).collect(),
        };
        ProgramAnswer::new(answer, lack)
    }

    /// An answer without any epoch.
    pub fn none(lack: Reasons) -> ProgramAnswer {
        ProgramAnswer::new(Self::default(), lack)
    }

    pub fn page(sizes: &Claimed<Self>) -> Page {
        let claimed = sizes.claim.text(Task::Flows.all());
        let rows =
            sizes.heavy.iter().map(|heavy| row![heavy.name.to_string(), heavy.cell(), Cell::new("", heavy.at_least)]);
        let unit = if sizes.heavy.iter().any(|heavy| heavy.bytes.is_some()) { ">bytes" } else { ">packets" };
        let columns = sizes.claim.columns();
        let page = Page::default()
            .table("flows", Table::new(["flow", unit, "|at_least"], rows).beside(&columns))
            .table("sizes", sizes.table().beside(&columns));
        if sizes.claim.last_epoch.is_none() {
            return page.text(claimed);
        }
        if sizes.entropy_bits.is_none() && sizes.distribution.is_empty() && sizes.named_from_packets == 0 {
            // The program finds heavy flows alone.
            return page.text(output::lines([claimed, output::unnamed(sizes.omitted_flows, 0, "")]));
        }
        let number = |number, digits| output::estimate(number, digits).text;
        let (flows, entropy) = (number(sizes.flows, 0), number(sizes.entropy_bits, 3));
        let unnamed = output::unnamed(sizes.omitted_flows, sizes.named_from_packets, "flows of");
        let digests = digests(sizes.heavy.iter().map(|heavy| &heavy.name));
        page.text(output::lines([format!("{flows} flows, entropy {entropy} bits"), unnamed, digests, claimed]))
    }

    /// The number of flows of each size, by powers of two.
    fn table(&self) -> Table {
        let mut classes = BTreeMap::<u32, f64>::new();
        for class in &self.distribution {
            *classes.entry(class.packets.max(1).ilog2()).or_default() += class.flows;
        }
        let row = |(power, flows): (u32, f64)| {
            let (from, to) = (1u64 << power, (2u64 << power) - 1);
            let text = if from == to { format!("{from}") } else { format!("{from} to {to}") };
            row![Cell { text, values: vec![from.into(), to.into()] }, Cell::number(flows, 0)]
        };
        Table::new([">packets|from_packets,to_packets", ">flows"], classes.into_iter().map(row))
    }
}
