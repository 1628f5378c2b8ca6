//! Metrics of what is measured. A thread adds up totals once a second, also when nobody reads them. Answers
//! about the last final epoch are made when they are read.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::newest::{Asked, Newest, NewestAnswers};
use super::totals::{Followed, Totals};
use crate::answers::{Links, Queryable};
use crate::lock::Hold;
use crate::program::ProgramConfig;
use crate::telemetry::epoch::wall_clock;

/// How often it is looked for epochs whose answers are final.
const EVERY: Duration = Duration::from_secs(1);

/// The programs and their histories, as they are now.
pub type Source = Box<dyn Fn() -> Vec<(ProgramConfig, Arc<dyn Queryable>)> + Send + Sync>;

/// The metrics of what a switch or a network measures.
pub struct Measured {
    source: Source,
    links: Links,
    /// Heavy flows of each program that are labels at a time.
    flows: usize,
    /// By the names of the programs in results. Those that have gone keep their totals.
    followed: Mutex<BTreeMap<String, Followed>>,
    newest: Mutex<NewestAnswers>,
}

/// The metrics of one program at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramMetrics {
    pub program: String,
    pub totals: Totals,
    /// Time since the last final epoch ended, in seconds.
    pub lag_seconds: Option<f64>,
    /// `None` before the first final epoch, and of a program that has gone.
    pub newest: Option<Newest>,
}

impl Measured {
    pub fn new(source: Source, links: Links, flows: usize) -> Self {
        Self { source, links, flows, followed: Mutex::default(), newest: Mutex::default() }
    }

    /// Follows the histories on a thread of its own, until nobody wants the metrics any more.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(self) -> io::Result<Arc<Self>> {
        self.follow();
        let measured = Arc::new(self);
        let followed = Arc::downgrade(&measured);
        std::thread::Builder::new().name("weir-measured".into()).spawn(move || {
            loop {
                std::thread::sleep(EVERY);
                let Some(measured) = followed.upgrade() else { return };
                measured.follow();
            }
        })?;
        Ok(measured)
    }

    /// Counts what has become final.
    pub fn follow(&self) {
        let (programs, histories): (Vec<_>, Vec<_>) = (self.source)().into_iter().unzip();
        let mut followed = self.followed.hold();
        for ((name, program), history) in ProgramConfig::named(&programs).zip(&histories) {
            followed.entry(name).or_default().follow(program, history, &self.links);
        }
    }

    /// The metrics of all programs at this moment.
    pub fn programs(&self) -> Vec<ProgramMetrics> {
        let (programs, histories): (Vec<_>, Vec<_>) = (self.source)().into_iter().unzip();
        let named: Vec<_> = ProgramConfig::named(&programs).zip(&histories).collect();
        let (mut all, mut epochs) = (Vec::new(), BTreeMap::new());
        for (name, followed) in &*self.followed.hold() {
            let is_there = named.iter().any(|((other, _), _)| other == name);
            let end_ns = followed.end_ns().filter(|_| is_there);
            epochs.extend(followed.last().map(|epoch| (name.clone(), epoch)));
            all.push(ProgramMetrics {
                program: name.clone(),
                totals: followed.totals.clone(),
                lag_seconds: end_ns.map(|end| wall_clock().saturating_sub(end) as f64 / 1e9),
                newest: None,
            });
        }
        let asked = |((name, program), history): &((String, _), _)| {
            epochs.get(name).map(|epoch| (name.clone(), *program, *history, *epoch))
        };
        let asked: Vec<(String, &ProgramConfig, &Arc<dyn Queryable>, u64)> = named.iter().filter_map(asked).collect();
        let asked: Vec<_> = asked
            .iter()
            .map(|(name, program, history, epoch)| Asked { name, program, history, epoch: *epoch, links: &self.links })
            .collect();
        let mut newest = self.newest.hold();
        let newest = newest.of(&asked, self.flows, Instant::now());
        all.iter_mut().for_each(|metrics| metrics.newest = newest.get(&metrics.program).cloned());
        all
    }
}

#[cfg(test)]
mod tests;
