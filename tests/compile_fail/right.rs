// The control: a program that keeps the rules compiles, so the others fail for their own reasons.
//~ none
use weir::pisa::{Array, Pipeline, Salu, Slot, Stage};

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
    let mut stage = Stage(Array::new("counts", Count, 8));
    stage.packet(&mut 3);
    assert_eq!(stage.0.registers().cells()[3], 1);
}
