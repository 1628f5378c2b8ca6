//! A controller's screen: the state of its network, the division of memory, the losses, and its
//! switches.

use std::cell::Cell;

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::Paragraph;
use serde::Serialize;

use super::super::output::{Page, Style as Written};
use super::super::show::switches_page;
use super::facts::SwitchFacts;
use super::{Shows, if_any, tables};
use crate::answers::{Attention, Claimed, EpochAttention, HeavyFlows, Losses};
use crate::api::client::{Client, ClientError};
use crate::api::view::NetworkSwitches;

/// One look at a controller. The document of `weir top --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    pub switches: NetworkSwitches,
    /// The epochs of the last second. None that no program of the network answers.
    pub attention: Option<Claimed<Attention>>,
    pub losses: Option<Claimed<Losses>>,
    pub heavy: Option<Claimed<HeavyFlows>>,
    /// Of programs that find out something about single switches.
    pub facts: Vec<SwitchFacts>,
}

impl Snapshot {
    pub fn page(&self) -> Page {
        let attention = self.attention.as_ref();
        let newest = attention.and_then(|attention| attention.epochs.last());
        let last = newest.map(tables::attention);
        let parts = [
            self.losses.as_ref().map(Losses::page),
            attention.map(Attention::page),
            self.heavy.as_ref().map(HeavyFlows::page),
            Some(switches_page(&self.switches)),
        ];
        // The page about attention has those of its program.
        let is_shown = |facts: &&SwitchFacts| newest.and_then(EpochAttention::switches) == Some(&facts.switches);
        let facts = self.facts.iter().filter(|facts| !is_shown(facts)).map(SwitchFacts::page);
        parts.into_iter().flatten().chain(facts).fold(Page::default().text(last.unwrap_or_default()), Page::and)
    }

    /// The text on a screen of this width.
    fn text(&self, columns: u16) -> String {
        self.page().to_text(Written::Terminal { columns: columns.into() })
    }
}

pub struct Shown {
    look: Snapshot,
    scroll: u16,
    paused: bool,
    /// The width of the screen that was drawn last.
    columns: Cell<u16>,
    /// Why the controller cannot be asked now, while it cannot.
    gone: Option<String>,
}

impl Shows for Shown {
    type Snapshot = Snapshot;

    fn look(client: &Client) -> Result<Snapshot, ClientError> {
        let switches: NetworkSwitches = client.get("/v1/switches")?;
        let programs = switches.switches.iter().flat_map(|switch| &switch.programs);
        Ok(Snapshot {
            facts: SwitchFacts::look(client, programs.map(String::as_str))?,
            switches,
            attention: if_any(client.get("/v1/attention?seconds=1"))?,
            losses: if_any(client.get("/v1/losses?seconds=1&top=20"))?,
            heavy: if_any(client.get("/v1/heavy?seconds=1&top=20"))?,
        })
    }

    fn new(look: Snapshot) -> Self {
        Self { look, scroll: 0, paused: false, columns: Cell::new(u16::MAX), gone: None }
    }

    fn take(&mut self, look: Result<Snapshot, ClientError>) {
        match look {
            Err(error) => self.gone = Some(error.to_string()),
            Ok(look) => {
                if !self.paused {
                    self.look = look;
                }
                self.gone = None;
            }
        }
    }

    fn draw(&self, frame: &mut Frame) {
        let rows = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
        let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
        self.columns.set(body.width);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let connected = self.look.switches.switches.iter().filter(|switch| switch.connected).count();
        let title = match &self.gone {
            Some(why) => Paragraph::new(format!(" NO CONTROLLER, trying again: {why}"))
                .style(bold.bg(Color::Red).fg(Color::White)),
            None => {
                let paused = if self.paused { "  paused" } else { "" };
                let all = self.look.switches.switches.len();
                Paragraph::new(format!(" weir controller  {connected} of {all} switches connected{paused}")).style(bold)
            }
        };
        frame.render_widget(title, head);
        frame.render_widget(Paragraph::new(self.look.text(body.width)).scroll((self.scroll, 0)), body);
        let keys = " q quit  p pause  ↑ ↓ scroll";
        frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
    }

    fn key(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return true;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            _ => {}
        }
        let lines = self.look.text(self.columns.get()).lines().count();
        self.scroll = self.scroll.min(u16::try_from(lines).unwrap_or(u16::MAX));
        true
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::answers::Claim;
    use crate::api::view::NetworkSwitch;
    use crate::json::Epoch;
    use crate::program::ProgramConfig;

    fn look() -> Snapshot {
        let switch = |name: &str, connected| NetworkSwitch { name: name.into(), connected, ..Default::default() };
        let measured = ProgramConfig::networked().schedule().describe(7).unwrap();
        let attention =
            EpochAttention { why: "as before".into(), ..EpochAttention::new(Epoch::new(7, 50_000_000), measured) };
        let claim = Claim {
            first_epoch: Some(7),
            last_epoch: Some(7),
            epoch_ns: 50_000_000,
            complete: true,
            ..Default::default()
        };
        Snapshot {
            switches: NetworkSwitches {
                epoch_ns: 50_000_000,
                transit_ns: 10_000_000,
                switches: vec![switch("edge1", true), switch("edge2", false)],
                ..NetworkSwitches::default()
            },
            attention: Some(Claimed::of(claim.clone(), Attention { epochs: vec![attention] })),
            losses: Some(Claimed::of(claim, Losses { lost_packets: 3, victims: 1, ..Default::default() })),
            heavy: None,
            facts: Vec::new(),
        }
    }

    fn drawn(shown: &Shown) -> String {
        Written::Terminal { columns: 120 }.set();
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
        terminal.draw(|frame| shown.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_network_is_on_the_screen() {
        let mut shown = Shown::new(look());
        let screen = drawn(&shown);
        for text in ["1 of 2 switches connected", "healthy: hh 3 584 buckets", "3 packets lost, 1 flow found", "edge2"]
        {
            assert!(screen.contains(text), "{text} in\n{screen}");
        }
        shown.take(Err(ClientError::Refused { error: "away".into() }));
        assert!(drawn(&shown).contains("NO CONTROLLER, trying again: "));
        assert!(shown.key(KeyCode::Char('p').into()));
        shown.take(Ok(Snapshot::default()));
        assert!(drawn(&shown).contains("1 of 2 switches connected  paused"));
        assert!(!shown.key(KeyCode::Char('q').into()));
    }
}
