// In a group of arrays each stateful ALU has its own cell, and does not see those beside it.
//~ E0053
use weir::pisa::{GroupSalu, Slot};

#[derive(Clone, Copy)]
struct Sums;

impl GroupSalu<2> for Sums {
    type Phv = u32;
    type Cell = u32;

    fn slot(&self, phv: &u32) -> Slot {
        Slot(*phv)
    }

    fn rmw(&self, _: usize, cells: [u32; 2], _: &u32) -> u32 {
        cells[0] + cells[1]
    }
}

fn main() {}
