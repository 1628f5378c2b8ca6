//! From the reports of an epoch to answers: a line of switches, whose dataplane makes the reports,
//! and the analysis of their controller.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weir::answers::{Certainty, Claimed, Paths, Query, Task};
use weir::history::{Finality, Reasons, Room, Window};
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::pint::{Config, Pint};
use weir::program::{AnyRecord, AnyReported, Bank, Before, Closing, Dataplane, ProgramConfig, RecordReader};
use weir::trace::SplitMix64;
use weir::wire::{Headers, Net, Shim, proto, shim};

use super::micros;

/// Switches on a path, and others that the controller knows: those of a fat tree of K = 8.
const LENGTH: usize = 5;
const SWITCHES: usize = 80;

/// Reports of an epoch, as many as a switch keeps by default.
const REPORTS: usize = 16_384;

/// What an epoch is made of.
struct Case {
    name: &'static str,
    queries: &'static str,
    /// Packets of each flow in an epoch.
    packets: usize,
    /// Epochs of the same flows before the one that is timed.
    before: usize,
    /// Whether paths are to be sure by then.
    sure: Option<bool>,
}

const CASES: [Case; 7] = [
    Case {
        name: "path, new flows of 4 packets",
        queries: "path:bits=8:instances=2",
        packets: 4,
        before: 0,
        sure: Some(false),
    },
    Case {
        name: "path, new flows of 16 packets",
        queries: "path:bits=8:instances=2",
        packets: 16,
        before: 0,
        sure: Some(false),
    },
    Case {
        name: "path, new flows of 64 packets",
        queries: "path:bits=8:instances=2",
        packets: 64,
        before: 0,
        sure: None,
    },
    Case { name: "path, sure", queries: "path:bits=8:instances=2", packets: 64, before: 2, sure: Some(true) },
    Case { name: "latency, all samples", queries: "latency:bits=8", packets: 64, before: 2, sure: None },
    Case {
        name: "latency, sketches of 100 bytes",
        queries: "latency:bits=8:space=100",
        packets: 64,
        before: 2,
        sure: None,
    },
    Case {
        name: "path, sure, and latency in sketches",
        queries: "path:bits=8+latency:bits=8:space=100",
        packets: 64,
        before: 4,
        sure: Some(true),
    },
];

/// A line of switches, and what reads their records.
struct Line {
    switches: Vec<Box<dyn Dataplane>>,
    /// A bank of each.
    spares: Vec<Box<dyn Bank>>,
    config: ProgramConfig,
    reader: RecordReader,
    names: Vec<Arc<str>>,
    rng: SplitMix64,
}

impl Line {
    fn new(queries: &str, seed: u64) -> Result<Self> {
        let queries = queries.parse().map_err(anyhow::Error::msg)?;
        let config = ProgramConfig::new::<Pint>(Config { queries, reports: REPORTS as u32, ..Config::default() });
        let hashes = HashFamily::reproducible(seed);
        let names: Vec<Arc<str>> = (0..SWITCHES).map(|switch| format!("s{switch}").into()).collect();
        let switch = |name: &Arc<str>| -> Result<_> {
            let mut switch = config.build(name, &hashes)?;
            switch.allocate();
            switch.enter(0, true);
            Ok(switch)
        };
        let switches = names[..LENGTH].iter().map(switch).collect::<Result<Vec<_>>>()?;
        let spares = switches.iter().map(|switch| switch.spare()).collect();
        let reader = config.reader("", &hashes);
        Ok(Self { switches, spares, reader, config, names, rng: SplitMix64::new(seed) })
    }

    /// Sends the packets of an epoch, in which flows take turns. The records of the first switch,
    /// which no packet leaves, and the bytes of that of the last.
    fn epoch(&mut self, epoch: u64, flows: usize) -> Result<(AnyRecord, Vec<u8>)> {
        for number in 0..REPORTS {
            let flow = (number % flows) as u32;
            let headers = Headers {
                net: Net::Ipv4,
                proto: proto::UDP,
                src_ip: (0x0a00_0000 + flow).into(),
                dst_ip: 0x0aff_0001,
                sport: 1000,
                dport: 2000,
                shim: true,
                ..Headers::default()
            };
            let (identity, latency) = (self.rng.next_u64() as u32, 1000 + self.rng.below(100_000) as u32);
            let mut phv = [Phv { headers, identity, latency_ns: latency, egress_ns: number as u64, ..Phv::default() }];
            for (hop, switch) in (1..).zip(&mut self.switches) {
                phv[0].shim = Shim::default().with_epoch(shim::epoch_of(epoch)).with_hop(hop);
                phv[0].enters = hop == 1;
                let last = usize::from(hop) == LENGTH;
                phv[0].disposition = if last { Disposition::ToHost } else { Disposition::ToFabric };
                switch.egress(&mut phv, BatchOrder::PacketMajor);
            }
        }
        for (switch, spare) in self.switches.iter_mut().zip(&mut self.spares) {
            switch.exchange(spare.as_mut());
            switch.prepare(epoch + 1);
            switch.enter(epoch + 1, true);
            switch.exchange_egress(spare.as_mut());
        }
        let records: Vec<_> = self.spares.iter().map(|spare| spare.record()).collect();
        self.spares.iter_mut().for_each(|spare| spare.clear());
        let (first, last) = records.first().zip(records.last()).context("there are switches")?;
        Ok((first.clone(), last.encode()))
    }
}

/// Times of one epoch.
struct Taken {
    decode: Duration,
    epoch: Duration,
    bytes: usize,
}

pub fn run(runs: usize, seed: u64) -> Result<()> {
    // An epoch has thousands of paths of its own.
    let runs = runs.div_ceil(10);
    println!(
        "Epochs of {REPORTS} reports of paths of {LENGTH} switches out of {SWITCHES}, one core, the least of {runs} epochs: from \
         bytes to a record, and from the record to answers.\n"
    );
    println!("| reports of | bytes a report | to a record, µs a report | to answers, µs a report | reports a second |");
    println!("| --- | --- | --- | --- | --- |");
    for case in &CASES {
        let taken = (0..runs).map(|run| measure(case, seed + run as u64)).collect::<Result<Vec<_>>>()?;
        let each = |time: Duration| micros(time) / REPORTS as f64;
        let least = |time: fn(&Taken) -> Duration| each(taken.iter().map(time).min().unwrap_or_default());
        let (decode, epoch) = (least(|taken| taken.decode), least(|taken| taken.epoch));
        let bytes = taken.iter().map(|taken| taken.bytes).sum::<usize>() as f64 / (taken.len() * REPORTS) as f64;
        let rate = 1e6 / (decode + epoch);
        println!("| {} | {bytes:.1} | {decode:.2} | {epoch:.2} | {rate:.0} |", case.name);
    }
    Ok(())
}

fn measure(case: &Case, seed: u64) -> Result<Taken> {
    let mut line = Line::new(case.queries, seed)?;
    let parameters = line.config.start();
    let mut analyser = line.config.analyser(0, Room { epochs: 2, bytes: usize::MAX });
    let flows = REPORTS / case.packets;
    let sink = line.names[LENGTH - 1].clone();
    let mut taken = None;
    for epoch in 0..=case.before as u64 {
        // Switches that nothing has left report too, and so are known.
        let (idle, bytes) = line.epoch(epoch, flows)?;
        let started = Instant::now();
        let record = (line.reader)(&bytes)?;
        let decode = started.elapsed();
        let others = line.names.iter().filter(|name| **name != sink);
        let reported = std::iter::once((&sink, record)).chain(others.map(|name| (name, idle.clone())));
        let reported = reported.map(|(switch, record)| AnyReported {
            switch: switch.clone(),
            record: Ok(record),
            before: Before::Nothing,
        });
        let reported = reported.collect();
        let started = Instant::now();
        analyser.close(Closing {
            epoch,
            first_epoch: epoch,
            parameters: &parameters,
            reported,
            gaps: Vec::new(),
            doubts: Reasons::default(),
            finality: Finality::at_once(),
            decide: None,
        })?;
        taken = Some(Taken { decode, epoch: started.elapsed(), bytes: bytes.len() });
        let paths: Claimed<Paths> = analyser.history().answer(&Query::new(Task::Paths, Window::Epoch(epoch)))?;
        if paths.asked && epoch == case.before as u64 {
            let paths = &paths.paths;
            ensure!(paths.len() == flows, "{}: {} flows of {flows}", case.name, paths.len());
            let truth = &line.names[..LENGTH];
            let is_sure = |path: &&weir::answers::FlowPath| path.certainty == Certainty::Sure;
            let right = |path: &weir::answers::FlowPath| path.switches.iter().flatten().eq(truth);
            ensure!(paths.iter().filter(is_sure).all(right), "{}: a sure path is wrong", case.name);
            let sure = paths.iter().filter(is_sure).count();
            let as_meant = case.sure.is_none_or(|wanted| (sure * 10 > flows * 9) == wanted);
            ensure!(as_meant, "{}: {sure} of {flows} paths are sure", case.name);
        }
    }
    taken.context("an epoch was timed")
}
