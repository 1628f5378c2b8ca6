//! How fast weir forwards: cycle by cycle with programs in it, and what its peers are started with.

mod cores;
mod cycles;
mod forward;
pub mod ovs;
mod pass;
pub mod testpmd;
mod work;

pub use cores::Cores;
pub use cycles::Cycles;
pub use forward::Forward;
pub use work::Work;

/// Minimum, median and maximum.
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let median = (values[last / 2] + values[values.len() / 2]) / 2.0;
        Self { min: values[0], median, max: values[last] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(1);
        write!(f, "{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.min, self.max)
    }
}

/// The head of a record: the machine, and that others share it.
pub fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("?", |(_, m)| m);
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    format!("{model}, {count} CPUs, {}", weir::dpdk::Eal::version())
}
