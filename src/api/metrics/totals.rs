//! Totals of what a program measured: the epochs whose answers are final, each counted once.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::answers::{
    Follower, Latency, Links, LossPlace, Losses, Passed, PlaceName, Places, Query, Queryable, Surroundings, Task,
};
use crate::history::{Adaptation, Entry, Gap, Window};
use crate::program::ProgramConfig;

/// Most series of one metric of a program, where labels name switches or links.
pub const SERIES: usize = 16_384;

/// Bounds of a histogram's buckets: powers of two, from 256 ns to about a second.
pub const BOUNDS: usize = 23;

/// The bound of this bucket, in nanoseconds.
pub fn bound_ns(bucket: usize) -> u64 {
    256 << bucket
}

/// A number for each value of labels, for a bounded number of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Series<K, V>(pub BTreeMap<K, V>);

impl<K, V> Default for Series<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V: Default> Series<K, V> {
    /// The place of these labels; without room for them it is that of nothing, and counted.
    pub fn update(&mut self, labels: K, unlisted: &mut u64, update: impl FnOnce(&mut V)) {
        if self.0.len() < SERIES || self.0.contains_key(&labels) {
            update(self.0.entry(labels).or_default());
        } else {
            *unlisted += 1;
        }
    }
}

/// Times in buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// By bucket, the last one without a bound. Each time is in one.
    pub buckets: [u64; BOUNDS + 1],
    pub sum_ns: u128,
}

impl Histogram {
    pub fn add(&mut self, ns: u64, samples: u64) {
        let bucket = (0..BOUNDS).find(|bucket| ns <= bound_ns(*bucket)).unwrap_or(BOUNDS);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(samples);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(ns) * u128::from(samples));
    }

    pub fn samples(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, samples| sum.saturating_add(*samples))
    }
}

/// Totals of a program that answers about losses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossTotals {
    pub lost_packets: u64,
    pub gained_packets: u64,
    /// Packets among the lost that left later than the horizon.
    pub late_packets: u64,
    /// Epochs whose losses are not known.
    pub unknown_epochs: u64,
    /// Packets by switch that left too late to be counted.
    pub strays: Series<Arc<str>, u64>,
}

/// Totals of a link or switch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaceTotal {
    /// Packets that were dropped for a reason that a switch knows, and the others.
    pub known_packets: u64,
    pub unexplained_packets: u64,
    /// Epochs in which it was not compared.
    pub unknown_epochs: u64,
}

impl PlaceTotal {
    fn add(&mut self, place: &LossPlace) {
        let known = place.lost_packets.saturating_sub(place.unexplained_packets);
        self.known_packets = self.known_packets.saturating_add(known);
        self.unexplained_packets = self.unexplained_packets.saturating_add(place.unexplained_packets);
    }
}

/// Totals of a program that compares the counters of links and switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlaceTotals {
    /// By both ends.
    pub links: Series<[String; 2], PlaceTotal>,
    pub switches: Series<String, PlaceTotal>,
    /// Packets lost at or between switches of which one did not report.
    pub group_packets: u64,
}

/// Numbers that a program says of the last epoch that was counted, by their names, which have units: parameters that
/// it was measured with, what was found, and facts about single switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub of_network: BTreeMap<String, f64>,
    /// By switch and name.
    pub of_switches: BTreeMap<[String; 2], f64>,
}

impl Facts {
    fn new(adaptation: &Adaptation, unlisted: &mut u64) -> Self {
        let numbers = |facts: &Map<String, Value>| {
            facts.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect::<Vec<_>>()
        };
        let of_network = [&adaptation.measured.parameters, &adaptation.facts].into_iter().flat_map(numbers).collect();
        let switches = adaptation.facts.get("switches").and_then(Value::as_object);
        let of_switch = |(switch, facts): (&String, &Value)| {
            let facts = facts.as_object().map(numbers).unwrap_or_default();
            facts.into_iter().map(|(name, number)| ([switch.clone(), name], number)).collect::<Vec<_>>()
        };
        let mut of_switches: BTreeMap<_, _> = switches.into_iter().flatten().flat_map(of_switch).collect();
        *unlisted += of_switches.len().saturating_sub(SERIES) as u64;
        while of_switches.len() > SERIES {
            of_switches.pop_last();
        }
        Self { of_network, of_switches }
    }
}

/// Totals of a program since it was first followed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub final_epochs: u64,
    /// Epochs that were not analysed, or were forgotten before they were counted.
    pub missing_epochs: u64,
    /// Final epochs of which something is missing.
    pub incomplete_epochs: u64,
    /// By switch and kind.
    pub gaps: Series<(Arc<str>, &'static str), u64>,
    /// `None` of a program that does not answer the task, and likewise below.
    pub losses: Option<LossTotals>,
    pub places: Option<PlaceTotals>,
    /// By switch; the empty name is that of hops whose switch was not decided.
    pub latencies: Option<Series<Arc<str>, Histogram>>,
    pub facts: Facts,
    /// Numbers that found no room for another label.
    pub unlisted: u64,
}

/// A history that is followed.
#[derive(Default)]
pub struct Followed {
    epochs: Follower,
    late: u64,
    pub totals: Totals,
}

impl Followed {
    /// Counts the epochs that have become final since the last call, up to the first that has not. Answers
    /// of later amendments are not counted again.
    pub fn follow(&mut self, program: &ProgramConfig, history: &Arc<dyn Queryable>, links: &Links) {
        if self.epochs.turn_to(history) {
            self.late = 0;
        }
        self.prepare(program);
        self.count_late(&**history);
        let from = self.epochs.next().unwrap_or_default();
        let entries = self.epochs.fresh();
        let Some(until) = entries.last().map(|entry| entry.epoch) else { return };
        entries.chunk_by(|one, other| one.epoch == other.epoch).for_each(|of_epoch| self.count_epoch(of_epoch));
        // An epoch that becomes final during this call is counted by the next one.
        let window = Window::Between { from, until };
        self.count_losses(&**history, window, &entries);
        self.count_places(&**history, window, links);
        self.count_latencies(&**history, window);
    }

    /// The last epoch that was counted.
    pub fn last(&self) -> Option<u64> {
        self.epochs.next()?.checked_sub(1)
    }

    /// The end of the last epoch that was counted, in nanoseconds since 1970.
    pub fn end_ns(&self) -> Option<u64> {
        Some(self.epochs.next()?.saturating_mul(self.epochs.length()))
    }

    /// A total of what a program answers is there from the beginning.
    fn prepare(&mut self, program: &ProgramConfig) {
        let answers = |task| program.rank(task).is_some();
        let Totals { losses, places, latencies, .. } = &mut self.totals;
        if answers(Task::Losses) {
            losses.get_or_insert_default();
        }
        if answers(Task::Places) {
            places.get_or_insert_default();
        }
        if answers(Task::Latency) {
            latencies.get_or_insert_default();
        }
    }

    /// Packets of any epoch that left later than the horizon, by now.
    fn count_late(&mut self, history: &dyn Queryable) {
        let late = history.late_packets();
        if let Some(losses) = &mut self.totals.losses {
            losses.late_packets = losses.late_packets.saturating_add(late.saturating_sub(self.late));
        }
        self.late = late;
    }

    /// Counts one epoch. It has several entries when its record came in parts.
    fn count_epoch(&mut self, entries: &[Entry<()>]) {
        let Some(Passed { missing, covered, .. }) = self.epochs.pass(entries) else { return };
        let totals = &mut self.totals;
        totals.missing_epochs += missing;
        totals.final_epochs += covered;
        if entries.iter().any(|entry| !entry.gaps.is_empty() || entry.switches.is_empty()) {
            totals.incomplete_epochs += covered;
        }
        for gap in entries.iter().flat_map(|entry| &entry.gaps) {
            let labels = (gap.switch.clone(), gap.gap.name());
            totals.gaps.update(labels, &mut totals.unlisted, |gaps| *gaps += 1);
        }
        if let Some(adaptation) = entries.iter().rev().find_map(|entry| entry.adaptation.as_ref()) {
            totals.facts = Facts::new(adaptation, &mut totals.unlisted);
        }
    }

    fn count_losses(&mut self, history: &dyn Queryable, window: Window, entries: &[Entry<()>]) {
        let Totals { losses: Some(totals), unlisted, .. } = &mut self.totals else { return };
        for entry in entries {
            // Of a switch that reports 0 is known.
            entry.switches.iter().for_each(|switch| totals.strays.update(switch.clone(), unlisted, |_| ()));
            for gap in &entry.gaps {
                if let Gap::Strays { packets } = gap.gap {
                    let add = |strays: &mut u64| *strays = strays.saturating_add(packets);
                    totals.strays.update(gap.switch.clone(), unlisted, add);
                }
            }
        }
        let Ok(answer) = history.answer::<Losses>(&about(Task::Losses, window).limited(0, u64::MAX)) else { return };
        totals.lost_packets = totals.lost_packets.saturating_add(answer.lost_packets);
        totals.gained_packets = totals.gained_packets.saturating_add(answer.gained_packets);
        totals.unknown_epochs += answer.unknown_epochs;
    }

    /// Places as counters say them: what is inferred of a few epochs is little.
    fn count_places(&mut self, history: &dyn Queryable, window: Window, links: &Links) {
        let Totals { places: Some(totals), unlisted, .. } = &mut self.totals else { return };
        let surroundings = Surroundings { links: links.clone(), ..Surroundings::default() };
        let query = Query { surroundings: Some(Arc::new(surroundings)), ..about(Task::Places, window) };
        let Ok(answer) = history.answer::<Places>(&query) else { return };
        // Of a link that was compared 0 is known.
        answer.compared.iter().for_each(|place| totals.update(place, unlisted, |_| ()));
        for place in &answer.places {
            match &place.kind[..] {
                "group" => totals.group_packets = totals.group_packets.saturating_add(place.lost_packets),
                _ => totals.update(&named(place), unlisted, |total| total.add(place)),
            }
        }
        for unknown in &answer.unknown {
            totals.update(&unknown.clone().place(), unlisted, |total| total.unknown_epochs += unknown.epochs);
        }
    }

    fn count_latencies(&mut self, history: &dyn Queryable, window: Window) {
        let Totals { latencies: Some(totals), unlisted, .. } = &mut self.totals else { return };
        let Ok(answer) = history.answer::<Latency>(&about(Task::Latency, window).limited(0, u64::MAX)) else { return };
        for of in &answer.switch_latencies {
            let add = |histogram: &mut Histogram| {
                of.counts.iter().for_each(|time| histogram.add(time.latency_ns, time.samples))
            };
            totals.update(of.switch.clone().unwrap_or_default(), unlisted, add);
        }
    }
}

impl PlaceTotals {
    fn update(&mut self, place: &PlaceName, unlisted: &mut u64, update: impl FnOnce(&mut PlaceTotal)) {
        let end = |switch: &str, port: &Option<String>| match port {
            Some(port) => format!("{switch}:{port}"),
            None => switch.to_owned(),
        };
        match &place.to_switch {
            Some(to) => {
                let ends = [end(&place.switch, &place.port), end(to, &place.to_port)];
                self.links.update(ends, unlisted, update);
            }
            None => self.switches.update(place.switch.clone(), unlisted, update),
        }
    }
}

fn named(place: &LossPlace) -> PlaceName {
    let LossPlace { switch, port, to_switch, to_port, .. } = place.clone();
    PlaceName { switch, port, to_switch, to_port }
}

/// A question about final epochs.
pub fn about(task: Task, window: Window) -> Query {
    Query { provisional: false, ..Query::new(task, window) }
}
