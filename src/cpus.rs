//! The CPUs that a thread may be pinned to.

use core_affinity::CoreId;

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
