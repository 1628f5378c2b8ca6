//! What the figures of the six tasks ask of an algorithm: one epoch in a fixed memory (ChameleMon,
//! appendix C).

use weir::program::chamelemon::decoder::Distribution;
use weir::wire::Tuple4;

use crate::heavy::KeyMap;

/// What one algorithm knows of one epoch. It does not answer every task; which ones, the figure
/// says.
pub trait Summary {
    fn burst(&mut self, keys: &[Tuple4]);

    /// The epoch is over; answers may be asked for.
    fn close(&mut self) {}

    /// Packets of a flow, as far as it can tell.
    fn size(&self, key: Tuple4) -> u64;

    /// The flows that it can name, and what it takes for their packets.
    fn named(&self) -> KeyMap<u64> {
        KeyMap::default()
    }

    /// Flows of more than `threshold` packets.
    fn heavy(&self, threshold: u64) -> Vec<Tuple4> {
        self.named().into_iter().filter(|&(_, packets)| packets > threshold).map(|(key, _)| key).collect()
    }

    /// Flows whose packets differ by more than `threshold`: those that either epoch can name are
    /// asked for in both.
    fn changes(&self, after: &Self, threshold: u64) -> Vec<Tuple4> {
        let mut named = self.named();
        named.extend(after.named());
        let changed = |key: &Tuple4| self.size(*key).abs_diff(after.size(*key)) > threshold;
        named.into_keys().filter(changed).collect()
    }

    fn distribution(&self) -> Option<Distribution> {
        None
    }

    /// Entropy, when it is not that of the distribution.
    fn entropy_bits(&self) -> Option<f64> {
        None
    }

    /// Number of flows.
    fn cardinality(&self) -> Option<f64> {
        None
    }
}
