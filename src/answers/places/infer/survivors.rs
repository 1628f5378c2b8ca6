//! Flows that lost nothing, for a set of failed members. Flows that may have crossed the same failed members are put
//! together by class of size, and each class has the mean size of its flows: so a round of the fit takes no longer
//! in a larger network.

use std::collections::BTreeMap;

use super::WRONG_PATHS;
use super::fit::Model;
use super::trials::size_class;

/// Survivors that expect fewer lost packets tell little of their path.
const TELLING: f64 = 0.5;

/// The failed members that a path crosses: a bit for each, in the order of the set, which has at most 32.
type Crossed = u32;

/// Flows by size: packets of one, and number of flows.
type Sizes = Vec<(f64, f64)>;

/// Flows that may have crossed a failed member, and lost nothing.
pub struct Survivors {
    /// Those whose path is believed, by what it crosses.
    believed: Vec<(Crossed, Sizes)>,
    /// The others, by what the paths between their two switches cross, each with the number of such paths.
    others: Vec<(Vec<(Crossed, f64)>, Sizes)>,
}

/// Sums of packets and flows, by class of size.
#[derive(Default)]
struct Sums(BTreeMap<u32, (f64, f64)>);

impl Sums {
    fn add(&mut self, sizes: &[(f64, f64)]) {
        for (sent, flows) in sizes {
            let (packets, number) = self.0.entry(size_class(*sent)).or_default();
            *packets += sent * flows;
            *number += flows;
        }
    }

    fn sizes(self) -> Sizes {
        self.0.into_values().map(|(packets, flows)| (packets / flows, flows)).collect()
    }
}

impl Survivors {
    /// Of these failed members, and the pairs of switches that have a path across one of them.
    pub fn new(model: &Model<'_>, failed: &[usize], pairs: impl Iterator<Item = usize>) -> Self {
        let mut bits: Vec<Crossed> = vec![0; model.trials.members];
        failed.iter().enumerate().for_each(|(bit, member)| bits[*member] = 1 << bit);
        let mut believed: BTreeMap<Crossed, Sums> = BTreeMap::new();
        let mut others: BTreeMap<Vec<(Crossed, u32)>, Sums> = BTreeMap::new();
        for ends in pairs {
            let mut paths: BTreeMap<Crossed, u32> = BTreeMap::new();
            for path in &model.trials.ends[ends] {
                let crossed = model.trials.paths[*path].iter().fold(0, |crossed, member| crossed | bits[*member]);
                *paths.entry(crossed).or_default() += 1;
                if crossed != 0 {
                    believed.entry(crossed).or_default().add(model.on_path[*path]);
                }
            }
            if !model.between[ends].is_empty() {
                others.entry(paths.into_iter().collect()).or_default().add(model.between[ends]);
            }
        }
        let number = |paths: Vec<(Crossed, u32)>| {
            paths.into_iter().map(|(crossed, paths)| (crossed, f64::from(paths))).collect()
        };
        Self {
            believed: believed.into_iter().map(|(crossed, sums)| (crossed, sums.sizes())).collect(),
            others: others.into_iter().map(|(paths, sums)| (number(paths), sums.sizes())).collect(),
        }
    }

    /// For each failed member the packets that are counted as having reached it, and cannot have crossed it.
    /// `survive` has the logarithms of the probabilities that failed members let a packet through.
    pub fn elsewhere(&self, survive: &[f64]) -> Vec<f64> {
        let mut elsewhere = vec![0.0; survive.len()];
        let mut add = |crossed: Crossed, packets: f64| {
            bits(crossed).for_each(|bit| elsewhere[bit] += packets);
        };
        for (crossed, sizes) in &self.believed {
            let through = through(*crossed, survive);
            for (sent, flows) in sizes.iter().filter(|(sent, _)| -through * sent > TELLING) {
                let taken = (1.0 - WRONG_PATHS) * (through * sent).exp();
                add(*crossed, sent * flows * WRONG_PATHS / (taken + WRONG_PATHS));
            }
        }
        for (paths, sizes) in &self.others {
            let number: f64 = paths.iter().map(|(_, paths)| paths).sum();
            for (sent, flows) in sizes {
                let taken = |crossed: Crossed| (through(crossed, survive) * sent).exp();
                let sum: f64 = paths.iter().map(|(crossed, paths)| paths * taken(*crossed)).sum();
                for (crossed, paths) in paths.iter().filter(|(of, _)| -through(*of, survive) * sent > TELLING) {
                    let share = taken(*crossed) / sum.max(f64::MIN_POSITIVE);
                    add(*crossed, sent * flows * paths * (1.0 / number - share));
                }
            }
        }
        elsewhere
    }

    /// The log likelihood that they lost nothing at failed members.
    pub fn log_likelihood(&self, survive: &[f64]) -> f64 {
        let believed = self.believed.iter().flat_map(|(crossed, sizes)| {
            let through = through(*crossed, survive);
            sizes
                .iter()
                .map(move |(sent, flows)| flows * ((1.0 - WRONG_PATHS) * (through * sent).exp() + WRONG_PATHS).ln())
        });
        let others = self.others.iter().flat_map(|(paths, sizes)| {
            let number: f64 = paths.iter().map(|(_, paths)| paths).sum();
            sizes.iter().map(move |(sent, flows)| {
                let each = paths.iter().map(|(crossed, paths)| paths * (through(*crossed, survive) * sent).exp());
                flows * (each.sum::<f64>() / number).max(f64::MIN_POSITIVE).ln()
            })
        });
        believed.sum::<f64>() + others.sum::<f64>()
    }
}

fn bits(crossed: Crossed) -> impl Iterator<Item = usize> {
    (0..Crossed::BITS as usize).filter(move |bit| crossed >> bit & 1 == 1)
}

/// The logarithm of the probability that all members that are crossed let a packet through.
fn through(crossed: Crossed, survive: &[f64]) -> f64 {
    bits(crossed).map(|bit| survive[bit]).sum()
}
