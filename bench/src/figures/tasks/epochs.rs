//! Two adjacent epochs of one workload, and how good an answer about them is (appendix C).

use weir::program::chamelemon::decoder::Distribution;
use weir::trace::{Keys, Order, SizeLaw, Workload};
use weir::wire::Tuple4;

use crate::heavy::KeyMap;
use crate::summary::Summary;

/// Packets of an epoch, as in the paper's traces of five seconds.
const PACKETS: u64 = 2_300_000;
/// Flows of both epochs together. Many are in one of them only: each has about 63 000, as in the
/// paper.
const FLOWS: u32 = 116_000;

/// Heavy hitters have more than 0.02 % of the packets, heavy changes more than 0.01 %.
pub const HEAVY: u64 = 500;
pub const CHANGE: u64 = 250;

/// Packets that a sketch is given at once, as from a port's queue.
const BURST: usize = 64;

/// One epoch with its truth.
pub struct Epoch {
    /// The flow of each packet.
    sequence: Vec<u32>,
    pub sizes: KeyMap<u64>,
    pub distribution: Distribution,
}

pub struct Epochs {
    pub keys: Vec<Tuple4>,
    pub both: [Epoch; 2],
    /// Flows whose packets differ by more than [`CHANGE`].
    pub changes: Vec<Tuple4>,
}

/// `isp-scaled` in burst order, of which each half is an epoch: flows come, change and go between
/// the two.
pub fn workload(seed: u64, keys: Keys, quick: bool) -> Workload {
    let part = if quick { 10 } else { 1 };
    let (flows, packets) = (FLOWS / part, 2 * PACKETS / u64::from(part));
    Workload { law: SizeLaw::IspScaled, order: Order::Burst, flows, packets, keys, seed, ..Workload::default() }
}

impl Epochs {
    pub fn new(workload: Workload) -> Self {
        let trace = workload.generate();
        let keys: Vec<Tuple4> = trace.tuples().into_iter().map(|t| t.v4().expect("the workload has no IPv6")).collect();
        let (first, second) = trace.sequence.split_at(trace.sequence.len() / 2);
        let both = [first, second].map(|sequence| Epoch::new(sequence.to_vec(), &keys));
        let size = |epoch: &Epoch, key: &Tuple4| epoch.sizes.get(key).copied().unwrap_or(0);
        let changed = |key: &&Tuple4| size(&both[0], key).abs_diff(size(&both[1], key)) > CHANGE;
        let changes = keys.iter().filter(changed).copied().collect();
        Self { keys, both, changes }
    }
}

impl Epoch {
    fn new(sequence: Vec<u32>, keys: &[Tuple4]) -> Self {
        let mut packets = vec![0u64; keys.len()];
        sequence.iter().for_each(|&flow| packets[flow as usize] += 1);
        let sizes: KeyMap<u64> = keys.iter().copied().zip(packets).filter(|&(_, packets)| packets > 0).collect();
        let distribution = Distribution::of_sizes(sizes.values().copied());
        Self { sequence, sizes, distribution }
    }

    /// Gives a sketch all packets and closes it.
    pub fn feed<S: Summary>(&self, mut sketch: S, keys: &[Tuple4]) -> S {
        let mut burst = Vec::with_capacity(BURST);
        for flows in self.sequence.chunks(BURST) {
            burst.clear();
            burst.extend(flows.iter().map(|&flow| keys[flow as usize]));
            sketch.burst(&burst);
        }
        sketch.close();
        sketch
    }

    pub fn heavy(&self) -> Vec<Tuple4> {
        self.sizes.iter().filter(|&(_, &packets)| packets > HEAVY).map(|(&key, _)| key).collect()
    }

    /// Average relative error of the sizes of all flows.
    pub fn size_error(&self, sketch: &impl Summary) -> f64 {
        let error = |(&key, &exact): (&Tuple4, &u64)| sketch.size(key).abs_diff(exact) as f64 / exact as f64;
        self.sizes.iter().map(error).sum::<f64>() / self.sizes.len() as f64
    }
}

/// 2 · precision · recall / (precision + recall) = 2 · found / (reported + true).
pub fn f1(reported: &[Tuple4], truth: &[Tuple4]) -> f64 {
    let truth: KeyMap<()> = truth.iter().map(|&key| (key, ())).collect();
    let found = reported.iter().filter(|key| truth.contains_key(key)).count();
    match reported.len() + truth.len() {
        0 => 1.0,
        all => 2.0 * found as f64 / all as f64,
    }
}

pub fn relative_error(estimate: f64, exact: f64) -> f64 {
    (estimate - exact).abs() / exact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_is_the_papers() {
        let keys = |range: std::ops::Range<u128>| range.map(Tuple4).collect::<Vec<_>>();
        // Precision 3/4, recall 3/5.
        assert!((f1(&keys(2..6), &keys(0..5)) - 2.0 * 0.75 * 0.6 / 1.35).abs() < 1e-12);
        assert_eq!((f1(&[], &keys(0..5)), f1(&[], &[]), f1(&keys(0..5), &keys(0..5))), (0.0, 1.0, 1.0));
    }

    #[test]
    fn epochs_are_adjacent_and_differ() {
        let epochs = Epochs::new(workload(3, Keys::Random, true));
        let [before, after] = &epochs.both;
        let packets = |epoch: &Epoch| epoch.sizes.values().sum::<u64>();
        assert_eq!((packets(before), packets(after)), (230_000, 230_000));
        let flows = [before.sizes.len(), after.sizes.len()];
        assert!(flows.iter().all(|flows| (5000..7500).contains(flows)), "{flows:?}");
        assert!(before.heavy().len() > 20 && epochs.changes.len() > 20);
        assert!(before.distribution.flows() as usize == before.sizes.len());
    }
}
