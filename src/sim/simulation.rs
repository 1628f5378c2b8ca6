//! A simulation: epochs of traffic, and after each what was measured beside what was true.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::audit::Audit;
use super::follow::{Follow, Named};
use super::report::{ChameleMonReport, EpochReport, HeavyReport, LossScore, ProgramReport};
use super::traffic::Where;
use super::{Network, Setup, SimError, Victims, fault, node};
use crate::control::controller::ParameterUpdate;
use crate::epoch::Nanos;
use crate::program::chamelemon::ChameleMon;
use crate::program::chamelemon::network::NetworkEpoch;
use crate::program::{AnyAnalysis, AnyEarly, AnyParameters, AnyRecord, Before, ProgramConfig, Reported};
use crate::trace::Workload;

/// What turns one program's records into answers.
enum Collector {
    ChameleMon(Box<Follow>),
    /// A program without a controller: its analysis, and its parameters, which stay as they are.
    Other(ProgramConfig, AnyAnalysis, AnyParameters),
}

/// A network, what collects its records, and the virtual time.
pub struct Simulation {
    pub(super) network: Network,
    collectors: Vec<(String, Collector)>,
    names: Vec<Arc<str>>,
    length: Nanos,
    transit: Nanos,
    latency: Nanos,
    /// The epoch that comes next, and the number of the first one as clocks show it.
    next: u64,
    first: u64,
    /// How long answers may change after their epoch; `None` when nothing goes wrong.
    settles: Option<Nanos>,
    /// Where something goes wrong: reports of epochs that are over, and what was told of each when it closed.
    reports: Vec<EpochReport>,
    closed: Vec<BTreeMap<u64, ChameleMonReport>>,
}

/// Looks at the switches' records in an epoch, where something goes wrong.
const LOOKS: u64 = 8;

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
            if program.get::<ChameleMon>().is_some() {
                return Ok((name, Collector::ChameleMon(Box::new(Follow::new(program, setup, &switches)?))));
            }
            let analysis = program.analysis(setup.workload.seed);
            Ok((name, Collector::Other(program.clone(), analysis, program.start())))
        };
        Ok(Self {
            collectors: setup.programs.iter().enumerate().map(collector).collect::<Result<_, _>>()?,
            names,
            length: setup.epoch,
            transit: setup.transit,
            latency: setup.latency,
            next: 0,
            first: setup.first_epoch(),
            settles: (!setup.faults.is_empty()).then(|| settles(setup)),
            reports: Vec::new(),
            closed: vec![BTreeMap::new(); setup.programs.len()],
            network,
        })
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Lets an epoch of new flows pass. The report is that of the epoch before, whose last packets have left by now; where
    /// something goes wrong, all reports come at the end.
    pub fn epoch(&mut self, workload: &Workload, victims: Option<Victims>) -> Option<EpochReport> {
        self.keep_reports(self.network.generations() - 1);
        self.network.begin(self.next, Some(workload), victims);
        let end = (self.next + 1) * self.length;
        if self.settles.is_some() {
            self.follow_to(end);
            self.next += 1;
            return None;
        }
        let report = self.collect();
        self.network.run_to(end);
        self.next += 1;
        report
    }

    /// Lets the last packets leave, and reports the last epoch, or all of them where something went wrong.
    pub fn finish(&mut self) -> Vec<EpochReport> {
        let Some(settles) = self.settles else {
            self.network.begin(self.next, None, None);
            return self.collect().into_iter().collect();
        };
        let epochs = self.next;
        for _ in 0..settles.div_ceil(self.length) {
            self.keep_reports(self.network.generations() - 1);
            self.network.begin(self.next, None, None);
            self.follow_to((self.next + 1) * self.length);
            self.next += 1;
        }
        self.keep_reports(0);
        self.reports.truncate(epochs as usize);
        self.revise()
    }

    /// Makes the reports of the epochs but the last `kept`, whose flows are still known.
    fn keep_reports(&mut self, kept: u64) {
        if self.settles.is_some() {
            let over = self.next.saturating_sub(kept);
            let more = self.reports.len() as u64..over;
            self.reports.extend(more.map(|epoch| EpochReport::new(epoch, &self.network)));
        }
    }

    /// The reports with the answers as they stand at last.
    fn revise(&mut self) -> Vec<EpochReport> {
        let mut reports = std::mem::take(&mut self.reports);
        for ((name, collector), closed) in self.collectors.iter().zip(&self.closed) {
            let Collector::ChameleMon(follow) = collector else { continue };
            let answers = follow.answers();
            for report in &mut reports {
                let epoch = report.epoch + self.first;
                let (Some(told), Some(last), Some(ledger)) =
                    (closed.get(&epoch), answers.get(&epoch), self.network.ledger())
                else {
                    continue;
                };
                let told = ChameleMonReport {
                    losses: LossScore::revised(last, &ledger.nets(epoch as u32)),
                    incomplete: last.losses_lack.clone(),
                    gaps: last.gaps.iter().map(ToString::to_string).collect(),
                    ..told.clone()
                };
                report.programs.insert(name.clone(), ProgramReport::ChameleMon(Box::new(told)));
            }
        }
        reports
    }

    /// Holds all answers about losses against the truth; `None` when nothing goes wrong.
    pub fn audit(&self) -> Option<Audit> {
        let ledger = self.network.ledger()?;
        let mut audit = Audit::default();
        for (_, collector) in &self.collectors {
            if let Collector::ChameleMon(follow) = collector {
                follow.answers().values().for_each(|answers| audit.add(answers, ledger));
            }
        }
        Some(audit)
    }

    /// Lets time go on; what the switches send meanwhile goes to the controllers as it comes.
    fn follow_to(&mut self, until: Nanos) {
        while self.network.now() < until {
            let look = self.network.now() + self.length / LOOKS;
            self.network.run_to(look.min(until));
            self.network.tick();
            let records = self.records();
            let now = self.network.right_time();
            let mut orders = Vec::new();
            for (program, ((_, collector), records)) in self.collectors.iter_mut().zip(records).enumerate() {
                let Collector::ChameleMon(follow) = collector else { continue };
                let (network, first, closed) = (&self.network, self.first, &mut self.closed[program]);
                let order = follow.follow(named(records), now, |epoch, why| {
                    let Some(epoch) = epoch.get::<NetworkEpoch>() else { return };
                    let truth = epoch.epoch.checked_sub(first).map(|number| network.generation(number));
                    let told = truth.map(|truth| ChameleMonReport::new(epoch, why, truth, |at| fabric(network, at)));
                    told.into_iter().for_each(|told| drop(closed.insert(epoch.epoch, told)));
                });
                orders.extend(order.map(|order| (program, order)));
            }
            self.order(orders);
        }
    }

    fn order(&mut self, updates: Vec<(usize, ParameterUpdate)>) {
        for (program, ParameterUpdate { epoch, parameters }) in updates {
            for schedule in self.network.nodes().iter().filter_map(|node| node.schedules.get(program)) {
                // What the controller sends fits the program.
                let updated = schedule.update(epoch, &parameters);
                debug_assert!(updated.is_ok(), "{updated:?}");
            }
        }
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
        self.order(orders);
        Some(report)
    }

    /// What the switches have sent, by program.
    fn records(&mut self) -> Vec<Vec<Handed>> {
        let mut records: Vec<Vec<_>> = self.collectors.iter().map(|_| Vec::new()).collect();
        let clocks = self.network.clocks();
        for ((node, name), sent) in self.network.nodes().iter_mut().zip(&self.names).zip(clocks) {
            for node::Handed { program, first_epoch, epoch, record } in node.records() {
                if let Some(records) = records.get_mut(program) {
                    records.push(Handed { switch: name.clone(), first_epoch, epoch, sent, record });
                }
            }
        }
        records
    }

    fn analyse(&mut self, epoch: u64, records: Vec<Vec<Handed>>) -> (EpochReport, Vec<(usize, ParameterUpdate)>) {
        let mut report = EpochReport::new(epoch, &self.network);
        let mut orders = Vec::new();
        let truth = self.network.generation(epoch);
        for (program, ((name, collector), records)) in self.collectors.iter_mut().zip(records).enumerate() {
            let answers = match collector {
                Collector::Other(program, analysis, parameters) => {
                    let reported = records.into_iter().map(reported).collect();
                    let epoch = analysis.epoch(epoch, parameters, reported, true);
                    let answers = epoch.and_then(|epoch| analysis.answers(&epoch, None, None, HeavyReport::LIMITS));
                    let Some(answers) = answers else { continue };
                    ProgramReport::Heavy(HeavyReport::new(program, &answers, truth))
                }
                Collector::ChameleMon(follow) => {
                    let order = follow.epoch(named(records), self.network.now());
                    orders.extend(order.map(|order| (program, order)));
                    let Some(closed) = follow.network().and_then(|epoch| epoch.get::<NetworkEpoch>()) else { continue };
                    let fabric = |at| fabric(&self.network, at);
                    ProgramReport::ChameleMon(Box::new(ChameleMonReport::new(closed, follow.why(), truth, fabric)))
                }
            };
            report.programs.insert(name.clone(), answers);
        }
        (report, orders)
    }
}

/// One switch's record of a program.
struct Handed {
    switch: Arc<str>,
    first_epoch: u64,
    epoch: u64,
    sent: Nanos,
    record: AnyRecord,
}

/// Whether a place is between the first and the last switch.
fn fabric(network: &Network, at: Where) -> bool {
    match at {
        Where::Link(port) | Where::Busy(port) => network.peer(port).is_some(),
        Where::Switch(_) => true,
        Where::Astray(_) => false,
    }
}

/// How long after the last packet was sent answers may change: all packets have left, and all records have come.
fn settles(setup: &Setup) -> Nanos {
    let wait = setup.wait.unwrap_or(setup.epoch);
    fault::longest(&setup.faults) + setup.transit_time() + wait + 3 * setup.epoch
}

fn reported<'a>(handed: Handed) -> Reported<'a, AnyRecord, AnyEarly> {
    Reported { switch: handed.switch, record: Ok(handed.record), before: Before::Unknown }
}

fn named(records: Vec<Handed>) -> Vec<Named> {
    let named =
        |Handed { switch, first_epoch, epoch, sent, record }| Named { switch, first_epoch, epoch, sent, record };
    records.into_iter().map(named).collect()
}
