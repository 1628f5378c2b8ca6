//! pcapng: sections, interfaces and their clocks.

use std::io::Read;

use pcap_file::DataLink;
use pcap_file::pcapng::blocks::{
    ENHANCED_PACKET_BLOCK, INTERFACE_DESCRIPTION_BLOCK, PACKET_BLOCK, SIMPLE_PACKET_BLOCK,
};

use super::framing::{Blocks, SECTION_HEADER};
use super::metadata::{Metadata, Stored, add_known};
use super::{CaptureError, Captured, LinkType, MAX_RECORD, MAX_WIRE, NANOS};

/// One interface: its link type, its clock, and what its packets end with.
#[derive(Clone, Debug)]
struct Interface {
    name: Option<String>,
    counts: Counts,
    link: DataLink,
    snap_len: usize,
    /// Bytes of frame check sequence behind each packet that does not say otherwise.
    fcs_len: u32,
    /// Ticks in a second.
    per_second: u64,
    offset_seconds: i64,
}

/// Packets that an interface received and missed, as the capture states.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// According to its newest statistics.
    received: Option<u64>,
    missed: Option<u64>,
    /// According to its packets, of which each may say how many are missing in front of it.
    missed_between: Option<u64>,
}

impl Counts {
    /// Statistics and packets count the same losses.
    fn missed(&self) -> Option<u64> {
        self.missed.max(self.missed_between)
    }

    pub fn add_to(&self, said: &mut Metadata) {
        add_known(&mut said.received_packets, self.received);
        add_known(&mut said.missed_packets, self.missed());
    }

    fn add(&mut self, other: &Self) {
        add_known(&mut self.received, other.received);
        add_known(&mut self.missed, other.missed());
    }
}

/// The interfaces of the current section, and the counts of those of earlier ones.
#[derive(Debug, Default)]
pub struct Interfaces {
    current: Vec<Interface>,
    earlier: Counts,
}

impl Interfaces {
    pub fn counts(&self) -> Counts {
        let mut sum = self.earlier;
        self.current.iter().for_each(|interface| sum.add(&interface.counts));
        sum
    }

    fn end_section(&mut self) {
        self.earlier = self.counts();
        self.current.clear();
    }

    /// Reads an interface's statistics.
    fn statistics(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (interface, _when) = (fields.u32()?, fields.ticks()?);
        let counts = &mut self.current.get_mut(interface as usize)?.counts;
        let (mut by_interface, mut by_system) = (None, None);
        for (code, value) in fields.options() {
            // All ones stand for a number that is not known.
            let count = Fields { bytes: value, little: fields.little }.long().filter(|count| *count != u64::MAX);
            match code {
                ISB_IFRECV => counts.received = count.or(counts.received),
                ISB_IFDROP => by_interface = count,
                ISB_OSDROP => by_system = count,
                _ => {}
            }
        }
        add_known(&mut by_interface, by_system);
        counts.missed = by_interface.or(counts.missed);
        Some(())
    }
}

/// Interfaces of a section that are kept, and bytes of a name of theirs. A file of a few bytes,
/// compressed, would describe any number.
const MAX_INTERFACES: usize = 1 << 16;
const MAX_NAME: usize = 256;

/// The one type of block that `pcap-file` has no name for.
const INTERFACE_STATISTICS_BLOCK: u32 = 5;

/// Options of any block: a comment.
const OPT_COMMENT: u16 = 1;
/// Of an interface: name, clock, filter, length of the frame check sequence.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FILTER: u16 = 11;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
/// Of a packet: direction, errors and length of the frame check sequence in one word; packets lost
/// since the one before.
const EPB_FLAGS: u16 = 2;
const EPB_DROPCOUNT: u16 = 4;
/// Of statistics: packets received, lost by the interface, lost by the system.
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;

/// Bits of `epb_flags`: the length of the frame check sequence in bytes, 0 where it is not known, and
/// errors on the link.
const FLAGS_FCS_LEN: u32 = 0x0000_01e0;
const FLAGS_FCS_LEN_SHIFT: u32 = 5;
const FLAGS_ERRORS: u32 = 0xffff_0000;
/// A packet block's number of lost packets that is not known.
const UNKNOWN_DROPS: u16 = 0xffff;

impl Interface {
    /// From the body of its description; `None` when that is too short.
    fn of(mut fields: Fields<'_>, said: &mut Metadata) -> Option<Self> {
        let (link, _reserved, snap_len) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let mut interface = Self {
            name: None,
            counts: Counts::default(),
            link: DataLink::from(u32::from(link)),
            snap_len: if snap_len == 0 { usize::MAX } else { snap_len as usize },
            fcs_len: 0,
            per_second: 1_000_000,
            offset_seconds: 0,
        };
        for (code, value) in fields.options() {
            interface.option(code, Fields { bytes: value, little: fields.little }, said);
        }
        Some(interface)
    }

    fn option(&mut self, code: u16, mut value: Fields<'_>, said: &mut Metadata) {
        match (code, value.bytes) {
            (IF_NAME, name) if name.len() <= MAX_NAME => self.name = Some(String::from_utf8_lossy(name).into_owned()),
            (IF_TSRESOL, &[resolution, ..]) => {
                let (base, power) = if resolution & 0x80 == 0 { (10u64, resolution) } else { (2, resolution & 0x7f) };
                self.per_second = base.checked_pow(u32::from(power)).unwrap_or(u64::MAX);
            }
            (IF_TSOFFSET, _) => self.offset_seconds = value.long().map_or(0, u64::cast_signed),
            // In bits, as it was specified, or in bytes, as it is mostly written.
            (IF_FCSLEN, &[len, ..]) => self.fcs_len = u32::from(if len > 8 { len / 8 } else { len }),
            (IF_FILTER, &[0, ref filter @ ..]) if filter.len() <= MAX_NAME => {
                said.add_filter(&String::from_utf8_lossy(filter));
            }
            (IF_FILTER, _) => said.add_filter("a filter that is not in words"),
            _ => {}
        }
    }

    /// Nanoseconds since 1970; `None` before that, and after 2554.
    fn nanos(&self, ticks: u64) -> Option<u64> {
        let nanos = i128::from(ticks) * i128::from(NANOS) / i128::from(self.per_second);
        u64::try_from(nanos + i128::from(self.offset_seconds) * i128::from(NANOS)).ok()
    }
}

/// Reads integers of a block in its section's byte order.
struct Fields<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl<'a> Fields<'a> {
    fn u16(&mut self) -> Option<u16> {
        let (field, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(if self.little { u16::from_le_bytes(*field) } else { u16::from_be_bytes(*field) })
    }

    fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(if self.little { u32::from_le_bytes(*field) } else { u32::from_be_bytes(*field) })
    }

    fn ticks(&mut self) -> Option<u64> {
        Some(u64::from(self.u32()?) << 32 | u64::from(self.u32()?))
    }

    fn long(&mut self) -> Option<u64> {
        let (first, second) = (self.u32()?, self.u32()?);
        let (high, low) = if self.little { (second, first) } else { (first, second) };
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// The options that follow, by code, up to the first that is not whole. Their end need not be
    /// there. `self` stays where it is.
    fn options(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = Self { bytes: self.bytes, little: self.little };
        std::iter::from_fn(move || {
            let (code, len) = (rest.u16()?, usize::from(rest.u16()?));
            let value = rest.bytes.get(..len)?;
            rest.bytes = rest.bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
            (code != 0).then_some((code, value))
        })
    }
}

/// A packet block before it is checked against its interface.
struct Record<'a> {
    interface: usize,
    /// A simple packet has no time.
    ticks: Option<u64>,
    wire_len: u32,
    bytes: &'a [u8],
    flags: u32,
    comment: Option<&'a str>,
    /// Packets that are missing in front of it.
    missed: Option<u64>,
}

fn record<'a>(kind: u32, mut f: Fields<'a>, first: Option<&Interface>) -> Option<Record<'a>> {
    let mut missed = None;
    let (interface, ticks, stored, wire_len) = match kind {
        ENHANCED_PACKET_BLOCK => (f.u32()? as usize, Some(f.ticks()?), f.u32()? as usize, f.u32()?),
        PACKET_BLOCK => {
            let (interface, drops) = (f.u16()?, f.u16()?);
            missed = (drops != UNKNOWN_DROPS).then_some(drops.into());
            (usize::from(interface), Some(f.ticks()?), f.u32()? as usize, f.u32()?)
        }
        _ => {
            let wire_len = f.u32()?;
            // A simple packet has no length of its own: it is whole up to the snap length.
            let snap_len = first.map_or(usize::MAX, |i| i.snap_len);
            (0, None, (wire_len as usize).min(snap_len), wire_len)
        }
    };
    let bytes = f.bytes.get(..stored)?;
    let mut record = Record { interface, ticks, wire_len, bytes, flags: 0, comment: None, missed };
    if kind != SIMPLE_PACKET_BLOCK {
        // Options that are not whole say nothing; the packet is.
        let options = f.bytes.get(stored.next_multiple_of(4)..).unwrap_or_default();
        for (code, value) in (Fields { bytes: options, little: f.little }).options() {
            let mut fields = Fields { bytes: value, little: f.little };
            match code {
                OPT_COMMENT if record.comment.is_none() => record.comment = std::str::from_utf8(value).ok(),
                EPB_FLAGS => record.flags = fields.u32().unwrap_or(0),
                EPB_DROPCOUNT if kind == ENHANCED_PACKET_BLOCK => record.missed = fields.long(),
                _ => {}
            }
        }
    }
    Some(record)
}

/// Fails when the section that has begun is of another version than 1.
pub fn check_version<R>(blocks: &Blocks<R>) -> Result<(), CaptureError> {
    let mut fields = Fields { bytes: blocks.body.get(4..).unwrap_or_default(), little: blocks.little };
    match (fields.u16(), fields.u16()) {
        (Some(1), _) | (None, _) => Ok(()),
        (Some(major), minor) => Err(CaptureError::Version(major, minor.unwrap_or_default())),
    }
}

/// Reads up to the next packet block and returns its type; interfaces and sections on the way are
/// noted.
fn find<R: Read>(
    blocks: &mut Blocks<R>,
    interfaces: &mut Interfaces,
    said: &mut Metadata,
    packet: u64,
) -> Option<Result<u32, CaptureError>> {
    loop {
        let kind = match blocks.next(packet)? {
            Ok(kind) => kind,
            Err(error) => return Some(Err(error)),
        };
        let fields = Fields { bytes: &blocks.body, little: blocks.little };
        match kind {
            ENHANCED_PACKET_BLOCK | PACKET_BLOCK | SIMPLE_PACKET_BLOCK => return Some(Ok(kind)),
            SECTION_HEADER => {
                interfaces.end_section();
                if let Err(error) = check_version(blocks) {
                    return Some(Err(error));
                }
            }
            INTERFACE_STATISTICS_BLOCK => {
                let _ = interfaces.statistics(fields);
            }
            INTERFACE_DESCRIPTION_BLOCK => match Interface::of(fields, said) {
                Some(_) if interfaces.current.len() == MAX_INTERFACES => {
                    let reason = format!("more than {MAX_INTERFACES} interfaces");
                    return Some(Err(CaptureError::Malformed { packet, reason }));
                }
                Some(interface) => interfaces.current.push(interface),
                None => {
                    let reason = "the description of an interface is shorter than it must be".to_owned();
                    return Some(Err(CaptureError::Malformed { packet, reason }));
                }
            },
            _ => {}
        }
    }
}

/// The next packet of any interface, lent from `blocks`.
pub fn next_packet<'a, R: Read>(
    blocks: &'a mut Blocks<R>,
    interfaces: &'a mut Interfaces,
    said: &mut Metadata,
    packet: u64,
) -> Option<Result<Stored<'a>, CaptureError>> {
    let kind = match find(blocks, interfaces, said, packet)? {
        Err(error) => return Some(Err(error)),
        Ok(kind) => kind,
    };
    let fields = Fields { bytes: &blocks.body, little: blocks.little };
    Some(checked(record(kind, fields, interfaces.current.first()), interfaces, packet))
}

fn checked<'a>(
    record: Option<Record<'a>>,
    interfaces: &'a mut Interfaces,
    packet: u64,
) -> Result<Stored<'a>, CaptureError> {
    let malformed = |reason: &str| CaptureError::Malformed { packet, reason: reason.to_owned() };
    let record = record.ok_or_else(|| malformed("its block is shorter than it says"))?;
    let interface_id = record.interface;
    let interface = interfaces.current.get_mut(interface_id);
    let interface = interface.ok_or_else(|| malformed("its interface is not described"))?;
    let link = LinkType::new(interface.link).ok_or(CaptureError::LinkType(interface.link))?;
    if record.bytes.len() > MAX_RECORD {
        return Err(malformed("it is longer than any Ethernet frame"));
    }
    if record.wire_len > MAX_WIRE {
        return Err(malformed("its length is more than that of any frame"));
    }
    add_known(&mut interface.counts.missed_between, record.missed);
    let wire_len = record.wire_len.max(record.bytes.len() as u32);
    let Record { bytes, flags, comment, ticks, .. } = record;
    let (at_ns, name) = (ticks.and_then(|ticks| interface.nanos(ticks)), interface.name.as_deref());
    let (at, interface_id) = (at_ns.unwrap_or_default(), interface_id as u32);
    let captured = Captured { at_ns: at, link, wire_len, bytes, interface_id, interface: name, flags, comment };
    let fcs_len = match (flags & FLAGS_FCS_LEN) >> FLAGS_FCS_LEN_SHIFT {
        0 => interface.fcs_len,
        stated => stated,
    };
    Ok(Stored { captured, has_time: at_ns.is_some(), fcs_len, is_damaged: flags & FLAGS_ERRORS != 0 })
}
