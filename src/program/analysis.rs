//! The controller's side of a program: records of an epoch, from one switch or many, become what
//! its history keeps and the parameters of a later epoch.

use std::ops::Deref;
use std::sync::Arc;

use super::{DecodeError, Parameters, Record};
use crate::answers::{Answers, Task};
use crate::history::{Adaptation, Gap, SwitchGap};
use crate::pisa::hash::HashFamily;

/// What is known of one switch when an epoch closes.
pub struct Reported<'a, R> {
    pub switch: Arc<str>,
    /// Its record of the epoch, or why it is absent.
    pub record: Result<Box<R>, Gap>,
    pub before: Before<&'a R>,
}

/// What the record of the epoch before says about an epoch ([`Record::split_next`]): packets that left
/// before the transit time of its beginning was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before<T> {
    /// There was no epoch before.
    Nothing,
    Part(T),
    Unknown,
    /// Not all packets leave by ports that are measured.
    Elsewhere,
}

impl<T> Before<T> {
    /// The same with another part; unknown without a part.
    pub fn with<U>(self, part: Option<U>) -> Before<U> {
        match self {
            Self::Nothing => Before::Nothing,
            Self::Part(_) => part.map_or(Before::Unknown, Before::Part),
            Self::Unknown => Before::Unknown,
            Self::Elsewhere => Before::Elsewhere,
        }
    }
}

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
    /// The result of the records of one epoch.
    type Network: Send + 'static;
    /// What the history keeps of an epoch: compacted, and enough to answer every task.
    type Kept: Answers;

    /// Tasks that it answers, the main one first. By default the program with the earliest place
    /// for a task answers it.
    const TASKS: &'static [Task];
    /// Whether counts just add, so that a record of several epochs or of a part of one is an answer
    /// too. Else it is a gap.
    const ADDS: bool = false;
    /// Whether records of later epochs count packets of an epoch that left late, so that its answers
    /// are final only when these records have come.
    const COUNTS_LATE: bool = false;

    /// Whether a record has the shape that this analysis is for.
    fn fits(&self, record: &Self::Record) -> bool;

    /// Puts the records of an epoch together that was to be measured with `parameters`.
    fn epoch(
        &mut self,
        epoch: u64,
        parameters: &Self::Parameters,
        reported: Vec<Reported<'_, Self::Record>>,
    ) -> Epoch<Self::Network>;

    /// The parameters of epoch `next`, from what an epoch showed; `latest` are those that were sent
    /// last.
    fn decide(
        &mut self,
        epoch: &Epoch<Self::Network>,
        latest: &Self::Parameters,
        next: u64,
    ) -> Decision<Self::Parameters>;

    /// What an epoch was measured with, and what is decided from it, as people see it; `None` for a
    /// program without parameters.
    fn adaptation(&self, epoch: &Epoch<Self::Network>) -> Option<Adaptation>;

    /// What the history keeps.
    fn keep(&mut self, epoch: Epoch<Self::Network>) -> Self::Kept;

    /// What the history kept of an epoch, from the byte form that an archive has of it
    /// ([`Kept::archived`](crate::history::Kept::archived)). `hashes` are those of the switches, where
    /// they are known. What it allocates follows from the configuration and the number of bytes.
    ///
    /// # Errors
    /// If these are not such bytes, or the hash functions are needed and not there.
    fn restore(&mut self, _bytes: &[u8], _hashes: Option<&HashFamily>) -> Result<Self::Kept, DecodeError> {
        Err(DecodeError::NoForm)
    }
}

/// The records of one epoch, put together.
#[derive(Clone, Debug)]
pub struct Epoch<T> {
    pub number: u64,
    /// What is missing, and where. Some of it is known only after the records were put together.
    pub gaps: Vec<SwitchGap>,
    /// The switches whose records it is made of.
    pub switches: Vec<Arc<str>>,
    /// What the program makes of them.
    pub network: T,
}

impl<T> Deref for Epoch<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.network
    }
}
