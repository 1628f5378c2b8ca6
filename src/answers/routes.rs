//! Paths of flows as a source that an answer can ask: another program's answers, or routes that are
//! recomputed. Programs that count flows do not know the flows' paths themselves.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashMap;

use super::{Certainty, Claimed, FlowName, FlowPath, HeavyFlows, NoAnswer, Paths, Query, Queryable, Task};
use crate::history::Window;
use crate::wire::Flow;

/// A path of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// From the first to the last; `None` where it is not decided.
    pub switches: Vec<Option<Arc<str>>>,
    pub certainty: Certainty,
    /// Packets of the flow that took it, as far as the source counts them.
    pub packets: Option<u64>,
}

impl Route {
    /// Whether it crosses these switches in this order; `None` if that is not known.
    pub fn crosses(&self, wanted: &[String]) -> Option<bool> {
        let mut known = self.switches.iter().flatten();
        let all = wanted.iter().all(|wanted| known.any(|switch| **switch == **wanted));
        let is_whole = self.certainty >= Certainty::Decided && self.switches.iter().all(Option::is_some);
        (all || is_whole).then_some(all)
    }
}

/// A source of paths, for the epochs of a query.
pub trait Routes: fmt::Debug + Send + Sync {
    /// The paths that packets of the flow took: several after a change. Empty if they are not known.
    fn of(&self, flow: &Flow) -> Vec<Route>;

    /// The five-tuples whose paths it knows, where it can list them.
    fn flows(&self) -> Vec<Flow> {
        Vec::new()
    }
}

/// Paths as a program answered them.
#[derive(Debug, Default)]
pub struct AnsweredRoutes {
    /// The fields that flows of the answer have.
    fields: BTreeSet<[bool; 5]>,
    routes: FxHashMap<Flow, Vec<Route>>,
}

impl AnsweredRoutes {
    /// Asks a history for the paths of all flows in the window of `query`. Numbers of publications are
    /// those of one history, so a question about what was published since one takes the newest path of
    /// each flow.
    ///
    /// # Errors
    /// If its program does not answer paths.
    pub fn ask(history: &dyn Queryable, query: &Query) -> Result<Self, NoAnswer> {
        let Query { window, provisional, now, .. } = *query;
        let window = if let Window::Since { .. } = window { Window::All } else { window };
        let query = Query { provisional, now, ..Query::new(Task::Paths, window) };
        let answer: Claimed<Paths> = history.answer(&query)?;
        Ok(Self::new(&answer.paths))
    }

    pub fn new(paths: &[FlowPath]) -> Self {
        let mut answered = Self::default();
        for path in paths {
            let Some(flow) = path.flow.flow() else { continue };
            answered.fields.insert(flow.fields());
            let (switches, packets) = (path.switches.clone(), Some(path.packets));
            answered.routes.entry(flow).or_default().push(Route { switches, certainty: path.certainty, packets });
        }
        answered
    }
}

impl Routes for AnsweredRoutes {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        self.fields.iter().filter_map(|fields| self.routes.get(&flow.only(*fields))).flatten().cloned().collect()
    }

    fn flows(&self) -> Vec<Flow> {
        self.routes.keys().filter(|flow| flow.fields() == [true; 5]).copied().collect()
    }
}

/// Flows that are named by one source, and their paths by another.
#[derive(Debug, Default)]
pub struct NamedFlows {
    /// Five-tuples, beside those whose paths are known.
    pub flows: Vec<Flow>,
    pub routes: Option<Arc<dyn Routes>>,
}

impl NamedFlows {
    /// The flows and paths that these histories answer in the window of `query`: flows of the first that
    /// answers heavy flows, paths of the first that answers paths. A query about one whole flow needs no
    /// other flows. Numbers of publications are those of one history, so for a question about what was
    /// published since one all epochs are taken.
    pub fn among(histories: &[Arc<dyn Queryable>], query: &Query) -> Self {
        let Query { window, provisional, now, .. } = *query;
        let window = if let Window::Since { .. } = window { Window::All } else { window };
        let heavy = Query { provisional, now, ..Query::new(Task::Heavy, window) };
        let is_named = query.flow.as_ref().is_some_and(|pattern| pattern.flow().is_some());
        let others = || histories.iter().filter(|history| !history.needs_routes());
        let names = |history: &Arc<dyn Queryable>| history.answer::<HeavyFlows>(&heavy).ok();
        let named = if is_named { None } else { others().find_map(names) };
        let routes = others().find_map(|history| AnsweredRoutes::ask(&**history, query).ok());
        Self {
            flows: named.iter().flat_map(|named| named.counts().map(|heavy| heavy.flow)).collect(),
            routes: routes.map(|routes| Arc::new(routes) as Arc<dyn Routes>),
        }
    }
}

impl Routes for NamedFlows {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        self.routes.as_ref().map(|routes| routes.of(flow)).unwrap_or_default()
    }

    fn flows(&self) -> Vec<Flow> {
        let known = self.routes.as_ref().map(|routes| routes.flows()).unwrap_or_default();
        self.flows.iter().copied().chain(known).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Chooses flows by their paths, and remembers whether some path was not known. Its clones remember
/// together.
#[derive(Clone, Debug)]
pub struct ByRoute {
    routes: Arc<dyn Routes>,
    unknown: Arc<AtomicBool>,
}

impl ByRoute {
    pub fn new(routes: Arc<dyn Routes>) -> Self {
        Self { routes, unknown: Arc::default() }
    }

    /// The paths that packets of the flow took.
    pub fn of(&self, flow: &Flow) -> Vec<Route> {
        self.routes.of(flow)
    }

    /// The five-tuples whose paths are known, where they can be listed.
    pub fn flows(&self) -> Vec<Flow> {
        self.routes.flows()
    }

    /// Whether packets of the flow crossed these switches in this order, as far as it is known.
    pub fn crosses(&self, flow: &FlowName, wanted: &[String]) -> bool {
        let routes = flow.flow().map(|flow| self.routes.of(&flow)).unwrap_or_default();
        let mut crosses: Vec<_> = routes.iter().map(|route| route.crosses(wanted)).collect();
        crosses.sort_unstable();
        match crosses[..] {
            [.., Some(true)] => true,
            [Some(false), ..] => false,
            _ => {
                self.unknown.store(true, Relaxed);
                false
            }
        }
    }

    /// Whether the path of a flow was not known.
    pub fn lacks_routes(&self) -> bool {
        self.unknown.load(Relaxed)
    }
}

/// Two are equal that remember together.
impl PartialEq for ByRoute {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.unknown, &other.unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(flow: Flow, switches: &[&str], certainty: Certainty) -> FlowPath {
        let switch = |name: &&str| (*name != "?").then(|| Arc::from(*name));
        let switches = switches.iter().map(switch).collect();
        FlowPath { switches, certainty, packets: 9, ..FlowPath::of(FlowName::Flow(flow)) }
    }

    fn flow(last: u8) -> Flow {
        let host = |last: u8| Some([10, 0, 0, last].into());
        Flow { src: host(last), dst: host(99), sport: Some(1), dport: Some(2), proto: Some(17) }
    }

    /// Flows are found by the fields that paths are known by. A path that is not decided chooses a flow
    /// by the switches that are; otherwise the choice lacks something.
    #[test]
    fn flows_are_chosen_by_their_paths() {
        let hosts = [true, true, false, false, false];
        let paths = [
            path(flow(1).only(hosts), &["a", "b", "c"], Certainty::Sure),
            path(flow(2).only(hosts), &["a", "?", "c"], Certainty::Undecided),
            path(flow(3).only(hosts), &["a", "b", "c"], Certainty::Decided),
            path(flow(3).only(hosts), &["a", "d", "c"], Certainty::Decided),
        ];
        let routes: Arc<dyn Routes> = Arc::new(AnsweredRoutes::new(&paths));
        assert_eq!(routes.of(&flow(3)).len(), 2);
        let chosen = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            (1..=4)
                .map(|last| {
                    let by_route = ByRoute::new(routes.clone());
                    (by_route.crosses(&FlowName::Flow(flow(last)), &wanted), by_route.lacks_routes())
                })
                .collect::<Vec<_>>()
        };
        let (yes, no, unknown) = ((true, false), (false, false), (false, true));
        assert_eq!(chosen(&["a", "c"]), [yes, yes, yes, unknown]);
        assert_eq!(chosen(&["b"]), [yes, unknown, yes, unknown]);
        assert_eq!(chosen(&["c", "a"]), [no, unknown, no, unknown]);
        assert_eq!(chosen(&["d"]), [no, unknown, yes, unknown]);
    }
}
