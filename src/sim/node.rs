//! A switch of the network: its workers, and what puts their records together.

use std::sync::{Arc, Mutex, PoisonError};

use crate::control::{Closed, Collector, History, Routing, Sink};
use crate::epoch::Collecting;
use crate::program::{AnyRecord, AnySchedule, Strays};
use crate::switch::Switch;

/// All programs' records of an epoch.
pub struct Handed {
    pub first_epoch: u64,
    pub epoch: u64,
    pub records: Vec<AnyRecord>,
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
        let mut collector = Collector::new(collecting, Arc::new(Mutex::new(History::new(1, &[]))));
        let handed = Arc::<Mutex<Vec<Handed>>>::default();
        collector.subscribe(Box::new(Keeper { handed: handed.clone(), strays: Vec::new() }));
        Self { workers, schedules, collector, handed, _routing: routing }
    }

    /// What its workers have handed over, of epochs on which all have reported.
    pub fn records(&mut self) -> Vec<Handed> {
        self.collector.collect_ready();
        std::mem::take(&mut *self.handed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps records until they are asked for. As a live switch does, it tells with the next record the strays of
/// those that nobody gets.
struct Keeper {
    handed: Arc<Mutex<Vec<Handed>>>,
    /// By program.
    strays: Vec<Strays>,
}

impl Sink for Keeper {
    fn closed(&mut self, Closed { first, last, records }: Closed<'_>) {
        let mut records = records.to_vec();
        for (record, strays) in records.iter_mut().zip(&mut self.strays) {
            if let Some(own) = record.strays_mut() {
                own.merge(&std::mem::take(strays));
            }
        }
        let handed = Handed { first_epoch: first, epoch: last, records };
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).push(handed);
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        self.strays.resize(epoch.records.len(), Strays::default());
        for (record, strays) in epoch.records.iter().zip(&mut self.strays) {
            record.strays().into_iter().for_each(|own| strays.merge(own));
        }
    }
}
