//! The points that the paper itself plots, and what the authors' simulator gave on our workloads.

/// The rows of one of our CSV files, without its header line.
struct Rows(Vec<Vec<&'static str>>);

impl Rows {
    fn of(text: &'static str) -> Self {
        Self(text.lines().skip(1).map(|line| line.split(',').collect()).collect())
    }

    /// Columns `x` and `y` of the rows whose first columns are `first`.
    fn curve(&self, first: &[&str], x: usize, y: usize) -> Vec<(f64, f64)> {
        let rows = self.0.iter().filter(|row| row.starts_with(first));
        rows.map(|row| (number(row[x]), number(row[y]))).collect()
    }
}

fn number(field: &str) -> f64 {
    field.parse().expect("a number in a table of ours")
}

/// Figure 2: (stages, false negatives in percent).
pub fn stages(counters: usize, k: usize) -> Vec<(f64, f64)> {
    let rows = Rows::of(include_str!("../../data/hashpipe_paper/stages.csv"));
    rows.curve(&[&counters.to_string(), &k.to_string()], 2, 3)
}

/// Figures 5, 8, 11, 12: (memory in KB, false negatives in percent).
pub fn memory(algorithm: &str, k: usize) -> Vec<(f64, f64)> {
    Rows::of(include_str!("../../data/hashpipe_paper/memory.csv")).curve(&[algorithm, &k.to_string()], 2, 3)
}

/// Figure 6: (k, false negatives in percent).
pub fn reported(counters: usize) -> Vec<(f64, f64)> {
    Rows::of(include_str!("../../data/hashpipe_paper/reported.csv")).curve(&[&counters.to_string()], 1, 2)
}

/// Figure 9: (packets of the flow, mean error in percent of the flows of at least that size).
pub fn size_error(algorithm: &str) -> Vec<(f64, f64)> {
    Rows::of(include_str!("../../data/hashpipe_paper/size_error.csv")).curve(&[algorithm], 2, 3)
}

/// Figure 10: (count, how often in percent the chosen minimum is at least that).
pub fn minimum() -> Vec<(f64, f64)> {
    Rows::of(include_str!("../../data/hashpipe_paper/minimum.csv")).curve(&[], 0, 1)
}

/// One run of the authors' simulator.
pub struct Simulated {
    /// `isp/1`, `burst/2` and so on.
    pub trace: &'static str,
    pub algorithm: &'static str,
    pub counters: usize,
    pub stages: usize,
    pub k: usize,
    pub false_negative: f64,
    pub duplicates: f64,
}

pub fn simulated() -> Vec<Simulated> {
    let whole = |field: &str| field.parse().expect("a whole number in a table of ours");
    let rows = Rows::of(include_str!("../../data/hashpipe_authors_simulator.csv"));
    let run = |row: &Vec<&'static str>| Simulated {
        trace: row[0],
        algorithm: row[1],
        counters: whole(row[2]),
        stages: whole(row[3]),
        k: whole(row[4]),
        false_negative: number(row[5]),
        duplicates: number(row[7]),
    };
    rows.0.iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_curve_is_there() {
        assert_eq!(super::stages(8400, 420).len(), 7);
        assert_eq!(super::memory("hashpipe", 300)[0], (5.25, 72.256));
        assert!(super::memory("space-saving", 60).len() == 18 && super::reported(4500).len() == 9);
        assert!(super::size_error("count-min").len() == 20 && super::minimum().len() == 17);
        assert_eq!(super::simulated().len(), 112);
    }
}
