//! One figure: panels side by side with our curves solid and the paper's points hollow, as SVG and
//! as CSV.

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
    pub panels: Vec<Panel>,
}

pub struct Axis {
    /// With the unit.
    pub label: &'static str,
    /// Column in the CSV file, with the unit.
    pub column: &'static str,
    /// First and last value. Without one the axis spans the data: from zero, or where it is
    /// logarithmic in steps of 1, 2 and 5.
    pub range: Option<(f64, f64)>,
    pub log: bool,
}

pub struct Panel {
    pub title: String,
    /// Order of the packets, for the CSV file.
    pub order: &'static str,
    /// Part of the y axis that is drawn, of curves that another panel shows whole. The CSV file
    /// leaves such a panel out.
    pub zoom: Option<(f64, f64)>,
    pub curves: Vec<Curve>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Measured here.
    Weir,
    Paper,
    /// The authors' programs, run by us.
    Authors,
    /// A formula.
    Model,
}

#[derive(Clone)]
pub struct Curve {
    /// Of the algorithm; curves of all sources share it.
    pub name: String,
    /// Curves of one colour are to be compared.
    pub color: usize,
    pub source: Source,
    pub points: Vec<Point>,
}

/// A point with its range over the trials.
#[derive(Clone)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub min: f64,
    pub max: f64,
    pub trials: usize,
}

impl Curve {
    /// The paper's own points, of which it prints no range; `name` and colour are those of our
    /// curve beside them.
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

impl Axis {
    pub fn new(label: &'static str, column: &'static str) -> Self {
        Self { label, column, range: None, log: false }
    }

    pub fn range(self, from: f64, to: f64) -> Self {
        Self { range: Some((from, to)), ..self }
    }

    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// First and last value of an axis for `values`, which have their places inside and not on the
    /// edge.
    pub fn span(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some(range) = self.range {
            return range;
        }
        let drawn = values.filter(|&value| value.is_finite() && (value > 0.0 || !self.log));
        let (min, max) = drawn.fold((f64::INFINITY, 0.0f64), |(min, max), value| (min.min(value), max.max(value)));
        match (self.log, max > 0.0) {
            (true, true) => (step_below(min / 1.1), step_above(max * 1.1, &[1.0, 2.0, 5.0])),
            (true, false) => (0.1, 1.0),
            (false, true) => (0.0, step_above(max * 1.04, &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0])),
            (false, false) => (0.0, 1.0),
        }
    }
}

/// The least of `steps` times a power of ten that is not below `value`.
fn step_above(value: f64, steps: &[f64]) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    steps.iter().map(|step| step * decade).find(|&step| step >= value).unwrap_or(10.0 * decade)
}

/// The largest of 1, 2 and 5 times a power of ten that is not above `value`.
fn step_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [5.0, 2.0].map(|step| step * decade).into_iter().find(|&step| step <= value).unwrap_or(decade)
}

impl Figure {
    pub fn save(&self, directory: &Path) -> Result<()> {
        self.draw(&directory.join(format!("{}.svg", self.name)))?;
        let csv = directory.join(format!("{}.csv", self.name));
        fs::write(&csv, self.csv()).with_context(|| format!("writing {}", csv.display()))
    }

    /// Writes the SVG file alone.
    pub fn draw(&self, svg: &Path) -> Result<()> {
        super::draw::draw(self, svg).with_context(|| format!("drawing {}", svg.display()))
    }

    /// Values of y that the axis spans; a range that goes further is drawn as far as the axis goes.
    pub fn ys(&self) -> impl Iterator<Item = f64> {
        self.panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points).flat_map(|p| [p.y, p.max])
    }

    fn csv(&self) -> String {
        let (x, y) = (self.x.column, self.y.column);
        let mut text = format!("order,source,curve,{x},{y},{y}_min,{y}_max,trials\n");
        for panel in self.panels.iter().filter(|panel| panel.zoom.is_none()) {
            for curve in &panel.curves {
                // Names such as `m = 3360, k = 140` hold commas.
                let name = curve.name.replace(", ", " ");
                // The paper's points do not depend on our order.
                let (order, source) = match curve.source {
                    Source::Weir => (panel.order, "weir"),
                    Source::Paper if panel.order != self.panels[0].order => continue,
                    Source::Paper => ("caida", "paper"),
                    Source::Authors => (panel.order, "authors"),
                    Source::Model => (panel.order, "formula"),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses' Figure 4(a), which had an axis to 10 000 for 7 to 374 KB, and others.
    #[test]
    fn an_axis_spans_its_data_and_little_more() {
        let axis = |log| Axis { log, ..Axis::new("", "") };
        assert_eq!(axis(true).span([7.3, 374.0].into_iter()), (5.0, 500.0));
        assert_eq!(axis(true).span([1.0, 255.0, f64::NAN, 0.0].into_iter()), (0.5, 500.0));
        assert_eq!(axis(false).span([3.0, 118.0].into_iter()), (0.0, 150.0));
        assert_eq!([axis(true), axis(false)].map(|axis| axis.span([].into_iter())), [(0.1, 1.0), (0.0, 1.0)]);
        let (from, to) = axis(true).span([4.2e-5].into_iter());
        assert!((from / 2e-5 - 1.0).abs() < 1e-9 && (to / 5e-5 - 1.0).abs() < 1e-9, "{from} {to}");
        assert_eq!(axis(false).range(95.0, 100.0).span([12.0].into_iter()), (95.0, 100.0));
    }
}
