//! Space-Saving (Metwally et al. 2005; Algorithm 1 of the HashPipe paper).
//!
//! Left open by the paper: which of several minima makes room for a new key. Here an arbitrary one
//! of them.
//!
//! Entries stand in an array sorted by count, and each run of equal counts knows its end. Counting
//! one more moves an entry to the end of its run, where it joins the next run or starts one:
//! constant time.

use weir::wire::Tuple4;

use super::{Entry, occupied};
use crate::heavy::{HeavyHitter, KeyMap};

pub struct SpaceSaving {
    /// Sorted by count, ascending.
    pub(super) entries: Vec<Entry>,
    /// Of each position: the number of its run.
    run: Vec<u32>,
    /// Of each run: its first and last position.
    bounds: Vec<(u32, u32)>,
    spare_runs: Vec<u32>,
    /// Where each key stands.
    position: KeyMap<u32>,
}

impl SpaceSaving {
    pub fn new(counters: usize) -> Self {
        let last = counters.max(1) as u32 - 1;
        Self {
            entries: vec![Entry::default(); last as usize + 1],
            run: vec![0; last as usize + 1],
            bounds: vec![(0, last)],
            spare_runs: Vec::new(),
            position: KeyMap::default(),
        }
    }

    /// Adds one to the count at `position`.
    fn increment(&mut self, position: u32) {
        let run = self.run[position as usize];
        let (first, last) = self.bounds[run as usize];
        self.swap(position, last);
        self.entries[last as usize].count += 1;
        let joined = match self.run.get(last as usize + 1) {
            Some(&next) if self.entries[last as usize + 1].count == self.entries[last as usize].count => {
                self.bounds[next as usize].0 = last;
                next
            }
            _ => self.new_run(last),
        };
        self.run[last as usize] = joined;
        if first == last {
            self.spare_runs.push(run);
        } else {
            self.bounds[run as usize].1 = last - 1;
        }
    }

    fn new_run(&mut self, position: u32) -> u32 {
        match self.spare_runs.pop() {
            Some(run) => {
                self.bounds[run as usize] = (position, position);
                run
            }
            None => {
                self.bounds.push((position, position));
                self.bounds.len() as u32 - 1
            }
        }
    }

    fn swap(&mut self, a: u32, b: u32) {
        if a != b {
            self.entries.swap(a as usize, b as usize);
            for position in [a, b] {
                let entry = self.entries[position as usize];
                if entry.count > 0 {
                    self.position.insert(entry.key, position);
                }
            }
        }
    }
}

impl HeavyHitter for SpaceSaving {
    fn packet(&mut self, key: Tuple4) {
        if let Some(&position) = self.position.get(&key) {
            return self.increment(position);
        }
        // The least entry stands first; an unused one counts 0.
        let min = self.entries[0];
        if min.count > 0 {
            self.position.remove(&min.key);
        }
        self.entries[0] = Entry { key, count: min.count };
        let end = self.bounds[self.run[0] as usize].1;
        self.swap(0, end);
        self.position.insert(key, end);
        self.increment(end);
    }

    fn read_out(self) -> Vec<(Tuple4, u64)> {
        occupied(self.entries)
    }
}
