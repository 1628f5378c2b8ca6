//! Metrics of what is measured. A thread adds up totals once a second, also when nobody reads them, and another one asks
//! for the places of losses. Answers about the last final epoch are made when they are read.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::newest::{Asked, Newest, NewestAnswers};
use super::placed::{Placed, PlacesAnswer, Placing, SPAN};
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
    placing: Mutex<Placing>,
    /// By the name of the program that was asked.
    placed: Mutex<BTreeMap<String, Placed>>,
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
    /// `None` of a program that was not asked for places.
    pub placed: Option<Placed>,
    /// Time since the last epoch of its newest answer about places ended, in seconds.
    pub places_age_seconds: Option<f64>,
}

impl Measured {
    pub fn new(source: Source, links: Links, flows: usize) -> Self {
        let placing = Mutex::new(Placing::new(SPAN));
        let (followed, newest, placed) = Default::default();
        Self { source, links, flows, followed, newest, placing, placed }
    }

    /// Follows the histories on threads of its own, until nobody wants the metrics any more.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(self) -> io::Result<Arc<Self>> {
        self.follow();
        let measured = Arc::new(self);
        each_second("weir-measured", &measured, Self::follow)?;
        each_second("weir-places", &measured, Self::place)?;
        Ok(measured)
    }

    /// Asks for the places of losses, if epochs enough have become final.
    pub fn place(&self) {
        let programs = (self.source)();
        // The answer may take seconds: metrics do not wait for it.
        if let Some((name, placed)) = self.placing.hold().look(&programs, &self.links, Instant::now()) {
            let mut all = self.placed.hold();
            all.values_mut().for_each(|other| other.newest = None);
            all.insert(name, placed);
        }
    }

    /// The newest answers about places, with the names of the programs.
    pub fn places(&self) -> Vec<(String, Arc<PlacesAnswer>)> {
        let placed = self.placed.hold();
        placed.iter().filter_map(|(name, placed)| Some((name.clone(), placed.newest.clone()?))).collect()
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
            let seconds_since = |end: u64| wall_clock().saturating_sub(end) as f64 / 1e9;
            let placed = self.placed.hold().get(name).cloned();
            let newest_places = placed.as_ref().and_then(|placed| placed.newest.as_ref());
            let places_age_seconds = newest_places.filter(|_| is_there).map(|newest| seconds_since(newest.end_ns));
            epochs.extend(followed.last().map(|epoch| (name.clone(), epoch)));
            all.push(ProgramMetrics {
                program: name.clone(),
                totals: followed.totals.clone(),
                lag_seconds: followed.end_ns().filter(|_| is_there).map(seconds_since),
                newest: None,
                placed,
                places_age_seconds,
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

/// Does this once a second on a thread, as long as somebody wants the metrics.
fn each_second(name: &str, measured: &Arc<Measured>, what: fn(&Measured)) -> io::Result<()> {
    let measured = Arc::downgrade(measured);
    let work = move || {
        loop {
            std::thread::sleep(EVERY);
            let Some(measured) = measured.upgrade() else { return };
            what(&measured);
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests;
