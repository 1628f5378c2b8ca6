//! The drawing itself.

use std::cmp::Reverse;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot::{Curve, Figure, Panel, Source};

/// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLORS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(148, 82, 160),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
    RGBColor(0, 0, 0),
    RGBColor(140, 86, 75),
    RGBColor(204, 70, 140),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const PALE: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "sans-serif";
/// A page shows a figure about 830 pixels wide, and its smallest letters have to be legible there.
const WIDTH: u32 = 1080;
/// Heights: of panels that stand alone in their row or not, of the title, of a line of small print.
const PANELS: [u32; 2] = [470, 300];
const HEAD: u32 = 46;
const NOTE: usize = 20;
/// Width of the legend, which stands beside the panels: inside it would cover points.
const LEGEND: u32 = 256;
const LEGEND_LINE: i32 = 26;
/// Characters of small print in a line.
const NOTE_LINE: usize = 150;

type Svg<'a> = SVGBackend<'a>;

pub fn draw(figure: &Figure, path: &Path) -> Result<()> {
    let grid = rows_and_columns(figure.panels.len());
    let panels = PANELS[usize::from(grid.0 > 1)] * grid.0 as u32;
    let note = wrapped(&figure.note, NOTE_LINE);
    let size = (WIDTH, HEAD + panels + (NOTE * note.len()) as u32 + 20);
    let root = SVGBackend::new(path, size).into_drawing_area();
    let failed = |e| anyhow!("{e:?}");
    root.fill(&WHITE).map_err(failed)?;
    let (head, rest) = root.split_vertically(HEAD);
    let (body, foot) = rest.split_vertically(panels);
    let (body, side) = body.split_horizontally(WIDTH - LEGEND);
    let centred = |size: i32| (FONT, size).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Center));
    let middle = WIDTH as i32 / 2;
    head.draw(&Text::new(figure.title.as_str(), (middle, 26), centred(20))).map_err(failed)?;
    for (line, y) in note.into_iter().zip((20..).step_by(NOTE)) {
        foot.draw(&Text::new(line, (middle, y), centred(15))).map_err(failed)?;
    }
    draw_legend(figure, &side)?;
    let (x, y) = (&figure.x, &figure.y);
    let points = || figure.panels.iter().flat_map(|panel| &panel.curves).flat_map(|curve| &curve.points);
    let (x0, x1) = x.span(points().map(|point| point.x));
    for (panel, area) in figure.panels.iter().zip(body.split_evenly(grid)) {
        let (y0, y1) = panel.zoom.unwrap_or_else(|| y.span(figure.ys()));
        let within = Within { from: y0, to: y1 };
        // plotters takes the logarithm of 0.01 for a little more than -2, and then has no line there.
        let log = |from: f64, to: f64| (from * (1.0 - 1e-9)..to).log_scale();
        let drawn = match (x.log, y.log) {
            (false, false) => draw_panel(figure, panel, &area, within, x0..x1, y0..y1),
            (true, false) => draw_panel(figure, panel, &area, within, log(x0, x1), y0..y1),
            (false, true) => draw_panel(figure, panel, &area, within, x0..x1, log(y0, y1)),
            (true, true) => draw_panel(figure, panel, &area, within, log(x0, x1), log(y0, y1)),
        };
        drawn?;
    }
    root.present().map_err(failed)
}

/// Lines of at most `max` characters.
pub fn wrapped(text: &str, max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < max => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The colours with their names, and where several have drawn, how to tell them apart.
fn draw_legend(figure: &Figure, area: &DrawingArea<Svg, Shift>) -> Result<()> {
    let failed = |e| anyhow!("{e:?}");
    let mut colors: Vec<(&str, usize)> = Vec::new();
    let mut sources = Vec::new();
    for curve in figure.panels.iter().flat_map(|panel| &panel.curves) {
        if !colors.iter().any(|(name, _)| *name == curve.name) {
            colors.push((&curve.name, curve.color));
        }
        if !sources.contains(&curve.source) {
            sources.push(curve.source);
        }
    }
    let text = || (FONT, 16).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = 46;
    for (name, color) in colors {
        draw_key(area, y, COLORS[color % COLORS.len()], radius(color), Source::Weir)?;
        area.draw(&Text::new(name, (48, y), text())).map_err(failed)?;
        y += LEGEND_LINE;
    }
    if sources == [Source::Weir] {
        return Ok(());
    }
    y += LEGEND_LINE / 2;
    for source in sources {
        let whose = match source {
            Source::Weir => "measured here",
            Source::Paper => "the paper",
            Source::Authors => "the authors' program",
            Source::Model => "the formula",
        };
        draw_key(area, y, INK, 5, source)?;
        area.draw(&Text::new(whose, (48, y), text())).map_err(failed)?;
        y += LEGEND_LINE;
    }
    Ok(())
}

/// A piece of a curve with a point, as the panels have it.
fn draw_key(area: &DrawingArea<Svg, Shift>, y: i32, color: RGBColor, radius: i32, source: Source) -> Result<()> {
    let failed = |e| anyhow!("{e:?}");
    let piece = |from, to, style: ShapeStyle| area.draw(&PathElement::new([(from, y), (to, y)], style)).map_err(failed);
    if source == Source::Weir {
        piece(8, 40, color.stroke_width(2))?;
        return area.draw(&Circle::new((24, y), radius, color.filled())).map_err(failed);
    }
    piece(8, 15, color.mix(0.75).stroke_width(1))?;
    piece(33, 40, color.mix(0.75).stroke_width(1))?;
    if source == Source::Model {
        return piece(20, 28, color.mix(0.75).stroke_width(1));
    }
    area.draw(&Circle::new((24, y), radius, color.stroke_width(1))).map_err(failed)
}

/// Curves may coincide: a ring of the one below stays in sight.
fn radius(color: usize) -> i32 {
    6 - (color % 4) as i32
}

/// The part of the y axis that a panel has.
#[derive(Clone, Copy)]
struct Within {
    from: f64,
    to: f64,
}

impl Within {
    fn holds(self, y: f64) -> bool {
        (self.from..=self.to).contains(&y)
    }

    /// A curve's pieces inside, cut at the edges along straight lines.
    fn cut(self, points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        let mut pieces = vec![Vec::new()];
        let at = |(x0, y0): (f64, f64), (x1, y1): (f64, f64), y: f64| (x0 + (x1 - x0) * (y - y0) / (y1 - y0), y);
        for (i, &point) in points.iter().enumerate() {
            if let Some(&before) = i.checked_sub(1).and_then(|i| points.get(i)) {
                let (low, high) = (before.1.min(point.1), before.1.max(point.1));
                let mut edges: Vec<_> = [self.from, self.to].into_iter().filter(|&y| low < y && y < high).collect();
                if before.1 > point.1 {
                    edges.reverse();
                }
                for edge in edges {
                    pieces.last_mut().expect("never empty").push(at(before, point, edge));
                    if pieces.last().is_some_and(|piece| piece.len() > 1) {
                        pieces.push(Vec::new());
                    }
                }
            }
            if self.holds(point.1) {
                pieces.last_mut().expect("never empty").push(point);
            }
        }
        pieces.retain(|piece| piece.len() > 1);
        pieces
    }
}

/// Up to three panels stand side by side.
fn rows_and_columns(panels: usize) -> (usize, usize) {
    if panels > 3 { (panels.div_ceil(2), 2) } else { (1, panels) }
}

fn draw_panel<'a, X, Y>(
    figure: &Figure,
    panel: &Panel,
    area: &DrawingArea<Svg<'a>, Shift>,
    within: Within,
    x: X,
    y: Y,
) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + 'static,
    Y::CoordDescType: ValueFormatter<f64> + 'static,
{
    let failed = |e| anyhow!("{e:?}");
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 19).into_font().color(&INK))
        .margin_left(8)
        .margin_right(22)
        .x_label_area_size(54)
        .y_label_area_size(74)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PALE)
        .axis_style(INK)
        .x_desc(figure.x.label)
        .y_desc(figure.y.label)
        .axis_desc_style((FONT, 17).into_font().color(&INK))
        .label_style((FONT, 16).into_font().color(&INK))
        .x_labels(9)
        .y_labels(10)
        .x_label_formatter(&|value| tick(figure.x.log, *value))
        .y_label_formatter(&|value| tick(figure.y.log, *value))
        .draw()
        .map_err(failed)?;
    // Hollow points come last: filled ones would hide them. So do small ones among the filled.
    let (mut ours, others): (Vec<_>, Vec<_>) = panel.curves.iter().partition(|curve| curve.source == Source::Weir);
    ours.sort_by_key(|curve| Reverse(radius(curve.color)));
    ours.into_iter().chain(others).try_for_each(|curve| draw_curve(&mut chart, curve, within))
}

fn draw_curve<'a, X, Y>(
    chart: &mut ChartContext<'a, Svg<'a>, Cartesian2d<X, Y>>,
    curve: &Curve,
    within: Within,
) -> Result<()>
where
    X: Ranged<ValueType = f64> + 'static,
    Y: Ranged<ValueType = f64> + 'static,
{
    let failed = |e| anyhow!("{e:?}");
    let color = COLORS[curve.color % COLORS.len()];
    let radius = radius(curve.color);
    let all: Vec<_> = curve.points.iter().map(|p| (p.x, p.y)).collect();
    let inside = || all.iter().copied().filter(|&(_, y)| within.holds(y));
    if curve.source != Source::Weir {
        for piece in within.cut(&all) {
            let line = DashedLineSeries::new(piece, 5, 4, color.mix(0.75).stroke_width(1));
            chart.draw_series(line).map_err(failed)?;
        }
        let hollow = |at| {
            EmptyElement::at(at)
                + Circle::new((0, 0), radius, WHITE.mix(0.6).filled())
                + Circle::new((0, 0), radius, color.stroke_width(1))
        };
        if curve.source != Source::Model {
            chart.draw_series(inside().map(hollow)).map_err(failed)?;
        }
        return Ok(());
    }
    let ranges = curve.points.iter().map(|p| (p.x, p.min.max(within.from), p.max.min(within.to)));
    let ranges = ranges.filter(|(_, min, max)| max > min);
    let bar = |(x, min, max)| PathElement::new([(x, min), (x, max)], color.stroke_width(1));
    chart.draw_series(ranges.map(bar)).map_err(failed)?;
    for piece in within.cut(&all) {
        chart.draw_series(LineSeries::new(piece, color.stroke_width(2))).map_err(failed)?;
    }
    chart.draw_series(inside().map(|p| Circle::new(p, radius, color.filled()))).map_err(failed)?;
    Ok(())
}

/// A number as short as it is exact: 0.001, 25, 40 000. On a logarithmic axis of few decades, where
/// there is a line for each digit, only 1, 2 and 5 have place for theirs.
fn tick(log: bool, value: f64) -> String {
    let digit = value / 10f64.powf(value.log10().floor());
    if log && ![1.0, 2.0, 5.0, 10.0].iter().any(|labelled| (digit - labelled).abs() < 1e-6) {
        return String::new();
    }
    let whole = value.round();
    if value < 10_000.0 || (value - whole).abs() > 1e-9 {
        return format!("{}", (value * 1e6).round() / 1e6);
    }
    let digits = format!("{whole}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or_default()).collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_cut_where_its_panel_ends() {
        let within = Within { from: 90.0, to: 100.0 };
        let cut = |points: &[(f64, f64)]| within.cut(points);
        assert_eq!(cut(&[(0.0, 95.0), (1.0, 100.0)]), [[(0.0, 95.0), (1.0, 100.0)]]);
        // Enters from below, leaves again, and jumps over the whole panel.
        let zigzag = [(0.0, 85.0), (1.0, 95.0), (2.0, 85.0), (3.0, 115.0), (4.0, 115.0)];
        let pieces = [vec![(0.5, 90.0), (1.0, 95.0), (1.5, 90.0)], vec![(2.0 + 1.0 / 6.0, 90.0), (2.5, 100.0)]];
        assert_eq!(cut(&zigzag), pieces);
        assert!(cut(&[(0.0, 10.0), (1.0, 20.0)]).is_empty() && cut(&[]).is_empty());
    }

    #[test]
    fn labels_of_a_logarithmic_axis_stand_apart() {
        let labels = |log| [0.001, 2.0, 30.0, 50.0, 90.0, 100.0, 10_000.0].map(|value| tick(log, value));
        assert_eq!(labels(true), ["0.001", "2", "", "50", "", "100", "10 000"]);
        assert_eq!(labels(false), ["0.001", "2", "30", "50", "90", "100", "10 000"]);
        assert_eq!(tick(false, 0.0), "0");
    }

    #[test]
    fn small_print_breaks_between_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("", 8), Vec::<String>::new());
    }
}
