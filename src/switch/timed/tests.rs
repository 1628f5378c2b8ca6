use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::*;
use crate::observe::Recorder;
use crate::pisa::{ArrayCells, DropAt};
use crate::program::AnyRecord;

/// Time passes in its stages alone: 3 cycles a packet on the way in and 2 on the way out, and
/// once the pause that is asked for.
#[derive(Clone, Default)]
struct Slow {
    now: Arc<AtomicU64>,
    pause: Arc<AtomicU64>,
    looks: Arc<AtomicU64>,
    calls: Arc<Mutex<BTreeSet<&'static str>>>,
    /// What it saw of packets' latencies.
    latencies: Option<Arc<Mutex<Vec<u32>>>>,
    /// It does not need to know them.
    is_content: Arc<AtomicBool>,
}

impl Slow {
    fn timed(&self, stats: &SwitchStats) -> Timed<impl Fn() -> u64 + Send + use<>> {
        let Self { now, looks, .. } = self.clone();
        let clock = move || {
            looks.fetch_add(1, Relaxed);
            now.load(Relaxed)
        };
        Timed::new(Box::new(self.clone()), stats, clock, HZ)
    }

    fn takes(&self, cycles: u64) {
        self.now.fetch_add(cycles + self.pause.swap(0, Relaxed), Relaxed);
    }

    fn called(&self, name: &'static str) {
        self.calls.lock().unwrap().insert(name);
    }
}

impl Dataplane for Slow {
    fn set_queue_room(&mut self, _: u64) {
        self.called("set_queue_room");
    }

    fn read_digests(&mut self) {
        self.called("read_digests");
    }

    fn ingress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.called("ingress");
        self.takes(3 * phvs.len() as u64);
    }

    fn run_ingress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.called("run_ingress");
        self.ingress(phvs, order);
    }

    fn trace(&mut self, _: &mut Phv, _: &mut dyn Probe) {
        self.called("trace");
    }

    fn needs(&self) -> Needs {
        self.called("needs");
        if self.latencies.is_some() && !self.is_content.load(Relaxed) { Needs::LATENCY } else { Needs::EGRESS }
    }

    fn egress(&mut self, phvs: &mut [Phv], _: BatchOrder) {
        self.called("egress");
        let mut latencies = self.latencies.iter().map(|latencies| latencies.lock().unwrap());
        latencies.by_ref().for_each(|mut seen| seen.extend(phvs.iter().map(|phv| phv.latency_ns)));
        self.takes(2 * phvs.len() as u64);
    }

    fn run_egress(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.called("run_egress");
        self.egress(phvs, order);
    }

    fn egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.called("egress_as_entered");
        self.egress(phvs, order);
    }

    fn run_egress_as_entered(&mut self, phvs: &mut [Phv], order: BatchOrder) {
        self.called("run_egress_as_entered");
        self.egress_as_entered(phvs, order);
    }

    fn trace_egress(&mut self, _: &mut Phv, _: &mut dyn Probe) {
        self.called("trace_egress");
    }

    fn dropped(&mut self, _: &Phv, _: DropReason, _: DropAt) {
        self.called("dropped");
    }

    fn count_ambiguous(&mut self, _: u64, _: u64) {
        self.called("count_ambiguous");
    }

    fn prepare(&mut self, _: u64) {
        self.called("prepare");
    }

    fn enter(&mut self, _: u64, _: bool) {
        self.called("enter");
    }

    fn sub_epochs(&self) -> u32 {
        self.called("sub_epochs");
        1
    }

    fn enter_sub_epoch(&mut self, _: SubEpoch, _: bool) {
        self.called("enter_sub_epoch");
    }

    fn allocate(&mut self) {
        self.called("allocate");
    }

    fn spare(&self) -> Box<dyn Bank> {
        self.called("spare");
        Box::new(NoBank)
    }

    fn exchange(&mut self, _: &mut dyn Bank) {
        self.called("exchange");
    }

    fn exchange_egress(&mut self, _: &mut dyn Bank) {
        self.called("exchange_egress");
    }

    fn layout(&self) -> Layout {
        self.called("layout");
        Layout::new("slow")
    }
}

/// Two cycles a nanosecond.
const HZ: u64 = 2_000_000_000;

struct NoBank;

impl Bank for NoBank {
    fn clear(&mut self) {}

    fn record(&self) -> AnyRecord {
        unreachable!("nobody asks")
    }

    fn arrays(&self) -> Vec<ArrayCells> {
        Vec::new()
    }
}

fn counted(stats: &SwitchStats) -> (u64, u64) {
    let program = stats.program("slow");
    (program.cycles.get(), program.packets.get())
}

/// Bursts of this many packets through all stages.
fn pass(timed: &mut dyn Dataplane, packets: usize, bursts: u64) {
    let mut phvs = vec![Phv::default(); packets];
    for _ in 0..bursts {
        timed.ingress(&mut phvs, BatchOrder::PacketMajor);
        timed.egress(&mut phvs, BatchOrder::PacketMajor);
    }
}

#[test]
fn a_timed_burst_stands_for_those_around_it() {
    let (slow, stats) = (Slow::default(), SwitchStats::default());
    let mut timed = slow.timed(&stats);
    pass(&mut timed, 32, 10 * ONE_IN);
    let packets = 32 * 10 * ONE_IN;
    assert_eq!(counted(&stats), (5 * packets, packets), "what it took, both ways");
    assert_eq!(slow.now.load(Relaxed), 5 * packets);
    assert_eq!(slow.looks.load(Relaxed), 4 * 10, "the clock is read before and after, in and out");
}

#[test]
fn ports_in_turn_are_timed_alike() {
    for ports in [1, 2, 3, 4, 8, 16, 64] {
        let (slow, stats) = (Slow::default(), SwitchStats::default());
        let mut timed = slow.timed(&stats);
        for _ in 0..ONE_IN {
            // The first port alone has full bursts.
            pass(&mut timed, 64, 1);
            pass(&mut timed, 1, ports - 1);
        }
        assert_eq!(counted(&stats).0, slow.now.load(Relaxed), "{ports} ports");
    }
}

#[test]
fn an_interruption_is_not_the_programs() {
    let (slow, stats) = (Slow::default(), SwitchStats::default());
    let mut timed = slow.timed(&stats);
    pass(&mut timed, 1, ONE_IN / 2);
    slow.pause.store(LONGEST, Relaxed);
    pass(&mut timed, 1, 1);
    assert_eq!(counted(&stats), (2 * ONE_IN, ONE_IN / 2 + 1), "the way out was not interrupted");
    slow.now.store(100, Relaxed);
    pass(&mut timed, 1, ONE_IN);
    assert_eq!(counted(&stats).0, 2 * ONE_IN + 5 * ONE_IN);
}

/// A packet's latency is the time that it was held back and the time since the burst's ingress
/// stages began.
#[test]
fn packets_know_their_latency() {
    let latencies = Arc::<Mutex<Vec<u32>>>::default();
    let (slow, stats) = (Slow { latencies: Some(latencies.clone()), ..Slow::default() }, SwitchStats::default());
    let mut timed = slow.timed(&stats);
    let mut phvs = [Phv { latency_ns: 1000, ..Phv::default() }, Phv { latency_ns: u32::MAX, ..Phv::default() }];
    slow.now.store(5000, Relaxed);
    timed.ingress(&mut phvs, BatchOrder::PacketMajor);
    slow.takes(94);
    timed.egress(&mut phvs, BatchOrder::PacketMajor);
    // 3 cycles for each of two packets, then 94.
    assert_eq!(*latencies.lock().unwrap(), [1050, u32::MAX]);
    // Another program adds its own time.
    assert_eq!(phvs.map(|phv| phv.latency_ns), [1000, u32::MAX]);
}

/// A program may need latencies from one epoch on and until another. The clock is looked at for
/// them as long as it does.
#[test]
fn latencies_are_told_while_they_are_needed() {
    let latencies = Arc::<Mutex<Vec<u32>>>::default();
    let (slow, stats) = (Slow { latencies: Some(latencies.clone()), ..Slow::default() }, SwitchStats::default());
    slow.is_content.store(true, Relaxed);
    let mut timed = slow.timed(&stats);
    let mut burst = |of: &dyn Fn(&mut Timed<_>)| {
        of(&mut timed);
        let before = slow.looks.load(Relaxed);
        let mut phvs = [Phv { latency_ns: 1000, ..Phv::default() }];
        timed.ingress(&mut phvs, BatchOrder::PacketMajor);
        timed.egress(&mut phvs, BatchOrder::PacketMajor);
        (latencies.lock().unwrap().pop().unwrap() > 1000, slow.looks.load(Relaxed) - before)
    };
    assert_eq!(burst(&|_| {}), (false, 0));
    slow.is_content.store(false, Relaxed);
    assert_eq!(burst(&|timed| timed.prepare(1)), (true, 2));
    slow.is_content.store(true, Relaxed);
    assert_eq!(burst(&|timed| timed.enter(2, true)), (false, 0));
}

/// A program that is built anew goes on where the one before it of the same name was.
#[test]
fn counts_outlive_the_program() {
    let (slow, stats) = (Slow::default(), SwitchStats::default());
    pass(&mut slow.timed(&stats), 2, ONE_IN);
    pass(&mut slow.timed(&stats), 2, ONE_IN);
    assert_eq!(counted(&stats), (5 * 4 * ONE_IN, 4 * ONE_IN));
    assert_eq!(stats.programs().len(), 1);
}

/// A function of the trait with a default would be lost without an error, were it not passed
/// on.
#[test]
fn every_function_reaches_the_program() {
    let (slow, stats) = (Slow::default(), SwitchStats::default());
    let mut timed = slow.timed(&stats);
    slow.calls.lock().unwrap().clear();
    assert!(timed.needs().contains(Needs::EGRESS));
    assert_eq!(timed.layout().program, "slow");
    timed.set_queue_room(1);
    timed.read_digests();
    timed.allocate();
    let mut bank = timed.spare();
    timed.exchange(bank.as_mut());
    timed.exchange_egress(bank.as_mut());
    timed.prepare(1);
    timed.enter(1, true);
    timed.enter_sub_epoch(SubEpoch { index: 0, of: timed.sub_epochs() }, true);
    timed.dropped(&Phv::default(), DropReason::Runt, DropAt::Before);
    timed.count_ambiguous(1, 1);
    pass(&mut timed, 1, 1);
    timed.egress_as_entered(&mut [], BatchOrder::PacketMajor);
    timed.trace(&mut Phv::default(), &mut Recorder::default());
    timed.trace_egress(&mut Phv::default(), &mut Recorder::default());
    let source = include_str!("../../program/mod.rs");
    let (_, of_trait) = source.split_once("pub trait Dataplane: Send {").unwrap();
    let (of_trait, _) = of_trait.split_once("\n}\n").unwrap();
    let functions = of_trait.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next());
    assert_eq!(slow.calls.lock().unwrap().iter().copied().collect::<Vec<_>>(), {
        let mut functions: Vec<_> = functions.collect();
        functions.sort_unstable();
        functions
    });
    assert_eq!(counted(&stats).1, 2, "a traced packet counts as well");
}
