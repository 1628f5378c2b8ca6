//! Paths of flows as a source that an answer can ask: another program's answers, or routes that are
//! recomputed. Programs that count flows do not know the flows' paths themselves.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use super::{
    Certainty, Claimed, FlowName, FlowPath, HeavyFlows, LowerBounds, NoAnswer, Paths, Query, Queryable, Task, Unit,
};
use crate::history::Window;
use crate::wire::Flow;

/// A path of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// From the first to the last; `None` where it is not decided.
    pub switches: Arc<[Option<Arc<str>>]>,
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

    /// The paths that packets of the flow took in one epoch, where the source tells epochs apart.
    fn in_epoch(&self, flow: &Flow, _epoch: u64) -> Vec<Route> {
        self.of(flow)
    }

    /// The five-tuples whose paths it knows, where it can list them.
    fn flows(&self) -> Vec<Flow> {
        Vec::new()
    }

    /// What a five-tuple has at least in an epoch, as other programs are certain; 0 where none is.
    fn at_least(&self, _flow: &Flow, _epoch: u64, _unit: Unit) -> u64 {
        0
    }
}

/// Paths as a program answered them.
#[derive(Debug, Default)]
pub struct AnsweredRoutes {
    /// The fields that flows of the answer have.
    fields: BTreeSet<[bool; 5]>,
    routes: FxHashMap<Flow, Vec<Route>>,
    /// Paths that change in the window.
    changes: FxHashMap<Flow, RouteChanges>,
}

impl AnsweredRoutes {
    /// Asks a history for the paths of all flows in the window of `query`. Numbers of publications are
    /// those of one history, so a question about what was published since one takes the newest path of
    /// each flow.
    ///
    /// # Errors
    /// If its program does not answer paths.
    pub fn ask(history: &dyn Queryable, query: &Query) -> Result<Self, NoAnswer> {
        Ok(Self::new(&Self::paths(history, query)?.paths))
    }

    fn paths(history: &dyn Queryable, query: &Query) -> Result<Claimed<Paths>, NoAnswer> {
        let Query { window, provisional, now, .. } = *query;
        let window = if let Window::Since { .. } = window { Window::All } else { window };
        history.answer(&Query { provisional, now, ..Query::new(Task::Paths, window) })
    }

    /// The same, and the paths of each epoch of the window beside it: of the flows that the query means.
    ///
    /// # Errors
    /// If its program does not answer paths.
    pub fn by_epoch(history: &dyn Queryable, query: &Query) -> Result<Self, NoAnswer> {
        let newest = Self::paths(history, query)?;
        let window = newest.claim.first_epoch.zip(newest.claim.last_epoch);
        let is_meant = |flow: &Flow| {
            let only = query.flow.and_then(|pattern| pattern.flow());
            only.is_none_or(|wanted| wanted.only(flow.fields()) == *flow)
        };
        let mut epochs: Vec<u64> = history.outlines().iter().map(|entry| entry.epoch).collect();
        epochs.retain(|epoch| window.is_some_and(|(first, last)| (first..=last).contains(epoch)));
        epochs.dedup();
        let mut changes: FxHashMap<Flow, RouteChanges> = FxHashMap::default();
        for epoch in epochs {
            let query = Query { provisional: true, ..Query::new(Task::Paths, Window::Epoch(epoch)) };
            let answer: Claimed<Paths> = history.answer(&query)?;
            let mut of_epoch: FxHashMap<Flow, Vec<&FlowPath>> = FxHashMap::default();
            for path in &answer.paths {
                if let Some(flow) = path.flow.flow().filter(is_meant) {
                    of_epoch.entry(flow).or_default().push(path);
                }
            }
            for (flow, paths) in of_epoch {
                changes.entry(flow).or_default().add(epoch, &paths);
            }
        }
        changes.values_mut().for_each(RouteChanges::decide);
        changes.retain(|_, of_flow| of_flow.routes.len() > 1);
        Ok(Self { changes, ..Self::new(&newest.paths) })
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

/// The paths of a flow over some epochs.
#[derive(Debug, Default)]
struct RouteChanges {
    /// Each from this epoch on until the next one's.
    routes: Vec<(u64, Vec<Route>)>,
    /// The newest of each checksum.
    so_far: Vec<PathSoFar>,
}

/// The counts of a path up to an epoch.
#[derive(Debug)]
struct PathSoFar {
    checksum: Option<u16>,
    switches: Arc<[Option<Arc<str>>]>,
    packets: u64,
    contradictions: u64,
}

impl RouteChanges {
    /// Adds the paths of a later epoch, which count packets and contradictions of all epochs so far.
    fn add(&mut self, epoch: u64, paths: &[&FlowPath]) {
        let (mut routes, mut has_changed) = (Vec::new(), false);
        for path in paths {
            let FlowPath { checksum, switches, packets, contradictions, certainty, .. } = path;
            let before = self.so_far.iter_mut().find(|before| before.checksum == *checksum);
            let more = match &before {
                Some(before) if before.switches == *switches => packets.saturating_sub(before.packets),
                _ => *packets,
            };
            has_changed |= before.as_ref().is_some_and(|before| before.contradictions < *contradictions);
            let (checksum, switches) = (*checksum, switches.clone());
            let now =
                PathSoFar { checksum, switches: switches.clone(), packets: *packets, contradictions: *contradictions };
            match before {
                Some(before) => *before = now,
                None => self.so_far.push(now),
            }
            routes.push(Route { switches, certainty: *certainty, packets: Some(more) });
        }
        if has_changed && let Some((_, before)) = self.routes.last() {
            // Packets on the earlier path were not counted for it any more.
            routes.extend(before.clone());
            routes.iter_mut().for_each(|route| route.packets = None);
        }
        routes.dedup_by(|one, other| one.switches == other.switches);
        if let [route] = &mut routes[..] {
            route.packets = None;
        }
        if self.routes.last().is_none_or(|(_, before)| *before != routes) {
            self.routes.push((epoch, routes));
        }
    }

    /// Gives routes that were undecided in an epoch the switches that were decided later.
    fn decide(&mut self) {
        let is_decided = |routes: &[Route]| routes.iter().all(|route| route.certainty >= Certainty::Decided);
        let mut next: Option<Vec<Route>> = None;
        for (_, routes) in self.routes.iter_mut().rev() {
            match &next {
                _ if is_decided(routes) => next = Some(routes.clone()),
                Some(next) if routes.len() == 1 => *routes = next.clone(),
                _ => {}
            }
        }
        self.routes.dedup_by(|later, earlier| {
            let shape = |routes: &[Route]| routes.iter().map(|route| route.switches.clone()).collect::<Vec<_>>();
            later.1.len() == 1 && shape(&later.1) == shape(&earlier.1)
        });
        self.so_far = Vec::new();
    }

    fn at(&self, epoch: u64) -> &[Route] {
        let later = self.routes.partition_point(|(from, _)| *from <= epoch);
        self.routes.get(later.saturating_sub(1)).map(|(_, routes)| &routes[..]).unwrap_or_default()
    }
}

impl Routes for AnsweredRoutes {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        self.fields.iter().filter_map(|fields| self.routes.get(&flow.only(*fields))).flatten().cloned().collect()
    }

    fn in_epoch(&self, flow: &Flow, epoch: u64) -> Vec<Route> {
        let changes = self.fields.iter().find_map(|fields| self.changes.get(&flow.only(*fields)));
        // Packets of all epochs say nothing about one.
        let of_all = || self.of(flow).into_iter().map(|route| Route { packets: None, ..route }).collect();
        changes.map_or_else(of_all, |changes| changes.at(epoch).to_vec())
    }

    fn flows(&self) -> Vec<Flow> {
        self.routes.keys().filter(|flow| flow.fields() == [true; 5]).copied().collect()
    }
}

/// Paths, and for flows without one those of other epochs: a flow that loses all packets shows none.
pub struct OrOther {
    newest: Arc<dyn Routes>,
    ask: Box<dyn Fn() -> Option<Arc<dyn Routes>> + Send + Sync>,
    /// The answer, once a flow has no path.
    other: OnceLock<Option<Arc<dyn Routes>>>,
}

impl OrOther {
    /// `ask` gives the paths of all epochs. It is asked when the first flow has none in `newest`.
    pub fn new(newest: Arc<dyn Routes>, ask: impl Fn() -> Option<Arc<dyn Routes>> + Send + Sync + 'static) -> Self {
        Self { newest, ask: Box::new(ask), other: OnceLock::new() }
    }

    fn either(&self, of: impl Fn(&dyn Routes) -> Vec<Route>) -> Vec<Route> {
        let newest = of(&*self.newest);
        if !newest.is_empty() {
            return newest;
        }
        self.other.get_or_init(|| (self.ask)()).as_ref().map(|other| of(&**other)).unwrap_or_default()
    }
}

impl fmt::Debug for OrOther {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrOther({:?})", self.newest)
    }
}

impl Routes for OrOther {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        self.either(|routes| routes.of(flow))
    }

    fn in_epoch(&self, flow: &Flow, epoch: u64) -> Vec<Route> {
        self.either(|routes| routes.in_epoch(flow, epoch))
    }
}

/// Flows that are named by one source, their paths by another, and lower bounds of their counts.
#[derive(Debug, Default)]
pub struct NamedFlows {
    /// Five-tuples, beside those whose paths are known.
    pub flows: Vec<Flow>,
    pub routes: Option<Arc<dyn Routes>>,
    pub bounds: LowerBounds,
}

impl NamedFlows {
    /// The flows and paths that these histories answer in the window of `query`: flows of the first that
    /// answers heavy flows, paths of the first that answers paths, bounds of all. A query about one whole flow
    /// needs no other flows. Numbers of publications are those of one history, so for a question about what was
    /// published since one all epochs are taken.
    pub fn among(histories: &[Arc<dyn Queryable>], query: &Query) -> Self {
        let Query { window, provisional, now, .. } = *query;
        let window = if let Window::Since { .. } = window { Window::All } else { window };
        let heavy = Query { provisional, now, ..Query::new(Task::Heavy, window) };
        let is_named = query.flow.as_ref().is_some_and(|pattern| pattern.flow().is_some());
        let others = || histories.iter().filter(|history| !history.needs_routes());
        let names = |history: &Arc<dyn Queryable>| history.answer::<HeavyFlows>(&heavy).ok();
        let named = if is_named { None } else { others().find_map(names) };
        let routes = others().find_map(|history| AnsweredRoutes::by_epoch(&**history, query).ok());
        let bounded = Query { provisional, flow: query.flow, ..Query::new(query.task, window) };
        Self {
            bounds: LowerBounds::among(others().map(|history| &**history), &bounded),
            flows: named.iter().flat_map(|named| named.counts().map(|heavy| heavy.flow)).collect(),
            routes: routes.map(|routes| Arc::new(routes) as Arc<dyn Routes>),
        }
    }
}

impl Routes for NamedFlows {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        self.routes.as_ref().map(|routes| routes.of(flow)).unwrap_or_default()
    }

    fn in_epoch(&self, flow: &Flow, epoch: u64) -> Vec<Route> {
        self.routes.as_ref().map(|routes| routes.in_epoch(flow, epoch)).unwrap_or_default()
    }

    fn flows(&self) -> Vec<Flow> {
        let known = self.routes.as_ref().map(|routes| routes.flows()).unwrap_or_default();
        self.flows.iter().copied().chain(known).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn at_least(&self, flow: &Flow, epoch: u64, unit: Unit) -> u64 {
        self.bounds.of(flow, epoch, unit)
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

    /// The paths that packets of the flow took in one epoch, as far as the source tells epochs apart.
    pub fn in_epoch(&self, flow: &Flow, epoch: u64) -> Vec<Route> {
        self.routes.in_epoch(flow, epoch)
    }

    /// The five-tuples whose paths are known, where they can be listed.
    pub fn flows(&self) -> Vec<Flow> {
        self.routes.flows()
    }

    /// What the flow has at least in an epoch, as other programs are certain; 0 where none is.
    pub fn at_least(&self, flow: &Flow, epoch: u64, unit: Unit) -> u64 {
        self.routes.at_least(flow, epoch, unit)
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
    fn paths_of_each_epoch_are_told_apart() {
        let of = |switches: &[&str], packets, contradictions| {
            let certainty = if switches.contains(&"?") { Certainty::Undecided } else { Certainty::Decided };
            FlowPath { packets, contradictions, ..path(flow(1), switches, certainty) }
        };
        let told = |epochs: &[(u64, &[FlowPath])]| {
            let mut changes = RouteChanges::default();
            epochs.iter().for_each(|(epoch, paths)| changes.add(*epoch, &paths.iter().collect::<Vec<_>>()));
            changes.decide();
            changes
        };
        let at = |changes: &RouteChanges, epoch| {
            let text = |route: &Route| {
                let names: Vec<_> = route.switches.iter().map(|name| name.as_deref().unwrap_or("?")).collect();
                (names.concat(), route.packets)
            };
            changes.at(epoch).iter().map(text).collect::<Vec<_>>()
        };
        // Not decided at first; then another path, which contradicts the first one.
        let changes = told(&[
            (3, &[of(&["a", "?", "c"], 2, 0)]),
            (4, &[of(&["a", "b", "c"], 9, 0)]),
            (5, &[of(&["a", "b", "c"], 14, 0)]),
            (7, &[of(&["a", "d", "c"], 3, 1)]),
            (8, &[of(&["a", "d", "c"], 6, 1)]),
        ]);
        let (old, new) = (("abc".to_string(), None), ("adc".to_string(), None));
        for (epoch, right) in [
            (1, vec![old.clone()]),
            (3, vec![old.clone()]),
            (6, vec![old.clone()]),
            (7, vec![new.clone(), old]),
            (8, vec![new.clone()]),
            (99, vec![new]),
        ] {
            assert_eq!(at(&changes, epoch), right, "{epoch}");
        }
        // Paths with a checksum stand side by side, each with the packets of the epoch.
        let both = |one, other| {
            [
                FlowPath { checksum: Some(1), ..of(&["a", "b", "c"], one, 0) },
                FlowPath { checksum: Some(2), ..of(&["a", "d", "c"], other, 0) },
            ]
        };
        let [one, other] = both(10, 5);
        let changes = told(&[(1, &[one]), (2, &both(40, 10)), (3, &[FlowPath { packets: 90, ..other }])]);
        assert_eq!(at(&changes, 2), [("abc".to_string(), Some(30)), ("adc".to_string(), Some(10))]);
        assert_eq!((at(&changes, 1).len(), at(&changes, 3)), (1, vec![("adc".to_string(), None)]));
    }

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
