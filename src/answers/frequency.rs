//! The task frequency: packets or bytes of one flow, or of all flows that a pattern matches, over any
//! number of epochs, with bounds.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Claimed, Exact, FoundFlows, ProgramAnswer, Query, Task, Unit};
use crate::history::Reasons;
use crate::output::{self, Cell, Page, Table, row};

/// Probability with which a count is not below its lower bound, where that is not certain.
pub const CONFIDENCE: f64 = 0.99;

/// `weir query frequency`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frequency {
    pub program: String,
    /// The pattern of the flows.
    pub flow: String,
    /// Of programs that count packets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub packets: Option<Bounded>,
    /// Of programs that count bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<Bounded>,
    /// Probability with which the count is not below the lower bound. The upper bound is certain.
    pub confidence: f64,
    /// Number of epochs in which a record of each switch was used, of programs that count a flow with
    /// the records of some switches alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rests_on: BTreeMap<String, u64>,
}

/// A count in a document, with its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounded {
    pub estimate: u64,
    pub lower_bound: u64,
    /// Null where no bound is known.
    pub upper_bound: Option<u64>,
    /// The exact count.
    #[serde(rename = "true", skip_serializing_if = "Option::is_none", default)]
    pub truth: Option<u64>,
}

/// A program's estimate of a count, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub number: u64,
    /// The count is never below this.
    pub least: u64,
    /// The count is never above this; `None` where no bound is known.
    pub most: Option<u64>,
    /// The number is larger than the count by at most this, with a probability of [`CONFIDENCE`];
    /// `None` where no bound is known.
    pub excess: Option<u64>,
}

impl Estimate {
    /// A count without error.
    pub fn exact(number: u64) -> Self {
        Self { number, least: number, most: Some(number), excess: Some(0) }
    }

    /// A number of which nothing else is known.
    pub fn unbounded(number: u64) -> Self {
        Self { number, least: 0, most: None, excess: None }
    }

    /// A number that the count is never below.
    pub fn at_least(number: u64) -> Self {
        Self { least: number, ..Self::unbounded(number) }
    }

    /// The count is not below this with a probability of [`CONFIDENCE`].
    pub fn lower_bound(&self) -> u64 {
        self.least.max(self.excess.map_or(0, |excess| self.number.saturating_sub(excess)))
    }
}

/// The estimate of a sum. Excesses add up where the parts are counted by the same hash functions, in
/// different epochs: see [`excess`].
impl AddAssign for Estimate {
    fn add_assign(&mut self, more: Self) {
        let sum = |one: Option<u64>, other: Option<u64>| one?.checked_add(other?);
        *self = Self {
            number: self.number.saturating_add(more.number),
            least: self.least.saturating_add(more.least),
            most: sum(self.most, more.most),
            excess: sum(self.excess, more.excess),
        };
    }
}

/// Bound of the excess of a count-min estimate, which is the smallest of several independent
/// counters: `total` is the sum of all counts of one array, `widths` are the counters of the arrays.
/// The excess is larger with a probability of at most `doubt`. `None` without arrays.
///
/// The mean excess of a counter is at most total / width, so by Markov's inequality that of d
/// independent counters is larger than t with a probability of at most total^d / (t^d · Π width)
/// (Cormode, Muthukrishnan: "An Improved Data Stream Summary: The Count-Min Sketch and its
/// Applications", 2005, Theorem 1, with another base than e). The bound is proportional to the
/// total. Therefore the bounds of several epochs add up to a bound for the sum of their estimates:
/// the counters of an array in all epochs stand for one.
pub fn excess(total: u64, widths: &[u64], doubt: f64) -> Option<u64> {
    if widths.is_empty() {
        return None;
    }
    let arrays = widths.len() as f64;
    let width = widths.iter().map(|&width| (width as f64).ln()).sum::<f64>() / arrays;
    Some((total as f64 / (doubt.ln() / arrays + width).exp()).ceil() as u64)
}

impl FoundFlows {
    /// The flows of a query together, as far as they were found.
    pub fn frequency(&self, query: &Query) -> Estimate {
        let meant = self.flows.iter().filter(|flow| query.is_meant(&flow.flow));
        let number = meant.map(|flow| flow.count.number).fold(0, u64::saturating_add);
        if self.are_lower_bounds { Estimate::at_least(number) } else { Estimate::unbounded(number) }
    }
}

impl Query {
    /// The exact count of its flows together.
    pub fn exact(&self, exact: &dyn Exact) -> u64 {
        let meant = exact.counts().iter().filter(|(flow, _)| self.flow.is_none_or(|pattern| pattern.matches(flow)));
        meant.map(|(_, count)| count).sum()
    }
}

impl Frequency {
    /// The answer of a program.
    pub fn told(program: &str, unit: Unit, query: &Query, estimate: Estimate, lack: Reasons) -> ProgramAnswer {
        ProgramAnswer::new(Self::new(program, unit, query, estimate), lack)
    }

    /// The document of a program's estimate.
    pub fn new(program: &str, unit: Unit, query: &Query, estimate: Estimate) -> Self {
        let lower_bound = estimate.lower_bound();
        let counted = Bounded {
            estimate: estimate.number.max(lower_bound).min(estimate.most.unwrap_or(u64::MAX)),
            lower_bound,
            upper_bound: estimate.most,
            truth: None,
        };
        let (packets, bytes) = match unit {
            Unit::Packets => (Some(counted), None),
            Unit::Bytes => (None, Some(counted)),
        };
        let flow = query.flow.as_ref().map(ToString::to_string).unwrap_or_default();
        let confidence = if lower_bound > estimate.least { CONFIDENCE } else { 1.0 };
        Self { program: program.into(), flow, packets, bytes, confidence, rests_on: BTreeMap::new() }
    }

    /// The count in the program's unit.
    pub fn count(&self) -> Bounded {
        self.packets.or(self.bytes).unwrap_or_default()
    }

    /// The same with the exact count of the query's flows beside it.
    #[must_use]
    pub fn scored(self, query: &Query, exact: &dyn Exact) -> Self {
        self.with_truth(Some(query.exact(exact)))
    }

    /// The same with this exact count beside it.
    #[must_use]
    pub fn with_truth(mut self, truth: Option<u64>) -> Self {
        self.packets.iter_mut().chain(&mut self.bytes).for_each(|count| count.truth = truth);
        self
    }

    /// What the answer claims, behind the name of whose it is, and how sure its lower bound is.
    pub fn claimed(frequency: &Claimed<Self>, whose: &str) -> String {
        let claimed = frequency.claim.text(Task::Frequency.all());
        output::lines([format!("{whose}, {claimed}"), frequency.confidence_text()])
    }

    pub fn page(frequency: &Claimed<Self>) -> Page {
        let table = frequency_table([&**frequency]).beside(&frequency.claim.columns());
        let page = Page::default().table("frequency", table);
        if frequency.claim.last_epoch.is_none() {
            return page.text(frequency.claim.text(Task::Frequency.all()));
        }
        page.text(output::lines([Self::claimed(frequency, &frequency.program), frequency.rests_on_text()]))
    }

    /// The line with the switches whose records were used, those of the most epochs first; empty where
    /// the program does not say.
    fn rests_on_text(&self) -> String {
        const SHOWN: usize = 8;
        let mut switches: Vec<_> = self.rests_on.iter().collect();
        switches.sort_by_key(|(_, epochs)| Reverse(**epochs));
        let of = |(switch, epochs): &(&String, &u64)| format!("{switch} in {}", output::count(**epochs, "epoch"));
        let shown = switches.iter().take(SHOWN).map(of).collect::<Vec<_>>().join(", ");
        match (&shown[..], switches.len().saturating_sub(SHOWN)) {
            ("", _) => String::new(),
            (_, 0) => format!("records used: {shown}"),
            (_, more) => format!("records used: {shown} and {more} more"),
        }
    }

    /// The line that says how sure the lower bound is; empty where it is certain.
    pub fn confidence_text(&self) -> String {
        if self.confidence >= 1.0 {
            return String::new();
        }
        format!("the count is not below \"at least\" with a probability of {} %", self.confidence * 100.0)
    }
}

/// Counts with their bounds, and the exact counts beside them when they are known. All are in the
/// unit of the first.
pub fn frequency_table<'a>(frequencies: impl IntoIterator<Item = &'a Frequency>) -> Table {
    let frequencies: Vec<_> = frequencies.into_iter().collect();
    let rows = frequencies.iter().map(|frequency| frequency.row());
    Table::new(Frequency::columns(frequencies.first().copied()), rows).keyed(1)
}

impl Frequency {
    /// The columns of a table of counts; all are in the unit of this one.
    pub fn columns(first: Option<&Self>) -> [String; 6] {
        let unit = if first.is_some_and(|first| first.bytes.is_some()) { Unit::Bytes } else { Unit::Packets };
        let unit = unit.name();
        [
            "flow".into(),
            format!(">{unit}"),
            format!(">at least|lower_bound_{unit}"),
            format!(">at most|upper_bound_{unit}"),
            "|confidence".into(),
            format!(">true?|true_{unit}"),
        ]
    }

    /// A row of the table.
    pub fn row(&self) -> Vec<Cell> {
        let count = self.count();
        row![
            &*self.flow,
            count.estimate,
            count.lower_bound,
            Cell::or("not known", count.upper_bound),
            Cell::new("", self.confidence),
            Cell::or("-", count.truth),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::SplitMix64;

    /// Counters of several widths over some epochs, with hash functions that are the same in all of
    /// them: the bounds of the epochs, added up, are missed as seldom as they say. With ten flows of
    /// the same size they are missed nearly as often as that, whenever both counters have another flow.
    #[test]
    fn excesses_of_epochs_add_up() {
        const WIDTHS: [usize; 2] = [64, 40];
        const RUNS: usize = 4000;
        let (mut random, doubt) = (SplitMix64::new(7), 0.05);
        let mut share_missed = |flows: usize| {
            let mut missed = 0;
            for _ in 0..RUNS {
                let mut place = || WIDTHS.map(|width| random.below(width as u64) as usize);
                let (asked, others) = (place(), (0..flows).map(|_| place()).collect::<Vec<_>>());
                let (mut estimate, mut bound) = (0, 0);
                for packets in [100u64, 40, 7000, 1, 500] {
                    let mut counters = WIDTHS.map(|width| vec![0u64; width]);
                    for flow in &others {
                        counters.iter_mut().zip(flow).for_each(|(counters, &at)| counters[at] += packets);
                    }
                    let total = counters[0].iter().sum();
                    estimate += counters.iter().zip(asked).map(|(counters, at)| counters[at]).min().unwrap();
                    bound += excess(total, &WIDTHS.map(|width| width as u64), doubt).unwrap();
                }
                missed += usize::from(estimate > bound);
            }
            missed as f64 / RUNS as f64
        };
        let missed = [10, 40, 200].map(&mut share_missed);
        assert!(missed.iter().all(|missed| *missed < doubt) && missed[0] > doubt / 2.0, "{missed:?}");
    }

    proptest! {
        /// More arrays, wider arrays and less total make the bound smaller.
        #[test]
        fn excess_is_monotonous(total in 1..1u64 << 40, width in 200..1u64 << 20, arrays in 1..6usize) {
            let of = |total, width, arrays| excess(total, &vec![width; arrays], 0.01).unwrap();
            let bound = of(total, width, arrays);
            prop_assert!(of(total, width, arrays + 1) <= bound && of(total, 2 * width, arrays) <= bound);
            prop_assert!(of(total / 2, width, arrays) <= bound);
            prop_assert!((bound as f64 - total as f64 * 100f64.powf(1.0 / arrays as f64) / width as f64).abs() < 1.0 + bound as f64 * 1e-9);
        }
    }

    /// One line, whatever the number of switches; those that were used most stand first.
    #[test]
    fn records_are_told_in_a_line() {
        let text = |switches: &[(&str, u64)]| {
            let rests_on = switches.iter().map(|(switch, epochs)| ((*switch).to_owned(), *epochs)).collect();
            Frequency { rests_on, ..Frequency::default() }.rests_on_text()
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[("a", 1), ("b", 1200)]), "records used: b in 1200 epochs, a in 1 epoch");
        let many: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|switch| (switch, 2)).into();
        assert!(text(&many).ends_with("h in 2 epochs and 2 more"), "{}", text(&many));
    }

    #[test]
    fn sums_keep_what_all_parts_know() {
        let mut sum = Estimate::exact(0);
        sum += Estimate { number: 10, least: 2, most: Some(12), excess: Some(5) };
        sum += Estimate { number: 10, least: 3, most: Some(10), excess: Some(1) };
        assert_eq!(sum, Estimate { number: 20, least: 5, most: Some(22), excess: Some(6) });
        assert_eq!(sum.lower_bound(), 14);
        sum += Estimate::at_least(7);
        assert_eq!(sum, Estimate { number: 27, least: 12, most: None, excess: None });
        assert_eq!((sum.lower_bound(), excess(5, &[], 0.1)), (12, None));
        sum += Estimate::exact(u64::MAX);
        assert_eq!((sum.number, sum.least), (u64::MAX, u64::MAX));
    }
}
