//! The tables of the screen, which `--once` prints as text.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::draw::{Screen, View};
use super::rates::{CoreRates, PortRates, ProgramRates, ProgramTime, Rates};
use crate::api::view::EpochAttention;
use crate::cli::attention::{parameter, parameter_keys, parameter_name};
use crate::cli::counts::link_text;
use crate::cli::output::{self, at_least};
use crate::cli::screen::si;
use crate::program::Unit;
use crate::text::named;

/// Between two columns.
const GAP: u16 = 2;

named! {
    /// The order of rows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Sort {
        #[default]
        Configured = "as configured",
        Rate = "rate",
        Losses = "losses",
    }
}

impl Sort {
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Sorts by one of two keys, the largest first; rows that are equal stay in their order.
    fn sorted<T>(self, mut rows: Vec<&T>, rate: impl Fn(&T) -> f64, losses: impl Fn(&T) -> f64) -> Vec<&T> {
        match self {
            Self::Configured => {}
            Self::Rate => rows.sort_by(|a, b| rate(b).total_cmp(&rate(a))),
            Self::Losses => rows.sort_by(|a, b| losses(b).total_cmp(&losses(a))),
        }
        rows
    }
}

/// A table as text cells. Headings that start with '>' are of columns flushed right.
struct Cells {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Rows to be pointed out: something is being lost there, or a link is down.
    alarms: Vec<bool>,
    /// The text in place of rows.
    empty: &'static str,
}

pub fn draw(frame: &mut Frame, area: Rect, rates: &Rates, screen: &Screen) {
    match screen.view {
        View::Ports => {
            let ports = ports(rates, screen.sort);
            let height = ports.rows.len() as u16 + 2;
            // The rest below the ports shows the heaviest flows.
            let [above, below] = Layout::vertical([Constraint::Max(height), Constraint::Min(0)]).areas(area);
            let alone = below.height < 4 || rates.programs.is_empty();
            render(frame, if alone { area } else { above }, &ports, screen.scroll);
            if !alone {
                programs(frame, below, rates, 0);
            }
        }
        View::Drops => render(frame, area, &drops(rates, screen.sort), screen.scroll),
        View::Programs => programs(frame, area, rates, screen.scroll),
        View::Cores => render(frame, area, &cores(rates, screen.sort), screen.scroll),
    }
}

/// The programs share the height.
fn programs(frame: &mut Frame, area: Rect, rates: &Rates, scroll: usize) {
    if rates.programs.is_empty() {
        let none = "no program runs that finds heavy flows; weir run --program starts one";
        return frame.render_widget(Paragraph::new(format!(" {none}")), area);
    }
    let parts = Layout::vertical(rates.programs.iter().map(|_| Constraint::Fill(1))).split(area);
    for (program, part) in rates.programs.iter().zip(parts.iter()) {
        let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(*part);
        let style = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Paragraph::new(format!(" {}", program_title(program))).style(style), title);
        render(frame, body, &flows(program), scroll);
    }
}

fn render(frame: &mut Frame, area: Rect, cells: &Cells, scroll: usize) {
    if cells.rows.is_empty() {
        return frame.render_widget(Paragraph::new(format!(" {}", cells.empty)), area);
    }
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let first = scroll.min(cells.rows.len().saturating_sub(room));
    let columns = cells.columns(area.width.saturating_sub(1));
    let cell = |&(column, _): &(usize, u16), texts: &[String]| {
        let right = cells.headings[column].starts_with('>');
        let alignment = if right { Alignment::Right } else { Alignment::Left };
        Cell::from(Text::from(texts[column].clone()).alignment(alignment))
    };
    let row = |texts: &[String]| Row::new(columns.iter().map(|column| cell(column, texts)).collect::<Vec<_>>());
    let rows = cells.rows.iter().zip(&cells.alarms).skip(first).take(room);
    let rows = rows.map(|(texts, alarm)| row(texts).style(if *alarm { Color::Red } else { Color::Reset }));
    let header = row(&cells.titles()).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let [_, inside] = Layout::horizontal([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(width));
    frame.render_widget(Table::new(rows, widths).header(header).column_spacing(GAP), inside);
}

fn ports(rates: &Rates, sort: Sort) -> Cells {
    let busy = |port: &PortRates| port.rx_packets_per_second + port.tx_packets_per_second;
    let ports = sort.sorted(rates.ports.iter().collect(), busy, |port| port.dropped_packets_per_second);
    let row = |port: &&PortRates| {
        vec![
            port.name.clone(),
            port.dev.clone(),
            link_text(port.enabled, port.link_up).into(),
            si(port.rx_packets_per_second),
            si(port.rx_bits_per_second),
            si(port.tx_packets_per_second),
            si(port.tx_bits_per_second),
            si(port.dropped_packets_per_second),
            output::grouped(port.dropped_packets),
        ]
    };
    Cells {
        headings: vec![
            "port",
            "device",
            "link",
            ">rx pkt/s",
            ">rx bit/s",
            ">tx pkt/s",
            ">tx bit/s",
            ">drops/s",
            ">dropped",
        ],
        rows: ports.iter().map(row).collect(),
        alarms: ports.iter().map(|port| port.dropped_packets_per_second > 0.0 || !port.link_up).collect(),
        empty: "the switch has no ports",
    }
}

fn drops(rates: &Rates, sort: Sort) -> Cells {
    let drops = sort.sorted(rates.drops.iter().collect(), |d| d.packets_per_second, |d| d.packets as f64);
    let row = |drop: &&super::rates::DropRate| {
        vec![
            drop.port.clone(),
            drop.reason.clone(),
            if drop.device { "device" } else { "switch" }.into(),
            si(drop.packets_per_second),
            output::grouped(drop.packets),
        ]
    };
    Cells {
        headings: vec!["port", "reason", "lost by", ">pkt/s", ">packets"],
        rows: drops.iter().map(row).collect(),
        alarms: drops.iter().map(|drop| drop.packets_per_second > 0.0).collect(),
        empty: "no packet was dropped",
    }
}

fn program_title(program: &ProgramRates) -> String {
    format!("{}: the heaviest flows of the last {:.1} s", program.program, program.claim.seconds)
}

fn flows(program: &ProgramRates) -> Cells {
    let row = |(i, flow): (usize, &super::rates::FlowRate)| {
        let rate = flow.packets_per_second.or(flow.bits_per_second).unwrap_or_default();
        vec![(i + 1).to_string(), flow.name.to_string(), at_least(flow.at_least) + &si(rate)]
    };
    let rate = match program.unit {
        Unit::Packets => ">pkt/s",
        Unit::Bytes => ">bit/s",
    };
    Cells {
        headings: vec![">#", "flow", rate],
        rows: program.heavy.iter().enumerate().map(row).collect(),
        alarms: vec![false; program.heavy.len()],
        empty: "no flow",
    }
}

fn cores(rates: &Rates, sort: Sort) -> Cells {
    let cores = sort.sorted(rates.cores.iter().collect(), |core| core.busy_share, |core| core.late_epochs as f64);
    let cycles = |per_packet: Option<f64>| per_packet.map_or("-".into(), si);
    let of_core = |core: &CoreRates| {
        vec![
            core.core.to_string(),
            String::new(),
            percent(core.busy_share),
            si(core.packets_per_second),
            cycles(core.cycles_per_packet),
            si(core.polls_per_second),
            output::grouped(core.late_epochs),
            output::grouped(core.lost_epochs),
        ]
    };
    let of_program = |program: &ProgramTime| {
        let mut row = vec![
            String::new(),
            program.program.clone(),
            percent(program.busy_share),
            si(program.packets_per_second),
            cycles(program.cycles_per_packet),
        ];
        row.resize_with(CORES.len(), String::new);
        row
    };
    let rows = |core: &&CoreRates| [of_core(core)].into_iter().chain(core.programs.iter().map(of_program)).collect();
    let rows: Vec<Vec<_>> = cores.iter().map(rows).collect();
    let alarms = cores.iter().flat_map(|core| std::iter::repeat_n(core.lost_epochs > 0, 1 + core.programs.len()));
    Cells {
        headings: CORES.to_vec(),
        alarms: alarms.collect(),
        rows: rows.into_iter().flatten().collect(),
        empty: "the switch has no workers",
    }
}

/// Columns of a core; its programs below it have the first ones.
const CORES: [&str; 8] =
    [">core", "program", ">busy", ">pkt/s", ">cycles/pkt", ">polls/s", ">late epochs", ">lost epochs"];

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

impl Cells {
    fn titles(&self) -> Vec<String> {
        self.headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect()
    }

    /// The columns that fit beside each other, with their widths. A number that is cut would be
    /// another number, so where the room is short whole columns go: the device first, then the last
    /// ones.
    fn columns(&self, room: u16) -> Vec<(usize, u16)> {
        let titles = self.titles();
        let wide = |column: usize| {
            let texts = self.rows.iter().map(|row| &row[column]).chain([&titles[column]]);
            texts.map(|text| Text::from(text.as_str()).width()).max().unwrap_or(0) as u16
        };
        let mut columns: Vec<_> = (0..titles.len()).map(|column| (column, wide(column))).collect();
        while columns.len() > 1 && columns.iter().map(|(_, width)| width + GAP).sum::<u16>() > room + GAP {
            let device = columns.iter().position(|&(column, _)| titles[column] == "device");
            columns.remove(device.unwrap_or(columns.len() - 1));
        }
        columns
    }

    fn text(&self) -> String {
        if self.rows.is_empty() {
            return self.empty.into();
        }
        output::wide_table(&self.headings, self.rows.iter().cloned())
    }
}

/// The parameters of an epoch, as text.
pub fn attention(attention: &EpochAttention) -> String {
    let shown = parameter_keys(std::iter::once(attention)).into_iter().filter_map(|key| {
        let unit = key.rsplit('_').next().filter(|unit| *unit != "share").unwrap_or_default();
        let value = parameter(&key, attention.parameters.get(&key)?);
        Some(format!("{} {value} {unit}", parameter_name(&key)).trim_end().to_owned())
    });
    let shown: Vec<_> = shown.collect();
    format!("{}: {}", attention.state, shown.join(", "))
}

/// Everything, as text.
pub fn text(rates: &Rates) -> String {
    let [rx, tx, lost] =
        [rates.rx_packets_per_second, rates.tx_packets_per_second, rates.dropped_packets_per_second].map(si);
    let head = format!("{}: rx {rx}/s, tx {tx}/s, dropped {lost}/s over {:.1} s", rates.name, rates.seconds);
    let mut parts = vec![head, ports(rates, Sort::Configured).text(), drops(rates, Sort::Configured).text()];
    for program in &rates.programs {
        parts.push(format!("{}\n\n{}", program_title(program), flows(program).text()));
    }
    parts.push(cores(rates, Sort::Configured).text());
    parts.extend(rates.attention.as_ref().map(attention));
    parts.join("\n\n")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
