//! The collector: takes the replicas' banks as they rotate, gives zeroed ones back, merges, and
//! hands records on.
//!
//! Each program goes its own way. The sub-epochs of a replica's epoch are put together first, then
//! the replicas.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Select};

use crate::program::{AnyRecord, AnySchedule, MergeError};
use crate::telemetry::epoch::{BankChannel, Collecting, End, FullBank, Nanos};
use crate::telemetry::registers::{BankOrigin, RegisterSink};

/// How many epochs a replica may be behind before its absence no longer holds the others up.
const TIMEOUT: u64 = 2;

/// Merges the replicas of one switch.
pub struct Collector {
    /// By replica, then by program.
    replicas: Vec<Collecting>,
    programs: Vec<Merging>,
    sinks: Vec<Box<dyn Sink>>,
    register_sinks: Vec<Box<dyn RegisterSink>>,
}

/// What replicas have sent of one program.
#[derive(Default)]
struct Merging {
    /// By replica.
    parts: Vec<Parts>,
    /// By last epoch.
    pending: BTreeMap<u64, Pending>,
}

/// One replica's part in it.
#[derive(Default)]
struct Parts {
    /// What came of an epoch that is not over, and the epochs that it covers. It has as many banks
    /// as an epoch has sub-epochs, at most.
    open: Option<(Covers, AnyRecord)>,
    /// Number of banks that came of it.
    banks: u32,
    /// The last epoch of its newest record.
    newest: u64,
}

/// What a record of one replica covers.
#[derive(Clone, Copy)]
struct Covers {
    first: u64,
    last: u64,
    /// [`FullBank::late`], of the latest of its banks.
    late: Nanos,
}

/// An epoch for which some replicas have not reported yet.
struct Pending {
    first: u64,
    late: Nanos,
    record: AnyRecord,
    /// The replicas that have reported.
    replicas: Vec<usize>,
    /// Whether the epoch was over when each of them reported.
    over: bool,
}

/// All replicas' records of a program over an epoch; over several epochs when the collector was
/// late.
#[derive(Clone, Copy, Debug)]
pub struct Closed<'a> {
    /// The program's place in the configuration.
    pub program: usize,
    pub first: u64,
    pub last: u64,
    /// Time by which the latest replica closed its egress registers after the transit time, 0 when
    /// all were in time: packets of the epoch may have left uncounted since.
    pub late: Nanos,
    pub record: &'a AnyRecord,
}

/// Receiver of records, such as a controller. It runs on the collector's thread and must not wait.
pub trait Sink: Send {
    /// Takes the record of an epoch that all replicas measured to its end.
    fn closed(&mut self, epoch: Closed<'_>);
    /// Takes a record that is not whole: a replica has not reported, or not on all of the epoch.
    fn partial(&mut self, _epoch: Closed<'_>) {}
    /// The clock was set back: numbers of epochs from this one on come again.
    fn set_back(&mut self, _program: usize, _epoch: u64) {}
    /// The switch goes on with other programs, whose parameters are set here.
    fn renewed(&mut self, _schedules: &[AnySchedule]) {}
}

impl Collector {
    pub fn new(replicas: Vec<Collecting>) -> Self {
        let programs = merging(&replicas);
        Self { replicas, programs, sinks: Vec::new(), register_sinks: Vec::new() }
    }

    /// Lets `sink` have all records from now on.
    pub fn subscribe(&mut self, sink: Box<dyn Sink>) {
        self.sinks.push(sink);
    }

    /// Lets `sink` have the registers of all banks from now on.
    pub fn watch_registers(&mut self, sink: Box<dyn RegisterSink>) {
        self.register_sinks.push(sink);
    }

    /// Takes what the replicas have sent. Waits up to `timeout` for the first; false when there was
    /// none.
    pub fn collect(&mut self, timeout: Duration) -> bool {
        let Ok((replica, program, first)) = self.receive(timeout) else { return false };
        self.take(replica, program, first);
        self.collect_ready();
        true
    }

    /// Takes what the replicas have sent, without waiting.
    pub fn collect_ready(&mut self) {
        while let Some((replica, program, bank)) = self.try_receive() {
            self.take(replica, program, bank);
        }
    }

    /// A function that says whether no replica has sent banks of two epochs that wait.
    pub fn keeps_up(&self) -> impl Fn() -> bool + 'static {
        let channels: Vec<_> = self.channels().map(|(_, _, channel)| channel.full.clone()).collect();
        move || channels.iter().all(|full| full.len() < 2)
    }

    fn try_receive(&self) -> Option<(usize, usize, FullBank)> {
        self.channels().find_map(|(replica, program, channel)| Some((replica, program, channel.full.try_recv().ok()?)))
    }

    /// All channels, with the replica and the program of each.
    fn channels(&self) -> impl Iterator<Item = (usize, usize, &BankChannel)> {
        let replicas = self.replicas.iter().enumerate();
        replicas.flat_map(|(replica, programs)| {
            (0..).zip(programs).map(move |(program, channel)| (replica, program, channel))
        })
    }

    /// Closes all epochs, also those that a replica did not report on.
    pub fn finish(&mut self) {
        self.collect_ready();
        for program in 0..self.programs.len() {
            for replica in 0..self.replicas.len() {
                if let Some((covers, record)) = self.programs[program].parts[replica].open.take() {
                    self.add(replica, program, covers, record, false);
                }
            }
            while let Some(last) = self.programs[program].pending.keys().next().copied() {
                self.close(program, last);
            }
        }
    }

    /// Goes on with other replicas, whose programs or epochs are others. The replicas so far must
    /// have [finished](crate::switch::Telemetry::finish). The sinks get their last records first.
    pub fn renew(&mut self, replicas: Vec<Collecting>, schedules: &[AnySchedule]) {
        self.finish();
        self.programs = merging(&replicas);
        self.replicas = replicas;
        self.sinks.iter_mut().for_each(|sink| sink.renewed(schedules));
        self.register_sinks.iter_mut().for_each(|sink| sink.renewed());
    }

    fn receive(&self, timeout: Duration) -> Result<(usize, usize, FullBank), RecvTimeoutError> {
        let mut select = Select::new();
        for (_, _, channel) in self.channels() {
            select.recv(&channel.full);
        }
        let ready = select.select_timeout(timeout).map_err(|_| RecvTimeoutError::Timeout)?;
        let (replica, program, channel) = self.channels().nth(ready.index()).ok_or(RecvTimeoutError::Timeout)?;
        let bank = ready.recv(&channel.full).map_err(|_| RecvTimeoutError::Disconnected)?;
        Ok((replica, program, bank))
    }

    /// Takes a replica's bank. The record of its epoch is whole when the last bank has come.
    fn take(&mut self, replica: usize, program: usize, full: FullBank) {
        let FullBank { first_epoch, last_epoch, end, mut late, mut bank } = full;
        let parts = &mut self.programs[program].parts[replica];
        let part = parts.banks;
        parts.banks = if matches!(end, End::SubEpoch) { part + 1 } else { 0 };
        let of = BankOrigin { replica, program, first: first_epoch, last: last_epoch, part, end };
        self.register_sinks.iter_mut().for_each(|sink| sink.bank(of, &|| bank.arrays()));
        let mut record = bank.record();
        bank.clear();
        // The channel has room for every bank that exists, so this fails only when the switch is
        // gone.
        let _ = self.replicas[replica][program].spares.try_send(bank);
        let parts = &mut self.programs[program].parts[replica];
        let (mut first, mut fits) = (first_epoch, true);
        if let Some((opened, mut whole)) = parts.open.take() {
            (first, late) = (first.min(opened.first), late.max(opened.late));
            fits = added(whole.append(&record), last_epoch);
            record = whole;
        }
        if end == End::SubEpoch {
            parts.open = Some((Covers { first, last: last_epoch, late }, record));
            return;
        }
        let newest = std::mem::replace(&mut parts.newest, last_epoch);
        if last_epoch < newest {
            self.step_back(program, last_epoch);
        }
        self.add(replica, program, Covers { first, last: last_epoch, late }, record, fits && end == End::Epoch);
    }

    /// Adds a replica's record of an epoch.
    fn add(&mut self, replica: usize, program: usize, covers: Covers, record: AnyRecord, over: bool) {
        let Covers { first, last, late } = covers;
        let merging = &mut self.programs[program];
        match merging.pending.get_mut(&last) {
            None => {
                merging.pending.insert(last, Pending { first, late, record, replicas: vec![replica], over });
            }
            Some(pending) => {
                pending.first = pending.first.min(first);
                pending.late = pending.late.max(late);
                // One that reports an epoch twice measured it twice, because its clock was set
                // back.
                pending.over &= over && !pending.replicas.contains(&replica);
                pending.replicas.push(replica);
                pending.over &= added(pending.record.merge(&record), last);
            }
        }
        let done = |(&epoch, pending): (&u64, &Pending)| {
            (pending.replicas.len() >= self.replicas.len() || epoch + TIMEOUT < last).then_some(epoch)
        };
        let done: Vec<_> = merging.pending.iter().filter_map(done).collect();
        done.into_iter().for_each(|epoch| self.close(program, epoch));
    }

    /// The clock was set back: what was measured under numbers that come again is not to be taken
    /// for the newest.
    fn step_back(&mut self, program: usize, last: u64) {
        let later = |merging: &Merging| merging.pending.keys().next_back().copied().filter(|later| *later > last);
        while let Some(later) = later(&self.programs[program]) {
            self.close(program, later);
        }
        self.sinks.iter_mut().for_each(|sink| sink.set_back(program, last));
    }

    fn close(&mut self, program: usize, last: u64) {
        let Some(Pending { first, late, record, replicas, over }) = self.programs[program].pending.remove(&last) else {
            return;
        };
        // A part of an epoch would be taken for all of it.
        let whole = over && replicas.len() == self.replicas.len();
        let closed = Closed { program, first, last, late, record: &record };
        self.sinks.iter_mut().for_each(|sink| if whole { sink.closed(closed) } else { sink.partial(closed) });
    }
}

/// Nothing of any program yet.
fn merging(replicas: &[Collecting]) -> Vec<Merging> {
    let programs = replicas.iter().map(Vec::len).max().unwrap_or_default();
    let parts = || replicas.iter().map(|_| Parts::default()).collect();
    (0..programs).map(|_| Merging { parts: parts(), ..Merging::default() }).collect()
}

/// Whether a record was added. Replicas are built from one configuration, so their records have one
/// shape.
fn added(result: Result<(), MergeError>, epoch: u64) -> bool {
    result.inspect_err(|error| tracing::error!(target: "weir", event = "records", "epoch {epoch}: {error}")).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::pisa::ArrayCells;
    use crate::program::Bank;
    use crate::program::ProgramConfig;
    use crate::program::hashpipe::{Counts, HashPipe};
    use crate::telemetry::epoch::BankRotation;
    use crate::wire::Flow;

    const FLOW: Flow = Flow { src: None, dst: None, sport: Some(1), dport: None, proto: None };

    fn program() -> ProgramConfig {
        ProgramConfig::new::<HashPipe>(Default::default())
    }

    /// Registers that hold one flow's count.
    struct Fake(u64);

    impl Bank for Fake {
        fn clear(&mut self) {
            self.0 = 0;
        }

        fn record(&self) -> AnyRecord {
            Box::new([(FLOW, self.0.into())].into_iter().filter(|_| self.0 > 0).collect::<Counts>())
        }

        fn arrays(&self) -> Vec<ArrayCells> {
            vec![ArrayCells { cells: self.0, field_bits: vec![8], bytes: Vec::new() }]
        }
    }

    /// A replica of one program, and its running epoch.
    struct Replica {
        rotation: BankRotation,
        running: u64,
    }

    impl Replica {
        /// One whose first epoch is number 1.
        fn new() -> (Self, Collecting) {
            let (mut rotation, channel) = BankRotation::new(2);
            rotation.start(1);
            (Self { rotation, running: 1 }, vec![channel])
        }

        /// Rotates a bank with this count, and enters epoch `next`.
        fn send(&mut self, count: u64, next: u64, end: End) {
            let last = std::mem::replace(&mut self.running, next);
            let bank = self.rotation.end(Box::new(Fake(count)), last, next, end);
            assert!(self.rotation.send(bank));
        }
    }

    struct Bench {
        replicas: Vec<Replica>,
        collector: Collector,
        seen: Seen,
    }

    /// A record as a sink was given it.
    #[derive(Clone, Copy, Debug)]
    struct Record {
        program: usize,
        first: u64,
        last: u64,
        count: u64,
        whole: bool,
    }

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<Record>>>);

    impl Seen {
        fn take(&self, Closed { program, first, last, record, .. }: Closed<'_>, whole: bool) {
            let count = record.get::<Counts>().unwrap().flows.values().map(|count| count.number).sum();
            self.0.lock().unwrap().push(Record { program, first, last, count, whole });
        }

        fn all(&self) -> Vec<Record> {
            self.0.lock().unwrap().clone()
        }

        fn whole(&self) -> Vec<(u64, u64)> {
            self.all().iter().filter(|seen| seen.whole).map(|seen| (seen.first, seen.last)).collect()
        }
    }

    impl Sink for Seen {
        fn closed(&mut self, epoch: Closed<'_>) {
            self.take(epoch, true);
        }

        fn partial(&mut self, epoch: Closed<'_>) {
            self.take(epoch, false);
        }

        fn set_back(&mut self, _: usize, epoch: u64) {
            self.0.lock().unwrap().retain(|seen| seen.last < epoch);
        }

        fn renewed(&mut self, _: &[AnySchedule]) {
            self.0.lock().unwrap().clear();
        }
    }

    impl Bench {
        fn new(replicas: usize) -> Self {
            let (replicas, collecting): (Vec<_>, Vec<_>) = (0..replicas).map(|_| Replica::new()).unzip();
            let (mut collector, seen) = (Collector::new(collecting), Seen::default());
            collector.subscribe(Box::new(seen.clone()));
            Self { replicas, collector, seen }
        }

        /// A replica ends its running epoch with this count.
        fn report(&mut self, replica: usize, count: u64) {
            let next = self.replicas[replica].running + 1;
            self.replicas[replica].send(count, next, End::Epoch);
            self.collector.collect_ready();
        }

        /// Count and epochs of the newest `epochs`.
        fn window(&self, epochs: usize) -> (u64, Option<(u64, u64)>) {
            let seen = self.seen.all();
            let newest = seen.iter().map(|seen| seen.last).max().unwrap_or_default();
            let window: Vec<_> = seen.iter().filter(|seen| newest - seen.last < epochs as u64).collect();
            let first = window.iter().map(|seen| seen.first).min();
            (window.iter().map(|seen| seen.count).sum(), first.map(|first| (first, newest)))
        }
    }

    #[test]
    fn replicas_merge_by_epoch() {
        let mut bench = Bench::new(3);
        bench.report(0, 1);
        bench.report(2, 10);
        assert_eq!(bench.window(1), (0, None), "one replica is still measuring");
        bench.report(0, 5);
        bench.report(1, 100);
        assert_eq!(bench.window(9), (111, Some((1, 1))));
        bench.report(1, 50);
        bench.report(2, 500);
        assert_eq!(bench.window(1), (555, Some((2, 2))));
        assert_eq!(bench.window(2), (666, Some((1, 2))));
    }

    /// Registers are handed on bank by bank, those of sub-epochs by number, before they are cleared.
    #[test]
    fn registers_are_handed_on() {
        #[derive(Clone, Default)]
        struct Registers(Arc<Mutex<Vec<(u32, u64, End)>>>);
        impl RegisterSink for Registers {
            fn bank(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>) {
                assert_eq!((of.replica, of.program), (0, 0));
                self.0.lock().unwrap().push((of.part, arrays()[0].cells, of.end));
            }
        }
        let (mut bench, registers) = (Bench::new(1), Registers::default());
        bench.collector.watch_registers(Box::new(registers.clone()));
        for (count, next, end) in [(1, 1, End::SubEpoch), (2, 1, End::SubEpoch), (3, 2, End::Epoch), (4, 3, End::Epoch)]
        {
            bench.replicas[0].send(count, next, end);
            bench.collector.collect_ready();
        }
        let parts = [(0, 1, End::SubEpoch), (1, 2, End::SubEpoch), (2, 3, End::Epoch), (0, 4, End::Epoch)];
        assert_eq!(*registers.0.lock().unwrap(), parts);
    }

    #[test]
    fn a_collector_with_two_epochs_waiting_does_not_keep_up() {
        let mut bench = Bench::new(2);
        let keeps_up = bench.collector.keeps_up();
        bench.replicas[0].send(1, 1, End::Epoch);
        bench.replicas[1].send(1, 1, End::Epoch);
        assert!(keeps_up());
        bench.replicas[0].send(1, 2, End::Epoch);
        assert!(!keeps_up());
        bench.collector.collect_ready();
        assert!(keeps_up());
    }

    #[test]
    fn spares_come_back_cleared() {
        let mut bench = Bench::new(2);
        bench.report(1, 7);
        assert!(bench.replicas[0].rotation.spare().is_none());
        let spare = bench.replicas[1].rotation.spare().expect("the bank goes back to the replica that sent it");
        assert_eq!(spare.record().get(), Some(&Counts::default()));
        assert!(bench.replicas[1].rotation.spare().is_none());
    }

    #[test]
    fn a_missing_replica_holds_the_others_up_for_a_while_only() {
        let mut bench = Bench::new(2);
        for epoch in 1..=3 {
            bench.report(0, epoch);
        }
        assert_eq!(bench.window(9), (0, None));
        bench.report(0, 4);
        assert_eq!(bench.window(9), (1, Some((1, 1))), "epoch 1 has waited {TIMEOUT} epochs");
        // It was late, not gone: nothing that it counted is lost.
        bench.report(1, 10);
        bench.report(1, 20);
        bench.report(0, 5);
        bench.report(0, 6);
        bench.collector.finish();
        assert_eq!(bench.window(9), (1 + 2 + 3 + 4 + 5 + 6 + 10 + 20, Some((1, 6))));
        assert_eq!(bench.window(1), (6, Some((6, 6))));
    }

    /// A replica that found no spare measures on and says so.
    #[test]
    fn a_record_over_several_epochs() {
        let late = |bench: &mut Bench| {
            bench.replicas[0].rotation.extend(2);
            bench.replicas[0].running = 2;
            bench.report(0, 30);
        };
        // What it covers is told also when it comes last.
        let mut bench = Bench::new(2);
        bench.report(1, 1);
        bench.report(1, 2);
        late(&mut bench);
        assert_eq!(bench.window(1), (32, Some((1, 2))));
        let mut bench = Bench::new(2);
        late(&mut bench);
        bench.report(1, 1);
        bench.report(1, 2);
        assert_eq!(bench.window(1), (32, Some((1, 2))));
        bench.collector.finish();
        assert_eq!(bench.window(9), (33, Some((1, 2))));
    }

    /// The banks of an epoch's sub-epochs make one record, and an epoch is not over before the
    /// last.
    #[test]
    fn sub_epochs_make_one_record() {
        let mut bench = Bench::new(2);
        for (replica, counts) in [[1, 2, 4], [8, 16, 32]].into_iter().enumerate() {
            for count in counts {
                bench.replicas[replica].send(count, 1, End::SubEpoch);
                bench.collector.collect_ready();
                assert_eq!(bench.window(9), (0, None));
            }
        }
        bench.report(0, 64);
        bench.report(1, 128);
        assert_eq!((bench.window(1), bench.seen.whole().len()), ((255, Some((1, 1))), 1));
        // The last sub-epoch ran on past its epoch.
        bench.replicas[0].send(1, 2, End::SubEpoch);
        bench.replicas[0].rotation.extend(3);
        bench.replicas[0].running = 3;
        bench.report(0, 2);
        bench.report(1, 4);
        bench.report(1, 8);
        bench.collector.finish();
        assert_eq!(bench.seen.whole(), [(1, 1), (2, 3)]);
        assert_eq!(bench.window(2), (15, Some((2, 3))));
    }

    /// A bank that was lost is told with the last one of its epoch, which is not whole then.
    #[test]
    fn a_lost_sub_epoch_spoils_its_epoch() {
        let mut bench = Bench::new(1);
        let fill = |bench: &mut Bench| (0..3).for_each(|_| bench.replicas[0].send(1, 1, End::SubEpoch));
        fill(&mut bench);
        let bank = bench.replicas[0].rotation.end(Box::new(Fake(1)), 1, 1, End::SubEpoch);
        assert!(!bench.replicas[0].rotation.send(bank), "there is no room");
        bench.collector.collect_ready();
        bench.report(0, 1);
        bench.report(0, 1);
        assert_eq!(bench.seen.whole(), [(2, 2)]);
        assert_eq!(bench.window(9), (5, Some((1, 2))));
        // Nor is one whose last bank never comes.
        bench.replicas[0].send(7, 3, End::SubEpoch);
        bench.collector.finish();
        assert_eq!((bench.window(9), bench.seen.whole().len()), ((12, Some((1, 3))), 1));
    }

    /// What a program's replicas have not sent holds up no other program.
    #[test]
    fn programs_close_by_themselves() {
        let rotations = |_| (0..2).map(|_| BankRotation::new(2)).unzip::<_, _, Vec<_>, Vec<_>>();
        let (mut rotations, collecting): (Vec<_>, Vec<_>) = (0..2).map(rotations).unzip();
        let (mut collector, seen) = (Collector::new(collecting), Seen::default());
        collector.subscribe(Box::new(seen.clone()));
        let mut send = |replica: usize, program: usize, epoch, count| {
            let rotation: &mut BankRotation = &mut rotations[replica][program];
            let bank = rotation.end(Box::new(Fake(count)), epoch, epoch + 1, End::Epoch);
            assert!(rotation.send(bank));
            collector.collect_ready();
        };
        send(0, 0, 0, 1);
        send(0, 1, 0, 10);
        send(1, 0, 0, 2);
        (1..=2).for_each(|epoch| (0..2).for_each(|replica| send(replica, 0, epoch, 4)));
        assert_eq!(seen.all().iter().map(|seen| seen.count).sum::<u64>(), 19);
        assert_eq!(
            seen.all().iter().map(|seen| (seen.program, seen.last)).collect::<Vec<_>>(),
            [(0, 0), (0, 1), (0, 2)]
        );
    }

    #[test]
    fn finish_closes_what_is_open() {
        let mut bench = Bench::new(2);
        bench.report(0, 3);
        bench.report(0, 4);
        bench.collector.finish();
        assert_eq!(bench.window(9), (7, Some((1, 2))));
        bench.collector.finish();
        assert_eq!(bench.window(9), (7, Some((1, 2))));
    }

    /// A controller would take a part for all of its epoch.
    #[test]
    fn parts_are_told_from_whole_epochs() {
        let mut bench = Bench::new(2);
        bench.report(0, 1);
        bench.report(1, 1);
        for epoch in 2..=5 {
            bench.report(0, epoch);
        }
        bench.report(1, 1);
        assert_eq!(bench.seen.whole(), [(1, 1)], "of epoch 2 each reported, but not in time");
        (0..3).for_each(|_| bench.report(1, 1));
        assert_eq!(bench.seen.whole(), [(1, 1), (3, 3), (4, 4), (5, 5)]);
        bench.replicas[0].send(1, 7, End::Switch);
        bench.report(1, 1);
        assert_eq!(bench.seen.whole().len(), 4, "one was stopped within epoch 6");
    }

    /// The clock is set back while one replica has reported and the other has not. What comes is
    /// the newest, an epoch that was measured twice is not whole, and nothing of the first time is
    /// added to the second.
    #[test]
    fn clocks_that_are_set_back() {
        let mut bench = Bench::new(2);
        let report = |bench: &mut Bench, replica: usize, next, count| {
            bench.replicas[replica].send(count, next, End::Epoch);
            bench.collector.collect_ready();
        };
        for replica in [0, 1] {
            report(&mut bench, replica, 50, 1);
        }
        report(&mut bench, 0, 20, 7);
        for (replica, next) in [(0, 21), (1, 20), (1, 21), (0, 22), (1, 22)] {
            report(&mut bench, replica, next, 10);
        }
        assert_eq!(bench.window(1), (20, Some((21, 21))), "and not 50");
        assert_eq!(bench.seen.whole(), [(1, 1), (21, 21)], "one had reported 20 before the other went back");
        report(&mut bench, 0, 22, 1);
        report(&mut bench, 0, 23, 1);
        report(&mut bench, 1, 23, 1);
        report(&mut bench, 0, 24, 1);
        report(&mut bench, 1, 24, 1);
        assert_eq!(bench.seen.whole().last(), Some(&(23, 23)));
        assert!(!bench.seen.whole().contains(&(22, 22)), "one replica measured it twice");
    }

    #[test]
    fn renewed_replicas_start_anew() {
        let mut bench = Bench::new(2);
        bench.report(0, 3);
        let (mut switch, collecting) = Replica::new();
        bench.collector.renew(vec![collecting], &[program().schedule()]);
        assert_eq!(bench.window(9), (0, None));
        switch.send(8, 2, End::Epoch);
        bench.collector.collect_ready();
        assert_eq!(bench.window(9), (8, Some((1, 1))));
        assert!(switch.rotation.spare().is_some(), "the bank goes back to the new replica");
    }

    #[test]
    fn collecting_waits_and_ends() {
        let mut bench = Bench::new(1);
        assert!(!bench.collector.collect(Duration::from_millis(1)));
        let mut replica = bench.replicas.remove(0);
        let sends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            replica.send(9, 2, End::Epoch);
        });
        assert!(bench.collector.collect(Duration::from_secs(10)), "taken as soon as it is sent");
        assert_eq!(bench.window(1), (9, Some((1, 1))));
        sends.join().unwrap();
        assert!(!bench.collector.collect(Duration::from_millis(1)), "the switch is gone");
    }
}
