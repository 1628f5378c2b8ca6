//! pcapng: sections, interfaces and their clocks.

use std::io::Read;

use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::{
    ENHANCED_PACKET_BLOCK, INTERFACE_DESCRIPTION_BLOCK, PACKET_BLOCK, SECTION_HEADER_BLOCK, SIMPLE_PACKET_BLOCK,
};
use pcap_file::{DataLink, Endianness, PcapError};

use super::{CaptureError, Captured, MAX_RECORD, NANOS, broken};

/// One interface: its link type and its clock.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: DataLink,
    snap_len: usize,
    /// Ticks in a second.
    per_second: u64,
    offset_seconds: i64,
}

/// The interfaces of the current section.
#[derive(Debug, Default)]
pub struct Interfaces(Vec<Interface>);

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let snap_len = if block.snaplen == 0 { usize::MAX } else { block.snaplen as usize };
        let mut interface = Self { link: block.linktype, snap_len, per_second: 1_000_000, offset_seconds: 0 };
        for option in &block.options {
            match *option {
                InterfaceDescriptionOption::IfTsResol(r) => {
                    let (base, power) = if r & 0x80 == 0 { (10u64, r) } else { (2, r & 0x7f) };
                    interface.per_second = base.checked_pow(u32::from(power)).unwrap_or(u64::MAX);
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => interface.offset_seconds = seconds as i64,
                _ => {}
            }
        }
        interface
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
}

/// A packet block before it is checked against its interface.
struct Record<'a> {
    interface: usize,
    ticks: u64,
    wire_len: u32,
    bytes: &'a [u8],
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
    Some(Record { interface, ticks, wire_len, bytes: f.bytes.get(..stored)? })
}

/// Copies the next packet block into `body` and returns its type; interfaces and sections on the way are noted.
fn find<R: Read>(
    reader: &mut PcapNgReader<R>,
    interfaces: &mut Interfaces,
    body: &mut Vec<u8>,
) -> Option<Result<u32, PcapError>> {
    loop {
        let kind = match reader.next_raw_block()? {
            Err(error) => return Some(Err(error)),
            Ok(block) => {
                if matches!(block.type_, ENHANCED_PACKET_BLOCK | PACKET_BLOCK | SIMPLE_PACKET_BLOCK) {
                    body.clear();
                    body.extend_from_slice(&block.body);
                    return Some(Ok(block.type_));
                }
                block.type_
            }
        };
        match kind {
            SECTION_HEADER_BLOCK => interfaces.0.clear(),
            INTERFACE_DESCRIPTION_BLOCK => interfaces.0.extend(reader.interfaces().last().map(Interface::of)),
            _ => {}
        }
    }
}

/// The next packet of any interface, lent from `body`.
pub fn next_packet<'a, R: Read>(
    reader: &mut PcapNgReader<R>,
    interfaces: &mut Interfaces,
    body: &'a mut Vec<u8>,
    packet: u64,
) -> Option<Result<Captured<'a>, CaptureError>> {
    let kind = match find(reader, interfaces, body)? {
        Err(error) => return Some(Err(broken(error, packet))),
        Ok(kind) => kind,
    };
    let fields = Fields { bytes: body, little: reader.section().endianness == Endianness::Little };
    Some(checked(record(kind, fields, interfaces.0.first()), interfaces, packet))
}

fn checked<'a>(record: Option<Record<'a>>, interfaces: &Interfaces, packet: u64) -> Result<Captured<'a>, CaptureError> {
    let malformed = |reason: &str| CaptureError::Malformed { packet, reason: reason.to_owned() };
    let record = record.ok_or_else(|| malformed("its block is shorter than it says"))?;
    let interface = interfaces.0.get(record.interface).ok_or_else(|| malformed("its interface is not described"))?;
    if interface.link != DataLink::ETHERNET {
        return Err(CaptureError::LinkType(interface.link));
    }
    if record.bytes.len() > MAX_RECORD {
        return Err(malformed("it is longer than any Ethernet frame"));
    }
    let wire_len = record.wire_len.max(record.bytes.len() as u32);
    Ok(Captured { at_ns: interface.nanos(record.ticks), wire_len, bytes: record.bytes })
}
