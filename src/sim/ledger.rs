//! The truth about losses that holds whatever the clocks say: of each epoch, as the switches where packets entered number it, the
//! packets of each flow that entered less those that left.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::packet::Sent;
use crate::program::chamelemon::FlowId;

#[derive(Clone, Debug, Default)]
pub struct Ledger(BTreeMap<u32, FxHashMap<Sent, (FlowId, i64)>>);

impl Ledger {
    /// A packet enters the network, at a switch where this epoch is running.
    pub fn entered(&mut self, epoch: u32, flow: Sent, id: FlowId) {
        self.0.entry(epoch).or_default().entry(flow).or_insert((id, 0)).1 += 1;
    }

    /// A packet that entered in this epoch goes to a host.
    pub fn left(&mut self, epoch: u32, flow: Sent) {
        if let Some((_, net)) = self.0.get_mut(&epoch).and_then(|flows| flows.get_mut(&flow)) {
            *net -= 1;
        }
    }

    /// The flows of an epoch of which not as many packets left as entered, and the difference.
    pub fn nets(&self, epoch: u32) -> FxHashMap<FlowId, i64> {
        let mut nets = FxHashMap::<FlowId, i64>::default();
        let flows = self.0.get(&epoch).into_iter().flat_map(FxHashMap::values);
        flows.for_each(|&(id, net)| *nets.entry(id).or_default() += net);
        nets.retain(|_, net| *net != 0);
        nets
    }
}
