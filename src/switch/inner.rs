//! Flows of packets inside tunnels.
//!
//! With `key = "inner"` programs see the flow of the packet that a tunnel's packet carries. The
//! inner headers of a burst are read once, when it has been parsed, and stand beside the PHVs; a
//! PHV has the place of its own. It has the inner flow while programs see it, and the outer one
//! everywhere else.

use super::BURST;
use super::ingress::Rejected;
use crate::pisa::Phv;
use crate::stats::TunnelCounts;
use crate::wire::{Flow, Frame, Headers, Net, Tunnels};

const _: () = assert!(BURST < u8::MAX as usize);

/// The inner headers of a burst.
pub(super) struct InnerHeaders {
    tunnels: Tunnels,
    inner: [Headers; BURST],
    /// Of the PHVs that programs see at the moment, by their places: the outer flows.
    outer: [Headers; BURST],
}

impl InnerHeaders {
    pub fn new(tunnels: Tunnels) -> Box<Self> {
        Box::new(Self { tunnels, inner: [Headers::default(); BURST], outer: [Headers::default(); BURST] })
    }

    /// Reads the inner headers of a burst. Returns the number of packets that have an inner flow
    /// and no outer one.
    #[inline(never)]
    pub fn read<F: Frame>(&mut self, burst: &[F], phvs: &mut [Phv], rejected: &Rejected, counts: &TunnelCounts) -> u64 {
        let mut without_outer = 0;
        let packets = burst.iter().zip(phvs).zip(rejected).zip(&mut self.inner).zip(1..);
        for ((((frame, phv), rejected), inner), place) in packets {
            if rejected.is_some() {
                continue;
            }
            let found = self.tunnels.inner(frame.bytes(), &phv.headers);
            counts.count(&found);
            if let Ok(Some(found)) = found {
                *inner = found;
                phv.headers.inner = place;
                without_outer += u64::from(phv.headers.net == Net::Other);
            }
        }
        without_outer
    }

    /// The headers that name the flow of a packet with these outer ones.
    #[inline(always)]
    pub fn of<'a>(&'a self, outer: &'a Headers) -> &'a Headers {
        usize::from(outer.inner).checked_sub(1).and_then(|place| self.inner.get(place)).unwrap_or(outer)
    }

    /// Gives PHVs their inner flows.
    #[inline(never)]
    pub fn show(&mut self, phvs: &mut [Phv]) {
        for (phv, outer) in phvs.iter_mut().zip(&mut self.outer).filter(|(phv, _)| phv.headers.inner != 0) {
            *outer = phv.headers;
            let inner = usize::from(phv.headers.inner).checked_sub(1).and_then(|place| self.inner.get(place));
            phv.headers.take_flow(inner.unwrap_or(outer));
        }
    }

    /// Gives PHVs that had been [shown](Self::show), in the same places, their outer flows again.
    #[inline(never)]
    pub fn hide(&self, phvs: &mut [Phv]) {
        for (phv, outer) in phvs.iter_mut().zip(&self.outer).filter(|(phv, _)| phv.headers.inner != 0) {
            phv.headers.take_flow(outer);
        }
    }

    /// A PHV as programs see it.
    pub fn shown(&self, phv: &Phv) -> Phv {
        let mut shown = *phv;
        shown.headers.take_flow(self.of(&phv.headers));
        shown
    }

    /// The inner flow of a frame with these headers.
    pub fn flow(&self, frame: &[u8], headers: &Headers) -> Option<Flow> {
        self.tunnels.inner(frame, headers).ok()??.flow()
    }

    /// A frame's headers with its inner flow, of a packet that is in no burst.
    pub fn give(&self, frame: &[u8], headers: &mut Headers) {
        if let Ok(Some(inner)) = self.tunnels.inner(frame, headers) {
            headers.take_flow(&inner);
        }
    }
}
