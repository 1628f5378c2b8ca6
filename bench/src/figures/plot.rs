//! One figure: panels side by side with our curves solid and the paper's points hollow, as SVG and as CSV.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::experiment::Trials;

pub struct Figure {
    /// Name of the files, without extension.
    pub name: &'static str,
    pub title: String,
    /// A line of small print below.
    pub note: String,
    pub x: Axis,
    pub y: Axis,
    pub legend: Legend,
    pub panels: Vec<Panel>,
}

pub struct Axis {
    /// With the unit.
    pub label: &'static str,
    /// Column in the CSV file, with the unit.
    pub column: &'static str,
    pub from: f64,
    pub to: f64,
    pub log: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Legend {
    UpperLeft,
    UpperRight,
    LowerRight,
}

pub struct Panel {
    pub title: String,
    /// Order of the packets, for the CSV file.
    pub order: &'static str,
    pub curves: Vec<Curve>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Weir,
    Paper,
    /// The authors' programs, run by us.
    Authors,
}

pub struct Curve {
    pub name: String,
    /// Curves of one colour are to be compared.
    pub color: usize,
    pub source: Source,
    pub points: Vec<Point>,
}

/// A point with its range over the trials.
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub min: f64,
    pub max: f64,
    pub trials: usize,
}

impl Curve {
    /// The paper's own points, of which it prints no range; `name` and colour are those of our curve beside them.
    pub fn paper(name: &str, color: usize, points: Vec<(f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, min: y, max: y, trials: 0 }).collect();
        Self { name: name.to_owned(), color, source: Source::Paper, points }
    }

    /// Our trials, fractions turned into percent. Where there are no trials there is no point.
    pub fn percent(name: &str, color: usize, points: impl IntoIterator<Item = (f64, Option<Trials>)>) -> Self {
        let points = points.into_iter().filter_map(|(x, t)| {
            let t = t?;
            Some(Point { x, y: 100.0 * t.mean, min: 100.0 * t.min, max: 100.0 * t.max, trials: t.count })
        });
        Self { name: name.to_owned(), color, source: Source::Weir, points: points.collect() }
    }
}

impl Figure {
    pub fn save(&self, directory: &Path) -> Result<()> {
        let svg = directory.join(format!("{}.svg", self.name));
        super::draw::draw(self, &svg).with_context(|| format!("drawing {}", svg.display()))?;
        let csv = directory.join(format!("{}.csv", self.name));
        fs::write(&csv, self.csv()).with_context(|| format!("writing {}", csv.display()))
    }

    fn csv(&self) -> String {
        let (x, y) = (self.x.column, self.y.column);
        let mut text = format!("order,source,curve,{x},{y},{y}_min,{y}_max,trials\n");
        for panel in &self.panels {
            for curve in &panel.curves {
                // Names such as `m = 3360, k = 140` hold commas.
                let name = curve.name.replace(", ", " ");
                // The paper's points do not depend on our order.
                let (order, source) = match curve.source {
                    Source::Weir => (panel.order, "weir"),
                    Source::Paper if panel.order != self.panels[0].order => continue,
                    Source::Paper => ("caida", "paper"),
                    Source::Authors => (panel.order, "authors"),
                };
                for p in &curve.points {
                    let Point { x, y, min, max, .. } = p;
                    let trials = if p.trials == 0 { String::new() } else { p.trials.to_string() };
                    writeln!(text, "{order},{source},{name},{x},{y:.6},{min:.6},{max:.6},{trials}")
                        .expect("a string takes all");
                }
            }
        }
        text
    }
}
