// A stage without registers has no memory beside them.
//~ E0204
use weir::pisa::{Compute, StageUse, Step};

#[derive(Clone, Copy)]
struct Seen(std::sync::Arc<std::sync::atomic::AtomicU32>);

impl Compute for Seen {
    type Phv = u32;

    fn compute(&self, phv: &mut u32) {
        *phv = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn describe(&self, phv: &u32) -> String {
        phv.to_string()
    }
}

fn main() {
    Step::new("seen", Seen(Default::default()), StageUse::default());
}
