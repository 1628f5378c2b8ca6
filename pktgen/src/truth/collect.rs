//! The counts of all cores, joined by epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir::json::Epoch;
use weir::wire::Flow;

use super::{Closed, SentCount};

/// A flow's frames of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTruth {
    /// The flow's number in the run.
    #[serde(skip)]
    pub number: u32,
    #[serde(skip_serializing)]
    pub epoch: u64,
    pub flow: Flow,
    pub sent_packets: u64,
    /// With FCS left out, as weir counts bytes.
    pub sent_bytes: u64,
    /// Of these, frames that came back.
    pub received_packets: u64,
    /// Of those that came back, frames that came more than three epochs later.
    pub late_packets: u64,
}

/// A flow's line, with the times of its epoch.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    epoch: Epoch,
    #[serde(flatten)]
    flow: &'a FlowTruth,
}

/// All flows of one epoch that sent something, by their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochTruth {
    pub epoch: u64,
    pub flows: Vec<FlowTruth>,
}

#[derive(Debug, Default)]
struct Open {
    sent: Vec<(u32, Box<[SentCount]>)>,
    received: Vec<Box<[u32]>>,
}

/// Most epochs of which some cores' counts have come.
const WAITING: usize = 64;
/// Unknown epochs that are remembered.
const UNKNOWN: usize = 4096;

/// Joins what cores hand over.
#[derive(Debug)]
pub struct Collector {
    cores: u32,
    /// By number.
    flows: Vec<Flow>,
    open: BTreeMap<u64, Open>,
    /// Epochs whose counts a core could not hand over.
    unknown: BTreeSet<u64>,
    /// Of these, how many were forgotten.
    forgotten: u64,
    /// Unknown epochs that were not asked for.
    missed: Vec<u64>,
    done: u32,
    /// Frames that came when their epoch's bank was closed, and those whose epoch and flow are not
    /// known for want of room.
    pub late_packets: u64,
    pub nameless_packets: u64,
    /// Late frames that were not asked for.
    late: Vec<(u64, u32)>,
}

impl Collector {
    pub fn new(cores: u32, flows: Vec<Flow>) -> Self {
        Self {
            cores,
            flows,
            open: BTreeMap::new(),
            unknown: BTreeSet::new(),
            forgotten: 0,
            missed: Vec::new(),
            done: 0,
            late_packets: 0,
            nameless_packets: 0,
            late: Vec::new(),
        }
    }

    /// Takes what a core hands over. Gives the epoch that is whole with it.
    pub fn take(&mut self, closed: Closed) -> Option<EpochTruth> {
        let epoch = match closed {
            Closed::Sent { core, epoch, counts, unknown } => {
                unknown.into_iter().for_each(|epoch| self.miss(epoch));
                if self.unknown.contains(&epoch) {
                    return None;
                }
                self.open.entry(epoch).or_default().sent.push((core, counts));
                epoch
            }
            Closed::Received { epoch, counts, late, .. } => {
                self.late_packets += late.packets();
                self.nameless_packets += late.more;
                self.late.extend(late.frames);
                if self.unknown.contains(&epoch) {
                    return None;
                }
                self.open.entry(epoch).or_default().received.push(counts);
                epoch
            }
            Closed::Done { .. } => {
                self.done += 1;
                return None;
            }
        };
        // A core that stands still hands nothing over.
        if self.open.len() > WAITING
            && let Some(oldest) = self.open.first_key_value().map(|(epoch, _)| *epoch)
        {
            self.miss(oldest);
        }
        let cores = self.cores as usize;
        let whole = self.open.get(&epoch).is_some_and(|open| open.sent.len() == cores && open.received.len() == cores);
        whole.then(|| self.open.remove(&epoch)).flatten().map(|open| self.join(epoch, &open))
    }

    fn miss(&mut self, epoch: u64) {
        self.open.remove(&epoch);
        if self.unknown.insert(epoch) {
            self.missed.push(epoch);
        }
        if self.unknown.len() > UNKNOWN {
            self.unknown.pop_first();
            self.forgotten += 1;
        }
    }

    /// Epochs of which not all counts came, and which are in no truth.
    pub fn unknown_epochs(&self) -> u64 {
        self.unknown.len() as u64 + self.forgotten
    }

    /// Of these, those since this was asked last.
    pub fn missed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.missed)
    }

    /// Late frames since this was asked last: epoch and flow's number of each.
    pub fn late(&mut self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.late)
    }

    pub fn is_done(&self) -> bool {
        self.done == self.cores
    }

    /// The epochs of which not all cores reported, at the end: a core that started late has no counts
    /// of the first.
    pub fn rest(&mut self) -> Vec<EpochTruth> {
        let open = std::mem::take(&mut self.open);
        let joined = open.iter().map(|(epoch, open)| self.join(*epoch, open));
        joined.filter(|truth| !truth.flows.is_empty()).collect()
    }

    fn join(&self, epoch: u64, open: &Open) -> EpochTruth {
        let mut flows = Vec::new();
        for (core, counts) in &open.sent {
            for (place, count) in (0..).zip(counts).filter(|(_, count)| count.packets > 0) {
                let number = (place * self.cores + core) as usize;
                let received = open.received.iter().map(|counts| u64::from(counts.get(number).copied().unwrap_or(0)));
                flows.push(FlowTruth {
                    number: number as u32,
                    epoch,
                    flow: self.flows.get(number).copied().unwrap_or_default(),
                    sent_packets: count.packets,
                    sent_bytes: count.bytes,
                    received_packets: received.sum(),
                    late_packets: 0,
                });
            }
        }
        flows.sort_unstable_by_key(|flow| flow.number);
        EpochTruth { epoch, flows }
    }
}

impl EpochTruth {
    /// Whether all frames of all flows came back.
    pub fn is_whole(&self) -> bool {
        self.flows.iter().all(|flow| flow.received_packets >= flow.sent_packets)
    }

    /// Adds late frames to the flow of this number; false if it sent nothing.
    pub fn add_late(&mut self, number: u32, packets: u64) -> bool {
        let Ok(place) = self.flows.binary_search_by_key(&number, |flow| flow.number) else { return false };
        let flow = &mut self.flows[place];
        flow.received_packets += packets;
        flow.late_packets += packets;
        true
    }

    /// One line of JSON for each flow, in epochs of this length.
    pub fn write(&self, length_ns: u64, to: &mut impl Write) -> io::Result<()> {
        let epoch = Epoch::new(self.epoch, length_ns);
        for flow in &self.flows {
            serde_json::to_writer(&mut *to, &Line { epoch, flow })?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::Late;

    fn flow(n: u16) -> Flow {
        Flow { sport: Some(n), ..Flow::default() }
    }

    fn sent(packets: &[u64]) -> Box<[SentCount]> {
        packets.iter().map(|&packets| SentCount { packets, bytes: 60 * packets }).collect()
    }

    /// Flow n of core c has number n × cores + c.
    #[test]
    fn an_epoch_is_whole_with_its_last_core() {
        let mut collector = Collector::new(2, (0..4).map(flow).collect());
        let late = || Late { frames: vec![(3, 1)], more: 2 };
        let received =
            |core, counts: [u32; 4]| Closed::Received { core, epoch: 5, counts: counts.into(), late: late() };
        assert!(collector.take(Closed::Sent { core: 0, epoch: 5, counts: sent(&[10, 0]), unknown: vec![] }).is_none());
        assert!(collector.take(received(1, [4, 0, 0, 2])).is_none());
        assert!(collector.take(Closed::Sent { core: 1, epoch: 5, counts: sent(&[20, 30]), unknown: vec![] }).is_none());
        let truth = collector.take(received(0, [6, 19, 0, 0])).unwrap();
        let mut counts: Vec<_> =
            truth.flows.iter().map(|f| (f.flow.sport.unwrap(), f.sent_packets, f.received_packets)).collect();
        counts.sort();
        assert_eq!(counts, [(0, 10, 10), (1, 20, 19), (3, 30, 2)]);
        assert_eq!((collector.late_packets, collector.nameless_packets), (6, 4));
        assert_eq!((collector.late(), collector.late()), (vec![(3, 1); 2], vec![]));
        assert!(collector.take(Closed::Done { core: 0 }).is_none() && !collector.is_done());
        collector.take(Closed::Done { core: 1 });
        assert!(collector.is_done() && collector.rest().is_empty());
    }

    /// An epoch of which a core's counts are missing is no truth: it would look like losses.
    #[test]
    fn an_epoch_without_all_counts_is_unknown() {
        let mut collector = Collector::new(1, vec![flow(0)]);
        let closed = |epoch, unknown| Closed::Sent { core: 0, epoch, counts: sent(&[10]), unknown };
        assert!(collector.take(closed(5, vec![])).is_none());
        assert!(collector.take(closed(6, vec![5])).is_none());
        let late = Closed::Received { core: 0, epoch: 5, counts: [3].into(), late: Late::default() };
        assert!(collector.take(late).is_none());
        assert_eq!((collector.unknown_epochs(), collector.missed()), (1, vec![5]));
        assert!(collector.missed().is_empty());
        assert_eq!(collector.rest().iter().map(|truth| truth.epoch).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_line_is_read_back() {
        let truth = EpochTruth {
            epoch: 7,
            flows: vec![FlowTruth {
                epoch: 7,
                flow: flow(9),
                sent_packets: 3,
                sent_bytes: 180,
                received_packets: 2,
                ..FlowTruth::default()
            }],
        };
        let mut text = Vec::new();
        truth.write(1 << 26, &mut text).unwrap();
        let line = String::from_utf8(text).unwrap();
        assert_eq!(serde_json::from_str::<FlowTruth>(line.trim_end()).unwrap(), truth.flows[0]);
        let begin =
            r#"{"epoch":7,"start":"1970-01-01T00:00:00.469762048Z","end":"1970-01-01T00:00:00.536870912Z","flow":{"#;
        assert!(line.ends_with("}\n") && line.starts_with(begin), "{line}");
    }
}
