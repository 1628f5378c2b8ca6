//! Answers by task. A file of this directory is the home of one task: the type of its answer, which
//! is its document in JSON, how it is put together from epochs, its text and tables, and its score.
//!
//! [`Queryable::ask`] is the one way to an answer, for a live switch, a controller, a simulated network and a
//! replay. It makes the claim, so that no document is without one.

mod attention;
mod bounds;
mod cardinality;
mod changes;
mod claim;
mod counted;
mod digest32;
mod distribution;
mod exact;
mod flow;
mod flows;
mod follow;
mod frequency;
mod heavy;
mod latency;
mod loops;
mod losses;
mod newest;
mod paths;
mod places;
mod query;
mod routes;
mod task;
mod utilisation;
mod values;

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;

use crate::history::{self, AnyHistory, Epochs, History, Kept, Reason, Reasons, SwitchGap, Window};

pub use attention::{
    Attention, EpochAttention, SHARES_OF_MEMORY, attention_table, parameter, parameter_keys, parameter_name,
    switches_table,
};
pub use bounds::LowerBounds;
pub use cardinality::{EpochNumbers, Numbers, SwitchNumbers};
pub use changes::{Change, Changed, HeavyChanges};
pub use claim::{Claim, Claimed, Gap};
pub use counted::Counted;
pub use digest32::{Digest32, Unresolved};
pub use distribution::{Distribution, rounded};
pub use exact::{Exact, FlowCounts, Heavy, Truth};
pub use flow::{FlowCount, FlowName, Unit, digests};
pub use flows::{FlowSizes, SizeClass, Sizes};
pub use follow::{Follower, Passed};
pub use frequency::{Bounded, CONFIDENCE, Estimate, Frequency, excess, frequency_table};
pub use heavy::{CountedFrom, FoundFlows, HeavyFlow, HeavyFlows, Score, heavy_table, score};
pub use latency::{FlowLatency, HopLatency, Latency, LatencyCount, SwitchLatency, latency_table};
pub use loops::{FlowLoop, LoopAnswers, Loops, loops_table};
pub use losses::{CountedFlow, LastLoss, Loss, Losses, LossesFound};
pub use newest::OfFlow;
pub use paths::{Certainty, FlowPath, PathAnswers, Paths, SureOf, paths_table};
pub use places::{
    AnsweredLosses, CountedPort, Evidence, KeptRows, LatePacket, Links, LossPlace, LostFlows, LostPackets, PlaceName,
    PlaceVictim, Places, PortName, PortRows, SentFlows, Surroundings, SwitchRows,
};
pub use query::{ALARM_RATE, Query};
pub use routes::{AnsweredRoutes, ByRoute, NamedFlows, OrOther, Route, Routes};
pub use task::Task;
pub use utilisation::{FlowUtilisation, Utilisation, utilisation_table};
pub use values::{
    Between, FlowValues, Frequent, HopNumbers, Mean, Quantiles, SwitchSamples, Value, ValueAnswers, ValueFlow,
    ValueHop, ValueUnit, Values, number_text,
};

/// Defines [`Answer`]: one variant for each task, with the type of its answer.
macro_rules! answers {
    ($($task:ident: $answer:ty,)+) => {
        /// The answer to a task.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Answer {
            $($task($answer),)+
        }

        impl Answer {
            /// The schema of the document of a task: the answer with its claim.
            pub fn schema(task: Task, generator: &mut SchemaGenerator) -> Schema {
                match task {
                    $(Task::$task => generator.subschema_for::<Claimed<$answer>>(),)+
                }
            }
        }

        $(impl Document for $answer {
            const TASK: Task = Task::$task;

            fn of(answer: Answer) -> Option<Self> {
                match answer {
                    Answer::$task(answer) => Some(answer),
                    _ => None,
                }
            }
        }

        impl From<$answer> for Answer {
            fn from(answer: $answer) -> Self {
                Self::$task(answer)
            }
        })+
    };
}

answers! {
    Heavy: HeavyFlows,
    Frequency: Frequency,
    Flows: FlowSizes,
    Cardinality: Numbers,
    Losses: Losses,
    Changes: HeavyChanges,
    Attention: Attention,
    Paths: Paths,
    Latency: Latency,
    Loops: Loops,
    Utilisation: Utilisation,
    Values: Values,
    Places: Places,
}

/// The type of the answer to one task.
pub trait Document: Sized {
    const TASK: Task;

    /// An answer to this task; `None` of another one.
    fn of(answer: Answer) -> Option<Self>;
}

/// An answer, and why it is not complete, as far as the program knows.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramAnswer {
    pub answer: Answer,
    pub lack: Reasons,
}

impl ProgramAnswer {
    pub fn new(answer: impl Into<Answer>, lack: Reasons) -> Self {
        Self { answer: answer.into(), lack }
    }
}

/// How a program answers from what it keeps of epochs.
pub trait Answers: Kept + Sized {
    /// Whether it answers about flows with the paths that another program answers, or that are
    /// recomputed.
    const NEEDS_ROUTES: bool = false;

    /// Whether the sizes of flows are told of a window as a whole, and not of its newest epoch alone.
    const ADDS_SIZES: bool = false;

    /// The answer about these epochs; `None` to a task that the program does not answer.
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer>;

    /// The flows of an epoch, each with a count that is certainly not above the flow's own; `None` of a
    /// program that is not certain of any.
    fn certain(&self) -> Option<FoundFlows> {
        None
    }
}

/// A history of epochs alone answers nothing by itself.
impl Answers for () {
    fn answer(_: &Epochs<Self>, _: &Query) -> Option<ProgramAnswer> {
        None
    }
}

/// Epochs, each once, with the flows and counts that a program is certain of.
pub type CertainCounts = Box<dyn ExactSizeIterator<Item = (u64, Option<FoundFlows>)>>;

/// A question without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("the program does not answer the task {}", .0.name())]
    Task(Task),
    #[error("flow: answers to {} name no flows; leave it out", .0.name())]
    Flow(Task),
    #[error("flow: {} is that of certain flows; name them, as \"10.0.0.1:80 → 10.0.0.0/24:* tcp\"", .0.name())]
    NoFlow(Task),
    #[error("path: answers to {} know no paths of flows; leave it out", .0.name())]
    Path(Task),
    #[error("path: flows of {} are chosen by the paths that another program answers, and none does here; leave it out", .0.name())]
    NoRoutes(Task),
}

/// A history that can be asked, of any program.
pub trait Queryable: AnyHistory {
    /// [`Answers::NEEDS_ROUTES`].
    fn needs_routes(&self) -> bool;

    /// [`Answers::ADDS_SIZES`].
    fn adds_sizes(&self) -> bool;

    /// The answer with its claim.
    ///
    /// # Errors
    /// If the program does not answer the task, or the task's answers have nothing by which the query
    /// chooses flows.
    fn ask(&self, query: &Query) -> Result<Claimed<Answer>, NoAnswer>;

    /// [`Answers::certain`] of the epochs that an answer to the query rests on, without those that have
    /// several entries or whose counts are of earlier epochs as well.
    fn certain_counts(&self, query: &Query) -> CertainCounts;
}

impl<K: Answers> Queryable for History<K> {
    fn needs_routes(&self) -> bool {
        K::NEEDS_ROUTES
    }

    fn adds_sizes(&self) -> bool {
        K::ADDS_SIZES
    }

    fn ask(&self, query: &Query) -> Result<Claimed<Answer>, NoAnswer> {
        query.check()?;
        let mut epochs = query.epochs(self, K::ADDS_SIZES);
        if let (Window::Last { seconds }, Some(now)) = (query.window, query.now) {
            epochs = epochs.as_of(now, seconds);
        }
        let told = match query.task {
            Task::Attention => Some(Attention::over(&epochs)),
            Task::Places => K::answer(&epochs, query).or_else(|| Places::inferred(&epochs, query)),
            _ => K::answer(&epochs, query),
        };
        let ProgramAnswer { answer, mut lack } = told.ok_or(NoAnswer::Task(query.task))?;
        lack.add_if(query.routes.as_ref().is_some_and(ByRoute::lacks_routes), Reason::PathsUnknown);
        Ok(Claim::new(&epochs, lack).with(answer))
    }

    fn certain_counts(&self, query: &Query) -> CertainCounts {
        let epochs = query.epochs(self, true);
        let groups = epochs.iter().as_slice().chunk_by(|one, other| one.epoch == other.epoch);
        let spans = |gap: &SwitchGap| matches!(gap.gap, history::Gap::Spans { .. });
        let alone = groups.filter_map(|entries| match entries {
            [entry] => (!entry.gaps.iter().any(spans)).then(|| entry.clone()),
            _ => None,
        });
        let alone: Vec<_> = alone.collect();
        Box::new(alone.into_iter().map(|entry| (entry.epoch, entry.showed.certain())))
    }
}

impl Query {
    /// The epochs of a history that an answer rests on, of a program that adds sizes of flows up or does not.
    fn epochs<K: Kept>(&self, history: &History<K>, adds_sizes: bool) -> Epochs<K> {
        let epochs = history.select(self.window, self.provisional);
        match (self.task, self.window) {
            (Task::Flows, Window::Last { .. }) if !adds_sizes => epochs.newest_alone(),
            (Task::Changes, _) => epochs.newest_and_before(),
            _ => epochs,
        }
    }
}

impl dyn Queryable + '_ {
    /// The answer to the query's task as its own type.
    ///
    /// # Errors
    /// If the program does not answer the task, or the query is about another one.
    pub fn answer<A: Document>(&self, query: &Query) -> Result<Claimed<A>, NoAnswer> {
        self.ask(query)?.into_document().ok_or(NoAnswer::Task(A::TASK))
    }
}

#[cfg(test)]
mod tests;
