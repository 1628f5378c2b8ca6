//! The controller's side of a program: records of an epoch, from one switch or many, become answers
//! and the parameters of a later epoch.

use std::any::Any;
use std::fmt;
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
    /// The records of one epoch, put together.
    type Epoch: Epoch;

    /// Tasks that it answers, the main one first. By default the program with the earliest place
    /// for a task answers it.
    const TASKS: &'static [Task];
    /// Whether counts just add, so that a record of several epochs or of a part of one is an answer
    /// too. Else it is a gap.
    const ADDS: bool = false;

    /// Whether a record has the shape that this analysis is for.
    fn fits(&self, record: &Self::Record) -> bool;

    /// Takes out of a record what it tells of the next epoch; `None` when it cannot be told.
    fn early(&self, record: &mut Self::Record) -> Option<Self::Early>;

    /// Puts the records of an epoch together that was to be measured with `parameters`.
    /// `edges_named` says whether all switches with hosts are expected.
    fn epoch(
        &self,
        epoch: u64,
        parameters: &Self::Parameters,
        reported: Vec<Reported<'_, Box<Self::Record>, Self::Early>>,
        edges_named: bool,
    ) -> Self::Epoch;

    /// The parameters of epoch `next`, from what an epoch showed; `latest` are those that were sent
    /// last.
    fn decide(&mut self, epoch: &Self::Epoch, latest: &Self::Parameters, next: u64) -> Decision<Self::Parameters>;

    /// The answers of an epoch, without its adaptation; `before` is the epoch before it, when that
    /// is known.
    fn answers(&self, epoch: &Self::Epoch, before: Option<&Self::Epoch>, limits: Limits) -> EpochAnswers;

    /// What an epoch was measured with, and what is decided from it, as people see it; `None` for a
    /// program without parameters.
    fn adaptation(&self, epoch: &Self::Epoch) -> Option<Adaptation>;
}

/// The records of one epoch, put together.
pub trait Epoch: Any + Send {
    fn number(&self) -> u64;
    /// What is missing, and where.
    fn gaps(&self) -> &Vec<SwitchGap>;
    /// Adds to what is missing what is known only now.
    fn gaps_mut(&mut self) -> &mut Vec<SwitchGap>;
}

/// An [`Analysis`] of any program.
pub struct AnyAnalysis {
    analysis: Box<dyn Erased>,
    /// [`Analysis::ADDS`].
    pub adds: bool,
}

/// [`Analysis::Early`] of any program.
pub struct AnyEarly(Box<dyn Any + Send>);

/// [`Analysis::Epoch`] of any program.
pub struct AnyEpoch(Box<dyn Epoch>);

/// [`Analysis`] without its types.
trait Erased: Send {
    fn fits(&self, record: &AnyRecord) -> bool;
    fn early(&self, record: &mut AnyRecord) -> Option<AnyEarly>;
    fn epoch(
        &self,
        epoch: u64,
        parameters: &AnyParameters,
        reported: Vec<Reported<'_, AnyRecord, AnyEarly>>,
        edges_named: bool,
    ) -> Option<AnyEpoch>;
    fn decide(&mut self, epoch: &AnyEpoch, latest: &AnyParameters, next: u64) -> Option<Decision<AnyParameters>>;
    fn answers(&self, epoch: &AnyEpoch, before: Option<&AnyEpoch>, limits: Limits) -> Option<EpochAnswers>;
}

impl<A: Analysis> Erased for A {
    fn fits(&self, record: &AnyRecord) -> bool {
        record.get().is_some_and(|record| Analysis::fits(self, record))
    }

    fn early(&self, record: &mut AnyRecord) -> Option<AnyEarly> {
        Some(AnyEarly(Box::new(Analysis::early(self, record.get_mut()?)?)))
    }

    fn epoch(
        &self,
        epoch: u64,
        parameters: &AnyParameters,
        reported: Vec<Reported<'_, AnyRecord, AnyEarly>>,
        edges_named: bool,
    ) -> Option<AnyEpoch> {
        let typed = |Reported { switch, record, before }| {
            // A record of another program has been refused when it came.
            let record = record.and_then(|record: AnyRecord| record.into().ok_or(Gap::Foreign));
            let before = match before {
                Before::Nothing => Before::Nothing,
                Before::Unknown => Before::Unknown,
                Before::Elsewhere => Before::Elsewhere,
                Before::Early(AnyEarly(early)) => early.downcast_ref().map_or(Before::Unknown, Before::Early),
            };
            Reported { switch, record, before }
        };
        let reported = reported.into_iter().map(typed).collect();
        Some(AnyEpoch(Box::new(Analysis::epoch(self, epoch, parameters.get()?, reported, edges_named))))
    }

    fn decide(&mut self, epoch: &AnyEpoch, latest: &AnyParameters, next: u64) -> Option<Decision<AnyParameters>> {
        let Decision { parameters, why } = Analysis::decide(self, epoch.get()?, latest.get()?, next);
        Some(Decision { parameters: AnyParameters::new(parameters), why })
    }

    fn answers(&self, epoch: &AnyEpoch, before: Option<&AnyEpoch>, limits: Limits) -> Option<EpochAnswers> {
        let epoch = epoch.get()?;
        let answers = Analysis::answers(self, epoch, before.and_then(AnyEpoch::get), limits);
        Some(EpochAnswers { adaptation: Analysis::adaptation(self, epoch), ..answers })
    }
}

impl AnyAnalysis {
    pub fn new<A: Analysis>(analysis: A) -> Self {
        Self { analysis: Box::new(analysis), adds: A::ADDS }
    }

    /// Whether a record is of this program and shape.
    pub fn fits(&self, record: &AnyRecord) -> bool {
        self.analysis.fits(record)
    }

    /// [`Analysis::early`].
    pub fn early(&self, record: &mut AnyRecord) -> Option<AnyEarly> {
        self.analysis.early(record)
    }

    /// [`Analysis::epoch`]; `None` for parameters of another program.
    pub fn epoch(
        &self,
        epoch: u64,
        parameters: &AnyParameters,
        reported: Vec<Reported<'_, AnyRecord, AnyEarly>>,
        edges_named: bool,
    ) -> Option<AnyEpoch> {
        self.analysis.epoch(epoch, parameters, reported, edges_named)
    }

    /// [`Analysis::decide`]; `None` for what is of another program.
    pub fn decide(&mut self, epoch: &AnyEpoch, latest: &AnyParameters, next: u64) -> Option<Decision<AnyParameters>> {
        self.analysis.decide(epoch, latest, next)
    }

    /// The answers of an epoch and how it was measured; `None` for an epoch of another program.
    /// `decided` is what follows from it, with the epoch from which it holds.
    pub fn answers(
        &self,
        epoch: &AnyEpoch,
        before: Option<&AnyEpoch>,
        decided: Option<&(u64, Decision<AnyParameters>)>,
        limits: Limits,
    ) -> Option<EpochAnswers> {
        let mut answers = self.analysis.answers(epoch, before, limits)?;
        if let (Some(adaptation), Some((from, Decision { parameters, why }))) = (&mut answers.adaptation, decided) {
            adaptation.update = parameters.describe().map(|described| (*from, described));
            adaptation.why.clone_from(why);
        }
        Some(answers)
    }
}

impl AnyEpoch {
    pub fn number(&self) -> u64 {
        self.0.number()
    }

    pub fn gaps(&self) -> &Vec<SwitchGap> {
        self.0.gaps()
    }

    pub fn gaps_mut(&mut self) -> &mut Vec<SwitchGap> {
        self.0.gaps_mut()
    }

    /// The epoch, if it is of this type.
    pub fn get<E: Epoch>(&self) -> Option<&E> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl fmt::Debug for AnyEarly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyEarly")
    }
}
