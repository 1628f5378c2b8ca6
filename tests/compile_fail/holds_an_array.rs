// A program never holds a register array: the cells are the engine's.
//~ E0616 E0624
use weir::pisa::{Array, Salu, Slot};

#[derive(Clone, Copy)]
struct Count;

impl Salu for Count {
    type Phv = u32;
    type Cell = u32;
    type Out = ();

    fn slot(&self, phv: &u32) -> Slot {
        Slot(*phv)
    }

    fn rmw(&self, cell: u32, _: &u32) -> (u32, ()) {
        (cell + 1, ())
    }

    fn commit(&self, _: (), _: &mut u32) {}
}

fn main() {
    let mut array = Array::new("counts", Count, 8);
    array.registers.0[3] = 7;
    let _ = array.alu();
}
