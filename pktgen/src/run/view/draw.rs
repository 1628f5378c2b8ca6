//! The screen: a pure function of a run's numbers.

use pktgen::latency::coarse::Times;
use pktgen::traffic::{FCS, WIRE_OVERHEAD};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};
use weir::cli::screen::si;

use super::Shown;
use crate::run::follow::Look;

pub fn draw(frame: &mut Frame, shown: &Shown) {
    let area = frame.area();
    let (counts, times, score) = (counts(shown), times(shown), score(shown));
    // On a low screen the numbers have the room.
    let picture = if area.height >= 20 { 6 } else { 0 };
    let rows = |lines: &[Line]| Constraint::Length(lines.len() as u16);
    let [head, numbers, quantiles, scores, history, _, foot] = Layout::vertical([
        Constraint::Length(1),
        rows(&counts),
        rows(&times),
        rows(&score),
        Constraint::Length(picture),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    header(frame, head, shown);
    frame.render_widget(Paragraph::new(counts), numbers);
    frame.render_widget(Paragraph::new(times), quantiles);
    frame.render_widget(Paragraph::new(score), scores);
    sparkline(frame, history, &shown.history);
    let keys = if shown.is_ending { " ending; q again ends at once, without a report" } else { " q end" };
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn header(frame: &mut Frame, area: Rect, shown: &Shown) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Paragraph::new(format!(" pktgen  {}", shown.followed.traffic)).style(bold), area);
    let end = shown.followed.duration.map(|end| format!(" of {}", humantime::format_duration(end)));
    let time = format!("{:.1} s{} ", shown.now.progress.seconds, end.unwrap_or_default());
    frame.render_widget(Paragraph::new(time).alignment(Alignment::Right), area);
}

fn counts(shown: &Shown) -> Vec<Line<'static>> {
    let now = &shown.now.progress;
    let reached = now.sent as f64 / now.seconds.max(1e-3);
    let mut rate = format!(" rate        reached {}pps", si(reached));
    if let Some(asked) = shown.now.asked {
        let off = 100.0 * (reached / asked - 1.0);
        rate += &format!(", asked {}pps, off by {off:+.2} %", si(asked));
    }
    let wire = f64::from(FCS + WIRE_OVERHEAD) * shown.rate(|look| look.progress.sent);
    let bits = 8.0 * (shown.rate(|look| look.progress.sent_bytes) + wire);
    let pps = |of: fn(&Look) -> u64| format!("{}pps", si(shown.rate(of)));
    let mut lines = vec![
        Line::raw(""),
        Line::raw(rate),
        Line::raw(format!(
            " sent        {:>10} {:>16} packets, {}bit/s (L1)",
            pps(|look| look.progress.sent),
            now.sent,
            si(bits)
        )),
    ];
    if !shown.followed.receives {
        return lines;
    }
    let received = pps(|look| look.progress.came());
    let came = if shown.followed.is_signed { now.received } else { now.came() };
    lines.push(Line::raw(format!(" received    {received:>10} {came:>16} packets")));
    if shown.followed.is_signed {
        let share = 100.0 * now.missing() as f64 / now.sent.max(1) as f64;
        let missing = format!(" missing     {} of {} ({share:.4} %): lost, or on their way", now.missing(), now.sent);
        lines.push(Line::raw(missing));
    }
    let others = [
        ("reordered", now.reordered),
        ("duplicates", now.duplicates),
        ("uncertain", now.uncertain),
        ("foreign", if shown.followed.is_signed { now.foreign } else { 0 }),
    ];
    for (name, n) in others.into_iter().filter(|(_, n)| *n > 0) {
        lines.push(Line::styled(format!(" {name:11} {n} packets"), Style::new().fg(Color::Yellow)));
    }
    lines
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Quantiles of what came since the last look, and of the whole run.
fn times(shown: &Shown) -> Vec<Line<'static>> {
    let heads: String = QUANTILES.iter().map(|(name, _)| format!("{name:>11}")).collect();
    let dim = Style::new().add_modifier(Modifier::DIM);
    let mut lines = vec![Line::raw(""), Line::styled(format!("             {heads}      and of the whole run"), dim)];
    let (now, before) = (&shown.now, &shown.before);
    for (name, now, before) in
        [("latency µs", &now.latency, &before.latency), ("late µs", &now.lateness, &before.lateness)]
    {
        if now.count() > 0 {
            lines.push(Line::raw(format!(" {name:12}{} {}", row(&now.since(before)), row(now))));
        }
    }
    lines
}

fn row(times: &Times) -> String {
    let micros = |ns: u64| format!("{:>11.2}", ns as f64 / 1e3);
    QUANTILES.iter().map(|(_, at)| times.quantile_ns(*at).map_or_else(|| format!("{:>11}", "—"), micros)).collect()
}

fn score(shown: &Shown) -> Vec<Line<'static>> {
    let score = shown.now.score.as_ref();
    score.map(|score| vec![Line::raw(""), Line::raw(format!(" score       {}", score.line()))]).unwrap_or_default()
}

fn sparkline(frame: &mut Frame, area: Rect, history: &[u64]) {
    let shown = &history[history.len().saturating_sub(usize::from(area.width))..];
    let max = shown.iter().max().copied().unwrap_or_default();
    let title = format!(" packets sent in a second (at most {}) ", si(max as f64));
    let block = Block::new().title(title).borders(Borders::TOP);
    frame.render_widget(Sparkline::default().block(block).data(shown).style(Style::new().fg(Color::Cyan)), area);
}
