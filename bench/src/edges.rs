//! The edge switches alone: what ChameleMon measures of an epoch, without each packet's way through
//! the network.
//!
//! A packet's class is decided where it enters, by the packets that came to that switch before it;
//! what happens to it afterwards shows in the sums of its class only. So one pass over the order of
//! packets, with each flow's counters looked up once, gives the registers of all switches. The
//! flows, their losses, the decoding and the controller are those of `weir sim`, and so are the
//! answers, except that packets which reach two ports of a switch within a link's delay keep their
//! order here. No frame is built: an epoch takes some 20 ns a packet, a thirtieth of a simulation.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use weir::history::{Entry, History, Reason, Room};
use weir::pisa::hash::HashFamily;
use weir::program::Before;
use weir::program::chamelemon::attention::State;
use weir::program::chamelemon::decoder::INFINITE;
use weir::program::chamelemon::network::{NetworkEpoch, Reported};
use weir::program::chamelemon::{
    ChameleMon, ChameleMonDataplane, Config, EncoderParameters, FlowId, NetworkAnalysis, Schedule, Sketches,
};
use weir::program::{Analysis, Bank, Dataplane, Decision, ProgramConfig};
use weir::sim::report::EpochAnswers;
use weir::sim::{Generation, ProgramReport, Setup, Traffic, Victims, Where};
use weir::trace::Workload;

/// The edge switches of a network, all with the first ChameleMon of the setup.
pub struct Edges {
    traffic: Traffic,
    /// The edge, counted among the edges, that each host is at.
    edge_of: Vec<usize>,
    names: Vec<Arc<str>>,
    config: ProgramConfig,
    /// Makes blank records with the lengths of an epoch's parameters.
    program: ChameleMonDataplane,
    schedule: Schedule,
    spare: Box<dyn Bank>,
    analysis: NetworkAnalysis,
    shifts: bool,
    /// The parameters of the next epoch, and of the one after it: an update takes effect two epochs
    /// after the one that it was made from.
    updates: [EncoderParameters; 2],
    next: u64,
    generation: Generation,
}

/// What an epoch was measured with, what was found, and the answers beside the truth.
#[derive(Clone, Debug)]
pub struct EdgesReport {
    pub parameters: EncoderParameters,
    pub state: State,
    pub sampled_share: f64,
    /// Heavy-hitter candidates of the switch that had most, and whether all of all switches were
    /// decoded.
    pub hh_flows: Option<f64>,
    pub hh_complete: bool,
    /// Victims that were heavy, and those of sampled light losses.
    pub hl_flows: Option<f64>,
    pub ll_flows: Option<f64>,
    /// The three over the buckets of an upstream encoder.
    pub load: Option<f64>,
    pub answers: ProgramReport,
}

impl EdgesReport {
    /// The report of an epoch, once its answers are known.
    fn of(network: &NetworkEpoch) -> impl FnOnce(ProgramReport) -> Self + use<> {
        let parameters = network.parameters;
        let hh_flows = network.edges.iter().map(|edge| edge.analysis.candidates()).collect::<Option<Vec<_>>>();
        let hh_flows = hh_flows.map(|flows| flows.into_iter().fold(0.0, f64::max));
        let losses = network.losses.as_ref();
        let (hl_flows, ll_flows) = (losses.and_then(|l| l.heavy.flows), losses.and_then(|l| l.light.flows));
        let hh_complete = network.hh_complete();
        move |answers| Self {
            parameters,
            state: State::of(&parameters),
            sampled_share: f64::from(parameters.sample) / f64::from(EncoderParameters::ALL),
            hh_flows,
            hh_complete,
            hl_flows,
            ll_flows,
            load: answers.measured.as_ref().and_then(|measured| measured.parameters.get("load_share")?.as_f64()),
            answers,
        }
    }

    /// Whether all that was measured was decoded. In the ill state that is a sample of the victims.
    pub fn is_decoded(&self) -> bool {
        let losses = self.answers.losses.as_ref();
        self.hh_complete
            && losses.is_some_and(|l| l.losses.is_some() && l.incomplete.iter().all(|reason| reason == Reason::Sampled))
    }
}

/// Packets of a flow by class: those that entered, and those that were lost.
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
    pub fn new(setup: &Setup) -> Result<Self> {
        let program = setup.programs.iter().find(|program| program.get::<ChameleMon>().is_some());
        let program = program.context("no program is chamelemon")?;
        let config = program.get::<ChameleMon>().context("it is")?;
        let traffic = Traffic::new(setup)?;
        let (edges, edge_of) = traffic.edges();
        let hashes = HashFamily::reproducible(setup.workload.seed);
        let (dataplane, schedule) = follower(config, &hashes)?;
        Ok(Self {
            edge_of,
            names: edges.iter().map(|edge| format!("s{edge}").into()).collect(),
            analysis: NetworkAnalysis::new(config, setup.workload.seed),
            shifts: setup.shifts,
            updates: [config.parameters(); 2],
            spare: dataplane.spare(),
            generation: Generation::default(),
            next: 0,
            config: program.clone(),
            traffic,
            program: dataplane,
            schedule,
        })
    }

    /// An epoch of new flows, of which `victims` lose packets between their first and their last
    /// switch.
    ///
    /// # Errors
    /// If the encoders have no room for the parameters.
    pub fn epoch(&mut self, workload: &Workload, victims: Option<Victims>) -> Result<EdgesReport> {
        let (network, why) = self.shift(workload, victims)?;
        let mut adaptation = self.analysis.adaptation(&network);
        adaptation.iter_mut().for_each(|adaptation| adaptation.why.clone_from(&why));
        let report = EdgesReport::of(&network);
        let history = History::new(Room { epochs: 1, bytes: usize::MAX });
        let (epoch, switches) = (network.number, network.switches.clone());
        history.push(Entry { adaptation, switches, ..Entry::new(epoch, self.analysis.keep(network)) });
        let answers =
            EpochAnswers { program: &self.config, history: &history, epoch, routes: None, surroundings: None };
        let answers = ProgramReport::new(&answers, &self.generation, &[], &[], &Default::default(), |_| true);
        Ok(report(answers))
    }

    /// The same without answers: what was measured, and in words what was decided from it.
    ///
    /// # Errors
    /// If the encoders have no room for the parameters.
    pub fn shift(&mut self, workload: &Workload, victims: Option<Victims>) -> Result<(NetworkEpoch, String)> {
        let [parameters, latest] = self.updates;
        let network = self.measure(workload, victims, parameters)?;
        let mut why = String::new();
        self.updates = [latest; 2];
        if self.shifts {
            let decision = self.analysis.decide(&network, &latest, network.number + 2);
            Decision { parameters: self.updates[1], why } = decision;
        }
        Ok((network, why))
    }

    /// Measures an epoch with these parameters.
    fn measure(
        &mut self,
        workload: &Workload,
        victims: Option<Victims>,
        parameters: EncoderParameters,
    ) -> Result<NetworkEpoch> {
        let epoch = self.next;
        self.next += 1;
        self.generation = self.traffic.draw(epoch, workload, victims);
        let records = match self.blank(epoch, parameters)? {
            Some(blank) => self.records(&blank),
            None => Vec::new(),
        };
        let reported = self.names.iter().zip(records).map(|(switch, sketches)| Reported {
            switch: switch.clone(),
            record: Ok(Box::new(sketches)),
            before: Before::Nothing,
        });
        Ok(NetworkEpoch::analyse(epoch, parameters, reported.collect()))
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
            let parts = &mut to.downstream_parts[usize::from(blank.bit)];
            let left = |class: usize| i64::from(entered[class] - lost[class]);
            for (packets, part) in [(left(HH) + left(HL), &mut parts.hl), (left(LL), &mut parts.ll)] {
                if packets > 0 {
                    part.insert(id, packets);
                }
            }
        }
        edges
    }

    /// An empty record of an epoch, as a switch with these parameters hands it over.
    fn blank(&mut self, epoch: u64, parameters: EncoderParameters) -> Result<Option<Sketches>> {
        self.schedule.update(epoch, parameters)?;
        self.program.enter(epoch, true);
        self.program.exchange(self.spare.as_mut());
        self.program.exchange_egress(self.spare.as_mut());
        Ok(self.spare.record().into::<Sketches>().map(|sketches| *sketches))
    }

    /// Takes all packets through the classifiers, and tells of each flow how many were of each
    /// class.
    fn classify(&mut self, ids: &[FlowId], edges: &mut [Sketches]) -> Vec<Classes> {
        let Some(first) = edges.first() else { return Vec::new() };
        let parameters = first.parameters;
        let encoded = encoded(&parameters);
        let max: Vec<u32> = first.tower.iter().map(|level| level.max()).collect();
        let width: usize = first.tower.iter().map(|level| level.sizes.len()).sum();
        // The counters of all levels of all edges in a row, and where each flow's are.
        let mut counters = vec![0u32; width * edges.len()];
        let sources = || self.generation.flows.iter().map(|flow| self.edge_of[flow.src as usize]);
        let mut places = Vec::with_capacity(ids.len() * max.len());
        for (id, edge) in ids.iter().zip(sources()) {
            let mut offset = edge * width;
            for (level, counter) in first.tower.iter().zip(first.counters(*id)) {
                places.push((offset + counter) as u32);
                offset += level.sizes.len();
            }
        }
        let light: Vec<usize> = ids.iter().map(|id| if first.samples(*id) { LL } else { NONE }).collect();
        let mut classes = vec![Classes::default(); ids.len()];
        // The counters of a flow beyond all thresholds tell nobody more by growing. If it loses
        // nothing more either, the rest of its packets is counted at once.
        let beyond = parameters.hh_threshold.max(parameters.hl_threshold);
        let mut settled = vec![false; ids.len()];
        let Generation { sequence, .. } = &mut self.generation;
        for number in std::mem::take(sequence) {
            let flow = number as usize;
            if settled[flow] {
                continue;
            }
            let mut estimate = INFINITE;
            for (&place, &max) in places[flow * max.len()..][..max.len()].iter().zip(&max) {
                let counter = &mut counters[place as usize];
                *counter += u32::from(*counter < max);
                estimate = estimate.min(if *counter == max { INFINITE } else { *counter });
            }
            let class = match estimate {
                _ if estimate >= parameters.hh_threshold => HH,
                _ if estimate >= parameters.hl_threshold => HL,
                _ => light[flow],
            };
            let class = if encoded[class] { class } else { NONE };
            classes[flow].entered[class] += 1;
            if self.generation.send(number) > 0 {
                classes[flow].lost[class] += 1;
                self.generation.lost(number, Where::Switch(0));
            } else {
                let exit = self.generation.flows[flow].exit;
                self.generation.delivered(number, exit);
            }
            if estimate >= beyond
                && let Some(rest) = self.generation.deliver_rest(number)
            {
                settled[flow] = true;
                classes[flow].entered[class] += rest;
                for (&place, &max) in places[flow * max.len()..][..max.len()].iter().zip(&max) {
                    let counter = &mut counters[place as usize];
                    *counter = counter.saturating_add(rest).min(max);
                }
            }
        }
        let mut read = counters.chunks_exact(1.max(width));
        for (edge, counters) in edges.iter_mut().zip(&mut read) {
            let mut rest = counters;
            for level in &mut edge.tower {
                let (own, others) = rest.split_at(level.sizes.len());
                let max = level.max();
                level.sizes = own.iter().map(|&size| if size == max { INFINITE } else { size }).collect();
                rest = others;
            }
        }
        classes
    }
}

/// Whether packets of each class have memory in the upstream encoder.
fn encoded(parameters: &EncoderParameters) -> [bool; 4] {
    let partition = parameters.partition;
    [false, partition.ll > 0, partition.hl > 0, partition.hh > 0]
}

fn follower(config: &Config, hashes: &HashFamily) -> Result<(ChameleMonDataplane, Schedule)> {
    let mut program = ChameleMonDataplane::new(config, hashes)?;
    let schedule = Schedule::new(config.clone(), config.parameters());
    program.allocate();
    program.follow(&schedule);
    Ok((program, schedule))
}

#[cfg(test)]
mod tests {
    use weir::sim::{Shape, Simulation, Sums};

    use super::*;

    /// Links without end of rate, 10 µs long, and epochs of 50 ms.
    fn setup(topology: &str, workload: &str, losses: &[&str]) -> Setup {
        Setup {
            losses: losses.iter().map(|loss| loss.parse().unwrap()).collect(),
            ..Setup::new(
                topology.parse::<Shape>().unwrap().build().unwrap(),
                vec!["chamelemon:hh_threshold=1".parse().unwrap()],
                workload.parse().unwrap(),
            )
        }
    }

    /// The edge switches alone answer as the whole network does, epoch by epoch, while parameters
    /// shift. Packets come further apart than a link is long, so that both take them in the same
    /// order.
    #[test]
    fn edges_alone_are_measured_as_in_the_network() {
        for workload in ["hadoop/burst,flows=2500,longest=8,seed=3", "keyvalue/uniform,flows=4000,seed=5"] {
            let small = "chamelemon:hh_threshold=1,tower=8x2048+16x1024,upstream=384,downstream=288,hl=48";
            let setup = Setup {
                programs: vec![small.parse().unwrap()],
                delay: 1000,
                ..setup("testbed", workload, &["flows=35%,rate=2%"])
            };
            let mut simulation = Simulation::new(&setup).unwrap();
            let whole = (0..9).filter_map(|_| simulation.epoch(&setup.workload, setup.victims())).collect::<Vec<_>>();
            let whole = [whole, simulation.finish()].concat();
            assert_eq!(whole.len(), 9);
            let mut edges = Edges::new(&setup).unwrap();
            let mut states = Vec::new();
            for report in &whole {
                let alone = edges.epoch(&setup.workload, setup.victims()).unwrap();
                let Sums { sent, lost, .. } = edges.generation().sums();
                assert_eq!((sent, lost), (report.sent_packets, report.lost_packets));
                assert_eq!(alone.answers, report.programs["chamelemon"], "epoch {}", report.epoch);
                states.push(alone.state);
            }
            assert!(states.contains(&State::Healthy) && states.contains(&State::Ill), "{states:?}");
        }
    }

    /// Flows that end below T_h in bursts, half of the candidates lifted by collisions: the
    /// threshold went up and down for ever.
    #[test]
    fn bursts_come_to_rest() {
        let setup = setup("testbed", "hadoop/burst,flows=50k,longest=30,seed=3", &["flows=15%,rate=1%"]);
        let mut edges = Edges::new(&setup).unwrap();
        let reports: Vec<_> = (0..14).map(|_| edges.epoch(&setup.workload, setup.victims()).unwrap()).collect();
        let shown: Vec<_> = reports[5..]
            .iter()
            .map(|report| (report.parameters.hh_threshold, report.state, report.is_decoded()))
            .collect();
        assert!(shown.iter().all(|epoch| *epoch == shown[0] && epoch.2), "{shown:?}");
    }
}
