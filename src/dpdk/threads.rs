//! Rights of the process's other threads, DPDK's among them.
//!
//! Linux keeps capabilities for each thread, and a thread can give up only its own. So a signal
//! interrupts every thread that has any, and its handler gives them up: the way of libpsx(3), and
//! of the C library's setuid().

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets, Pid, gettid};

/// Longest wait for the threads to answer the signal.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Takes all rights from every thread but this one. Returns the names of those that did not answer
/// the signal.
pub fn strip_others() -> io::Result<Vec<String>> {
    let signal = signal()?;
    let started = Instant::now();
    loop {
        let left = others_with_rights()?;
        if left.is_empty() || started.elapsed() > TIMEOUT {
            return Ok(left.into_iter().map(|(_, name)| name).collect());
        }
        for (thread, _) in left {
            // SAFETY: sends a signal that has a handler to a thread of this process, if it still
            // lives.
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal) };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes all rights from this thread irrevocably: its capabilities, the bounding set as far as it
/// may be changed, and the rights that an exec could give.
pub fn strip_this() -> rustix::io::Result<()> {
    keep_in_this(CapabilitySet::empty())
}

/// Leaves this thread, of the capabilities that it has, those in `kept`, and no way to gain others.
pub fn keep_in_this(kept: CapabilitySet) -> rustix::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::thread::clear_ambient_capability_set()?;
    empty_bounding_set();
    let permitted = rustix::thread::capabilities(None::<Pid>)?.permitted & kept;
    let sets = CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

/// Empties this thread's bounding set, as far as it may be changed. A thread that can gain nothing
/// has no use for it.
pub fn empty_bounding_set() {
    for bit in 0..u64::BITS {
        // Refused without CAP_SETPCAP, and for numbers that the kernel does not know.
        let _ = rustix::thread::remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit));
    }
}

/// The signal, with its handler in place.
fn signal() -> io::Result<i32> {
    static SIGNAL: OnceLock<i32> = OnceLock::new();
    if let Some(signal) = SIGNAL.get() {
        return Ok(*signal);
    }
    // DPDK's tap driver takes real-time signals from the other end.
    let signal = libc::SIGRTMIN() + 4;
    // The thread's status shows whether it worked.
    let handler = || {
        let _ = strip_this();
    };
    // SAFETY: the handler makes system calls and nothing else: it neither allocates nor locks nor
    // touches errno, because rustix makes them without the C library.
    unsafe { signal_hook::low_level::register(signal, handler) }?;
    Ok(*SIGNAL.get_or_init(|| signal))
}

/// The other threads, with their names, that have a capability or could be given one.
fn others_with_rights() -> io::Result<Vec<(i32, String)>> {
    let this = gettid().as_raw_nonzero().get();
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let Some(thread) = task?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let status = match fs::read_to_string(format!("/proc/self/task/{thread}/status")) {
            // The thread has ended.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => continue,
            status => status?,
        };
        if thread != this && has_rights(&status) {
            found.push((thread, field(&status, "Name:").unwrap_or("?").to_owned()));
        }
    }
    Ok(found)
}

fn has_rights(status: &str) -> bool {
    let empty = |key| field(status, key).is_none_or(|set| set.bytes().all(|digit| digit == b'0'));
    !["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].into_iter().all(empty) || field(status, "NoNewPrivs:") == Some("0")
}

fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_status_is_read() {
        let none = "Name:\tx y\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n";
        assert!(!has_rights(none));
        assert!(has_rights(&none.replace("NoNewPrivs:\t1", "NoNewPrivs:\t0")));
        assert!(has_rights(&none.replace("CapPrm:\t0000000000000000", "CapPrm:\t0000000000003000")));
        assert_eq!(field(none, "Name:"), Some("x y"));
    }
}
