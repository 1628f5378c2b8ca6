//! The CPUs that a thread may be pinned to.

use core_affinity::CoreId;
#[cfg(feature = "dpdk")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Size of the kernel's CPU set. Beyond it core_affinity would panic.
pub const MAX_CPUS: usize = libc::CPU_SETSIZE as usize;

/// The CPUs of `wanted` that a worker can be pinned to. CPUs that the kernel was told to isolate
/// (`isolcpus`) are in no process's affinity mask, and are found all the same if the process's
/// cpuset has them.
pub fn usable_cpus(wanted: impl IntoIterator<Item = usize> + Send) -> Vec<usize> {
    // On a thread of its own, as the affinity of this one stays.
    let find = || wanted.into_iter().filter(|&cpu| pin(cpu)).collect();
    std::thread::scope(|scope| scope.spawn(find).join().unwrap_or_default())
}

/// Pins the calling thread to a CPU. False where it does not exist, or is not for this process.
pub fn pin(id: usize) -> bool {
    id < MAX_CPUS && core_affinity::set_for_current(CoreId { id })
}

/// Keeps this thread, and those that it starts from now on, off the CPUs of workers: a worker polls
/// all the time, and the scheduler lets another thread that it puts on the same CPU run for several
/// milliseconds, in which packets wait. Nothing changes where the thread's affinity mask has no other
/// CPU; DPDK pins the thread anew where its own arguments name cores.
#[cfg(feature = "dpdk")]
pub fn keep_off(workers: &[usize]) {
    let kept = sched_getaffinity(None).and_then(|mut cpus| {
        workers.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| cpus.unset(cpu));
        if cpus.count() > 0 { sched_setaffinity(None, &cpus) } else { Ok(()) }
    });
    if let Err(error) = kept {
        tracing::warn!("threads that do not poll may share the CPUs of those that do: {error}");
    }
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

    /// CPUs that a thread started from this one may run on.
    #[cfg(feature = "dpdk")]
    fn inherited() -> Vec<usize> {
        let there = || core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
        std::thread::spawn(there).join().unwrap()
    }

    #[cfg(feature = "dpdk")]
    #[test]
    fn threads_leave_the_cpus_of_workers_to_these() {
        let on_its_own = |workers: Vec<usize>| {
            std::thread::spawn(move || {
                keep_off(&workers);
                inherited()
            })
        };
        let all = inherited();
        let (last, others) = all.split_last().unwrap();
        let expected = if others.is_empty() { &all } else { others };
        assert_eq!(on_its_own(vec![*last, usize::MAX]).join().unwrap(), expected);
        assert_eq!(on_its_own(all.clone()).join().unwrap(), all, "no other CPU is left");
        assert_eq!(on_its_own(Vec::new()).join().unwrap(), all);
    }
}
