//! The families of what programs measure. A number that is not known has no sample.

use std::fmt::Error;

use prometheus_client::encoding::NoLabelSet;
use prometheus_client::metrics::MetricType;

use super::Families;
use super::measured::ProgramMetrics;
use super::newest::{HeavyShown, Newest};
use super::placed::{PlaceLabels, Placed};
use super::totals::{BOUNDS, Histogram, LossTotals, PlaceTotal, Totals, bound_ns};
use crate::answers::Unit;

type ProgramCounter = (&'static str, &'static str, fn(&Totals) -> u64);

const PROGRAM_COUNTERS: [ProgramCounter; 4] = [
    ("final_epochs", "Epochs whose answers are final", |totals| totals.final_epochs),
    ("missing_epochs", "Epochs that were not analysed", |totals| totals.missing_epochs),
    ("incomplete_epochs", "Final epochs of which something is missing", |totals| totals.incomplete_epochs),
    ("unlisted_measurements", "Numbers that found no room for another label", |totals| totals.unlisted),
];

type LossCounter = (&'static str, &'static str, fn(&LossTotals) -> u64);

const LOSS_COUNTERS: [LossCounter; 4] = [
    ("lost_packets", "Packets that entered in final epochs and did not leave", |losses| losses.lost_packets),
    ("gained_packets", "Packets that left and did not enter", |losses| losses.gained_packets),
    ("late_packets", "Packets that were lost and left later than the horizon", |losses| losses.late_packets),
    ("unknown_loss_epochs", "Final epochs whose losses are not known", |losses| losses.unknown_epochs),
];

type PlacedCounter = (&'static str, &'static str, fn(&Placed) -> u64);

const PLACED_COUNTERS: [PlacedCounter; 3] = [
    ("unplaced_packets", "Packets that flows lost in no place that is known", |placed| placed.unplaced_packets),
    ("places_omitted", "Places of lost packets that answers had no room for", |placed| {
        placed.omitted.saturating_add(placed.unlisted)
    }),
    (
        "places_skipped_epochs",
        "Final epochs that no answer about places covers, because answers took too long",
        |placed| placed.skipped_epochs,
    ),
];

type NewestGauge = (&'static str, &'static str, fn(&Newest) -> Option<f64>);

const NEWEST_GAUGES: [NewestGauge; 4] = [
    ("victims", "Flows that lost packets in the last final epoch", |newest| newest.victims.map(|number| number as f64)),
    ("flows", "Number of flows in the last final epoch", |newest| newest.flows),
    ("flow_entropy_bits", "Entropy of the flow sizes of the last final epoch", |newest| newest.entropy_bits),
    ("heavy_flows_unnamed", "Heavy flows whose names found no room", |newest| {
        newest.heavy.as_ref().map(|heavy| heavy.unnamed as f64)
    }),
];

/// The names that stand for the causes of losses at a place.
type Cause = (&'static str, fn(&PlaceTotal) -> u64);

const CAUSES: [Cause; 2] =
    [("known", |total| total.known_packets), ("unknown", |total: &PlaceTotal| total.unexplained_packets)];

impl Families<'_> {
    pub(super) fn measured(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let program = |of: &ProgramMetrics| ("program", of.program.clone());
        for (name, help, read) in PROGRAM_COUNTERS {
            self.counters(name, help, programs.iter().map(|of| ([program(of)], read(&of.totals))))?;
        }
        let gaps = programs.iter().flat_map(|of| {
            let labels = move |switch: &str, gap: &str| [program(of), ("switch", switch.into()), ("gap", gap.into())];
            of.totals.gaps.0.iter().map(move |((switch, gap), number)| (labels(switch, gap), *number))
        });
        self.counters("gaps", "Gaps of final epochs", gaps)?;
        let lag = programs.iter().filter_map(|of| Some(([program(of)], of.lag_seconds?)));
        self.gauges("finality_lag_seconds", "Time since the last final epoch ended", lag)?;
        self.losses_of_flows(programs)?;
        self.places(programs)?;
        self.placed(programs)?;
        self.latencies(programs)?;
        self.facts(programs)?;
        self.newest(programs)
    }

    /// Facts of programs that are still there.
    fn facts(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let facts = || {
            let there = programs.iter().filter(|of| of.newest.is_some());
            there.map(|of| (("program", of.program.clone()), &of.totals.facts))
        };
        let of_network = facts().flat_map(|(program, facts)| {
            facts.of_network.iter().map(move |(fact, number)| ([program.clone(), ("fact", fact.clone())], *number))
        });
        self.gauges("measurement_fact", "What a program says of the last final epoch", of_network)?;
        let of_switches = facts().flat_map(|(program, facts)| {
            facts.of_switches.iter().map(move |([switch, fact], number)| {
                ([program.clone(), ("switch", switch.clone()), ("fact", fact.clone())], *number)
            })
        });
        self.gauges("switch_fact", "What a program says of a switch in the last final epoch", of_switches)
    }

    fn losses_of_flows(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let losses =
            || programs.iter().filter_map(|of| Some((("program", of.program.clone()), of.totals.losses.as_ref()?)));
        for (name, help, read) in LOSS_COUNTERS {
            self.counters(name, help, losses().map(|(program, losses)| ([program], read(losses))))?;
        }
        let strays = losses().flat_map(|(program, losses)| {
            let labels = move |switch: &str| [program.clone(), ("switch", switch.into())];
            losses.strays.0.iter().map(move |(switch, packets)| (labels(switch), *packets))
        });
        self.counters("stray_packets", "Packets that left a switch too late to be counted", strays)
    }

    fn places(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let places =
            || programs.iter().filter_map(|of| Some((("program", of.program.clone()), of.totals.places.as_ref()?)));
        let links = || {
            places().flat_map(|(program, places)| {
                let labels =
                    move |[from, to]: &[String; 2]| [program.clone(), ("from", from.clone()), ("to", to.clone())];
                places.links.0.iter().map(move |(ends, total)| (labels(ends), total))
            })
        };
        let switches = || {
            places().flat_map(|(program, places)| {
                let labels = move |switch: &String| [program.clone(), ("switch", switch.clone())];
                places.switches.0.iter().map(move |(switch, total)| (labels(switch), total))
            })
        };
        let lost = links().flat_map(|(labels, total)| {
            let [program, from, to] = labels;
            CAUSES.map(move |(cause, read)| {
                ([program.clone(), from.clone(), to.clone(), ("cause", cause.into())], read(total))
            })
        });
        self.counters("link_lost_packets", "Packets that a direction of a link lost", lost)?;
        let unknown = links().map(|(labels, total)| (labels, total.unknown_epochs));
        self.counters("link_unknown_epochs", "Epochs in which a direction of a link was not compared", unknown)?;
        let lost = switches().flat_map(|(labels, total)| {
            let [program, switch] = labels;
            CAUSES.map(move |(cause, read)| ([program.clone(), switch.clone(), ("cause", cause.into())], read(total)))
        });
        self.counters("switch_lost_packets", "Packets that a switch lost", lost)?;
        let unknown = switches().map(|(labels, total)| (labels, total.unknown_epochs));
        self.counters("switch_unknown_epochs", "Epochs in which a switch was not compared", unknown)?;
        let help = "Packets lost at or between switches of which one did not report";
        self.counters("group_lost_packets", help, places().map(|(program, places)| ([program], places.group_packets)))
    }

    /// The answers about places, inferred ones as well. Those that the newest answer does not name have no gauges.
    fn placed(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let placed = || programs.iter().filter_map(|of| Some((("program", of.program.clone()), of.placed.as_ref()?)));
        for (name, help, read) in PLACED_COUNTERS {
            self.counters(name, help, placed().map(|(program, placed)| ([program], read(placed))))?;
        }
        let lost = placed().flat_map(|(program, placed)| {
            placed.lost.0.iter().map(move |(place, packets)| (place_labels(&program, place.clone()), *packets))
        });
        self.counters("place_lost_packets", "Packets that a place lost, as is counted or inferred", lost)?;
        // Of programs that are still there.
        let answers = || {
            let there = programs.iter().filter(|of| of.newest.is_some());
            there.filter_map(|of| Some((("program", of.program.clone()), of.placed.as_ref()?.newest.as_deref()?)))
        };
        let newest = || {
            answers().flat_map(|(program, answer)| {
                let labels = move |place| place_labels(&program, PlaceLabels::new(place));
                answer.places.iter().map(move |place| (labels(place), place))
            })
        };
        let failed = newest().map(|(labels, place)| (labels, f64::from(u8::from(place.failed))));
        self.gauges("place_failed", "Whether a place has failed, as the newest answer says", failed)?;
        let confidence = newest().map(|(labels, place)| (labels, place.confidence));
        self.gauges("place_confidence", "The probability that a place loses more than the alarm rate", confidence)?;
        let age = programs.iter().filter_map(|of| Some(([("program", of.program.clone())], of.places_age_seconds?)));
        self.gauges("places_age_seconds", "Time since the last epoch of the newest answer about places ended", age)
    }

    fn latencies(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let latencies = programs.iter().flat_map(|of| {
            let all = of.totals.latencies.iter().flat_map(|latencies| &latencies.0);
            all.map(|(switch, times)| ([("program", of.program.clone()), ("switch", switch.to_string())], times))
        });
        let mut latencies = latencies.peekable();
        if latencies.peek().is_none() {
            return Ok(());
        }
        let help = "Time that packets took in a switch, of those that reported it";
        let mut metric = self.0.encode_descriptor("hop_latency_seconds", help, None, MetricType::Histogram)?;
        for (labels, times) in latencies {
            let seconds = times.sum_ns as f64 / 1e9;
            let samples = times.samples();
            let buckets = buckets(times);
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(seconds, samples, &buckets, None)?;
        }
        Ok(())
    }

    fn newest(&mut self, programs: &[ProgramMetrics]) -> Result<(), Error> {
        let newest = || programs.iter().filter_map(|of| Some((("program", of.program.clone()), of.newest.as_ref()?)));
        for (name, help, read) in NEWEST_GAUGES {
            self.gauges(name, help, newest().filter_map(|(program, newest)| Some(([program], read(newest)?))))?;
        }
        for unit in [Unit::Packets, Unit::Bytes] {
            let heavy = newest().filter_map(|(program, newest)| Some((program, newest.heavy.as_ref()?)));
            let samples =
                heavy.filter(|(_, heavy)| heavy.unit == unit).flat_map(|(program, HeavyShown { flows, .. })| {
                    let labels = move |flow: &String| [program.clone(), ("flow", flow.clone())];
                    flows.iter().map(move |(flow, count)| (labels(flow), *count as f64))
                });
            let name = format!("heavy_flow_{}", unit.name());
            self.gauges(&name, "Count of a heavy flow in the last final epoch", samples)?;
        }
        let tasks = || {
            newest().flat_map(|(program, newest)| {
                newest.lacks.iter().map(move |(task, lacks)| ([program.clone(), ("task", task.name().into())], lacks))
            })
        };
        let complete = tasks().map(|(labels, lacks)| (labels, f64::from(u8::from(lacks.is_empty()))));
        self.gauges("answer_complete", "Whether the answer about the last final epoch is complete", complete)?;
        let lacks = tasks().flat_map(|(labels, lacks)| {
            let [program, task] = labels;
            lacks.iter().map(move |reason| ([program.clone(), task.clone(), ("reason", reason.name().to_owned())], 1.0))
        });
        self.gauges("answer_lacks", "Why the answer about the last final epoch is not complete", lacks)
    }
}

fn place_labels(program: &(&'static str, String), place: PlaceLabels) -> [(&'static str, String); 4] {
    let PlaceLabels { kind, place, evidence } = place;
    [program.clone(), ("kind", kind), ("place", place), ("evidence", evidence.into())]
}

/// Buckets by their bounds in seconds.
fn buckets(times: &Histogram) -> [(f64, u64); BOUNDS + 1] {
    std::array::from_fn(|bucket| {
        let bound = if bucket < BOUNDS { bound_ns(bucket) as f64 / 1e9 } else { f64::INFINITY };
        (bound, times.buckets[bucket])
    })
}
