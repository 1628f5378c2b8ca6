//! FlowRadar (Li, Miao, Kim, Yu: "FlowRadar: A Better NetFlow for Data Centers", NSDI 2016) on one
//! link, as §5.1 of ChameleMon's paper sets it up: a tenth of the memory for the flow filter, a
//! Bloom filter of ten functions, the rest for the counting table, whose cells have 32 bits each of
//! FlowXOR, FlowCount and PacketCount.
//!
//! Decoding is FlowRadar's SingleDecode at each end, and the losses are the differences. Its
//! NetDecode adds nothing on a link whose two ends have the same hash functions and the same flows,
//! since both then stick in the same cells; ChameleMon's text does not speak of it. A flow that the
//! filter takes for known is never put into FlowXOR; its packets spoil the counts of others.

use super::{ARRAYS, Packets, cells};
use crate::heavy::slot;

#[derive(Debug, PartialEq)]
pub struct FlowRadar {
    filter: Vec<u64>,
    filter_bits: usize,
    table: Vec<Cell>,
    width: usize,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    flow_xor: u32,
    flows: u32,
    packets: i64,
}

const FILTER_FUNCTIONS: usize = 10;
const CELL_BYTES: f64 = 12.0;
const TABLE_SHARE: f64 = 0.9;

impl FlowRadar {
    /// Memory of a counting table of three arrays of `width` cells, and of the filter that belongs
    /// to it.
    pub fn bytes(width: usize) -> f64 {
        (ARRAYS * width) as f64 * CELL_BYTES / TABLE_SHARE
    }

    pub fn new(width: usize, seed: u64) -> Self {
        let filter_bits = (Self::bytes(width) * (1.0 - TABLE_SHARE) * 8.0) as usize;
        let filter = vec![0; filter_bits.div_ceil(64)];
        Self { filter, filter_bits: filter_bits.max(1), table: vec![Cell::default(); ARRAYS * width], width, seed }
    }

    /// All packets of a flow. What they leave behind is what they would leave one by one among
    /// other flows' packets, since only the first one's look into the filter matters.
    pub fn insert(&mut self, flow: u32, packets: i64) {
        let known = self.mark(flow);
        for at in cells(flow.into(), self.seed, self.width) {
            let cell = &mut self.table[at];
            if !known {
                cell.flow_xor ^= flow;
                cell.flows += 1;
            }
            cell.packets += packets;
        }
    }

    /// Puts a flow into the filter; whether all its bits had been set before.
    fn mark(&mut self, flow: u32) -> bool {
        let mut known = true;
        for function in ARRAYS..ARRAYS + FILTER_FUNCTIONS {
            let bit = slot(u64::from(flow) ^ self.seed, function, self.filter_bits);
            let word = &mut self.filter[bit / 64];
            known &= *word >> (bit % 64) & 1 == 1;
            *word |= 1 << (bit % 64);
        }
        known
    }

    /// SingleDecode: all flows that could be extracted with their packets, and whether all were
    /// that the table holds.
    pub fn decode(mut self) -> (Packets, bool) {
        let mut ready: Vec<_> = (0..self.table.len()).filter(|&at| self.table[at].flows == 1).collect();
        let mut flows = Packets::with_capacity_and_hasher(self.table.len(), Default::default());
        while let Some(at) = ready.pop() {
            let Cell { flow_xor: flow, flows: 1, packets } = self.table[at] else { continue };
            flows.insert(flow, packets);
            for at in cells(flow.into(), self.seed, self.width) {
                let cell = &mut self.table[at];
                cell.flow_xor ^= flow;
                cell.flows -= 1;
                cell.packets -= packets;
                if cell.flows == 1 {
                    ready.push(at);
                }
            }
        }
        (flows, self.table.iter().all(|cell| cell.flows == 0))
    }

    /// Packets that entered by `up` and did not leave by `down`, and whether both ends were
    /// decoded.
    pub fn losses(up: Self, down: Self) -> (Packets, bool) {
        let ((mut entered, up_complete), (left, down_complete)) = (up.decode(), down.decode());
        left.into_iter().for_each(|(flow, packets)| *entered.entry(flow).or_default() -= packets);
        entered.retain(|_, packets| *packets != 0);
        (entered, up_complete && down_complete)
    }
}
