//! The answers of a run that has an end: all epochs of one switch as one.

use std::any::Any;
use std::fmt;

use rustc_hash::FxHashMap;

use super::AnyRecord;
use super::answers::{FlowAnswers, Losses, Reasons};
use crate::wire::Flow;

/// What of a series of epochs their merged record does not hold.
pub trait Series: Default + fmt::Debug + Send + Sync + 'static {
    type Record;
    /// Adds an epoch.
    fn add(&mut self, record: &Self::Record);
}

/// Nothing.
#[derive(Debug)]
pub struct NoSeries<R>(std::marker::PhantomData<fn() -> R>);

impl<R> Default for NoSeries<R> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<R: fmt::Debug + 'static> Series for NoSeries<R> {
    type Record = R;

    fn add(&mut self, _: &R) {}
}

/// A [`Series`] of any program.
#[derive(Debug)]
pub struct AnySeries(Box<dyn Erased>);

trait Erased: Any + fmt::Debug + Send + Sync {
    fn add(&mut self, record: &AnyRecord);
}

impl<S: Series> Erased for S
where
    S::Record: super::Record,
{
    fn add(&mut self, record: &AnyRecord) {
        record.get().into_iter().for_each(|record| Series::add(self, record));
    }
}

impl AnySeries {
    pub fn new<S: Series>() -> Self
    where
        S::Record: super::Record,
    {
        Self(Box::new(S::default()))
    }

    /// The series, if it is of this type.
    pub fn get<S: Series>(&self) -> Option<&S> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Adds an epoch. A record of another program adds nothing.
    pub fn add(&mut self, record: &AnyRecord) {
        self.0.add(record);
    }
}

/// What a program answers about a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunAnswers {
    pub heavy: FlowAnswers,
    /// The losses of a program that finds some, and why they are not complete.
    pub losses: Option<(Losses, Reasons)>,
    /// Weighted mean relative error of the estimated distribution of flow sizes, when the truth is
    /// known.
    pub distribution_wmre: Option<f64>,
}

/// Exact counts by flow.
pub type Truth = FxHashMap<Flow, u64>;
