//! Flows that come in by a Poisson process, with measured sizes.

use super::math::ln;
use super::{Cdf, SplitMix64};

/// A flow to be sent from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it begins, in picoseconds.
    pub at: u64,
    /// The hosts, by number.
    pub from: u32,
    pub to: u32,
    /// Its payload.
    pub bytes: u32,
}

/// Flows without end from every host to the others, drawn uniformly, the earliest first.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rng: SplitMix64,
    hosts: u64,
    sizes: Cdf,
    /// Picoseconds between two flows.
    mean_gap: f64,
    at: f64,
}

impl Arrivals {
    /// Between `hosts` hosts, at least two. The payload takes the share `load` of the hosts' links,
    /// which take `byte` picoseconds for a byte.
    pub fn new(hosts: u32, byte: u64, sizes: Cdf, load: f64, seed: u64) -> Self {
        let mean_gap = sizes.mean_bytes() * byte as f64 / (load * f64::from(hosts));
        Self { rng: SplitMix64::new(seed), hosts: hosts.into(), sizes, mean_gap, at: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        self.at -= ln(1.0 - self.rng.unit()) * self.mean_gap;
        let from = self.rng.below(self.hosts);
        let to = (from + 1 + self.rng.below(self.hosts - 1)) % self.hosts;
        let bytes = (self.sizes.quantile(self.rng.unit()) as u32).max(1);
        Some(Arrival { at: self.at as u64, from: from as u32, to: to as u32, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload of a second is the load's share of what the links take, flows go to another host,
    /// and times rise.
    #[test]
    fn payload_takes_the_load() {
        for (cdf, load) in [(Cdf::Hadoop, 0.3), (Cdf::Cache, 0.8)] {
            let second = 1_000_000_000_000u64;
            // 10 Gbit/s.
            let flows: Vec<_> = Arrivals::new(8, 800, cdf, load, 5).take_while(|flow| flow.at < second).collect();
            let bytes: f64 = flows.iter().map(|flow| f64::from(flow.bytes)).sum();
            let share = bytes / (8.0 * 1.25e9) / load;
            assert!((0.9..1.1).contains(&share), "{cdf:?}: {share} by {} flows", flows.len());
            assert!(flows.is_sorted_by_key(|flow| flow.at));
            assert!(flows.iter().all(|flow| flow.from != flow.to && flow.from < 8 && flow.to < 8));
        }
    }
}
