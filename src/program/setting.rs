//! Settings that a switch decides alone: from its own record, for all of its replicas, with a controller
//! or without one.
//!
//! The collector settles a new setting when the replicas of an epoch have merged. By then the next epoch
//! is running, on some cores at least. So the setting holds from the first epoch on that no core has
//! begun: the second one after that of the record when the collector is in time, a later one when it is
//! late. Until then the earlier setting holds, at first the default.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrayvec::ArrayVec;

use crate::lock::Hold;
use crate::pisa::table::{Reader, Shared};

/// Settings that replicas may still read: more than there are banks by which the collector can be behind,
/// as it then settles as many at once.
const KEPT: usize = 8;
/// Epochs of which it is known which setting they have, a power of two.
const EPOCHS: usize = 16;

/// The newest settings, numbered in their order.
#[derive(Clone, Debug)]
struct Newest<T> {
    /// The number of the first.
    first: u32,
    settings: ArrayVec<T, KEPT>,
}

impl<T: Default> Newest<T> {
    fn default() -> Self {
        Self { first: 0, settings: std::iter::once(T::default()).collect() }
    }
}

impl<T> Newest<T> {
    fn push(&mut self, setting: T) {
        if self.settings.is_full() {
            self.settings.remove(0);
            self.first = self.first.wrapping_add(1);
        }
        self.settings.push(setting);
    }

    fn last(&self) -> u32 {
        self.first.wrapping_add(self.settings.len() as u32 - 1)
    }

    fn has(&self, number: u32) -> bool {
        (number.wrapping_sub(self.first) as usize) < self.settings.len()
    }

    /// A setting that is gone is the first that is not.
    fn at(&self, number: u32) -> &T {
        let place = if self.has(number) { number.wrapping_sub(self.first) } else { 0 };
        &self.settings[place as usize]
    }
}

/// By epoch modulo their number: the lowest bits of the epoch, and the number of its setting.
type Taken = Arc<[AtomicU64; EPOCHS]>;

/// The writer's end.
#[derive(Debug)]
pub(super) struct Settled<T> {
    newest: Mutex<Shared<Newest<T>>>,
    taken: Taken,
}

impl<T: Clone + Default + PartialEq> Settled<T> {
    pub fn new() -> Self {
        Self { newest: Mutex::new(Shared::new(Newest::default())), taken: Taken::default() }
    }

    /// From the first epoch on of which no replica has asked yet, `setting` holds.
    pub fn settle(&self, setting: T) {
        let mut newest = self.newest.hold();
        let current = newest.current();
        if *current.at(current.last()) != setting {
            newest.update(|newest| newest.push(setting));
        }
    }

    pub fn reader(&self) -> SettingReader<T> {
        SettingReader { newest: self.newest.hold().reader(), taken: self.taken.clone() }
    }
}

/// A replica's end.
#[derive(Debug)]
pub struct SettingReader<T> {
    newest: Reader<Newest<T>>,
    taken: Taken,
}

impl<T> SettingReader<T> {
    /// The setting of an epoch. The first replica of the switch that asks decides: it gets the newest
    /// setting, and so do all that ask later. To be called once for an epoch, in
    /// [`Dataplane::enter`](super::Dataplane::enter) or [`prepare`](super::Dataplane::prepare). It
    /// does not wait.
    pub fn at(&mut self, epoch: u64) -> &T {
        let (slot, epoch) = (&self.taken[epoch as usize & (EPOCHS - 1)], u64::from(epoch as u32) << 32);
        let mut taken = slot.load(Ordering::Acquire);
        let number = loop {
            // What another replica took was there for it, so it is here as well. It is gone where the
            // clock was set back to an epoch of long ago.
            let newest = self.newest.load();
            let number = taken as u32;
            if taken ^ u64::from(number) == epoch && newest.has(number) {
                break number;
            }
            let own = newest.last();
            let proposed = epoch | u64::from(own);
            match slot.compare_exchange(taken, proposed, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break own,
                Err(other) => taken = other,
            }
        };
        self.newest.load().at(number)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn a_setting_holds_from_the_first_epoch_that_nobody_has_begun() {
        let settled = Settled::<u32>::new();
        let [mut one, mut other] = [(); 2].map(|()| settled.reader());
        assert_eq!((*one.at(7), *one.at(8)), (0, 0), "the default");
        settled.settle(5);
        assert_eq!((*other.at(7), *other.at(8)), (0, 0), "one core has begun");
        assert_eq!((*other.at(9), *one.at(9), *one.at(10)), (5, 5, 5));
        // The collector was late: epochs 11 to 14 go on with what there was.
        (11..15).for_each(|epoch| assert_eq!(*one.at(epoch), 5));
        (20..30).for_each(|setting| settled.settle(setting));
        assert_eq!((*one.at(15), *other.at(15)), (29, 29));
        assert_eq!((*other.at(14), *one.at(14)), (29, 29), "what core one had is gone");
        // The clock was set back.
        assert_eq!((*other.at(3), *one.at(3)), (29, 29));
    }

    /// However cores and collector overtake each other, all cores measure an epoch with one setting, and
    /// none goes back to an earlier one.
    #[test]
    fn replicas_agree() {
        const EPOCHS: u64 = 5000;
        let settled = Settled::<u64>::new();
        let (together, running, collected) = (Barrier::new(3), AtomicU64::new(0), AtomicU64::new(0));
        let wait_for = |epoch: u64, of: &AtomicU64| {
            while of.load(Ordering::Relaxed) < epoch {
                thread::yield_now();
            }
        };
        let seen: Vec<Vec<u64>> = thread::scope(|scope| {
            let replica = || {
                let (mut reader, together, running, collected) = (settled.reader(), &together, &running, &collected);
                let measure = move |epoch: u64| {
                    // There are no banks by which the collector could be further behind.
                    wait_for(epoch.saturating_sub(3), collected);
                    let setting = *reader.at(epoch);
                    running.fetch_max(epoch, Ordering::Relaxed);
                    together.wait();
                    setting
                };
                scope.spawn(move || (1..EPOCHS).map(measure).collect())
            };
            let replicas: Vec<_> = (0..3).map(|_| replica()).collect();
            for epoch in 1..EPOCHS {
                wait_for(epoch, &running);
                settled.settle(epoch);
                collected.store(epoch, Ordering::Relaxed);
            }
            replicas.into_iter().map(|replica| replica.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|settings| *settings == seen[0]) && seen[0].is_sorted());
        assert!(seen[0].last() >= Some(&(EPOCHS - 4)), "{:?}", seen[0].last());
    }
}
