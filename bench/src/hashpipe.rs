//! weir's own HashPipe, as the figures drive it: the dataplane that the switch runs, over PHVs, and
//! its bank at the end.
//!
//! Left open by the paper and taken from the authors' simulator: a stage has counters / stages
//! slots, rounded down.

use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Phv};
use weir::program::Dataplane;
use weir::program::hashpipe::{self, Config, HashPipeBank};
use weir::wire::{Headers, Net, Tuple4, Tuple6};

use crate::heavy::HeavyHitter;

pub struct HashPipe {
    program: hashpipe::HashPipeDataplane<Tuple4, Tuple6, 0>,
    /// What the registers are exchanged with to read them.
    bank: HashPipeBank<Tuple4, Tuple6>,
    phvs: Vec<Phv>,
}

impl HashPipe {
    /// The same `seed` gives the same hash functions.
    pub fn new(counters: usize, stages: usize, seed: u64) -> Self {
        Self::with(counters, stages, &HashFamily::reproducible(seed))
    }

    pub fn with(counters: usize, stages: usize, hashes: &HashFamily) -> Self {
        let number = |n: usize| u32::try_from(n).expect("a table that fits in memory");
        let slots = number((counters / stages).max(1));
        let config = Config { stages: number(stages), slots, slots6: Some(0), ..Config::default() };
        let mut program = hashpipe::HashPipeDataplane::new(&config, hashes);
        program.allocate();
        Self { program, bank: HashPipeBank::zeroed(&config), phvs: Vec::new() }
    }

    /// The sum of all counts. What a packet adds to it is 1 less the count that fell out of the
    /// last stage.
    pub fn total(&mut self) -> u64 {
        self.program.exchange(&mut self.bank);
        let total = self.bank.v4.0.iter().flat_map(|table| table.cells()).map(|&(_, count)| u64::from(count)).sum();
        self.program.exchange(&mut self.bank);
        total
    }

    /// The registers, stage by stage.
    fn tables(mut self) -> impl Iterator<Item = Vec<(Tuple4, u32)>> {
        self.program.exchange(&mut self.bank);
        self.bank.v4.0.into_iter().map(|table| table.cells().to_vec())
    }
}

impl HeavyHitter for HashPipe {
    fn packet(&mut self, key: Tuple4) {
        self.burst(&[key]);
    }

    fn burst(&mut self, keys: &[Tuple4]) {
        self.phvs.clear();
        self.phvs.extend(keys.iter().map(|&key| phv(key)));
        self.program.ingress(&mut self.phvs, BatchOrder::StageMajor);
    }

    fn read_out(self) -> Vec<(Tuple4, u64)> {
        let occupied = self.tables().flatten().filter(|&(_, count)| count > 0);
        occupied.map(|(key, count)| (key, count.into())).collect()
    }
}

/// A packet of a flow, as far as the programs look at it.
pub fn phv(Tuple4(bits): Tuple4) -> Phv {
    let headers = Headers {
        net: Net::Ipv4,
        src_ip: u128::from((bits >> 72) as u32),
        dst_ip: u128::from((bits >> 40) as u32),
        sport: (bits >> 24) as u16,
        dport: (bits >> 8) as u16,
        proto: bits as u8,
        ..Headers::default()
    };
    Phv { headers, wire_bytes: 64, ..Phv::default() }
}

#[cfg(test)]
mod tests {
    use weir::pisa::hash::{INIT, XOROUT, bitwise};
    use weir::trace::Workload;
    use weir::wire::FlowKey;

    use super::*;
    use crate::naive::Oracle;

    #[test]
    fn every_slot_is_the_oracles() {
        let trace = "isp/burst,flows=2000,packets=40000,seed=3".parse::<Workload>().unwrap().generate();
        let keys: Vec<Tuple4> = trace.sequence.iter().map(|&f| trace.workload.tuple(f).v4().unwrap()).collect();
        for (counters, stages, seed) in [(300, 6, 1), (1501, 4, 2), (3360, 8, 3), (5, 5, 4)] {
            let mut pipe = HashPipe::new(counters, stages, seed);
            keys.chunks(100).for_each(|keys| pipe.burst(keys));
            let hashes = HashFamily::reproducible(seed);
            let polynomials: Vec<_> =
                (0..stages as u32).map(|stage| hashes.derive(hashpipe::label(Net::Ipv4), stage)).collect();
            let slot = |stage: usize, key: Tuple4| {
                let hash = bitwise::crc(polynomials[stage], INIT, XOROUT, key.bytes().as_ref());
                hash as usize % (counters / stages)
            };
            let mut oracle = Oracle::new(stages, counters / stages, slot);
            keys.iter().for_each(|&key| oracle.packet(key, 1));
            let occupied = |cell: &(Tuple4, u32)| (cell.1 > 0).then_some(*cell);
            let tables: Vec<Vec<_>> = pipe.tables().map(|table| table.iter().map(occupied).collect()).collect();
            assert_eq!(tables, oracle.tables);
        }
    }

    /// One slot a stage: larger counts push smaller ones on, and the total loses what falls out of
    /// the last stage.
    #[test]
    fn the_total_tells_what_fell_out() {
        let mut pipe = HashPipe::new(3, 3, 1);
        [3, 3, 3, 2, 2, 1].into_iter().for_each(|key| pipe.packet(Tuple4(key)));
        assert_eq!(pipe.total(), 6);
        pipe.packet(Tuple4(4));
        assert_eq!(pipe.total(), 6, "1 of key 1 fell out");
        (0..4).for_each(|_| pipe.packet(Tuple4(4)));
        assert_eq!(pipe.total(), 10);
        pipe.packet(Tuple4(5));
        assert_eq!(pipe.total(), 9, "2 of key 2 fell out");
        assert_eq!(pipe.read_out(), [(Tuple4(5), 1), (Tuple4(4), 5), (Tuple4(3), 3)]);
    }
}
