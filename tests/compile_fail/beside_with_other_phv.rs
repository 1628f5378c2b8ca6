// Arrays side by side in a stage see one PHV.
//~ E0599
use weir::pisa::{Array, Pipeline, Salu, Slot, Stage};

#[derive(Clone, Copy)]
struct Count<V>(std::marker::PhantomData<fn(V)>);

impl<V: Copy + 'static> Salu for Count<V> {
    type Phv = V;
    type Cell = u32;
    type Out = ();

    fn slot(&self, _: &V) -> Slot {
        Slot(0)
    }

    fn rmw(&self, cell: u32, _: &V) -> (u32, ()) {
        (cell + 1, ())
    }

    fn commit(&self, _: (), _: &mut V) {}
}

fn main() {
    let (narrow, wide) = (Count::<u32>(Default::default()), Count::<u64>(Default::default()));
    Stage((Array::new("narrow", narrow, 8), Array::new("wide", wide, 8))).packet(&mut 3);
}
