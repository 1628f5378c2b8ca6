//! The history's side: what each switch counted in an epoch, packed.

use std::sync::Arc;

use super::record::{Counted, Shape};
use super::{HopRecord, archived};
use crate::answers::{Answers, CountedPort, KeptRows, LatePacket, Places, ProgramAnswer, Query, SwitchRows, Task};
use crate::history::{ArchiveForm, Epochs, Kept};
use crate::program::bytes::{Reader, Writer};
use crate::program::nearest_epoch;

/// Groups of a row that an older epoch keeps, where there is no room for all.
const COMPACT_GROUPS: u32 = 16;

/// The switches of an epoch.
#[derive(Debug)]
pub struct KeptHops {
    pub(super) switches: Vec<KeptSwitch>,
}

/// The counts of a switch.
#[derive(Clone, Debug)]
pub struct KeptSwitch {
    pub switch: Arc<str>,
    pub(super) shape: Arc<Shape>,
    pub(super) groups: u32,
    /// The byte form of a [`Counted`].
    pub(super) bytes: Box<[u8]>,
    pub(super) late: Box<[LatePacket]>,
    /// Nothing of the epoch is missing, as far as the record knows.
    pub(super) is_whole: bool,
    pub(super) is_full: bool,
}

impl KeptSwitch {
    pub fn new(epoch: u64, switch: &Arc<str>, record: &HopRecord, is_whole: bool) -> Self {
        let late = record.late.iter().map(|((of, leaves, port), packets)| LatePacket {
            epoch: nearest_epoch(epoch, *of),
            leaves: *leaves,
            port: *port,
            packets: *packets,
        });
        Self::packed(switch, &record.shape, &record.counted, late.collect(), is_whole)
    }

    fn packed(
        switch: &Arc<str>,
        shape: &Arc<Shape>,
        counted: &Counted,
        late: Box<[LatePacket]>,
        is_whole: bool,
    ) -> Self {
        let mut to = Writer::default();
        counted.write(&mut to);
        Self {
            switch: switch.clone(),
            shape: shape.clone(),
            groups: counted.groups,
            bytes: to.0.into(),
            late,
            is_whole,
            is_full: counted.is_full(),
        }
    }

    fn counted(&self) -> Counted {
        let mut from = Reader::new(&self.bytes);
        // Records read back are those that were written.
        Counted::read(&mut from, &self.shape.config, self.groups).unwrap_or_default()
    }

    fn rows(&self) -> SwitchRows {
        SwitchRows {
            switch: self.switch.clone(),
            ports: self.shape.config.ports.clone().into(),
            rows: self.counted().rows(),
            is_whole: self.is_whole,
            is_full: self.is_full,
        }
    }
}

impl Kept for KeptHops {
    /// Records of later epochs count packets that came late.
    const LOOKS_AHEAD: bool = true;

    fn bytes(&self) -> usize {
        let of =
            |kept: &KeptSwitch| size_of::<KeptSwitch>() + kept.bytes.len() + kept.late.len() * size_of::<LatePacket>();
        self.switches.iter().map(of).sum()
    }

    fn compacted(&self) -> Option<Self> {
        if self.switches.iter().all(|kept| kept.groups <= COMPACT_GROUPS) {
            return None;
        }
        let compact = |kept: &KeptSwitch| {
            let counted = kept.counted().folded(COMPACT_GROUPS);
            let is_full = kept.is_full;
            let packed = KeptSwitch::packed(&kept.switch, &kept.shape, &counted, kept.late.clone(), kept.is_whole);
            KeptSwitch { is_full, ..packed }
        };
        Some(Self { switches: self.switches.iter().map(compact).collect() })
    }

    fn archived(&self) -> Option<ArchiveForm> {
        Some(archived::form(self))
    }
}

impl KeptRows for KeptHops {
    fn rows(&self) -> Vec<SwitchRows> {
        self.switches.iter().map(KeptSwitch::rows).collect()
    }

    fn ports(&self) -> Vec<(Arc<str>, Arc<[CountedPort]>)> {
        self.switches.iter().map(|kept| (kept.switch.clone(), kept.shape.config.ports.clone().into())).collect()
    }

    fn late(&self) -> Vec<(Arc<str>, LatePacket)> {
        let of = |kept: &KeptSwitch| kept.late.iter().map(|late| (kept.switch.clone(), *late)).collect::<Vec<_>>();
        self.switches.iter().flat_map(of).collect()
    }
}

impl Answers for KeptHops {
    fn answer(epochs: &Epochs<Self>, query: &Query) -> Option<ProgramAnswer> {
        if query.task != Task::Places {
            return None;
        }
        let shape = epochs.backwards().flat_map(|entry| entry.showed.switches.first()).next().map(|kept| &kept.shape);
        let hash = |flow: &_| shape.and_then(|shape| shape.hashes.of_flow(flow));
        Some(Places::over(epochs, query, &hash))
    }
}
