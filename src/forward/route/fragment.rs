//! Fragments of an IPv4 packet that is longer than the next link takes (RFC 791, 3.2; RFC 1812,
//! 5.2.6).
//!
//! All fragments or none: a part of a packet is of no use.

use arrayvec::ArrayVec;

use crate::pisa::DropReason;
use crate::wire::{Frame, Headers, Net, checksum, ipv4};

/// Maximum fragments of one packet, so that the work for it is bounded: 9000 bytes fit through 576.
/// One that would need more is answered as if it had DF.
pub const MAX_FRAGMENTS: usize = 32;

/// Longest header, and the longest link header in front of it: Ethernet and the telemetry shim.
const LONGEST: usize = 60;
const LINK: usize = 14 + 6;
/// Offset of flags and fragment offset in the header.
const FRAGMENT: usize = 6;
const DONT: u16 = 0x4000;
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// Bytes that offsets are counted in.
const UNIT: usize = 8;

/// Maximum fragments that a packet from a link of MTU `wide` makes on one of MTU `narrow`.
pub fn max_fragments(wide: u32, narrow: u32) -> usize {
    if wide <= narrow {
        return 1;
    }
    let fits = (narrow as usize).saturating_sub(LONGEST) / UNIT * UNIT;
    (wide as usize).saturating_sub(LONGEST).div_ceil(fits.max(1)).clamp(1, MAX_FRAGMENTS)
}

/// Whether a packet with a right header may be fragmented, and into at most
/// [`MAX_FRAGMENTS`].
pub(super) fn can_fragment<F: Frame>(frame: &F, headers: &Headers, mtu: u32) -> bool {
    let whole = frame.bytes().len() == frame.wire_len();
    headers.net == Net::Ipv4
        && whole
        && FragmentPlan::new(frame.bytes(), headers.l3.into(), mtu)
            .is_ok_and(|plan| !plan.dont_fragment && plan.fragments() <= MAX_FRAGMENTS)
}

/// Fragments a packet whose header is right, behind a link header of `headers.l3` bytes, to
/// fit the MTU. `room` is how many may leave.
pub fn fragment<F: Frame>(
    mut frame: F,
    headers: &Headers,
    mtu: u32,
    room: usize,
) -> Result<ArrayVec<F, MAX_FRAGMENTS>, DropReason> {
    let l3 = usize::from(headers.l3);
    let plan = FragmentPlan::new(frame.bytes(), l3, mtu)?;
    if plan.fragments() > MAX_FRAGMENTS || l3 > LINK {
        return Err(DropReason::TooLong);
    }
    if plan.fragments() > room {
        return Err(DropReason::TxFull);
    }
    // A sum over the whole packet that was left to a NIC can be finished now or never.
    if checksum::is_partial(frame.bytes(), headers) {
        checksum::complete(frame.bytes_mut(), headers);
    }
    let mut later = ArrayVec::<F, MAX_FRAGMENTS>::new();
    let mut at = plan.first;
    while at < plan.data {
        let mut fragment = frame.duplicate().ok_or(DropReason::NoBuffer)?;
        let len = plan.later.min(plan.data - at);
        plan.make_later(&mut fragment, l3, at, len).ok_or(DropReason::NoBuffer)?;
        later.push(fragment);
        at += len;
    }
    plan.make_first(&mut frame, l3).ok_or(DropReason::NoBuffer)?;
    let mut fragments = ArrayVec::new();
    fragments.push(frame);
    fragments.extend(later);
    Ok(fragments)
}

/// How a packet is to be fragmented.
struct FragmentPlan {
    dont_fragment: bool,
    /// Flags and offset of the packet, which may be a fragment itself.
    more: bool,
    offset: u16,
    /// Bytes of its header and behind it.
    header: usize,
    data: usize,
    /// The header of all fragments but the first.
    copied: ArrayVec<u8, LONGEST>,
    /// Bytes of data in the first fragment, and in each later one but the last.
    first: usize,
    later: usize,
}

impl FragmentPlan {
    /// The name of what is wrong with the packet, when it cannot be fragmented.
    fn new(bytes: &[u8], l3: usize, mtu: u32) -> Result<Self, DropReason> {
        let wrong = DropReason::BadHeader;
        let packet = ipv4::View::new(bytes.get(l3..).ok_or(wrong)?).map_err(|_| wrong)?;
        let (header, data) = (packet.header_len(), packet.payload().len());
        let copied = copied_header(&packet).ok_or(wrong)?;
        let fits = |header: usize| (mtu as usize).saturating_sub(header) / UNIT * UNIT;
        let plan = Self {
            dont_fragment: packet.dont_fragment(),
            more: packet.more_fragments(),
            offset: packet.fragment_offset(),
            header,
            data,
            first: if header + data <= mtu as usize { data } else { fits(header) },
            later: fits(copied.len()),
            copied,
        };
        let end = usize::from(plan.offset) * UNIT + data;
        let sound = plan.first > 0 && plan.later > 0 && end <= usize::from(u16::MAX);
        if sound || plan.first == data { Ok(plan) } else { Err(wrong) }
    }

    fn fragments(&self) -> usize {
        1 + (self.data - self.first).div_ceil(self.later.max(1))
    }

    fn make_first<F: Frame>(&self, frame: &mut F, l3: usize) -> Option<()> {
        let whole = self.first == self.data;
        frame.resize(l3 + self.header + self.first).then_some(())?;
        finish(frame.bytes_mut().get_mut(l3..)?, self.header, self.first, self.offset, self.more || !whole)
    }

    /// The fragment of `len` bytes from `at` on, in a frame that holds the whole packet.
    fn make_later<F: Frame>(&self, frame: &mut F, l3: usize, at: usize, len: usize) -> Option<()> {
        let mut link = [0; LINK];
        let link = link.get_mut(..l3)?;
        link.copy_from_slice(frame.bytes().get(..l3)?);
        let header = self.copied.len();
        let moved = frame.shrink_front(self.header + at - header) && frame.resize(l3 + header + len);
        let (front, packet) = frame.bytes_mut().split_at_mut_checked(l3).filter(|_| moved)?;
        front.copy_from_slice(link);
        packet.get_mut(..header)?.copy_from_slice(&self.copied);
        let offset = self.offset + (at / UNIT) as u16;
        finish(packet, header, len, offset, self.more || at + len < self.data)
    }
}

/// Length, offset and checksum of a fragment.
fn finish(packet: &mut [u8], header: usize, data: usize, offset: u16, more: bool) -> Option<()> {
    let fragment = offset & OFFSET | if more { MORE } else { 0 };
    packet.get_mut(2..4)?.copy_from_slice(&((header + data) as u16).to_be_bytes());
    let field = packet.get_mut(FRAGMENT..FRAGMENT + 2)?;
    // The reserved flag stays what it was; DF was not set.
    let reserved = u16::from(field[0]) << 8 & !(DONT | MORE | OFFSET);
    field.copy_from_slice(&(fragment | reserved).to_be_bytes());
    ipv4::View::new(packet).ok().map(|mut view| view.fill_checksum())
}

/// The header of later fragments: of the options those that say they are to be copied, filled up to
/// four bytes. `None` when the options are not.
fn copied_header<T: AsRef<[u8]>>(packet: &ipv4::View<T>) -> Option<ArrayVec<u8, LONGEST>> {
    let mut header = ArrayVec::new();
    header.try_extend_from_slice(packet.fixed()).ok()?;
    let mut options = packet.options();
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => break,
            1 => 1,
            _ => Some(usize::from(*options.get(1)?)).filter(|len| *len >= 2)?,
        };
        let (option, rest) = options.split_at_checked(len)?;
        if kind & 0x80 != 0 {
            header.try_extend_from_slice(option).ok()?;
        }
        options = rest;
    }
    while header.len() % 4 != 0 {
        header.push(0);
    }
    header[0] = 0x40 | (header.len() / 4) as u8;
    Some(header)
}
