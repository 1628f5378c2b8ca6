//! The sketches on one link, ready to be decoded.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use weir::pisa::hash::HashFamily;
use weir::program::chamelemon::decoder::{Fermat as WeirFermat, Verify};
use weir::program::chamelemon::{FlowId, Hashes, Parts, Shape};
use weir::trace::{Keys, SizeLaw, SplitMix64};
use weir::wire::Tuple4;

use crate::baseline::losses::{Fermat, FlowRadar, LossRadar, Packets};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sketch {
    /// As the paper's simulation has it: IDs of 32 bits, no fingerprint.
    Fermat,
    /// The switch's own: IDs of 104 bits, fingerprints of 20.
    Weir,
    /// The same, with the five-tuples of clients' connections, whose ports are in a row, in place
    /// of random IDs.
    WeirClients,
    FlowRadar,
    LossRadar,
}

/// Bytes of a bucket of the switch's own sketch.
pub const WEIR_BUCKET_BYTES: f64 = 20.0;

/// Packets pass a link: those of the largest flows, of which the largest lose a share of their
/// packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    pub flows: usize,
    pub victims: usize,
    pub loss: f64,
}

/// The paper's dataset: the first 100 000 flows of a CAIDA trace have 5.3 M packets. These are the
/// sizes of `isp`, descending.
fn sizes() -> &'static [u32] {
    static SIZES: OnceLock<Vec<u32>> = OnceLock::new();
    SIZES.get_or_init(|| SizeLaw::Isp.sizes(100_000, 5_300_000, 1))
}

/// A flow's ID in a trial: no two flows have one.
fn id(trial: u64, flow: usize) -> u32 {
    let mut id = (flow as u32).wrapping_add((trial as u32).wrapping_mul(0x9e37_79b9));
    for factor in [0x85eb_ca6b, 0xc2b2_ae35] {
        id = (id ^ id >> 16).wrapping_mul(factor);
    }
    id ^ id >> 13
}

pub fn random_id(rng: &mut SplitMix64) -> FlowId {
    FlowId::of_v4(Tuple4((u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) >> 24))
}

/// The ID of one of the connections of twenty clients.
pub fn client_id(trial: u64, flow: usize) -> FlowId {
    FlowId::of_v4(Keys::Clients.tuple(trial, flow as u32, 0.0).v4().expect("no flow is IPv6"))
}

/// The hash units of a deployment, a different one for each of 64 trials in a row.
pub fn hashes(trial: u64) -> Arc<Hashes> {
    static FAMILIES: OnceLock<Vec<Arc<Hashes>>> = OnceLock::new();
    let new = |seed| Arc::new(Hashes::new(&HashFamily::reproducible(seed), 2, 4));
    let families = FAMILIES.get_or_init(|| (0..64).map(new).collect());
    families[trial as usize % families.len()].clone()
}

impl Link {
    /// Packets that a victim loses: at least one, and not all.
    fn lost(&self, flow: usize) -> u32 {
        let size = sizes()[flow];
        ((f64::from(size) * self.loss).round() as u32).clamp(1, (size - 1).max(1))
    }

    pub fn lost_packets(&self) -> usize {
        (0..self.victims).map(|flow| self.lost(flow) as usize).sum()
    }

    /// What the memory of a sketch depends on.
    pub fn items(&self, sketch: Sketch) -> usize {
        match sketch {
            Sketch::Fermat | Sketch::Weir | Sketch::WeirClients => self.victims,
            Sketch::FlowRadar => self.flows,
            Sketch::LossRadar => self.lost_packets(),
        }
    }

    /// What entered less what left. Sketches add and subtract cell by cell, so it is made of the
    /// lost packets alone; but FlowRadar's cannot be subtracted.
    pub fn difference(&self, sketch: Sketch, width: usize, trial: u64) -> Difference {
        let mut rng = SplitMix64::new(trial ^ 0x6c6f_7373_0000);
        let seed = rng.next_u64();
        match sketch {
            Sketch::Fermat => {
                let mut fermat = Fermat::new(width, seed);
                (0..self.victims).for_each(|flow| fermat.insert(id(trial, flow), self.lost(flow).into()));
                Difference::Fermat(fermat)
            }
            Sketch::Weir => {
                let mut fermat = weir_sketch(width, 0, trial);
                (0..self.victims).for_each(|flow| fermat.insert(random_id(&mut rng), self.lost(flow).into()));
                Difference::Weir(fermat)
            }
            Sketch::WeirClients => {
                let mut fermat = weir_sketch(width, 0, trial);
                (0..self.victims).for_each(|flow| fermat.insert(client_id(trial, flow), self.lost(flow).into()));
                Difference::Weir(fermat)
            }
            Sketch::FlowRadar => {
                let [up, down] = [true, false].map(|enters| {
                    let mut end = FlowRadar::new(width, seed);
                    for flow in 0..self.flows {
                        let lost = if enters || flow >= self.victims { 0 } else { self.lost(flow) };
                        end.insert(id(trial, flow), i64::from(sizes()[flow] - lost));
                    }
                    end
                });
                Difference::FlowRadar(up, down)
            }
            Sketch::LossRadar => {
                let mut packets = LossRadar::new(width, seed);
                for flow in 0..self.victims {
                    sample(sizes()[flow], self.lost(flow), &mut rng, |n| packets.insert(id(trial, flow), n as u16));
                }
                Difference::LossRadar(packets)
            }
        }
    }

    /// Whether a trial decodes.
    pub fn decodes(&self, sketch: Sketch, width: usize, trial: u64) -> bool {
        match self.difference(sketch, width, trial) {
            // The same flows enter and leave, and with the same hash functions both ends decode or
            // none.
            Difference::FlowRadar(up, _) => up.decode().1,
            difference => difference.decode(),
        }
    }

    /// Whether FlowRadar's filter hid no victim, so that all losses are exact.
    pub fn flow_radar_exact(&self, width: usize, trial: u64) -> bool {
        let Difference::FlowRadar(up, down) = self.difference(Sketch::FlowRadar, width, trial) else { return false };
        let (losses, complete) = FlowRadar::losses(up, down);
        let exact: Packets = (0..self.victims).map(|flow| (id(trial, flow), self.lost(flow).into())).collect();
        complete && losses == exact
    }
}

/// An empty sketch of the switch's own form, with polynomials that change from trial to trial.
pub fn weir_sketch(width: usize, small: u32, trial: u64) -> WeirFermat {
    let shape = Shape { arrays: 3, small, upstream: 0, downstream: 0, parts: Parts::Any };
    WeirFermat::new(hashes(trial), shape.sketch(width as u32))
}

/// `n` different numbers below `of`, by Knuth's selection sampling.
fn sample(of: u32, n: u32, rng: &mut SplitMix64, mut take: impl FnMut(u32)) {
    let mut wanted = u64::from(n);
    for number in 0..of {
        if rng.below(u64::from(of - number)) < wanted {
            wanted -= 1;
            take(number);
        }
    }
}

/// What is decoded to find the losses.
pub enum Difference {
    Fermat(Fermat),
    Weir(WeirFermat),
    FlowRadar(FlowRadar, FlowRadar),
    LossRadar(LossRadar),
}

impl Difference {
    pub fn decode(self) -> bool {
        match self {
            Self::Fermat(sketch) => sketch.decode().1,
            Self::Weir(sketch) => sketch.decode(Verify::Fingerprint).complete,
            Self::FlowRadar(up, down) => FlowRadar::losses(up, down).1,
            Self::LossRadar(sketch) => sketch.decode().1,
        }
    }

    pub fn time(self) -> Duration {
        let start = Instant::now();
        std::hint::black_box(self.decode());
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn flows_have_ids_of_their_own() {
        for trial in [0, 1, 7777] {
            assert_eq!((0..100_000).map(|flow| id(trial, flow)).collect::<BTreeSet<_>>().len(), 100_000);
        }
    }

    #[test]
    fn so_many_packets_are_lost() {
        let mut numbers = BTreeSet::new();
        sample(1000, 77, &mut SplitMix64::new(1), |number| assert!(numbers.insert(number)));
        assert!(numbers.len() == 77 && numbers.iter().all(|&n| n < 1000));
        let link = |victims, loss| Link { flows: 10_000, victims, loss };
        assert_eq!([link(1000, 0.01).lost_packets(), link(10_000, 0.01).lost_packets()], [14_265, 30_241]);
        // A hundred flows lose half, or one packet each.
        assert_eq!([link(100, 0.5).lost_packets(), link(100, 1e-9).lost_packets()], [236_271, 100]);
    }

    /// With room enough each sketch decodes, and FlowRadar's losses are exact; without it none
    /// does.
    #[test]
    fn every_sketch_decodes() {
        let link = Link { flows: 300, victims: 100, loss: 0.01 };
        for sketch in [Sketch::Fermat, Sketch::Weir, Sketch::WeirClients, Sketch::FlowRadar, Sketch::LossRadar] {
            let items = link.items(sketch);
            assert!(link.decodes(sketch, 3 * items, 1) && link.difference(sketch, 3 * items, 2).decode(), "{sketch:?}");
            assert!(!link.decodes(sketch, items / 4, 1), "{sketch:?}");
        }
        assert!(link.flow_radar_exact(1500, 3));
        assert!(!link.flow_radar_exact(60, 3));
    }
}
