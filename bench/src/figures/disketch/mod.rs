//! The figures of DiSketch's evaluation, drawn again: frequency errors against memory (Figure 12), the
//! error of the entropy (Figure 13), frequency errors against heterogeneous memories and loads (Figure 14),
//! and by length of paths (Figure 16). A figure of ours has flows that change their path.
//!
//! Traffic and networks are the paper's, as far as its text says them: 2 million packets of 200 000 flows
//! in 32 epochs, hosts that are drawn for addresses, and one path for each flow. Fragments are filled and
//! asked by weir's own hashes, records and queries; a change of the number of sub-epochs takes effect in
//! the second epoch after the one that it was decided from, as in a switch.

mod experiment;
mod fabric;
mod methods;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use weir::program::disketch::SketchKind;

use self::experiment::{EPOCHS, Experiment, Known, Outcome};
use self::fabric::{Fabric, Traffic, widths_of};
use self::methods::Method;
use super::plot::{Axis, Curve, Figure, Panel, Point, Source};

#[derive(Clone, Debug, clap::Args)]
#[group(id = "disketch")]
pub struct Options {
    /// Workloads of DiSketch's figures
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', default_values = ["isp", "burst", "zipf1"])]
    disketch_workload: Vec<Traffic>,
    /// Inequality of the switches' memories, a Gini coefficient (disketch-frequency)
    #[arg(long, value_name = "GINI", value_delimiter = ',', default_values_t = [0.0, 0.4, 0.6])]
    gini: Vec<f64>,
    /// Mean memory of a switch in KB of 1024 bytes (disketch-frequency)
    #[arg(long, value_name = "KB", value_delimiter = ',', default_values_t = [8, 16, 32, 64, 128, 256, 512, 1024])]
    memory: Vec<u32>,
    /// Seeds of DiSketch's traces, memories and hashes
    #[arg(long, value_name = "N", default_value_t = 6)]
    disketch_seeds: u64,
    /// Networks (disketch-frequency)
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', default_values = ["fat", "leaf"])]
    disketch_topology: Vec<Fabric>,
    /// Sketches (disketch-frequency)
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', default_values = ["cs", "cms"])]
    sketch: Vec<SketchName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum SketchName {
    Cs,
    Cms,
    #[value(skip)]
    UnivMon,
}

impl SketchName {
    fn sketch(self) -> SketchKind {
        match self {
            Self::Cs => SketchKind::Count,
            Self::Cms => SketchKind::CountMin,
            Self::UnivMon => SketchKind::UnivMon,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cs => "cs",
            Self::Cms => "cms",
            Self::UnivMon => "univmon",
        }
    }
}

/// Packets and flows of a window, and the number of seeds.
struct Scale {
    packets: u64,
    flows: u32,
    seeds: u64,
}

impl Options {
    fn scale(&self, quick: bool) -> Scale {
        match quick {
            true => Scale { packets: 200_000, flows: 20_000, seeds: 1 },
            false => Scale { packets: 2_000_000, flows: 200_000, seeds: self.disketch_seeds },
        }
    }
}

/// The median over seeds, with the range.
fn point(x: f64, mut values: Vec<f64>) -> Point {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let y = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
    Point { x, y, min: values[0], max: values[values.len() - 1], trials: values.len() }
}

/// Curves by method, from a value for each of their places and seeds.
fn curves(methods: &[Method], values: &BTreeMap<(Method, u64), Vec<f64>>) -> Vec<Curve> {
    let of = |(color, method): (usize, &Method)| {
        let points = values.iter().filter(|((of, _), _)| of == method);
        let points = points.map(|((_, x), values)| point(*x as f64, values.clone())).collect();
        Curve { name: method.name().into(), color, source: Source::Weir, points }
    };
    methods.iter().enumerate().map(of).collect()
}

/// Figure 12.
pub fn frequency(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let Scale { packets, flows, seeds } = options.scale(quick);
    let mut csv = String::from(
        "workload,topology,gini,sketch,memory_bytes,method,seed,rmse,rmse_signed,bias,rmse_top1000,mean_sub_epochs,flows\n",
    );
    for &traffic in &options.disketch_workload {
        for &name in &options.sketch {
            let mut panels = Vec::new();
            for &fabric in &options.disketch_topology {
                for &gini in &options.gini {
                    let mut values = BTreeMap::<_, Vec<f64>>::new();
                    for seed in 1..=seeds {
                        let network = fabric.loaded(traffic, packets, flows, seed);
                        for &kb in &options.memory {
                            let bytes = kb * 1024;
                            let widths = widths_of(fabric.switches(), f64::from(bytes) / 4.0, gini, seed);
                            let experiment = Experiment::new(&network, &widths, name.sketch(), seed);
                            for (method, outcome) in Method::ALL.into_iter().zip(experiment.run_all(&Method::ALL)) {
                                let Outcome { rmse, signed_rmse, bias, top, mean_sub_epochs, queried, .. } = outcome;
                                let (traffic, fabric) = (traffic.name(), fabric.name());
                                writeln!(
                                    csv,
                                    "{traffic},{fabric},{gini},{},{bytes},{},{seed},{rmse:.4},{signed_rmse:.4},{bias:.4},{top:.4},{mean_sub_epochs:.3},{queried}",
                                    name.name(),
                                    method.name()
                                )?;
                                values.entry((method, u64::from(bytes))).or_default().push(rmse);
                            }
                        }
                        println!("{} {} gini {gini} {} seed {seed}", traffic.name(), fabric.name(), name.name());
                    }
                    let title = format!("{}, Gini {gini}", fabric.title());
                    panels.push(Panel {
                        title,
                        order: traffic.name(),
                        zoom: None,
                        curves: curves(&Method::ALL, &values),
                    });
                }
            }
            let (sketch, traffic) = (name.name(), traffic.name());
            let file = format!("disketch_frequency_{sketch}_{traffic}");
            save(
                out,
                &file,
                &format!("DiSketch Figure 12: {sketch}, {traffic}"),
                "memory of a switch, bytes",
                "RMSE, packets",
                panels,
            )?;
        }
    }
    write(out, "disketch_frequency.csv", &csv)
}

/// Figure 13: the entropy of the sizes of all flows, from UnivMon's levels and from the sizes alone. All
/// flows have names.
pub fn entropy(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let Scale { packets, flows, seeds } = options.scale(quick);
    let mut csv = String::from(
        "workload,topology,gini,sketch,memory_bytes,method,seed,entropy_true,entropy_estimate,entropy_error,\
         flows_true,flows_estimate,rmse,rmse_full_paths,mean_sub_epochs\n",
    );
    let methods =
        [Method::Window, Method::Disco, Method::DiscoLikelihood, Method::Paper, Method::Robust, Method::Likelihood];
    for &traffic in &options.disketch_workload {
        let mut panels = Vec::new();
        for sketch in [SketchName::UnivMon, SketchName::Cs] {
            let mut values = BTreeMap::<_, Vec<f64>>::new();
            for seed in 1..=seeds {
                let network = Fabric::Fat.loaded(traffic, packets, flows, seed);
                let (entropy, number) = network.entropy();
                for bytes in [128 * 1024u32, 512 * 1024] {
                    let widths = widths_of(Fabric::Fat.switches(), f64::from(bytes) / 4.0, 0.4, seed);
                    let experiment = Experiment::new(&network, &widths, sketch.sketch(), seed).of_all();
                    for (method, outcome) in methods.into_iter().zip(experiment.run_all(&methods)) {
                        let (found, all) = (outcome.summary, outcome.rmse_of_all());
                        let error = (found.entropy_bits - entropy).abs();
                        writeln!(
                            csv,
                            "{},fat,0.4,{},{bytes},{},{seed},{entropy:.4},{:.4},{error:.4},\
                             {number},{:.0},{all:.4},{:.4},{:.3}",
                            traffic.name(),
                            sketch.name(),
                            method.name(),
                            found.entropy_bits,
                            found.flows,
                            outcome.rmse,
                            outcome.mean_sub_epochs
                        )?;
                        values.entry((method, u64::from(bytes))).or_default().push(error);
                    }
                }
                println!("{} {} seed {seed}", traffic.name(), sketch.name());
            }
            let curves = curves(&methods, &values);
            panels.push(Panel { title: sketch.name().into(), order: traffic.name(), zoom: None, curves });
        }
        let file = format!("disketch_entropy_{}", traffic.name());
        let title = format!("DiSketch Figure 13: {}", traffic.name());
        save(out, &file, &title, "memory of a switch, bytes", "error of the entropy, bits", panels)?;
    }
    write(out, "disketch_entropy.csv", &csv)
}

/// Flows that change to another path of the same length in the middle of an epoch, by what a query knows of
/// it. The paper leaves changes of paths open.
pub fn path_change(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let Scale { packets, flows, seeds } = options.scale(quick);
    let mut csv = String::from("workload,memory_bytes,method,paths,seed,rmse,bias,mean_sub_epochs,flows\n");
    let methods = [Method::Disco, Method::Paper, Method::Likelihood];
    for &traffic in &options.disketch_workload {
        let mut values = BTreeMap::<_, Vec<f64>>::new();
        for seed in 1..=seeds {
            let rerouted = Fabric::Fat.loaded(traffic, packets, flows, seed).rerouted(Fabric::Fat, EPOCHS, seed);
            let steady = rerouted.steady();
            for bytes in [64 * 1024u32, 512 * 1024] {
                let widths = widths_of(Fabric::Fat.switches(), f64::from(bytes) / 4.0, 0.4, seed);
                let changes = Known::ALL.map(|known| (known.name(), &rerouted, known));
                for (paths, network, known) in changes.into_iter().chain([("steady", &steady, Known::First)]) {
                    let experiment = Experiment::new(network, &widths, SketchKind::Count, seed).knowing(known);
                    for method in methods {
                        let outcome = experiment.run(method, false);
                        let Outcome { rmse, bias, mean_sub_epochs, queried, .. } = outcome;
                        let (traffic, name) = (traffic.name(), method.name());
                        writeln!(
                            csv,
                            "{traffic},{bytes},{name},{paths},{seed},{rmse:.4},{bias:.4},{mean_sub_epochs:.3},{queried}"
                        )?;
                        values.entry((paths, method, u64::from(bytes))).or_default().push(rmse);
                    }
                }
            }
            println!("{} seed {seed}", traffic.name());
        }
        let panel = |paths: &'static str| {
            let of = values.iter().filter(|((of, ..), _)| *of == paths);
            let of = of.map(|((_, method, bytes), values)| ((*method, *bytes), values.clone())).collect();
            Panel { title: paths.into(), order: traffic.name(), zoom: None, curves: curves(&methods, &of) }
        };
        let panels = ["steady", "aware", "shared", "unaware"].map(panel).into();
        let file = format!("disketch_path_change_{}", traffic.name());
        let title = format!("DiSketch: paths that change, {}", traffic.name());
        save(out, &file, &title, "memory of a switch, bytes", "RMSE, packets", panels)?;
    }
    write(out, "disketch_path_change.csv", &csv)
}

/// Figure 16: by length of the path, without and with single-hop flows in two sub-epochs.
pub fn path_length(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let Scale { packets, flows, seeds } = options.scale(quick);
    let mut csv =
        String::from("workload,memory_bytes,method,mitigation,seed,rmse_1hop,rmse_3hop,rmse_5hop,mean_sub_epochs\n");
    let methods = [Method::Disco, Method::Paper, Method::Likelihood];
    for &traffic in &options.disketch_workload {
        let mut values = BTreeMap::<_, Vec<f64>>::new();
        for seed in 1..=seeds {
            let network = Fabric::Fat.loaded(traffic, packets, flows, seed);
            for bytes in [8 * 1024u32, 1024 * 1024] {
                let widths = widths_of(Fabric::Fat.switches(), f64::from(bytes) / 4.0, 0.4, seed);
                let experiment = Experiment::new(&network, &widths, SketchKind::Count, seed);
                for (method, single_hop) in methods.into_iter().flat_map(|method| [(method, false), (method, true)]) {
                    if method == Method::Disco && single_hop {
                        continue;
                    }
                    let outcome = experiment.run(method, single_hop);
                    let [one, three, five] = [1, 3, 5].map(|hops| outcome.rmse_of(hops));
                    let (n, on) = (outcome.mean_sub_epochs, u8::from(single_hop));
                    let (traffic, method) = (traffic.name(), method.name());
                    writeln!(csv, "{traffic},{bytes},{method},{on},{seed},{one:.4},{three:.4},{five:.4},{n:.3}")?;
                    for (hops, error) in [(1, one), (3, three), (5, five)] {
                        values.entry((bytes, method, on, hops)).or_default().push(error);
                    }
                }
            }
            println!("{} seed {seed}", traffic.name());
        }
        let panel = |bytes: u32| {
            let mut curves = BTreeMap::<_, Vec<Point>>::new();
            for ((of, method, on, hops), values) in &values {
                if *of == bytes {
                    let name = if *on == 1 { format!("{method}, single hops twice") } else { (*method).to_owned() };
                    curves.entry(name).or_default().push(point(f64::from(*hops), values.clone()));
                }
            }
            let curve = |(color, (name, points))| Curve { name, color, source: Source::Weir, points };
            let curves = curves.into_iter().enumerate().map(curve).collect();
            Panel { title: format!("{} KB a switch", bytes / 1024), order: traffic.name(), zoom: None, curves }
        };
        let panels = vec![panel(8 * 1024), panel(1024 * 1024)];
        let file = format!("disketch_path_length_{}", traffic.name());
        let title = format!("DiSketch Figure 16: {}", traffic.name());
        save(out, &file, &title, "switches on the path", "RMSE, packets", panels)?;
    }
    write(out, "disketch_path_length.csv", &csv)
}

/// Coefficients of variation of Figure 14.
const VARIATIONS: [f64; 4] = [0.0, 0.6, 1.2, 1.8];

/// Figure 14: one path of five switches, which have 5 120 counters and 259 000 packets of background
/// traffic together.
pub fn heterogeneity(out: &Path, quick: bool, options: &Options) -> Result<()> {
    let seeds = if quick { 1 } else { options.disketch_seeds };
    let mut csv = String::from("workload,wcov,lcov,method,seed,nrmse,mean_sub_epochs\n");
    let methods = [Method::Window, Method::Disco, Method::Paper, Method::Likelihood];
    for &traffic in &options.disketch_workload {
        let mut panels = Vec::new();
        for wcov in VARIATIONS {
            let mut values = BTreeMap::<_, Vec<f64>>::new();
            for lcov in VARIATIONS {
                for seed in 1..=seeds {
                    let (network, widths) = fabric::single_path(traffic, wcov, lcov, seed);
                    let experiment = Experiment::new(&network, &widths, SketchKind::Count, seed);
                    for method in methods {
                        let outcome = experiment.run(method, false);
                        let error = outcome.rmse / network.packets() as f64;
                        let (traffic, n) = (traffic.name(), outcome.mean_sub_epochs);
                        writeln!(csv, "{traffic},{wcov},{lcov},{},{seed},{error:.4e},{n:.3}", method.name())?;
                        // Tenths, so that places of curves are whole numbers.
                        values.entry((method, (lcov * 10.0).round() as u64)).or_default().push(error);
                    }
                }
            }
            let mut curves = curves(&methods, &values);
            curves.iter_mut().flat_map(|curve| &mut curve.points).for_each(|point| point.x /= 10.0);
            panels.push(Panel { title: format!("widths vary by {wcov}"), order: traffic.name(), zoom: None, curves });
        }
        let file = format!("disketch_heterogeneity_{}", traffic.name());
        let title = format!("DiSketch Figure 14: {}", traffic.name());
        save(out, &file, &title, "variation of the loads", "RMSE over all packets", panels)?;
        println!("{}", traffic.name());
    }
    write(out, "disketch_heterogeneity.csv", &csv)
}

fn save(out: &Path, name: &str, title: &str, x: &'static str, y: &'static str, panels: Vec<Panel>) -> Result<()> {
    let has_wide_x =
        panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points).any(|point| point.x > 100.0);
    let x = Axis::new(x, "x");
    let figure = Figure {
        name: "",
        title: title.into(),
        note:
            "Medians over seeds, with the range. agg and window are read out once for the whole window; DISCO has new \
               hashes each epoch, as DiSketch has."
                .into(),
        x: if has_wide_x { x.log() } else { x },
        y: Axis::new(y, "y").log(),
        panels,
    };
    figure.draw(&out.join(format!("{name}.svg")))
}

fn write(out: &Path, name: &str, text: &str) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
