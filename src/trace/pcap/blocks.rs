//! pcapng: sections, interfaces and their clocks.

use std::io::Read;

use pcap_file::DataLink;
use pcap_file::pcapng::blocks::{
    ENHANCED_PACKET_BLOCK, INTERFACE_DESCRIPTION_BLOCK, PACKET_BLOCK, SIMPLE_PACKET_BLOCK,
};

use super::framing::{Blocks, SECTION_HEADER};
use super::{CaptureError, Captured, LinkType, MAX_RECORD, MAX_WIRE, NANOS};

/// One interface: its link type and its clock.
#[derive(Clone, Debug)]
struct Interface {
    name: Option<String>,
    /// Missed packets according to its newest statistics.
    missed: u64,
    link: DataLink,
    snap_len: usize,
    /// Ticks in a second.
    per_second: u64,
    offset_seconds: i64,
}

/// The interfaces of the current section.
#[derive(Debug, Default)]
pub struct Interfaces(Vec<Interface>);

impl Interfaces {
    pub fn missed(&self) -> u64 {
        self.0.iter().fold(0, |sum, interface| sum.saturating_add(interface.missed))
    }

    /// Reads an interface's statistics.
    fn statistics(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (interface, _when) = (fields.u32()?, fields.ticks()?);
        let missed = fields.option(ISB_IFDROP)?;
        let mut missed = Fields { bytes: missed, little: fields.little };
        self.0.get_mut(interface as usize)?.missed = missed.long()?;
        Some(())
    }
}

/// Interfaces of a section that are kept, and bytes of a name of theirs. A file of a few bytes,
/// compressed, would describe any number.
const MAX_INTERFACES: usize = 1 << 16;
const MAX_NAME: usize = 256;

/// The one type of block that `pcap-file` has no name for.
const INTERFACE_STATISTICS_BLOCK: u32 = 5;

/// Options: an interface's name and clock, a comment, the direction of a packet, packets that the
/// capturer lost.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const OPT_COMMENT: u16 = 1;
const EPB_FLAGS: u16 = 2;
const ISB_IFDROP: u16 = 5;

impl Interface {
    /// From the body of its description; `None` when that is too short.
    fn of(mut fields: Fields<'_>) -> Option<Self> {
        let (link, _reserved, snap_len) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let per_second = fields.option(IF_TSRESOL).and_then(|bytes| bytes.first()).map_or(1_000_000, |&resolution| {
            let (base, power) = if resolution & 0x80 == 0 { (10u64, resolution) } else { (2, resolution & 0x7f) };
            base.checked_pow(u32::from(power)).unwrap_or(u64::MAX)
        });
        let offset = fields.option(IF_TSOFFSET);
        let offset = offset.and_then(|bytes| Fields { bytes, little: fields.little }.long());
        Some(Self {
            name: fields
                .option(IF_NAME)
                .filter(|name| name.len() <= MAX_NAME)
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            missed: 0,
            link: DataLink::from(u32::from(link)),
            snap_len: if snap_len == 0 { usize::MAX } else { snap_len as usize },
            per_second,
            offset_seconds: offset.map_or(0, u64::cast_signed),
        })
    }

    fn nanos(&self, ticks: u64) -> u64 {
        let nanos = i128::from(ticks) * i128::from(NANOS) / i128::from(self.per_second);
        let shifted = nanos + i128::from(self.offset_seconds) * i128::from(NANOS);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
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

    /// The first option with this code among those that follow, which need not have an end. `self`
    /// stays where it is.
    fn option(&self, wanted: u16) -> Option<&'a [u8]> {
        let mut rest = Self { bytes: self.bytes, little: self.little };
        loop {
            let (code, len) = (rest.u16()?, usize::from(rest.u16()?));
            let value = rest.bytes.get(..len)?;
            if code == wanted {
                return Some(value);
            }
            if code == 0 {
                return None;
            }
            rest.bytes = rest.bytes.get(len.next_multiple_of(4)..)?;
        }
    }
}

/// A packet block before it is checked against its interface.
struct Record<'a> {
    interface: usize,
    ticks: u64,
    wire_len: u32,
    bytes: &'a [u8],
    flags: u32,
    comment: Option<&'a str>,
}

fn record<'a>(kind: u32, mut f: Fields<'a>, first: Option<&Interface>) -> Option<Record<'a>> {
    let (interface, ticks, stored, wire_len) = match kind {
        ENHANCED_PACKET_BLOCK => (f.u32()? as usize, f.ticks()?, f.u32()? as usize, f.u32()?),
        PACKET_BLOCK => {
            let (interface, _drops) = (f.u16()?, f.u16()?);
            (usize::from(interface), f.ticks()?, f.u32()? as usize, f.u32()?)
        }
        _ => {
            let wire_len = f.u32()?;
            // A simple packet has no length of its own: it is whole up to the snap length.
            let snap_len = first.map_or(usize::MAX, |i| i.snap_len);
            (0, 0, (wire_len as usize).min(snap_len), wire_len)
        }
    };
    let bytes = f.bytes.get(..stored)?;
    let (mut flags, mut comment) = (0, None);
    if kind == ENHANCED_PACKET_BLOCK {
        // Options that are not whole say nothing; the packet is.
        let options = f.bytes.get(stored.next_multiple_of(4)..).unwrap_or_default();
        let options = Fields { bytes: options, little: f.little };
        comment = options.option(OPT_COMMENT).and_then(|text| std::str::from_utf8(text).ok());
        flags = options.option(EPB_FLAGS).and_then(|bytes| Fields { bytes, little: f.little }.u32()).unwrap_or(0);
    }
    Some(Record { interface, ticks, wire_len, bytes, flags, comment })
}

/// Reads up to the next packet block and returns its type; interfaces and sections on the way are
/// noted.
fn find<R: Read>(
    blocks: &mut Blocks<R>,
    interfaces: &mut Interfaces,
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
            SECTION_HEADER => interfaces.0.clear(),
            INTERFACE_STATISTICS_BLOCK => {
                let _ = interfaces.statistics(fields);
            }
            INTERFACE_DESCRIPTION_BLOCK => match Interface::of(fields) {
                Some(_) if interfaces.0.len() == MAX_INTERFACES => {
                    let reason = format!("more than {MAX_INTERFACES} interfaces");
                    return Some(Err(CaptureError::Malformed { packet, reason }));
                }
                Some(interface) => interfaces.0.push(interface),
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
    packet: u64,
) -> Option<Result<Captured<'a>, CaptureError>> {
    let kind = match find(blocks, interfaces, packet)? {
        Err(error) => return Some(Err(error)),
        Ok(kind) => kind,
    };
    let fields = Fields { bytes: &blocks.body, little: blocks.little };
    Some(checked(record(kind, fields, interfaces.0.first()), interfaces, packet))
}

fn checked<'a>(
    record: Option<Record<'a>>,
    interfaces: &'a Interfaces,
    packet: u64,
) -> Result<Captured<'a>, CaptureError> {
    let malformed = |reason: &str| CaptureError::Malformed { packet, reason: reason.to_owned() };
    let record = record.ok_or_else(|| malformed("its block is shorter than it says"))?;
    let interface = interfaces.0.get(record.interface).ok_or_else(|| malformed("its interface is not described"))?;
    let link = LinkType::new(interface.link).ok_or(CaptureError::LinkType(interface.link))?;
    if record.bytes.len() > MAX_RECORD {
        return Err(malformed("it is longer than any Ethernet frame"));
    }
    if record.wire_len > MAX_WIRE {
        return Err(malformed("its length is more than that of any frame"));
    }
    let wire_len = record.wire_len.max(record.bytes.len() as u32);
    let Record { bytes, flags, comment, .. } = record;
    let (at_ns, interface) = (interface.nanos(record.ticks), interface.name.as_deref());
    Ok(Captured { at_ns, link, wire_len, bytes, interface, flags, comment })
}
