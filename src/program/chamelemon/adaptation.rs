//! Parameters and decisions as people see them.

use serde_json::{Map, Value, json};

use super::attention::State;
use super::network::NetworkEpoch;
use super::{EncoderParameters, Partition};
use crate::history::{Adaptation, Described};

pub(super) fn adaptation(network: &NetworkEpoch) -> Adaptation {
    let candidates = network.heavy_hitters(0).len();
    let losses = network.losses.as_ref();
    let [heavy, light] = [losses.and_then(|losses| losses.heavy.flows), losses.and_then(|losses| losses.light.flows)];
    let facts = json!({
        "heavy_candidates": (!network.edges.is_empty()).then_some(candidates),
        "heavy_losses": heavy,
        "light_losses": light,
        "load_share": load(network, heavy.zip(light)),
    });
    Adaptation { measured: network.parameters.described(), facts: object(facts), ..Adaptation::default() }
}

/// Flows over the buckets of an upstream encoder, at the switch with most candidates: these, and
/// the victims of the network.
fn load(network: &NetworkEpoch, victims: Option<(f64, f64)>) -> Option<f64> {
    let ((heavy, light), shape) = (victims?, network.edges.first()?.analysis.sketches().shape);
    let candidates = network.edges.iter().map(|edge| edge.analysis.candidates()).collect::<Option<Vec<_>>>()?;
    let buckets: u32 = (0..shape.rows()).map(|row| shape.cells(row, shape.upstream)).sum();
    Some((candidates.into_iter().fold(0.0, f64::max) + heavy + light) / f64::from(buckets))
}

/// The parameters that are parts of the memory, each with its purpose.
pub(super) fn meaning(key: &str) -> Option<&'static str> {
    match key {
        "hh_buckets" => Some("heavy hitters"),
        "hl_buckets" => Some("losses of flows that lose many packets"),
        "ll_buckets" => Some("losses of the other flows, of which a part is sampled"),
        _ => None,
    }
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

impl EncoderParameters {
    /// The parameters with their units.
    pub(super) fn described(&self) -> Described {
        let Self { partition: Partition { hh, hl, ll }, hh_threshold, hl_threshold, sample, sample_seed: _ } = *self;
        let parameters = json!({
            "hh_buckets": hh,
            "hl_buckets": hl,
            "ll_buckets": ll,
            "hh_threshold_packets": hh_threshold,
            "hl_threshold_packets": hl_threshold,
            "sample_share": f64::from(sample) / f64::from(Self::ALL),
        });
        Described { state: State::of(self).name().into(), parameters: object(parameters) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::SHARES_OF_MEMORY;
    use crate::program::Program;
    use crate::program::chamelemon::{ChameleMon, Config};

    #[test]
    fn every_part_of_the_memory_has_a_meaning() {
        let described = ChameleMon::start(&Config::default()).described();
        let parts: Vec<_> = described.parameters.keys().filter(|key| key.ends_with(SHARES_OF_MEMORY)).collect();
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|part| meaning(part).is_some()), "{parts:?}");
    }
}
