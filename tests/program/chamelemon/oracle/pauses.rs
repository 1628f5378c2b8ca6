//! Two switches whose drivers stand still now and then, between two rounds or in the midst of one.
//! No packet is lost, and no epoch of which nothing else is told seems to have lost or gained any.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Between two rounds of a driver.
const ROUND: u64 = EPOCH / 16;
/// Packets that enter in a round, of which every fourth has any.
const PACKETS: usize = 120;
const ROUNDS: u64 = 50 * EPOCH / ROUND;

/// A switch with a driver that does what the worker does.
struct Driven {
    switch: Switch,
    collecting: Collecting,
    records: BTreeMap<u64, Sketches>,
    arrived: BTreeMap<u64, Vec<HeapFrame>>,
    last: u64,
    handled: u64,
    waiting: Option<u64>,
    /// It stands still until then; in the midst of a round that began at the second time.
    pause: Option<(u64, Option<u64>)>,
}

impl Driven {
    fn new((mut switch, collecting): (Switch, Collecting)) -> Self {
        switch.tick(0);
        let (records, arrived) = (BTreeMap::new(), BTreeMap::new());
        Self { switch, collecting, records, arrived, last: 0, handled: 0, waiting: None, pause: None }
    }

    /// What comes out at `now`. A new pause begins when `longest` says so.
    fn step(&mut self, now: u64, pause: Option<(u64, bool)>) -> Vec<HeapFrame> {
        let mut clock = now;
        match self.pause {
            Some((until, _)) if now < until => return Vec::new(),
            Some((_, Some(began))) => clock = began,
            _ => {}
        }
        if let (None, Some((length, in_a_round))) = (self.pause, pause) {
            self.pause = Some((now + length, in_a_round.then_some(now)));
            return Vec::new();
        }
        self.pause = None;
        let later = self.arrived.split_off(&(now + 1));
        let frames: Vec<_> = std::mem::replace(&mut self.arrived, later).into_values().flatten().collect();
        self.round(clock, frames)
    }

    fn round(&mut self, clock: u64, frames: Vec<HeapFrame>) -> Vec<HeapFrame> {
        if clock - self.last > self.switch.longest_wait() {
            self.switch.stood_still(self.last, clock, self.handled);
            self.waiting.get_or_insert(self.last);
        }
        (self.last, self.handled) = (clock, frames.len() as u64);
        if let Some(since) = self.waiting {
            self.switch.waited(0, &frames, since, clock);
        }
        if frames.is_empty() {
            self.waiting = None;
        }
        let left = through(&mut self.switch, frames, clock);
        self.switch.tick(clock);
        self.records.append(&mut collected(&self.collecting));
        left
    }

    /// The epochs that its records tell packets of.
    fn told(&self, telemetry_header: TelemetryHeader) -> BTreeSet<u64> {
        let epochs = self.records.iter().flat_map(|(&last, sketches)| sketches.strays.epochs(last));
        let also = if telemetry_header == TelemetryHeader::Dscp { 2 } else { 0 };
        epochs.flat_map(|(epoch, _)| [epoch, epoch + also]).collect()
    }
}

/// Epochs of which all seems known, and those of which packets are told.
fn pauses(seed: u64, telemetry_header: TelemetryHeader, longest: u64) -> [usize; 2] {
    let mut rng = SplitMix64::new(seed);
    let config = Config { hh_threshold: 20, ..Config::default() };
    let hashes = HashFamily::reproducible(seed);
    let mut first = Driven::new(switch([Role::Host, Role::Fabric], &config, &hashes, telemetry_header));
    let mut last = Driven::new(switch([Role::Fabric, Role::Host], &config, &hashes, telemetry_header));
    let frames = frames(seed);
    let mut frames = frames.iter().cycle();
    let mut sent = 0;
    let mut left = 0;
    for round in 0..ROUNDS + 10 * EPOCH / ROUND {
        let now = round * ROUND + 7;
        let ends = round >= ROUNDS;
        let pause = |rng: &mut SplitMix64| {
            let pause = (rng.below(longest) + 1, rng.below(2) == 0);
            (rng.below(100) == 0 && !ends).then_some(pause)
        };
        if !ends && rng.below(4) == 0 {
            let more = frames.by_ref().take(PACKETS).map(|(_, bytes)| HeapFrame::new(bytes));
            first.arrived.entry(now).or_default().extend(more);
            sent += PACKETS;
        }
        let on_link = first.step(now, pause(&mut rng));
        last.arrived.entry(now + TRANSIT / 8).or_default().extend(on_link);
        left += last.step(now, pause(&mut rng)).len();
    }
    assert_eq!(left, sent, "nothing is lost");
    let told: BTreeSet<u64> = [&first, &last].iter().flat_map(|driven| driven.told(telemetry_header)).collect();
    let mut known = 0;
    for epoch in 2..50 {
        let (Some(entered), Some(before), Some(after)) =
            (first.records.get(&epoch), last.records.get(&(epoch - 1)), last.records.get(&epoch))
        else {
            continue;
        };
        let mut delta = Delta::entered(&Analysis::new(entered.clone())).unwrap();
        [before, after].into_iter().for_each(|record| delta.left(record, epoch & 1 == 1).unwrap());
        let losses = delta.decode();
        if !told.contains(&epoch) {
            let seems = (losses.decoded, losses.lost_packets, losses.gained_packets);
            assert_eq!(seems, (true, 0, 0), "seed {seed}, epoch {epoch}, {telemetry_header:?}");
            known += 1;
        }
    }
    [known, told.len()]
}

/// Packets that wait for a switch that stands still, or that it sends when it goes on, are told
/// with the epochs that they may be of.
#[test]
fn a_pause_spoils_the_epochs_that_it_confuses() {
    for telemetry_header in [TelemetryHeader::Dscp, TelemetryHeader::Shim] {
        let all: Vec<_> = (0..6).map(|seed| pauses(seed, telemetry_header, 4 * EPOCH)).collect();
        let [known, told] = [0, 1].map(|at| all.iter().map(|counts| counts[at]).sum::<usize>());
        println!("{telemetry_header:?}: {known} epochs known, {told} told");
        assert!(known > 30 && told > 30, "{telemetry_header:?}: {known} known, {told} told");
    }
}

/// Pauses that leave packets time to arrive cost nothing.
#[test]
fn short_pauses_spoil_nothing() {
    for telemetry_header in [TelemetryHeader::Dscp, TelemetryHeader::Shim] {
        for seed in 0..2 {
            assert_eq!(pauses(seed, telemetry_header, TRANSIT / 4), [48, 0], "seed {seed}, {telemetry_header:?}");
        }
    }
}
