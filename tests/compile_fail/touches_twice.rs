// Only the engine takes a packet to an array; a program cannot do it again.
//~ E0603 E0599
use weir::pisa::beside::Beside;
use weir::pisa::{Array, Salu, Slot};

#[derive(Clone, Copy)]
struct Count;

impl Salu for Count {
    type Phv = u32;
    type Cell = u32;
    type Out = u32;

    fn slot(&self, phv: &u32) -> Slot {
        Slot(*phv)
    }

    fn rmw(&self, cell: u32, _: &u32) -> (u32, u32) {
        (cell + 1, cell)
    }

    fn commit(&self, out: u32, phv: &mut u32) {
        *phv = out;
    }
}

fn main() {
    let mut counts = Array::new("counts", Count, 8);
    counts.pass(&3, &mut 3);
    counts.pass(&3, &mut 3);
}
