//! Port features that an operator sets: the access control list, rate limits, mirrors
//! and VLANs.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::acl::{Acl, RuleCounts};
use super::rate::Limits;
use super::vlan::Vlans;
use crate::lock::Hold;
use crate::pisa::PortId;
use crate::pisa::table::{Reader, Shared};

/// One version of all settings. Features that are not set cost nothing.
#[derive(Clone, Debug, Default)]
pub struct PortFeatures {
    pub acl: Option<Arc<Acl>>,
    pub limits: Option<Arc<Limits>>,
    pub mirrors: Option<Arc<Mirrors>>,
    pub vlans: Option<Arc<Vlans>>,
}

impl PortFeatures {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.acl.is_none() && self.limits.is_none() && self.mirrors.is_none() && self.vlans.is_none()
    }
}

/// The mirrors of all ports, by number; ports behind the last have none.
#[derive(Clone, Debug, Default)]
pub struct Mirrors {
    pub rx: Vec<Option<Mirror>>,
    pub tx: Vec<Option<Mirror>>,
}

/// The target of a port's copies.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub to: PortId,
    /// Copies made so far, by all workers.
    pub copies: Arc<AtomicU64>,
}

impl Mirrors {
    #[inline(always)]
    pub fn rx(&self, port: PortId) -> Option<&Mirror> {
        self.rx.get(usize::from(port))?.as_ref()
    }

    #[inline(always)]
    pub fn tx(&self, port: PortId) -> Option<&Mirror> {
        self.tx.get(usize::from(port))?.as_ref()
    }
}

/// The writers' end, shared by the tables of the settings.
#[derive(Clone, Debug)]
pub struct Publisher(Arc<Mutex<Shared<PortFeatures>>>);

impl Default for Publisher {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Shared::new(PortFeatures::default()))))
    }
}

impl Publisher {
    pub fn reader(&self) -> Reader<PortFeatures> {
        self.0.hold().reader()
    }

    /// Workers see the change as a whole.
    pub fn publish(&self, change: impl FnOnce(&mut PortFeatures)) {
        self.0.hold().update(change);
    }
}

/// One worker's end.
#[derive(Debug)]
pub struct Policy {
    reader: Reader<PortFeatures>,
    settings: Arc<PortFeatures>,
    counts: Arc<RuleCounts>,
}

impl Default for Policy {
    /// A policy without settings, now and later.
    fn default() -> Self {
        Self::new(&Publisher::default(), Arc::default())
    }
}

impl Policy {
    /// `counts`: this worker's counters of rules.
    pub fn new(publisher: &Publisher, counts: Arc<RuleCounts>) -> Self {
        Self { reader: publisher.reader(), settings: Arc::default(), counts }
    }

    /// Takes over the newest settings. Returns whether there are any.
    #[inline(always)]
    pub fn renew(&mut self) -> bool {
        self.reader.renew(&mut self.settings);
        !self.settings.is_empty()
    }

    #[inline(always)]
    pub fn settings(&self) -> &PortFeatures {
        &self.settings
    }

    #[inline(always)]
    pub fn counts(&self) -> &RuleCounts {
        &self.counts
    }
}
