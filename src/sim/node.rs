//! A switch of the network: its workers, and what puts their records together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::assemble::Assembly;
use crate::lock::Hold;
use crate::network::controller::Report;
use crate::program::{AnySchedule, Strays};
use crate::switch::Switch;
use crate::tables::Routing;
use crate::telemetry::{Closed, Collector, Sink};

/// What a switch reports of a program, by the program's place.
type Handed = (usize, Report);

/// A switch with what stands beside it.
pub struct Node {
    /// Never empty.
    pub workers: Vec<Switch>,
    /// Where the parameters of its programs are set, by their place.
    pub schedules: Vec<AnySchedule>,
    collector: Collector,
    handed: Arc<Mutex<Vec<Handed>>>,
    /// Its tables: present in every switch of a simulated network.
    pub routing: Option<Routing>,
}

impl Node {
    pub fn new(assembly: Assembly) -> Self {
        let Assembly { switches: workers, mut collector, schedules, routing, .. } = assembly;
        let handed = Arc::<Mutex<Vec<Handed>>>::default();
        collector.subscribe(Box::new(Keeper { handed: handed.clone(), strays: BTreeMap::new() }));
        Self { workers, schedules, collector, handed, routing }
    }

    /// Has a worker do what `work` says. Banks that rotate meanwhile are taken at once, so that a
    /// program that cuts its epochs finds a spare.
    pub fn drive(&mut self, worker: usize, work: impl FnOnce(&mut Switch)) {
        let switch = &mut self.workers[worker];
        let due = switch.due();
        work(switch);
        if switch.due() != due {
            self.collector.collect_ready();
        }
    }

    /// What its workers have sent, of epochs on which all have reported.
    pub fn records(&mut self) -> Vec<(usize, Report)> {
        self.collector.collect_ready();
        std::mem::take(&mut *self.handed.hold())
    }
}

/// Keeps records until they are asked for.
struct Keeper {
    handed: Arc<Mutex<Vec<Handed>>>,
    /// By program, those of records that nobody gets.
    strays: BTreeMap<usize, Strays>,
}

impl Sink for Keeper {
    fn closed(&mut self, Closed { program, first, last, late, record }: Closed<'_>) {
        let mut record = record.clone();
        self.strays.entry(program).or_default().tell_with(&mut record);
        self.handed.hold().push((program, Report { first_epoch: first, epoch: last, whole: true, late, record }));
    }

    fn partial(&mut self, Closed { program, record, .. }: Closed<'_>) {
        self.strays.entry(program).or_default().keep(record);
    }
}
