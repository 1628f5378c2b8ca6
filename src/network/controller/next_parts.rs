//! Parts of records about the epoch after their own ([`Record::split_next`](crate::program::Record::split_next)),
//! until that epoch closes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::program::AnyRecord;

/// By switch and by the epoch of the record that the part comes from.
#[derive(Default)]
pub(super) struct NextParts(BTreeMap<Arc<str>, BTreeMap<u64, AnyRecord>>);

impl NextParts {
    /// Adds the part of a switch's record of epoch `of`.
    pub fn add(&mut self, switch: &Arc<str>, of: u64, part: AnyRecord) {
        self.0.entry(switch.clone()).or_default().insert(of, part);
    }

    /// Returns the part about this epoch.
    pub fn about(&self, switch: &Arc<str>, epoch: u64) -> Option<&AnyRecord> {
        self.0.get(switch)?.get(&epoch.checked_sub(1)?)
    }

    /// Forgets the parts of records of epoch `from` and later ones, of this switch or of all.
    pub fn forget(&mut self, switch: Option<&Arc<str>>, from: u64) {
        let forgotten = self.0.iter_mut().filter(|(name, _)| switch.is_none_or(|switch| *name == switch));
        forgotten.for_each(|(_, parts)| parts.retain(|of, _| *of < from));
    }

    /// Forgets the parts about this epoch, which has closed, and earlier ones.
    pub fn close(&mut self, epoch: u64) {
        self.0.values_mut().for_each(|parts| parts.retain(|of, _| *of >= epoch));
        self.0.retain(|_, parts| !parts.is_empty());
    }
}
