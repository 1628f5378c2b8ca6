//! Signals that end a command. They leave the terminal as it was.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

/// Signals that are this close to the first one are the same request: `timeout` sends its signal to
/// the process and to its group.
const SAME: Duration = Duration::from_millis(100);

/// A flag that the first SIGINT or SIGTERM sets. A later one ends the process with exit code 1, and
/// SIGHUP and SIGQUIT end it as they always do; `give_back` is called first.
///
/// # Errors
/// If the signals cannot be taken, or no thread can be started for them.
pub fn stop(give_back: fn()) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (set, mut first) = (stop.clone(), None);
    watch(move |signal| {
        let is_request = matches!(signal, SIGINT | SIGTERM);
        if is_request && first.get_or_insert_with(Instant::now).elapsed() < SAME {
            return set.store(true, Relaxed);
        }
        give_back();
        if is_request {
            low_level::exit(1);
        }
        end_by(signal);
    })?;
    Ok(stop)
}

/// Calls `give_back` before a signal ends the process.
///
/// # Errors
/// If the signals cannot be taken, or no thread can be started for them.
pub fn end(give_back: fn()) -> io::Result<()> {
    watch(move |signal| {
        give_back();
        end_by(signal);
    })
}

/// Clears the line of a progress bar.
pub fn clear_line() {
    let mut to = io::stderr();
    if to.is_terminal() {
        // A terminal that is gone needs nothing.
        let _ = write!(to, "\r\x1b[K");
    }
}

/// Handles the signals on a thread of its own, where a handler may write.
fn watch(mut handle: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let ignored = ignored();
    // `nohup` ignores SIGHUP, and that is to last.
    let taken = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        .into_iter()
        .filter(|signal| matches!(*signal, SIGINT | SIGTERM) || ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(taken)?;
    std::thread::Builder::new().name("weir-signals".into()).spawn(move || signals.forever().for_each(&mut handle))?;
    Ok(())
}

/// Ends the process as the signal does where nothing handles it.
fn end_by(signal: i32) {
    let _ = low_level::emulate_default_handler(signal);
}

/// The signals that the process ignores, number 1 in the lowest bit.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
