//! Log records of what final epochs showed: losses and their places, gaps, and epochs that were not analysed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};

use super::records::{LogQueue, attribute, record};
use crate::answers::{Follower, LossPlace, Losses, Query, Queryable, Task};
use crate::api::metrics::PlacesAnswer;
use crate::history::{Entry, Reason, SwitchGap, Window};
use crate::program::ProgramConfig;

/// The same gap of the same switch is reported again after this time at the earliest.
const AGAIN: Duration = Duration::from_secs(60);
/// Gaps that a log record names at most.
const GAPS: usize = 8;

/// Follows histories. What became final since the last look is one record of each kind and program, so that short
/// epochs are no more records than long ones.
#[derive(Default)]
pub struct EpochRecords {
    /// Flows of each look with a record of their own.
    flows: usize,
    /// By the names of the programs in results.
    followed: BTreeMap<String, Followed>,
    /// The newest answers about places that were reported, by the name of the program.
    places: BTreeMap<String, Arc<PlacesAnswer>>,
}

#[derive(Default)]
struct Followed {
    epochs: Follower,
    incomplete: Incomplete,
}

/// Incomplete epochs that were not reported yet, and what was.
#[derive(Default)]
struct Incomplete {
    epochs: u64,
    reported: BTreeSet<(Arc<str>, &'static str)>,
    since: Option<Instant>,
}

/// The epochs of a look.
#[derive(Clone, Copy)]
struct Span {
    first: u64,
    last: u64,
    /// The end of the last one, in nanoseconds since 1970.
    end: u64,
}

impl Span {
    fn text(self) -> String {
        match self {
            Self { first, last, .. } if first == last => format!("epoch {last}"),
            Self { first, last, .. } => format!("epochs {first} to {last}"),
        }
    }

    /// What all records of epochs say.
    fn attributes(self, event: &str, program: &str) -> Vec<KeyValue> {
        vec![
            attribute("event", event),
            attribute("program", program),
            attribute("first_epoch", self.first),
            attribute("epoch", self.last),
        ]
    }
}

impl EpochRecords {
    /// With at most this number of flows of each look.
    pub fn new(flows: u32) -> Self {
        Self { flows: flows as usize, ..Self::default() }
    }

    /// Adds the records of these answers about places, each answer once: of the places that lost most, as many as
    /// flows.
    pub fn places(&mut self, answers: Vec<(String, Arc<PlacesAnswer>)>, queue: &LogQueue) {
        for (program, answer) in answers {
            if self.places.get(&program).is_some_and(|reported| Arc::ptr_eq(reported, &answer)) {
                continue;
            }
            let PlacesAnswer { first_epoch, last_epoch, end_ns, ref places, .. } = *answer;
            let span = Span { first: first_epoch, last: last_epoch, end: end_ns };
            places.iter().take(self.flows).for_each(|place| queue.push(place_record(&program, span, place)));
            self.places.insert(program, answer);
        }
    }

    /// Adds the records of what has become final since the last look.
    pub fn look(&mut self, programs: &[(ProgramConfig, Arc<dyn Queryable>)], now: Instant, queue: &LogQueue) {
        // Of programs that count the same packets one reports their losses.
        let ranked = programs.iter().enumerate().filter_map(|(i, (program, _))| Some((program.rank(Task::Losses)?, i)));
        let of_losses = ranked.min().map(|(_, i)| i);
        let configs: Vec<_> = programs.iter().map(|(program, _)| program.clone()).collect();
        for (i, ((name, _), (_, history))) in ProgramConfig::named(&configs).zip(programs).enumerate() {
            let flows = (of_losses == Some(i)).then_some(self.flows);
            self.followed.entry(name.clone()).or_default().look(&name, history, flows, now, queue);
        }
    }
}

impl Followed {
    fn look(
        &mut self,
        program: &str,
        history: &Arc<dyn Queryable>,
        flows: Option<usize>,
        now: Instant,
        queue: &LogQueue,
    ) {
        self.epochs.turn_to(history);
        let entries = self.epochs.fresh();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        let (first, last) = (first.first_epoch.min(first.epoch), last.epoch);
        let end = last.saturating_add(1).saturating_mul(history.length());
        let span = Span { first, last, end };
        let mut missing = 0;
        for of_epoch in entries.chunk_by(|one, other| one.epoch == other.epoch) {
            let Some(passed) = self.epochs.pass(of_epoch) else { continue };
            missing += passed.missing;
            if of_epoch.iter().any(|entry| !entry.gaps.is_empty()) {
                self.incomplete.epochs += passed.covered;
            }
        }
        if missing > 0 {
            let mut attributes = span.attributes("epochs_missing", program);
            attributes.push(attribute("missing_epochs", missing));
            let missing = counted(missing, "epoch");
            let body =
                format!("{program}: {missing} up to epoch {last} not analysed, or forgotten before it was reported");
            queue.push(record("epochs_missing", SeverityNumber::Warn, Some(end), &body, attributes));
        }
        self.incomplete.look(program, span, &entries, now, queue);
        if let Some(flows) = flows {
            losses(program, &**history, span, flows, queue);
        }
    }
}

impl Incomplete {
    fn look(&mut self, program: &str, span: Span, entries: &[Entry<()>], now: Instant, queue: &LogQueue) {
        if self.since.is_some_and(|since| now.duration_since(since) >= AGAIN) {
            self.reported.clear();
        }
        let kind = |gap: &SwitchGap| (gap.switch.clone(), gap.gap.name());
        let gaps: BTreeMap<_, _> = entries.iter().flat_map(|entry| &entry.gaps).map(|gap| (kind(gap), gap)).collect();
        if gaps.keys().all(|kind| self.reported.contains(kind)) {
            return;
        }
        if self.reported.is_empty() {
            self.since = Some(now);
        }
        let epochs = std::mem::take(&mut self.epochs);
        let mut texts: Vec<_> = gaps.values().take(GAPS).map(ToString::to_string).collect();
        if gaps.len() > GAPS {
            texts.push(format!("and {} more", gaps.len() - GAPS));
        }
        let body = format!(
            "{program}: {} up to epoch {}: {}",
            counted(epochs, "incomplete epoch"),
            span.last,
            texts.join("; ")
        );
        let mut attributes = span.attributes("epochs_incomplete", program);
        attributes.push(attribute("incomplete_epochs", epochs));
        let names = gaps.keys().take(GAPS).map(|(switch, gap)| format!("{switch}: {gap}"));
        attributes.push(attribute("gaps", names.collect::<Vec<_>>()));
        queue.push(record("epochs_incomplete", SeverityNumber::Warn, Some(span.end), &body, attributes));
        self.reported.extend(gaps.into_keys());
    }
}

/// The number with its noun.
fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The record of a place that lost packets.
fn place_record(program: &str, span: Span, place: &LossPlace) -> LogRecord {
    let evidence = place.evidence.name();
    let name = place.short_name();
    let about = if place.exact { "" } else { "about " };
    let failed = if place.failed { ", failed" } else { "" };
    let lost = counted(place.lost_packets, "packet");
    let body = format!("{name}: {about}{lost} lost in {}, {evidence}{failed}", span.text());
    let mut attributes = span.attributes("place_losses", program);
    let ends = [
        ("switch", Some(&place.switch)),
        ("port", place.port.as_ref()),
        ("to_switch", place.to_switch.as_ref()),
        ("to_port", place.to_port.as_ref()),
    ];
    attributes.extend(ends.into_iter().filter_map(|(key, end)| Some(attribute(key, end?.as_str()))));
    attributes.extend([
        attribute("kind", place.kind.as_str()),
        attribute("place", name.as_str()),
        attribute("evidence", evidence),
        attribute("failed", place.failed),
        attribute("confidence", place.confidence),
        attribute("lost_packets", place.lost_packets),
        attribute("least_packets", place.least_packets),
    ]);
    attributes.extend(place.most_packets.map(|most| attribute("most_packets", most)));
    record("place_losses", SeverityNumber::Warn, Some(span.end), &body, attributes)
}

/// Adds the records of lost packets: of all together, and of the flows that lost most.
fn losses(program: &str, history: &dyn Queryable, span: Span, flows: usize, queue: &LogQueue) {
    let query = Query::new(Task::Losses, Window::Between { from: span.first, until: span.last });
    let query = Query { provisional: false, ..query.limited(flows, 1) };
    let Ok(answer) = history.answer::<Losses>(&query) else { return };
    if answer.lost_packets == 0 {
        return;
    }
    let packets = answer.lost_packets;
    let were = if packets == 1 { "was" } else { "were" };
    let [lost, flows_of] = [counted(packets, "packet"), counted(answer.victims, "flow")];
    let body = format!("{program}: {lost} of {flows_of} {were} lost in {}", span.text());
    let is_complete = answer.claim.incomplete.iter().all(Reason::is_standing);
    let mut attributes = span.attributes("losses", program);
    attributes.extend([
        attribute("lost_packets", packets),
        attribute("flows", answer.victims),
        attribute("unknown_epochs", answer.unknown_epochs),
        attribute("complete", is_complete && answer.claim.gaps.is_empty() && answer.unknown_epochs == 0),
    ]);
    queue.push(record("losses", SeverityNumber::Warn, Some(span.end), &body, attributes));
    for lost in &answer.losses {
        let body = format!("{} lost {} in {}", lost.name, counted(lost.packets, "packet"), span.text());
        let mut attributes = span.attributes("flow_losses", program);
        attributes.extend([
            attribute("flow", lost.name.to_string().as_str()),
            attribute("lost_packets", lost.packets),
            attribute("exact", lost.exact),
        ]);
        queue.push(record("flow_losses", SeverityNumber::Warn, Some(span.end), &body, attributes));
    }
}
