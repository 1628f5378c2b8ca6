//! Inputs of the task beside records: the links between switches, the flows that lost packets, and their
//! paths.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::answers::{AnsweredRoutes, FlowName, FlowSizes, Losses, OrOther, Query, Queryable, Routes, SizeClass, Task};
use crate::history::{Reasons, Window};
use crate::text::{is_name, json_schema, serde_as_text};

/// A port of a switch: `SWITCH:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortName {
    pub switch: Arc<str>,
    pub port: Arc<str>,
}

impl PortName {
    pub fn new(switch: &str, port: &str) -> Self {
        Self { switch: switch.into(), port: port.into() }
    }
}

impl FromStr for PortName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ends = text.split_once(':').filter(|(switch, port)| is_name(switch) && is_name(port));
        ends.map(|(switch, port)| Self::new(switch, port))
            .ok_or("write SWITCH:PORT, the names of a switch and its port")
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.port)
    }
}

serde_as_text!(PortName);

json_schema!(PortName, {
    "type": "string",
    "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]*:[A-Za-z0-9_][A-Za-z0-9_.-]*$",
    "description": "A port of a switch, as SWITCH:PORT.",
    "examples": ["leaf1:up1"]
});

/// The links between the switches of a network, each with its two ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(pub Vec<[PortName; 2]>);

impl Links {
    /// Both directions of each link: the port that packets leave by, and the one that they come in by.
    pub fn directions(&self) -> impl Iterator<Item = [&PortName; 2]> {
        self.0.iter().flat_map(|[a, b]| [[a, b], [b, a]])
    }

    /// Whether a link ends at this port.
    pub fn has(&self, switch: &str, port: &str) -> bool {
        self.0.iter().flatten().any(|end| *end.switch == *switch && *end.port == *port)
    }
}

/// A source of the flows that lost packets between the first and the last switch of their paths.
pub trait LostFlows: fmt::Debug + Send + Sync {
    /// Flows that lost packets in an epoch; `None` where they are not known.
    fn lost_in(&self, epoch: u64) -> Option<LostPackets>;

    /// Packets that flows sent in an epoch; `None` where they are not known.
    fn sent_in(&self, _epoch: u64) -> Option<SentFlows> {
        None
    }
}

/// Packets that flows lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LostPackets {
    pub flows: Vec<(FlowName, u64)>,
    /// Why flows may be missing.
    pub lack: Reasons,
}

/// Packets that flows sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentFlows {
    pub flows: Vec<(FlowName, u64)>,
    /// Packets and number of the flows without names.
    pub other_packets: f64,
    pub other_flows: f64,
}

/// Losses as a program answers them, and sizes of flows, where one answers these.
pub struct AnsweredLosses {
    pub losses: Arc<dyn Queryable>,
    pub sizes: Option<Arc<dyn Queryable>>,
}

impl LostFlows for AnsweredLosses {
    fn lost_in(&self, epoch: u64) -> Option<LostPackets> {
        let losses = self.losses.answer::<Losses>(&Query::new(Task::Losses, Window::Epoch(epoch))).ok()?;
        let is_known = losses.claim.last_epoch.is_some() && losses.unknown_epochs == 0;
        is_known.then(|| LostPackets {
            flows: losses.losses.iter().map(|lost| (lost.name, lost.packets)).collect(),
            lack: losses.claim.incomplete.clone(),
        })
    }

    fn sent_in(&self, epoch: u64) -> Option<SentFlows> {
        let query = Query::new(Task::Flows, Window::Epoch(epoch));
        let sizes = self.sizes.as_ref()?.answer::<FlowSizes>(&query).ok()?;
        sizes.claim.last_epoch?;
        let flows: Vec<_> = sizes.heavy.iter().filter_map(|flow| Some((flow.name, flow.packets?))).collect();
        let named: u64 = flows.iter().map(|(_, packets)| packets).sum();
        let sum = |of: fn(&SizeClass) -> f64| sizes.distribution.iter().map(of).sum::<f64>();
        let (all, number) = (sum(|class| class.flows * f64::from(class.packets)), sum(|class| class.flows));
        let other_flows = (number - flows.len() as f64).max(0.0);
        let other_packets = (all - named as f64).max(other_flows);
        (!flows.is_empty() || other_flows > 0.0).then_some(SentFlows { flows, other_packets, other_flows })
    }
}

impl fmt::Debug for AnsweredLosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnsweredLosses")
    }
}

/// Facts about a network beside the records of its switches.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub links: Links,
    pub victims: Option<Arc<dyn LostFlows>>,
    pub routes: Option<Arc<dyn Routes>>,
}

impl Surroundings {
    /// Facts for a question about a network with these links. `history` is what is asked for a task.
    pub fn new(links: Links, query: &Query, history: impl Fn(Task) -> Option<Arc<dyn Queryable>>) -> Self {
        let (losses, sizes) = (history(Task::Losses), history(Task::Flows));
        let all = Query { window: Window::All, ..query.clone() };
        let or_other = |paths: Arc<dyn Queryable>| {
            let newest = routes(&*paths, query)?;
            Some(Arc::new(OrOther::new(newest, move || routes(&*paths, &all))) as Arc<dyn Routes>)
        };
        Self {
            links,
            victims: losses.map(|losses| Arc::new(AnsweredLosses { losses, sizes }) as Arc<dyn LostFlows>),
            routes: history(Task::Paths).and_then(or_other),
        }
    }
}

/// The paths that a program answers in the window of a query; `None` where it does not.
fn routes(paths: &dyn Queryable, query: &Query) -> Option<Arc<dyn Routes>> {
    let routes = AnsweredRoutes::ask(paths, query).ok()?;
    Some(Arc::new(routes))
}

/// Two are equal that are of one network.
impl PartialEq for Surroundings {
    fn eq(&self, other: &Self) -> bool {
        self.links == other.links
    }
}
