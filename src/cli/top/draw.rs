//! The screen: a pure function of the rates and of what the user has chosen.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Padding, Paragraph, Sparkline};

use super::facts::SwitchFacts;
use super::rates::Rates;
use super::tables::{self, Sort};
use crate::cli::screen::si;
use crate::text::named;

named! {
    /// The screen's table.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum View {
        #[default]
        Ports = "Ports",
        Drops = "Drops",
        Programs = "Programs",
        Cores = "Cores",
    }
}

impl View {
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    pub fn before(self) -> Self {
        Self::ALL[(self as usize + Self::ALL.len() - 1) % Self::ALL.len()]
    }
}

/// The user's choices and the history.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    pub view: View,
    pub sort: Sort,
    /// Rows of the table that are scrolled past.
    pub scroll: usize,
    pub paused: bool,
    pub help: bool,
    /// Why the switch cannot be asked now, while it cannot.
    pub gone: Option<String>,
    /// Packets that came in each second, the newest last.
    pub history: Vec<u64>,
}

const HELP: [&str; 11] = [
    "1 2 3 4  tab    ports, drops, programs, cores",
    "↑ ↓  PgUp PgDn  scroll",
    "s               sort: as configured, by rate, by losses",
    "p  space        pause: the switch goes on, the screen stands",
    "?  h            this list",
    "q  Esc          end",
    "",
    "Bytes count from the destination MAC on, without FCS. A core's",
    "busy share is the part of its time that it spent on packets;",
    "cycles a packet are those of that time. Programs are timed on",
    "one burst in 17.",
];

/// Lines about what is measured with, at the most.
const MEASURED: usize = 5;

pub fn draw(frame: &mut Frame, rates: &Rates, screen: &Screen) {
    let area = frame.area();
    // On a low screen the table has the room.
    let history = if area.height >= 14 { 4 } else { 0 };
    let measured = rates.attention.iter().map(tables::attention);
    let measured: Vec<_> = measured.chain(rates.facts.iter().flat_map(SwitchFacts::lines)).collect();
    let [head, attention, spark, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(measured.len().min(MEASURED) as u16),
        Constraint::Length(history),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    header(frame, head, rates, screen);
    let measured: Vec<_> = measured.into_iter().map(|line| Line::from(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(measured), attention);
    sparkline(frame, spark, screen);
    frame.render_widget(tabs_line(screen.view), tabs);
    tables::draw(frame, body, rates, screen);
    frame.render_widget(footer(screen), foot);
    if screen.help {
        help(frame, area);
    }
}

fn header(frame: &mut Frame, area: Rect, rates: &Rates, screen: &Screen) {
    if let Some(why) = &screen.gone {
        let style = Style::new().bg(Color::Red).fg(Color::White).add_modifier(Modifier::BOLD);
        return frame.render_widget(Paragraph::new(format!(" NO SWITCH, trying again: {why}")).style(style), area);
    }
    let name =
        if rates.name.is_empty() || rates.name == "weir" { "weir".into() } else { format!("weir {}", rates.name) };
    let up = humantime::format_duration(std::time::Duration::from_secs(rates.uptime_seconds as u64));
    let [rx, tx, dropped] =
        [rates.rx_packets_per_second, rates.tx_packets_per_second, rates.dropped_packets_per_second].map(si);
    let lost = if rates.dropped_packets_per_second > 0.0 { Style::new().fg(Color::Red) } else { Style::new() };
    let line = Line::from(vec![
        Span::styled(format!(" {name} {}", rates.version), Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!("  up {up}  rx {rx}/s  tx {tx}/s  ")),
        Span::styled(format!("dropped {dropped}/s"), lost),
    ]);
    frame.render_widget(Paragraph::new(line), area);
    if screen.paused {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let paused = Paragraph::new(Span::styled(" paused ", style)).alignment(Alignment::Right);
        frame.render_widget(paused, area);
    }
}

fn sparkline(frame: &mut Frame, area: Rect, screen: &Screen) {
    let shown = &screen.history[screen.history.len().saturating_sub(usize::from(area.width))..];
    let max = shown.iter().max().copied().unwrap_or(0);
    let title = format!(" packets in a second (at most {}) ", si(max as f64));
    let block = Block::new().title(title).borders(Borders::TOP);
    let sparkline = Sparkline::default().block(block).data(shown).style(Style::new().fg(Color::Cyan));
    frame.render_widget(sparkline, area);
}

fn tabs_line(view: View) -> Paragraph<'static> {
    let tab = |(i, one): (usize, View)| {
        let style = if one == view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        [Span::styled(format!(" {} {} ", i + 1, one.name()), style), Span::raw(" ")]
    };
    Paragraph::new(Line::from(View::ALL.into_iter().enumerate().flat_map(tab).collect::<Vec<_>>()))
}

fn footer(screen: &Screen) -> Paragraph<'static> {
    let text = format!(" q quit  tab view  p pause  s sort ({})  ? help", screen.sort.name());
    Paragraph::new(text).style(Style::new().add_modifier(Modifier::DIM))
}

fn help(frame: &mut Frame, area: Rect) {
    let (width, height) = (66, HELP.len() as u16 + 2);
    let place = Rect {
        x: area.x + area.width.saturating_sub(width) / 2,
        y: area.y + area.height.saturating_sub(height) / 2,
        width: width.min(area.width),
        height: height.min(area.height),
    };
    frame.render_widget(Clear, place);
    frame.render_widget(
        Paragraph::new(HELP.join("\n")).block(Block::bordered().title(" Keys ").padding(Padding::horizontal(1))),
        place,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_go_round() {
        assert_eq!(View::ALL.map(View::next), [View::Drops, View::Programs, View::Cores, View::Ports]);
        assert!(View::ALL.into_iter().all(|view| view.next().before() == view));
    }
}
