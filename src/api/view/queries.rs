//! Answers to queries: of several epochs those of one query, wherever each epoch has it.

use super::newest::{Bounds, Newest, OfEpoch};
use crate::program::answers::{EpochAnswers, FlowValues, Task, ValueAnswers};
use crate::telemetry::Selected;

/// The newest answers to each query that some of these epochs have answers to: those of the newest
/// epoch in its order, then those of earlier ones.
fn all(selected: &Selected) -> Vec<&ValueAnswers> {
    let mut newest = Vec::<&ValueAnswers>::new();
    for answers in selected.epochs.iter().rev().flat_map(|epoch| &epoch.values) {
        if newest.iter().all(|known| !known.is_of_same_query(answers)) {
            newest.push(answers);
        }
    }
    newest
}

/// The newest answers to the query of this task, latency or utilisation, in the newest epoch that has
/// one.
pub fn of_task(selected: &Selected, task: Task) -> Option<&ValueAnswers> {
    all(selected).into_iter().find(|answers| answers.task == task)
}

/// The newest answers to each other query.
pub fn others(selected: &Selected) -> Vec<&ValueAnswers> {
    let shown = [Task::Latency, Task::Utilisation].map(|task| of_task(selected, task));
    let is_other = |answers: &&ValueAnswers| !shown.iter().flatten().any(|shown| shown.is_of_same_query(answers));
    all(selected).into_iter().filter(is_other).collect()
}

/// What the epochs say of the query of these answers. Names at most `top` flows, of at least
/// `threshold` samples.
pub fn newest<'a>(
    selected: &'a Selected,
    of: Option<&ValueAnswers>,
    (top, threshold): (usize, u64),
) -> Newest<'a, FlowValues> {
    Newest::new(selected, |epoch| of_epoch(epoch, of?), FlowValues::key, FlowValues::samples, (top, threshold))
}

fn of_epoch<'e>(epoch: &'e EpochAnswers, of: &ValueAnswers) -> Option<OfEpoch<'e, FlowValues>> {
    let answers = epoch.values.iter().find(|answers| answers.is_of_same_query(of))?;
    let ValueAnswers { flows, found, evicted, lack, .. } = answers;
    Some(OfEpoch { flows, found: *found, evicted: *evicted, lack, bounds: bounds(answers) })
}

/// What holds of all numbers of these answers.
pub fn bounds(answers: &ValueAnswers) -> Bounds {
    let ValueAnswers { error, error_factor, largest, window_ns, .. } = *answers;
    Bounds { error, error_factor, largest, window_ns }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::view::{Latency, Utilisation, Values};
    use crate::program::answers::{FlowName, Mean, Quantiles, Reason, Reasons, Told, ValueUnit};
    use crate::wire::Flow;

    /// Answers to a query that found one flow more than these: a number that names the flow, its
    /// samples, and what these are.
    pub fn answers(task: Task, query: &'static str, flows: &[(u16, u64, f64)]) -> ValueAnswers {
        let flow = |&(sport, samples, number): &(u16, u64, f64)| {
            let quantiles = Some(Quantiles { p50: number, p99: number, max: number, ..Quantiles::default() });
            let mean = Some(Mean { mean: number, error: 0.5 });
            let told = vec![Told { switch: Some("a".into()), samples, quantiles, mean, ..Told::default() }];
            let flow = FlowName::Flow(Flow { sport: Some(sport), ..Flow::default() });
            FlowValues { flow, sink: "a".into(), checksum: None, path: Vec::new(), told }
        };
        ValueAnswers {
            task,
            value: query,
            aggregation: "quantiles",
            flow_definition: None,
            query: query.into(),
            unit: ValueUnit::Packets,
            of_hops: true,
            flows: flows.iter().map(flow).collect(),
            found: flows.len() + 1,
            evicted: 4,
            error: 0.0,
            error_factor: 1.5,
            largest: Some(9.0),
            window_ns: None,
            lack: Reasons::default(),
        }
    }

    /// Queries change places, and one goes away: the table of a task has the answers to one of them,
    /// that of the newest epoch, also where it was not the first before. It says which, and that
    /// epochs without it are missing. The others have tables of values.
    #[test]
    fn a_table_is_of_one_query() {
        for task in [Task::Latency, Task::Utilisation] {
            let epoch = |(number, queries): (u64, &[(&'static str, u16)])| {
                let of = |(place, &(query, flow)): (usize, &(&'static str, u16))| {
                    answers(if place == 0 { task } else { Task::Values }, query, &[(flow, 9, 1.0)])
                };
                let values = queries.iter().enumerate().map(of).collect();
                Arc::new(EpochAnswers { epoch: number, values, ..EpochAnswers::default() })
            };
            let epochs: [&[_]; 4] =
                [&[("a", 1), ("b", 2)], &[("b", 12), ("a", 11)], &[("a", 21), ("b", 22)], &[("c", 33)]];
            let epochs: Vec<_> = (1..).zip(epochs).map(epoch).collect();
            let tables = |epochs: &[Arc<EpochAnswers>]| {
                let selected = Selected { epochs: epochs.to_vec(), first: 1, ..Selected::default() };
                let (claim, query, flows) = match task {
                    Task::Latency => {
                        let of = Latency::new(&selected, 9, 0);
                        let flows: Vec<_> = of.latencies.iter().map(|flow| flow.name.clone()).collect();
                        (of.claim.clone(), of.query.clone(), flows)
                    }
                    _ => {
                        let of = Utilisation::new(&selected, 9, 0);
                        let flows = of.utilisations.iter().map(|flow| flow.name.clone()).collect();
                        (of.claim.clone(), of.query.clone(), flows)
                    }
                };
                let ports: Vec<_> = flows.iter().map(|name| name.flow.sport.unwrap()).collect();
                let values = Values::new(&selected, 9, 0);
                let others = values.values.iter().map(|of| {
                    let ports = of.told.iter().map(|flow| flow.name.flow.sport.unwrap());
                    (of.query.clone(), ports.collect::<Vec<_>>())
                });
                let others: Vec<_> = others.collect();
                (query.unwrap_or_default(), ports, claim.incomplete.contains(Reason::NotAsked), others)
            };
            let of = |query: &str, ports: &[u16]| (query.to_owned(), ports.to_vec());
            let expected = |(query, ports): (String, Vec<u16>), lacks, others: &[(String, Vec<u16>)]| {
                (query, ports, lacks, others.to_vec())
            };
            assert_eq!(tables(&epochs[..1]), expected(of("a", &[1]), false, &[of("b", &[2])]));
            assert_eq!(tables(&epochs[..2]), expected(of("b", &[2, 12]), false, &[of("a", &[1, 11])]));
            assert_eq!(tables(&epochs[..3]), expected(of("a", &[1, 11, 21]), false, &[of("b", &[2, 12, 22])]));
            let gone = [of("a", &[1, 11, 21]), of("b", &[2, 12, 22])];
            assert_eq!(tables(&epochs), expected(of("c", &[33]), true, &gone));
            assert_eq!(tables(&[Arc::default()]), expected(of("", &[]), true, &[]));
        }
    }
}
