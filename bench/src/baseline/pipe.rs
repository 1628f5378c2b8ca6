//! HashPipe (Sivaraman et al. 2017): weir's own program, its table read once.
//!
//! As ChameleMon's appendix C has it: 6 stages; from the authors' code 8 bytes a slot, a 32-bit
//! flow ID and a 32-bit count.

use weir::wire::Tuple4;

use crate::hashpipe::HashPipe;
use crate::heavy::{HeavyHitter, KeyMap};
use crate::summary::Summary;

const STAGES: usize = 6;
const SLOT_BYTES: usize = 8;

pub struct PipeTable {
    /// Until the epoch is over.
    pipe: Option<HashPipe>,
    flows: KeyMap<u64>,
}

impl PipeTable {
    pub fn new(bytes: usize, seed: u64) -> Self {
        Self { pipe: Some(HashPipe::new(bytes / SLOT_BYTES, STAGES, seed)), flows: KeyMap::default() }
    }
}

impl Summary for PipeTable {
    fn burst(&mut self, keys: &[Tuple4]) {
        if let Some(pipe) = &mut self.pipe {
            pipe.burst(keys);
        }
    }

    fn close(&mut self) {
        let entries = self.pipe.take().map(HashPipe::read_out).unwrap_or_default();
        entries.into_iter().for_each(|(key, count)| *self.flows.entry(key).or_default() += count);
    }

    fn size(&self, key: Tuple4) -> u64 {
        self.flows.get(&key).copied().unwrap_or(0)
    }

    fn named(&self) -> KeyMap<u64> {
        self.flows.clone()
    }
}
