//! The state of the network as an epoch showed it (§4.3, "monitoring real-time network state").

use super::super::decoder::{Analysis, Candidates, Distribution, Expected, Victims};
use super::super::network::NetworkEpoch;
use super::super::{EncoderParameters, FlowId};

/// The most heavy victims whose sizes are looked up: a sample of this size shows their distribution
/// within 3 %.
const SIZED: usize = 1024;

/// What an epoch showed.
pub struct Observation<'a> {
    pub parameters: EncoderParameters,
    pub edges: Vec<Edge<'a>>,
    /// `None` when a gap hides them.
    pub losses: Option<Losses>,
}

/// An edge switch.
pub struct Edge<'a> {
    /// Heavy-hitter candidates: counted or estimated; `None` when too many to tell.
    pub candidates: Option<f64>,
    /// Whether they were all decoded.
    pub complete: bool,
    /// All flows; `None` when too many to tell.
    pub flows: Option<f64>,
    pub expects: Expects<'a>,
}

/// Says how many candidates another threshold would have made; `None` when too little is known.
pub type Expects<'a> = Box<dyn Fn(u32) -> Option<Expected> + 'a>;

impl Edge<'_> {
    /// Whether it can tell how many candidates other thresholds than the one `measured` would have
    /// made.
    pub fn tells(&self, measured: u32) -> bool {
        (self.expects)(measured).is_some()
    }

    /// Candidates at a threshold, when there were `candidates` at the threshold `measured`: HH /
    /// portion(T_h) · portion(T). The number of flows that collisions lift depends on the order of
    /// packets: bursts have fewer than the model expects. So when all candidates were counted, the
    /// lifted ones make up for what differs, as far as they can. `None` at every threshold when the
    /// edge cannot [tell](Self::tells).
    ///
    /// `times` scales the number of flows: large ones grow by it, lifted ones by its third power,
    /// as another flow must be on each of two counters.
    pub fn at(&self, threshold: u32, measured: u32, times: f64) -> Option<f64> {
        let expected = (self.expects)(threshold)?;
        if threshold >= measured && self.candidates == Some(0.0) {
            return Some(0.0);
        }
        let (seen, model) = (self.candidates.unwrap_or(0.0), (self.expects)(measured).unwrap_or_default());
        let known = seen > 0.0 && model.all() > 0.0;
        let lifted =
            if known && self.complete && model.lifted > 0.0 { (seen - model.large) / model.lifted } else { 1.0 };
        let candidates =
            |of: Expected, times: f64| times * (of.large + of.lifted * lifted.clamp(0.0, 1.0) * times * times);
        let ratio = if known { seen / candidates(model, 1.0) } else { 1.0 };
        Some(candidates(expected, times) * ratio)
    }
}

/// What was lost.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Whether all heavy-hitter candidates were decoded, without which heavy losses are unknown.
    pub sure: bool,
    pub heavy: Victims,
    pub light: Victims,
    /// Flows that only lost packets as light-loss candidates, of those that were sampled.
    pub light_only: f64,
    /// Sizes of the flows with heavy losses, and of those with light losses only, as far as they
    /// were decoded; each stands for as many as its weight says.
    pub heavy_sizes: Distribution,
    pub light_sizes: Distribution,
}

/// The share of light-loss candidates that are sampled; at least one in 2¹⁶, so that it can stand
/// below a line.
pub fn rate(parameters: &EncoderParameters) -> f64 {
    f64::from(parameters.sample.max(1)) / f64::from(EncoderParameters::ALL)
}

impl<'a> Observation<'a> {
    pub fn new(network: &'a NetworkEpoch) -> Self {
        let edges = network.edges.iter().map(|edge| Edge {
            candidates: edge.analysis.candidates(),
            complete: edge.analysis.hh().complete,
            flows: edge.analysis.cardinality(),
            expects: expects(&edge.analysis),
        });
        Self { parameters: network.parameters, edges: edges.collect(), losses: losses(network) }
    }

    /// Whether the heavy-hitter candidates of all switches were decoded.
    pub fn decoded(&self) -> bool {
        self.edges.iter().all(|edge| edge.complete)
    }

    /// Candidates at the switch that has most of them; `None` when not all were decoded.
    pub fn counted(&self) -> Option<f64> {
        let candidates = self.edges.iter().map(|edge| edge.candidates.filter(|_| edge.complete));
        candidates.collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)
    }

    /// All victims: counted or estimated; `None` when there is no telling.
    pub fn victims(&self) -> Option<f64> {
        let losses = self.losses.as_ref().filter(|losses| losses.sure && losses.light.complete)?;
        Some(losses.heavy.flows? + losses.light_only / rate(&self.parameters))
    }

    /// All flows of the network; `None` when too many to tell, or no switch is there.
    pub fn flows(&self) -> Option<f64> {
        let flows: Option<f64> = self.edges.iter().map(|edge| edge.flows).sum();
        flows.filter(|flows| *flows > 0.0)
    }

    /// Candidates at the switch that has most of them, as far as switches can tell, with `times` as
    /// many flows.
    pub fn max(&self, threshold: u32, times: f64) -> Option<f64> {
        self.edges.iter().filter_map(|edge| edge.at(threshold, self.parameters.hh_threshold, times)).reduce(f64::max)
    }
}

/// The classifier is looked into when it is asked for the first time.
fn expects(analysis: &Analysis) -> Expects<'_> {
    let candidates = std::cell::OnceCell::new();
    Box::new(move |threshold| {
        let candidates = candidates.get_or_init(|| Candidates::new(analysis));
        candidates.as_ref().map(|candidates| candidates.at(threshold))
    })
}

fn losses(network: &NetworkEpoch) -> Option<Losses> {
    let losses = network.losses.as_ref()?;
    let heavy = losses.flows.iter().filter(|loss| loss.heavy).count();
    // The most lost come first, so a sample takes one in so many.
    let step = heavy.div_ceil(SIZED).max(1);
    let size = |id: FlowId| network.flow_size(id).map_or(u32::MAX, |size| u32::try_from(size).unwrap_or(u32::MAX));
    let sizes = |heavy: bool, step: usize, weight: f64| {
        let flows = losses.flows.iter().filter(|loss| loss.heavy == heavy).step_by(step);
        let mut sizes = Distribution::of_sizes(flows.map(|loss| size(loss.id).into()));
        sizes.0.iter_mut().for_each(|(_, flows)| *flows *= weight);
        sizes
    };
    Some(Losses {
        sure: network.hh_complete(),
        heavy: losses.heavy,
        light: losses.light,
        light_only: (losses.flows.len() - heavy) as f64,
        heavy_sizes: sizes(true, step, step as f64),
        light_sizes: sizes(false, 1, 1.0 / rate(&network.parameters)),
    })
}
