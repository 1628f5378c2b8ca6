//! Costs of a query of DiSketch by the number of epochs and flows: its time, and its memory beside the history.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use weir::answers::{ByRoute, Certainty, Frequency, HeavyFlows, Query, Queryable, Route, Routes, Task};
use weir::history::{Entry, History, Kept, Room, Window};
use weir::pisa::hash::HashFamily;
use weir::program::disketch::{Config, Decode, DiSketch, DiSketchAnalysis, Fragment, KeptFragments, Memory, Target};
use weir::program::{Analysis, Before, Reported};
use weir::trace::{SizeLaw, SplitMix64, Workload};
use weir::wire::Flow;

/// Epochs that are filled; their records come again and again under later numbers.
const FILLED: u64 = 32;
/// A fat tree with k = 4: 8 edge, 8 aggregation and 4 core switches.
const SWITCHES: u16 = 20;

/// 2 million packets of 200 000 flows cross a fat tree of 20 switches in 32 epochs, as in DiSketch's figures.
#[derive(Args)]
pub struct QueryCost {
    /// Epochs that a query is about
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 10_000])]
    epochs: Vec<u64>,
    /// Flows that a query is about
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1000])]
    flows: Vec<usize>,
    /// Memory of each switch
    #[arg(long, default_value_t = 64 * 1024)]
    memory_bytes: u64,
    /// Sub-epochs of each epoch, as a power of two
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=6))]
    cuts: u32,
    /// Packets of the window of 32 epochs; a tenth as many flows
    #[arg(long, default_value_t = 2_000_000)]
    packets: u64,
    /// How counts become one
    #[arg(long, value_delimiter = ',', value_parser = decode, default_values = ["median", "likelihood"])]
    decode: Vec<Decode>,
}

fn decode(text: &str) -> Result<Decode> {
    match text {
        "median" => Ok(Decode::Median),
        "likelihood" => Ok(Decode::Likelihood),
        _ => bail!("median or likelihood"),
    }
}

fn name(decode: Decode) -> &'static str {
    match decode {
        Decode::Median => "median",
        Decode::Likelihood => "likelihood",
    }
}

impl QueryCost {
    pub fn run(&self) -> Result<()> {
        if let (&[decode], &[epochs], &[flows]) = (&self.decode[..], &self.epochs[..], &self.flows[..]) {
            return self.row(decode, epochs, flows);
        }
        println!(
            "{SWITCHES} switches, {} bytes and {} sub-epochs each; {} packets an epoch",
            self.memory_bytes,
            1 << self.cuts,
            self.packets / FILLED
        );
        println!("{:>10} {:>7} {:>6} {:>10} {:>12} {:>12}", "decode", "epochs", "flows", "ms", "peak, MB", "epoch, kB");
        for &decode in &self.decode {
            for &epochs in &self.epochs {
                for &flows in &self.flows {
                    self.row_of_its_own(decode, epochs, flows)?;
                }
            }
        }
        Ok(())
    }

    /// Measures in a process of its own: one keeps memory that it has freed.
    fn row_of_its_own(&self, decode: Decode, epochs: u64, flows: usize) -> Result<()> {
        let options = [
            ("--decode", name(decode).to_owned()),
            ("--epochs", epochs.to_string()),
            ("--flows", flows.to_string()),
            ("--memory-bytes", self.memory_bytes.to_string()),
            ("--cuts", self.cuts.to_string()),
            ("--packets", self.packets.to_string()),
        ];
        let mut row = Command::new(std::env::current_exe()?);
        row.arg("disketch-query");
        options.iter().for_each(|(option, value)| _ = row.args([option, &&**value]));
        ensure!(row.status()?.success(), "{epochs} epochs and {flows} flows were not measured");
        Ok(())
    }

    fn row(&self, decode: Decode, epochs: u64, flows: usize) -> Result<()> {
        let network = Network::new(self.packets);
        let filled = self.filled(&network, decode);
        let history = History::new(Room { epochs: usize::MAX, bytes: usize::MAX });
        for epoch in 0..epochs {
            let showed = filled[(epoch % FILLED) as usize].clone();
            let entry = Entry { switches: vec!["s0".into()], ..Entry::new(epoch, ()) };
            history.push(entry.with(showed));
        }
        let (seconds, peak) = measured(|| network.ask(&history, flows))?;
        println!(
            "{:>10} {epochs:>7} {flows:>6} {:>10.2} {:>12.2} {:>12.1}",
            name(decode),
            seconds * 1e3,
            peak as f64 / 1e6,
            filled[0].bytes() as f64 / 1e3,
        );
        Ok(())
    }

    /// The histories of a controller for some epochs.
    fn filled(&self, network: &Network, decode: Decode) -> Vec<Arc<KeptFragments>> {
        let family = HashFamily::reproducible(1);
        let config = Config { memory: Memory(self.memory_bytes), decode, ..Config::default() };
        let shapes: Vec<_> =
            (0..SWITCHES).map(|switch| DiSketch::shape(&config, &format!("s{switch}"), &family)).collect();
        let crcs: Vec<_> = network.flows.iter().map(|(flow, _)| shapes[0].hashes.of_flow(flow)).collect();
        let mut analysis = DiSketchAnalysis::new(&config);
        let of = |epoch: u64| {
            let constants: Vec<_> = shapes.iter().map(|shape| shape.hashes.constants(epoch)).collect();
            let mut records: Vec<_> = shapes.iter().map(|shape| Fragment::zeroed(shape, self.cuts)).collect();
            let packets = network.sequence.len();
            let [first, end] = [epoch, epoch + 1].map(|epoch| packets * epoch as usize / FILLED as usize);
            for (place, number) in network.sequence[first..end].iter().enumerate() {
                let Some(crcs) = crcs[*number as usize] else { continue };
                let now = (place << self.cuts) / (end - first);
                for switch in &network.flows[*number as usize].1 {
                    let switch = usize::from(*switch);
                    let at = shapes[switch].hashes.join(crcs, constants[switch]);
                    if at.sub_epoch(self.cuts) as usize == now {
                        let counter = &mut records[switch].parts[now].counters[at.slot as usize];
                        *counter += if at.is_negative { -1 } else { 1 };
                    }
                }
            }
            let reported = records.into_iter().enumerate().map(|(switch, record)| Reported {
                switch: format!("s{switch}").into(),
                record: Ok(Box::new(record)),
                before: Before::Nothing,
            });
            let analysed = analysis.epoch(epoch, &Target::default(), reported.collect());
            Arc::new(analysis.keep(analysed))
        };
        (0..FILLED).map(of).collect()
    }
}

struct Network {
    /// Each flow and its path.
    flows: Vec<(Flow, Vec<u16>)>,
    /// The flow of each packet.
    sequence: Vec<u32>,
}

impl Network {
    fn new(packets: u64) -> Self {
        let mut random = SplitMix64::new(1);
        let flow = |number: u32| {
            let [from, to, choice] = [8, 8, 4].map(|most| random.below(most) as u16);
            let to = if from / 2 == to / 2 { (to + 2) % 8 } else { to };
            let aggregation = |edge: u16| 8 + edge / 2 * 2 + choice % 2;
            let path = vec![from, aggregation(from), 16 + choice, aggregation(to), to];
            let address = |edge: u16| Some([10, 0, edge as u8, random.below(250) as u8].into());
            let [src, dst] = [from, to].map(address);
            let flow =
                Flow { src, dst, sport: Some(number as u16), dport: Some((number >> 16) as u16), proto: Some(6) };
            (flow, path)
        };
        let flows: Vec<_> = (0..(packets / 10) as u32).map(flow).collect();
        let workload =
            Workload { law: SizeLaw::Isp, flows: flows.len() as u32, packets, seed: 1, ..Workload::default() };
        Self { sequence: workload.sequence(), flows }
    }

    /// Asks for one flow, or for all of a list.
    fn ask(&self, history: &dyn Queryable, flows: usize) -> Result<u64> {
        let route = |path: &Vec<u16>| Route {
            switches: path.iter().map(|switch| Some(format!("s{switch}").into())).collect(),
            certainty: Certainty::Sure,
            packets: None,
        };
        let asked = self.flows.iter().take(flows).map(|(flow, path)| (*flow, route(path))).collect();
        let first = self.flows.first().context("no flows")?.0;
        let routes = Some(ByRoute::new(Arc::new(Known(asked))));
        if flows == 1 {
            let flow = Some(first.to_string().parse()?);
            let query = Query { flow, routes, ..Query::new(Task::Frequency, Window::All) };
            return Ok(history.answer::<Frequency>(&query)?.count().estimate);
        }
        let query = Query { routes, ..Query::new(Task::Heavy, Window::All) };
        Ok(history.answer::<HeavyFlows>(&query)?.heavy.len() as u64)
    }
}

/// Paths of some flows.
#[derive(Debug)]
struct Known(HashMap<Flow, Route>);

impl Routes for Known {
    fn of(&self, flow: &Flow) -> Vec<Route> {
        self.0.get(flow).cloned().into_iter().collect()
    }

    fn flows(&self) -> Vec<Flow> {
        self.0.keys().copied().collect()
    }
}

/// The time that it takes in seconds, and the largest growth of the process meanwhile in bytes.
fn measured(ask: impl Fn() -> Result<u64>) -> Result<(f64, u64)> {
    let before = status("VmRSS:")?;
    // The peak is from now on.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let started = Instant::now();
    std::hint::black_box(ask()?);
    Ok((started.elapsed().as_secs_f64(), status("VmHWM:")?.saturating_sub(before)))
}

/// A size of this process, in bytes.
fn status(what: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)).with_context(|| format!("no {what}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
