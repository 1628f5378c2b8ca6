//! A simulation: epochs of traffic, and after each what was measured beside what was true.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::audit::Audit;
use super::build::switch_name;
use super::controller::{Named, SimulatedController};
use super::report::{EpochAnswers, EpochReport, ProgramReport, lost_by_place, nets};
use super::traffic::Where;
use super::{Network, Setup, SimError, Victims, fault};
use crate::answers::{Queryable, Task};
use crate::network::controller::ParameterUpdate;
use crate::program::ProgramConfig;
use crate::telemetry::epoch::Nanos;
use crate::trace::Workload;
use crate::wire::Pattern;

/// A program of the switches.
struct Measuring {
    name: String,
    controller: SimulatedController,
    /// What was told of each epoch when it closed, by its number as clocks show it.
    told: BTreeMap<u64, ProgramReport>,
}

/// A network, what collects its records, and the virtual time.
pub struct Simulation {
    pub(super) network: Network,
    programs: Vec<Measuring>,
    names: Vec<Arc<str>>,
    length: Nanos,
    transit: Nanos,
    latency: Nanos,
    /// The epoch that comes next, and the number of the first one as clocks show it.
    next: u64,
    first: u64,
    /// How long answers may change after their epoch; `None` when nothing goes wrong.
    settles: Option<Nanos>,
    /// Flows that are counted.
    patterns: Vec<Pattern>,
    /// Reports of epochs that are over, where something goes wrong.
    reports: Vec<EpochReport>,
}

/// Looks at the switches' records in an epoch, where something goes wrong.
const LOOKS: u64 = 8;

impl Simulation {
    /// # Errors
    /// If the network cannot be simulated as it is set up.
    pub fn new(setup: &Setup) -> Result<Self, SimError> {
        let network = Network::new(setup)?;
        let switches = 0..network.topology().switches().len() as u32;
        let names: Vec<Arc<str>> = switches.map(|switch| switch_name(switch).into()).collect();
        let everywhere = setup.runs_everywhere();
        let measuring = |switch: &usize| everywhere || !network.topology().hosts_of(*switch as u32).is_empty();
        let own =
            |switch: usize| Ok((names[switch].clone(), setup.programs_of(&network.topology().switches()[switch])?));
        let switches = (0..names.len()).filter(measuring).map(own).collect::<Result<Vec<_>, SimError>>()?;
        let program = |(place, (name, program)): (usize, (String, &ProgramConfig))| -> Result<_, SimError> {
            let switches: Vec<_> = switches.iter().map(|(name, own)| (name.clone(), own[place].clone())).collect();
            let controller = SimulatedController::new(program, setup, &switches)?;
            Ok(Measuring { name, controller, told: BTreeMap::new() })
        };
        Ok(Self {
            programs: ProgramConfig::named(&setup.programs).enumerate().map(program).collect::<Result<_, _>>()?,
            names,
            length: setup.epoch,
            transit: setup.transit,
            latency: setup.latency,
            next: 0,
            first: setup.first_epoch(),
            settles: (!setup.faults.is_empty()).then(|| settles(setup)),
            patterns: setup.patterns.clone(),
            reports: Vec::new(),
            network,
        })
    }

    /// The switches' names in answers, in the order of the topology.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The answers of program number `program` about an epoch, as they stand now. Epochs other than
    /// the last one are kept where something goes wrong.
    pub fn answers(&self, program: usize, epoch: u64) -> Option<EpochAnswers<'_>> {
        Some(self.programs.get(program)?.controller.answers(epoch + self.first))
    }

    /// The histories of the programs, in their order. Epochs other than the last two are kept where
    /// something goes wrong.
    pub fn histories(&self) -> Vec<Arc<dyn Queryable>> {
        self.programs.iter().map(|measuring| measuring.controller.history().clone()).collect()
    }

    /// The answers of program number `program` about the epoch that closed last.
    pub fn newest(&self, program: usize) -> Option<EpochAnswers<'_>> {
        let controller = &self.programs.get(program)?.controller;
        Some(controller.answers(controller.history().newest()?))
    }

    /// Lets an epoch of new flows pass. The report is that of the epoch before, whose last packets
    /// have left by now; where something goes wrong, all reports come at the end.
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

    /// Lets the last packets leave, and reports the last epoch, or all of them where something went
    /// wrong.
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
        let Some(ledger) = self.network.ledger() else { return reports };
        let histories = self.histories();
        for Measuring { name, controller, told, .. } in &self.programs {
            for report in &mut reports {
                let epoch = report.epoch + self.first;
                if let Some(told) = told.get(&epoch) {
                    let nets = nets(controller.program(), ledger.nets(epoch as u32));
                    let answers = controller.answers(epoch).with_surroundings(&self.network, &histories);
                    let revised = told.revised(&answers, &nets, &report.lost_by_place, &self.patterns);
                    report.programs.insert(name.clone(), revised);
                }
            }
        }
        reports
    }

    /// Holds all answers about losses against the truth; `None` when nothing goes wrong.
    pub fn audit(&self) -> Option<Audit> {
        let ledger = self.network.ledger()?;
        let mut audit = Audit::default();
        for Measuring { controller, .. } in &self.programs {
            for entry in controller.history().outlines() {
                audit.add(&controller.answers(entry.epoch), &entry, ledger);
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
            let updates = self.follow(records);
            self.update(updates);
        }
    }

    /// At the end of the transit time the records of the epoch before are there. They reach the
    /// controllers after their latency, and updates the switches after another one.
    fn collect(&mut self) -> Option<EpochReport> {
        let over = self.next.checked_sub(1)?;
        let start = self.next * self.length;
        self.network.run_to(start + self.transit);
        self.network.tick();
        let records = self.records();
        self.network.run_to(start + self.transit + self.latency);
        let updates = self.follow(records);
        let mut report = EpochReport::new(over, &self.network);
        for Measuring { name, told, .. } in &mut self.programs {
            let answers = told.remove(&over).map(|answers| (name.clone(), answers));
            report.programs.extend(answers);
        }
        self.network.run_to(start + self.transit + 2 * self.latency);
        self.update(updates);
        Some(report)
    }

    /// What the switches have handed over, by program.
    fn records(&mut self) -> Vec<Vec<Named>> {
        let mut records: Vec<Vec<_>> = self.programs.iter().map(|_| Vec::new()).collect();
        let clocks = self.network.clocks();
        for ((node, switch), sent) in self.network.nodes().iter_mut().zip(&self.names).zip(clocks) {
            for (program, report) in node.records() {
                records[program].push(Named { switch: switch.clone(), sent, report });
            }
        }
        records
    }

    /// Gives the controllers these records, by program, and keeps what is told of the epochs that
    /// close.
    fn follow(&mut self, records: Vec<Vec<Named>>) -> Vec<(usize, ParameterUpdate)> {
        let (network, patterns, histories) = (&self.network, &self.patterns[..], self.histories());
        let (first, now) = (self.first, self.network.right_time());
        let mut updates = Vec::new();
        let mut programs: Vec<_> = self.programs.iter_mut().zip(records).enumerate().collect();
        // Programs that are answered from what others say come behind these.
        programs.sort_by_key(|(_, (measuring, _))| {
            let Measuring { controller, .. } = measuring;
            controller.history().needs_routes() || controller.program().rank(Task::Places).is_some()
        });
        for (program, (measuring, records)) in programs {
            let Measuring { controller, told, .. } = measuring;
            let update = controller.follow(records, now, |answers| {
                let Some(epoch) = answers.epoch.checked_sub(first) else { return };
                let beside = [epoch.checked_sub(1), Some(epoch + 1)].into_iter().flatten();
                let beside: Vec<_> = beside.map(|epoch| network.generation(epoch)).collect();
                let truth = network.generation(epoch);
                let answers = answers.with_routes(truth, || network.routes(), &histories);
                let answers = answers.with_surroundings(network, &histories);
                told.insert(
                    answers.epoch,
                    ProgramReport::new(&answers, truth, &beside, patterns, &lost_by_place(network, truth), |at| {
                        fabric(network, at)
                    }),
                );
            });
            updates.extend(update.map(|update| (program, update)));
        }
        updates
    }

    /// What the controllers send fits the programs.
    fn update(&mut self, updates: Vec<(usize, ParameterUpdate)>) {
        for (program, ParameterUpdate { epoch, parameters }) in updates {
            for schedule in self.network.nodes().iter().filter_map(|node| node.schedules.get(program)) {
                let updated = schedule.update(epoch, &parameters);
                debug_assert!(updated.is_ok(), "{updated:?}");
            }
        }
    }
}

/// Whether a place is between the first and the last switch.
fn fabric(network: &Network, at: Where) -> bool {
    match at {
        Where::Link(port) | Where::Busy(port) => network.peer(port).is_some(),
        Where::Switch(_) => true,
        Where::Astray(_) => false,
    }
}

/// How long after the last packet was sent answers may change: all packets have left, and all
/// records have come.
fn settles(setup: &Setup) -> Nanos {
    let wait = setup.wait.unwrap_or(setup.epoch);
    fault::longest(&setup.faults) + setup.transit_time() + wait + 3 * setup.epoch
}
