// Feed-forward: a later stage cannot be given an earlier stage's array.
//~ E0478
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

#[derive(Clone, Copy)]
struct Later<'a> {
    earlier: &'a Array<Count>,
}

impl<'a> Salu for Later<'a> {
    type Phv = u32;
    type Cell = u32;
    type Out = ();

    fn slot(&self, phv: &u32) -> Slot {
        Slot(self.earlier.registers().cells()[*phv as usize])
    }

    fn rmw(&self, cell: u32, _: &u32) -> (u32, ()) {
        (cell + 1, ())
    }

    fn commit(&self, _: (), _: &mut u32) {}
}

fn main() {}
