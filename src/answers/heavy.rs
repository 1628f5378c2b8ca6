//! The task heavy flows: the flows with the most packets or bytes over any number of epochs.

use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claimed, Counted, FlowCount, FlowName, Heavy, ProgramAnswer, Query, Task, Unit, Unresolved, digests};
use crate::history::{Epochs, Reason, Reasons};
use crate::output::{self, Cell, Page, Table, row};
use crate::wire::Flow;

/// `weir show heavy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeavyFlows {
    pub program: String,
    pub unit: Unit,
    /// Flows that were found and are not named here.
    pub omitted_flows: u64,
    #[serde(flatten)]
    pub unresolved: Unresolved,
    pub heavy: Vec<HeavyFlow>,
}

/// One heavy flow. Which of the two counts is there depends on what the program counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeavyFlow {
    #[serde(flatten)]
    pub name: FlowName,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// A register that counts the flow was full: the flow has at least that count.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub at_least: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub true_bytes: Option<u64>,
}

impl HeavyFlow {
    pub fn new(heavy: &FlowCount, unit: Unit) -> Self {
        let FlowCount { flow, count } = *heavy;
        let Counted { number, at_least } = count;
        let (packets, bytes) = match unit {
            Unit::Packets => (Some(number), None),
            Unit::Bytes => (None, Some(number)),
        };
        Self { name: flow, packets, bytes, at_least, true_packets: None, true_bytes: None }
    }

    pub fn with_truth(mut self, truth: u64) -> Self {
        if self.packets.is_some() {
            self.true_packets = Some(truth);
        } else {
            self.true_bytes = Some(truth);
        }
        self
    }

    pub fn count(&self) -> u64 {
        self.packets.or(self.bytes).unwrap_or_default()
    }

    /// The count: "1 234", or "at least 1 234" where a register was full.
    pub fn cell(&self) -> Cell {
        Cell::new(output::at_least(self.at_least) + &output::grouped(self.count()), self.count())
    }

    pub fn truth(&self) -> Option<u64> {
        self.true_packets.or(self.true_bytes)
    }
}

/// The flows that a program found in an epoch, or in several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundFlows {
    pub unit: Unit,
    /// In no order.
    pub flows: Vec<FlowCount>,
    /// No count is larger than the flow's true count.
    pub are_lower_bounds: bool,
    /// Every flow of at least this count is among them, unless [`Self::lack`] says why not. `None`
    /// when nothing is promised of any count.
    pub named_from: Option<u64>,
    pub lack: Reasons,
}

impl FoundFlows {
    /// The flows of several epochs, with the sum of the counts of each.
    pub fn sum(epochs: impl Iterator<Item = Self>) -> Self {
        let mut counts: FxHashMap<FlowName, Counted> = FxHashMap::default();
        // A flow that is named in no epoch has less than `named_from` in each.
        let (mut sum, mut unnamed) = (Self::default(), None::<Option<u64>>);
        for Self { unit, flows, are_lower_bounds, named_from, lack } in epochs {
            sum.unit = unit;
            sum.are_lower_bounds = are_lower_bounds && (sum.are_lower_bounds || unnamed.is_none());
            let most = named_from.map(|from| from.saturating_sub(1));
            unnamed = Some(unnamed.map_or(most, |sum| sum.zip(most).map(|(sum, most)| sum.saturating_add(most))));
            sum.lack.extend(&lack);
            flows.iter().for_each(|flow| *counts.entry(flow.flow).or_default() += flow.count);
        }
        sum.flows = counts.into_iter().map(|(flow, count)| FlowCount { flow, count }).collect();
        sum.resolve_by_own();
        sum.named_from = unnamed.flatten().map(|most| most.saturating_add(1));
        sum
    }

    /// At most `max` flows, the heaviest first; equal counts stand in the order of the flows' fields.
    pub fn heaviest(&self, max: usize) -> Vec<FlowCount> {
        heaviest(self.flows.clone(), max)
    }

    /// The flows that a query asks for, the heaviest first, and the number of those that it does not
    /// name.
    pub fn named(mut self, query: &Query) -> (Vec<FlowCount>, u64) {
        self.flows.retain(|flow| flow.count.number >= query.threshold && query.is_meant(&flow.flow));
        let omitted = self.flows.len().saturating_sub(query.top) as u64;
        (heaviest(self.flows, query.top), omitted)
    }

    /// Why flows are missing among those that a query asks for.
    pub fn lack_of(&self, query: &Query) -> Reasons {
        let mut lack = self.lack.clone();
        lack.extend(&self.lack_of_names());
        lack.add_if(self.flows.iter().any(|flow| flow.count.at_least), Reason::Saturated);
        lack.add_if(self.named_from.is_some_and(|from| query.threshold < from), Reason::BelowThreshold);
        lack
    }
}

fn heaviest(mut flows: Vec<FlowCount>, max: usize) -> Vec<FlowCount> {
    let order = |a: &FlowCount, b: &FlowCount| b.count.cmp(&a.count).then(a.flow.cmp(&b.flow));
    if max > 0 && max < flows.len() {
        flows.select_nth_unstable_by(max - 1, order);
    }
    flows.truncate(max);
    flows.sort_unstable_by(order);
    flows
}

impl HeavyFlows {
    /// The heaviest flows over these epochs; `of` gives those that an epoch showed.
    pub fn over<K>(program: &str, epochs: &Epochs<K>, query: &Query, of: impl Fn(&K) -> FoundFlows) -> ProgramAnswer {
        let analysed = epochs.iter().filter(|entry| !entry.switches.is_empty());
        Self::told(program, epochs, query, FoundFlows::sum(analysed.map(|entry| of(&entry.showed))))
    }

    /// The heaviest of the flows that were found in these epochs together.
    pub fn told<K>(program: &str, epochs: &Epochs<K>, query: &Query, found: FoundFlows) -> ProgramAnswer {
        let mut lack = found.lack_of(query);
        lack.add_if(epochs.iter().any(|entry| entry.switches.is_empty()), Reason::NotAnalysed);
        let (unit, unresolved) = (found.unit, found.unresolved());
        let (heavy, omitted_flows) = found.named(query);
        let heavy = heavy.iter().map(|flow| HeavyFlow::new(flow, unit)).collect();
        ProgramAnswer::new(Self { program: program.into(), unit, omitted_flows, unresolved, heavy }, lack)
    }

    /// The flows and their counts, the heaviest first; those that are known by a digest are not there.
    pub fn counts(&self) -> impl Iterator<Item = Heavy> {
        self.heavy.iter().filter_map(|heavy| Some(Heavy { flow: heavy.name.flow()?, count: heavy.count() }))
    }

    pub fn page(flows: &Claimed<Self>) -> Page {
        let claimed = flows.claim.text(Task::Heavy.all());
        let page = Page::default().table("heavy", heavy_table(&flows.heavy, flows.unit).beside(&flows.claim.columns()));
        if flows.claim.last_epoch.is_none() {
            return page.text(claimed);
        }
        let page = if flows.heavy.is_empty() { page.text("no flow") } else { page };
        page.text(output::lines([
            format!("{}, {claimed}", flows.program),
            output::unnamed(flows.omitted_flows, 0, ""),
            digests(flows.heavy.iter().map(|heavy| &heavy.name)),
            flows.unresolved.text(),
        ]))
    }
}

/// Heavy flows, with the true counts beside them when they are known.
pub fn heavy_table(heavy: &[HeavyFlow], unit: Unit) -> Table {
    let row = |(i, heavy): (usize, &HeavyFlow)| {
        let truth = heavy.truth();
        let error = truth.filter(|truth| *truth > 0);
        let error = error.map(|truth| Cell::share(heavy.count().abs_diff(truth) as f64 / truth as f64));
        row![
            Cell::plain(i + 1),
            heavy.name.to_string(),
            heavy.cell(),
            Cell::new("", heavy.at_least),
            Cell::or("-", truth),
            Cell::or("-", error),
        ]
    };
    let unit = unit.name();
    let [counted, truth] = [format!(">{unit}"), format!(">true?|true_{unit}")];
    let columns = [">#|rank", "flow", &counted, "|at_least", &truth, ">error?|error_share"];
    Table::new(columns, heavy.iter().enumerate().map(row)).keyed(2)
}

/// The packets that a score's exact counts are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedFrom {
    /// Packets as the parser read them that the program measured with: what it could not read is not
    /// in the truth either.
    Parsed,
    /// Packets as they were made, whatever a parser finds in them.
    Sent,
}

/// How well a report of the k heaviest flows agrees with the truth (HashPipe §2.1 and §5).
///
/// The true heavy flows are the k with the largest counts; of several flows with the k-th count any
/// may be reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The packets behind the exact counts.
    pub truth: CountedFrom,
    pub k: usize,
    /// Flows in all.
    pub flows: usize,
    /// Reported flows that are heavy, over reported flows.
    pub precision: f64,
    /// Heavy flows that were reported, over heavy flows.
    pub recall: f64,
    /// Heavy flows that were not reported, over heavy flows.
    pub false_negatives: f64,
    /// Reported flows that are not heavy, over flows that are not heavy.
    pub false_positives: f64,
    /// Mean over the true heavy flows of |reported − true| ÷ true; a flow that is not reported
    /// counts 1.
    pub average_relative_error: f64,
}

/// Scores the first `k` of `report`, heaviest first, by counts of what `from` says.
pub fn score(report: &[Heavy], truth: &FxHashMap<Flow, u64>, k: usize, from: CountedFrom) -> Score {
    let k = k.min(truth.len());
    let mut counts: Vec<u64> = truth.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let threshold = k.checked_sub(1).map_or(u64::MAX, |last| counts[last]);
    let above = counts.partition_point(|&count| count > threshold);
    let true_count = |heavy: &Heavy| truth.get(&heavy.flow).copied().unwrap_or_default();

    let report = &report[..report.len().min(k)];
    let hits_above = report.iter().filter(|heavy| true_count(heavy) > threshold).count();
    let hits_tied = report.iter().filter(|heavy| true_count(heavy) == threshold).count();
    let hits = hits_above + hits_tied.min(k - above.min(k));
    let wrong = report.len() - hits;
    Score {
        truth: from,
        k,
        flows: truth.len(),
        precision: ratio(hits, report.len(), 1.0),
        recall: ratio(hits, k, 1.0),
        false_negatives: ratio(k - hits, k, 0.0),
        false_positives: ratio(wrong, truth.len() - k, 0.0),
        average_relative_error: relative_error(report, truth, k),
    }
}

fn relative_error(report: &[Heavy], truth: &FxHashMap<Flow, u64>, k: usize) -> f64 {
    let mut heavy: Vec<_> = truth.iter().map(|(&flow, &count)| Heavy { flow, count }).collect();
    let reported: FxHashMap<_, _> = report.iter().map(|heavy| (heavy.flow, heavy.count)).collect();
    let named: FxHashSet<_> = reported.keys().copied().collect();
    // Among flows of equal count those that were reported come first: any of them is a right
    // answer.
    heavy.sort_unstable_by_key(|heavy| (std::cmp::Reverse(heavy.count), !named.contains(&heavy.flow), heavy.flow));
    let error = |heavy: &Heavy| {
        reported.get(&heavy.flow).map_or(1.0, |&count| count.abs_diff(heavy.count) as f64 / heavy.count as f64)
    };
    ratio_f64(heavy[..k].iter().map(error).sum(), k as f64, 0.0)
}

fn ratio(part: usize, whole: usize, of_nothing: f64) -> f64 {
    ratio_f64(part as f64, whole as f64, of_nothing)
}

fn ratio_f64(part: f64, whole: f64, of_nothing: f64) -> f64 {
    if whole == 0.0 { of_nothing } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Entry, History, Room, Window};

    /// A sum over epochs is as uncertain as any of them, and the answer says why it is not complete.
    #[test]
    fn sums_with_a_full_register_are_marked() {
        let name = |port| FlowName::Flow(Flow { sport: Some(port), ..Flow::default() });
        let answer = |epochs: &[&[(u16, Counted)]]| {
            let history = History::new(Room { epochs: 9, bytes: usize::MAX });
            for (epoch, counts) in (0..).zip(epochs) {
                let counts: Vec<_> =
                    counts.iter().map(|&(port, count)| FlowCount { flow: name(port), count }).collect();
                history.push(Entry { switches: vec!["s".into()], ..Entry::new(epoch, Counts(counts)) });
            }
            let epochs = history.select(Window::All, false);
            let of = |kept: &Counts| FoundFlows { unit: Unit::Bytes, flows: kept.0.clone(), ..FoundFlows::default() };
            let ProgramAnswer { answer, lack } =
                HeavyFlows::over("p", &epochs, &Query::new(Task::Heavy, Window::All), of);
            let super::super::Answer::Heavy(answer) = answer else { panic!("{answer:?}") };
            (answer, lack.contains(Reason::Saturated))
        };
        let full = Counted::of_register(u32::MAX);
        let (found, is_saturated) = answer(&[&[(1, full), (2, 5.into())], &[(1, 3.into()), (2, 6.into())]]);
        let rows: Vec<_> = found.heavy.iter().map(|heavy| (heavy.count(), heavy.at_least)).collect();
        assert_eq!(rows, [(u64::from(u32::MAX) + 3, true), (11, false)]);
        assert!(is_saturated && !answer(&[&[(2, 5.into())]]).1);
        let json = |at: usize| serde_json::to_value(&found.heavy[at]).unwrap();
        assert_eq!((&json(0)["at_least"], json(1).get("at_least")), (&true.into(), None));
    }

    /// A flow without a name may have one less than `named_from` in each epoch.
    #[test]
    fn sums_are_named_from_more() {
        let found = |named_from| FoundFlows { named_from, ..FoundFlows::default() };
        let named_from = |epochs: &[Option<u64>]| FoundFlows::sum(epochs.iter().map(|from| found(*from))).named_from;
        assert_eq!(named_from(&[Some(20), Some(10)]), Some(29));
        assert_eq!([named_from(&[]), named_from(&[Some(20), None]), named_from(&[None, Some(20)])], [None; 3]);
    }

    struct Counts(Vec<FlowCount>);

    impl crate::history::Kept for Counts {
        fn bytes(&self) -> usize {
            0
        }
    }

    fn score(report: &[Heavy], truth: &FxHashMap<Flow, u64>, k: usize) -> Score {
        super::score(report, truth, k, CountedFrom::Sent)
    }

    fn flow(n: u32) -> Flow {
        Flow { src: Some(std::net::Ipv4Addr::from(n).into()), dst: None, sport: None, dport: None, proto: None }
    }

    fn truth(counts: &[u64]) -> FxHashMap<Flow, u64> {
        (0..).zip(counts).map(|(n, &count)| (flow(n), count)).collect()
    }

    fn report(pairs: &[(u32, u64)]) -> Vec<Heavy> {
        pairs.iter().map(|&(n, count)| Heavy { flow: flow(n), count }).collect()
    }

    #[test]
    fn the_truth_itself_is_perfect() {
        let score = score(&report(&[(0, 9), (1, 7)]), &truth(&[9, 7, 3, 1]), 2);
        assert_eq!((score.precision, score.recall, score.false_negatives), (1.0, 1.0, 0.0));
        assert_eq!((score.false_positives, score.average_relative_error), (0.0, 0.0));
    }

    #[test]
    fn a_light_flow_in_place_of_a_heavy_one() {
        let score = score(&report(&[(0, 8), (3, 1)]), &truth(&[10, 7, 3, 1]), 2);
        assert_eq!((score.precision, score.recall, score.false_negatives), (0.5, 0.5, 0.5));
        assert_eq!(score.false_positives, 0.5);
        assert!((score.average_relative_error - (0.2 + 1.0) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn any_of_the_tied_flows_is_right() {
        let score = score(&report(&[(0, 9), (3, 5)]), &truth(&[9, 5, 5, 5]), 2);
        assert_eq!((score.recall, score.average_relative_error), (1.0, 0.0));
    }

    #[test]
    fn fewer_flows_than_asked_for() {
        let score = score(&report(&[(0, 9)]), &truth(&[9]), 10);
        assert_eq!((score.k, score.recall, score.false_positives), (1, 1.0, 0.0));
        assert_eq!(super::score(&[], &truth(&[]), 5, CountedFrom::Sent).recall, 1.0);
    }
}
