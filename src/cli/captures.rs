//! Captures as commands read them: a file, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::output;
use crate::trace::{CaptureReader, LinkType};

/// The name that stands for standard input.
const STDIN: &str = "-";

/// A capturer that the same Ctrl-C ends still writes what it has, so standard input is read on for
/// this long after `stop` is set.
const GRACE: Duration = Duration::from_secs(1);
/// How often `stop` is looked at while nothing comes. Standard input without a byte for this long
/// ends when `stop` is set.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Opens a capture; `-` is standard input, which is read as it comes. When `stop` is set, the
/// capture ends as if its bytes did.
pub fn open(file: &Path, stop: &Arc<AtomicBool>) -> Result<CaptureReader<Stoppable>, String> {
    let (opened, grace) = match is_stdin(file) {
        true => (io::stdin().as_fd().try_clone_to_owned().map(File::from), GRACE),
        false => (File::open(file), Duration::ZERO),
    };
    let stoppable = opened.map(|from| Stoppable { from, stop: stop.clone(), grace, end: None });
    let opened = stoppable.map_err(Into::into).and_then(CaptureReader::new);
    opened.map_err(|error| format!("{}: {error}", name(file)))
}

/// A file that ends when a flag is set.
pub struct Stoppable {
    from: File,
    stop: Arc<AtomicBool>,
    grace: Duration,
    end: Option<Instant>,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_stopped = self.stop.load(Relaxed);
            if is_stopped {
                let end = *self.end.get_or_insert_with(|| Instant::now() + self.grace);
                if Instant::now() >= end {
                    return Ok(0);
                }
            }
            match poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&WAIT)) {
                Ok(1..) => return self.from.read(buffer),
                Ok(_) if is_stopped => return Ok(0),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

pub fn is_stdin(file: &Path) -> bool {
    file == Path::new(STDIN)
}

/// The capture's name in messages.
pub fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".into() } else { file.display().to_string() }
}

/// Says on stderr that packets of another link type than Ethernet are given an Ethernet header.
pub fn say_reframed(file: &Path, link: LinkType) {
    output::say(&format!(
        "{}: link type {}: its packets get an Ethernet header, whose 14 bytes count in place of their own link \
         header's",
        name(file),
        link.name()
    ));
}
