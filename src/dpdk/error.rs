//! Errors of DPDK's calls.

use std::ffi::CStr;

use super::{log, sys};

/// A DPDK call that failed: which, its errno, and DPDK's own words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {message} (errno {errno}){}", detail.as_deref().map(|d| format!(": {d}")).unwrap_or_default())]
pub struct DpdkError {
    pub call: &'static str,
    /// Positive errno value, 0 when DPDK gave none.
    pub errno: i32,
    pub message: String,
    /// The error lines that DPDK logged before the call failed: usually they say more than the
    /// errno.
    pub detail: Option<String>,
}

impl DpdkError {
    /// From a return value that is a negative errno.
    pub(super) fn new(call: &'static str, code: i32) -> Self {
        let errno = code.saturating_abs();
        Self { call, errno, message: strerror(errno), detail: log::take_errors() }
    }

    /// From the thread's `rte_errno`, for calls that return a null pointer or -1.
    pub(super) fn last(call: &'static str) -> Self {
        // SAFETY: reads a thread-local integer.
        Self::new(call, unsafe { sys::weir_errno() })
    }

    /// `Ok` for zero and above.
    pub(super) fn check(call: &'static str, code: i32) -> Result<i32, Self> {
        if code < 0 { Err(Self::new(call, code)) } else { Ok(code) }
    }
}

fn strerror(errno: i32) -> String {
    // SAFETY: returns a pointer to a C string that is static or in a buffer of this thread; it is
    // copied at once.
    unsafe { CStr::from_ptr(sys::rte_strerror(errno)) }.to_string_lossy().into_owned()
}
