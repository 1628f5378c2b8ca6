//! EAL, DPDK's runtime: started once in the life of a process.

use std::{
    ffi::{CStr, CString, NulError, OsStr, c_char},
    os::unix::ffi::OsStrExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    arguments::{EalOptions, Machine, arguments},
    error::DpdkError,
    log, mbuf, sys,
};

/// DPDK cannot be started a second time, not even after it was cleaned up or failed.
static STARTED: AtomicBool = AtomicBool::new(false);

#[derive(Debug, thiserror::Error)]
pub enum EalError {
    #[error("DPDK was already started in this process, and can be only once: keep and clone the first `Eal`")]
    AlreadyStarted,
    #[error("an EAL argument holds a zero byte")]
    ZeroByte(#[from] NulError),
    #[error("cannot start DPDK with `{arguments}`: {source}")]
    Refused { arguments: String, source: DpdkError },
    #[error(transparent)]
    Log(DpdkError),
}

/// Proof that EAL runs. Everything that needs it holds a clone; when the last is dropped, EAL is
/// cleaned up.
#[derive(Clone, Debug)]
pub struct Eal(#[expect(dead_code, reason = "held for its Drop")] Arc<Running>);

#[derive(Debug)]
struct Running;

impl Eal {
    pub fn start(options: &EalOptions) -> Result<Self, EalError> {
        let arguments = arguments(options, &Machine::this());
        let strings = arguments.iter().map(|a| CString::new(a.as_str())).collect::<Result<Vec<_>, _>>()?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::AlreadyStarted);
        }
        log::route().map_err(EalError::Log)?;
        tracing::debug!("EAL arguments: {}", arguments.join(" "));
        // EAL may keep pointers into its arguments and reorders them: they live as long as the
        // process.
        let argv: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).chain([std::ptr::null_mut()]).collect();
        let argv = argv.leak();
        let count = i32::try_from(argv.len() - 1).expect("few arguments");
        // SAFETY: argv holds `count` C strings and a null. They are never freed. STARTED makes this
        // the only call.
        if unsafe { sys::rte_eal_init(count, argv.as_mut_ptr()) } < 0 {
            let source = DpdkError::last("rte_eal_init");
            return Err(EalError::Refused { arguments: arguments[1..].join(" "), source });
        }
        let eal = Self(Arc::new(Running));
        mbuf::register_held();
        // Starting may have set the log back to what DPDK has by default.
        log::route().map_err(EalError::Log)?;
        remove_runtime_directory();
        Ok(eal)
    }

    /// Whether packet buffers lie in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        // SAFETY: EAL runs as long as `self` lives.
        unsafe { sys::rte_eal_has_hugepages() != 0 }
    }

    /// The DPDK that runs, for example `DPDK 22.11.11`.
    pub fn version() -> String {
        // SAFETY: returns a static C string, and needs no running EAL.
        unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
    }
}

/// EAL makes itself a directory, and leaves it behind. Without shared configuration and telemetry
/// it stays empty.
fn remove_runtime_directory() {
    // SAFETY: EAL runs, and returns a static C string.
    let directory = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    // One that is not empty is somebody's, by arguments that the user gave: it stays.
    let _ = std::fs::remove_dir(OsStr::from_bytes(directory.to_bytes()));
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: EAL was started, and all its users hold an `Eal`; this was the last one.
        let code = unsafe { sys::rte_eal_cleanup() };
        if code < 0 {
            tracing::warn!("{}", DpdkError::new("rte_eal_cleanup", code));
        }
    }
}
