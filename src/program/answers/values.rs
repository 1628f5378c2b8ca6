//! The tasks latency, utilisation and values: numbers that packets of flows told, of a hop each or of
//! their whole way.

use std::sync::Arc;

use super::{FlowName, Reasons, Task};
use crate::text::named;

named! {
    /// What a number counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ValueUnit {
        Ns = "ns",
        Packets = "packets",
        /// 1 is all of it.
        Share = "share",
        /// The number of a port.
        Port = "port",
    }
}

/// The least numbers that these shares of the samples do not exceed, and between which numbers those
/// of all packets lie in 95 of 100 cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    pub p50: f64,
    pub p50_between: Between,
    pub p99: f64,
    pub p99_between: Between,
    pub max: f64,
}

/// The ends of an interval; `None` where samples are too few to say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Between {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// The mean of samples, and by how much it is off at most in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub mean: f64,
    pub error: f64,
}

/// A number, and its share of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequent {
    pub number: f64,
    pub share: f64,
}

/// What packets told of a hop of a flow, or of their whole way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// `None` where the path is not decided, and of whole ways.
    pub switch: Option<Arc<str>>,
    /// Packets that told of it.
    pub samples: u64,
    /// `None` without samples, and where they are not asked for.
    pub quantiles: Option<Quantiles>,
    /// `None` where it is not known as well.
    pub mean: Option<Mean>,
    /// Those with the largest shares first.
    pub frequent: Vec<Frequent>,
    /// By how much the share of a frequent number is off at most, in 95 of 100 cases; `None` where
    /// these are not asked for.
    pub share_error: Option<f64>,
}

/// The numbers of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowValues {
    pub flow: FlowName,
    /// Where it leaves the network.
    pub sink: Arc<str>,
    /// Of the packets' path, where they carry one: a flow then has an answer for each.
    pub checksum: Option<u16>,
    /// The switches of that path, of whole ways alone; `None` where it is not decided.
    pub path: Vec<Option<Arc<str>>>,
    /// Of each hop from the first to the last, or of the whole way alone.
    pub told: Vec<Told>,
}

impl FlowValues {
    /// What tells it apart from the other answers to one query: the flow and, where packets carry a
    /// checksum, which of its paths.
    pub fn key(&self) -> impl Ord + use<> {
        (self.flow, self.sink.clone(), self.told.len(), self.path.len(), self.checksum)
    }

    /// Samples of all hops.
    pub fn samples(&self) -> u64 {
        self.told.iter().map(|told| told.samples).sum()
    }
}

/// The numbers of one value that an epoch's flows met.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueAnswers {
    /// Latency, of hops and in nanoseconds; utilisation, a share and of whole ways; or values. Of the
    /// answers about an epoch one at most is of each of the first two.
    pub task: Task,
    /// The value and how its numbers come together, as the program's queries name them.
    pub value: &'static str,
    pub aggregation: &'static str,
    /// Which packets are one flow, as queries name it; `None` are those of one five-tuple.
    pub flow_definition: Option<&'static str>,
    /// The query in words, whose answers are these in each epoch that has some.
    pub query: Arc<str>,
    pub unit: ValueUnit,
    /// A packet tells of one hop; else of its whole way.
    pub of_hops: bool,
    /// Those of the most samples first, and the number of all.
    pub flows: Vec<FlowValues>,
    pub found: usize,
    /// Flows that made place for others so far.
    pub evicted: u64,
    /// By how much a number is off at most, and by which factor, because it is carried in few bits:
    /// whichever is more.
    pub error: f64,
    pub error_factor: f64,
    /// The number of the last code, which larger ones have as well; `None` where none is larger.
    pub largest: Option<f64>,
    /// The packets of so many nanoseconds count alone, those up to the newest; `None` is all time, or
    /// of whole ways the epoch.
    pub window_ns: Option<u64>,
    /// Why numbers are missing.
    pub lack: Reasons,
}

impl ValueAnswers {
    /// Whether both are of one query.
    pub fn is_of_same_query(&self, other: &Self) -> bool {
        self.query == other.query
    }

    /// Keeps at most so many flows, and no memory for more.
    pub fn keep(&mut self, max: usize) {
        self.flows.truncate(max);
        self.flows.shrink_to_fit();
    }

    /// Hops and flows.
    pub fn weight(&self) -> usize {
        self.flows
            .iter()
            .map(|flow| 1 + flow.path.len() + flow.told.iter().map(|told| 1 + told.frequent.len()).sum::<usize>())
            .sum()
    }
}
