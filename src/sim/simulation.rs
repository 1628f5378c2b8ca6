//! A simulation: epochs of traffic, and after each what was measured beside what was true.

use std::sync::Arc;

use super::follow::{Follow, Named};
use super::report::{ChameleMonReport, EpochReport, HashPipeReport, ProgramReport};
use super::traffic::Where;
use super::{Network, Setup, SimError, Victims};
use crate::control::controller::Order;
use crate::epoch::Nanos;
use crate::program::hashpipe::{self, Counts};
use crate::program::{ProgramConfig, Record};
use crate::trace::Workload;

/// Who turns one program's records into answers.
enum Collector {
    HashPipe(hashpipe::Config),
    ChameleMon(Box<Follow>),
}

/// A network, what collects its records, and the virtual time.
pub struct Simulation {
    pub(super) network: Network,
    collectors: Vec<(String, Collector)>,
    names: Vec<Arc<str>>,
    length: Nanos,
    transit: Nanos,
    latency: Nanos,
    /// The epoch that comes next.
    next: u64,
}

impl Simulation {
    /// # Errors
    /// If the network cannot be simulated as it is set up.
    pub fn new(setup: &Setup) -> Result<Self, SimError> {
        let network = Network::new(setup)?;
        // Names out of a file may be alike, and longer than a controller takes them.
        let name = |i: usize| format!("s{i}").into();
        let names: Vec<Arc<str>> = (0..network.topology().switches().len()).map(name).collect();
        let measuring = |switch: &usize| setup.everywhere || !network.topology().hosts_of(*switch as u32).is_empty();
        let switches: Vec<_> = (0..names.len()).filter(measuring).map(|switch| names[switch].clone()).collect();
        let collector = |(i, program): (usize, &ProgramConfig)| -> Result<_, SimError> {
            let before = setup.programs[..i].iter().filter(|other| other.name() == program.name()).count();
            let name = if before == 0 { program.name().into() } else { format!("{}_{}", program.name(), before + 1) };
            let collector = match program {
                ProgramConfig::HashPipe(config) => Collector::HashPipe(config.clone()),
                ProgramConfig::ChameleMon(config) => {
                    Collector::ChameleMon(Box::new(Follow::new(config, setup, &switches)?))
                }
            };
            Ok((name, collector))
        };
        Ok(Self {
            collectors: setup.programs.iter().enumerate().map(collector).collect::<Result<_, _>>()?,
            names,
            length: setup.epoch,
            transit: setup.transit,
            latency: setup.latency,
            next: 0,
            network,
        })
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Lets an epoch of new flows pass. The report is that of the epoch before, whose last packets have left by now.
    pub fn epoch(&mut self, workload: &Workload, victims: Option<Victims>) -> Option<EpochReport> {
        self.network.begin(self.next, Some(workload), victims);
        let report = self.collect();
        self.network.run_to((self.next + 1) * self.length);
        self.next += 1;
        report
    }

    /// Lets the last packets leave, and reports the last epoch.
    pub fn finish(&mut self) -> Option<EpochReport> {
        self.network.begin(self.next, None, None);
        self.collect()
    }

    /// At the end of the transit time the records of the epoch before are there. They reach the controller after its latency, and its
    /// orders the switches after another one.
    fn collect(&mut self) -> Option<EpochReport> {
        let over = self.next.checked_sub(1)?;
        let start = self.next * self.length;
        self.network.run_to(start + self.transit);
        self.network.tick();
        let records = self.records();
        self.network.run_to(start + self.transit + self.latency);
        let (report, orders) = self.analyse(over, records);
        self.network.run_to(start + self.transit + 2 * self.latency);
        for (program, Order { epoch, runtime }) in orders {
            for node in self.network.nodes() {
                if let Some(Some(schedule)) = node.schedules.get(program) {
                    // What the controller orders fits the encoders.
                    let ordered = schedule.order(epoch, runtime);
                    debug_assert!(ordered.is_ok(), "{ordered:?}");
                }
            }
        }
        Some(report)
    }

    /// What the switches have handed over, by program.
    fn records(&mut self) -> Vec<Vec<(Arc<str>, Record)>> {
        let mut records: Vec<Vec<_>> = self.collectors.iter().map(|_| Vec::new()).collect();
        for (node, name) in self.network.nodes().iter().zip(&self.names) {
            while let Ok(mut banks) = node.collecting.full.try_recv() {
                for (records, bank) in records.iter_mut().zip(&mut banks.banks) {
                    records.push((name.clone(), bank.record()));
                    bank.clear();
                }
                // There is room for every set of registers that exists.
                let _ = node.collecting.spares.try_send(banks.banks);
            }
        }
        records
    }

    fn analyse(&mut self, epoch: u64, records: Vec<Vec<(Arc<str>, Record)>>) -> (EpochReport, Vec<(usize, Order)>) {
        let mut report = EpochReport::new(epoch, &self.network);
        let mut orders = Vec::new();
        let truth = self.network.generation(epoch);
        let fabric = |at| match at {
            Where::Link(port) | Where::Busy(port) => self.network.peer(port).is_some(),
            Where::Switch(_) => true,
            Where::Astray(_) => false,
        };
        for (program, ((name, collector), records)) in self.collectors.iter_mut().zip(records).enumerate() {
            let answers = match collector {
                Collector::HashPipe(config) => {
                    ProgramReport::HashPipe(HashPipeReport::new(config, &counts(records), truth))
                }
                Collector::ChameleMon(follow) => {
                    let order = follow.epoch(epoch, sketches(records), self.network.now());
                    orders.extend(order.map(|order| (program, order)));
                    let Some(closed) = follow.network() else { continue };
                    ProgramReport::ChameleMon(Box::new(ChameleMonReport::new(closed, follow.why(), truth, fabric)))
                }
            };
            report.programs.insert(name.clone(), answers);
        }
        (report, orders)
    }
}

fn counts(records: Vec<(Arc<str>, Record)>) -> Vec<Counts> {
    let counts = |(_, record)| match record {
        Record::HashPipe(counts) => Some(counts),
        Record::ChameleMon(_) => None,
    };
    records.into_iter().filter_map(counts).collect()
}

fn sketches(records: Vec<(Arc<str>, Record)>) -> Vec<Named> {
    let sketches = |(name, record)| match record {
        Record::ChameleMon(sketches) => Some((name, sketches)),
        Record::HashPipe(_) => None,
    };
    records.into_iter().filter_map(sketches).collect()
}
