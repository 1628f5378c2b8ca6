//! Parameters by epoch: a controller writes, all replicas of a switch read.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use arrayvec::ArrayVec;

use super::setting::{SettingReader, Settled};
use super::{AnyRecord, Dataplane, DecodeError, Foreign, Parameters, Program, ProgramConfig, ProgramError};
use crate::history::Described;
use crate::lock::Hold;
use crate::pisa::hash::HashFamily;
use crate::pisa::table::{Reader, Shared};

/// Updates that wait for their epoch, and those of the epochs that are running somewhere.
const STEPS: usize = 8;

/// The parameters by epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps<T> {
    start: T,
    /// By epoch.
    steps: ArrayVec<(u64, T), STEPS>,
}

impl<T: Clone> Steps<T> {
    /// The parameters of an epoch.
    pub fn at(&self, epoch: u64) -> &T {
        let before = self.steps.iter().rev().find(|(from, _)| *from <= epoch);
        before.map_or(&self.start, |(_, parameters)| parameters)
    }
}

impl<T> Steps<T> {
    fn all(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.start).chain(self.steps.iter().map(|(_, step)| step))
    }

    /// Takes what holds from an epoch on, and forgets what was to hold from the same or later ones.
    fn add(&mut self, from: u64, parameters: T) {
        self.steps.retain(|(epoch, _)| *epoch < from);
        if self.steps.is_full() {
            self.start = self.steps.remove(0).1;
        }
        self.steps.push((from, parameters));
    }

    fn map<U>(&self, of: impl Fn(&T) -> U) -> Steps<U> {
        Steps { start: of(&self.start), steps: self.steps.iter().map(|(from, step)| (*from, of(step))).collect() }
    }
}

/// The reader's end of what follows from the parameters of each epoch. The writer of the schedule
/// works it out.
pub struct Derived<T> {
    steps: Reader<Steps<Arc<T>>>,
    /// The schedule works things out as long as somebody reads them.
    _follower: Arc<dyn Send + Sync>,
}

impl<T> Derived<T> {
    /// That of an epoch.
    pub fn at(&mut self, epoch: u64) -> &Arc<T> {
        self.steps.load().at(epoch)
    }
}

/// What is worked out of each update before replicas see it.
trait Follow<P>: Send + Sync {
    fn update(&self, from: u64, parameters: &P);
}

struct Follower<T, F> {
    derive: F,
    steps: Mutex<Shared<Steps<Arc<T>>>>,
    /// What was worked out, as long as a reader may have it, so that no reader is the last who does
    /// and frees it.
    retained: Mutex<Vec<Arc<T>>>,
}

impl<T, F> Follower<T, F> {
    /// Retains what was worked out, and frees what nobody reads any more.
    fn retain(&self, derived: impl IntoIterator<Item = Arc<T>>) {
        let mut retained = self.retained.hold();
        retained.retain(|derived| Arc::strong_count(derived) > 1);
        retained.extend(derived);
    }
}

impl<P, T: Send + Sync, F: Fn(&P) -> T + Send + Sync> Follow<P> for Follower<T, F> {
    fn update(&self, from: u64, parameters: &P) {
        let derived = Arc::new((self.derive)(parameters));
        self.retain([derived.clone()]);
        self.steps.hold().update(|steps| steps.add(from, derived));
    }
}

/// The writer's end, of one program as it is configured. An update that comes when its epoch is
/// about to begin, or later, takes effect with the next one.
pub struct Schedule<P: Program> {
    config: P::Config,
    steps: Arc<Mutex<Shared<Steps<P::Parameters>>>>,
    followers: Followers<P::Parameters>,
    settled: Arc<Settled<P::Setting>>,
}

type Followers<P> = Arc<Mutex<Vec<Weak<dyn Follow<P>>>>>;

impl<P: Program> Clone for Schedule<P> {
    fn clone(&self) -> Self {
        let (steps, followers, settled) = (self.steps.clone(), self.followers.clone(), self.settled.clone());
        Self { config: self.config.clone(), steps, followers, settled }
    }
}

impl<P: Program> fmt::Debug for Schedule<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().current().fmt(f)
    }
}

impl<P: Program> Schedule<P> {
    /// `start` holds until an update does.
    pub fn new(config: P::Config, start: P::Parameters) -> Self {
        let steps = Steps { start, steps: ArrayVec::new() };
        let (steps, settled) = (Arc::new(Mutex::new(Shared::new(steps))), Arc::new(Settled::new()));
        Self { config, steps, followers: Arc::default(), settled }
    }

    fn lock(&self) -> MutexGuard<'_, Shared<Steps<P::Parameters>>> {
        self.steps.hold()
    }

    /// Measures epoch number `from` and those after it with `parameters`. Forgets updates for the
    /// same or later epochs.
    ///
    /// # Errors
    /// If the program as it is configured cannot measure with them.
    pub fn update(&self, from: u64, parameters: P::Parameters) -> Result<(), ProgramError> {
        P::fits(&self.config, &parameters)?;
        let mut steps = self.lock();
        self.followers.hold().retain(|follower| {
            let follower = follower.upgrade();
            follower.iter().for_each(|follower| follower.update(from, &parameters));
            follower.is_some()
        });
        steps.update(|steps| steps.add(from, parameters));
        Ok(())
    }

    /// What follows from the parameters, for a reader without time to work it out. Updates take as
    /// much longer.
    pub fn derived<T>(&self, derive: impl Fn(&P::Parameters) -> T + Send + Sync + 'static) -> Derived<T>
    where
        T: Send + Sync + 'static,
    {
        let parameters = self.lock();
        let steps = Shared::new(parameters.current().map(|parameters| Arc::new(derive(parameters))));
        let (reader, all) = (steps.reader(), steps.current().all().cloned().collect());
        let follower = Arc::new(Follower { derive, steps: Mutex::new(steps), retained: Mutex::new(all) });
        let weak: Weak<Follower<_, _>> = Arc::downgrade(&follower);
        self.followers.hold().push(weak);
        Derived { steps: reader, _follower: follower }
    }

    /// The parameters of an epoch, as updated so far.
    pub fn at(&self, epoch: u64) -> P::Parameters {
        self.lock().current().at(epoch).clone()
    }

    /// Decides what the switch measures with next, from the record of all its replicas of an epoch. It
    /// holds from the first epoch on of which no replica has [asked](SettingReader::at) yet.
    pub fn settle(&self, epoch: u64, record: &P::Record) {
        // Where nothing is decided nothing is computed.
        if size_of::<P::Setting>() > 0 {
            self.settled.settle(P::settle(record, &self.at(epoch)));
        }
    }

    /// The end of a replica for what its switch decides alone.
    pub fn setting(&self) -> SettingReader<P::Setting> {
        self.settled.reader()
    }

    /// The end of a replica.
    pub fn reader(&self) -> Reader<Steps<P::Parameters>> {
        self.lock().reader()
    }
}

/// A [`Schedule`] of any program.
pub type AnySchedule = Arc<dyn ErasedSchedule>;

/// [`Schedule`] without its type.
pub trait ErasedSchedule: Send + Sync + fmt::Debug {
    /// [`Schedule::update`] with the byte form of parameters; also an error for other bytes.
    fn update(&self, from: u64, parameters: &[u8]) -> Result<(), DecodeError>;
    /// The byte form of [`Schedule::at`].
    fn at(&self, epoch: u64) -> Vec<u8>;
    /// [`Parameters::describe`] of an epoch's.
    fn describe(&self, epoch: u64) -> Option<Described>;
    /// [`Schedule::settle`]; an error for a record of another program.
    fn settle(&self, epoch: u64, record: &AnyRecord) -> Result<(), Foreign>;
    /// [`Program::dataplane`]: a replica of the switch of this name, which reads this schedule.
    fn dataplane(&self, switch: &str, hashes: &HashFamily) -> Result<Box<dyn Dataplane>, ProgramError>;
    /// The program, as it is configured.
    fn program(&self) -> ProgramConfig;
}

impl<P: Program> ErasedSchedule for Schedule<P> {
    fn update(&self, from: u64, parameters: &[u8]) -> Result<(), DecodeError> {
        Ok(Self::update(self, from, P::Parameters::decode(parameters)?)?)
    }

    fn at(&self, epoch: u64) -> Vec<u8> {
        Self::at(self, epoch).encode()
    }

    fn describe(&self, epoch: u64) -> Option<Described> {
        Parameters::describe(&Self::at(self, epoch))
    }

    fn settle(&self, epoch: u64, record: &AnyRecord) -> Result<(), Foreign> {
        let foreign = Foreign { program: P::NAME, what: "a record" };
        Self::settle(self, epoch, record.get().ok_or(foreign)?);
        Ok(())
    }

    fn dataplane(&self, switch: &str, hashes: &HashFamily) -> Result<Box<dyn Dataplane>, ProgramError> {
        P::dataplane(&self.config, switch, hashes, self)
    }

    fn program(&self) -> ProgramConfig {
        ProgramConfig::new::<P>(self.config.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::chamelemon::{ChameleMon, Config, EncoderParameters};

    #[test]
    fn updates_hold_from_their_epoch_on() {
        let config = Config::default();
        let schedule = Schedule::<ChameleMon>::new(config.clone(), config.parameters());
        let parameters = |sample| EncoderParameters { sample, ..config.parameters() };
        for epoch in 0..20 {
            schedule.update(10 + 2 * epoch, parameters(epoch as u32)).unwrap();
        }
        let sample = |epoch| schedule.at(epoch).sample;
        assert_eq!([48, 49, 47, 1000].map(sample), [19, 19, 18, 19]);
        assert_eq!(sample(10 + 2 * 13), 13, "as many as there is room for");
        schedule.update(40, parameters(500)).unwrap();
        assert_eq!([39, 40, 48].map(sample), [14, 500, 500], "earlier updates for later epochs are forgotten");
        assert!(schedule.update(50, parameters(65_537)).is_err());
        assert_eq!(sample(50), 500);
    }

    /// What follows from parameters is there when the update returns, worked out once by its writer,
    /// for readers of before and after it, and only as long as somebody reads it.
    #[test]
    fn the_writer_works_out_what_follows() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        use std::thread::{self, ThreadId};

        let config = Config::default();
        let schedule = Schedule::<ChameleMon>::new(config.clone(), config.parameters());
        let worked_out = Arc::new(AtomicUsize::new(0));
        let counter = worked_out.clone();
        let derive = move |parameters: &EncoderParameters| -> (EncoderParameters, ThreadId) {
            counter.fetch_add(1, Ordering::Relaxed);
            (*parameters, thread::current().id())
        };
        let mut early = schedule.derived(derive.clone());
        let writer = thread::scope(|scope| {
            let write = || {
                (0..20).for_each(|from| schedule.update(from, config.parameters()).unwrap());
                thread::current().id()
            };
            scope.spawn(write).join().unwrap()
        });
        assert_eq!(worked_out.load(Ordering::Relaxed), 1 + 20);
        let mut late = schedule.derived(derive);
        for epoch in 0..25 {
            let (parameters, by) = &**early.at(epoch);
            assert_eq!((parameters, *by), (&schedule.at(epoch), writer));
            assert_eq!(late.at(epoch).0, schedule.at(epoch));
        }
        let before = worked_out.load(Ordering::Relaxed);
        drop((early, late));
        schedule.update(30, config.parameters()).unwrap();
        assert_eq!(worked_out.load(Ordering::Relaxed), before);
    }

    /// What follows from parameters that are over is freed by the writer, whoever saw it last.
    #[test]
    fn readers_free_nothing() {
        use std::thread::{self, ThreadId};

        struct Noted(Arc<Mutex<Vec<ThreadId>>>);
        impl Drop for Noted {
            fn drop(&mut self) {
                self.0.hold().push(thread::current().id());
            }
        }
        let config = Config::default();
        let schedule = Schedule::<ChameleMon>::new(config.clone(), config.parameters());
        let freed = Arc::<Mutex<Vec<ThreadId>>>::default();
        let noted = Arc::clone(&freed);
        let mut reader = schedule.derived(move |_| Noted(noted.clone()));
        let mut held = ArrayVec::<Arc<Noted>, 3>::new();
        for epoch in 0..40 {
            schedule.update(epoch, config.parameters()).unwrap();
            let read = || {
                if held.is_full() {
                    held.remove(0);
                }
                held.push(reader.at(epoch).clone());
            };
            thread::scope(|scope| scope.spawn(read).join().unwrap());
        }
        let freed = freed.hold();
        assert!(freed.len() > 20 && freed.iter().all(|by| *by == thread::current().id()), "{freed:?}");
    }

    #[test]
    fn updates_of_any_program() {
        let config = Config::default();
        let schedule = Schedule::<ChameleMon>::new(config.clone(), config.parameters());
        let erased: AnySchedule = Arc::new(schedule.clone());
        let parameters = |sample| EncoderParameters { sample, ..config.parameters() }.encode();
        erased.update(7, &parameters(9)).unwrap();
        assert_eq!((schedule.at(7).sample, erased.at(6)), (9, config.parameters().encode()));
        assert!(erased.update(8, &parameters(65_537)).unwrap_err().to_string().contains("sample = 65537"));
        assert!(erased.update(8, &().encode()).is_err());
        assert_eq!(erased.at(8), parameters(9));
    }

    #[test]
    fn parameters_come_as_bytes() {
        let program = crate::program::ProgramConfig::new::<ChameleMon>(Config::default());
        let parameters = |sample| EncoderParameters { sample, ..Config::default().parameters() }.encode();
        assert_eq!(program.fits(&parameters(9)), Ok(()));
        let refused = |bytes: &[u8]| program.fits(bytes).unwrap_err().to_string();
        assert!(refused(&parameters(65_537)).contains("sample = 65537"));
        assert_eq!(refused(&[1, 2]), "it ends after 2 bytes, in the parameters");
        assert_eq!(refused(&[parameters(9), vec![0]].concat()), "1 bytes too many");
    }
}
