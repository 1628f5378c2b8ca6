// The PHV is read while the cell is modified, and written once, by `commit`.
//~ E0594
use weir::pisa::{Salu, Slot};

#[derive(Clone, Copy)]
struct Count;

impl Salu for Count {
    type Phv = u32;
    type Cell = u32;
    type Out = ();

    fn slot(&self, phv: &u32) -> Slot {
        Slot(*phv)
    }

    fn rmw(&self, cell: u32, phv: &u32) -> (u32, ()) {
        *phv = cell;
        (cell + 1, ())
    }

    fn commit(&self, _: (), _: &mut u32) {}
}

fn main() {}
