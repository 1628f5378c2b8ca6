//! Follows histories, and exports each epoch once.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::flows::{FlowRecord, Measured};
use super::message::{Message, Messages, Sink};
use super::options::OptionsRecord;
use crate::answers::{
    Certainty, Claim, Claimed, Document, FlowName, Follower, HeavyFlows, Losses, NoAnswer, Passed, Paths, Query,
    Queryable, Task,
};
use crate::api::exported::ExportCounters;
use crate::api::view;
use crate::archive;
use crate::config::{IpfixConfig, IpfixRecords};
use crate::history::{Entry, Reason, Window};

/// Where records come from.
pub struct Source {
    /// The name of the switch or controller.
    pub name: String,
    /// The programs and their histories, as they are now.
    pub programs: archive::Source,
    /// Packets that ports have dropped so far, by reason. A controller has none.
    pub drops: Box<dyn Fn() -> Vec<view::Drop> + Send>,
}

/// Sends the bytes of a message.
pub type Transport = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// Messages that are sent without a pause, so that they find room in a collector's receive buffer; and the pause.
const BURST: u32 = 16;
const PAUSE: Duration = Duration::from_millis(1);
/// How often a message that cannot be sent is logged.
const LOGGED: Duration = Duration::from_secs(60);

/// Kinds of flow records, each from the program that answers the task, and the number of the metering process
/// that it is for collectors.
const METERING: [(IpfixRecords, Task, u32); 3] = [
    (IpfixRecords::Heavy, Task::Heavy, 1),
    (IpfixRecords::Losses, Task::Losses, 2),
    (IpfixRecords::Paths, Task::Paths, 3),
];

/// Exports what a switch or a controller measured.
pub struct Exporter {
    config: IpfixConfig,
    source: Source,
    messages: Messages,
    /// By the places of [`METERING`].
    followers: [Follower; METERING.len()],
    drops: Vec<view::Drop>,
    refreshed: Option<Instant>,
    sender: Sender,
}

/// Sends messages, and counts them.
struct Sender {
    transport: Transport,
    counters: Arc<ExportCounters>,
    /// Messages since the last pause.
    burst: u32,
    logged: Option<Instant>,
}

impl Sink for Sender {
    fn take(&mut self, message: Message<'_>) -> bool {
        self.burst += 1;
        if self.burst == BURST {
            self.burst = 0;
            sleep(PAUSE);
        }
        let sent = (self.transport)(message.bytes);
        self.counters.count(|counters| match &sent {
            Ok(()) => {
                counters.messages += 1;
                counters.flow_records += u64::from(message.flows);
            }
            Err(error) => {
                counters.unsent_messages += 1;
                counters.unsent_flow_records += u64::from(message.flows);
                counters.last_error = Some(error.to_string());
            }
        });
        if let Err(error) = &sent
            && self.logged.is_none_or(|logged| logged.elapsed() >= LOGGED)
        {
            self.logged = Some(Instant::now());
            let counted = self.counters.view();
            tracing::warn!(
                target: "weir", event = "ipfix_unsent", collector = counted.collector,
                unsent_flow_records = counted.unsent_flow_records, "IPFIX is not sent: {error}"
            );
        }
        sent.is_ok()
    }
}

impl Exporter {
    /// An exporter that sends by `transport`, and has sent nothing yet.
    pub fn new(config: IpfixConfig, source: Source, transport: Transport, counters: Arc<ExportCounters>) -> Self {
        let messages = Messages::new(config.observation_domain, config.message_bytes as usize);
        let sender = Sender { transport, counters, burst: 0, logged: None };
        let followers = std::array::from_fn(|_| Follower::default());
        Self { config, source, messages, followers, drops: Vec::new(), refreshed: None, sender }
    }

    /// Exports what has become final, and what ports dropped since. `now` is the time in nanoseconds since 1970.
    pub fn round(&mut self, now: u64) {
        let seconds = (now / 1_000_000_000) as u32;
        if self.refreshed.is_none_or(|refreshed| refreshed.elapsed() >= self.config.template_refresh.0) {
            self.refreshed = Some(Instant::now());
            self.messages.refresh();
            self.say(seconds);
        }
        let (programs, histories): (Vec<_>, Vec<_>) = (self.source.programs)().into_iter().unzip();
        for (place, (records, task, _)) in METERING.into_iter().enumerate() {
            if !self.config.records.contains(&records) {
                continue;
            }
            // One program for each kind: a flow that two programs count is exported once.
            let ranked =
                programs.iter().zip(&histories).filter_map(|(program, history)| Some((program.rank(task)?, history)));
            if let Some((_, history)) = ranked.min_by_key(|(rank, _)| *rank) {
                self.follow(place, history, &histories, seconds);
            }
        }
        if self.config.records.contains(&IpfixRecords::Drops) {
            self.export_drops(seconds);
        }
        self.messages.flush(seconds, &mut self.sender);
    }

    /// Adds the records about the export itself: its name and its counters.
    fn say(&mut self, now: u32) {
        let name = self.source.name.clone();
        self.add_options(&OptionsRecord::Domain { id: self.config.observation_domain, name: &name }, now);
        let counted = self.sender.counters.view();
        let export = OptionsRecord::Export {
            messages: counted.messages,
            flow_records: counted.flow_records,
            unsent_records: counted.not_sent(),
        };
        self.add_options(&export, now);
        // All totals of drops are exported again: the collector may have missed some.
        self.drops.clear();
    }

    /// Exports the epochs of a history that have become final.
    fn follow(&mut self, place: usize, history: &Arc<dyn Queryable>, all: &[Arc<dyn Queryable>], now: u32) {
        self.followers[place].turn_to(history);
        let entries = self.followers[place].fresh();
        for of_epoch in entries.chunk_by(|one, other| one.epoch == other.epoch) {
            self.follow_epoch(place, of_epoch, &**history, all, now);
        }
    }

    fn follow_epoch(
        &mut self,
        place: usize,
        entries: &[Entry<()>],
        history: &dyn Queryable,
        all: &[Arc<dyn Queryable>],
        now: u32,
    ) {
        let (_, task, metering_process) = METERING[place];
        let Some(Passed { epoch, missing, .. }) = self.followers[place].pass(entries) else { return };
        if missing > 0 {
            let first = entries.iter().map(|entry| entry.first_epoch).fold(epoch, u64::min);
            let time = [first.saturating_sub(missing), first].map(|epoch| epoch.saturating_mul(history.length()));
            self.sender.counters.count(|counters| counters.missed_epochs += missing);
            let time = time[0]..time[1];
            self.add_options(&OptionsRecord::Incomplete { metering_process, time }, now);
        }
        let query = Query::new(task, Window::Epoch(epoch)).limited(self.config.flows as usize, 1);
        let query = Query { provisional: false, routes: archive::routes(all, history, epoch), ..query };
        let is_complete = match task {
            Task::Heavy => ask(history, &query).map(|answer| self.export_heavy(&answer, now)),
            Task::Losses => ask(history, &query).map(|answer| self.export_losses(&answer, now)),
            _ => ask(history, &query).map(|answer| self.export_paths(&answer, now)),
        };
        if !is_complete.unwrap_or(true) {
            self.sender.counters.count(|counters| counters.incomplete_answers += 1);
            let first = entries.iter().map(|entry| entry.first_epoch).fold(epoch, u64::min);
            let length = history.length();
            let time = first.saturating_mul(length)..epoch.saturating_add(1).saturating_mul(length);
            self.add_options(&OptionsRecord::Incomplete { metering_process, time }, now);
        }
    }

    /// Exports heavy flows. Returns whether the answer is complete.
    fn export_heavy(&mut self, answer: &Claimed<HeavyFlows>, now: u32) -> bool {
        for heavy in &answer.heavy {
            let measured = match (heavy.packets, heavy.bytes) {
                (Some(packets), _) => Measured::Packets(packets),
                (None, Some(bytes)) => Measured::Bytes(bytes),
                (None, None) => continue,
            };
            self.add_flow(&heavy.name, time(&answer.claim), measured, now);
        }
        is_complete(&answer.claim)
    }

    fn export_losses(&mut self, answer: &Claimed<Losses>, now: u32) -> bool {
        for lost in &answer.losses {
            self.add_flow(&lost.name, time(&answer.claim), Measured::LostPackets(lost.packets), now);
        }
        // Any gap may hide a loss, or seem one.
        is_complete(&answer.claim) && answer.claim.gaps.is_empty() && answer.unknown_epochs == 0
    }

    /// Exports the paths that are sure. The time of a path is that of the packets that tell it.
    fn export_paths(&mut self, answer: &Claimed<Paths>, now: u32) -> bool {
        for path in answer.paths.iter().filter(|path| path.certainty == Certainty::Sure) {
            let switches: Option<Vec<_>> = path.switches.iter().cloned().collect();
            if let (Some(switches), Some(sure)) = (switches, path.sure) {
                self.add_flow(&path.flow, sure.since_ns..sure.until_ns, Measured::Path(switches), now);
            }
        }
        is_complete(&answer.claim)
    }

    fn add_flow(&mut self, name: &FlowName, time: Range<u64>, measured: Measured, now: u32) {
        let record = name.flow().and_then(|flow| FlowRecord { flow, time, measured }.encode());
        let Some((template, record)) = record else {
            self.sender.counters.count(|counters| counters.unnamed_flows += 1);
            return;
        };
        if self.messages.add(&template, &record, now, &mut self.sender).is_err() {
            self.sender.counters.count(|counters| counters.long_records += 1);
        }
    }

    fn add_options(&mut self, options: &OptionsRecord<'_>, now: u32) {
        let (template, record) = options.encode();
        // Names have at most 32 bytes, so that it fits any message.
        let added = self.messages.add(&template, &record, now, &mut self.sender);
        debug_assert_eq!(added, Ok(()));
    }

    /// Exports the totals that have changed since they were exported last.
    fn export_drops(&mut self, now: u32) {
        let drops = (self.source.drops)();
        let before = std::mem::take(&mut self.drops);
        for drop in drops.iter().filter(|drop| !before.contains(drop)) {
            let view::Drop { port, reason, packets, device } = drop;
            self.add_options(&OptionsRecord::Drops { port, reason, is_of_device: *device, packets: *packets }, now);
        }
        self.drops = drops;
    }
}

fn ask<A: Document>(history: &dyn Queryable, query: &Query) -> Result<Claimed<A>, NoAnswer> {
    history.answer(query)
}

/// The time that an answer covers.
fn time(claim: &Claim) -> Range<u64> {
    let [start, end] = [claim.start, claim.end].map(|time| time.map_or(0, |time| time.0));
    start..end
}

/// Whether an answer lacks nothing but what its program never has.
fn is_complete(claim: &Claim) -> bool {
    claim.incomplete.iter().all(Reason::is_standing)
}
