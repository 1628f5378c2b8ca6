//! A switch of the network: its workers, and what puts their records together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::control::{Closed, Collector, Routing, Sink};
use crate::epoch::Collecting;
use crate::program::{AnyRecord, AnySchedule, Strays};
use crate::switch::Switch;

/// One program's record of an epoch.
pub struct Handed {
    /// The program's place.
    pub program: usize,
    pub first_epoch: u64,
    pub epoch: u64,
    pub record: AnyRecord,
}

/// A switch with what stands beside it.
pub struct Node {
    /// Never empty.
    pub workers: Vec<Switch>,
    /// Where the parameters of its programs are set, by their place.
    pub schedules: Vec<AnySchedule>,
    collector: Collector,
    handed: Arc<Mutex<Vec<Handed>>>,
    _routing: Routing,
}

impl Node {
    pub fn new(
        workers: Vec<Switch>,
        collecting: Vec<Collecting>,
        schedules: Vec<AnySchedule>,
        routing: Routing,
    ) -> Self {
        let mut collector = Collector::new(collecting);
        let handed = Arc::<Mutex<Vec<Handed>>>::default();
        collector.subscribe(Box::new(Keeper { handed: handed.clone(), strays: BTreeMap::new() }));
        Self { workers, schedules, collector, handed, _routing: routing }
    }

    /// What its workers have handed over, of epochs on which all have reported.
    pub fn records(&mut self) -> Vec<Handed> {
        self.collector.collect_ready();
        std::mem::take(&mut *self.handed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps records until they are asked for. As a live switch does, it adds the strays of records that
/// nobody gets to the program's next record.
struct Keeper {
    handed: Arc<Mutex<Vec<Handed>>>,
    strays: BTreeMap<usize, Strays>,
}

impl Sink for Keeper {
    fn closed(&mut self, Closed { program, first, last, record }: Closed<'_>) {
        let mut record = record.clone();
        if let (Some(own), Some(strays)) = (record.strays_mut(), self.strays.remove(&program)) {
            own.merge(&strays);
        }
        let handed = Handed { program, first_epoch: first, epoch: last, record };
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).push(handed);
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        let strays = self.strays.entry(epoch.program).or_default();
        epoch.record.strays().into_iter().for_each(|own| strays.merge(own));
    }
}
