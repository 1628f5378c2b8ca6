//! VLANs of ports: which VLAN a frame belongs to when it comes in, and which tag it carries when it goes out.
//!
//! An access port sends and receives one VLAN untagged, a trunk its VLANs tagged. A QinQ port (IEEE 802.1ad) takes every
//! frame, tagged or not, as the payload of one service VLAN. A port that says nothing belongs to every VLAN. A VLAN's number
//! names the same VLAN whichever EtherType its tag has.

use crate::pisa::{DropReason, PortId};
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

/// EtherType and TCI.
const TAG: usize = 4;

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

    /// Puts a frame that came in into its VLAN: from here on its headers say so, whatever tag the frame has.
    #[inline]
    pub fn enter(&self, port: PortId, headers: &mut Headers) -> Result<(), DropReason> {
        // Priority and drop eligibility of a tag that is there are kept.
        let priority = if headers.tagged { headers.vlan_tci & 0xf000 } else { 0 };
        let vid = match self.port(port) {
            PortVlans::Every => return Ok(()),
            PortVlans::Of { untagged: Some(vid), .. } if headers.vid() == 0 => *vid,
            PortVlans::Of { tagged, .. } if headers.vid() != 0 && tagged.contains(headers.vid()) => return Ok(()),
            PortVlans::Of { .. } => return Err(DropReason::WrongVlan),
            PortVlans::Tunnel(vid) => {
                (headers.inner_tci, headers.double_tagged) = (headers.vlan_tci, headers.tagged);
                *vid
            }
        };
        (headers.vlan_tci, headers.tagged) = (priority | vid, true);
        Ok(())
    }

    /// Gives a frame the tag that it carries where it leaves, or takes it off. `headers`: as [`Self::enter`] left them.
    #[inline]
    pub fn leave<F: Frame>(
        &self,
        from: PortId,
        to: PortId,
        headers: &Headers,
        frame: &mut F,
    ) -> Result<(), DropReason> {
        let vid = headers.vid();
        if !self.has(to, vid) {
            return Err(DropReason::WrongVlan);
        }
        let at = if headers.shim { 12 + shim::LEN } else { 12 };
        let tunnelled = matches!(self.port(from), PortVlans::Tunnel(_));
        let tag = if tunnelled { None } else { tag_of(frame.bytes(), at) };
        let bare = match self.port(to) {
            // A frame of no VLAN goes as it came.
            _ if vid == 0 => return Ok(()),
            PortVlans::Tunnel(_) => true,
            PortVlans::Of { untagged, .. } => *untagged == Some(vid),
            PortVlans::Every => false,
        };
        match (tag, bare) {
            (None, true) => {}
            (Some(_), true) => pop(frame, at),
            (Some(tci), false) if tci == headers.vlan_tci => {}
            // A priority tag is told its VLAN.
            (Some(_), false) => frame.bytes_mut()[at + 2..at + 4].copy_from_slice(&headers.vlan_tci.to_be_bytes()),
            (None, false) => {
                let kind = if tunnelled { ethertype::QINQ } else { ethertype::VLAN };
                return push(frame, at, kind, headers.vlan_tci);
            }
        }
        Ok(())
    }
}

/// The TCI of the tag at this place, if there is a whole one.
#[inline(always)]
fn tag_of(bytes: &[u8], at: usize) -> Option<u16> {
    let [a, b, c, d] = *bytes.get(at..)?.first_chunk::<4>()?;
    let is_tag = matches!(u16::from_be_bytes([a, b]), ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD);
    is_tag.then_some(u16::from_be_bytes([c, d]))
}

fn pop(frame: &mut impl Frame, at: usize) {
    frame.bytes_mut().copy_within(0..at, TAG);
    frame.shrink_front(TAG);
}

fn push(frame: &mut impl Frame, at: usize, kind: u16, tci: u16) -> Result<(), DropReason> {
    if frame.bytes().len() < at + 2 || !frame.grow_front(TAG) {
        return Err(DropReason::NoHeadroom);
    }
    let bytes = frame.bytes_mut();
    bytes.copy_within(TAG..TAG + at, 0);
    bytes[at..at + 2].copy_from_slice(&kind.to_be_bytes());
    bytes[at + 2..at + 4].copy_from_slice(&tci.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{HeapFrame, parse};

    fn kinds() -> Vlans {
        let of = |untagged, tagged: &[u16]| PortVlans::Of { untagged, tagged: VlanSet::new(tagged.iter().copied()) };
        Vlans(vec![
            PortVlans::Every,
            of(Some(10), &[]),
            of(None, &[10, 20]),
            of(Some(20), &[10]),
            PortVlans::Tunnel(20),
            PortVlans::Tunnel(30),
        ])
    }

    /// A frame with these tags, outermost first, and a payload that is told apart.
    fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        tags.iter().for_each(|(kind, tci)| bytes.extend([kind.to_be_bytes(), tci.to_be_bytes()].concat()));
        bytes.extend([0x88, 0xb6, 1, 2, 3, 4]);
        bytes
    }

    fn forward(vlans: &Vlans, from: PortId, to: PortId, bytes: &[u8]) -> Result<Vec<u8>, DropReason> {
        let mut frame = HeapFrame::new(bytes);
        let mut headers = Headers::default();
        parse(bytes, &mut headers).unwrap();
        vlans.enter(from, &mut headers)?;
        vlans.leave(from, to, &headers, &mut frame)?;
        Ok(frame.bytes().to_vec())
    }

    /// The oracle works on lists of tags: what the frame has inside its VLAN's tag, and that tag.
    fn expected(from: PortId, to: PortId, tags: &[(u16, u16)]) -> Result<Vec<(u16, u16)>, DropReason> {
        let wrong = Err(DropReason::WrongVlan);
        let outer = tags.first().copied();
        let vid = outer.map_or(0, |(_, tci)| tci & 0xfff);
        let priority = outer.map_or(0, |(_, tci)| tci & 0xf000);
        let rest = if outer.is_some() { &tags[1..] } else { tags };
        let inside = |kind, vid: u16| Some((kind, priority | vid));
        let (own, payload) = match from {
            0 if vid == 0 => (None, tags),
            0 => (outer, rest),
            1 if vid == 0 => (outer.map(|(kind, _)| (kind, priority | 10)).or(inside(0x8100, 10)), rest),
            2 if vid == 10 || vid == 20 => (outer, rest),
            3 if vid == 0 => (outer.map(|(kind, _)| (kind, priority | 20)).or(inside(0x8100, 20)), rest),
            3 if vid == 10 => (outer, rest),
            4 => (inside(0x88a8, 20), tags),
            5 => (inside(0x88a8, 30), tags),
            _ => return wrong,
        };
        let with = [own.as_slice(), payload].concat();
        match (to, own.map_or(0, |(_, tci)| tci & 0xfff)) {
            (0, _) | (2, 10 | 20) | (3, 10) => Ok(with),
            (1, 10) | (3 | 4, 20) | (5, 30) => Ok(payload.to_vec()),
            _ => wrong,
        }
    }

    proptest! {
        #[test]
        fn tags_are_those_of_the_oracle(
            from in 0..6u16,
            to in 0..6u16,
            tags in prop::collection::vec(
                (prop::sample::select(vec![0x8100u16, 0x88a8]), prop::sample::select(vec![0u16, 10, 20, 30]), 0..8u16),
                0..4,
            ),
        ) {
            let tags: Vec<_> = tags.into_iter().map(|(kind, vid, priority)| (kind, priority << 13 | vid)).collect();
            let expected = expected(from, to, &tags).map(|tags| frame(&tags));
            prop_assert_eq!(forward(&kinds(), from, to, &frame(&tags)), expected);
        }
    }

    #[test]
    fn a_customers_frame_crosses_the_provider_unchanged() {
        let vlans = kinds();
        let customer = frame(&[(0x8100, 0x2005), (0x8100, 7)]);
        let carried = forward(&vlans, 4, 2, &customer).unwrap();
        assert_eq!(carried, frame(&[(0x88a8, 0x2014), (0x8100, 0x2005), (0x8100, 7)]));
        assert_eq!(forward(&vlans, 2, 4, &carried).unwrap(), customer);
        assert_eq!(forward(&vlans, 4, 5, &customer), Err(DropReason::WrongVlan));
    }

    #[test]
    fn without_headroom_there_is_no_tag() {
        let vlans = kinds();
        let mut full = HeapFrame::new(&frame(&[]));
        assert!(full.grow_front(126));
        full.bytes_mut()[..14].copy_from_slice(&frame(&[])[..14]);
        let mut headers = Headers::default();
        vlans.enter(1, &mut headers).unwrap();
        let before = full.clone();
        assert_eq!(vlans.leave(1, 2, &headers, &mut full), Err(DropReason::NoHeadroom));
        assert_eq!(full, before);
    }
}
