// A stateful ALU has no memory beside its array: what could hold some is not `Copy`.
//~ E0204
use std::cell::Cell;
use weir::pisa::{Salu, Slot};

#[derive(Clone, Copy)]
struct Hoarder {
    seen: Cell<u64>,
}

impl Salu for Hoarder {
    type Phv = u32;
    type Cell = u32;
    type Out = ();

    fn slot(&self, phv: &u32) -> Slot {
        self.seen.set(self.seen.get() + 1);
        Slot(*phv)
    }

    fn rmw(&self, cell: u32, _: &u32) -> (u32, ()) {
        (cell + 1, ())
    }

    fn commit(&self, _: (), _: &mut u32) {}
}

fn main() {}
