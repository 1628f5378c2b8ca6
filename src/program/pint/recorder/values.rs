//! What packets told of a value, as answers, whether of one hop each or of their whole way.

use std::sync::Arc;

use super::Recorder;
use super::hops::HopRecorder;
use super::lack::Lack;
use super::packets::PacketRecorder;
use crate::answers::{Between, FlowValues, Frequent, HopNumbers, OfFlow, Quantiles, Task, ValueAnswers, ValueUnit};
use crate::history::Reasons;
use crate::program::pint::parameters::Coding;
use crate::program::pint::query::{FlowDefinition, Queries, Query, Value};
use crate::program::pint::record::Digests;
use crate::program::pint::samples::Samples;
use crate::program::pint::values::Aggregation;
use crate::program::pint::values::dataplane::Codes;

/// A query and the meaning of its codes.
pub struct Meaning {
    pub query: Query,
    pub codes: Codes,
    unit: ValueUnit,
    /// The query's [identity](Query::identity).
    text: Arc<str>,
}

impl Meaning {
    /// Of a query whose value has codes.
    pub fn new(query: Query) -> Option<Self> {
        let text = query.identity().to_string().into();
        Some(Self { query, codes: Codes::new(&query)?, unit: query.value.unit()?, text })
    }

    /// What samples tell.
    pub fn told(&self, switch: Option<Arc<str>>, samples: Option<&Samples>) -> HopNumbers {
        let is_frequent = self.query.aggregation == Aggregation::Frequent;
        let Some(samples) = samples else {
            return HopNumbers { switch, share_error: is_frequent.then_some(1.0), ..HopNumbers::default() };
        };
        let number = |code| self.codes.number(self.query.value, code);
        let at = |rank| samples.quantile(rank).map(number);
        let between = |rank| {
            let [low, high] = samples.between(rank).map(|code| code.map(number));
            Between { low, high }
        };
        let quantiles = || {
            let (p50, p99, max) = (at(0.5)?, at(0.99)?, at(1.0)?);
            Some(Quantiles { p50, p50_between: between(0.5), p99, p99_between: between(0.99), max })
        };
        // Codes in equal factors are right on average of their logarithms, and the shortest times end
        // at 0.
        let adds = matches!(self.codes, Codes::Numbers(_));
        let frequent = || samples.frequent().into_iter().map(|(code, share)| Frequent { number: number(code), share });
        HopNumbers {
            switch,
            samples: samples.number(),
            quantiles: if is_frequent { None } else { quantiles() },
            mean: if is_frequent || !adds { None } else { samples.mean(number) },
            frequent: if is_frequent { frequent().collect() } else { Vec::new() },
            share_error: is_frequent.then(|| samples.share_error()),
        }
    }

    /// Answers of the task values with these flows, the most samples first. The codes of packets were rounded as often
    /// as `roundings` says at most.
    pub fn answers(&self, mut flows: Vec<FlowValues>, evicted: u64, lack: Reasons, roundings: u8) -> ValueAnswers {
        flows.sort_unstable_by(|a, b| b.samples().cmp(&a.samples()).then_with(|| a.key().cmp(&b.key())));
        let Query { value, aggregation, flow, window_ns, .. } = self.query;
        let (error, error_factor) = self.codes.errors_of(value, roundings);
        ValueAnswers {
            task: Task::Values,
            value: value.name().into(),
            aggregation: aggregation.name().into(),
            flow_definition: (flow != FlowDefinition::default()).then(|| flow.name().into()),
            query: self.text.clone(),
            unit: self.unit,
            of_hops: aggregation.is_of_hops(),
            flows,
            switches: Vec::new(),
            evicted,
            error,
            error_factor,
            largest: self.codes.largest(value),
            window_ns,
            lack,
        }
    }
}

/// What is known of a value.
pub enum ValueRecorder {
    Hops(HopRecorder),
    Packets(PacketRecorder),
}

impl ValueRecorder {
    /// Of this query, with room for this number of flows; `None` where its value has no codes.
    pub fn new(query: Query, room: usize) -> Option<Self> {
        let meaning = Meaning::new(query)?;
        Some(match query.aggregation.is_of_hops() {
            true => Self::Hops(HopRecorder::new(meaning, room)),
            false => Self::Packets(PacketRecorder::new(meaning, room)),
        })
    }

    pub fn query(&self) -> &Query {
        match self {
            Self::Hops(hops) => hops.query(),
            Self::Packets(packets) => packets.query(),
        }
    }

    /// Goes on with another query for the same value.
    #[must_use]
    pub fn change(self, query: Query, room: usize) -> Option<Self> {
        let is_of_hops = query.aggregation.is_of_hops();
        let meaning = Meaning::new(query)?;
        Some(match self {
            Self::Hops(hops) if is_of_hops => Self::Hops(hops.change(meaning)),
            Self::Packets(packets) if !is_of_hops => Self::Packets(packets.change(meaning)),
            _ => return Self::new(query, room),
        })
    }

    /// What the records of an epoch tell, as an answer that lacks what they do. Without a coding
    /// there is no record.
    pub fn answers(
        &mut self,
        epoch: u64,
        coding: Option<&Coding>,
        records: &[(Arc<str>, &Digests)],
        paths: &Recorder,
        lack: &Lack,
    ) -> ValueAnswers {
        match self {
            Self::Hops(hops) => hops.answers(epoch, coding, records, paths, lack),
            Self::Packets(packets) => packets.answers(coding, records, paths, lack),
        }
    }
}

/// The recorders of these queries. Each goes on from that of the same query, or else from one for the
/// same value that no query goes on from.
pub fn change(before: Vec<ValueRecorder>, queries: &Queries, room: usize) -> Vec<ValueRecorder> {
    let mut before: Vec<_> = before.into_iter().map(Some).collect();
    let mut take = |is_like: &dyn Fn(&Query) -> bool| {
        before.iter_mut().find(|known| known.as_ref().is_some_and(|known| is_like(known.query())))?.take()
    };
    let same = |query: &Query| take(&|known| known.identity() == query.identity());
    let same: Vec<_> = queries.0.iter().map(same).collect();
    let recorder = |(query, same): (&Query, Option<ValueRecorder>)| match same
        .or_else(|| take(&|known| known.value == query.value))
    {
        Some(known) => known.change(*query, room),
        None => ValueRecorder::new(*query, room),
    };
    queries.0.iter().zip(same).filter_map(recorder).collect()
}

/// What the records of an epoch tell of each of these queries, in their order, as
/// [`ValueRecorder::answers`]. The first query for a task has its answers there.
pub fn answers(
    recorders: &mut [ValueRecorder],
    epoch: u64,
    coding: Option<&Coding>,
    records: &[(Arc<str>, &Digests)],
    paths: &Recorder,
    lack: &Lack,
) -> Vec<ValueAnswers> {
    let mut all = Vec::<ValueAnswers>::new();
    for recorder in recorders {
        let task = match (recorder.query().value, recorder.query().aggregation) {
            (Value::Latency, Aggregation::Quantiles) => Task::Latency,
            (Value::Utilisation, Aggregation::Max) => Task::Utilisation,
            _ => Task::Values,
        };
        let is_first = all.iter().all(|answers| answers.task != task);
        let answers = recorder.answers(epoch, coding, records, paths, lack);
        all.push(ValueAnswers { task: if is_first { task } else { Task::Values }, ..answers });
    }
    all
}
