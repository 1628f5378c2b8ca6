//! ChameleMon's dataplane against a naive reference, cell by cell, and two switches with a lossy
//! link between them.

mod names;
mod pauses;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use proptest::prelude::*;
use weir::forward::{Forward, Xconnect};
use weir::pisa::cpu::{self, Instructions};
use weir::pisa::hash::{HashFamily, INIT, Polynomial, XOROUT, bitwise};
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::chamelemon::decoder::Delta;
use weir::program::chamelemon::{
    Analysis, ChameleMon, ChameleMonBank, ChameleMonDataplane, Config, Counters, EncoderParameters, FINGERPRINT_BITS,
    FlowId, Naming, Partition, Parts, Schedule, Sketches,
};
use weir::program::{AnyRecord, Dataplane, ProgramConfig};
use weir::switch::{BURST, Burst, PortInfo, Role, Switch, Telemetry, TelemetryHeader, TxBursts};
use weir::telemetry::epoch::{Collecting, EpochClock, FullBank};
use weir::trace::{Frames, SplitMix64, Workload};
use weir::wire::{Frame, Headers, HeapFrame, Net, Shim};

use super::naive::{Bucket, Sums, Tower};

const PRIME: u32 = 4_294_967_291;

/// One packet: its flow, whether it enters here, whether it leaves, and the epoch and class of one
/// that came from afar. Epochs 0 and 1 are counted.
fn packet() -> impl Strategy<Value = Phv> {
    (0..60u128, 0..3u8, any::<bool>(), any::<bool>(), 0..5u32, 0..4u8).prop_map(
        |(flow, net, enters, leaves, epoch, class)| {
            let net = [Net::Ipv4, Net::Ipv6, Net::Other][usize::from(net)];
            // Addresses with their highest bits set, too.
            let src_ip = (flow * 0x0812_3457) & 0xffff_ffff;
            let headers =
                Headers { net, src_ip, dst_ip: flow % 9, sport: 0xff00 | flow as u16, proto: 17, ..Headers::default() };
            let disposition = if leaves { Disposition::ToHost } else { Disposition::ToFabric };
            let shim = Shim::new(1, 0, if enters { 0 } else { epoch }, class);
            Phv { headers, enters, disposition, shim, ..Phv::default() }
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    const TOWERS: [&str; 7] =
        ["8x7", "8x40+16x9", "16x30", "8x50+8x20+32x5", "32x16", "8x1+16x64", "8x9+8x8+8x7+8x1+16x9+16x5+32x3+32x2"];
    (
        proptest::sample::select(&TOWERS),
        2..5u32,
        0..3u32,
        [2..40u32, 2..40],
        [any::<u16>(), any::<u16>()],
        [0..9u32, 0..9],
        0..=65536u32,
    )
        .prop_map(|(tower, arrays, small, [upstream, downstream], cuts, thresholds, sample)| {
            let room = upstream.min(downstream);
            let ll = u32::from(cuts[0]) % (room + 1);
            let hl = u32::from(cuts[1]) % (room - ll + 1);
            Config {
                tower: tower.parse().unwrap(),
                arrays,
                small,
                upstream,
                downstream,
                hh: None,
                hl: Some(hl),
                ll,
                hh_threshold: thresholds[0] + thresholds[1],
                hl_threshold: thresholds[1].min((thresholds[0] + thresholds[1]).max(1)),
                sample,
                ..Config::default()
            }
        })
}

/// Encoders of which the parts are powers of two.
fn powers() -> impl Strategy<Value = Config> {
    let lengths = || proptest::sample::select(&[0u32, 512, 1024, 2048][..]);
    let of = (config(), lengths(), lengths(), lengths(), 1536..5000u32, 1024..5000u32);
    of.prop_filter_map("parts fit", |(config, hh, hl, ll, upstream, downstream)| {
        let fits = hh + hl + ll <= upstream && hl + ll <= downstream;
        let parts = (Some(hh), Some(hl));
        fits.then_some(Config { hh: parts.0, hl: parts.1, ll, upstream, downstream, parts: Parts::Powers, ..config })
    })
}

/// Everything by its definition: sums of bitwise CRCs with their halves joined, the highest bits,
/// remainders, exact counts.
struct Reference {
    config: Config,
    /// Of classifier arrays from 0 on, encoder rows from 8 on, then fingerprint, sampling, and what
    /// they share.
    polynomials: [Polynomial; 16],
    naming: Naming,
}

impl Reference {
    fn new(hashes: &HashFamily, config: &Config) -> Self {
        let polynomials = std::array::from_fn(|number| match number as u32 {
            level @ ..8 => hashes.derive("chamelemon/tower", level),
            number @ ..13 => hashes.derive("chamelemon/fermat", number - 8),
            13 => hashes.derive("chamelemon/fingerprint", 0),
            14 => hashes.derive("chamelemon/sample", 0),
            _ => hashes.derive("chamelemon/index/shared", 0),
        });
        Self { config: config.clone(), polynomials, naming: Naming::new(hashes) }
    }
}

impl Reference {
    fn hash(&self, number: usize, id: FlowId) -> u32 {
        let crc = |number| u64::from(bitwise::crc(self.polynomials[number], INIT, XOROUT, &id.bytes()));
        let sum = (crc(number) + crc(15)) % (1 << 32);
        let (high, low) = (sum / (1 << 16), sum % (1 << 16));
        ((high ^ low) * (1 << 16) + low) as u32
    }

    /// The highest bits of a hash, as many as give `spare` times the length or more, modulo the
    /// length.
    fn slot(&self, number: usize, id: FlowId, length: u32, spare: u64) -> usize {
        let length = u64::from(length);
        let mut values = 1u64;
        while values < if length.is_power_of_two() { length } else { spare * length } {
            values *= 2;
        }
        ((u64::from(self.hash(number, id)) * values / (1 << 32)) % length) as usize
    }

    fn fragments(&self, id: FlowId) -> [u32; 4] {
        let fingerprint = self.hash(13, id) / (1 << (32 - FINGERPRINT_BITS));
        let bytes = id.bytes();
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let [source, destination, ports] = [word(0), word(4), word(8)];
        let tops = (source >> 31) * 4 + (destination >> 31) * 2 + (ports >> 31);
        let last = (tops * 256 + u32::from(bytes[12])) * (1 << FINGERPRINT_BITS) + fingerprint;
        [source % (1 << 31), destination % (1 << 31), ports % (1 << 31), last]
    }

    /// Length and start of a part in a row, given the lengths in a full row.
    fn place(&self, row: u32, part: usize, lengths: &[u32]) -> (u32, u32) {
        let length = |full: u32| match full {
            0 => 0,
            _ if row < self.config.arrays => full,
            _ => (full >> self.config.small).max(1),
        };
        let is_before = |other: usize| match self.config.parts {
            Parts::Any => other < part,
            // The longest first; of equal ones in their order.
            Parts::Powers => (lengths[part], other) < (lengths[other], part),
        };
        let before = (0..lengths.len()).filter(|other| is_before(*other));
        (length(lengths[part]), before.map(|other| length(lengths[other])).sum())
    }

    fn bucket(&self, row: u32, part: usize, lengths: &[u32], id: FlowId) -> usize {
        let (length, start) = self.place(row, part, lengths);
        if self.config.parts == Parts::Powers && row < self.config.arrays {
            // As p4/chamelemon/t2na.p4 has it: the part's own bits, and behind them the highest bits of the
            // 16 that the halves of the sum give.
            assert_eq!(start % length, 0);
            let joined = self.hash(8 + row as usize, id) >> 16;
            return ((start / length) << length.ilog2() | joined >> (16 - length.ilog2())) as usize;
        }
        start as usize + self.slot(8 + row as usize, id, length, 4)
    }
}

/// Cells of rows of registers, as the oracle's buckets count.
fn cells(rows: &[weir::program::chamelemon::RowRegisters]) -> Vec<Vec<([u32; 4], i128)>> {
    let row = |row: &weir::program::chamelemon::RowRegisters| {
        let cell = |&[a, b, c, d, count]: &[u32; 5]| ([a, b, c, d], count.into());
        row.cells().iter().map(cell).collect()
    };
    rows.iter().map(row).collect()
}

fn tower_cells(tower: &[Counters]) -> Vec<Vec<u64>> {
    let cells = |counters: &Counters| -> Vec<u64> {
        match counters {
            Counters::Bits8(registers) => registers.cells().iter().map(|&cell| cell.into()).collect(),
            Counters::Bits16(registers) => registers.cells().iter().map(|&cell| cell.into()).collect(),
            Counters::Bits32(registers) => registers.cells().iter().map(|&cell| cell.into()).collect(),
        }
    };
    tower.iter().map(cells).collect()
}

fn counters(sums: &[Vec<Bucket>]) -> Vec<Vec<([u32; 4], i128)>> {
    sums.iter().map(|row| row.iter().map(|bucket| bucket.counters(PRIME)).collect()).collect()
}

/// The registers that a run leaves.
fn run(
    config: &Config,
    hashes: &HashFamily,
    packets: &mut [Phv],
    (burst, as_entered): (usize, bool),
    (order, instructions): (BatchOrder, Instructions),
) -> Box<ChameleMonBank> {
    // Another test may set another limit meanwhile: all forms have to do the same.
    cpu::limit(instructions);
    let mut program = ChameleMonDataplane::new(config, hashes).unwrap();
    program.allocate();
    for burst in packets.chunks_mut(burst) {
        program.run_ingress(burst, order);
        match as_entered {
            true => program.run_egress_as_entered(burst, order),
            false => program.run_egress(burst, order),
        }
    }
    let mut bank = program.spare();
    program.exchange(bank.as_mut());
    program.exchange_egress(bank.as_mut());
    let bank: Box<dyn std::any::Any> = bank;
    bank.downcast().unwrap()
}

proptest! {
    #[test]
    fn every_cell_is_the_oracles(
        config in prop_oneof![2 => config(), 1 => powers()],
        seed in 0u64..1000,
        mut packets in proptest::collection::vec(packet(), 0..500),
        burst in (1..130usize, any::<bool>()),
        stage_major: bool,
        instructions in proptest::sample::select(Instructions::value_variants()),
    ) {
        let hashes = HashFamily::reproducible(seed);
        let order = if stage_major { BatchOrder::StageMajor } else { BatchOrder::PacketMajor };
        let reference = Reference::new(&hashes, &config);
        let Partition { hh, hl, ll } = config.parameters().partition;
        prop_assert!(config.validate().is_ok());
        let (up, down) = ([ll, hl, hh], [ll, hl]);
        let shape = config.shape();
        let widths = |buckets: u32, halves: usize| -> Vec<usize> {
            (0..shape.rows()).map(|row| halves * shape.cells(row, buckets) as usize).collect()
        };
        let arrays: Vec<_> = config.tower.0.iter().map(|level| (level.counters as usize, level.width.bits())).collect();
        let lengths: Vec<_> = arrays.iter().map(|&(length, _)| length as u32).collect();
        let mut tower = Tower::new(&arrays, |level, id| reference.slot(level, id, lengths[level], 64));
        let fragments = |(_, id)| reference.fragments(id);
        let mut upstream = Sums::new(
            &widths(config.upstream, 1),
            |row, (part, id): (usize, FlowId)| reference.bucket(row as u32, part, &up, id),
            fragments,
        );
        let half = |row: usize| shape.cells(row as u32, config.downstream) as usize;
        let downstream_fragments = |(_, _, id)| reference.fragments(id);
        let mut downstream = Sums::new(
            &widths(config.downstream, 2),
            |row, (bit, part, id): (bool, usize, FlowId)| {
                usize::from(bit) * half(row) + reference.bucket(row as u32, part, &down, id)
            },
            downstream_fragments,
        );
        let (mut expected, mut strays, mut several) = (Vec::new(), BTreeMap::new(), 0);
        for phv in &packets {
            let mut class = phv.shim.class();
            if let Some(id) = reference.naming.id(&phv.headers) {
                if phv.enters {
                    let size = tower.packet(id).unwrap_or(u64::MAX);
                    let sampled = reference.hash(14, id) >> 16 < config.sample;
                    let part = match size {
                        _ if size >= config.hh_threshold.into() => 3,
                        _ if size >= config.hl_threshold.into() => 2,
                        _ if sampled => 1,
                        _ => 0,
                    };
                    let encoded = part > 0 && up[part - 1] > 0;
                    if encoded {
                        upstream.insert((part - 1, id), 1);
                    }
                    // Candidates for heavy hitters leave among the heavy losses.
                    class = if encoded && (part < 3 || up[1] > 0) { part.min(2) as u8 } else { 0 };
                }
                // 3 is one of several.
                let exit = usize::from(class);
                if phv.disposition.leaves_network() && exit == 3 && phv.shim.epoch() < 2 {
                    several += 1;
                } else if phv.disposition.leaves_network() && exit > 0 && phv.shim.epoch() < 2 && down[exit - 1] > 0 {
                    downstream.insert((phv.shim.epoch() == 1, exit - 1, id), 1);
                } else if phv.disposition.leaves_network() && exit > 0 {
                    *strays.entry(phv.shim.epoch()).or_insert(0) += 1;
                }
            }
            expected.push(class);
        }
        let bank = run(&config, &hashes, &mut packets, burst, (order, instructions));
        prop_assert_eq!(tower_cells(&bank.tower), tower.levels);
        prop_assert_eq!(cells(&bank.upstream), counters(&upstream.rows));
        prop_assert_eq!(cells(&bank.downstream), counters(&downstream.rows));
        prop_assert_eq!(bank.read().strays.by_epoch().clone(), strays);
        prop_assert_eq!(bank.read().unfollowed, several);
        prop_assert_eq!(packets.iter().map(|phv| phv.shim.class()).collect::<Vec<_>>(), expected);
    }

    /// What is decoded of a candidate is never less than the truth, and no more than the widest
    /// counters would say if they had no end. T_h may lie above what they can say.
    #[test]
    fn decoded_sizes_hold_at_every_threshold(
        tower in proptest::sample::select(&["8x4096", "8x512+8x300", "8x2048+16x512", "16x64", "8x9"]),
        threshold in 0..700u32,
        sizes in proptest::collection::vec(1..600u64, 1..20),
        seed in 0u64..1000,
    ) {
        let config = Config { tower: tower.parse().unwrap(), hh_threshold: threshold, ..Config::default() };
        let (hashes, mut rng) = (HashFamily::reproducible(seed), SplitMix64::new(seed));
        let reference = Reference::new(&hashes, &config);
        let headers = |flow: usize| {
            let src_ip = u128::from(0x9e37_79b1u32.wrapping_mul(flow as u32));
            Headers { net: Net::Ipv4, src_ip, dst_ip: 9, proto: 17, ..Headers::default() }
        };
        let id = |flow| reference.naming.id(&headers(flow)).unwrap();
        let mut left = sizes.clone();
        let mut packets = Vec::new();
        while left.iter().any(|&left| left > 0) {
            let flow = rng.below(left.len() as u64) as usize;
            let burst = left[flow].min(1 + rng.below(40));
            left[flow] -= burst;
            let phv = Phv { headers: headers(flow), enters: true, ..Phv::default() };
            packets.extend((0..burst).map(|_| phv));
        }
        let max = config.tower.0.iter().map(|level| level.width).max().unwrap();
        let widest = config.tower.0.iter().enumerate().filter(|(_, level)| level.width == max);
        let counted: Vec<u64> = widest
            .map(|(number, level)| {
                let counter = |flow| reference.slot(number, id(flow), level.counters, 64);
                let counters: Vec<usize> = (0..sizes.len()).map(counter).collect();
                let sum = |mine: &usize| counters.iter().zip(&sizes).filter(|(at, _)| *at == mine).map(|(_, size)| size).sum();
                counters.iter().map(sum).collect::<Vec<u64>>()
            })
            .reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.min(b)).collect())
            .unwrap();
        let mut sketches = run(&config, &hashes, &mut packets, (32, true), (BatchOrder::PacketMajor, Instructions::Avx512)).read();
        // As of a switch that was ordered so.
        sketches.parameters.hh_threshold = threshold;
        let min = sketches.hh_threshold();
        prop_assert!(min < 1 << max.bits());
        let analysis = Analysis::new(sketches);
        prop_assert!(analysis.hh().complete);
        for (flow, (&size, &counted)) in sizes.iter().zip(&counted).enumerate() {
            match analysis.decoded_size(id(flow)) {
                Some(decoded) => prop_assert!((size..=counted).contains(&decoded), "{} of {} to {}", decoded, size, counted),
                None => prop_assert!(size < min.into()),
            }
        }
        let candidates = analysis.candidates_sized().count() as f64;
        if let Some(distribution) = analysis.distribution() {
            prop_assert!((distribution.tail(min) - candidates).abs() < 1e-6, "{} {}", distribution.tail(min), candidates);
        }
    }

    /// The sketches of two replicas add up to those of one that saw all packets, when no threshold
    /// depends on who saw what.
    #[test]
    fn replicas_add_up(packets in proptest::collection::vec((packet(), any::<bool>()), 0..300)) {
        let config = Config {
            tower: "16x64+32x16".parse().unwrap(), upstream: 64, downstream: 64, hl: Some(30), hh_threshold: 0, ..Config::default()
        };
        let hashes = HashFamily::reproducible(4);
        let sketches = |which: Option<bool>| {
            let wanted = packets.iter().filter(|(_, replica)| which.is_none_or(|which| *replica == which));
            let mut packets: Vec<_> = wanted.map(|(phv, _)| *phv).collect();
            run(&config, &hashes, &mut packets, (32, true), (BatchOrder::PacketMajor, Instructions::Avx512)).read()
        };
        let mut sum = sketches(Some(false));
        sum.merge(&sketches(Some(true))).unwrap();
        prop_assert_eq!(sum, sketches(None));
    }
}

/// A reconfiguration waits for its epoch, and for fresh registers.
#[test]
fn parameters_change_between_epochs() {
    let config = Config::default();
    let mut program = ChameleMonDataplane::new(&config, &HashFamily::reproducible(1)).unwrap();
    let schedule = Schedule::new(config.clone(), config.parameters());
    program.follow(&schedule);
    let before = *program.parameters();
    let after = EncoderParameters { partition: Partition { hh: 1024, hl: 2560, ll: 512 }, hl_threshold: 9, ..before };
    program.enter(7, true);
    schedule.update(9, after).unwrap();
    program.enter(8, true);
    assert_eq!(*program.parameters(), before);
    program.enter(9, false);
    assert_eq!(*program.parameters(), before, "the registers ran on");
    program.enter(10, true);
    assert_eq!(*program.parameters(), after);
    program.prepare(11);
    schedule.update(11, before).unwrap();
    program.enter(11, true);
    assert_eq!(*program.parameters(), after, "the order came when its epoch was about to begin");
    program.enter(12, true);
    assert_eq!(*program.parameters(), before);
}

const EPOCH: u64 = 1_000_000;
const TRANSIT: u64 = 200_000;

fn built(config: &Config, hashes: &HashFamily) -> Box<dyn Dataplane> {
    ProgramConfig::new::<ChameleMon>(config.clone()).build("s", hashes).unwrap()
}

/// A switch whose ports 0 and 1 are joined.
fn switch(
    roles: [Role; 2],
    config: &Config,
    hashes: &HashFamily,
    telemetry_header: TelemetryHeader,
) -> (Switch, Collecting) {
    let port = |role| PortInfo {
        role,
        mtu: 1600,
        up: Arc::new(AtomicBool::new(true)),
        mac: Arc::default(),
        inside: Arc::default(),
    };
    let forward = Forward::Xconnect(Xconnect::new(&[(0, 1)]).unwrap());
    let clock = EpochClock::new(Some(EPOCH)).with_transit(TRANSIT);
    let (telemetry, collecting) = Telemetry::new(vec![built(config, hashes)], clock, 4);
    let switch = Switch::new(roles.map(port).to_vec(), telemetry, forward, BatchOrder::PacketMajor);
    (switch.with_telemetry_header(telemetry_header), collecting)
}

fn through(switch: &mut Switch, frames: Vec<HeapFrame>, now: u64) -> Vec<HeapFrame> {
    let mut out = TxBursts::new(2);
    let mut left = Vec::new();
    let mut frames = frames.into_iter().peekable();
    while frames.peek().is_some() {
        let mut burst: Burst<_> = frames.by_ref().take(BURST).collect();
        switch.process(0, &mut burst, now, &mut out);
        left.extend(out.queues().flat_map(|(_, queue)| queue.drain(..).collect::<Vec<_>>()));
    }
    left
}

/// The records that a switch has sent at its end, by epoch.
fn records(switch: &mut Switch, collecting: &Collecting) -> BTreeMap<u64, Sketches> {
    switch.finish();
    collected(collecting)
}

/// Those that it has sent by now. It gets its registers back.
fn collected(collecting: &Collecting) -> BTreeMap<u64, Sketches> {
    let sketches = |record: AnyRecord| *record.into::<Sketches>().expect("ChameleMon's record");
    let take = |FullBank { last_epoch, mut bank, .. }: FullBank| {
        let record = (last_epoch, sketches(bank.record()));
        bank.clear();
        let _ = collecting[0].spares.try_send(bank);
        record
    };
    collecting[0].full.try_iter().map(take).collect()
}

/// Frames of a workload with their flows, of both families.
fn frames(seed: u64) -> Vec<(weir::wire::Flow, Vec<u8>)> {
    let workload: Workload = format!("isp/burst,flows=400,packets=6000,seed={seed},ipv6=0.3").parse().unwrap();
    let trace = workload.generate();
    let mut flows = trace.sequence.iter().map(|&flow| trace.workload.tuple(flow).flow());
    let mut all = Vec::new();
    trace
        .for_each_frame(&Frames::default(), |_, bytes| {
            all.push((flows.next().unwrap(), bytes.to_vec()));
            Ok::<(), ()>(())
        })
        .unwrap();
    all
}

/// Packets enter at one switch in epoch 4, some are lost on the link, the last ones leave the other
/// switch in epoch 5. Those that leave when the transit time is over are counted, and look lost.
#[test]
fn losses_between_two_switches() {
    for (seed, small, telemetry_header) in
        [(1, 0, TelemetryHeader::Shim), (2, 3, TelemetryHeader::Shim), (3, 0, TelemetryHeader::Dscp)]
    {
        let config = Config { hh_threshold: 20, hl_threshold: 4, ll: 512, hl: Some(1024), small, ..Config::default() };
        let hashes = HashFamily::reproducible(seed);
        let (mut first, from_first) = switch([Role::Host, Role::Fabric], &config, &hashes, telemetry_header);
        let (mut last, from_last) = switch([Role::Fabric, Role::Host], &config, &hashes, telemetry_header);
        let frames = frames(seed);
        let entered = frames.iter().map(|(_, bytes)| HeapFrame::new(bytes)).collect();
        let on_link = through(&mut first, entered, 4 * EPOCH);
        assert_eq!(on_link.len(), frames.len());
        let mut lost = BTreeMap::new();
        let mut arriving = Vec::new();
        for (number, (frame, (flow, _))) in on_link.into_iter().zip(&frames).enumerate() {
            if number % 19 == 3 {
                *lost.entry(*flow).or_insert(0u64) += 1;
            } else {
                arriving.push(frame);
            }
        }
        let too_late = arriving.split_off(arriving.len() - 3);
        let late = arriving.split_off(arriving.len() - 700);
        // The last switch's clock is behind.
        let early = arriving.drain(..100).collect();
        let mut left = through(&mut last, early, 4 * EPOCH - TRANSIT / 2);
        left.extend(through(&mut last, arriving, 4 * EPOCH + 10));
        left.extend(through(&mut last, late, 5 * EPOCH + TRANSIT - 1));
        left.extend(through(&mut last, too_late, 5 * EPOCH + TRANSIT));
        for (_, (flow, _)) in frames.iter().enumerate().filter(|(number, _)| number % 19 != 3).rev().take(3) {
            *lost.entry(*flow).or_insert(0u64) += 1;
        }
        let kept = frames.iter().enumerate().filter(|(number, _)| number % 19 != 3).map(|(_, (_, bytes))| bytes);
        assert!(left.iter().map(|frame| frame.bytes()).eq(kept), "no host sees what the link carries");
        let entering = records(&mut first, &from_first);
        let leaving = records(&mut last, &from_last);
        let analysis = Analysis::new(entering[&4].clone());
        assert!(analysis.hh().complete);
        let mut delta = Delta::entered(&analysis).unwrap();
        delta.left(&leaving[&3], false).unwrap();
        delta.left(&leaving[&4], false).unwrap();
        let strays =
            leaving.iter().flat_map(|(&epoch, sketches)| sketches.strays.epochs(epoch).map(move |of| (epoch, of)));
        assert_eq!(strays.collect::<Vec<_>>(), [(5, (4, 3))]);
        let losses = delta.decode();
        assert!(losses.decoded);
        let id = |flow| entering[&4].id(flow).unwrap();
        let expected: BTreeMap<_, _> = lost.iter().map(|(flow, packets)| (id(flow), *packets)).collect();
        let found: BTreeMap<_, _> = losses.flows.iter().map(|loss| (loss.id, loss.lost)).collect();
        assert_eq!(found, expected);
    }
}

/// Packets are held back between two switches, whose clocks differ, for up to 20 epochs. What an
/// epoch seems to have lost are the packets that are told as its strays, flow by flow no more and
/// no less; no epoch has gained any.
#[test]
fn a_packet_counts_in_its_own_epoch_or_in_none() {
    for seed in 0..12 {
        let mut rng = SplitMix64::new(seed);
        let config = Config { hh_threshold: 20, ..Config::default() };
        let hashes = HashFamily::reproducible(seed);
        let (mut first, from_first) = switch([Role::Host, Role::Fabric], &config, &hashes, TelemetryHeader::Shim);
        let (mut last, from_last) = switch([Role::Fabric, Role::Host], &config, &hashes, TelemetryHeader::Shim);
        let frames: Vec<_> = frames(seed).into_iter().take(600).collect();
        let skew = rng.below(3 * EPOCH) as i64 - 3 * EPOCH as i64 / 2;
        let (mut entered, mut left) = (BTreeMap::new(), BTreeMap::new());
        let mut under_way: BTreeMap<u64, Vec<HeapFrame>> = BTreeMap::new();
        for number in 40..130 {
            let now = number * EPOCH / 2 + 7;
            if number < 80 {
                let sent = frames.iter().map(|(_, bytes)| HeapFrame::new(bytes)).collect();
                for frame in through(&mut first, sent, now) {
                    let late = if rng.below(20) > 0 { 0 } else { rng.below(20 * EPOCH) };
                    under_way.entry(now + late).or_default().push(frame);
                }
            }
            first.tick(now);
            let later = under_way.split_off(&(now + 1));
            for (_, frames) in std::mem::replace(&mut under_way, later) {
                through(&mut last, frames, now.saturating_add_signed(skew));
            }
            last.tick(now.saturating_add_signed(skew));
            entered.append(&mut collected(&from_first));
            left.append(&mut collected(&from_last));
        }
        let strays = |of: u64| {
            let told = left.iter().flat_map(|(&epoch, sketches)| sketches.strays.epochs(epoch));
            told.filter(|(epoch, _)| *epoch == of).map(|(_, packets)| packets as i64).sum::<i64>()
        };
        assert!(left.values().all(|sketches| sketches.strays.elsewhere() == 0));
        let mut all = 0;
        for epoch in 20..40u64 {
            let mut delta = Delta::entered(&Analysis::new(entered[&epoch].clone())).unwrap();
            for record in [epoch - 1, epoch] {
                left.get(&record).into_iter().for_each(|record| delta.left(record, epoch & 1 == 1).unwrap());
            }
            let losses = delta.decode();
            assert!(losses.decoded && losses.gained_packets == 0, "{seed}: {epoch}");
            let missing = losses.lost_packets as i64;
            assert_eq!(missing, strays(epoch), "{seed}: {epoch}");
            all += missing;
        }
        assert!(all > 100);
    }
}

/// One switch alone: what its own ports do not let out is lost, and nothing else.
#[test]
fn losses_within_one_switch() {
    let config = Config { hh_threshold: 20, ..Config::default() };
    let port = |mtu| PortInfo {
        role: Role::Host,
        mtu,
        up: Arc::new(AtomicBool::new(true)),
        mac: Arc::default(),
        inside: Arc::default(),
    };
    let ports = vec![port(1600), port(1600)];
    let up = ports[1].up.clone();
    let forward = Forward::Xconnect(Xconnect::new(&[(0, 1)]).unwrap());
    let programs = vec![built(&config, &HashFamily::reproducible(5))];
    let (telemetry, collecting) = Telemetry::new(programs, EpochClock::new(Some(EPOCH)), 4);
    let mut switch = Switch::new(ports, telemetry, forward, BatchOrder::StageMajor);
    let mut lost = BTreeMap::new();
    for (number, chunk) in frames(5).chunks(BURST).enumerate() {
        let open = number % 7 != 2;
        up.store(open, std::sync::atomic::Ordering::Relaxed);
        let left = through(&mut switch, chunk.iter().map(|(_, bytes)| HeapFrame::new(bytes)).collect(), EPOCH);
        assert_eq!(left.len(), if open { chunk.len() } else { 0 });
        for (flow, _) in chunk.iter().filter(|_| !open) {
            *lost.entry(*flow).or_insert(0u64) += 1;
        }
    }
    let record = records(&mut switch, &collecting).remove(&1).unwrap();
    let expected: BTreeMap<_, _> = lost.iter().map(|(flow, packets)| (record.id(flow).unwrap(), *packets)).collect();
    let losses = Analysis::new(record).losses();
    assert!(losses.decoded);
    assert_eq!(losses.flows.iter().map(|loss| (loss.id, loss.lost)).collect::<BTreeMap<_, _>>(), expected);
}
