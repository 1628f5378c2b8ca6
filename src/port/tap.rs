//! Work-arounds for DPDK's tap driver.
//!
//! The driver reads a queue when the kernel has signalled that a packet came, and stops reading
//! when it finds no buffer. If the kernel's queue is full by then, no further packet gets in, so no
//! signal comes, and the port is dead. This module raises the signal instead. Its number differs
//! between versions of DPDK, and the driver does not report it. It is the signal that gets a
//! handler while the first tap port opens.
//!
//! The driver does not notice that its interface was deleted. `/proc/self/fdinfo` shows it: the
//! descriptors' entries name the interface, in any network namespace, until it is deleted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// The driver's signal, 0 before the first tap port.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Opens a tap port, learns the signal when it is the first, and finds the interface's descriptors.
/// One port at a time.
pub fn opening<T>(open: impl FnOnce() -> T) -> (T, Vec<i32>) {
    let (before, others) = (handled(), descriptors());
    let opened = open();
    let new = handled() & !before;
    if new.is_power_of_two() {
        SIGNAL.store(new.trailing_zeros().cast_signed() + 1, Ordering::Relaxed);
    }
    (opened, descriptors().difference(&others).copied().collect())
}

/// Whether the interface of these descriptors exists. An unreadable entry counts as existing.
pub fn is_there(descriptors: &[i32]) -> bool {
    let named = |fd: &i32| info(*fd).is_none_or(|info| named(&info).is_some());
    descriptors.is_empty() || descriptors.iter().any(named)
}

/// The name that the interface of these descriptors has now.
pub fn name(descriptors: &[i32]) -> Option<String> {
    descriptors.iter().find_map(|fd| Some(named(&info(*fd)?)?.to_owned()))
}

fn info(fd: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()
}

fn named(info: &str) -> Option<&str> {
    info.lines().find_map(|line| line.strip_prefix("iff:").map(str::trim)).filter(|name| !name.is_empty())
}

/// The process's descriptors of tap interfaces.
fn descriptors() -> BTreeSet<i32> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let taps = entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new("/dev/net/tun")));
    taps.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Makes the driver look at all its queues.
pub fn wake() {
    let signal = SIGNAL.load(Ordering::Relaxed);
    if signal != 0 {
        let _ = signal_hook::low_level::raise(signal);
    }
}

/// The signals that have handlers, number 1 in the lowest bit.
fn handled() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
