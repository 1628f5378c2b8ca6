//! Registers as banks leave a switch, for whoever reads them beside the records. The collector's
//! thread copies them before it clears a bank, so no worker waits.

use std::sync::{Arc, Mutex};

use super::epoch::End;
use crate::lock::Hold;
use crate::pisa::ArrayCells;

/// Most bytes of cells in one dump: its JSON form takes up to four times as many.
pub const MAX_DUMP_BYTES: usize = 8 << 20;

/// The bank that a copy is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankOrigin {
    /// Places of the replica and of the program in the configuration.
    pub replica: usize,
    pub program: usize,
    /// The epochs that it covers, or is a part of.
    pub first: u64,
    pub last: u64,
    /// Number among the banks of the replica's epoch, from 0. A program without sub-epochs has one.
    pub part: u32,
    pub end: End,
}

/// A copy of a bank's arrays.
#[derive(Clone, Debug)]
pub struct BankCells {
    pub of: BankOrigin,
    pub arrays: Vec<ArrayCells>,
}

/// Receiver of registers. It runs on the collector's thread and must not wait.
pub trait RegisterSink: Send {
    /// A bank has come; `arrays` copies its registers.
    fn bank(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>);
    /// The switch goes on with other programs.
    fn renewed(&mut self) {}
}

/// Why there is no dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    #[error("another dump of registers is under way; try again when it has ended")]
    Busy,
    #[error("the registers take more than {} MiB, the most that one dump holds; dump one program", MAX_DUMP_BYTES >> 20)]
    TooLarge,
    #[error("the switch went on with other programs meanwhile; try again")]
    Renewed,
}

/// Copies the registers of one epoch on request, for one request at a time.
#[derive(Clone, Default)]
pub struct RegisterTap(Arc<Mutex<Option<Request>>>);

/// What is asked for, and what has come of it.
struct Request {
    programs: Vec<usize>,
    replicas: usize,
    /// The epoch that is copied; `None` before the first bank.
    epoch: Option<u64>,
    banks: Vec<BankCells>,
    failed: Option<DumpError>,
}

/// A request that waits. Dropping it makes room for the next one.
pub struct Dump(RegisterTap);

impl RegisterTap {
    /// Asks for the registers of these programs in all replicas, of the next epoch that ends.
    ///
    /// # Errors
    /// While another request waits.
    pub fn ask(&self, programs: Vec<usize>, replicas: usize) -> Result<Dump, DumpError> {
        let mut request = self.0.hold();
        if request.is_some() {
            return Err(DumpError::Busy);
        }
        *request = Some(Request { programs, replicas, epoch: None, banks: Vec::new(), failed: None });
        Ok(Dump(self.clone()))
    }
}

impl Dump {
    /// The banks of one epoch, once all have come.
    pub fn poll(&self) -> Option<Result<Vec<BankCells>, DumpError>> {
        let mut request = self.0.0.hold();
        let request = request.as_mut()?;
        match request.failed.take() {
            Some(error) => Some(Err(error)),
            None => request.is_done().then(|| Ok(std::mem::take(&mut request.banks))),
        }
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        *self.0.0.hold() = None;
    }
}

impl Request {
    fn has(&self, replica: usize, program: usize) -> bool {
        let is_last = |bank: &&BankCells| bank.of.end != End::SubEpoch;
        self.banks.iter().filter(is_last).any(|bank| (bank.of.replica, bank.of.program) == (replica, program))
    }

    fn is_done(&self) -> bool {
        let mut all =
            self.programs.iter().flat_map(|program| (0..self.replicas).map(move |replica| (replica, *program)));
        !self.banks.is_empty() && all.all(|(replica, program)| self.has(replica, program))
    }

    /// Takes a bank of the epoch that is copied. A replica that is already in a later epoch moves the
    /// request there, so that all banks are of one epoch.
    fn take(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>) {
        if self.failed.is_some() || !self.programs.contains(&of.program) || self.has(of.replica, of.program) {
            return;
        }
        let epoch = *self.epoch.get_or_insert(of.last);
        if of.last < epoch {
            return;
        }
        if of.first > epoch {
            self.restart(of.last);
        }
        let before = |bank: &&BankCells| (bank.of.replica, bank.of.program) == (of.replica, of.program);
        if self.banks.iter().filter(before).count() != of.part as usize {
            // Parts before this one came before the request.
            return self.restart(of.last + 1);
        }
        self.banks.push(BankCells { of, arrays: arrays() });
        let bytes = self.banks.iter().flat_map(|bank| &bank.arrays).map(|array| array.bytes.len()).sum::<usize>();
        if bytes > MAX_DUMP_BYTES {
            self.fail(DumpError::TooLarge);
        }
    }

    fn restart(&mut self, epoch: u64) {
        self.epoch = Some(epoch);
        self.banks.clear();
    }

    fn fail(&mut self, error: DumpError) {
        self.banks.clear();
        self.failed = Some(error);
    }
}

impl RegisterSink for RegisterTap {
    fn bank(&mut self, of: BankOrigin, arrays: &dyn Fn() -> Vec<ArrayCells>) {
        if let Some(request) = self.0.hold().as_mut().filter(|request| !request.is_done()) {
            request.take(of, arrays);
        }
    }

    fn renewed(&mut self) {
        if let Some(request) = self.0.hold().as_mut().filter(|request| !request.is_done()) {
            request.fail(DumpError::Renewed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(replica: usize, program: usize, epoch: u64) -> BankOrigin {
        BankOrigin { replica, program, first: epoch, last: epoch, part: 0, end: End::Epoch }
    }

    fn cells(bytes: usize) -> Vec<ArrayCells> {
        vec![ArrayCells { cells: bytes as u64, field_bits: vec![8], bytes: vec![0; bytes] }]
    }

    fn send(tap: &mut RegisterTap, of: BankOrigin) {
        tap.bank(of, &|| cells(1));
    }

    fn origins(dump: &Dump) -> Option<Result<Vec<BankOrigin>, DumpError>> {
        Some(dump.poll()?.map(|banks| banks.into_iter().map(|bank| bank.of).collect()))
    }

    /// Whatever came before the request: all banks are of one epoch, each program's and replica's once.
    #[test]
    fn a_dump_is_of_one_epoch() {
        let mut tap = RegisterTap::default();
        send(&mut tap, origin(0, 0, 4));
        let dump = tap.ask(vec![0, 1], 2).unwrap();
        assert!(matches!(tap.ask(vec![0], 1), Err(DumpError::Busy)));
        // Program 0 of replica 0 was there before, so epoch 4 will not do.
        for of in [origin(1, 0, 4), origin(0, 1, 4), origin(0, 0, 5), origin(1, 0, 5), origin(0, 2, 5), origin(1, 1, 5)]
        {
            send(&mut tap, of);
            assert!(dump.poll().is_none());
        }
        let late = BankOrigin { first: 5, ..origin(0, 1, 6) };
        send(&mut tap, late);
        assert_eq!(origins(&dump), Some(Ok(vec![origin(0, 0, 5), origin(1, 0, 5), origin(1, 1, 5), late])));
        drop(dump);
        assert!(tap.ask(vec![0], 1).is_ok());
    }

    /// All parts of an epoch that is cut, or none.
    #[test]
    fn sub_epochs_are_parts() {
        let mut tap = RegisterTap::default();
        let dump = tap.ask(vec![0], 1).unwrap();
        let part = |epoch, part, end| BankOrigin { part, end, ..origin(0, 0, epoch) };
        for of in [part(7, 1, End::SubEpoch), part(7, 2, End::Epoch), part(8, 0, End::SubEpoch)] {
            send(&mut tap, of);
            assert!(dump.poll().is_none());
        }
        send(&mut tap, part(8, 1, End::Epoch));
        send(&mut tap, part(9, 0, End::SubEpoch));
        assert_eq!(origins(&dump), Some(Ok(vec![part(8, 0, End::SubEpoch), part(8, 1, End::Epoch)])));
    }

    #[test]
    fn a_dump_has_bounds() {
        let mut tap = RegisterTap::default();
        let dump = tap.ask(vec![0], 2).unwrap();
        tap.bank(origin(0, 0, 1), &|| cells(MAX_DUMP_BYTES));
        assert!(dump.poll().is_none());
        tap.bank(origin(1, 0, 1), &|| cells(1));
        assert_eq!(origins(&dump), Some(Err(DumpError::TooLarge)));
        drop(dump);
        let dump = tap.ask(vec![0], 2).unwrap();
        send(&mut tap, origin(0, 0, 2));
        tap.renewed();
        assert_eq!(origins(&dump), Some(Err(DumpError::Renewed)));
        // Nobody asks: nothing is copied.
        drop(dump);
        tap.bank(origin(0, 0, 3), &|| panic!("copied"));
    }
}
