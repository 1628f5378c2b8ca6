//! One epoch in a history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Reasons, SwitchGap};

/// What a program keeps of an epoch.
pub trait Kept: Send + Sync + 'static {
    /// Whether answers about an epoch rest on the epoch before as well.
    const LOOKS_BACK: bool = false;

    /// Whether records of later epochs say something of an epoch, so that answers look at what was kept of
    /// these.
    const LOOKS_AHEAD: bool = false;

    /// Memory that it takes, in bytes.
    fn bytes(&self) -> usize;

    /// The same with less memory, for an older epoch; `None` where nothing can be left out.
    fn compacted(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Packets that entered the network and did not leave it, where that is measured.
    fn lost_packets(&self) -> u64 {
        0
    }

    /// Packets that left the network and did not enter it, where that is measured.
    fn gained_packets(&self) -> u64 {
        0
    }

    /// The same as an archive has it; `None` of a program that keeps nothing in archives.
    fn archived(&self) -> Option<ArchiveForm> {
        None
    }
}

/// What a program keeps of an epoch, as an archive has it. No secret is a part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchiveForm {
    /// The byte form.
    pub bytes: Vec<u8>,
    /// The name of the hash functions without which it cannot be asked; `None` where it needs none.
    pub hashes: Option<String>,
    /// Counters of switches, for those who read an archive without this program.
    pub counters: Vec<SwitchCounters>,
}

/// The counters of an array of a switch, in an epoch or a sub-epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchCounters {
    pub switch: Arc<str>,
    /// Name of the array's hash function.
    pub hash: String,
    /// Number of sub-epochs of the switch's epoch.
    pub sub_epochs: u32,
    /// The sub-epoch; `None` where the counters are of several.
    pub sub_epoch: Option<u32>,
    pub counters: Box<[i32]>,
}

/// A history of gaps and finality alone.
impl Kept for () {
    fn bytes(&self) -> usize {
        0
    }
}

/// One epoch: what the analysis made of its records, and everything that is known about them.
#[derive(Debug, Default)]
pub struct Entry<K> {
    pub epoch: u64,
    /// First epoch that the records cover: another one when a collector was late.
    pub first_epoch: u64,
    /// What is missing, and where.
    pub gaps: Vec<SwitchGap>,
    /// Switches whose records it is made of.
    pub switches: Vec<Arc<str>>,
    /// Reasons why a comparison of what entered with what left may be wrong, beside gaps.
    pub doubts: Reasons,
    /// `None` of a program whose parameters never change.
    pub adaptation: Option<Adaptation>,
    pub finality: Finality,
    /// What the program keeps.
    pub showed: Arc<K>,
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        self.with(self.showed.clone())
    }
}

impl<K> Entry<K> {
    /// An entry of one epoch, of which nothing is missing.
    pub fn new(epoch: u64, showed: K) -> Self {
        Self {
            epoch,
            first_epoch: epoch,
            gaps: Vec::new(),
            switches: Vec::new(),
            doubts: Reasons::default(),
            adaptation: None,
            finality: Finality::at_once(),
            showed: Arc::new(showed),
        }
    }

    /// The same with something else that a program keeps.
    pub fn with<O>(&self, showed: Arc<O>) -> Entry<O> {
        let Self { epoch, first_epoch, gaps, switches, doubts, adaptation, finality, .. } = self;
        Entry {
            epoch: *epoch,
            first_epoch: *first_epoch,
            gaps: gaps.clone(),
            switches: switches.clone(),
            doubts: doubts.clone(),
            adaptation: adaptation.clone(),
            finality: finality.clone(),
            showed,
        }
    }

    /// The same without what the program keeps.
    pub fn outline(&self) -> Entry<()> {
        self.with(Arc::new(()))
    }

    /// Whether flows of a switch are missing, and not losses alone.
    pub fn hides_flows(&self) -> bool {
        self.gaps.iter().any(|gap| gap.gap.hides_flows())
    }
}

impl<K: Kept> Entry<K> {
    /// Lost packets without those that left later than the horizon.
    pub fn truly_lost(&self) -> u64 {
        self.showed.lost_packets().saturating_sub(self.finality.late_packets)
    }

    /// Memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.showed.bytes()
    }
}

/// Parameters as people and JSON see them; keys have units in their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The state of the network that they are for, as the program calls it.
    pub state: String,
    pub parameters: Map<String, Value>,
}

/// What an epoch was measured with, and what its controller changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Adaptation {
    pub measured: Described,
    /// What the decision was made from.
    pub facts: Map<String, Value>,
    /// Parameters of a later epoch, from which on they hold.
    pub update: Option<(u64, Described)>,
    /// Why, in words.
    pub why: String,
}

/// Whether answers about an epoch can still change, and how they have changed since they were final.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finality {
    /// All records that can count packets of the epoch up to the horizon have come, or were missed.
    pub is_final: bool,
    /// Changes of final answers.
    pub amendments: u64,
    /// Number of the latest publication or change, among those of a history.
    pub sequence: u64,
    /// Packets that left later than the horizon. The answers count them as lost.
    pub late_packets: u64,
    /// Gaps that last until the answers are final: later records say what was missing.
    pub waiting: Vec<SwitchGap>,
}

impl Finality {
    /// Of answers that no later record changes.
    pub fn at_once() -> Self {
        Self { is_final: true, ..Self::default() }
    }
}
