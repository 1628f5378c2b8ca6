//! Worker threads as EAL sees them, and the cycle counter.

use std::marker::PhantomData;

use super::{eal::Eal, error::DpdkError, sys};
use crate::cpus::pin;

#[derive(Debug, thiserror::Error)]
pub enum LcoreError {
    #[error("cannot pin a worker to CPU {0}: it does not exist, or this process may not run on it")]
    Pin(usize),
    #[error("cannot register a worker with DPDK, which takes only so many: {0}")]
    Register(#[from] DpdkError),
}

/// This thread's registration with EAL, which gives it a cache in every mempool. Undone when
/// dropped.
#[derive(Debug)]
pub struct Lcore {
    _eal: Eal,
    /// The registration is the thread's own.
    _not_send: PhantomData<*const ()>,
}

impl Lcore {
    /// Pins the calling thread to a CPU, if one is named, and registers it.
    pub fn register(eal: &Eal, cpu: Option<usize>) -> Result<Self, LcoreError> {
        if let Some(id) = cpu
            && !pin(id)
        {
            return Err(LcoreError::Pin(id));
        }
        // SAFETY: EAL runs.
        if unsafe { sys::rte_thread_register() } < 0 {
            return Err(DpdkError::last("rte_thread_register").into());
        }
        Ok(Self { _eal: eal.clone(), _not_send: PhantomData })
    }
}

impl Drop for Lcore {
    fn drop(&mut self) {
        // SAFETY: this thread was registered, and `Lcore` does not leave it.
        unsafe { sys::rte_thread_unregister() }
    }
}

/// The CPU's cycle counter. Its rate is constant; changes of the wall clock do not affect it.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has this instruction.
    let cycles = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: reads a register.
    let cycles = unsafe { sys::weir_rdtsc() };
    cycles
}

/// Rate of [`cycles`] in Hz.
pub fn cycles_per_second(_eal: &Eal) -> u64 {
    // SAFETY: EAL runs, and has measured the rate when it started.
    unsafe { sys::rte_get_tsc_hz() }
}
