//! What the edges know, as trials: flows that lost packets one by one, the others by path and size.

use std::collections::BTreeMap;

/// A flow in an epoch, or several that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowTrial {
    /// Number of its pair of first and last switch.
    pub ends: usize,
    /// The path that is believed; `None` where it is not known.
    pub path: Option<usize>,
    pub sent: f64,
    pub lost: f64,
    /// Number of such flows.
    pub flows: f64,
}

impl FlowTrial {
    /// The largest log likelihood that any probability of losing a packet gives its losses.
    pub fn largest_log_likelihood(&self) -> f64 {
        let share = |packets: f64| if packets > 0.0 { packets * (packets / self.sent).ln() } else { 0.0 };
        share(self.lost) + share(self.sent - self.lost)
    }
}

/// A pair of switches, and the path that flows between them are believed to take; `None` if it is not known.
type Class = (usize, Option<usize>);

/// The trials of all flows. Members, paths and pairs of switches have numbers.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// The members on each path, in the order in which packets cross them.
    pub paths: Vec<Vec<usize>>,
    /// The paths of each pair of switches.
    pub ends: Vec<Vec<usize>>,
    /// Members that are the two directions of one link.
    pub cables: Vec<[usize; 2]>,
    pub members: usize,
    /// Flows that lost packets.
    pub victims: Vec<FlowTrial>,
    /// The others, by pair of switches and path: packets and number of flows.
    pub survivors: BTreeMap<Class, Vec<(f64, f64)>>,
    /// By member that counted, and whose rate is known: the share of packets, or of flows where these are trials, that it
    /// lost.
    counted: Vec<Option<f64>>,
    /// Packets of a flow, where flows are trials.
    mean_packets: f64,
    are_flows: bool,
}

/// Sizes between which survivors are told apart: the binary logarithm in steps of a half.
pub fn size_class(sent: f64) -> u32 {
    (2.0 * sent.max(1.0).log2()).round() as u32
}

impl Trials {
    /// Trials of networks with this number of members.
    pub fn new(
        members: usize,
        paths: Vec<Vec<usize>>,
        ends: Vec<Vec<usize>>,
        cables: Vec<[usize; 2]>,
        flows: impl IntoIterator<Item = FlowTrial>,
    ) -> Self {
        let mut classes: BTreeMap<Class, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
        let mut victims = Vec::new();
        for flow in flows {
            if flow.lost > 0.0 {
                victims.push(FlowTrial { sent: flow.sent.max(flow.lost), ..flow });
            } else if flow.sent > 0.0 && flow.flows > 0.0 {
                let class = classes.entry((flow.ends, flow.path)).or_default();
                let (packets, number) = class.entry(size_class(flow.sent)).or_default();
                *packets += flow.sent * flow.flows;
                *number += flow.flows;
            }
        }
        let mean = |(packets, flows): (f64, f64)| (packets / flows, flows);
        let survivors = classes.into_iter().map(|(of, class)| (of, class.into_values().map(mean).collect())).collect();
        let (counted, mean_packets, are_flows) = (Vec::new(), 1.0, false);
        Self { paths, ends, cables, members, victims, survivors, counted, mean_packets, are_flows }
    }

    /// The same with the shares of packets that members lost which counted.
    #[must_use]
    pub fn with_counted(self, counted: Vec<Option<f64>>) -> Self {
        Self { counted, ..self }
    }

    /// Whether a member counted what it lost.
    pub fn has_counted(&self, member: usize) -> bool {
        self.counted_rate(member).is_some()
    }

    /// The share that a member lost which counted.
    pub fn counted_rate(&self, member: usize) -> Option<f64> {
        self.counted.get(member).copied().flatten()
    }

    /// The rate of a member, where it is known. How many flows lose packets at a rate is known roughly only.
    pub fn known_rate(&self, member: usize) -> Option<f64> {
        self.counted_rate(member).filter(|_| !self.are_flows)
    }

    /// The same with a flow as one trial, which loses a packet or none. Flows whose path is not known are mostly
    /// smaller ones, which lose packets more seldom: they are left out where any path is known.
    #[must_use]
    pub fn as_flows(&self) -> Self {
        let is_any_known = self.survivors.keys().any(|(_, path)| path.is_some());
        let is_meant = |path: Option<usize>| path.is_some() || !is_any_known;
        let victims = self.victims.iter().filter(|flow| is_meant(flow.path));
        let victims = victims.map(|flow| FlowTrial { sent: 1.0, lost: 1.0, ..*flow }).collect();
        let number = |class: &Vec<(f64, f64)>| vec![(1.0, class.iter().map(|(_, flows)| flows).sum())];
        let survivors = self.survivors.iter().filter(|((_, path), _)| is_meant(*path));
        let survivors = survivors.map(|(of, class)| (*of, number(class))).collect();
        let (mean_packets, are_flows) = (self.mean_packets_of(is_meant), true);
        let flows = Self { victims, survivors, mean_packets, are_flows, ..self.clone() };
        let counted = self.counted.iter().map(|rate| rate.map(|rate| flows.rate_of_flows(rate))).collect();
        flows.with_counted(counted)
    }

    /// Mean size of flows whose path is meant.
    fn mean_packets_of(&self, is_meant: impl Fn(Option<usize>) -> bool) -> f64 {
        let survivors = self.survivors.iter().filter(|((_, path), _)| is_meant(*path)).flat_map(|(_, class)| class);
        let victims = self.victims.iter().filter(|flow| is_meant(flow.path)).map(|flow| (flow.sent, flow.flows));
        let sums = survivors
            .copied()
            .chain(victims)
            .fold((0.0, 0.0), |(packets, all), (sent, flows)| (packets + sent * flows, all + flows));
        (sums.0 / f64::max(sums.1, 1.0)).max(1.0)
    }

    /// The share of flows that lose packets at this rate, of flows of the mean size.
    pub fn rate_of_flows(&self, rate: f64) -> f64 {
        1.0 - (1.0 - rate).powf(self.mean_packets)
    }

    /// The logarithm of the prior probability that a flow between these switches takes the path that is believed.
    pub fn log_prior(&self, ends: usize, wrong: f64) -> f64 {
        (1.0 - wrong + wrong / self.ends[ends].len() as f64).ln()
    }

    /// The paths that a flow may have taken, each with the logarithm of its prior probability.
    pub fn candidates(&self, flow: &FlowTrial, wrong: f64) -> impl Iterator<Item = (usize, f64)> {
        let paths = &self.ends[flow.ends];
        let any = 1.0 / paths.len() as f64;
        let (others, believed) = match flow.path {
            Some(path) => ((wrong * any).ln(), Some((path, self.log_prior(flow.ends, wrong)))),
            None => (any.ln(), None),
        };
        paths.iter().map(move |path| match believed {
            Some((believed, prior)) if believed == *path => (*path, prior),
            _ => (*path, others),
        })
    }
}
