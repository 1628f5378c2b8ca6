//! Two flows that share their bucket in every row, which peeling cannot take apart: solved when one
//! of them is known.
//!
//! Such buckets are the same in every row: a count c = a + b, and four sums S = a f + b g modulo p.
//! That is too little to find two unknown IDs. With f known each a gives one candidate b⁻¹ (S − a
//! f) for g. The right one is an ID, has the right fingerprint and shares f's bucket in every row;
//! a wrong one does with a probability of 2⁻⁴ · 2⁻²⁰ · m⁻ᵈ.

use super::super::id::FlowId;
use super::{Bucket, Fermat, Verify};

/// Most counts that are tried in one decoding. With short rows mᵈ, so that fewer than 2⁻²⁴ wrong
/// flows come of them.
const MAX_TRIED: u64 = 1 << 16;

impl Fermat {
    /// Takes flows out of what peeling has left over, and tells `found` their packets.
    pub(super) fn split_twins(&mut self, known: impl IntoIterator<Item = FlowId>, mut found: impl FnMut(FlowId, i64)) {
        let shortest = self.rows.iter().map(|row| u64::from(row.range.slots())).min().unwrap_or(0);
        let mut left = shortest.saturating_pow(self.rows.len() as u32).min(MAX_TRIED);
        for first in known {
            let Some(shared) = self.shared(first).filter(|shared| shared.count.unsigned_abs() <= left) else {
                continue;
            };
            left -= shared.count.unsigned_abs();
            let Some((packets, second)) = self.split(first, shared) else { continue };
            for (id, packets) in [(first, packets), (second, shared.count - packets)] {
                self.insert(id, -packets);
                found(id, packets);
            }
        }
    }

    /// The content of a flow's buckets, when it is the same in all of them and more than one
    /// packet.
    fn shared(&self, id: FlowId) -> Option<Bucket> {
        let places = self.places(&self.key(id));
        let mut buckets = places[..self.rows.len()].iter().map(|&at| self.buckets[at as usize]);
        let first = buckets.next().filter(|bucket| bucket.count.unsigned_abs() > 1)?;
        buckets.all(|bucket| bucket == first).then_some(first)
    }

    /// Packets of the known flow, and the other flow. `None` when no number of packets gives one,
    /// or when several do.
    fn split(&self, known: FlowId, shared: Bucket) -> Option<(i64, FlowId)> {
        let key = self.key(known);
        let (places, sign) = (self.places(&key), shared.count.signum());
        let packet = self.bucket(known, &key, sign);
        let (mut rest, mut solution) = (shared, None);
        for packets in 1..shared.count.abs() {
            rest.sub(&packet);
            let other = self.pure(&rest, Verify::Fingerprint).filter(|(_, key)| self.places(key) == places);
            if let Some((id, _)) = other
                && solution.replace((sign * packets, id)).is_some()
            {
                return None;
            }
        }
        solution
    }
}
