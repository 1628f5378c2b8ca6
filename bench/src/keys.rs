//! Keys in a row against random ones: how often a sketch of three rows decodes, how far off linear
//! counting is, and what HashPipe misses, with hashes that are linear, with index hashes and their
//! parts, and with hash functions as good as random ones.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use clap::Args;
use weir::pisa::hash::{Crc, HashFamily, HighRange, index_hash};
use weir::program::chamelemon::decoder::estimate::linear_counting;
use weir::trace::{Keys, Workload};
use weir::wire::{FlowKey, Tuple4};

use crate::heavy::mix;
use crate::naive::Oracle;

#[derive(Args)]
pub struct KeyModels {
    /// Draws of polynomials for each number of the table of decodings
    #[arg(long, default_value_t = 2000)]
    draws: u64,
    /// Draws of polynomials for each number of HashPipe's table
    #[arg(long, default_value_t = 10)]
    trials: u64,
}

/// Flows, and buckets of each of the three rows.
const SKETCHES: [(u32, u32); 3] = [(1000, 512), (5000, 3584), (300, 512)];
const ROWS: usize = 3;
/// Flows and counters for linear counting, as in the first array of ChameleMon's default
/// classifier.
const COUNTED: u32 = 20_000;
const COUNTERS: u32 = 32_768;
/// HashPipe's stages and slots, and the number of flows that it is asked for.
const STAGES: usize = 6;
const SLOTS: u32 = 750;
const TOP: usize = 300;

/// From a key to a slot of an array.
#[derive(Clone, Copy, PartialEq)]
enum Mix {
    /// The low bits of a CRC, a polynomial an array.
    Linear,
    /// The low bits of the sum of two CRCs.
    Low,
    /// Its high bits.
    Sum,
    /// The high bits of an index hash: what the switch does.
    Index,
    /// Independent of all else.
    Ideal,
}

impl Mix {
    const ALL: [Self; 5] = [Self::Linear, Self::Low, Self::Sum, Self::Index, Self::Ideal];

    fn name(self) -> &'static str {
        match self {
            Self::Linear => "CRC",
            Self::Low => "sum, low bits",
            Self::Sum => "sum, high bits",
            Self::Index => "index hash",
            Self::Ideal => "ideal",
        }
    }
}

/// The hash functions of one draw.
struct Hashes {
    crcs: Vec<Crc>,
    range: HighRange,
    draw: u64,
}

impl Hashes {
    fn new(draw: u64, slots: u32) -> Result<Self> {
        let family = HashFamily::reproducible(draw);
        let crcs = (0..=STAGES as u32).map(|i| Crc::new(family.derive("bench/keys", i))).collect();
        Ok(Self { crcs, range: HighRange::new(slots.try_into()?, 2), draw })
    }

    fn slot(&self, mixing: Mix, array: usize, key: Tuple4) -> usize {
        let (slots, bytes) = (self.range.slots(), key.bytes());
        let crc = |number: usize| self.crcs[number].hash(&bytes);
        let low = |hash: u32| hash & (u32::MAX >> (u32::BITS - self.range.bits()));
        let sum = || crc(0).wrapping_add(crc(1 + array));
        let slot = match mixing {
            Mix::Linear => low(crc(1 + array)) % slots,
            Mix::Low => low(sum()) % slots,
            Mix::Sum => self.range.slot(sum()),
            Mix::Index => self.range.slot(index_hash(crc(1 + array), crc(0))),
            Mix::Ideal => {
                let folded = mix((key.0 >> 64) as u64 ^ mix(key.0 as u64 ^ mix(self.draw ^ (array as u64) << 48)));
                (folded % u64::from(slots)) as u32
            }
        };
        slot as usize
    }
}

/// Whether three rows of buckets peel that hold these flows.
fn peels(flows: &[[usize; ROWS]], buckets: u32) -> bool {
    let mut count = vec![[0u32; ROWS]; buckets as usize];
    let mut sum = vec![[0usize; ROWS]; buckets as usize];
    for (number, slots) in flows.iter().enumerate() {
        for (row, &slot) in slots.iter().enumerate() {
            count[slot][row] += 1;
            sum[slot][row] ^= number;
        }
    }
    let single = |(slot, counts): (usize, &[u32; ROWS])| {
        counts.iter().enumerate().filter(|(_, count)| **count == 1).map(|(row, _)| (slot, row)).collect::<Vec<_>>()
    };
    let mut queue: Vec<_> = count.iter().enumerate().flat_map(single).collect();
    let mut left = flows.len();
    while let Some((slot, row)) = queue.pop() {
        if count[slot][row] != 1 {
            continue;
        }
        let flow = sum[slot][row];
        left -= 1;
        for (row, &slot) in flows[flow].iter().enumerate() {
            count[slot][row] -= 1;
            sum[slot][row] ^= flow;
            if count[slot][row] == 1 {
                queue.push((slot, row));
            }
        }
    }
    left == 0
}

/// A five-tuple of its own for each flow and draw.
fn key(keys: Keys, draw: u64, flow: u32) -> Tuple4 {
    let bits = |n: u64| mix(mix(draw ^ 0x6b65_7973) ^ u64::from(flow) << 2 ^ n);
    match keys {
        Keys::Random => Tuple4((u128::from(bits(0)) << 64 | u128::from(bits(1))) >> 24),
        _ => keys.tuple(draw, flow, 0.0).v4().unwrap_or_default(),
    }
}

impl KeyModels {
    pub fn run(&self) -> Result<()> {
        ensure!(self.draws > 0 && self.trials > 0, "--draws and --trials: at least one");
        println!("Share of {} draws that do not decode, three rows\n", self.draws);
        println!("| flows, buckets a row | keys | {} |", Mix::ALL.map(Mix::name).join(" | "));
        println!("| --- | --- | {} |", Mix::ALL.map(|_| "---").join(" | "));
        for (flows, buckets) in SKETCHES {
            for keys in Keys::ALL {
                let mut failed = Mix::ALL.map(|_| 0u64);
                for draw in 0..self.draws {
                    let hashes = Hashes::new(draw, buckets)?;
                    let all: Vec<_> = (0..flows).map(|flow| key(keys, draw, flow)).collect();
                    for (failed, mixing) in failed.iter_mut().zip(Mix::ALL) {
                        let rows = |&key: &Tuple4| std::array::from_fn(|row| hashes.slot(mixing, row, key));
                        let rows: Vec<[usize; ROWS]> = all.iter().map(rows).collect();
                        *failed += u64::from(!peels(&rows, buckets));
                    }
                }
                let shares = failed.map(|failed| format!("{:.2} %", 100.0 * failed as f64 / self.draws as f64));
                println!("| {flows}, {buckets} | {} | {} |", keys.name(), shares.join(" | "));
            }
        }
        self.count()?;
        println!("\nHashPipe, {STAGES} × {SLOTS}: of the {TOP} heaviest flows missed, {} draws\n", self.trials);
        println!("| workload | {} | {} |", Mix::Linear.name(), [Mix::Index, Mix::Ideal].map(Mix::name).join(" | "));
        println!("| --- | --- | --- | --- |");
        for keys in Keys::ALL {
            let workload = format!("isp/burst,flows=40k,packets=1M,keys={}", keys.name());
            let missed = [Mix::Linear, Mix::Index, Mix::Ideal].map(|mixing| self.missed(&workload, mixing));
            let [linear, index, ideal] = missed;
            println!("| `{workload}` | {:.2} % | {:.2} % | {:.2} % |", linear?, index?, ideal?);
        }
        Ok(())
    }

    /// How far off linear counting is.
    fn count(&self) -> Result<()> {
        println!(
            "\nLinear counting of {COUNTED} flows on {COUNTERS} counters: root mean square of the error (largest)\n"
        );
        println!("| keys | {} |", Mix::ALL.map(Mix::name).join(" | "));
        println!("| --- | {} |", Mix::ALL.map(|_| "---").join(" | "));
        for keys in Keys::ALL {
            let mut errors = Mix::ALL.map(|_| (0.0f64, 0.0f64));
            let draws = self.draws.min(500);
            for draw in 0..draws {
                let hashes = Hashes::new(draw, COUNTERS)?;
                for ((square, max), mixing) in errors.iter_mut().zip(Mix::ALL) {
                    let mut used = vec![false; COUNTERS as usize];
                    (0..COUNTED).for_each(|flow| used[hashes.slot(mixing, 0, key(keys, draw, flow))] = true);
                    let empty = used.iter().filter(|used| !**used).count();
                    let flows = linear_counting(used.len(), empty).unwrap_or(f64::INFINITY);
                    let off = (flows / f64::from(COUNTED) - 1.0).abs();
                    (*square, *max) = (*square + off * off / draws as f64, max.max(off));
                }
            }
            let cells = errors.map(|(square, max)| format!("{:.2} % ({:.1} %)", 100.0 * square.sqrt(), 100.0 * max));
            println!("| {} | {} |", keys.name(), cells.join(" | "));
        }
        Ok(())
    }

    /// The mean share of the heaviest flows that HashPipe misses, in per cent.
    fn missed(&self, workload: &str, mixing: Mix) -> Result<f64> {
        let mut missed = 0;
        for trial in 0..self.trials {
            let mut workload: Workload = workload.parse()?;
            workload.seed = 1 + trial;
            let (trace, hashes) = (workload.generate(), Hashes::new(trial, SLOTS)?);
            let keys: Vec<Tuple4> = trace.tuples().into_iter().filter_map(|tuple| tuple.v4()).collect();
            // A flow's slots are looked up, not computed for every packet.
            let slots: HashMap<Tuple4, [usize; STAGES]> =
                keys.iter().map(|&key| (key, std::array::from_fn(|stage| hashes.slot(mixing, stage, key)))).collect();
            let mut pipe = Oracle::new(STAGES, SLOTS as usize, |stage, key: Tuple4| slots[&key][stage]);
            trace.sequence.iter().for_each(|&flow| pipe.packet(keys[flow as usize], 1));
            let mut counts = HashMap::<Tuple4, u64>::new();
            for (key, count) in pipe.tables.iter().flatten().flatten() {
                *counts.entry(*key).or_default() += u64::from(*count);
            }
            let mut named: Vec<_> = counts.into_iter().collect();
            named.sort_unstable_by_key(|&(key, count)| (std::cmp::Reverse(count), key));
            named.truncate(TOP);
            let mut true_ones: Vec<_> = trace.sizes.iter().zip(&keys).collect();
            true_ones.sort_unstable_by_key(|&(&size, &key)| (std::cmp::Reverse(size), key));
            missed += true_ones[..TOP].iter().filter(|(_, key)| !named.iter().any(|(found, _)| found == *key)).count();
        }
        Ok(100.0 * missed as f64 / (TOP as f64 * self.trials as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peels_and_what_does_not() {
        assert!(peels(&[[0, 1, 2], [0, 1, 3], [4, 1, 2]], 5));
        assert!(!peels(&[[0, 1, 2], [0, 1, 2], [4, 4, 4]], 5), "two in all the same buckets");
        assert!(peels(&[], 1));
    }

    /// CRCs alone have the weakness.
    #[test]
    fn keys_in_a_row_decode_with_sums() {
        let failed = Mix::ALL.map(|mixing| {
            let fails = |draw: &u64| {
                let hashes = Hashes::new(*draw, 512).unwrap();
                let rows = |flow| std::array::from_fn(|row| hashes.slot(mixing, row, key(Keys::Scan, *draw, flow)));
                !peels(&(0..1000).map(rows).collect::<Vec<_>>(), 512)
            };
            (0..20).filter(fails).count()
        });
        assert!(failed[0] >= 15, "{failed:?}");
        assert!(failed[2..].iter().all(|&failed| failed <= 1), "{failed:?}");
    }
}
