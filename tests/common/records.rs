//! The records that a collector hands on.

use std::sync::{Arc, Mutex};

use weir::program::{AnyRecord, Record};
use weir::telemetry::{Closed, Collector, Sink};

/// Each with the place of its program.
#[derive(Clone, Default)]
pub struct Records(Arc<Mutex<Vec<(usize, AnyRecord)>>>);

impl Records {
    /// Those of the epochs that close from now on.
    pub fn of(collector: &mut Collector) -> Self {
        let records = Self::default();
        collector.subscribe(Box::new(records.clone()));
        records
    }

    /// The sum for the program at this place; `None` before the first record.
    pub fn any(&self, program: usize) -> Option<AnyRecord> {
        let records = self.0.lock().unwrap();
        let mut records = records.iter().filter(|(of, _)| *of == program).map(|(_, record)| record);
        let first = records.next()?.clone();
        Some(records.fold(first, |mut sum, record| {
            sum.merge(record).unwrap();
            sum
        }))
    }

    /// The sum for the first program.
    pub fn sum<R: Record>(&self) -> Option<R> {
        self.any(0).map(own)
    }

    /// The newest record of the first program.
    pub fn newest<R: Record>(&self) -> Option<R> {
        let records = self.0.lock().unwrap();
        records.iter().rev().find(|(program, _)| *program == 0).map(|(_, record)| own(record.clone()))
    }
}

fn own<R: Record>(record: AnyRecord) -> R {
    *record.into().expect("the program's own record")
}

impl Sink for Records {
    fn closed(&mut self, Closed { program, record, .. }: Closed<'_>) {
        self.0.lock().unwrap().push((program, record.clone()));
    }

    fn partial(&mut self, epoch: Closed<'_>) {
        self.closed(epoch);
    }
}
