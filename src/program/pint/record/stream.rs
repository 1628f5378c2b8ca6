//! The packets of one flow in a record: all, or a share that a hash chooses.

use crate::program::pint::parameters::PlanId;
use crate::program::pint::sample::Sample;
use crate::wire::FiveTuple;

/// The packets of a flow on paths of one length that carry what one plan says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    pub plan: PlanId,
    pub flow: FiveTuple,
    pub hops: u8,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub time_ns: u64,
    pub identity: u32,
    pub digest: u16,
}

/// The packets of a stream. Of more than there is room for, those with the smallest hashes are
/// kept, so that each packet of the epoch had the same chance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// In the order in which they left.
    pub(super) seen: Vec<Seen>,
    /// Packets that are not kept, because the stream has others with smaller hashes.
    pub(super) left_out: u64,
    /// How often the share of all packets was halved from which these were taken: the largest
    /// number of all cores that saw the stream.
    pub(super) halvings: u8,
}

/// Times that a share of 32-bit hashes can be halved.
pub const MAX_HALVINGS: u8 = 32;

impl Packets {
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Packets of the stream that found no room beside those that are kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Keeps this number of packets, those with the smallest hashes, and counts the others.
    pub(super) fn limit(&mut self, room: usize, sample: &Sample) {
        let surplus = self.seen.len().saturating_sub(room);
        if surplus == 0 {
            return;
        }
        let mut hashed: Vec<_> = self.seen.iter().map(|seen| (sample.hash_of(seen.identity), *seen)).collect();
        hashed.select_nth_unstable(room);
        hashed.truncate(room);
        self.seen = hashed.into_iter().map(|(_, seen)| seen).collect();
        self.seen.sort_unstable();
        self.left_out = self.left_out.saturating_add(surplus as u64);
    }

    /// Adds those of another core or record, as far as there is room.
    pub(super) fn merge(&mut self, other: &Self) {
        self.seen.extend(&other.seen);
        self.seen.sort_unstable();
        self.seen.dedup();
        self.left_out = self.left_out.saturating_add(other.left_out);
        self.halvings = self.halvings.max(other.halvings);
    }

    /// The largest hash such that no packet with this hash or a smaller one is missing, where a
    /// stream has room for this number.
    pub(super) fn share(&self, room: usize, sample: &Sample) -> u32 {
        let of_cores = Sample::limit(self.halvings);
        if self.left_out == 0 || self.seen.len() < room {
            return of_cores;
        }
        let largest = self.seen.iter().map(|seen| sample.hash_of(seen.identity)).max();
        largest.map_or(of_cores, |largest| largest.min(of_cores))
    }
}
