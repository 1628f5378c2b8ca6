//! Each program of a switch rotates its banks by itself: at the end of epochs or sub-epochs, with
//! its own spares.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use weir::forward::{Forward, Xconnect};
use weir::pisa::{ArrayCells, BatchOrder, Layout, Phv, Probe};
use weir::program::{AnyRecord, Bank, Coverage, Dataplane, MAX_SUB_EPOCHS, Needs, SubEpoch};
use weir::switch::{Burst, PortInfo, Role, Switch, Telemetry, TxBursts};
use weir::telemetry::epoch::{BankChannel, Collecting, End, EpochClock, FullBank};
use weir::wire::HeapFrame;

#[path = "common/frames.rs"]
#[allow(dead_code)]
mod frames;

const EPOCH: u64 = 1 << 20;
const TRANSIT: u64 = 1 << 17;
const SPARES: usize = 2;

/// The number of sub-epochs of an epoch.
type Cut = fn(u64) -> u32;

/// Counts packets, and cuts epoch number e into as many sub-epochs as `cut` says.
struct Tally {
    needs: Needs,
    cut: Cut,
    epoch: u64,
    counted: Counted,
}

/// What a bank holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    entered: u64,
    left: u64,
    coverage: Coverage,
}

impl Bank for Counted {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn record(&self) -> AnyRecord {
        unreachable!("nobody merges")
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        Vec::new()
    }
}

fn counted(bank: &mut dyn Bank) -> &mut Counted {
    bank.get_mut().unwrap()
}

impl Dataplane for Tally {
    fn ingress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.counted.entered += phvs.len() as u64;
    }

    fn trace(&mut self, _: &mut Phv, _: &mut dyn Probe) {}

    fn needs(&self) -> Needs {
        self.needs
    }

    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.counted.left += phvs.len() as u64;
    }

    fn enter(&mut self, epoch: u64, _: bool) {
        self.epoch = epoch;
    }

    fn sub_epochs(&self) -> u32 {
        (self.cut)(self.epoch)
    }

    fn enter_sub_epoch(&mut self, sub_epoch: SubEpoch, fresh: bool) {
        self.counted.coverage.enter(sub_epoch, fresh);
    }

    fn spare(&self) -> Box<dyn Bank> {
        Box::new(Counted::default())
    }

    fn exchange(&mut self, spare: &mut dyn Bank) {
        let spare = counted(spare);
        std::mem::swap(&mut self.counted.entered, &mut spare.entered);
        spare.coverage = self.counted.coverage;
    }

    fn exchange_egress(&mut self, spare: &mut dyn Bank) {
        std::mem::swap(&mut self.counted.left, &mut counted(spare).left);
    }

    fn layout(&self) -> Layout {
        Layout::new("tally")
    }
}

/// A bank that was rotated: the epochs that it is of, what ended, what it holds.
type Rotated = (u64, u64, End, Counted);

struct Bench {
    switch: Switch,
    channels: Collecting,
}

impl Bench {
    fn new(programs: &[(Needs, Cut)]) -> Self {
        let tally = |&(needs, cut)| {
            let tally = Tally { needs, cut, epoch: 0, counted: Counted::default() };
            Box::new(tally) as Box<dyn Dataplane>
        };
        let clock = EpochClock::new(Some(EPOCH)).with_transit(TRANSIT);
        let (telemetry, channels) = Telemetry::new(programs.iter().map(tally).collect(), clock, SPARES);
        let port = || PortInfo {
            role: Role::Host,
            mtu: 1600,
            up: Arc::new(AtomicBool::new(true)),
            mac: Arc::default(),
            inside: Arc::default(),
        };
        let forward = Forward::Xconnect(Xconnect::new(&[(0, 1)]).unwrap());
        Self { switch: Switch::new(vec![port(), port()], telemetry, forward, BatchOrder::PacketMajor), channels }
    }

    /// A packet comes and leaves.
    fn packet(&mut self, now: u64) {
        let mut burst = Burst::new();
        burst.push(HeapFrame::new(&frames::udp(1, 2, frames::host_mac(2), 80, 10)));
        self.switch.process(0, &mut burst, now, &mut TxBursts::new(2));
    }

    /// What a program has rotated. Its banks come back when `spares` says so.
    fn rotated(&self, program: usize, spares: bool) -> Vec<Rotated> {
        let BankChannel { full, spares: back } = &self.channels[program];
        let take = |FullBank { first_epoch, last_epoch, end, mut bank, .. }: FullBank| {
            let rotated = (first_epoch, last_epoch, end, *counted(bank.as_mut()));
            bank.clear();
            if spares {
                back.try_send(bank).unwrap();
            }
            rotated
        };
        full.try_iter().map(take).collect()
    }

    fn late(&self) -> [u64; 3] {
        let stats = self.switch.stats();
        [stats.late_epochs.get(), stats.late_sub_epochs.get(), stats.lost_epochs.get()]
    }
}

/// One program gets no banks back. It runs on alone; the other's records stay one epoch each.
#[test]
fn programs_rotate_by_themselves() {
    let whole: (Needs, Cut) = (Needs::TRANSIT, |_| 1);
    let mut bench = Bench::new(&[whole, whole]);
    let mut rotated = [Vec::new(), Vec::new()];
    for round in 0..10 * 8 {
        bench.packet(EPOCH + round * EPOCH / 8);
        rotated[0].extend(bench.rotated(0, false));
        rotated[1].extend(bench.rotated(1, true));
    }
    bench.switch.finish();
    (0..2).for_each(|program| rotated[program].extend(bench.rotated(program, false)));
    let spans =
        |rotated: &[Rotated]| rotated.iter().map(|&(first, last, end, _)| (first, last, end)).collect::<Vec<_>>();
    assert_eq!(spans(&rotated[0]), [(1, 1, End::Epoch), (2, 2, End::Epoch), (3, 10, End::Switch)]);
    let one_each = (1..=10).map(|epoch| (epoch, epoch, if epoch < 10 { End::Epoch } else { End::Switch }));
    assert_eq!(spans(&rotated[1]), one_each.collect::<Vec<_>>());
    for rotated in &rotated {
        let sum = |of: fn(&Counted) -> u64| rotated.iter().map(|(.., counted)| of(counted)).sum::<u64>();
        assert_eq!((sum(|counted| counted.entered), sum(|counted| counted.left)), (80, 80), "no packet is lost");
    }
    assert_eq!(bench.late(), [7, 0, 0]);
}

/// A switch that stands still beyond an epoch's transit time says so with the bank of that epoch, by
/// how long it was late. A bank that was closed in time has no mark.
#[test]
fn a_late_rotation_marks_its_own_bank() {
    let mut bench = Bench::new(&[(Needs::TRANSIT, |_| 1), (Needs::NONE, |_| 1)]);
    let late = TRANSIT / 2;
    let skips = 6 * EPOCH + TRANSIT / 4;
    let mut marks = [Vec::new(), Vec::new()];
    let mut take = |bench: &Bench| {
        for (program, marks) in marks.iter_mut().enumerate() {
            let BankChannel { full, spares } = &bench.channels[program];
            for FullBank { last_epoch, late, mut bank, .. } in full.try_iter() {
                marks.push((last_epoch, late));
                bank.clear();
                spares.try_send(bank).unwrap();
            }
        }
    };
    for now in [EPOCH, 2 * EPOCH + 1, 2 * EPOCH + TRANSIT + late, 3 * EPOCH, 3 * EPOCH + TRANSIT + 1, skips] {
        bench.packet(now);
        take(&bench);
    }
    bench.switch.finish();
    take(&bench);
    assert_eq!(marks[0], [(1, late), (2, 0), (3, skips - 4 * EPOCH - TRANSIT), (6, 0)]);
    assert_eq!(marks[1], [(1, 0), (2, 0), (3, 0), (6, 0)], "nothing waits for egress stages");
}

/// What leaves within the transit time is of the epoch before, also beside a program that cuts its
/// epochs, whose egress stages rotate with its ingress stages.
#[test]
fn egress_stages_rotate_a_transit_time_later_or_together() {
    let sorts_sub_epochs = Needs::TRANSIT | Needs::SUB_EPOCHS;
    let programs = [Needs::TRANSIT, sorts_sub_epochs, Needs::NONE, Needs::EGRESS];
    let mut bench = Bench::new(&programs.map(|needs| (needs, (|_| 1) as Cut)));
    for now in [EPOCH, 2 * EPOCH - 1, 2 * EPOCH, 2 * EPOCH + TRANSIT - 1] {
        bench.packet(now);
    }
    assert!(bench.rotated(0, true).is_empty(), "packets of epoch 1 may still leave");
    let entered = |rotated: Vec<Rotated>| rotated.into_iter().map(|(.., c)| [c.entered, c.left]).collect::<Vec<_>>();
    assert_eq!(entered(bench.rotated(1, true)), [[2, 2]]);
    assert_eq!(entered(bench.rotated(2, true)), [[2, 0]], "without egress stages there is nothing to wait for");
    assert_eq!(entered(bench.rotated(3, true)), [[2, 2]], "a packet is counted when it leaves");
    bench.switch.tick(2 * EPOCH + TRANSIT);
    assert_eq!(entered(bench.rotated(0, true)), [[2, 4]]);
}

/// n follows from the epoch. Each sub-epoch has a bank, and the last one ends its epoch.
#[test]
fn epochs_are_cut_as_the_program_says() {
    let mut bench = Bench::new(&[(Needs::SUB_EPOCHS, |epoch| [4, 1, 8, 64, 7, 1000, 1][epoch as usize])]);
    for epoch in 0..6 {
        let of = [4, 1, 8, 64, 7, MAX_SUB_EPOCHS][epoch as usize];
        let mut fragments = Vec::new();
        for step in 0..512 {
            bench.packet(epoch * EPOCH + step * EPOCH / 512);
            fragments.extend(bench.rotated(0, true).into_iter().filter(|(first, ..)| *first == epoch));
        }
        bench.switch.tick((epoch + 1) * EPOCH);
        fragments.extend(bench.rotated(0, true));
        assert_eq!(fragments.len(), of as usize);
        for (index, (first, last, end, counted)) in fragments.iter().enumerate() {
            let ends = if index + 1 == fragments.len() { End::Epoch } else { End::SubEpoch };
            assert_eq!((*first, *last, *end), (epoch, epoch, ends));
            assert_eq!(counted.coverage, Coverage { of, sub_epochs: 1 << index, later_epochs: 0 });
            assert!(counted.entered.abs_diff(512 / u64::from(of)) <= 1, "{fragments:?}");
        }
    }
    assert_eq!(bench.late(), [0; 3]);
}

/// A bank that runs on says what it covers, and past its epoch it is not cut.
#[test]
fn late_sub_epochs_run_on() {
    let mut bench = Bench::new(&[(Needs::SUB_EPOCHS, |_| 4)]);
    for step in 0..14 {
        bench.packet(step * EPOCH / 4);
    }
    let coverage = |rotated: Vec<Rotated>| {
        rotated.into_iter().map(|(first, last, end, c)| (first, last, end, c.coverage)).collect::<Vec<_>>()
    };
    let at = |sub_epochs, later_epochs| Coverage { of: 4, sub_epochs, later_epochs };
    assert_eq!(
        coverage(bench.rotated(0, true)),
        [(0, 0, End::SubEpoch, at(0b1, 0)), (0, 0, End::SubEpoch, at(0b10, 0))]
    );
    assert_eq!(bench.late(), [3, 1, 0], "one sub-epoch, and the ends of epochs 0 to 2");
    bench.packet(15 * EPOCH / 4);
    assert!(bench.rotated(0, true).is_empty());
    (16..20).for_each(|step| bench.packet(step * EPOCH / 4));
    assert_eq!(
        coverage(bench.rotated(0, true)),
        [(0, 3, End::Epoch, at(0b1100, 3)), (4, 4, End::SubEpoch, at(0b1, 0))]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the pace of time and of the collector, every packet is in one bank, the banks of a
    /// program follow each other, and a record has no more banks than an epoch has sub-epochs.
    #[test]
    fn every_packet_is_in_one_bank(steps in prop::collection::vec((0..EPOCH / 3, any::<u8>()), 1..300)) {
        let cut: Cut = |epoch| [1, 2, 16, 64][epoch as usize % 4];
        let all = [Needs::TRANSIT, Needs::EGRESS, Needs::SUB_EPOCHS, Needs::EGRESS | Needs::SUB_EPOCHS];
        let all = all.map(|needs| (needs, cut));
        let mut bench = Bench::new(&all);
        let (mut now, mut rotated) = (0, vec![Vec::new(); all.len()]);
        for (step, (wait, serves)) in steps.iter().enumerate() {
            // Now and then little time passes, and then much.
            now += if step % 3 == 0 { *wait } else { wait / 50 };
            bench.packet(now);
            for (program, rotated) in rotated.iter_mut().enumerate() {
                if serves >> program & 1 == 1 {
                    rotated.extend(bench.rotated(program, true));
                }
            }
        }
        bench.switch.finish();
        for (program, rotated) in rotated.iter_mut().enumerate() {
            rotated.extend(bench.rotated(program, false));
            let entered: u64 = rotated.iter().map(|(.., counted)| counted.entered).sum();
            prop_assert_eq!(entered, steps.len() as u64);
            let (mut before, mut banks) = (None::<Rotated>, 0);
            for &(first, last, end, counted) in rotated.iter() {
                prop_assert!(first <= last);
                if let Some((_, last, end, before)) = before {
                    let apart = end != End::SubEpoch || !before.coverage.overlaps(&counted.coverage);
                    prop_assert!(first >= last && apart);
                }
                banks += 1;
                prop_assert!(banks <= MAX_SUB_EPOCHS);
                if end != End::SubEpoch {
                    banks = 0;
                }
                before = Some((first, last, end, counted));
            }
            prop_assert_eq!(before.map(|(_, _, end, _)| end), Some(End::Switch));
        }
        prop_assert_eq!(bench.late()[2], 0);
    }
}
