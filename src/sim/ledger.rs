//! The truth about losses that holds whatever the clocks say: of each epoch, as the switches where
//! packets entered number it, the packets of each flow that entered less those that left.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::packet::Sent;
use crate::wire::{Flow, FlowKey, Tuple4};

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    epochs: BTreeMap<u32, FxHashMap<Sent, (Tuple4, i64)>>,
    /// Packets that were fragmented, by epoch, flow and number.
    fragmented: BTreeMap<(u32, Sent, u16), Fragments>,
}

/// The fragments of a packet, and those of them that went to a host.
#[derive(Clone, Copy, Debug)]
struct Fragments {
    all: u32,
    left: u32,
}

impl Ledger {
    /// A packet enters the network, at a switch where this epoch is running.
    pub fn entered(&mut self, epoch: u32, flow: Sent, tuple: Tuple4) {
        self.epochs.entry(epoch).or_default().entry(flow).or_insert((tuple, 0)).1 += 1;
    }

    /// A packet that entered in this epoch becomes one fragment more.
    pub fn fragmented(&mut self, epoch: u32, flow: Sent, number: u16) {
        self.fragmented.entry((epoch, flow, number)).or_insert(Fragments { all: 1, left: 0 }).all += 1;
    }

    /// A packet that entered in this epoch goes to a host. One that was fragmented has left when
    /// all of it has.
    pub fn left(&mut self, epoch: u32, flow: Sent, number: u16) {
        if let Some(fragments) = self.fragmented.get_mut(&(epoch, flow, number)) {
            fragments.left += 1;
            if fragments.left != fragments.all {
                return;
            }
        }
        if let Some((_, net)) = self.epochs.get_mut(&epoch).and_then(|flows| flows.get_mut(&flow)) {
            *net -= 1;
        }
    }

    /// Whether only some fragments of a packet left, so that no answer is exact.
    pub fn is_torn(&self, epoch: u32) -> bool {
        let mut of_epoch = self.fragmented.iter().filter(|((of, ..), _)| *of == epoch);
        of_epoch.any(|(_, fragments)| fragments.left > 0 && fragments.left != fragments.all)
    }

    /// The flows of an epoch of which not as many packets left as entered, and the difference.
    pub fn nets(&self, epoch: u32) -> impl Iterator<Item = (Flow, i64)> {
        let flows = self.epochs.get(&epoch).into_iter().flat_map(FxHashMap::values);
        flows.filter(|(_, net)| *net != 0).map(|(tuple, net)| (tuple.flow(), *net))
    }
}
