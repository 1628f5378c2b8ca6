//! VLANs of ports: which VLAN a frame belongs to when it comes in, and which tag it carries when it
//! goes out.
//!
//! An access port sends and receives one VLAN untagged, a trunk its VLANs tagged. A QinQ port (IEEE
//! 802.1ad) takes every frame, tagged or not, as the payload of one service VLAN. A port that says
//! nothing belongs to every VLAN. A VLAN's number names the same VLAN whichever EtherType its tag
//! has.

mod words;

pub use words::VlanList;

use crate::pisa::{DropReason, PortId};
use crate::wire::vlan::TagEdit;
use crate::wire::{Frame, Headers, ethertype, shim};

/// VLAN numbers, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

impl VlanSet {
    pub fn new(vlans: impl IntoIterator<Item = u16>) -> Self {
        let mut set = Self(Box::new([0; 64]));
        vlans.into_iter().for_each(|vid| set.0[usize::from(vid >> 6) % 64] |= 1 << (vid & 63));
        set
    }

    #[inline(always)]
    pub fn contains(&self, vid: u16) -> bool {
        self.0[usize::from(vid >> 6) % 64] >> (vid & 63) & 1 == 1
    }
}

/// The VLANs of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortVlans {
    /// Every VLAN, tags as they are.
    Every,
    /// Untagged frames belong to `untagged`, if that is named, and tagged ones may be of `tagged`.
    Of { untagged: Option<u16>, tagged: VlanSet },
    /// Everything is payload of this service VLAN.
    Tunnel(u16),
}

/// The VLANs of all ports, by number; ports behind the last belong to every VLAN.
#[derive(Clone, Debug, Default)]
pub struct Vlans(pub Vec<PortVlans>);

impl Vlans {
    #[inline(always)]
    fn port(&self, port: PortId) -> &PortVlans {
        self.0.get(usize::from(port)).unwrap_or(&PortVlans::Every)
    }

    /// Whether frames of a VLAN leave by a port. Untagged frames without a VLAN are number 0.
    #[inline(always)]
    pub fn has(&self, port: PortId, vid: u16) -> bool {
        match self.port(port) {
            PortVlans::Every => true,
            PortVlans::Of { untagged, tagged } => *untagged == Some(vid) || tagged.contains(vid),
            PortVlans::Tunnel(service) => *service == vid,
        }
    }

    /// Puts a received frame into its VLAN: its headers then name this VLAN, with any tag in the
    /// frame.
    #[inline]
    pub fn ingress(&self, port: PortId, headers: &mut Headers) -> Result<(), DropReason> {
        // Priority and drop eligibility of a tag that is there are kept.
        let priority = if headers.tagged { headers.vlan_tci & 0xf000 } else { 0 };
        let vid = match self.port(port) {
            PortVlans::Every => return Ok(()),
            PortVlans::Of { untagged: Some(vid), .. } if headers.vid() == 0 => *vid,
            PortVlans::Of { tagged, .. } if headers.vid() != 0 && tagged.contains(headers.vid()) => return Ok(()),
            PortVlans::Of { .. } => return Err(DropReason::WrongVlan),
            PortVlans::Tunnel(vid) => {
                headers.tunnel(priority | vid);
                return Ok(());
            }
        };
        (headers.vlan_tci, headers.tagged) = (priority | vid, true);
        Ok(())
    }

    /// The change that gives a frame the tag that it carries where it leaves. `headers`: as
    /// [`Self::ingress`] left them.
    ///
    /// # Errors
    /// If the port does not belong to the frame's VLAN, or the frame has no room for the tag.
    #[inline]
    pub fn egress<F: Frame>(
        &self,
        from: PortId,
        to: PortId,
        headers: &Headers,
        frame: &F,
    ) -> Result<TagEdit, DropReason> {
        let vid = headers.vid();
        if !self.has(to, vid) {
            return Err(DropReason::WrongVlan);
        }
        let at = tag_offset(headers);
        let tunnelled = matches!(self.port(from), PortVlans::Tunnel(_));
        let tag = if tunnelled { None } else { tag_of(frame.bytes(), at) };
        let bare = match self.port(to) {
            // A frame of no VLAN goes as it came.
            _ if vid == 0 => return Ok(TagEdit::Keep),
            PortVlans::Tunnel(_) => true,
            PortVlans::Of { untagged, .. } => *untagged == Some(vid),
            PortVlans::Every => false,
        };
        let edit = match (tag, bare) {
            (None, true) => TagEdit::Keep,
            (Some(_), true) => TagEdit::Pop,
            (Some(tci), false) if tci == headers.vlan_tci => TagEdit::Keep,
            // A priority tag gets the VLAN's number.
            (Some(_), false) => TagEdit::Set(headers.vlan_tci),
            (None, false) => {
                let ethertype = if tunnelled { ethertype::QINQ } else { ethertype::VLAN };
                TagEdit::Push { ethertype, tci: headers.vlan_tci }
            }
        };
        if edit.fits(frame, at) { Ok(edit) } else { Err(DropReason::NoHeadroom) }
    }
}

/// Offset of a frame's outermost tag.
#[inline(always)]
pub fn tag_offset(headers: &Headers) -> usize {
    if headers.shim { 12 + shim::LEN } else { 12 }
}

/// The TCI of the tag at this place, if there is a whole one.
#[inline(always)]
fn tag_of(bytes: &[u8], at: usize) -> Option<u16> {
    let [a, b, c, d] = *bytes.get(at..)?.first_chunk::<4>()?;
    let is_tag = matches!(u16::from_be_bytes([a, b]), ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD);
    is_tag.then_some(u16::from_be_bytes([c, d]))
}

#[cfg(test)]
mod tests;
