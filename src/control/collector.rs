//! The collector: takes the replicas' registers at the end of each epoch, gives zeroed ones back,
//! merges, and hands records on.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Select};

use crate::epoch::{Banks, Collecting};
use crate::program::{AnyRecord, AnySchedule};

/// An epoch for which some replicas have not reported yet.
struct Pending {
    first: u64,
    records: Vec<AnyRecord>,
    /// The replicas that have reported.
    replicas: Vec<usize>,
    /// Whether the epoch was over when each of them reported.
    over: bool,
}

/// How many epochs a replica may be behind before its absence no longer holds the others up.
const PATIENCE: u64 = 2;

/// Merges the replicas of one switch.
pub struct Collector {
    replicas: Vec<Collecting>,
    pending: BTreeMap<u64, Pending>,
    /// The last epoch of the newest record of each replica.
    newest: Vec<u64>,
    sinks: Vec<Box<dyn Sink>>,
}

/// One program's record of an epoch, merged over all replicas; of several when the collector was late.
#[derive(Clone, Copy, Debug)]
pub struct Closed<'a> {
    /// The program's place in the configuration.
    pub program: usize,
    pub first: u64,
    pub last: u64,
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
        let newest = vec![0; replicas.len()];
        Self { replicas, pending: BTreeMap::new(), newest, sinks: Vec::new() }
    }

    /// Lets `sink` have all records from now on.
    pub fn subscribe(&mut self, sink: Box<dyn Sink>) {
        self.sinks.push(sink);
    }

    /// Takes what the replicas have sent. Waits up to `timeout` for the first; false when there was none.
    pub fn collect(&mut self, timeout: Duration) -> bool {
        let Ok(first) = self.receive(timeout) else { return false };
        self.take(first);
        self.collect_ready();
        true
    }

    /// Takes what the replicas have sent, without waiting.
    pub fn collect_ready(&mut self) {
        while let Some(banks) = self.replicas.iter().find_map(|replica| replica.full.try_recv().ok()) {
            self.take(banks);
        }
    }

    /// Closes all epochs, also those that a replica did not report on.
    pub fn finish(&mut self) {
        self.collect_ready();
        while let Some(last) = self.pending.keys().next().copied() {
            self.close(last);
        }
    }

    /// Goes on with other replicas, whose programs or epochs are others. The replicas so far must have
    /// [finished](crate::switch::Measure::finish). The sinks get their last records first.
    pub fn renew(&mut self, replicas: Vec<Collecting>, schedules: &[AnySchedule]) {
        self.finish();
        self.newest = vec![0; replicas.len()];
        self.replicas = replicas;
        self.sinks.iter_mut().for_each(|sink| sink.renewed(schedules));
    }

    fn receive(&self, timeout: Duration) -> Result<Banks, RecvTimeoutError> {
        let mut select = Select::new();
        for replica in &self.replicas {
            select.recv(&replica.full);
        }
        let ready = select.select_timeout(timeout).map_err(|_| RecvTimeoutError::Timeout)?;
        let index = ready.index();
        ready.recv(&self.replicas[index].full).map_err(|_| RecvTimeoutError::Disconnected)
    }

    fn take(&mut self, mut banks: Banks) {
        let records: Vec<_> = banks.banks.iter().map(|bank| bank.record()).collect();
        banks.banks.iter_mut().for_each(|bank| bank.clear());
        if let Some(replica) = self.replicas.get(banks.replica) {
            // The channel has room for every set that exists, so this fails only when the switch is gone.
            let _ = replica.spares.try_send(banks.banks);
        }
        let (first, last) = (banks.first_epoch, banks.last_epoch);
        let newest = self.newest.get_mut(banks.replica).map_or(0, |newest| std::mem::replace(newest, last));
        if last < newest {
            self.step_back(last, records.len());
        }
        match self.pending.get_mut(&last) {
            None => {
                self.pending.insert(last, Pending { first, records, replicas: vec![banks.replica], over: banks.over });
            }
            Some(pending) => {
                pending.first = pending.first.min(first);
                // One that reports an epoch twice measured it twice, because its clock was set back.
                pending.over &= banks.over && !pending.replicas.contains(&banks.replica);
                pending.replicas.push(banks.replica);
                for (merged, record) in pending.records.iter_mut().zip(&records) {
                    if let Err(error) = merged.merge(record) {
                        // Replicas are built from one configuration, so their records have one shape.
                        tracing::error!(target: "weir", event = "records", "epoch {last}: {error}");
                        pending.over = false;
                    }
                }
            }
        }
        let done = |(&epoch, pending): (&u64, &Pending)| {
            (pending.replicas.len() >= self.replicas.len() || epoch + PATIENCE < last).then_some(epoch)
        };
        let done: Vec<_> = self.pending.iter().filter_map(done).collect();
        done.into_iter().for_each(|epoch| self.close(epoch));
    }

    /// The clock was set back: what was measured under numbers that come again is not to be taken for the newest.
    fn step_back(&mut self, last: u64, programs: usize) {
        while let Some(later) = self.pending.keys().next_back().copied().filter(|later| *later > last) {
            self.close(later);
        }
        for sink in &mut self.sinks {
            (0..programs).for_each(|program| sink.set_back(program, last));
        }
    }

    fn close(&mut self, last: u64) {
        if let Some(Pending { first, records, replicas, over }) = self.pending.remove(&last) {
            // A part of an epoch would be taken for all of it.
            let whole = over && replicas.len() == self.replicas.len();
            for (program, record) in records.iter().enumerate() {
                let closed = Closed { program, first, last, record };
                self.sinks.iter_mut().for_each(|sink| if whole { sink.closed(closed) } else { sink.partial(closed) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::epoch::{HandOver, Turn, hand_over};
    use crate::program::Bank;
    use crate::program::ProgramConfig;
    use crate::program::hashpipe::{Counts, HashPipe};
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
            AnyRecord::new(Counts([(FLOW, self.0)].into_iter().filter(|(_, count)| *count > 0).collect()))
        }
    }

    struct Bench {
        replicas: Vec<HandOver>,
        collector: Collector,
        seen: Seen,
    }

    /// A record as a sink was given it.
    #[derive(Clone, Copy, Debug)]
    struct Record {
        first: u64,
        last: u64,
        count: u64,
        whole: bool,
    }

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<Record>>>);

    impl Seen {
        fn take(&self, Closed { program, first, last, record }: Closed<'_>, whole: bool) {
            assert_eq!(program, 0);
            let count = record.get::<Counts>().unwrap().0.values().sum();
            self.0.lock().unwrap().push(Record { first, last, count, whole });
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
        /// Replicas whose epochs are a nanosecond long and start with number 1.
        fn new(replicas: usize) -> Self {
            let (mut switches, collecting): (Vec<_>, Vec<_>) =
                (0..replicas).map(|replica| hand_over(replica, Some(1), 2)).unzip();
            switches.iter_mut().for_each(|switch| assert_eq!(switch.turn(1), Turn::Start(1)));
            let (mut collector, seen) = (Collector::new(collecting), Seen::default());
            collector.subscribe(Box::new(seen.clone()));
            Self { replicas: switches, collector, seen }
        }

        /// A replica ends its running epoch with this count.
        fn report(&mut self, replica: usize, count: u64) {
            let next = self.replicas[replica].running() + 1;
            let banks = self.replicas[replica].end(vec![Box::new(Fake(count))], next);
            assert!(self.replicas[replica].send(banks));
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

    #[test]
    fn spares_come_back_cleared() {
        let mut bench = Bench::new(2);
        bench.report(1, 7);
        assert!(bench.replicas[0].spare().is_none());
        let spare = bench.replicas[1].spare().expect("the bank goes back to the replica that sent it");
        assert_eq!(spare[0].record(), AnyRecord::new(Counts::default()));
        assert!(bench.replicas[1].spare().is_none());
    }

    #[test]
    fn a_missing_replica_holds_the_others_up_for_a_while_only() {
        let mut bench = Bench::new(2);
        for epoch in 1..=3 {
            bench.report(0, epoch);
        }
        assert_eq!(bench.window(9), (0, None));
        bench.report(0, 4);
        assert_eq!(bench.window(9), (1, Some((1, 1))), "epoch 1 has waited {PATIENCE} epochs");
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
            assert_eq!(bench.replicas[0].turn(2), Turn::End(2));
            bench.replicas[0].carry_on(2);
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
        bench.replicas[0].stop();
        bench.report(0, 1);
        bench.report(1, 1);
        assert_eq!(bench.seen.whole().len(), 4, "one was stopped within epoch 6");
    }

    /// The clock is set back while one replica has reported and the other has not. What comes is the newest, an epoch that was measured
    /// twice is not whole, and nothing of the first time is added to the second.
    #[test]
    fn clocks_that_are_set_back() {
        let mut bench = Bench::new(2);
        let report = |bench: &mut Bench, replica: usize, next, count| {
            let banks = bench.replicas[replica].end(vec![Box::new(Fake(count))], next);
            assert!(bench.replicas[replica].send(banks));
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
        let (mut switch, collecting) = hand_over(0, Some(1), 2);
        assert_eq!(switch.turn(1), Turn::Start(1));
        bench.collector.renew(vec![collecting], &[program().schedule()]);
        assert_eq!(bench.window(9), (0, None));
        let banks = switch.end(vec![Box::new(Fake(8))], 2);
        assert!(switch.send(banks));
        bench.collector.collect_ready();
        assert_eq!(bench.window(9), (8, Some((1, 1))));
        assert!(switch.spare().is_some(), "the bank goes back to the new replica");
    }

    #[test]
    fn collecting_waits_and_ends() {
        let mut bench = Bench::new(1);
        assert!(!bench.collector.collect(Duration::from_millis(1)));
        let mut replica = bench.replicas.remove(0);
        let banks = replica.end(vec![Box::new(Fake(9))], 2);
        let sends = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            assert!(replica.send(banks));
        });
        assert!(bench.collector.collect(Duration::from_secs(10)), "taken as soon as it is sent");
        assert_eq!(bench.window(1), (9, Some((1, 1))));
        sends.join().unwrap();
        assert!(!bench.collector.collect(Duration::from_millis(1)), "the switch is gone");
    }
}
