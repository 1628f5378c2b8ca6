//! weir's own ChameleMon as the figures of the six tasks drive it: the dataplane that the switch
//! runs, over PHVs, and its collector.
//!
//! As the paper's appendix C has it: a Tower of an 8-bit and a 16-bit array of equal memory, T_h =
//! 250, and a Fermat sketch of 2500 buckets for the heavy-hitter candidates. weir's buckets have
//! 160 bits, for IDs of 104 bits with a fingerprint, where the paper's have 64, so the Fermat
//! sketch takes 50 KB instead of 20. All of it is charged, but where weir's is compared with the
//! paper's own: there a bucket is charged as the paper's. And as one would configure it for these
//! tasks: sizes from T_h on are decoded, so that 8-bit counters say all that the Tower has to, and
//! two arrays of them have more counters in the same memory.

use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Phv};
use weir::program::Dataplane;
use weir::program::chamelemon::decoder::{Analysis, Distribution};
use weir::program::chamelemon::{ChameleMonDataplane, Config, FlowId, Level, Sketches, TowerShape, Width};
use weir::wire::Tuple4;

use crate::hashpipe::phv;
use crate::heavy::KeyMap;
use crate::summary::Summary;

/// Buckets of the paper's Fermat sketch, in three arrays.
const BUCKETS: u32 = 2500;
const ARRAYS: u32 = 3;
const BUCKET_BYTES: u32 = 20;
/// Of the paper, for IDs of 32 bits.
const PAPERS_BUCKET_BYTES: u32 = 8;
const THRESHOLD: u32 = 250;

pub struct TowerFermat {
    program: ChameleMonDataplane,
    phvs: Vec<Phv>,
    analysis: Option<Analysis>,
}

/// How the memory is used.
#[derive(Clone, Copy)]
pub struct Layout {
    /// What a bucket is charged.
    bucket_bytes: u32,
    tower: [Width; 2],
}

impl Layout {
    pub const PAPER: Self = Self { bucket_bytes: BUCKET_BYTES, tower: [Width::Bits8, Width::Bits16] };
    pub const PAPERS_IDS: Self = Self { bucket_bytes: PAPERS_BUCKET_BYTES, ..Self::PAPER };
    pub const NARROW: Self = Self { tower: [Width::Bits8; 2], ..Self::PAPER };
}

/// The program's parameters for this memory.
fn config(bytes: usize, Layout { bucket_bytes, tower }: Layout) -> Config {
    let buckets = BUCKETS / ARRAYS;
    let bytes = u32::try_from(bytes).expect("a sketch of less than 4 GB") - ARRAYS * buckets * bucket_bytes;
    let level = |width: Width| Level { width, counters: bytes / 2 * 8 / width.bits() };
    Config {
        tower: TowerShape(tower.map(level).to_vec()),
        arrays: ARRAYS,
        upstream: buckets,
        downstream: 1,
        hl: Some(0),
        hh_threshold: THRESHOLD,
        ..Config::default()
    }
}

impl TowerFermat {
    /// The same `seed` gives the same hash functions.
    pub fn new(bytes: usize, layout: Layout, seed: u64) -> Self {
        let mut program = ChameleMonDataplane::new(&config(bytes, layout), &HashFamily::reproducible(seed))
            .expect("a configuration of ours");
        program.allocate();
        Self { program, phvs: Vec::new(), analysis: None }
    }

    pub fn analysis(&self) -> &Analysis {
        self.analysis.as_ref().expect("the epoch is closed")
    }
}

fn key(id: FlowId) -> Tuple4 {
    Tuple4(id.bytes().into_iter().fold(0, |bits, byte| bits << 8 | u128::from(byte)))
}

impl Summary for TowerFermat {
    fn burst(&mut self, keys: &[Tuple4]) {
        self.phvs.clear();
        self.phvs.extend(keys.iter().map(|&key| Phv { enters: true, ..phv(key) }));
        self.program.ingress(&mut self.phvs, BatchOrder::StageMajor);
    }

    fn close(&mut self) {
        let mut bank = self.program.spare();
        self.program.exchange(bank.as_mut());
        self.program.exchange_egress(bank.as_mut());
        if let Some(sketches) = bank.record().into::<Sketches>() {
            self.analysis = Some(Analysis::new(*sketches));
        }
    }

    fn size(&self, key: Tuple4) -> u64 {
        self.analysis().flow_size(FlowId::of_v4(key)).unwrap_or(u64::from(THRESHOLD - 1))
    }

    fn named(&self) -> KeyMap<u64> {
        self.analysis().heavy_hitters(0).into_iter().map(|flow| (key(flow.id), flow.packets)).collect()
    }

    fn heavy(&self, threshold: u64) -> Vec<Tuple4> {
        self.analysis().heavy_hitters(threshold).into_iter().map(|flow| key(flow.id)).collect()
    }

    fn changes(&self, after: &Self, threshold: u64) -> Vec<Tuple4> {
        let changes = Analysis::heavy_changes(self.analysis(), after.analysis(), threshold);
        changes.into_iter().map(|change| key(change.id)).collect()
    }

    fn distribution(&self) -> Option<Distribution> {
        self.analysis().distribution().cloned()
    }

    fn cardinality(&self) -> Option<f64> {
        self.analysis().cardinality()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memory_is_the_hardwares() {
        for (bytes, layout) in [(200 << 10, Layout::PAPER), (600 << 10, Layout::PAPER), (200 << 10, Layout::NARROW)] {
            let config = config(bytes, layout);
            let tower: u32 = config.tower.0.iter().map(|level| level.counters * level.width.bits()).sum();
            let bits = tower + 160 * 3 * config.upstream;
            assert!((bits / 8) as usize <= bytes && (bits / 8) as usize > bytes - 8);
            assert!(config.upstream * 3 <= BUCKETS && config.validate().is_ok());
        }
    }

    #[test]
    fn flows_come_back_as_they_went_in() {
        let mut sketch = TowerFermat::new(200 << 10, Layout::PAPER, 1);
        let flow = Tuple4(0x0a_0000_01c6_1200_02c0_0101_bb06);
        (0..9).for_each(|_| sketch.burst(&[flow; 100]));
        sketch.burst(&[Tuple4(7); 3]);
        sketch.close();
        assert_eq!(sketch.heavy(899), [flow]);
        assert_eq!((sketch.heavy(900).len(), sketch.size(flow), sketch.size(Tuple4(7))), (0, 900, 3));
        assert_eq!(sketch.distribution().unwrap().flows().round(), 2.0);
    }
}
