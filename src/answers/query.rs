//! Questions about past epochs.

use std::sync::Arc;

use super::{ByRoute, FlowName, NoAnswer, Surroundings, Task};
use crate::history::Window;
use crate::wire::{Flow, Pattern};

/// A question about past epochs.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub task: Task,
    pub window: Window,
    /// Epochs that are not final yet as well.
    pub provisional: bool,
    /// The current time in nanoseconds since 1970, where it says how old an answer is.
    pub now: Option<u64>,
    /// Flows that are meant; `None` are all.
    pub flow: Option<Pattern>,
    /// Switches that the flows' paths cross in this order; all paths where it is empty.
    pub path: Vec<String>,
    /// What knows the paths, for a task whose answers do not.
    pub routes: Option<ByRoute>,
    /// Facts about the network, for a task about its links.
    pub surroundings: Option<Arc<Surroundings>>,
    /// Most flows that are named.
    pub top: usize,
    /// Packets (or bytes, where they are counted) of a flow from which on it is named.
    pub threshold: u64,
    /// The largest share of packets that a link or switch loses without being called failed, where that is
    /// inferred.
    pub alarm_rate: f64,
}

/// The alarm rate of a query that gives none.
pub const ALARM_RATE: f64 = 1e-4;

impl Query {
    /// About all flows of a window, also of epochs that are not final.
    pub fn new(task: Task, window: Window) -> Self {
        Self {
            task,
            window,
            provisional: true,
            now: None,
            flow: None,
            path: Vec::new(),
            routes: None,
            surroundings: None,
            top: usize::MAX,
            threshold: 1,
            alarm_rate: ALARM_RATE,
        }
    }

    /// The same, with at most `top` flows of at least `threshold`.
    #[must_use]
    pub fn limited(self, top: usize, threshold: u64) -> Self {
        Self { top, threshold, ..self }
    }

    pub(super) fn check(&self) -> Result<(), NoAnswer> {
        match self.task {
            task if self.flow.is_some() && !task.names_flows() => Err(NoAnswer::Flow(task)),
            task if !self.path.is_empty() && !task.knows_paths() && !task.takes_routes() => Err(NoAnswer::Path(task)),
            task if !self.path.is_empty() && !task.knows_paths() && self.routes.is_none() => {
                Err(NoAnswer::NoRoutes(task))
            }
            task if task.needs_flows() => self.pattern().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The pattern of the flows, for a task that needs one.
    fn pattern(&self) -> Result<&Pattern, NoAnswer> {
        self.flow.as_ref().ok_or(NoAnswer::NoFlow(self.task))
    }

    /// Whether a flow is meant. One that is known by a digest alone is meant only with all.
    pub fn is_meant(&self, name: &FlowName) -> bool {
        self.flow.as_ref().is_none_or(|pattern| name.flow().is_some_and(|flow: Flow| pattern.matches(&flow)))
            && self.routes.as_ref().is_none_or(|routes| self.path.is_empty() || routes.crosses(name, &self.path))
    }
}
