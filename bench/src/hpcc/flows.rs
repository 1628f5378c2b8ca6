//! Flows that come in by a Poisson process, with measured sizes.

use weir::trace::{Cdf, SplitMix64};

use super::calendar::Picos;
use super::tree::Tree;

/// A flow to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Picos,
    pub from: u32,
    pub to: u32,
    pub bytes: u32,
}

/// Flows from every host to hosts drawn uniformly. Their payload takes the share `load` of the
/// hosts' links.
pub fn poisson(tree: &Tree, sizes: Cdf, load: f64, duration: Picos, seed: u64) -> Vec<Arrival> {
    let mut rng = SplitMix64::new(seed);
    let hosts = u64::from(tree.hosts());
    let mean_gap = sizes.mean_bytes() * tree.host_byte as f64 / (load * hosts as f64);
    let mut at = 0.0;
    let arrivals = std::iter::from_fn(|| {
        at -= (1.0 - rng.unit()).ln() * mean_gap;
        let from = rng.below(hosts);
        let to = (from + 1 + rng.below(hosts - 1)) % hosts;
        let bytes = (sizes.quantile(rng.unit()) as u32).max(1);
        (at < duration as f64).then_some(Arrival { at: at as Picos, from: from as u32, to: to as u32, bytes })
    });
    arrivals.collect()
}
