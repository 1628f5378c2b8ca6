//! Five-tuples of IPv6 flows. Encoders sum up digests of them, which name nothing by themselves, so
//! the switch where a flow enters reports its five-tuple, once an epoch.
//!
//! A hardware switch sends a digest message to its control plane for each packet that the upstream
//! encoder takes, and its learning filter holds repeated ones back. Here [`Names`] is both. The
//! report has no flow ID: what reads a record computes it of the five-tuple, so no record can give
//! a flow another one's name.

use rustc_hash::FxHashMap;

use super::id::{FlowId, Naming};
use crate::answers::FlowName;
use crate::program::bytes::{Reader, Writer};
use crate::program::{DecodeError, DistinctReports, Report, Reports};
use crate::wire::{Flow, FlowKey, Tuple6};

/// Bytes of a name.
const BYTES: usize = Tuple6::BITS as usize / 8;

/// The report that a flow has entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub Tuple6);

impl Report for Name {
    const BITS: u32 = Tuple6::BITS;
    const MAX_BYTES: usize = BYTES;

    fn encode(&self, to: &mut Writer) {
        to.bytes(&self.0.bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "the name of a flow";
        let [src, dst] = [from.take(what)?, from.take(what)?].map(u128::from_be_bytes);
        let [a, b, c, d, proto] = from.take(what)?;
        Ok(Self(Tuple6(src, dst, u64::from_be_bytes([0, 0, 0, a, b, c, d, proto]))))
    }
}

/// The names that a replica has reported in an epoch, each once.
pub type Names = DistinctReports<Name>;

/// Flows by their digests, as records name them: those of the newest epochs, and older ones.
#[derive(Clone, Debug, Default)]
pub struct Known {
    recent: FxHashMap<FlowId, Flow>,
    older: FxHashMap<FlowId, Flow>,
}

impl Known {
    /// Number of recent flows from which on they become older ones, and those that were are
    /// forgotten.
    const RECENT: usize = 1 << 16;

    /// Makes room for the names of the records of an epoch. Memory is then bounded by two times 65 536
    /// flows and these names.
    pub fn age(&mut self) {
        if self.recent.len() >= Self::RECENT {
            self.older = std::mem::take(&mut self.recent);
        }
    }

    /// Adds the names of a record.
    pub fn add(&mut self, naming: &Naming, names: &Reports<Name>) {
        self.recent.extend(names.kept().iter().map(|&Name(tuple)| (naming.digest(tuple), tuple.flow())));
    }

    /// The name of the flow in answers: its fields, or its digest where no record has its name.
    pub fn name(&self, id: FlowId) -> FlowName {
        self.recent.get(&id).or_else(|| self.older.get(&id)).map_or_else(|| id.name(), |flow| FlowName::Flow(*flow))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pisa::hash::HashFamily;

    fn naming() -> Naming {
        Naming::new(&HashFamily::reproducible(7))
    }

    fn see(names: &mut Names, naming: &Naming, tuple: Tuple6) {
        names.see(naming.digest(tuple).hash(), Name(tuple));
    }

    fn tuple(n: u64) -> Tuple6 {
        Tuple6(u128::from(n) << 64 | 1, u128::from(n >> 3) << 100 | 2, n << 24 | 0x1bb << 8 | 17)
    }

    proptest! {
        /// Names in a record are read back, within the length that a record may have.
        #[test]
        fn names_are_read_back(packets in prop::collection::vec(0..80u64, 0..300), limit in 0..60usize) {
            let (naming, mut names) = (naming(), Names::with_room(limit));
            for &packet in &packets {
                see(&mut names, &naming, tuple(packet));
            }
            let read = names.read();
            let mut to = Writer::default();
            read.encode(&mut to);
            prop_assert!(to.0.len() <= Reports::<Name>::max_bytes(limit));
            let mut from = Reader::new(&to.0);
            prop_assert_eq!(Reports::decode(&mut from, limit), Ok(read));
            prop_assert_eq!(from.end(), Ok(()));
        }
    }

    /// Digests of flows that were reported have their names, others stay digests.
    #[test]
    fn digests_are_resolved() {
        let (naming, mut names, mut known) = (naming(), Names::with_room(4), Known::default());
        let ids = [1, 2].map(|n| naming.digest(tuple(n)));
        see(&mut names, &naming, tuple(1));
        known.add(&naming, &names.read());
        assert_eq!(known.name(ids[0]), FlowName::Flow(tuple(1).flow()));
        assert!(matches!(known.name(ids[1]), FlowName::Digest(_)));
    }
}
