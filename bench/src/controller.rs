//! How long an epoch's collection, analysis and reconfiguration take (the paper's Figure 20), and
//! all answers: four switches and their controller on one core.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use weir::answers::{Claim, Claimed, Document, FlowSizes, Losses, Query};
use weir::history::{Described, Reason, Window};
use weir::network::controller::{Controller, ControllerSettings, JoinRequest, NetworkProfile, Report};
use weir::pisa::hash::HashFamily;
use weir::pisa::{BatchOrder, Disposition, Phv};
use weir::program::chamelemon::{ChameleMon, ChameleMonDataplane, Config, Schedule, Sketches};
use weir::program::{AnySchedule, Bank, Dataplane, ProgramConfig};
use weir::trace::{SplitMix64, Trace, Workload};
use weir::wire::{Flow, Headers, Net, Shim, shim};

/// 50 ms, the paper's (§5.2), with its transit time.
const LENGTH: u64 = 50_000_000;
const TRANSIT: u64 = 10_000_000;
const EDGES: usize = 4;
/// One packet in so many of a victim's is lost, and its first.
const LOST: u32 = 20;

/// The distribution of the controller's response time, with four edge switches of the default size:
/// from registers to records and their bytes, from bytes to sketches, to the order, and to each
/// switch's schedule; all on one core, without the network between them.
#[derive(Args)]
pub struct ControllerTime {
    /// Epochs of each state of the network
    #[arg(long, default_value_t = 20)]
    epochs: u64,
    /// Packets of each flow, on average
    #[arg(long, default_value_t = 12)]
    packets: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell of every epoch
    #[arg(long)]
    verbose: bool,
}

struct Edge {
    program: ChameleMonDataplane,
    schedule: AnySchedule,
    spare: Box<dyn Bank>,
}

impl Edge {
    fn new(config: &Config, hashes: &HashFamily) -> Result<Self> {
        let mut program = ChameleMonDataplane::new(config, hashes)?;
        let schedule = Schedule::new(config.clone(), config.parameters());
        program.allocate();
        program.follow(&schedule);
        program.enter(0, true);
        let spare = program.spare();
        Ok(Self { program, schedule: Arc::new(schedule), spare })
    }

    /// The epoch ends: its record, as it is sent.
    fn end(&mut self, epoch: u64) -> Option<Vec<u8>> {
        self.program.exchange(self.spare.as_mut());
        self.program.prepare(epoch + 1);
        self.program.enter(epoch + 1, true);
        self.program.exchange_egress(self.spare.as_mut());
        let sketches = self.spare.record().into::<Sketches>()?;
        self.spare.clear();
        Some(sketches.encode())
    }
}

fn headers(flow: &Flow) -> Headers {
    let bits = |address: Option<std::net::IpAddr>| match address {
        Some(std::net::IpAddr::V4(address)) => u128::from(address.to_bits()),
        _ => 0,
    };
    Headers {
        net: Net::Ipv4,
        src_ip: bits(flow.src),
        dst_ip: bits(flow.dst),
        sport: flow.sport.unwrap_or(0),
        dport: flow.dport.unwrap_or(0),
        proto: flow.proto.unwrap_or(0),
        ..Headers::default()
    }
}

/// An epoch's packets through the switches: each flow from one to the next.
fn traffic(edges: &mut [Edge], trace: &Trace, headers: &[Headers], victims: f64, epoch: u64, rng: &mut SplitMix64) {
    let victim: Vec<bool> = headers.iter().map(|_| rng.unit() < victims).collect();
    let mut seen = vec![0u32; headers.len()];
    for &flow in &trace.sequence {
        let flow = flow as usize;
        let mut phv = [Phv {
            headers: headers[flow],
            enters: true,
            shim: Shim::default().with_epoch(shim::epoch_of(epoch)),
            ..Phv::default()
        }];
        edges[flow % EDGES].program.ingress(&mut phv, BatchOrder::PacketMajor);
        let lost = victim[flow] && seen[flow].is_multiple_of(LOST);
        seen[flow] += 1;
        if !lost {
            (phv[0].enters, phv[0].disposition) = (false, Disposition::ToHost);
            edges[(flow + 1) % EDGES].program.egress(&mut phv, BatchOrder::PacketMajor);
        }
    }
}

impl ControllerTime {
    pub fn run(&self) -> Result<()> {
        let config = Config::default();
        let hashes = HashFamily::reproducible(self.seed);
        let mut edges = (0..EDGES).map(|_| Edge::new(&config, &hashes)).collect::<Result<Vec<_>>>()?;
        let program = ProgramConfig::new::<ChameleMon>(config.clone());
        let mut controller = Controller::new(&program, ControllerSettings::new(LENGTH, self.seed));
        let reader = program.reader("", &hashes);
        let (header, key) = (weir::switch::TelemetryHeader::default(), weir::switch::KeyHeaders::default());
        let profile = NetworkProfile { program, length: LENGTH, transit: TRANSIT, header, key };
        for edge in 0..EDGES {
            let (name, profile, parameters) = (format!("edge{edge}"), profile.clone(), profile.program.start());
            controller.join(&JoinRequest { name, profile, parameters, first_epoch: 0 }, 0)?;
        }
        let states = [(10_000, 0.1), (50_000, 0.025), (50_000, 0.1), (100_000, 0.1), (50_000, 0.25), (20_000, 0.05)];
        let mut epoch = 0;
        let [mut collected, mut orders, mut ordered, mut all, mut answers] = [const { Vec::new() }; 5];
        for (flows, victims) in states {
            let packets = flows * self.packets;
            let workload: Workload = format!("isp,flows={flows},packets={packets},seed={}", self.seed).parse()?;
            let trace = workload.generate();
            let headers: Vec<_> = (0..flows as u32).map(|flow| headers(&trace.workload.tuple(flow).flow())).collect();
            let mut rng = SplitMix64::new(self.seed);
            let (first, mut complete) = (orders.len(), 0);
            for _ in 0..self.epochs {
                traffic(&mut edges, &trace, &headers, victims, epoch, &mut rng);
                let now = (epoch + 1) * LENGTH + TRANSIT;
                let start = Instant::now();
                let mut reports = Vec::with_capacity(EDGES);
                for edge in &mut edges {
                    let bytes = edge.end(epoch).context("ChameleMon's record")?;
                    reports.push(Report { first_epoch: epoch, epoch, whole: true, late: 0, record: reader(&bytes)? });
                }
                collected.push(start.elapsed());
                let analysis = Instant::now();
                let mut order = None;
                for (number, report) in reports.into_iter().enumerate() {
                    order = controller.report(&format!("edge{number}"), report, now)?.or(order);
                }
                orders.push(analysis.elapsed());
                let reconfiguration = Instant::now();
                for (edge, order) in edges.iter().flat_map(|edge| order.iter().map(move |order| (edge, order))) {
                    edge.schedule.update(order.epoch, &order.parameters)?;
                }
                ordered.push(reconfiguration.elapsed());
                all.push(start.elapsed());
                let rest = Instant::now();
                controller.keep();
                let (flows, losses) = (newest::<FlowSizes>(&controller)?, newest::<Losses>(&controller)?);
                answers.push(rest.elapsed());
                let lack = |claim: &Claim| {
                    let other =
                        |reason| ![Reason::Sampled, Reason::Provisional, Reason::BelowThreshold].contains(&reason);
                    claim.incomplete.iter().any(other)
                };
                complete += u64::from(!lack(&flows.claim) && !lack(&losses.claim));
                if self.verbose {
                    let adaptation = controller.history().outlines().pop().and_then(|newest| newest.adaptation);
                    println!("{epoch}: {adaptation:?}, HH {} {:?}", flows.heavy_candidates, flows.claim.incomplete);
                }
                epoch += 1;
            }
            let newest = controller.history().outlines().pop();
            let adaptation = newest.as_ref().and_then(|newest| newest.adaptation.as_ref());
            if let Some(Described { state, parameters }) = adaptation.map(|adaptation| &adaptation.measured) {
                println!(
                    "{flows} flows, {:.1} % victims: {state}, {complete} of {} epochs decoded whole, {}; {}",
                    victims * 100.0,
                    self.epochs,
                    serde_json::Value::from(parameters.clone()),
                    summary(&orders[first..]),
                );
            }
        }
        println!("collection, from the registers of {EDGES} switches to sketches: {}", summary(&collected));
        println!("analysis, to the order: {}", summary(&orders));
        println!("reconfiguration, to all switches' schedules: {}", summary(&ordered));
        println!("response time, all of it: {}", summary(&all));
        println!("behind it, all answers: {}", summary(&answers));
        Ok(())
    }
}

/// The answer about the newest epoch.
fn newest<A: Document>(controller: &Controller) -> Result<Claimed<A>> {
    Ok(controller.history().answer(&Query::new(A::TASK, Window::Last { seconds: 0.0 }))?)
}

fn summary(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| {
        let index = (share * sorted.len() as f64) as usize;
        sorted.get(index.min(sorted.len().saturating_sub(1))).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    format!("p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms, of {}", at(0.5), at(0.99), at(1.0), sorted.len())
}
