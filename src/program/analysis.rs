//! The controller's side of a program: records of an epoch, from one switch or many, become answers
//! and the parameters of a later epoch.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use super::answers::{Adaptation, EpochAnswers, Gap, Limits, SwitchGap, Task};
use super::{AnyParameters, AnyRecord, Parameters, Record};

/// What is known of one switch when an epoch closes.
pub struct Reported<'a, R, E> {
    pub switch: Arc<str>,
    /// Its record of the epoch, or why there is none.
    pub record: Result<R, Gap>,
    pub before: Before<'a, E>,
}

impl<'a> Reported<'a, AnyRecord, AnyEarly> {
    fn typed<R: Record, E: 'static>(self) -> Reported<'a, Box<R>, E> {
        // A record of another program has been refused when it came.
        let record = self.record.and_then(|record| record.into().ok_or(Gap::Foreign));
        let before = match self.before {
            Before::Nothing => Before::Nothing,
            Before::Unknown => Before::Unknown,
            Before::Elsewhere => Before::Elsewhere,
            Before::Early(early) => early.downcast_ref().map_or(Before::Unknown, Before::Early),
        };
        Reported { switch: self.switch, record, before }
    }
}

/// What left in an epoch before the transit time of its beginning was over. The record of the epoch
/// before tells of it.
pub enum Before<'a, E> {
    /// There was no epoch before.
    Nothing,
    Early(&'a E),
    Unknown,
    /// Not all packets leave by ports that are measured.
    Elsewhere,
}

impl<E> Clone for Before<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Before<'_, E> {}

/// What is to be measured with, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<P> {
    pub parameters: P,
    /// In words, for people.
    pub why: String,
}

/// One program's analysis of a network's epochs, in their order.
pub trait Analysis: Send + 'static {
    type Record: Record;
    type Parameters: Parameters;
    /// What the record of one epoch tells of the next one.
    type Early: Send + 'static;
    /// The result of the records of one epoch.
    type Network: Send + 'static;

    /// Tasks that it answers, the main one first. By default the program with the earliest place
    /// for a task answers it.
    const TASKS: &'static [Task];
    /// Whether counts just add, so that a record of several epochs or of a part of one is an answer
    /// too. Else it is a gap.
    const ADDS: bool = false;
    /// Whether records of later epochs count packets of an epoch that left late, so that its answers are final only
    /// when these records have come.
    const COUNTS_LATE: bool = false;

    /// Whether a record has the shape that this analysis is for.
    fn fits(&self, record: &Self::Record) -> bool;

    /// Takes out of a record what it tells of the next epoch; `None` when it cannot be told.
    fn early(&self, record: &mut Self::Record) -> Option<Self::Early>;

    /// Puts the records of an epoch together that was to be measured with `parameters`.
    /// `edges_named` says whether all switches with hosts are expected.
    fn epoch(
        &mut self,
        epoch: u64,
        parameters: &Self::Parameters,
        reported: Vec<Reported<'_, Box<Self::Record>, Self::Early>>,
        edges_named: bool,
    ) -> Epoch<Self::Network>;

    /// The parameters of epoch `next`, from what an epoch showed; `latest` are those that were sent
    /// last.
    fn decide(
        &mut self,
        epoch: &Epoch<Self::Network>,
        latest: &Self::Parameters,
        next: u64,
    ) -> Decision<Self::Parameters>;

    /// The answers of an epoch, without its adaptation; `before` is the epoch before it, when that
    /// is known.
    fn answers(
        &self,
        epoch: &Epoch<Self::Network>,
        before: Option<&Epoch<Self::Network>>,
        limits: Limits,
    ) -> EpochAnswers;

    /// What an epoch was measured with, and what is decided from it, as people see it; `None` for a
    /// program without parameters.
    fn adaptation(&self, epoch: &Epoch<Self::Network>) -> Option<Adaptation>;
}

/// The records of one epoch, put together.
#[derive(Clone, Debug)]
pub struct Epoch<T> {
    pub number: u64,
    /// What is missing, and where. Some of it is known only after the records were put together.
    pub gaps: Vec<SwitchGap>,
    /// What the program makes of them.
    pub network: T,
}

impl<T> Deref for Epoch<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.network
    }
}

/// An [`Analysis`] of any program.
pub type AnyAnalysis = Box<dyn ErasedAnalysis>;

/// [`Analysis::Early`] of any program.
pub type AnyEarly = Box<dyn Any + Send>;

/// An [`Epoch`] of any program.
pub type AnyEpoch = Box<dyn ErasedEpoch>;

/// [`Epoch`] without its type.
pub trait ErasedEpoch: Any + Send {
    fn number(&self) -> u64;
    fn gaps(&self) -> &Vec<SwitchGap>;
    fn gaps_mut(&mut self) -> &mut Vec<SwitchGap>;
}

impl<T: Send + 'static> ErasedEpoch for Epoch<T> {
    fn number(&self) -> u64 {
        self.number
    }

    fn gaps(&self) -> &Vec<SwitchGap> {
        &self.gaps
    }

    fn gaps_mut(&mut self) -> &mut Vec<SwitchGap> {
        &mut self.gaps
    }
}

impl dyn ErasedEpoch {
    /// The epoch, if it is of this type.
    pub fn get<E: 'static>(&self) -> Option<&E> {
        (self as &dyn Any).downcast_ref()
    }
}

/// [`Analysis`] without its types. What is of another program is `None`.
pub trait ErasedAnalysis: Send {
    /// [`Analysis::ADDS`].
    fn adds(&self) -> bool;
    /// [`Analysis::COUNTS_LATE`].
    fn counts_late(&self) -> bool;
    /// Whether a record is of this program and shape.
    fn fits(&self, record: &AnyRecord) -> bool;
    /// [`Analysis::early`].
    fn early(&self, record: &mut AnyRecord) -> Option<AnyEarly>;
    /// [`Analysis::epoch`].
    fn epoch(
        &mut self,
        epoch: u64,
        parameters: &AnyParameters,
        reported: Vec<Reported<'_, AnyRecord, AnyEarly>>,
        edges_named: bool,
    ) -> Option<AnyEpoch>;
    /// [`Analysis::decide`].
    fn decide(&mut self, epoch: &AnyEpoch, latest: &AnyParameters, next: u64) -> Option<Decision<AnyParameters>>;
    /// The answers of an epoch and how it was measured. `decided` is what follows from it, with the
    /// epoch from which it holds.
    fn answers(
        &self,
        epoch: &AnyEpoch,
        before: Option<&AnyEpoch>,
        decided: Option<&(u64, Decision<AnyParameters>)>,
        limits: Limits,
    ) -> Option<EpochAnswers>;
}

impl<A: Analysis> ErasedAnalysis for A {
    fn adds(&self) -> bool {
        A::ADDS
    }

    fn counts_late(&self) -> bool {
        A::COUNTS_LATE
    }

    fn fits(&self, record: &AnyRecord) -> bool {
        record.get().is_some_and(|record| Analysis::fits(self, record))
    }

    fn early(&self, record: &mut AnyRecord) -> Option<AnyEarly> {
        Some(Box::new(Analysis::early(self, record.get_mut()?)?))
    }

    fn epoch(
        &mut self,
        epoch: u64,
        parameters: &AnyParameters,
        reported: Vec<Reported<'_, AnyRecord, AnyEarly>>,
        edges_named: bool,
    ) -> Option<AnyEpoch> {
        let reported = reported.into_iter().map(Reported::typed).collect();
        Some(Box::new(Analysis::epoch(self, epoch, parameters.get()?, reported, edges_named)))
    }

    fn decide(&mut self, epoch: &AnyEpoch, latest: &AnyParameters, next: u64) -> Option<Decision<AnyParameters>> {
        let Decision { parameters, why } = Analysis::decide(self, epoch.get()?, latest.get()?, next);
        Some(Decision { parameters: AnyParameters::new(parameters), why })
    }

    fn answers(
        &self,
        epoch: &AnyEpoch,
        before: Option<&AnyEpoch>,
        decided: Option<&(u64, Decision<AnyParameters>)>,
        limits: Limits,
    ) -> Option<EpochAnswers> {
        let epoch = epoch.get()?;
        let answers = Analysis::answers(self, epoch, before.and_then(|before| before.get()), limits);
        let mut adaptation = Analysis::adaptation(self, epoch);
        if let (Some(adaptation), Some((from, Decision { parameters, why }))) = (&mut adaptation, decided) {
            adaptation.update = parameters.describe().map(|described| (*from, described));
            adaptation.why.clone_from(why);
        }
        Some(EpochAnswers { adaptation, ..answers })
    }
}
