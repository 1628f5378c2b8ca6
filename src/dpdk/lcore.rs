//! Worker threads as EAL sees them, and the cycle counter.

use std::marker::PhantomData;

use super::{eal::Eal, error::DpdkError, sys};

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

/// The CPUs of `wanted` that a worker can be pinned to. CPUs that the kernel was told to isolate
/// (`isolcpus`) are in no process's affinity mask, and are found all the same.
pub fn usable_cpus(wanted: impl IntoIterator<Item = usize> + Send) -> Vec<usize> {
    // On a thread of its own, as the affinity of this one stays.
    let find = || wanted.into_iter().filter(|&cpu| pin(cpu)).collect();
    std::thread::scope(|scope| scope.spawn(find).join().unwrap_or_default())
}

/// Size of the kernel's CPU set. Beyond it core_affinity would panic.
pub const MAX_CPUS: usize = libc::CPU_SETSIZE as usize;

fn pin(id: usize) -> bool {
    id < MAX_CPUS && core_affinity::set_for_current(core_affinity::CoreId { id })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_outside_of_the_affinity_mask_are_usable() {
        let there = usable_cpus(0..MAX_CPUS);
        let first = there[0];
        let seen_from_one = std::thread::spawn(move || {
            assert!(pin(first));
            (usable_cpus(0..MAX_CPUS), core_affinity::get_core_ids().unwrap_or_default().len())
        });
        assert_eq!(seen_from_one.join().unwrap(), (there, 1), "and the thread stays where it was");
        assert!(usable_cpus([MAX_CPUS - 1, MAX_CPUS, usize::MAX]).is_empty());
    }
}
