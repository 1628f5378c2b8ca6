//! The packets of a batch that are measured: their IDs, and what the hash units have found of them.

use std::sync::Arc;

use super::dataplane::{Meta, class};
use super::hashes::Hashes;
use super::id::{FlowId, KEY};
use crate::pisa::hash::IndexBank;
use crate::pisa::{BATCH, Disposition, Phv, Vectors};
use crate::wire::Net;

/// The packets of a batch that are measured, and what is known of each; `len` of all are valid.
pub(super) struct Batch {
    pub len: usize,
    /// The words of their IDs, which are hashed.
    ids: [[u32; 4]; BATCH],
    pub metas: [Meta; BATCH],
    /// The packets' places among the PHVs; on the way out [`NOWHERE`] for those that do not leave.
    pub places: [u8; BATCH],
}

/// No place.
pub(super) const NOWHERE: u8 = u8::MAX;

/// The places of a batch of which all packets are measured.
const IN_ORDER: [u8; BATCH] = {
    let mut places = [0; BATCH];
    let mut at = 0;
    while at < BATCH {
        places[at] = at as u8;
        at += 1;
    }
    places
};

impl Batch {
    pub fn metas(&mut self) -> &mut [Meta] {
        &mut self.metas[..self.len]
    }
}

/// The hash units, and the batch that they have worked for.
pub(super) struct Hashing {
    pub hashes: Arc<Hashes>,
    bank: IndexBank,
    /// The lane of the first classifier array.
    pub tower_lane: u8,
    pub batch: Box<Batch>,
}

impl Hashing {
    pub fn new(hashes: Arc<Hashes>) -> Self {
        let (bank, tower_lane) = hashes.bank();
        let (ids, metas, places) = ([[0; 4]; BATCH], [Meta::default(); BATCH], [0; BATCH]);
        Self { hashes, bank, tower_lane, batch: Box::new(Batch { len: 0, ids, metas, places }) }
    }

    /// Begins a batch of the packets for which `wanted` holds. They are to be [signed](Meta::sign).
    #[inline(always)]
    pub fn take(&mut self, phvs: &[Phv], wanted: impl Fn(&Phv) -> bool) {
        let Batch { len, ids, metas, places } = &mut *self.batch;
        let mut next = 0;
        if phvs.iter().all(|phv| wanted(phv) & (phv.headers.net == Net::Ipv4)) {
            let begun = phvs.iter().zip(ids.iter_mut().zip(metas.iter_mut()));
            // Not read back from where it is written to, which would wait for the stores of its words.
            let begin = |own: FlowId, id: &mut [u32; 4], meta: &mut Meta| {
                *id = own.words();
                meta.begin(own);
            };
            match Vectors::here().picks() {
                Some(picks) => {
                    for (phv, (id, meta)) in begun {
                        begin(FlowId::picked(picks, &phv.headers), id, meta);
                    }
                }
                None => {
                    for (phv, (id, meta)) in begun {
                        begin(FlowId::of_ipv4(&phv.headers), id, meta);
                    }
                }
            }
            *places = IN_ORDER;
            next = phvs.len().min(BATCH);
        } else {
            let naming = self.hashes.naming();
            for (i, phv) in phvs.iter().take(BATCH).enumerate().filter(|(_, phv)| wanted(phv)) {
                let Some(id) = naming.id(&phv.headers) else { continue };
                if next >= BATCH {
                    break;
                }
                (ids[next], places[next]) = (id.words(), i as u8);
                metas[next].begin(id);
                next += 1;
            }
        }
        *len = next;
        let metas = &mut metas[..next];
        if !metas.is_empty() {
            self.bank.hash_burst::<KEY, _, _>(&ids[..next], metas);
        }
    }

    /// Begins a batch of the packets for which `wanted` holds. Packets that come from hosts and leave
    /// to hosts are hashed once: where all of these stand in the last batch, in their order, that
    /// goes on.
    #[inline(always)]
    pub fn take_again(&mut self, phvs: &[Phv], wanted: impl Fn(&Phv) -> bool) {
        let Batch { len, ids, places, .. } = &mut *self.batch;
        places.fill(NOWHERE);
        let (naming, len) = (self.hashes.naming(), (*len).min(BATCH));
        let mut next = 0;
        for (i, phv) in phvs.iter().take(BATCH).enumerate() {
            if !wanted(phv) {
                continue;
            }
            while next < len && !naming.is_id(FlowId::of_words(ids[next]), &phv.headers) {
                next += 1;
            }
            if next >= len {
                self.take(phvs, wanted);
                return self.batch.metas().iter_mut().for_each(Meta::sign);
            }
            places[next] = i as u8;
            next += 1;
        }
    }

    /// Whether these are the packets of the last batch, each where it was then, and all of them IPv4
    /// and leave to hosts with a class. So it is in a switch between hosts.
    #[inline(always)]
    pub fn all_leave_again(&self, phvs: &[Phv]) -> bool {
        let Batch { len, ids, places, .. } = &*self.batch;
        let len = (*len).min(BATCH);
        if phvs.len() != len || places[..len] != IN_ORDER[..len] {
            return false;
        }
        let leaves = |phv: &Phv| {
            (phv.headers.net == Net::Ipv4)
                & (phv.disposition == Disposition::ToHost)
                & (phv.shim.class() != class::NONE)
        };
        // A loop for each kind of CPU: in one that decides for each packet, the compiler takes IDs apart.
        match Vectors::here().picks() {
            Some(picks) => {
                for (phv, &id) in phvs.iter().zip(&ids[..len]) {
                    if !(leaves(phv) & (FlowId::picked(picks, &phv.headers).words() == id)) {
                        return false;
                    }
                }
            }
            None => {
                for (phv, &id) in phvs.iter().zip(&ids[..len]) {
                    if !(leaves(phv) & (FlowId::of_ipv4(&phv.headers).words() == id)) {
                        return false;
                    }
                }
            }
        }
        true
    }
}
