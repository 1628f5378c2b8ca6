//! Places of lost packets, asked of programs that do not find them themselves.

use std::sync::Arc;

use super::{KeptPaths, answered};
use crate::answers::{
    Answers, Certainty, FlowCount, FlowName, FlowPath, FlowSizes, FoundFlows, Loss, Losses, LossesFound, PathAnswers,
    ProgramAnswer, Query, Queryable, Sizes, Task,
};
use crate::api::{Answering, HeavyQuery};
use crate::history::{Entry, Epochs, History, Kept, Reasons, Room};
use crate::wire::Flow;

/// A program that knows what flows lost and sent.
struct KeptLosses(LossesFound, FoundFlows);

impl Kept for KeptLosses {
    fn bytes(&self) -> usize {
        0
    }
}

impl Answers for KeptLosses {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        match query.task {
            Task::Losses => Some(Losses::over(epochs, query, |entry| (Some(&entry.showed.0), Reasons::default()))),
            Task::Flows => {
                let found = epochs.newest().map(|entry| entry.showed.1.clone()).unwrap_or_default();
                Some(FlowSizes::told(Sizes { found, ..Sizes::default() }, query))
            }
            _ => None,
        }
    }
}

/// Two programs: one knows losses, the other the paths, of the epoch after as well, or of an earlier one.
pub(in crate::api) struct Network {
    pub(in crate::api) has_paths: bool,
}

fn flow(port: u16) -> Flow {
    Flow::from_port(port)
}

impl Answering for Network {
    fn is_live(&self) -> bool {
        false
    }

    fn history(&self, task: Task, _: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        let room = Room { epochs: 9, bytes: usize::MAX };
        match task {
            Task::Losses | Task::Flows => {
                // Every fourth flow crosses b, of which every fourth lost 2 of 10 packets, or all.
                let victims = (0..1000).filter(|port| port % 16 == 0);
                let lost = |port: u16| if port.is_multiple_of(32) { 10 } else { 2 };
                let loss = |port| Loss { flow: FlowName::Flow(flow(port)), lost: lost(port), gained: 0, exact: true };
                let flows: Vec<_> = victims.map(loss).collect();
                let lost_packets = flows.iter().map(|loss| loss.lost).sum();
                let losses = LossesFound { flows, lost_packets, gained_packets: 0 };
                let count = |port| FlowCount { flow: FlowName::Flow(flow(port)), count: 10u64.into() };
                let sizes = FoundFlows { flows: (0..1000).map(count).collect(), ..FoundFlows::default() };
                let history = History::new(room);
                history.push(Entry::new(5, KeptLosses(losses, sizes)));
                Ok(Arc::new(history))
            }
            Task::Paths if self.has_paths => {
                let path = |port: u16| FlowPath {
                    switches: ["a", if port.is_multiple_of(4) { "b" } else { "c" }, "d"]
                        .map(|name| Some(name.into()))
                        .into(),
                    certainty: Certainty::Sure,
                    ..FlowPath::of(FlowName::Flow(flow(port)))
                };
                let history = History::new(room);
                let paths = |flows: Vec<_>| KeptPaths(PathAnswers { flows, ..PathAnswers::default() });
                // Flows that lose all packets have their path from the epoch before.
                history.push(Entry::new(4, paths((0..1000).map(path).collect())));
                history.push(Entry::new(5, paths((0..1000).filter(|port| port % 32 != 0).map(path).collect())));
                Ok(Arc::new(history))
            }
            _ => Err("no program answers this".into()),
        }
    }
}

/// Where no program finds places they are inferred, if paths are known. The alarm rate is a parameter.
#[test]
fn places_are_inferred_where_no_program_counts_them() {
    let network = |has_paths| Arc::new(Network { has_paths });
    let document = answered(network(true), "places?seconds=0");
    let places = document["places"].as_array().unwrap_or_else(|| panic!("{document}"));
    let [place] = &places[..] else { panic!("{document}") };
    assert_eq!(
        (&place["evidence"], &place["failed"], &place["kind"]),
        (&"inferred".into(), &true.into(), &"group".into())
    );
    let members: Vec<_> = place["members"].as_array().unwrap().iter().map(|of| of["switch"].as_str()).collect();
    assert!(members.contains(&Some("b")) && members.len() == 3, "{document}");
    assert!(document["unplaced_packets"].as_u64().unwrap() <= 3, "{document}");
    assert!(document["incomplete"].as_array().unwrap().contains(&"inferred".into()), "{document}");
    // Nothing has failed that loses no more than it may.
    let lenient = answered(network(true), "places?seconds=0&alarm_rate=0.5");
    assert!(lenient["places"].as_array().unwrap().iter().all(|place| place["failed"] == false), "{lenient}");
    let wrong = answered(network(true), "places?alarm_rate=0");
    assert!(wrong["error"].as_str().unwrap().contains("alarm_rate = 0: a share between"), "{wrong}");
    let none = answered(network(false), "places?seconds=0");
    assert_eq!(none["error"], "no program answers this", "{none}");
}
