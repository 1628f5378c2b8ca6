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

/// Workers of other processes on these CPUs, by CPU and process. A worker's thread has its CPU in its
/// name ([`worker_name`]), which any process can read, in whatever network namespace.
#[cfg(feature = "dpdk")]
pub fn polled_by_others(cpus: &[usize]) -> Vec<(usize, u32)> {
    let own = std::process::id();
    let named = |path: std::path::PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = |path: String| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for process in entries("/proc".into()).filter_map(named).filter(|&process| process != own) {
        for task in entries(format!("/proc/{process}/task")) {
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            let cpu = cpus.iter().find(|&&cpu| name.trim_end() == worker_name(cpu));
            found.extend(cpu.map(|&cpu| (cpu, process)));
        }
    }
    found.sort_unstable();
    found
}

/// The name of the thread that polls on a CPU.
#[cfg(feature = "dpdk")]
pub fn worker_name(cpu: usize) -> String {
    format!("weir-{cpu}")
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
