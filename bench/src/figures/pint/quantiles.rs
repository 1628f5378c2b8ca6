//! Quantiles of latencies from what the packets of a flow carry, which PINT's Figures 9 and 11 share.

use weir::pisa::hash::HashFamily;
use weir::program::pint::dataplane::{Measured, Scheme};
use weir::program::pint::plan::Plan;
use weir::program::pint::query::{Query, Value};
use weir::program::pint::samples::Samples;
use weir::program::pint::values::dataplane::Codes;

use crate::hpcc::{Carried, MAX_HOPS, query};

/// The hop and the code that a packet carries, if it carries one.
pub type Told = Option<(usize, u16)>;

/// A latency query that has all packets.
pub struct Alone {
    scheme: Scheme,
    query: Query,
}

impl Alone {
    pub fn new(bits: u32, family: &HashFamily) -> Self {
        let query = query(Value::Latency, bits);
        let plan = Plan::new(&[query.demand()], 16).expect("one query fits");
        Self { scheme: Scheme::new(&[query], &plan, MAX_HOPS as u32, family), query }
    }

    pub fn codes(&self) -> &Codes {
        self.scheme.value(&self.query).expect("the query is there").code().codes()
    }

    /// The hops and codes behind the switches of a flow, by packet.
    pub fn told(&self, packets: &[Carried]) -> Vec<Told> {
        // The path's hashes, which no query needs here, are those of any switch.
        let switch = self.scheme.switch(0);
        let latency = self.scheme.value(&self.query).expect("the query is there");
        let told = |packet: &Carried| {
            let identity = packet.identity;
            let digest = (1..).zip(packet.latencies).fold(0, |digest, (hop, latency_ns)| {
                let measured = Measured { hop, identity, latency_ns, ..Measured::default() };
                self.scheme.encode(&switch, measured, digest)
            });
            latency.hop(identity, MAX_HOPS as u8, digest)
        };
        packets.iter().map(told).collect()
    }
}

/// The value at a rank from 0 to 1 of at least one value. Changes their order.
pub fn exact(values: &mut [u32], rank: f64) -> u32 {
    let place = (rank * values.len() as f64).ceil() as usize;
    *values.select_nth_unstable(place.clamp(1, values.len()) - 1).1
}

/// Relative errors of a quantile, one for each hop with a code in `told`: the quantile of the codes
/// against that of the latencies of all `packets`. `empty` are the samples of a hop before the first
/// packet.
pub fn errors(
    packets: &[Carried],
    told: impl Iterator<Item = Told>,
    codes: &Codes,
    rank: f64,
    empty: &Samples,
) -> Vec<f64> {
    let mut samples = vec![empty.clone(); MAX_HOPS];
    told.flatten().for_each(|(hop, code)| samples[hop - 1].add(code));
    let error = |(hop, samples): (usize, &Samples)| {
        let found = codes.number(Value::Latency, samples.quantile(rank)?);
        let mut latencies: Vec<_> = packets.iter().map(|packet| packet.latencies[hop]).collect();
        let exact = f64::from(exact(&mut latencies, rank));
        Some((found - exact).abs() / exact)
    };
    samples.iter().enumerate().filter_map(error).collect()
}

/// The mean of the errors of all flows of a seed, `None` without any.
pub fn mean(errors: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = errors.fold((0.0, 0), |(sum, count), error| (sum + error, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use weir::trace::SplitMix64;

    use super::*;

    /// The quantile of a hop whose latency never changes is a code beside it. Hops without a code have
    /// none.
    #[test]
    fn errors_are_those_of_each_hop() {
        let alone = Alone::new(8, &HashFamily::reproducible(1));
        let (mut rng, latencies) = (SplitMix64::new(1), [1000, 2000, 5000, 10_000, 50_000]);
        let packet = |_| Carried { identity: rng.next_u64() as u32, digest: 0, latencies };
        let packets: Vec<_> = (0..1000).map(packet).collect();
        let (told, none) = (alone.told(&packets), Samples::new(8, None));
        let shares: Vec<_> = (1..=5).map(|hop| told.iter().flatten().filter(|(of, _)| *of == hop).count()).collect();
        assert!(shares.iter().sum::<usize>() == 1000 && shares.iter().all(|share| (150..250).contains(share)));
        for (rank, space) in [(0.5, None), (0.99, None), (0.99, Some(100))] {
            let errors = errors(&packets, told.iter().copied(), alone.codes(), rank, &Samples::new(8, space));
            // A step is 1.6 %.
            assert!(errors.len() == 5 && errors.iter().all(|error| *error < 0.0165), "{errors:?}");
        }
        let two = told.iter().map(|told| told.filter(|(hop, _)| *hop < 3));
        assert_eq!(errors(&packets, two, alone.codes(), 0.5, &none).len(), 2);
    }

    #[test]
    fn a_rank_is_that_of_the_value_that_reaches_it() {
        let mut values: Vec<_> = (1..=100).rev().collect();
        assert_eq!([0.0, 0.01, 0.5, 0.501, 0.99, 1.0].map(|rank| exact(&mut values, rank)), [1, 1, 50, 51, 99, 100]);
        assert_eq!([mean([].into_iter()), mean([1.0, 2.0].into_iter())], [None, Some(1.5)]);
    }
}
