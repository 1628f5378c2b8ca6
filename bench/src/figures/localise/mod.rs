//! Where packets were lost, in networks with failures drawn at random: what weir answers beside the truth.
//!
//! All links lose packets in the background, at rates from 1e-6 to 1e-5. A failure is a link that loses packets in
//! one direction (`link`), in both (`bidir`), or a switch. Flows are new in each epoch, with sizes of `isp`.
//!
//! Networks are simulated at the level of flows ([`net`]), and weir's answer is asked from counters and flows as
//! switches would report them. `--packets` draws the counted ones packet by packet as well.

mod checks;
mod net;
mod packets;
mod score;
mod votes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use weir::sim::Shape;
use weir::trace::SplitMix64;

use super::plot::{Axis, Curve, Figure, Panel, Point, Source};
use net::{At, Drawn, Known, MEMORY, Net};
use score::{Score, Told};

const RATES: [f64; 3] = [0.001, 0.01, 1.0];
/// Failures at a time.
const FAILURES: usize = 2;

/// The arguments of the figure.
#[derive(clap::Args)]
#[group(id = "localise")]
pub struct Options {
    /// Failure draws of localise for each topology, kind and rate
    #[arg(long, value_name = "N", default_value_t = 50)]
    draws: u64,
    /// Draws of these that are simulated packet by packet as well, with hop counters in all switches (localise)
    #[arg(long, value_name = "N", default_value_t = 0)]
    packets: u64,
    /// A topology more for localise, as a file: .gml, .graphml
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Networks of localise: k4, k8, or the name of the file; all by default
    #[arg(long, value_name = "NAME", num_args = 1..)]
    networks: Vec<String>,
    /// Runs of each of localise's checks
    #[arg(long, value_name = "N", default_value_t = 100)]
    checks: u64,
}

/// A kind of failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Link,
    Bidir,
    Switch,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Link, Self::Bidir, Self::Switch];

    pub fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Bidir => "bidir",
            Self::Switch => "switch",
        }
    }

    /// The places of some failures, drawn at random: no two of them the same.
    pub fn draw(self, net: &Net, failures: usize, random: &mut SplitMix64) -> Vec<At> {
        let topology = &net.topology;
        let mut failing: Vec<At> = Vec::new();
        let mut drawn = 0;
        while drawn < failures {
            let links = topology.links();
            let link = random.below(links.len() as u64) as u32;
            let [a, b] = links[link as usize];
            let own = match self {
                Self::Link if random.below(2) == 0 => vec![At::Link(a, link)],
                Self::Link => vec![At::Link(b, link)],
                Self::Bidir => vec![At::Link(a, link), At::Link(b, link)],
                Self::Switch => vec![At::Switch(random.below(topology.switches().len() as u64) as u32)],
            };
            if own.iter().all(|at| !failing.contains(at)) {
                failing.extend(own);
                drawn += 1;
            }
        }
        failing
    }
}

/// Rates at which links lose packets in the background.
pub fn background(net: &Net, random: &mut SplitMix64) -> BTreeMap<At, f64> {
    let links = net.places().filter(|at| matches!(at, At::Link(..)));
    links.map(|at| (at, 1e-6 * 10f64.powf(random.unit()))).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Method {
    Counted,
    Half,
    Inferred,
    Votes,
    Pll,
}

impl Method {
    const ALL: [Self; 5] = [Self::Counted, Self::Half, Self::Inferred, Self::Votes, Self::Pll];

    fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Half => "half",
            Self::Inferred => "inferred",
            Self::Votes => "007",
            Self::Pll => "pll",
        }
    }

    fn memory(self) -> u64 {
        if matches!(self, Self::Counted | Self::Half) { MEMORY } else { 0 }
    }

    fn tell(self, drawn: &Drawn<'_>, seed: u64) -> Result<Told> {
        let switches = drawn.net.topology.switches().len() as u32;
        let silent = |random: &mut SplitMix64| {
            let mut all: Vec<u32> = (0..switches).collect();
            (0..all.len()).for_each(|place| all.swap(place, random.below(u64::from(switches)) as usize));
            all.truncate(all.len() / 2);
            all
        };
        Ok(match self {
            Self::Counted => Told::of_places(&drawn.counted(&[], Known::default(), seed)?, &[drawn]),
            Self::Half => {
                let silent = silent(&mut SplitMix64::new(seed ^ 0x5113));
                Told::of_places(&drawn.counted(&silent, Known::default(), seed)?, &[drawn])
            }
            Self::Inferred => Told::of_places(&net::inferred(&[drawn], Known::default(), seed)?, &[drawn]),
            Self::Votes => Told::of_links(votes::votes(drawn)),
            Self::Pll => Told::of_links(votes::pll(drawn)),
        })
    }
}

/// The share of lost packets that are right, of all draws: by topology, kind, method and rate in thousandths.
type Right = BTreeMap<(String, Kind, Method), BTreeMap<u64, Vec<f64>>>;

pub fn run(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let start = Instant::now();
    let (nets, draws) = (nets(quick, options)?, if quick { 2 } else { options.draws });
    let mut csv = format!("topology,failures,rate,kind,method,memory_bytes,seed,{},seconds\n", Score::COLUMNS);
    let mut right = Right::new();
    for net in &nets {
        for kind in Kind::ALL {
            for rate in RATES {
                for seed in 1..=draws {
                    let (drawn, failing) = draw(net, kind, rate, seed)?;
                    for method in Method::ALL {
                        let asked = Instant::now();
                        let told = method.tell(&drawn, seed)?;
                        let (seconds, score) = (asked.elapsed().as_secs_f64(), Score::new(&told, &drawn, &failing));
                        let (name, memory) = (method.name(), method.memory());
                        writeln!(
                            csv,
                            "{},{FAILURES},{rate},{},{name},{memory},{seed},{score},{seconds:.3}",
                            net.name,
                            kind.name()
                        )?;
                        let of = right.entry((net.name.clone(), kind, method)).or_default();
                        of.entry((rate * 1000.0) as u64).or_default().push(score.lost_packets_right);
                    }
                }
                eprintln!("{:7.1} s  {} {} {rate}", start.elapsed().as_secs_f64(), net.name, kind.name());
                write(&out.join("localise.csv"), &csv)?;
            }
        }
    }
    packets::run(&nets, if quick { 1 } else { options.packets }, &mut csv)?;
    write(&out.join("localise.csv"), &csv)?;
    write(&out.join("localise_checks.csv"), &checks::run(&nets, if quick { 3 } else { options.checks })?)?;
    for net in &nets {
        figure(net, &right).draw(&out.join(format!("localise_{}.svg", net.name)))?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// An epoch with failures.
fn draw(net: &Net, kind: Kind, rate: f64, seed: u64) -> Result<(Drawn<'_>, Vec<At>)> {
    let mut random = SplitMix64::new(seed ^ 0x10ca);
    let mut rates = background(net, &mut random);
    let failing = kind.draw(net, FAILURES, &mut random);
    rates.extend(failing.iter().map(|at| (*at, rate)));
    let mut drawn = net.draw(seed)?;
    drawn.lose(&rates, seed);
    Ok((drawn, failing))
}

fn nets(quick: bool, options: &Options) -> Result<Vec<Net>> {
    let flows = |flows: u32| if quick { flows / 10 } else { flows };
    let mut nets = vec![Net::new("k4".into(), &Shape::FatTree { k: 4 }, flows(20_000), 1_000_000)?];
    if !quick {
        nets.push(Net::new("k8".into(), &Shape::FatTree { k: 8 }, flows(100_000), 1_000_000)?);
    }
    if let Some(file) = &options.graph {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        nets.push(Net::new(name, &Shape::File(file.clone()), flows(100_000), 2_000_000)?);
    }
    if let Some(unknown) = options.networks.iter().find(|name| nets.iter().all(|net| net.name != **name)) {
        let names: Vec<_> = nets.iter().map(|net| &*net.name).collect();
        bail!("no network {unknown}; there are {}", names.join(", "));
    }
    nets.retain(|net| options.networks.is_empty() || options.networks.contains(&net.name));
    Ok(nets)
}

fn figure(net: &Net, right: &Right) -> Figure {
    let panel = |kind: Kind| {
        let title = match kind {
            Kind::Link => "two lossy links, one way",
            Kind::Bidir => "two lossy links, both ways",
            Kind::Switch => "two lossy switches",
        };
        let curve = |(color, method): (usize, Method)| {
            let of = right.get(&(net.name.clone(), kind, method)).into_iter().flatten();
            let points = of.map(|(rate, all)| {
                let min = all.iter().copied().fold(1.0, f64::min);
                let max = all.iter().copied().fold(0.0, f64::max);
                let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
                let [y, min, max] = [mean, min, max].map(|share| 100.0 * share);
                Point { x: *rate as f64 / 10.0, y, min, max, trials: all.len() }
            });
            Curve { name: method.name().into(), color, source: Source::Weir, points: points.collect() }
        };
        let curves = Method::ALL.into_iter().enumerate().map(curve).collect();
        Panel { title: title.into(), order: "uniform", zoom: None, curves }
    };
    Figure {
        name: "localise",
        title: format!("{}: lost packets that were given to the right place and flow", net.name),
        note: "one epoch; links lose 1e-6 to 1e-5 in the background; counted and half: 64 KB a switch".into(),
        x: Axis::new("packets that a failure loses, %", "rate_percent").log(),
        y: Axis::new("lost packets, %", "right_percent").range(0.0, 100.0),
        panels: Kind::ALL.into_iter().map(panel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net() -> Net {
        Net::new("k4".into(), &Shape::FatTree { k: 4 }, 10_000, 1_000_000).unwrap()
    }

    /// Every link and switch has the packets that it lost, and each flow its own, where all switches count.
    #[test]
    fn counted_places_are_exact() {
        for kind in Kind::ALL {
            let net = net();
            let (drawn, failing) = draw(&net, kind, 0.02, 3).unwrap();
            let score = Score::new(&Method::Counted.tell(&drawn, 3).unwrap(), &drawn, &failing);
            assert_eq!((score.precision, score.places_right, score.is_exact), (1.0, 1.0, true), "{}", kind.name());
            assert!(score.lost_packets_right > 0.98, "{}", score.lost_packets_right);
        }
    }

    /// Dead switches of which one counts or none does are told from their links.
    #[test]
    fn dead_switches_are_told_from_their_links_where_half_count() {
        let net = Net::new("k4".into(), &Shape::FatTree { k: 4 }, 20_000, 1_000_000).unwrap();
        for seed in [3, 14, 19] {
            let (drawn, failing) = draw(&net, Kind::Switch, 1.0, seed).unwrap();
            let score = Score::new(&Method::Half.tell(&drawn, seed).unwrap(), &drawn, &failing);
            assert!(score.is_exact, "{seed}: {score}");
        }
    }

    /// A lossy link is found from the edges alone, and with half of the switches; both baselines name links.
    #[test]
    fn a_failure_is_found_without_counters() {
        let net = net();
        for seed in 1..4 {
            let (drawn, failing) = draw(&net, Kind::Link, 0.05, seed).unwrap();
            for method in [Method::Half, Method::Inferred, Method::Votes, Method::Pll] {
                let score = Score::new(&method.tell(&drawn, seed).unwrap(), &drawn, &failing);
                assert!(score.recall > 0.9 && score.lost_packets_right > 0.85, "{} {seed}: {score}", method.name());
            }
        }
    }
}
