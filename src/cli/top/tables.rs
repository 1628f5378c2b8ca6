//! The tables of the screen, which `--once` prints as text.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::draw::{Screen, View};
use super::rates::{CoreRates, PortRates, ProgramRates, ProgramTime, Rates};
use crate::answers::EpochAttention;
use crate::answers::{parameter, parameter_keys, parameter_name};
use crate::cli::counts::link_text;
use crate::cli::output::fit::{self, GAP};
use crate::cli::output::{self, Page, Table as Rows, at_least, row};
use crate::cli::screen::si;
use crate::program::Unit;
use crate::text::named;

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

/// A table, and how it is shown.
struct Cells {
    rows: Rows,
    /// Rows to be pointed out: something is being lost there, or a link is down.
    alarms: Vec<bool>,
    /// The text in place of rows.
    empty: &'static str,
}

pub fn draw(frame: &mut Frame, area: Rect, rates: &Rates, screen: &Screen) {
    match screen.view {
        View::Ports => {
            let ports = ports(rates, screen.sort);
            let height = ports.alarms.len() as u16 + 2;
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
    let rows = cells.alarms.len();
    let first = scroll.min(rows.saturating_sub(room));
    let columns = cells.rows.columns();
    let placed = that_fit(&columns, usize::from(area.width.saturating_sub(1)));
    let row = |text: &dyn Fn(&fit::Column) -> String| {
        let cell = |&(at, _): &fit::Placed| {
            let column = &columns[at];
            let alignment = if column.is_right { Alignment::Right } else { Alignment::Left };
            Cell::from(Text::from(text(column)).alignment(alignment))
        };
        Row::new(placed.iter().map(cell).collect::<Vec<_>>())
    };
    let shown = (first..rows).take(room).map(|number| {
        let colour = if cells.alarms[number] { Color::Red } else { Color::Reset };
        row(&|column| column.cells[number].into()).style(colour)
    });
    let shown: Vec<_> = shown.collect();
    let header = row(&|column| column.heading.into()).style(Style::new().add_modifier(Modifier::UNDERLINED));
    let [_, inside] = Layout::horizontal([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let widths = placed.iter().map(|&(_, width)| Constraint::Length(width as u16));
    frame.render_widget(Table::new(shown, widths).header(header).column_spacing(GAP as u16), inside);
}

/// The columns that fit beside each other, with their widths. Rows of a screen are one line each, so
/// where the room is short whole columns go: the device first, then the last ones.
fn that_fit(columns: &[fit::Column<'_>], room: usize) -> Vec<fit::Placed> {
    let mut placed = fit::whole(columns);
    while placed.len() > 1 && fit::width_of(&placed) > room {
        let device = placed.iter().position(|&(at, _)| columns[at].heading == "device");
        placed.remove(device.unwrap_or(placed.len() - 1));
    }
    placed
}

fn ports(rates: &Rates, sort: Sort) -> Cells {
    let busy = |port: &PortRates| port.rx_packets_per_second + port.tx_packets_per_second;
    let ports = sort.sorted(rates.ports.iter().collect(), busy, |port| port.dropped_packets_per_second);
    let row = |port: &&PortRates| {
        row![
            &port.name,
            &port.dev,
            link_text(port.enabled, port.link_up),
            rate(port.rx_packets_per_second),
            rate(port.rx_bits_per_second),
            rate(port.tx_packets_per_second),
            rate(port.tx_bits_per_second),
            rate(port.dropped_packets_per_second),
            port.dropped_packets,
        ]
    };
    let columns = [
        "port",
        "device",
        "link",
        ">rx pkt/s|rx_packets_per_second",
        ">rx bit/s|rx_bits_per_second",
        ">tx pkt/s|tx_packets_per_second",
        ">tx bit/s|tx_bits_per_second",
        ">drops/s|dropped_packets_per_second",
        ">dropped|dropped_packets",
    ];
    Cells {
        rows: Rows::new(columns, ports.iter().map(row)),
        alarms: ports.iter().map(|port| port.dropped_packets_per_second > 0.0 || !port.link_up).collect(),
        empty: "the switch has no ports",
    }
}

fn rate(number: f64) -> output::Cell {
    output::Cell::new(si(number), number)
}

fn drops(rates: &Rates, sort: Sort) -> Cells {
    let drops = sort.sorted(rates.drops.iter().collect(), |d| d.packets_per_second, |d| d.packets as f64);
    let row = |drop: &&super::rates::DropRate| {
        let by = if drop.device { "device" } else { "switch" };
        row![&drop.port, &drop.reason, by, rate(drop.packets_per_second), drop.packets]
    };
    let columns = ["port", "reason", "lost by", ">pkt/s|packets_per_second", ">packets"];
    Cells {
        rows: Rows::new(columns, drops.iter().map(row)).keyed(2),
        alarms: drops.iter().map(|drop| drop.packets_per_second > 0.0).collect(),
        empty: "no packet was dropped",
    }
}

fn program_title(program: &ProgramRates) -> String {
    format!("{}: the heaviest flows of the last {:.1} s", program.program, program.claim.seconds)
}

fn flows(program: &ProgramRates) -> Cells {
    let row = |(i, flow): (usize, &super::rates::FlowRate)| {
        let per_second = flow.packets_per_second.or(flow.bits_per_second).unwrap_or_default();
        let at_least = at_least(flow.at_least) + &si(per_second);
        row![
            output::Cell::plain(i + 1),
            flow.name.to_string(),
            output::Cell::new(at_least, per_second),
            output::Cell::new("", flow.at_least),
        ]
    };
    let rate = match program.unit {
        Unit::Packets => ">pkt/s|packets_per_second",
        Unit::Bytes => ">bit/s|bits_per_second",
    };
    Cells {
        rows: Rows::new([">#|rank", "flow", rate, "|at_least"], program.heavy.iter().enumerate().map(row)).keyed(2),
        alarms: vec![false; program.heavy.len()],
        empty: "no flow",
    }
}

fn cores(rates: &Rates, sort: Sort) -> Cells {
    let cores = sort.sorted(rates.cores.iter().collect(), |core| core.busy_share, |core| core.late_epochs as f64);
    let cycles = |per_packet: Option<f64>| output::Cell::or("-", per_packet.map(rate));
    let of_core = |core: &CoreRates| {
        row![
            output::Cell::plain(core.core),
            "",
            percent(core.busy_share),
            rate(core.packets_per_second),
            cycles(core.cycles_per_packet),
            rate(core.polls_per_second),
            core.late_epochs,
            core.lost_epochs,
        ]
    };
    let of_program = |core: &CoreRates, program: &ProgramTime| {
        row![
            output::Cell::plain(core.core).repeated(true),
            &program.program,
            percent(program.busy_share),
            rate(program.packets_per_second),
            cycles(program.cycles_per_packet),
        ]
    };
    let rows = |core: &&CoreRates| {
        let programs = core.programs.iter().map(|program| of_program(core, program));
        [of_core(core)].into_iter().chain(programs).collect::<Vec<_>>()
    };
    let alarms = cores.iter().flat_map(|core| std::iter::repeat_n(core.lost_epochs > 0, 1 + core.programs.len()));
    Cells {
        alarms: alarms.collect(),
        rows: Rows::new(CORES, cores.iter().flat_map(rows)).keyed(2),
        empty: "the switch has no workers",
    }
}

/// Columns of a core; its programs below it have the first ones.
const CORES: [&str; 8] = [
    ">core",
    "program",
    ">busy|busy_share",
    ">pkt/s|packets_per_second",
    ">cycles/pkt|cycles_per_packet",
    ">polls/s|polls_per_second",
    ">late epochs",
    ">lost epochs",
];

fn percent(share: f64) -> output::Cell {
    output::Cell::new(format!("{:.1} %", 100.0 * share), share)
}

impl Cells {
    fn page(self, name: &str) -> Page {
        let page = if self.rows.is_empty() { Page::default().text(self.empty) } else { Page::default() };
        page.table(name, self.rows)
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

/// Everything, as tables.
pub fn page(rates: &Rates) -> Page {
    let [rx, tx, lost] =
        [rates.rx_packets_per_second, rates.tx_packets_per_second, rates.dropped_packets_per_second].map(si);
    let head = format!("{}: rx {rx}/s, tx {tx}/s, dropped {lost}/s over {:.1} s", rates.name, rates.seconds);
    let page = Page::default()
        .text(head)
        .and(ports(rates, Sort::Configured).page("ports"))
        .and(drops(rates, Sort::Configured).page("drops"));
    let page = rates.programs.iter().fold(page, |page, program| {
        page.text(program_title(program)).and(flows(program).page("heavy").of(&program.program))
    });
    let page = page
        .and(cores(rates, Sort::Configured).page("cores"))
        .text(rates.attention.as_ref().map(attention).unwrap_or_default());
    rates.facts.iter().fold(page, |page, facts| page.and(facts.page()))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
