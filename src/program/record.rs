//! Records: what leaves a switch at the end of an epoch.

use std::any::Any;
use std::fmt;

use super::Strays;
use crate::pisa::hash::HashFamily;

/// Maximum number of replicas of a switch, and so of records that are merged before they leave it.
pub const MAX_REPLICAS: usize = 128;

/// One program's measurement over an epoch. Records of replicas, switches and epochs merge.
pub trait Record: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The name of the record's program.
    const PROGRAM: &'static str;

    /// Adds another replica's, switch's or epoch's record.
    ///
    /// # Errors
    /// If the other one is of another shape. This one is then as it was.
    fn merge(&mut self, other: &Self) -> Result<(), MergeError>;

    /// Adds the same replica's record of a later part of the epoch.
    ///
    /// # Errors
    /// If it is of another shape. This one is then as it was.
    fn append(&mut self, later: &Self) -> Result<(), MergeError> {
        self.merge(later)
    }

    /// The byte form: versioned, and one only for each record.
    fn encode(&self) -> Vec<u8>;

    /// Packets that were counted outside their own epoch, if the program can have such.
    fn strays(&self) -> Option<&Strays> {
        None
    }

    fn strays_mut(&mut self) -> Option<&mut Strays> {
        None
    }

    /// Splits off the part about the epoch after the record's own: packets that left before the transit
    /// time of that epoch's beginning was over. Called before the record is analysed. `None` if there
    /// is no such part, or it is not known.
    fn split_next(&mut self) -> Option<Self> {
        None
    }

    /// Whether it was made with these hash functions, as far as that matters to what its bytes
    /// mean.
    fn is_hashed_with(&self, _polynomials: &HashFamily) -> bool {
        true
    }
}

/// Records that cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("a record of {other} is not added to one of {program}")]
    Program { program: &'static str, other: &'static str },
    #[error("{program}: the records have other {what}")]
    Shape { program: &'static str, what: &'static str },
}

/// A record of any program.
pub type AnyRecord = Box<dyn ErasedRecord>;

/// [`Record`] without its type.
pub trait ErasedRecord: Any + Send + Sync + fmt::Debug {
    /// The name of the record's program.
    fn program(&self) -> &'static str;
    /// [`Record::merge`]; also an error for a record of another program.
    fn merge(&mut self, other: &AnyRecord) -> Result<(), MergeError>;
    /// [`Record::append`]; also an error for a record of another program.
    fn append(&mut self, later: &AnyRecord) -> Result<(), MergeError>;
    /// [`Record::encode`].
    fn encode(&self) -> Vec<u8>;
    fn copy(&self) -> AnyRecord;
    /// [`Record::strays`].
    fn strays(&self) -> Option<&Strays>;
    fn strays_mut(&mut self) -> Option<&mut Strays>;
    /// [`Record::split_next`].
    fn split_next(&mut self) -> Option<AnyRecord>;
    /// [`Record::is_hashed_with`].
    fn is_hashed_with(&self, hashes: &HashFamily) -> bool;
}

impl<R: Record> ErasedRecord for R {
    fn program(&self) -> &'static str {
        R::PROGRAM
    }

    fn merge(&mut self, other: &AnyRecord) -> Result<(), MergeError> {
        Record::merge(self, of_program(other)?)
    }

    fn append(&mut self, later: &AnyRecord) -> Result<(), MergeError> {
        Record::append(self, of_program(later)?)
    }

    fn encode(&self) -> Vec<u8> {
        Record::encode(self)
    }

    fn copy(&self) -> AnyRecord {
        Box::new(self.clone())
    }

    fn strays(&self) -> Option<&Strays> {
        Record::strays(self)
    }

    fn strays_mut(&mut self) -> Option<&mut Strays> {
        Record::strays_mut(self)
    }

    fn split_next(&mut self) -> Option<AnyRecord> {
        Record::split_next(self).map(|next| Box::new(next) as AnyRecord)
    }

    fn is_hashed_with(&self, hashes: &HashFamily) -> bool {
        Record::is_hashed_with(self, hashes)
    }
}

fn of_program<R: Record>(record: &AnyRecord) -> Result<&R, MergeError> {
    record.get().ok_or(MergeError::Program { program: R::PROGRAM, other: record.program() })
}

impl dyn ErasedRecord {
    /// The record, if it is of this type.
    pub fn get<R: Record>(&self) -> Option<&R> {
        (self as &dyn Any).downcast_ref()
    }

    pub fn into<R: Record>(self: Box<Self>) -> Option<Box<R>> {
        (self as Box<dyn Any>).downcast().ok()
    }
}

impl Clone for AnyRecord {
    fn clone(&self) -> Self {
        self.copy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(record: impl Record) -> AnyRecord {
        Box::new(record)
    }

    #[derive(Clone, Debug, PartialEq)]
    struct One(u8);

    #[derive(Clone, Debug, PartialEq)]
    struct Other;

    /// One that keeps the parts of an epoch apart.
    #[derive(Clone, Debug, PartialEq)]
    struct Apart(Vec<u8>);

    impl Record for Apart {
        const PROGRAM: &'static str = "apart";

        fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
            self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
            Ok(())
        }

        fn append(&mut self, later: &Self) -> Result<(), MergeError> {
            self.0.extend(&later.0);
            Ok(())
        }

        fn encode(&self) -> Vec<u8> {
            self.0.clone()
        }
    }

    /// Parts are added in another way than replicas, if the record says so.
    #[test]
    fn parts_are_appended_and_replicas_merged() {
        let mut record = any(Apart(vec![1]));
        record.append(&any(Apart(vec![2]))).unwrap();
        record.merge(&any(Apart(vec![10, 20]))).unwrap();
        assert_eq!(record.get(), Some(&Apart(vec![11, 22])));
        assert!(record.append(&any(Other)).is_err());
        let mut one = any(One(3));
        one.append(&any(One(4))).unwrap();
        assert_eq!(one.get(), Some(&One(7)));
    }

    impl Record for One {
        const PROGRAM: &'static str = "one";

        fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
            let sum = self.0.checked_add(other.0);
            self.0 = sum.ok_or(MergeError::Shape { program: "one", what: "widths" })?;
            Ok(())
        }

        fn encode(&self) -> Vec<u8> {
            vec![self.0]
        }
    }

    impl Record for Other {
        const PROGRAM: &'static str = "other";

        fn merge(&mut self, _: &Self) -> Result<(), MergeError> {
            Ok(())
        }

        fn encode(&self) -> Vec<u8> {
            Vec::new()
        }
    }

    #[test]
    fn records_of_two_programs_do_not_merge() {
        let mut record = any(One(3));
        assert_eq!(record.merge(&any(One(4))), Ok(()));
        let error = record.merge(&any(Other)).unwrap_err();
        assert_eq!(error.to_string(), "a record of other is not added to one of one");
        assert!(record.merge(&any(One(255))).is_err());
        assert_eq!((record.get::<One>(), record.encode()), (Some(&One(7)), vec![7]), "errors change nothing");
        assert!(record.clone().get() == record.get::<One>() && record.get::<Other>().is_none());
    }
}
