//! The task values: numbers that packets of flows reported, of a hop each or of their whole way. The
//! tasks latency and utilisation rest on the same.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::newest::{Newest, OfEpoch, OfFlow, Precision, others_text, why_none};
use super::paths::{PATH, path_of};
use super::{Claimed, FlowName, ProgramAnswer, Query, Task};
use crate::history::{Epochs, Reason, Reasons};
use crate::output::{self, Cell, Page, Table, row, time};
use crate::text::named;

/// `weir show values`: what the switches on the way of each flow had, in the newest of the epochs in
/// which packets of it reported some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Values {
    /// In the order of the queries. Those that are not asked for any more are behind the others.
    pub values: Vec<Value>,
}

/// One value, and how its numbers come together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// The query in words, without its frequency: what tells these answers apart from others.
    pub query: String,
    /// Both as queries name them.
    pub value: String,
    pub aggregation: String,
    /// Which packets are one flow, as queries name it; null are those of one five-tuple.
    pub flow_definition: Option<String>,
    /// What its numbers count: `ns`, `packets`, `share` (1 is all) or `port` (a port's number).
    pub unit: String,
    /// A packet tells of one hop; else of its whole way.
    pub of_hops: bool,
    /// The largest error of a number, and the largest factor by which it is off, because packets
    /// carry it in few bits: whichever is more.
    pub error: f64,
    pub error_factor: f64,
    /// This number, and any beyond it, may stand for larger ones; null where there are none.
    pub largest: Option<f64>,
    /// Only packets of this many nanoseconds count, those up to the newest; null is all time, or of
    /// whole ways the epoch.
    pub window_ns: Option<u64>,
    /// Flows whose packets reported it.
    pub flows: u64,
    /// The flows with the most packets that reported it.
    pub told: Vec<ValueFlow>,
    /// Flows that are not named here.
    pub omitted_flows: u64,
    /// Flows that were evicted, since the start.
    pub evicted_flows: u64,
}

/// A flow's numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueFlow {
    #[serde(flatten)]
    pub name: FlowName,
    /// The switch where it leaves the network.
    pub sink: Arc<str>,
    /// Of the packets' path, where they carry one; else null. A flow of several paths is there for
    /// each.
    pub checksum: Option<u16>,
    /// The switches of that path, from the first to the last, of whole ways alone; null where they are
    /// not decided.
    pub path: Vec<Option<Arc<str>>>,
    /// Of each hop from the first to the last, or of the whole way alone.
    pub told: Vec<ValueHop>,
}

/// What packets reported of a hop, or of their whole way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueHop {
    /// Counted from 1; null of whole ways.
    pub hop: Option<usize>,
    /// Null where the path is not decided, and of whole ways.
    pub switch: Option<Arc<str>>,
    /// Packets that reported it.
    pub samples: u64,
    /// The median, the 99th percentile and the maximum; null without samples, and of frequent
    /// numbers.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
    /// Between these numbers the median and the 99th percentile of all packets lie, in 95 of 100 cases;
    /// null where there are too few samples to say.
    pub p50_low: Option<f64>,
    pub p50_high: Option<f64>,
    pub p99_low: Option<f64>,
    pub p99_high: Option<f64>,
    /// The mean, and by how much it is off at most in 95 of 100 cases; null where it is not known.
    pub mean: Option<f64>,
    pub mean_error: Option<f64>,
    /// The most frequent numbers.
    pub frequent: Vec<Frequent>,
    /// By how much their shares are off at most, in 95 of 100 cases; null where they are not asked for.
    pub share_error: Option<f64>,
}

named! {
    /// What a number counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum ValueUnit {
        Ns = "ns",
        Packets = "packets",
        /// 1 is all of it.
        Share = "share",
        /// The number of a port.
        Port = "port",
    }
}

/// The least numbers that these shares of the samples do not exceed, and between which numbers those
/// of all packets lie in 95 of 100 cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p50_between: Between,
    pub p99: f64,
    pub p99_between: Between,
    pub max: f64,
}

/// The ends of an interval; `None` where samples are too few to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Between {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// The mean of samples, and by how much it is off at most in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    pub mean: f64,
    pub error: f64,
}

/// A number, and its share of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frequent {
    pub number: f64,
    pub share: f64,
}

/// What packets reported of a hop of a flow, or of their whole way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HopNumbers {
    /// `None` where the path is not decided, and of whole ways.
    pub switch: Option<Arc<str>>,
    /// Packets that reported it.
    pub samples: u64,
    /// `None` without samples, and where they are not asked for.
    pub quantiles: Option<Quantiles>,
    /// `None` where it is not known as well.
    pub mean: Option<Mean>,
    /// Those with the largest shares first.
    pub frequent: Vec<Frequent>,
    /// By how much the share of a frequent number is off at most, in 95 of 100 cases; `None` where
    /// these are not asked for.
    pub share_error: Option<f64>,
}

/// The numbers of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowValues {
    pub flow: FlowName,
    /// Where it leaves the network.
    pub sink: Arc<str>,
    /// Of the packets' path, where they carry one: a flow then has an answer for each.
    pub checksum: Option<u16>,
    /// The switches of that path, of whole ways alone; `None` where it is not decided.
    pub path: Vec<Option<Arc<str>>>,
    /// Of each hop from the first to the last, or of the whole way alone.
    pub told: Vec<HopNumbers>,
}

impl FlowValues {
    /// Samples of all hops.
    pub fn samples(&self) -> u64 {
        self.told.iter().map(|told| told.samples).sum()
    }
}

/// Numbers that the packets of an epoch reported of a switch, whatever their flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchSamples {
    /// `None` of hops whose switch was not decided.
    pub switch: Option<Arc<str>>,
    /// Each number and the samples that had it, in ascending order.
    pub counts: Vec<(f64, u64)>,
}

/// The numbers of one value that an epoch's flows met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueAnswers {
    /// Latency, of hops and in nanoseconds; utilisation, a share and of whole ways; or values. Of the
    /// answers about an epoch one at most is of each of the first two.
    pub task: Task,
    /// The value and how its numbers come together, as the program's queries name them.
    pub value: Cow<'static, str>,
    pub aggregation: Cow<'static, str>,
    /// Which packets are one flow, as queries name it; `None` are those of one five-tuple.
    pub flow_definition: Option<Cow<'static, str>>,
    /// The query in words, whose answers are these in each epoch that has some.
    pub query: Arc<str>,
    pub unit: ValueUnit,
    /// A packet tells of one hop; else of its whole way.
    pub of_hops: bool,
    pub flows: Vec<FlowValues>,
    /// The samples of this epoch alone, by switch, of latencies of hops.
    #[serde(default)]
    pub switches: Vec<SwitchSamples>,
    /// Flows that were evicted so far.
    pub evicted: u64,
    /// By how much a number is off at most, and by which factor, because it is carried in few bits:
    /// whichever is more.
    pub error: f64,
    pub error_factor: f64,
    /// The number of the last code, which larger ones have as well; `None` where none is larger.
    pub largest: Option<f64>,
    /// Only packets of this many nanoseconds count, those up to the newest; `None` is all time, or
    /// of whole ways the epoch.
    pub window_ns: Option<u64>,
    /// Why numbers are missing.
    pub lack: Reasons,
}

impl OfFlow for FlowValues {
    /// The flow and, where packets carry a checksum, one of its paths.
    type Key = (FlowName, Arc<str>, usize, usize, Option<u16>);

    fn key(&self) -> Self::Key {
        (self.flow, self.sink.clone(), self.told.len(), self.path.len(), self.checksum)
    }

    fn flow(&self) -> &FlowName {
        &self.flow
    }

    fn packets(&self) -> u64 {
        self.samples()
    }

    fn switches(&self) -> impl Iterator<Item = &str> {
        let hops = self.told.iter().filter_map(|hop| hop.switch.as_deref());
        self.path.iter().flatten().map(|switch| &**switch).chain(hops)
    }
}

impl ValueAnswers {
    /// Whether both are of one query.
    pub fn is_of_same_query(&self, other: &Self) -> bool {
        self.query == other.query
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        let hop = |hop: &HopNumbers| size_of_val(hop) + size_of_val(&hop.frequent[..]);
        let flow = |flow: &FlowValues| {
            size_of_val(flow) + size_of_val(&flow.path[..]) + flow.told.iter().map(hop).sum::<usize>()
        };
        let switch = |of: &SwitchSamples| size_of_val(of) + size_of_val(&of.counts[..]);
        self.flows.iter().map(flow).sum::<usize>() + self.switches.iter().map(switch).sum::<usize>()
    }

    fn precision(&self) -> Precision {
        let Self { error, error_factor, largest, window_ns, .. } = *self;
        Precision { error, error_factor, largest, window_ns }
    }
}

impl ValueFlow {
    /// Samples of all hops.
    pub fn samples(&self) -> u64 {
        self.told.iter().map(|hop| hop.samples).sum()
    }
}

impl ValueHop {
    fn new(hop: Option<usize>, numbers: &HopNumbers) -> Self {
        let HopNumbers { switch, samples, quantiles, mean, frequent, share_error } = numbers;
        Self {
            hop,
            switch: switch.clone(),
            samples: *samples,
            p50: quantiles.map(|of| of.p50),
            p99: quantiles.map(|of| of.p99),
            max: quantiles.map(|of| of.max),
            p50_low: quantiles.and_then(|of| of.p50_between.low),
            p50_high: quantiles.and_then(|of| of.p50_between.high),
            p99_low: quantiles.and_then(|of| of.p99_between.low),
            p99_high: quantiles.and_then(|of| of.p99_between.high),
            mean: mean.map(|of| of.mean),
            mean_error: mean.map(|of| of.error),
            frequent: frequent.clone(),
            share_error: *share_error,
        }
    }
}

impl Value {
    fn new(answers: &ValueAnswers, newest: Newest<'_, FlowValues>) -> Self {
        let Newest { flows, named, omitted_flows, precision, .. } = newest;
        let flow = |of: &FlowValues| {
            let hop = |hop| Some(hop).filter(|_| answers.of_hops);
            let told = (1..).zip(&of.told).map(|(place, numbers)| ValueHop::new(hop(place), numbers)).collect();
            ValueFlow { name: of.flow, sink: of.sink.clone(), checksum: of.checksum, path: of.path.clone(), told }
        };
        Self {
            query: answers.query.to_string(),
            value: answers.value.to_string(),
            aggregation: answers.aggregation.to_string(),
            flow_definition: answers.flow_definition.as_ref().map(ToString::to_string),
            unit: answers.unit.name().into(),
            of_hops: answers.of_hops,
            error: precision.error,
            error_factor: precision.error_factor,
            largest: precision.largest,
            window_ns: precision.window_ns,
            flows,
            told: named.into_iter().map(flow).collect(),
            omitted_flows,
            evicted_flows: answers.evicted,
        }
    }
}

/// The newest answers to each query that some of these epochs have answers to: those of the newest
/// epoch in its order, then those of earlier ones.
fn all<'k, K>(epochs: &'k Epochs<K>, of: impl Fn(&'k K) -> &'k [ValueAnswers]) -> Vec<&'k ValueAnswers> {
    let mut newest = Vec::<&ValueAnswers>::new();
    for answers in epochs.iter().rev().flat_map(|entry| of(&entry.showed)) {
        if newest.iter().all(|known| !known.is_of_same_query(answers)) {
            newest.push(answers);
        }
    }
    newest
}

/// The newest answers to the query of this task, latency or utilisation, in the newest epoch that has
/// one.
pub(super) fn of_task<'k, K>(
    epochs: &'k Epochs<K>,
    task: Task,
    of: impl Fn(&'k K) -> &'k [ValueAnswers],
) -> Option<&'k ValueAnswers> {
    all(epochs, of).into_iter().find(|answers| answers.task == task)
}

/// The newest answer of each flow to the query of `meant`.
pub(super) fn newest<'k, K>(
    epochs: &'k Epochs<K>,
    query: &Query,
    meant: Option<&ValueAnswers>,
    of: impl Fn(&'k K) -> &'k [ValueAnswers],
) -> Newest<'k, FlowValues> {
    Newest::new(epochs, query, |kept| {
        let answers = of(kept).iter().find(|answers| meant.is_some_and(|meant| answers.is_of_same_query(meant)))?;
        let ValueAnswers { flows, evicted, lack, .. } = answers;
        Some(OfEpoch { flows, evicted: *evicted, lack, precision: answers.precision() })
    })
}

impl Values {
    /// The answers to the queries that are not those of latency and utilisation. `of` gives the
    /// answers of an epoch to each query.
    pub fn over<'k, K>(
        epochs: &'k Epochs<K>,
        query: &Query,
        of: impl Fn(&'k K) -> &'k [ValueAnswers],
    ) -> ProgramAnswer {
        let shown = [Task::Latency, Task::Utilisation].map(|task| of_task(epochs, task, &of));
        let is_other = |answers: &&ValueAnswers| !shown.iter().flatten().any(|shown| shown.is_of_same_query(answers));
        let others: Vec<_> = all(epochs, &of).into_iter().filter(is_other).collect();
        let value = |answers: &&ValueAnswers| Value::new(answers, newest(epochs, query, Some(answers), &of));
        let mut lack = Reasons::default();
        for entry in epochs.iter() {
            let is_meant = |answers: &&ValueAnswers| others.iter().any(|other| other.is_of_same_query(answers));
            let mut answers = of(&entry.showed).iter().filter(is_meant).peekable();
            lack.add_if(answers.peek().is_none(), Reason::NotAsked);
            answers.for_each(|answers| lack.extend(&answers.lack));
        }
        ProgramAnswer::new(Self { values: others.iter().map(value).collect() }, lack)
    }

    pub fn page(found: &Claimed<Self>) -> Page {
        let claimed = found.claim.text(Task::Values.all());
        let asked = (!found.values.is_empty()).then_some(true).ok_or("other values");
        let sum = |of: fn(&Value) -> u64| found.values.iter().map(of).sum();
        let others = others_text(sum(|value| value.omitted_flows), sum(|value| value.evicted_flows));
        found
            .tables()
            .beside(&found.claim.columns())
            .text(why_none(&found.claim, asked, ""))
            .text(output::lines([claimed, others]))
    }

    /// All values, each with its title, and with its query where another one has the same title. Tables
    /// are named by their queries.
    pub fn tables(&self) -> Page {
        let values = &self.values;
        let titles: Vec<_> = values.iter().map(title).collect();
        values.iter().zip(&titles).fold(Page::default(), |page, (value, title)| {
            let is_alone = titles.iter().filter(|other| *other == title).count() == 1;
            let query = if is_alone { String::new() } else { format!(" ({})", value.query) };
            let off = off_text(&value.unit, value.error, value.error_factor).map(|off| format!("; {off}"));
            let heading = format!(
                "{title}{query}{}{}",
                off.unwrap_or_default(),
                largest_text(&value.unit, value.largest, all_numbers(value))
            );
            let page = match value.told[..] {
                [] => page.text(format!("{heading}\nno packet reported it")),
                _ => page,
            };
            page.table(&value.query, value_table(value).titled(heading))
        })
    }
}

/// What a table is of: `queue, quantiles of each hop, flow=dst`.
fn title(value: &Value) -> String {
    let of = if value.of_hops { "each hop" } else { "each packet's way" };
    let window = value.window_ns.map(|ns| format!(", over the last {}", time(ns)));
    let flow = value.flow_definition.as_ref().map(|flow| format!(", flow={flow}"));
    let [flow, window] = [flow, window].map(Option::unwrap_or_default);
    format!("{}, {} of {of}{flow}{window}", value.value, value.aggregation)
}

/// By how much numbers of a unit are off because packets carry them in few bits; `None` where they are
/// exact.
pub(super) fn off_text(unit: &str, error: f64, factor: f64) -> Option<String> {
    let error = (error > 0.0).then(|| number_text(unit, error));
    let factor = (factor > 1.0).then(|| format!("a factor of {factor:.3}"));
    let both: Vec<_> = error.into_iter().chain(factor).collect();
    (!both.is_empty()).then(|| format!("off by {} at most", both.join(" or ")))
}

/// A note that the number of the last code stands for larger ones too, where a table has it among its
/// `numbers`.
pub(super) fn largest_text(unit: &str, largest: Option<f64>, mut numbers: impl Iterator<Item = f64>) -> String {
    match largest.filter(|largest| numbers.any(|number| number >= *largest)) {
        Some(largest) => format!("; {} means that or more", number_text(unit, largest)),
        None => String::new(),
    }
}

/// Those of a value's table.
fn all_numbers(value: &Value) -> impl Iterator<Item = f64> {
    let told = value.told.iter().flat_map(|flow| &flow.told);
    told.flat_map(|told| told.max.into_iter().chain(told.frequent.iter().map(|frequent| frequent.number)))
}

fn value_table(value: &Value) -> Table {
    let rows = value.told.iter().flat_map(|flow| flow.told.iter().map(move |told| (flow, told)));
    let number = |number: Option<f64>| Cell::or("-", number.map(|n| Cell::new(number_text(&value.unit, n), n)));
    let between = |ends: [Option<f64>; 2]| Cell::between(ends, |end| number_text(&value.unit, end));
    let flow_and_hop = |(flow, told): (&ValueFlow, &ValueHop)| {
        row![
            Cell::from(flow.name.to_string()).repeated(told.hop.is_some_and(|hop| hop != 1)),
            Cell::or("", told.hop.map(Cell::plain)),
            Cell::or("?", told.switch.as_deref()),
            told.samples,
        ]
    };
    if value.aggregation == "frequent" {
        let frequent = |(flow, told): (&ValueFlow, &ValueHop)| {
            let numbers = numbers(&value.unit, &told.frequent);
            [flow_and_hop((flow, told)), row![numbers, Cell::or("", told.share_error.map(Cell::share))]].concat()
        };
        let columns = ["flow", ">hop", "switch", ">samples", "numbers|numbers,shares", ">± share|share_error"];
        return Table::new(columns, rows.map(frequent)).keyed(2);
    }
    let unit = &value.unit;
    let [p50, p99] = ["p50", "p99"]
        .map(|name| [format!(">{name}|{name}_{unit}"), format!(">between|{name}_low_{unit},{name}_high_{unit}")]);
    let maximum = format!(">maximum|max_{unit}");
    if value.of_hops {
        let of_hop = |(flow, told): (&ValueFlow, &ValueHop)| {
            let p50 = [number(told.p50), between([told.p50_low, told.p50_high])];
            let p99 = [number(told.p99), between([told.p99_low, told.p99_high])];
            [flow_and_hop((flow, told)), p50.into(), p99.into(), vec![number(told.max)]].concat()
        };
        let columns = ["flow", ">hop", "switch", ">samples"].map(str::to_owned);
        let columns = columns.into_iter().chain(p50).chain(p99).chain([maximum]);
        return Table::new(columns, rows.map(of_hop)).keyed(2);
    }
    let of_way = |(flow, told): (&ValueFlow, &ValueHop)| {
        row![
            flow.name.to_string(),
            path_of(flow.checksum, &flow.path),
            &*flow.sink,
            told.samples,
            number(told.p50),
            between([told.p50_low, told.p50_high]),
            number(told.max),
            number(told.mean),
            number(told.mean_error),
        ]
    };
    let [_, between_p50] = p50;
    let columns = ["flow", PATH, "leaves at|sink", ">packets"].map(str::to_owned);
    let median = [format!(">median|p50_{unit}"), between_p50, maximum];
    let mean = [format!(">mean|mean_{unit}"), format!(">± mean|mean_error_{unit}")];
    Table::new(columns.into_iter().chain(median).chain(mean), rows.map(of_way)).keyed(2)
}

/// Frequent numbers with their shares; in CSV two lists, with blanks between.
fn numbers(unit: &str, frequent: &[Frequent]) -> Cell {
    let text = |of: &Frequent| format!("{} ({})", number_text(unit, of.number), output::percent(of.share));
    let list = |of: fn(&Frequent) -> f64| {
        frequent.iter().map(|frequent| of(frequent).to_string()).collect::<Vec<_>>().join(" ")
    };
    Cell {
        text: frequent.iter().map(text).collect::<Vec<_>>().join(", "),
        values: vec![list(|of| of.number).into(), list(|of| of.share).into()],
    }
}

/// A number of this unit.
pub fn number_text(unit: &str, number: f64) -> String {
    match ValueUnit::ALL.into_iter().find(|known| known.name() == unit) {
        Some(ValueUnit::Ns) => time(number.round() as u64),
        Some(ValueUnit::Share) => output::percent(number),
        _ if number.fract() == 0.0 => output::grouped(number as u64),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Style;

    fn text(values: &[Value]) -> String {
        Values { values: values.to_vec() }.tables().to_text(Style::Plain)
    }

    #[test]
    fn errors_are_told_as_they_are() {
        assert_eq!(off_text("ns", 0.0, 1.0), None);
        assert_eq!(off_text("ns", 65_536.0, 1.0).unwrap(), "off by 65.5 µs at most");
        assert_eq!(off_text("ns", 0.0, 1.0631).unwrap(), "off by a factor of 1.063 at most");
        assert_eq!(off_text("packets", 4.0, 1.25).unwrap(), "off by 4 or a factor of 1.250 at most");
    }

    /// A table that has the largest number says that it stands for larger ones as well.
    #[test]
    fn the_last_code_is_told() {
        let value = |number: f64| {
            let name = FlowName::default();
            let told = ValueHop { samples: 9, max: Some(number), ..ValueHop::default() };
            let flow = ValueFlow { name, sink: "a".into(), checksum: None, path: Vec::new(), told: vec![told] };
            let largest = Some(7.0);
            Value { unit: "port".into(), error_factor: 1.0, largest, told: vec![flow], ..Value::default() }
        };
        assert!(text(&[value(7.0)]).contains("; 7 means that or more\n"));
        assert!(!text(&[value(6.0)]).contains("or more"));
    }

    /// A table has its query in its title where nothing else tells it from another one.
    #[test]
    fn titles_tell_tables_apart() {
        let value = |query: &str, window_ns| {
            let [value, aggregation] = ["queue", "max"].map(Into::into);
            Value { query: query.into(), value, aggregation, window_ns, error_factor: 1.0, ..Value::default() }
        };
        let titles = |values: &[Value]| {
            let tables = text(values);
            tables.split("\n\n").map(|table| table.lines().next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (short, window) = ("queue, max of each packet's way", Some(1_000_000_000));
        assert_eq!(titles(&[value("a", None)]), [short]);
        let expected = [format!("{short} (a)"), format!("{short}, over the last 1.00 s"), format!("{short} (c)")];
        assert_eq!(titles(&[value("a", None), value("b", window), value("c", None)]), expected);
    }

    #[test]
    fn intervals_have_a_unit_once() {
        let of = |unit, ends| output::between(ends, |end| number_text(unit, end));
        assert_eq!(of("ns", [Some(1200.0), Some(3500.0)]), "1.20 to 3.50 µs");
        assert_eq!(of("ns", [Some(256.0), Some(3500.0)]), "256 ns to 3.50 µs");
        assert_eq!(of("ns", [Some(256.0), Some(256.0)]), "256 ns");
        assert_eq!(of("share", [Some(0.25), Some(0.5)]), "25.00 to 50.00 %");
        assert_eq!(of("packets", [Some(1.0), Some(12.0)]), "1 to 12");
        assert_eq!(of("packets", [Some(1.0), None]), "1 to ?");
        assert_eq!((of("ns", [None, Some(256.0)]), of("ns", [None, None])), ("? to 256 ns".into(), "?".into()));
    }

    #[test]
    fn numbers_have_their_unit() {
        let text = [("ns", 1234.4), ("share", 0.125), ("packets", 12.0), ("packets", 1.5), ("port", 3.0)];
        assert_eq!(text.map(|(unit, number)| number_text(unit, number)), ["1.23 µs", "12.50 %", "12", "1.50", "3"]);
    }
}
