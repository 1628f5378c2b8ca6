//! Where packets were lost, in simulated networks with failures drawn at random: hop counters beside the truth.
//!
//! All links lose packets in the background, at rates from 1e-6 to 1e-5. A failure is a link that loses packets
//! in both directions, or a switch. Flows are new in each epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use weir::answers::{Claimed, FlowName, Places};
use weir::sim::{Fabric, Loss, Setup, Shape, Simulation};
use weir::trace::SplitMix64;

use super::plot::{Axis, Curve, Figure, Panel, Point, Source};

/// Memory of a switch, in bytes.
const MEMORY: u64 = 65_536;
const RATES: [f64; 3] = [0.001, 0.01, 1.0];

/// The arguments of the figure.
#[derive(clap::Args)]
#[group(id = "localise")]
pub struct Options {
    /// Failure draws of localise for each topology, kind and rate
    #[arg(long, value_name = "N", default_value_t = 10)]
    draws: u64,
    /// A topology more for localise, as a file: .gml, .graphml
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
}

/// A network and its traffic.
struct Net {
    name: String,
    shape: Shape,
    flows: u32,
    transit: u64,
}

/// One draw.
struct Draw {
    failures: usize,
    rate: f64,
    kind: &'static str,
    seed: u64,
}

/// By kind of failure and topology: the rate, and of each draw the share of lost packets that are right.
type Right = BTreeMap<(&'static str, String), Vec<(f64, Vec<f64>)>>;

/// The outcome of one draw of failures.
struct Found {
    precision: f64,
    recall: f64,
    lost_packets: u64,
    lost_packets_right: f64,
    is_exact: bool,
    /// Places with the exact number of lost packets, of those that lost some or are said to.
    places_right: f64,
    seconds: f64,
}

pub fn run(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let start = Instant::now();
    let (nets, draws) = (nets(quick, options)?, if quick { 1 } else { options.draws });
    let mut csv = String::from(
        "topology,failures,rate,kind,method,memory_bytes,seed,precision,recall,lost_packets,lost_packets_right,\
         exact_answers,places_right,seconds\n",
    );
    let mut right: Right = BTreeMap::new();
    for net in &nets {
        for kind in ["bidir", "switch"] {
            for rate in RATES {
                let mut all = Vec::new();
                for seed in 1..=draws {
                    let draw = Draw { failures: 2, rate, kind, seed };
                    let found = run_draw(net, &draw)?;
                    let Found { precision, recall, lost_packets, lost_packets_right, is_exact, places_right, seconds } =
                        found;
                    writeln!(
                        csv,
                        "{},{},{rate},{kind},counted,{MEMORY},{seed},{precision:.3},{recall:.3},{lost_packets},\
                         {lost_packets_right:.4},{},{places_right:.4},{seconds:.2}",
                        net.name,
                        draw.failures,
                        u8::from(is_exact),
                    )?;
                    all.push(lost_packets_right);
                }
                let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
                eprintln!("{:6.1} s  {} {kind} {rate}: {mean:.4}", start.elapsed().as_secs_f64(), net.name);
                right.entry((kind, net.name.clone())).or_default().push((rate, all));
            }
        }
    }
    let file = out.join("localise.csv");
    fs::write(&file, csv).with_context(|| format!("writing {}", file.display()))?;
    figure(right).draw(&out.join("localise.svg"))
}

fn nets(quick: bool, options: &Options) -> Result<Vec<Net>> {
    let net = |name: &str, flows, transit| -> Result<Net> {
        let short = name.replace("fat-tree:", "k");
        Ok(Net { name: short, shape: name.parse()?, flows: if quick { flows / 10 } else { flows }, transit })
    };
    let mut nets = vec![net("fat-tree:4", 20_000, 1_000_000)?];
    if !quick {
        nets.push(net("fat-tree:8", 100_000, 1_000_000)?);
    }
    if let Some(file) = &options.graph {
        let shape = Shape::File(file.clone());
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        nets.push(Net { name, shape, flows: if quick { 10_000 } else { 100_000 }, transit: 2_000_000 });
    }
    Ok(nets)
}

/// The places that fail: links by number and switches by name.
fn losses(setup: &Setup, draw: &Draw) -> Vec<Loss> {
    let mut random = SplitMix64::new(draw.seed ^ 0x10ca);
    let links = setup.topology.links().len() as u64;
    let background = (0..links).map(|link| {
        let rate = 1e-6 * (1.0 + 9.0 * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
        format!("link={link},rate={rate:.9}")
    });
    let mut all: Vec<String> = background.collect();
    for _ in 0..draw.failures {
        let switches = setup.topology.switches();
        all.push(match draw.kind {
            "switch" => {
                format!("switch={},rate={}", switches[random.below(switches.len() as u64) as usize], text(draw.rate))
            }
            _ => format!("link={},rate={}", random.below(links), text(draw.rate)),
        });
    }
    all.iter().filter_map(|loss| loss.parse().ok()).collect()
}

fn text(rate: f64) -> String {
    format!("{}%", rate * 100.0)
}

/// Where flows lost packets: by flow, switch, and the port that a link begins at.
type Lost = BTreeMap<(FlowName, String, Option<String>), u64>;

fn run_draw(net: &Net, draw: &Draw) -> Result<Found> {
    let programs = ["chamelemon".to_owned(), format!("hopcounters:memory={MEMORY}B")];
    let programs = programs.iter().map(|program| program.parse()).collect::<Result<_, _>>()?;
    let workload = format!("isp/uniform,flows={},packets={},seed={}", net.flows, 10 * net.flows, draw.seed).parse()?;
    let mut setup = Setup {
        transit: net.transit,
        latency: 100_000,
        fabric: Fabric::default(),
        ..Setup::new(net.shape.build()?, programs, workload)
    };
    setup.losses = losses(&setup, draw);
    let mut simulation = Simulation::new(&setup)?;
    simulation.epoch(&setup.workload, None);
    simulation.finish();
    let network = simulation.network();
    let generation = network.generation(0);
    let mut truth = Lost::new();
    for ((flow, at), packets) in &generation.places {
        let Some((switch, port)) = network.named(*at) else { continue };
        let flow = FlowName::Flow(flow_of(generation, *flow));
        *truth.entry((flow, switch, port)).or_default() += u64::from(*packets);
    }
    let started = Instant::now();
    let answers = simulation.answers(1, 0).context("an epoch has closed")?;
    let answers = answers.with_surroundings(network, &simulation.histories());
    let found: Claimed<Places> = answers.answer(usize::MAX).context("hop counters answer")?;
    Ok(score(&setup, draw, &found, &truth, started.elapsed().as_secs_f64()))
}

fn flow_of(generation: &weir::sim::Generation, flow: u32) -> weir::wire::Flow {
    use weir::wire::FlowKey;
    generation.flows[flow as usize].tuple.flow()
}

fn score(setup: &Setup, draw: &Draw, found: &Places, truth: &Lost, seconds: f64) -> Found {
    let mut by_place: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
    for ((_, switch, port), packets) in truth {
        *by_place.entry((switch.clone(), port.clone())).or_default() += packets;
    }
    let name = |place: &weir::answers::LossPlace| (place.switch.clone(), place.port.clone());
    let failing: BTreeSet<_> = by_place.keys().filter(|place| is_failure(setup, draw, place)).cloned().collect();
    let named: BTreeSet<_> = found.places.iter().filter(|place| place.failed).map(name).collect();
    let right = named.intersection(&failing).count() as f64;
    let share = |of: f64, all: usize| if all == 0 { 1.0 } else { of / all as f64 };
    let told = found.places.iter().flat_map(|place| {
        let (switch, port) = name(place);
        place.victims.iter().map(move |victim| ((victim.name, switch.clone(), port.clone()), victim.packets))
    });
    let placed: u64 = told.map(|(key, packets)| packets.min(truth.get(&key).copied().unwrap_or(0))).sum();
    let lost: u64 = truth.values().sum();
    let counted: BTreeMap<_, _> = found.places.iter().map(|place| (name(place), place.lost_packets)).collect();
    let all: BTreeSet<_> = counted.keys().chain(by_place.keys()).collect();
    let exact = all.iter().filter(|place| counted.get(**place) == by_place.get(**place)).count();
    // A place that lost fewer than three packets is never named.
    let enough: BTreeSet<_> = failing.iter().filter(|place| by_place[*place] >= 3).cloned().collect();
    Found {
        precision: share(right, named.len()),
        recall: share(right, failing.len()),
        lost_packets: lost,
        lost_packets_right: if lost == 0 { 1.0 } else { placed as f64 / lost as f64 },
        is_exact: named == enough,
        places_right: share(exact as f64, all.len()),
        seconds,
    }
}

/// Whether a place is one of those that were made to fail.
fn is_failure(setup: &Setup, draw: &Draw, (switch, port): &(String, Option<String>)) -> bool {
    setup.losses.iter().rev().take(draw.failures).any(|loss| match (loss, port) {
        (Loss::Link { link, .. }, Some(port)) => *port == format!("l{link}"),
        (Loss::Switch { switch: failed, .. }, None) => {
            let number: usize = switch.trim_start_matches('s').parse().unwrap_or(usize::MAX);
            setup.topology.switches().get(number).is_some_and(|name| failed.is(name))
        }
        _ => false,
    })
}

fn figure(right: Right) -> Figure {
    let mut panels: Vec<Panel> = Vec::new();
    for ((kind, topology), points) in right {
        let title = if kind == "switch" { "two lossy switches" } else { "two lossy links" };
        if panels.last().is_none_or(|panel| panel.title != title) {
            panels.push(Panel { title: title.into(), order: "uniform", zoom: None, curves: Vec::new() });
        }
        let point = |(rate, all): (f64, Vec<f64>)| {
            let (min, max) = all.iter().fold((1.0f64, 0.0f64), |(min, max), share| (min.min(*share), max.max(*share)));
            let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
            Point { x: 100.0 * rate, y: 100.0 * mean, min: 100.0 * min, max: 100.0 * max, trials: all.len() }
        };
        if let Some(panel) = panels.last_mut() {
            let color = panel.curves.len();
            let points = points.into_iter().map(point).collect();
            panel.curves.push(Curve { name: topology, color, source: Source::Weir, points });
        }
    }
    Figure {
        name: "localise",
        title: "Lost packets that were given to the right place and flow".into(),
        note: "hop counters with 64 KB a switch, one epoch; links lose 1e-6 to 1e-5 in the background".into(),
        x: Axis::new("packets that a failure loses, %", "rate_percent").log(),
        y: Axis::new("lost packets, %", "right_percent").range(0.0, 100.0),
        panels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failing switch and a failing link of a small network are found, with the flows.
    #[test]
    fn failures_are_found() {
        let net = Net { name: "k4".into(), shape: "fat-tree:4".parse().unwrap(), flows: 2_000, transit: 1_000_000 };
        for kind in ["bidir", "switch"] {
            let found = run_draw(&net, &Draw { failures: 2, rate: 0.02, kind, seed: 3 }).unwrap();
            assert!(found.lost_packets > 50, "{}", found.lost_packets);
            assert_eq!((found.precision, found.places_right, found.is_exact), (1.0, 1.0, true), "{kind}");
            assert!(found.lost_packets_right > 0.98, "{kind} {}", found.lost_packets_right);
        }
    }
}
