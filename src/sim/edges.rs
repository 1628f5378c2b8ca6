//! The edge switches alone: what ChameleMon measures of an epoch, without each packet's way through the network.
//!
//! A packet's class is decided where it enters, by the packets that came to that switch before it; what happens
//! to it afterwards shows in the sums of its class only. So one pass over the order of packets, with each
//! flow's counters looked up once, gives the registers of all switches. The flows, their losses, the
//! decoding and the controller are those of [`Simulation`](super::Simulation), and so are the answers, except
//! that packets which reach two ports of a switch within a link's delay keep their order here. No frame is
//! built: an epoch takes some 20 ns a packet, a thirtieth of a simulation.

use std::sync::Arc;

use super::addresses::{Addresses, Place};
use super::report::{ChameleMonReport, EpochReport, ProgramReport};
use super::traffic::{Generation, Where};
use super::{Setup, SimError, Topology, Victims};
use crate::assemble::AssembleError;
use crate::pisa::hash::HashFamily;
use crate::program::chamelemon::attention::Attention;
use crate::program::chamelemon::collector::INFINITE;
use crate::program::chamelemon::network::{Before, NetworkEpoch, Reported};
use crate::program::chamelemon::{ChameleMon, ChameleMonDataplane, Config, FlowId, Runtime, Schedule, Sketches};
use crate::program::{Bank, Dataplane, ProgramConfig};
use crate::trace::Workload;

/// The edge switches of a network, all with the first ChameleMon of the setup.
pub struct Edges {
    topology: Topology,
    addresses: Addresses,
    distances: Vec<Vec<u32>>,
    /// The edge, counted among the edges, that each host is at.
    edge_of: Vec<usize>,
    names: Vec<Arc<str>>,
    name: String,
    /// Makes blank records with the lengths of an epoch's parameters.
    program: ChameleMonDataplane,
    schedule: Schedule,
    spare: Box<dyn Bank>,
    attention: Attention,
    shifts: bool,
    /// The parameters of the next epoch, and of the one after it: an order takes effect two epochs after the
    /// one that it was made from.
    orders: [Runtime; 2],
    seed: u64,
    next: u64,
    flows_before: u64,
    generation: Generation,
}

/// What is counted of a flow: the classes of the packets that entered, and of those that were lost.
#[derive(Clone, Copy, Default)]
struct Classes {
    entered: [u32; 4],
    lost: [u32; 4],
}

/// Classes as [`Classes`] numbers them.
const NONE: usize = 0;
const LL: usize = 1;
const HL: usize = 2;
const HH: usize = 3;

impl Edges {
    /// # Errors
    /// If the network cannot be simulated as it is set up, or runs no ChameleMon.
    pub fn new(setup: &Setup) -> Result<Self, SimError> {
        setup.check()?;
        let chamelemon =
            |program: &ProgramConfig| Some((program.name().to_string(), program.get::<ChameleMon>()?.clone()));
        let (name, config) = setup.programs.iter().find_map(chamelemon).ok_or(SimError::NoChameleMon)?;
        let topology = setup.topology.clone();
        let addresses = Addresses::new(&topology).ok_or(SimError::TooManyHosts)?;
        let edges = topology.edges();
        let names: Vec<Arc<str>> = edges.iter().map(|edge| format!("s{edge}").into()).collect();
        let hashes = HashFamily::reproducible(setup.workload.seed);
        let (program, schedule) = follower(&config, &hashes)?;
        Ok(Self {
            distances: edges.iter().map(|&edge| topology.distances(edge)).collect(),
            edge_of: topology.hosts().iter().map(|host| edges.partition_point(|edge| edge < host)).collect(),
            attention: Attention::new(config.shape(), config.tower.most(), setup.workload.seed),
            shifts: setup.shifts,
            orders: [config.runtime(); 2],
            spare: program.spare(),
            generation: Generation::default(),
            seed: setup.workload.seed,
            next: 0,
            flows_before: 0,
            topology,
            addresses,
            names,
            program,
            schedule,
            name,
        })
    }

    /// An epoch of new flows, of which `victims` lose packets between their first and their last switch.
    ///
    /// # Errors
    /// If the encoders have no room for the parameters.
    pub fn epoch(&mut self, workload: &Workload, victims: Option<Victims>) -> Result<EpochReport, SimError> {
        let (network, why) = self.shift(workload, victims)?;
        let mut report = EpochReport::of(network.epoch, &self.generation, Vec::new());
        let answers = ChameleMonReport::new(&network, why, &self.generation, |_| true);
        report.programs.insert(self.name.clone(), ProgramReport::ChameleMon(Box::new(answers)));
        Ok(report)
    }

    /// The same without answers: what was measured, and in words what was decided from it.
    ///
    /// # Errors
    /// If the encoders have no room for the parameters.
    pub fn shift(&mut self, workload: &Workload, victims: Option<Victims>) -> Result<(NetworkEpoch, String), SimError> {
        let [runtime, latest] = self.orders;
        let network = self.measure(workload, victims, runtime)?;
        let mut why = String::new();
        self.orders = [latest; 2];
        if self.shifts {
            let decision = self.attention.shift(&network, &latest, network.epoch + 2);
            (self.orders[1], why) = (decision.runtime, decision.why);
        }
        Ok((network, why))
    }

    /// What is measured with these parameters.
    fn measure(
        &mut self,
        workload: &Workload,
        victims: Option<Victims>,
        runtime: Runtime,
    ) -> Result<NetworkEpoch, SimError> {
        let epoch = self.next;
        self.next += 1;
        let workload = Workload { seed: self.seed, ..workload.clone() };
        let of = (&self.topology, &self.addresses);
        self.generation = Generation::new(of, &self.distances, &workload, victims, (epoch, self.flows_before));
        self.flows_before += self.generation.flows.len() as u64;
        let records = match self.blank(epoch, runtime)? {
            Some(blank) => self.records(&blank),
            None => Vec::new(),
        };
        let reported = self.names.iter().zip(records).map(|(switch, sketches)| Reported {
            switch: switch.clone(),
            record: Ok(Box::new(sketches)),
            before: Before::Nothing,
        });
        Ok(NetworkEpoch::analyse(epoch, runtime, reported.collect()))
    }

    /// The flows of the epoch that passed last, and what became of them.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    fn records(&mut self, blank: &Sketches) -> Vec<Sketches> {
        let mut edges: Vec<Sketches> = self.names.iter().map(|_| blank.clone()).collect();
        let ids: Vec<FlowId> = self.generation.flows.iter().map(|flow| FlowId::of_v4(flow.tuple)).collect();
        let classes = self.classify(&ids, &mut edges);
        for ((flow, &id), Classes { entered, lost }) in self.generation.flows.iter().zip(&ids).zip(classes) {
            let from = &mut edges[self.edge_of[flow.src as usize]];
            let parts = [(HH, &mut from.hh), (HL, &mut from.hl), (LL, &mut from.ll)];
            for (class, part) in parts.into_iter().filter(|(class, _)| entered[*class] > 0) {
                part.insert(id, entered[class].into());
            }
            let to = &mut edges[self.edge_of[flow.dst as usize]];
            let exits = &mut to.exits[usize::from(blank.bit)];
            let left = |class: usize| i64::from(entered[class] - lost[class]);
            for (packets, part) in [(left(HH) + left(HL), &mut exits.hl), (left(LL), &mut exits.ll)] {
                if packets > 0 {
                    part.insert(id, packets);
                }
            }
        }
        edges
    }

    /// An empty record of an epoch, as a switch with these parameters hands it over.
    fn blank(&mut self, epoch: u64, runtime: Runtime) -> Result<Option<Sketches>, SimError> {
        self.schedule.update(epoch, runtime).map_err(AssembleError::from)?;
        self.program.enter(epoch, true);
        self.program.exchange(self.spare.as_mut());
        self.program.exchange_egress(self.spare.as_mut());
        Ok(self.spare.record().into::<Sketches>().map(|sketches| *sketches))
    }

    /// Takes all packets through the classifiers, and tells of each flow how many were of each class.
    fn classify(&mut self, ids: &[FlowId], edges: &mut [Sketches]) -> Vec<Classes> {
        let Some(first) = edges.first() else { return Vec::new() };
        let runtime = first.runtime;
        let encoded = encoded(&runtime);
        let most: Vec<u32> = first.tower.iter().map(|level| level.most()).collect();
        let width: usize = first.tower.iter().map(|level| level.sizes.len()).sum();
        // The counters of all levels of all edges in a row, and where each flow's are.
        let mut counters = vec![0u32; width * edges.len()];
        let sources = || self.generation.flows.iter().map(|flow| self.edge_of[flow.src as usize]);
        let mut places = Vec::with_capacity(ids.len() * most.len());
        for (id, edge) in ids.iter().zip(sources()) {
            let mut offset = edge * width;
            for (level, counter) in first.tower.iter().zip(first.counters(*id)) {
                places.push((offset + counter) as u32);
                offset += level.sizes.len();
            }
        }
        let light: Vec<usize> = ids.iter().map(|id| if first.samples(*id) { LL } else { NONE }).collect();
        let mut classes = vec![Classes::default(); ids.len()];
        // The counters of a flow beyond all thresholds tell nobody more by growing. If it loses nothing more either, the rest
        // of its packets is counted at once.
        let beyond = runtime.hh_threshold.max(runtime.hl_threshold);
        let mut settled = vec![false; ids.len()];
        let Generation { sequence, .. } = &mut self.generation;
        for number in std::mem::take(sequence) {
            let flow = number as usize;
            if settled[flow] {
                continue;
            }
            let mut estimate = INFINITE;
            for (&place, &most) in places[flow * most.len()..][..most.len()].iter().zip(&most) {
                let counter = &mut counters[place as usize];
                *counter += u32::from(*counter < most);
                estimate = estimate.min(if *counter == most { INFINITE } else { *counter });
            }
            let class = match estimate {
                _ if estimate >= runtime.hh_threshold => HH,
                _ if estimate >= runtime.hl_threshold => HL,
                _ => light[flow],
            };
            let class = if encoded[class] { class } else { NONE };
            classes[flow].entered[class] += 1;
            if self.generation.send(number) > 0 {
                classes[flow].lost[class] += 1;
                self.generation.lost(number, Where::Switch(0));
            } else {
                let exit: Place = self.generation.flows[flow].exit;
                self.generation.delivered(number, exit);
            }
            if estimate >= beyond
                && let Some(rest) = self.generation.deliver_rest(number)
            {
                settled[flow] = true;
                classes[flow].entered[class] += rest;
                for (&place, &most) in places[flow * most.len()..][..most.len()].iter().zip(&most) {
                    let counter = &mut counters[place as usize];
                    *counter = counter.saturating_add(rest).min(most);
                }
            }
        }
        let mut read = counters.chunks_exact(1.max(width));
        for (edge, counters) in edges.iter_mut().zip(&mut read) {
            let mut rest = counters;
            for level in &mut edge.tower {
                let (own, others) = rest.split_at(level.sizes.len());
                let most = level.most();
                level.sizes = own.iter().map(|&size| if size == most { INFINITE } else { size }).collect();
                rest = others;
            }
        }
        classes
    }
}

/// Whether packets of each class have memory in the upstream encoder.
fn encoded(runtime: &Runtime) -> [bool; 4] {
    let division = runtime.division;
    [false, division.ll > 0, division.hl > 0, division.hh > 0]
}

fn follower(config: &Config, hashes: &HashFamily) -> Result<(ChameleMonDataplane, Schedule), SimError> {
    let mut program = ChameleMonDataplane::new(config, hashes).map_err(AssembleError::from)?;
    let schedule = Schedule::new(config.clone(), config.runtime());
    program.allocate();
    program.follow(&schedule);
    Ok((program, schedule))
}
