//! The drawing itself.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot::{Curve, Figure, Legend, Panel, Source};

/// Okabe and Ito's colours, which the colour-blind can tell apart.
const COLORS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(148, 82, 160),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
    RGBColor(0, 0, 0),
    RGBColor(140, 86, 75),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const PALE: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "sans-serif";
const SIZE: (u32, u32) = (1240, 600);

type Svg<'a> = SVGBackend<'a>;

pub fn draw(figure: &Figure, path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let failed = |e| anyhow!("{e:?}");
    root.fill(&WHITE).map_err(failed)?;
    let (head, rest) = root.split_vertically(46);
    let (body, foot) = rest.split_vertically(SIZE.1 - 46 - 34);
    let centred = Pos::new(HPos::Center, VPos::Center);
    let middle = SIZE.0 as i32 / 2;
    head.draw(&Text::new(figure.title.as_str(), (middle, 26), (FONT, 23).into_font().color(&INK).pos(centred)))
        .map_err(failed)?;
    foot.draw(&Text::new(figure.note.as_str(), (middle, 14), (FONT, 13).into_font().color(&INK).pos(centred)))
        .map_err(failed)?;
    let (x, y) = (&figure.x, &figure.y);
    for (panel, area) in figure.panels.iter().zip(body.split_evenly(rows_and_columns(figure.panels.len()))) {
        let drawn = match (x.log, y.log) {
            (false, false) => draw_panel(figure, panel, &area, x.from..x.to, y.from..y.to),
            (true, false) => draw_panel(figure, panel, &area, (x.from..x.to).log_scale(), y.from..y.to),
            (false, true) => draw_panel(figure, panel, &area, x.from..x.to, (y.from..y.to).log_scale()),
            (true, true) => draw_panel(figure, panel, &area, (x.from..x.to).log_scale(), (y.from..y.to).log_scale()),
        };
        drawn?;
    }
    root.present().map_err(failed)
}

/// Up to three panels stand side by side.
fn rows_and_columns(panels: usize) -> (usize, usize) {
    if panels > 3 { (panels.div_ceil(2), 2) } else { (1, panels) }
}

fn draw_panel<'a, X, Y>(figure: &Figure, panel: &Panel, area: &DrawingArea<Svg<'a>, Shift>, x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + 'static,
    Y::CoordDescType: ValueFormatter<f64> + 'static,
{
    let failed = |e| anyhow!("{e:?}");
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 17).into_font().color(&INK))
        .margin_left(8)
        .margin_right(22)
        .x_label_area_size(48)
        .y_label_area_size(62)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(PALE)
        .axis_style(INK)
        .x_desc(figure.x.label)
        .y_desc(figure.y.label)
        .axis_desc_style((FONT, 15).into_font().color(&INK))
        .label_style((FONT, 13).into_font().color(&INK))
        .x_labels(9)
        .y_labels(10)
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .draw()
        .map_err(failed)?;
    for curve in &panel.curves {
        draw_curve(&mut chart, curve)?;
    }
    let position = match figure.legend {
        Legend::UpperLeft => SeriesLabelPosition::UpperLeft,
        Legend::UpperRight => SeriesLabelPosition::UpperRight,
        Legend::LowerRight => SeriesLabelPosition::LowerRight,
    };
    chart
        .configure_series_labels()
        .position(position)
        .margin(10)
        .legend_area_size(34)
        .background_style(WHITE.mix(0.9))
        .border_style(PALE)
        .label_font((FONT, 14).into_font().color(&INK))
        .draw()
        .map_err(failed)
}

fn draw_curve<'a, X, Y>(chart: &mut ChartContext<'a, Svg<'a>, Cartesian2d<X, Y>>, curve: &Curve) -> Result<()>
where
    X: Ranged<ValueType = f64> + 'static,
    Y: Ranged<ValueType = f64> + 'static,
{
    let failed = |e| anyhow!("{e:?}");
    let color = COLORS[curve.color % COLORS.len()];
    let line = color.stroke_width(2);
    // Curves may coincide: a ring of the one below stays in sight.
    let radius = 6 - (curve.color % 4) as i32;
    let points = || curve.points.iter().map(|p| (p.x, p.y));
    match curve.source {
        Source::Weir => {
            let ranges = curve.points.iter().filter(|p| p.max > p.min);
            chart
                .draw_series(ranges.map(|p| PathElement::new([(p.x, p.min), (p.x, p.max)], color.stroke_width(1))))
                .map_err(failed)?;
            chart.draw_series(LineSeries::new(points(), line)).map_err(failed)?.label(&curve.name).legend(
                move |(x, y)| {
                    EmptyElement::at((x, y))
                        + PathElement::new([(2, 0), (30, 0)], line)
                        + Circle::new((16, 0), radius, color.filled())
                },
            );
            chart.draw_series(points().map(|p| Circle::new(p, radius, color.filled()))).map_err(failed)?;
        }
        Source::Paper | Source::Authors => {
            let whose = if curve.source == Source::Paper { "paper" } else { "authors' program" };
            let thin = color.mix(0.75).stroke_width(1);
            let hollow = move |at| {
                EmptyElement::at(at)
                    + Circle::new((0, 0), radius, WHITE.mix(0.6).filled())
                    + Circle::new((0, 0), radius, color.stroke_width(1))
            };
            chart
                .draw_series(DashedLineSeries::new(points(), 5, 4, thin))
                .map_err(failed)?
                .label(format!("{}, {whose}", curve.name))
                .legend(move |(x, y)| {
                    EmptyElement::at((x, y))
                        + PathElement::new([(2, 0), (9, 0)], thin)
                        + PathElement::new([(23, 0), (30, 0)], thin)
                        + Circle::new((16, 0), radius, color.stroke_width(1))
                });
            chart.draw_series(points().map(hollow)).map_err(failed)?;
        }
    }
    Ok(())
}

/// A number as short as it is exact: 0.001, 25, 40 000.
fn tick(value: &f64) -> String {
    let whole = value.round();
    if *value < 10_000.0 || (value - whole).abs() > 1e-9 {
        return format!("{}", (value * 1e6).round() / 1e6);
    }
    let digits = format!("{whole}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or_default()).collect();
    groups.join(" ")
}
