//! Up to which packet a path that is sure is borne out.
//!
//! When a flow leaves a path that was sure, packets on the new one agree with the old one as long as
//! they tell of hops that both have in common, and by chance. So a packet is known to have taken the
//! path only when later packets bear each hop out once more, as [`Evidence`](super::Evidence) has it:
//! had the flow left the path before, all of these would have come by another one, whose digests agree
//! with a wrong hop by chance once in 2¹⁶.

use super::confirm::need;
use super::fragments::cells;
use crate::program::pint::dataplane::Code;

/// A packet of a flow: its number, and when it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub number: u64,
    pub time_ns: u64,
}

/// The latest packets that bear each hop, or each fragment of a hop, out.
#[derive(Clone, Debug)]
pub struct Standing {
    length: usize,
    need: usize,
    /// As many as are needed of each, in the order in which they came.
    latest: Vec<Vec<(u32, Mark)>>,
}

impl Standing {
    /// Of a path of `length` switches, before any packet.
    pub fn new(code: &Code, length: usize) -> Self {
        Self { length, need: need(code) as usize, latest: vec![Vec::new(); length * code.fragments()] }
    }

    /// Takes a packet that agrees with the path.
    pub fn add(&mut self, code: &Code, (identity, digest): (u32, u16), mark: Mark) {
        for instance in 0..code.instances() {
            let Some(observed) = code.read(instance, self.length, identity, digest) else { continue };
            // A digest of several hops counts for the one that needs it most. Packets with one identity
            // have one digest, which says nothing new.
            let open = cells(code, &observed).filter(|at| self.latest[*at].iter().all(|(of, _)| *of != identity));
            let Some(at) = open.min_by_key(|at| self.oldest(*at)) else { continue };
            let latest = &mut self.latest[at];
            if latest.len() == self.need {
                latest.remove(0);
            }
            latest.push((identity, mark));
        }
    }

    /// The first of the latest packets that bear all hops out: up to it packets took the path.
    pub fn until(&self) -> Option<Mark> {
        (0..self.latest.len()).map(|at| self.oldest(at)).min().flatten()
    }

    /// The oldest packet that one of them still needs; `None` while there are too few.
    fn oldest(&self, at: usize) -> Option<Mark> {
        let latest = &self.latest[at];
        latest.first().filter(|_| latest.len() == self.need).map(|(_, mark)| *mark)
    }
}
