//! The task paths: the switches that each flow crosses.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::newest::{Newest, OfEpoch, OfFlow, Precision, others_text, why_none};
use super::{Claimed, FlowName, ProgramAnswer, Query, Task};
use crate::history::{Epochs, Reasons};
use crate::output::{self, Cell, Page, Table, row};

/// `weir show paths`: the switches that flows cross, as the newest of the epochs knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// Whether a query asks for paths in any of these epochs.
    pub asked: bool,
    /// Flows of which packets left the network.
    pub flows: u64,
    /// The flows with the most packets.
    pub paths: Vec<FlowPath>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that were evicted, since the start.
    pub evicted_flows: u64,
}

/// How far a path is to be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Several paths agree with the packets so far, or none.
    #[default]
    Undecided,
    /// One path alone does.
    Decided,
    /// And the packets bear out each of its switches more than once, so that it is not another one
    /// for any reason.
    Sure,
}

/// The packets of a flow of which its path is sure: those between two, and both of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SureOf {
    pub packets: u64,
    /// When the first and the last of them left the network, since 1970.
    pub since_ns: u64,
    pub until_ns: u64,
}

/// The path of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPath {
    #[serde(flatten)]
    pub flow: FlowName,
    /// Where it leaves the network.
    #[serde(default)]
    pub sink: Arc<str>,
    /// Of the path, where packets carry one; else null. A flow then has an answer for each.
    pub checksum: Option<u16>,
    /// From the first to the last; null where it is not decided.
    pub switches: Arc<[Option<Arc<str>>]>,
    pub certainty: Certainty,
    /// Packets that the answer rests on: they agree with it.
    pub packets: u64,
    /// `None` unless the path is sure. In a document three keys, null unless it is sure.
    #[serde(flatten, with = "sure_of")]
    #[schemars(with = "sure_of::Written")]
    pub sure: Option<SureOf>,
    /// Packets that look like earlier ones, and say nothing new: copies, or packets in which nothing
    /// varies. Where they are more than `packets`, a path that is undecided is so for that reason.
    #[serde(rename = "repeated_packets")]
    pub repeated: u64,
    /// Digests for the least-covered switch.
    pub least_digests: u32,
    /// Times that packets contradicted those before them: another path, or a wrong digest.
    pub contradictions: u64,
}

/// [`SureOf`] in a document.
mod sure_of {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::SureOf;
    use crate::json::{Digits, digits};

    #[derive(Serialize, Deserialize, JsonSchema)]
    pub struct Written {
        /// Packets of the flow of which its path is sure; null unless it is.
        sure_packets: Option<u64>,
        /// When the first of these and the last of them left the network, in nanoseconds since 1970.
        #[serde(with = "digits", default)]
        #[schemars(with = "Option<Digits>")]
        sure_since_ns: Option<u64>,
        #[serde(with = "digits", default)]
        #[schemars(with = "Option<Digits>")]
        sure_until_ns: Option<u64>,
    }

    pub fn serialize<S: Serializer>(sure: &Option<SureOf>, to: S) -> Result<S::Ok, S::Error> {
        let of = |of: fn(&SureOf) -> u64| sure.as_ref().map(of);
        let (sure_packets, sure_since_ns, sure_until_ns) =
            (of(|sure| sure.packets), of(|sure| sure.since_ns), of(|sure| sure.until_ns));
        Written { sure_packets, sure_since_ns, sure_until_ns }.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SureOf>, D::Error> {
        let Written { sure_packets, sure_since_ns, sure_until_ns } = Written::deserialize(from)?;
        let of = |((packets, since_ns), until_ns)| SureOf { packets, since_ns, until_ns };
        Ok(sure_packets.zip(sure_since_ns).zip(sure_until_ns).map(of))
    }
}

/// The paths of an epoch's flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathAnswers {
    pub flows: Vec<FlowPath>,
    /// Flows that were evicted so far.
    pub evicted: u64,
    /// Why paths are missing or not decided.
    pub lack: Reasons,
}

impl FlowPath {
    /// Nothing is known of the flow's path.
    #[cfg(test)]
    pub fn of(flow: FlowName) -> Self {
        Self {
            flow,
            sink: "z".into(),
            checksum: None,
            switches: [None].into(),
            certainty: Certainty::Undecided,
            packets: 1,
            sure: None,
            repeated: 0,
            least_digests: 0,
            contradictions: 0,
        }
    }

    /// The switches in their order; `?` stands for one that is not decided.
    pub fn switches_text(&self) -> String {
        switches_text(&self.switches)
    }

    pub fn certainty_text(&self) -> &'static str {
        match self.certainty {
            Certainty::Undecided if self.is_alike() => "undecided, packets alike",
            Certainty::Undecided => "undecided",
            Certainty::Decided => "decided",
            Certainty::Sure => "sure",
        }
    }

    /// Whether packets are too much alike to tell the path: more of them repeat others than tell of it.
    pub fn is_alike(&self) -> bool {
        self.certainty == Certainty::Undecided && self.repeated > self.packets
    }
}

impl OfFlow for FlowPath {
    type Key = (FlowName, Arc<str>, Option<(usize, u16)>);

    fn key(&self) -> Self::Key {
        (self.flow, self.sink.clone(), self.checksum.map(|checksum| (self.switches.len(), checksum)))
    }

    fn flow(&self) -> &FlowName {
        &self.flow
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn switches(&self) -> impl Iterator<Item = &str> {
        self.switches.iter().flatten().map(|switch| &**switch)
    }
}

impl Paths {
    /// A later answer knows what the earlier ones did. `of` gives the answers of an epoch.
    pub fn over<'k, K>(
        epochs: &'k Epochs<K>,
        query: &Query,
        of: impl Fn(&'k K) -> Option<&'k PathAnswers>,
    ) -> ProgramAnswer {
        let of_epoch = |kept: &'k K| {
            let PathAnswers { flows, evicted, lack } = of(kept)?;
            Some(OfEpoch { flows, evicted: *evicted, lack, precision: Precision::EXACT })
        };
        let Newest { lack, asked, flows, named, omitted_flows, evicted_flows, .. } =
            Newest::new(epochs, query, of_epoch);
        let paths = named.into_iter().cloned().collect();
        ProgramAnswer::new(Self { asked, flows, paths, omitted_flows, evicted_flows }, lack)
    }

    pub fn page(found: &Claimed<Self>) -> Page {
        let asked = found.asked.then_some(!found.paths.is_empty()).ok_or("paths");
        let others =
            if asked == Ok(true) { others_text(found.omitted_flows, found.evicted_flows) } else { String::new() };
        Page::default()
            .table("paths", paths_table(&found.paths).beside(&found.claim.columns()))
            .text(why_none(&found.claim, asked, "no flow left the network"))
            .text(output::lines([found.claim.text(Task::Paths.all()), others]))
    }
}

/// Flows, their paths, and how far these are to be believed. `?` stands for a switch that is not
/// decided.
pub fn paths_table(paths: &[FlowPath]) -> Table {
    let row = |path: &FlowPath| {
        let moment = |ns: Option<u64>| Cell::or("", ns.map(Cell::moment));
        row![
            path.flow.to_string(),
            path.switches_text(),
            path.certainty_text(),
            path.packets,
            Cell::or("", path.sure.map(|sure| sure.packets)),
            moment(path.sure.map(|sure| sure.since_ns)),
            moment(path.sure.map(|sure| sure.until_ns)),
            path.contradictions,
        ]
    };
    let columns = [
        "flow",
        "path",
        "certainty",
        ">packets",
        ">sure of|sure_packets",
        "since (UTC)|sure_since_ns",
        "until|sure_until_ns",
        ">contradictions",
    ];
    Table::new(columns, paths.iter().map(row)).keyed(2)
}

/// The switches of a path in their order.
fn switches_text(switches: &[Option<Arc<str>>]) -> String {
    switches.iter().map(|name| name.as_deref().unwrap_or("?")).collect::<Vec<_>>().join(" → ")
}

/// The column of [`path_of`]: people see it if some rows have a path.
pub const PATH: &str = "path?";

/// The path of a flow whose packets have this checksum: a flow of several paths has a row for each. `?`
/// stands where packets do not say which path they took.
pub fn path_of(checksum: Option<u16>, path: &[Option<Arc<str>>]) -> Cell {
    Cell::or("?", checksum.map(|_| switches_text(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Style;

    /// A path that is sure says of which packets, and one that is undecided whether packets are alike.
    #[test]
    fn a_table_says_what_is_sure() {
        let undecided = FlowPath::of(FlowName::default());
        let alike = FlowPath { repeated: 9, ..undecided.clone() };
        let sure = FlowPath {
            switches: [Some("a".into())].into(),
            certainty: Certainty::Sure,
            packets: 90,
            sure: Some(SureOf { packets: 70, since_ns: 1_000_000_000, until_ns: 61_250_000_000 }),
            ..undecided.clone()
        };
        let table = paths_table(&[sure, undecided, alike]).text(Style::Plain);
        let lines: Vec<_> = table.lines().collect();
        assert!(lines[0].contains("packets  sure of  since (UTC)   until"), "{table}");
        assert!(
            lines[1].contains("a     sure                           90       70  00:00:01.000  00:01:01.250"),
            "{table}"
        );
        assert!(lines[2].contains("?     undecided                       1") && !lines[2].contains(':'), "{table}");
        assert!(lines[3].contains("?     undecided, packets alike        1"), "{table}");
    }

    /// A flow of several paths is there for each, with the switches as far as they are decided; without
    /// checksums no table has paths.
    #[test]
    fn a_table_shows_paths() {
        let of = |names: &[Option<&str>], checksum| {
            let names: Vec<_> = names.iter().map(|name| name.map(Arc::from)).collect();
            row!["flow", path_of(checksum, &names), 9u64]
        };
        let text = |rows: Vec<Vec<Cell>>| Table::new(["flow", PATH, ">packets"], rows).text(Style::Plain);
        let rows = || [of(&[Some("a"), None, Some("c")], Some(3)), of(&[Some("b"), Some("c")], Some(1)), of(&[], None)];
        let expected =
            "flow  path       packets\nflow  a → ? → c        9\nflow  b → c            9\nflow  ?                9";
        assert_eq!(text(rows().into()), expected);
        assert_eq!(text(rows()[2..].into()), "flow  packets\nflow        9");
    }
}
