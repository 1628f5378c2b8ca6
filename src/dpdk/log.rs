//! DPDK's log, routed to `tracing` under the target `dpdk`.

use std::{
    ffi::{c_char, c_long, c_void},
    sync::Mutex,
};

use super::{error::DpdkError, sys};

/// Lines that are kept for an error's message.
const KEPT: usize = 8;

/// The last lines that DPDK logged as errors, or as warnings: net_tap logs refusals of the
/// kernel as warnings.
static ERRORS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Messages of DPDK's upper layers about an error that a lower one has logged.
const ECHOES: [&str; 4] = [
    "failed to initialize",
    "Driver cannot attach the device",
    "Failed to attach device on primary process",
    "Failed to hotplug add device",
];

/// Forgets earlier messages. Called before an operation that may fail, and after one that did not.
pub(super) fn forget_errors() {
    drop(take_errors());
}

/// The last lines that DPDK logged as errors or warnings since this was last asked, without those
/// that only repeat that something failed.
pub(super) fn take_errors() -> Option<String> {
    cause(std::mem::take(&mut *ERRORS.lock().ok()?))
}

fn cause(mut lines: Vec<String>) -> Option<String> {
    let last = lines.last().cloned();
    lines.retain(|line| !ECHOES.iter().any(|echo| line.contains(echo)));
    lines.dedup();
    if lines.is_empty() { last } else { Some(lines.join("; ")) }
}

/// Makes DPDK write its log to a stream whose every write becomes a `tracing` event.
pub(super) fn route() -> Result<(), DpdkError> {
    let functions = sys::cookie_io_functions_t { read: None, write: Some(write), seek: None, close: None };
    // SAFETY: the mode is a C string, the callback needs no cookie, and the stream lives as long as
    // the process.
    let stream = unsafe { sys::fopencookie(std::ptr::null_mut(), c"w".as_ptr(), functions) };
    if stream.is_null() {
        return Err(DpdkError::new("fopencookie", std::io::Error::last_os_error().raw_os_error().unwrap_or(0)));
    }
    // SAFETY: the stream was opened above and is never closed.
    DpdkError::check("rte_openlog_stream", unsafe { sys::rte_openlog_stream(stream) }).map(drop)
}

/// DPDK flushes after every message, so one call is one message, on the thread that logged it.
extern "C" fn write(_cookie: *mut c_void, text: *const c_char, length: usize) -> c_long {
    // SAFETY: stdio passes `length` bytes at `text`.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    // SAFETY: reads a thread-local integer of the message being logged.
    let level = unsafe { sys::rte_log_cur_msg_loglevel() };
    for line in String::from_utf8_lossy(bytes).lines().map(str::trim).filter(|line| !line.is_empty()) {
        event(level, line);
    }
    length as c_long
}

/// Errors of net_tap about queueing disciplines that the kernel lacks, of a feature that weir does
/// not use.
const HARMLESS: [&str; 3] = ["tap_nl_dump_ext_ack()", "qdisc_create_", "eth_dev_tap_create():"];

/// Other messages that are no errors: net_memif and net_tap offer themselves to secondary
/// processes, and weir has none and needs no directory for them (one cannot be made in a user
/// namespace); a virtio-user port gets a random address; and one size of huge pages is enough.
const NO_ERRORS: [&str; 6] = [
    "Failed to register mp action callback",
    "Failed to send start req to secondary",
    "Error creating '/var/run/dpdk",
    "No DPDK runtime directory created",
    "No valid MAC in devargs or device",
    "kB hugepages reported on node",
];

/// Keeps libbpf and libxdp, which net_af_xdp loads programs with, from printing a dozen lines for
/// each.
pub(super) fn hush_libbpf() {
    if tracing::enabled!(target: "dpdk", tracing::Level::DEBUG) {
        return;
    }
    for (library, setter) in [(c"libbpf.so.1", c"libbpf_set_print"), (c"libxdp.so.1", c"libxdp_set_print")] {
        // SAFETY: C strings; a library that is not loaded yet is, and stays.
        let symbol = unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY);
            if handle.is_null() { std::ptr::null_mut() } else { libc::dlsym(handle, setter.as_ptr()) }
        };
        if symbol.is_null() {
            continue;
        }
        type Print = extern "C" fn();
        // SAFETY: both libraries declare it `fn_t set_print(fn_t)`, where null is "print nothing".
        let set: extern "C" fn(Option<Print>) -> Option<Print> = unsafe { std::mem::transmute(symbol) };
        set(None);
    }
}

/// Keeps a line for the message of an error that may follow.
fn keep(line: &str) {
    if let Ok(mut errors) = ERRORS.lock() {
        if errors.len() == KEPT {
            errors.remove(0);
        }
        errors.push(line.to_owned());
    }
}

fn event(level: i32, line: &str) {
    let about_qdiscs = line.contains("qdisc") || line.contains("rte flow support");
    let harmless = NO_ERRORS.iter().any(|text| line.contains(text));
    if harmless || about_qdiscs && HARMLESS.iter().any(|start| line.starts_with(start)) {
        return tracing::debug!(target: "dpdk", "{line}");
    }
    match u32::try_from(level).unwrap_or(sys::RTE_LOG_ERR) {
        ..=sys::RTE_LOG_ERR => {
            tracing::error!(target: "dpdk", "{line}");
            keep(line);
        }
        sys::RTE_LOG_WARNING => {
            tracing::warn!(target: "dpdk", "{line}");
            keep(line);
        }
        sys::RTE_LOG_NOTICE => tracing::info!(target: "dpdk", "{line}"),
        sys::RTE_LOG_INFO => tracing::debug!(target: "dpdk", "{line}"),
        _ => tracing::trace!(target: "dpdk", "{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_and_not_its_echoes() {
        let lines = |lines: &[&str]| cause(lines.iter().map(|&line| line.to_owned()).collect());
        let echoes =
            ["vdev_probe(): failed to initialize net_tap0 device", "EAL: Driver cannot attach the device (net_tap0)"];
        let why = "tun_alloc(): Unable to set TUNSETIFF for h1: Device or resource busy";
        assert_eq!(lines(&[why, echoes[0], echoes[1]]).as_deref(), Some(why));
        assert_eq!(lines(&echoes).as_deref(), Some(echoes[1]), "better than nothing");
        assert_eq!(lines(&["one", "one", "two"]).as_deref(), Some("one; two"));
        assert_eq!(lines(&[]), None);
    }
}
