// A cell is a word with a declared number of bits; a switch has no floats.
//~ E0277
use weir::pisa::{Salu, Slot};

#[derive(Clone, Copy)]
struct Average;

impl Salu for Average {
    type Phv = u32;
    type Cell = f64;
    type Out = ();

    fn slot(&self, phv: &u32) -> Slot {
        Slot(*phv)
    }

    fn rmw(&self, cell: f64, phv: &u32) -> (f64, ()) {
        (cell * 0.9 + f64::from(*phv) * 0.1, ())
    }

    fn commit(&self, _: (), _: &mut u32) {}
}

fn main() {}
