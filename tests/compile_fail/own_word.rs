// The words are sealed, so that nobody declares fewer bits than a cell holds.
//~ E0277
use weir::pisa::Word;

#[derive(Clone, Copy, Default)]
struct Fat([u64; 32]);

impl Word for Fat {
    const BITS: u32 = 1;
}

fn main() {}
