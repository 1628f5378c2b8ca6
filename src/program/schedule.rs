//! Parameters by epoch: a controller writes, all replicas of a switch read.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use arrayvec::ArrayVec;

use super::{AnyParameters, Program, ProgramConfig, ProgramError};
use crate::lock::Hold;
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

/// The writer's end, of one program as it is configured. An update that comes when its epoch is
/// about to begin, or later, takes effect with the next one.
pub struct Schedule<P: Program> {
    config: P::Config,
    steps: Arc<Mutex<Shared<Steps<P::Parameters>>>>,
}

impl<P: Program> Clone for Schedule<P> {
    fn clone(&self) -> Self {
        Self { config: self.config.clone(), steps: self.steps.clone() }
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
        Self { config, steps: Arc::new(Mutex::new(Shared::new(steps))) }
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
        self.lock().update(|Steps { start, steps }| {
            steps.retain(|(epoch, _)| *epoch < from);
            if steps.is_full() {
                *start = steps.remove(0).1;
            }
            steps.push((from, parameters));
        });
        Ok(())
    }

    /// The parameters of an epoch, as updated so far.
    pub fn at(&self, epoch: u64) -> P::Parameters {
        self.lock().current().at(epoch).clone()
    }

    /// The end of a replica.
    pub fn reader(&self) -> Reader<Steps<P::Parameters>> {
        self.lock().reader()
    }
}

/// A [`Schedule`] of any program.
pub type AnySchedule = Arc<dyn ErasedSchedule>;

/// [`Schedule`] without its type.
pub trait ErasedSchedule: Any + Send + Sync + fmt::Debug {
    /// [`Schedule::update`]; also an error for parameters of another program.
    fn update(&self, from: u64, parameters: &AnyParameters) -> Result<(), ProgramError>;
    /// [`Schedule::at`].
    fn at(&self, epoch: u64) -> AnyParameters;
    /// The program, as it is configured.
    fn program(&self) -> ProgramConfig;
}

impl<P: Program> ErasedSchedule for Schedule<P> {
    fn update(&self, from: u64, parameters: &AnyParameters) -> Result<(), ProgramError> {
        Self::update(self, from, own::<P>(parameters)?.clone())
    }

    fn at(&self, epoch: u64) -> AnyParameters {
        AnyParameters::new(Self::at(self, epoch))
    }

    fn program(&self) -> ProgramConfig {
        ProgramConfig::new::<P>(self.config.clone())
    }
}

impl dyn ErasedSchedule {
    /// The schedule, if it is of this program.
    pub(super) fn get<P: Program>(&self) -> Option<&Schedule<P>> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The parameters, which are to be of this program.
pub(super) fn own<P: Program>(parameters: &AnyParameters) -> Result<&P::Parameters, ProgramError> {
    let foreign = ProgramError::Combination { program: P::NAME, why: "the parameters are of another program" };
    parameters.get().ok_or(foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Parameters;
    use crate::program::chamelemon::{ChameleMon, Config, Runtime};

    fn any(parameters: impl Parameters) -> AnyParameters {
        AnyParameters::new(parameters)
    }

    #[test]
    fn updates_hold_from_their_epoch_on() {
        let config = Config::default();
        let schedule = Schedule::<ChameleMon>::new(config.clone(), config.runtime());
        let runtime = |sample| Runtime { sample, ..config.runtime() };
        for epoch in 0..20 {
            schedule.update(10 + 2 * epoch, runtime(epoch as u32)).unwrap();
        }
        let sample = |epoch| schedule.at(epoch).sample;
        assert_eq!([48, 49, 47, 1000].map(sample), [19, 19, 18, 19]);
        assert_eq!(sample(10 + 2 * 13), 13, "as many as there is room for");
        schedule.update(40, runtime(500)).unwrap();
        assert_eq!([39, 40, 48].map(sample), [14, 500, 500], "earlier updates for later epochs are forgotten");
        assert!(schedule.update(50, runtime(65_537)).is_err());
        assert_eq!(sample(50), 500);
    }

    #[test]
    fn updates_of_any_program() {
        let config = Config::default();
        let schedule = Schedule::<ChameleMon>::new(config.clone(), config.runtime());
        let erased: AnySchedule = Arc::new(schedule.clone());
        let runtime = |sample| any(Runtime { sample, ..config.runtime() });
        erased.update(7, &runtime(9)).unwrap();
        assert_eq!((schedule.at(7).sample, erased.at(6)), (9, any(config.runtime())));
        assert!(erased.update(8, &runtime(65_537)).unwrap_err().to_string().contains("sample = 65537"));
        assert!(erased.update(8, &any(())).is_err());
        assert_eq!(erased.at(8), runtime(9));
    }

    #[test]
    fn parameters_come_as_bytes() {
        let program = crate::program::ProgramConfig::new::<ChameleMon>(Config::default());
        let runtime = |sample| any(Runtime { sample, ..Config::default().runtime() });
        assert_eq!(program.parameters(&runtime(9).encode()), Ok(runtime(9)));
        let refused = |bytes: &[u8]| program.parameters(bytes).unwrap_err().to_string();
        assert!(refused(&runtime(65_537).encode()).contains("sample = 65537"));
        assert_eq!(refused(&[1, 2]), "it ends after 2 bytes, in the parameters");
        assert_eq!(refused(&[runtime(9).encode(), vec![0]].concat()), "1 bytes too many");
    }
}
