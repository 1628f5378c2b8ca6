//! `weir top`: what a running switch or controller does, a second at a time.

mod draw;
mod facts;
mod network;
pub mod rates;
pub mod tables;

use std::io::{self, IsTerminal};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use clap::Args;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::output::{self, Format, Tables};
use super::show::Where;
use super::{Failure, help, screen, signals};
use crate::answers::Attention;
use crate::api::client::{Client, ClientError};
use crate::api::view::{ControllerLink, Status};
use crate::config::Length;
use draw::{Screen, View};
use facts::SwitchFacts;
use rates::{Rates, Snapshot};
pub use tables::attention;

/// Heavy flows asked for.
const FLOWS: usize = 50;
/// Seconds of history that are kept.
const HISTORY: usize = 600;
/// How often keys and new documents are looked for.
const TICK: Duration = Duration::from_millis(50);

/// Keys: q end, tab or 1 to 4 views, p pause, s sort, ? help.
#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir top",
    "weir top --name net --interval 500ms",
    "weir top --once --json",
]))]
pub struct Top {
    /// The time between two looks at the switch
    #[arg(long, default_value = "1s", value_name = "LENGTH")]
    interval: Length,
    /// Print one frame as text and end; so it is also when stdout is no terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    tables: Tables,
}

impl Top {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = self.tables.format(json)?;
        let interval = self.interval.0;
        if !(Duration::from_millis(100)..=Duration::from_secs(60)).contains(&interval) {
            return Err(Failure::Usage(format!("--interval {}: 100ms to 1m", self.interval)));
        }
        let client = self.at.client()?;
        // A switch has no network's answers, and says so.
        let network = if_any(network::Shown::look(&client))?;
        if format != Format::Text || self.once || !io::stdout().is_terminal() {
            if let Some(look) = network {
                return output::page(&format, &look, network::Snapshot::page);
            }
            let before = Shown::look(&client)?;
            std::thread::sleep(interval);
            let rates = Rates::between(&before, &Shown::look(&client)?);
            return output::page(&format, &rates, tables::page);
        }
        if network.is_some() {
            full_screen::<network::Shown>(client, interval)
        } else {
            full_screen::<Shown>(client, interval)
        }
    }
}

/// A full-screen view of snapshots.
trait Shows: Sized {
    /// One look at the switch or controller.
    type Snapshot: Send + 'static;
    fn look(client: &Client) -> Result<Self::Snapshot, ClientError>;
    fn new(first: Self::Snapshot) -> Self;
    fn take(&mut self, look: Result<Self::Snapshot, ClientError>);
    fn draw(&self, frame: &mut Frame);
    /// Handles a key; false when it ends the command.
    fn key(&mut self, key: KeyEvent) -> bool;
}

/// Nothing of what does not answer that.
fn if_any<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ClientError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Looks on a thread of its own, so that a switch that hangs does not hold up the keys. Ends with
/// its reader.
fn looks<S: Shows>(client: Client, interval: Duration) -> io::Result<Receiver<Result<S::Snapshot, ClientError>>> {
    let (sender, receiver) = sync_channel(1);
    std::thread::Builder::new().name("weir-top".into()).spawn(move || {
        while sender.send(S::look(&client)).is_ok() {
            std::thread::sleep(interval);
        }
    })?;
    Ok(receiver)
}

fn full_screen<S: Shows>(client: Client, interval: Duration) -> Result<(), Failure> {
    // A switch that is not there at the start is a mistake of the user's, and said as one.
    let mut shown = S::new(S::look(&client)?);
    let looks = looks::<S>(client, interval).map_err(Failure::failed)?;
    let ended = signals::stop(screen::give_back).map_err(Failure::failed)?;
    let mut screen = screen::Screen::open().map_err(Failure::failed)?;
    let mut follow = || -> io::Result<()> {
        let mut stale = true;
        while !ended.load(Relaxed) {
            while let Ok(look) = looks.try_recv() {
                shown.take(look);
                stale = true;
            }
            if stale {
                screen.draw(|frame| shown.draw(frame))?;
            }
            let event = screen.event(TICK)?;
            stale = event.is_some();
            if let Some(Some(key)) = event
                && !shown.key(key)
            {
                break;
            }
        }
        Ok(())
    };
    follow().map_err(Failure::failed)
}

/// The screen's state and the snapshot behind it.
struct Shown {
    last: Snapshot,
    rates: Rates,
    screen: Screen,
}

impl Shows for Shown {
    type Snapshot = Snapshot;

    fn look(client: &Client) -> Result<Snapshot, ClientError> {
        let status: Status = client.get("/v1/status")?;
        let heavy = if_any(client.get(&format!("/v1/heavy?seconds=1&top={FLOWS}")))?;
        let attention = match if_any(client.get::<Attention>("/v1/attention?seconds=0"))? {
            Some(mut attention) => attention.epochs.pop(),
            // A switch with a controller has no answers of its own, but has the parameters that it
            // measures with.
            None => {
                let link = if_any(client.get::<ControllerLink>("/v1/controller"))?;
                link.and_then(|link| link.programs.into_iter().find_map(|program| program.attention))
            }
        };
        let programs = status.workers.iter().flat_map(|worker| &worker.programs);
        let facts = SwitchFacts::look(client, programs.map(|program| program.program.as_str()))?;
        Ok(Snapshot { status, heavy, attention, facts })
    }

    fn draw(&self, frame: &mut Frame) {
        draw::draw(frame, &self.rates, &self.screen);
    }

    fn new(first: Snapshot) -> Self {
        Self { rates: Rates::between(&first, &first), last: first, screen: Screen::default() }
    }

    fn take(&mut self, look: Result<Snapshot, ClientError>) {
        match look {
            Err(error) => self.screen.gone = Some(error.to_string()),
            Ok(look) => {
                let follows = look.follows(&self.last);
                let rates = Rates::between(if follows { &self.last } else { &look }, &look);
                if follows {
                    self.remember(rates.rx_packets_per_second as u64);
                }
                if !self.screen.paused || self.screen.gone.is_some() {
                    self.rates = rates;
                }
                (self.last, self.screen.gone) = (look, None);
            }
        }
    }

    fn key(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return true;
        }
        let screen = &mut self.screen;
        let view = screen.view;
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('?' | 'h') => screen.help = !screen.help,
            _ if screen.help => screen.help = false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char(digit @ '1'..='4') => screen.view = View::ALL[digit as usize - '1' as usize],
            KeyCode::Tab | KeyCode::Right => screen.view = view.next(),
            KeyCode::BackTab | KeyCode::Left => screen.view = view.before(),
            KeyCode::Char('p' | ' ') => screen.paused = !screen.paused,
            KeyCode::Char('s') => screen.sort = screen.sort.next(),
            KeyCode::Up | KeyCode::Char('k') => screen.scroll = screen.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => screen.scroll += 1,
            KeyCode::PageUp => screen.scroll = screen.scroll.saturating_sub(10),
            KeyCode::PageDown => screen.scroll += 10,
            _ => {}
        }
        if screen.view != view {
            screen.scroll = 0;
        }
        // The table scrolls no further than its last row; nor should the way back be longer.
        screen.scroll = screen.scroll.min(self.rates.ports.len().max(self.rates.drops.len()).max(FLOWS));
        true
    }
}

impl Shown {
    fn remember(&mut self, rate: u64) {
        if self.screen.paused {
            return;
        }
        let history = &mut self.screen.history;
        if history.len() >= HISTORY {
            history.remove(0);
        }
        history.push(rate);
    }
}
