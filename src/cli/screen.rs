//! A full-screen terminal, and numbers that fit one.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::panic;
use std::time::Duration;

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The terminal's full screen. Dropped, it gives the terminal back as it was.
///
/// Ratatui's terminal is never dropped: where the terminal is gone, that would panic.
#[derive(Debug)]
pub struct Screen(ManuallyDrop<DefaultTerminal>);

impl Screen {
    /// # Errors
    /// If stdout is no terminal, or does not take the commands of one.
    pub fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            hook(info);
        }));
        Ok(Self(ManuallyDrop::new(terminal)))
    }

    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<()> {
        self.0.draw(draw).map(|_| ())
    }

    /// Waits for an event: a key, or `Some(None)` for another, such as a change of the size. `None`
    /// when the time is over.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn event(&mut self, timeout: Duration) -> io::Result<Option<Option<KeyEvent>>> {
        let is_read = |event| match event {
            Event::Key(key) => Some(key),
            _ => None,
        };
        // Crossterm reads on without end from a terminal that is gone, so it is not to wait for one.
        wait(Duration::ZERO)?;
        if !event::poll(Duration::ZERO)? {
            if timeout.is_zero() {
                return Ok(None);
            }
            wait(timeout)?;
            if !event::poll(Duration::ZERO)? {
                return Ok(None);
            }
        }
        event::read().map(is_read).map(Some)
    }
}

/// Waits until the terminal has a key, a signal comes, or the time is over.
///
/// # Errors
/// If the terminal is gone.
fn wait(timeout: Duration) -> io::Result<()> {
    let (input, output) = (io::stdin(), io::stdout());
    // Keys come by stdin. Where that is no terminal, crossterm reads them from the terminal of the
    // process, which stdout is.
    let mut terminals = match input.is_terminal() {
        true => [PollFd::new(&input, PollFlags::IN), PollFd::new(&output, PollFlags::empty())],
        false => [PollFd::new(&output, PollFlags::IN), PollFd::new(&output, PollFlags::empty())],
    };
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut terminals, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if terminals.iter().any(|terminal| terminal.revents().intersects(gone)) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal is gone"));
    }
    Ok(())
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back as it was: for a process that ends without dropping its screen.
pub fn give_back() {
    // A terminal that is gone needs nothing.
    let _ = ratatui::try_restore();
    // A process that ends without dropping its screen leaves the cursor hidden.
    let _ = execute!(io::stdout(), Show);
}

/// 1234567.0 as "1.23 M".
pub fn si(n: f64) -> String {
    let scales = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    // Rounded first: 999 999 is 1.00 M, not 1000 k.
    let scale = scales.into_iter().find(|(scale, _)| n >= scale * 0.9995);
    match scale {
        None if n > 0.0 && n < 9.95 && n.fract() != 0.0 => format!("{n:.1}"),
        None => format!("{n:.0}"),
        Some((scale, letter)) => {
            let n = n / scale;
            let decimals = if n < 9.995 { 2 } else { usize::from(n < 99.95) };
            format!("{n:.decimals$}{letter}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        for (n, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (3.0, "3"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (1234.0, "1.23 k"),
            (99_949.0, "99.9 k"),
            (99_960.0, "100 k"),
            (999_990.0, "1.00 M"),
            (14_880_952.0, "14.9 M"),
            (1e10, "10.0 G"),
        ] {
            assert_eq!(si(n), text, "{n}");
        }
    }
}
