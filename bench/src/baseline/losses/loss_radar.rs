//! LossRadar (Li, Miao, Kim, Yu: "LossRadar: Fast Detection of Lost Packets in Data Center
//! Networks", CoNEXT 2016) on one link, as §5.1 of ChameleMon's paper sets it up: an invertible
//! Bloom filter of packets, each cell a 32-bit count and a 48-bit xor of 32 bits of flow ID and the
//! 16-bit number of the packet in its flow.

use super::{ARRAYS, Packets, cells};

pub struct LossRadar {
    table: Vec<Cell>,
    width: usize,
    seed: u64,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Cell {
    xor: u64,
    count: i32,
}

const CELL_BYTES: f64 = 10.0;

impl LossRadar {
    /// Memory of three arrays of `width` cells.
    pub fn bytes(width: usize) -> f64 {
        (ARRAYS * width) as f64 * CELL_BYTES
    }

    pub fn new(width: usize, seed: u64) -> Self {
        Self { table: vec![Cell::default(); ARRAYS * width], width, seed }
    }

    /// Packet number `number` of a flow.
    pub fn insert(&mut self, flow: u32, number: u16) {
        self.put(u64::from(flow) << 16 | u64::from(number), 1);
    }

    fn put(&mut self, packet: u64, count: i32) -> [usize; ARRAYS] {
        let mapped = cells(packet, self.seed, self.width);
        for at in mapped {
            self.table[at].xor ^= packet;
            self.table[at].count += count;
        }
        mapped
    }

    #[cfg(test)]
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.table.iter_mut().zip(&other.table) {
            mine.xor ^= theirs.xor;
            mine.count -= theirs.count;
        }
    }

    /// Packets lost of each flow as far as they could be extracted, and whether nothing was left.
    pub fn decode(mut self) -> (Packets, bool) {
        let mut ready: Vec<_> = (0..self.table.len()).filter(|&at| self.table[at].count == 1).collect();
        let mut flows = Packets::default();
        while let Some(at) = ready.pop() {
            let Cell { xor: packet, count: 1 } = self.table[at] else { continue };
            // Of a packet that left without having entered a cell may show one too many.
            if !cells(packet, self.seed, self.width).contains(&at) {
                continue;
            }
            *flows.entry((packet >> 16) as u32).or_default() += 1;
            ready.extend(self.put(packet, -1).into_iter().filter(|&at| self.table[at].count == 1));
        }
        (flows, self.table.iter().all(|cell| *cell == Cell::default()))
    }
}
