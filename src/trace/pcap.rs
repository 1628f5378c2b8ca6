//! Captures on disk: pcap written, pcap and pcapng read.
//!
//! A file may be hostile: every malformation is an error that names the packet, and an error ends
//! the reader. Records are taken raw from the parser and checked here,
//! because its own conversion refuses packets that were cut to the snap length, ignores pcapng's
//! time resolution, and rejects valid interface options.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::path::Path;

use pcap_file::pcap::{PcapHeader, PcapReader, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use thiserror::Error;

mod blocks;
mod framing;
mod link;
mod metadata;
mod source;
mod stream;
use blocks::Interfaces;
use framing::Blocks;
pub use link::LinkType;
pub use metadata::Metadata;
use metadata::Stored;
pub use source::CompressionError;
use source::Source;
pub use stream::PcapNgStream;

/// An error in a capture.
#[derive(Debug, Error)]
pub enum CaptureError {
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Compressed(CompressionError),
    #[error("the file is empty")]
    Empty,
    #[error("neither pcap nor pcapng: it starts with {0:02x?}")]
    Magic(Vec<u8>),
    #[error("{0}, which is not read; `editcap -F pcap` makes a pcap of it")]
    Form(&'static str),
    #[error("version {0}.{1} of its format, which is not read")]
    Version(u16, u16),
    #[error("link type {0:?}, which is not read")]
    LinkType(DataLink),
    #[error("the file ends inside packet {packet}")]
    Truncated { packet: u64 },
    #[error("packet {packet}: {reason}")]
    Malformed { packet: u64, reason: String },
    #[error("a packet of {0} bytes does not fit a capture")]
    TooLong(usize),
    #[error("the time {0} ns does not fit a capture, which ends in 2106")]
    TooLate(u64),
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        error.downcast().map_or_else(Self::Io, Self::Compressed)
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Nanoseconds since the capture's epoch.
    pub at_ns: u64,
    /// The link type that it was captured with.
    pub link: LinkType,
    /// Length on the wire; `bytes` may be shorter.
    pub wire_len: u32,
    /// The Ethernet frame. Where it was captured with another link type, an Ethernet header stands
    /// in place of its own, and `wire_len` is that of the frame.
    pub bytes: &'a [u8],
    /// The interface's number in its section of a pcapng, from 0; 0 in a pcap.
    pub interface_id: u32,
    /// The interface's name in pcapng.
    pub interface: Option<&'a str>,
    /// pcapng's `epb_flags`: whether it came in or went out. 0 when not said.
    pub flags: u32,
    /// pcapng's first comment on the packet.
    pub comment: Option<&'a str>,
}

impl Captured<'_> {
    /// Whether it is said to have gone out by its interface.
    pub fn is_outbound(&self) -> bool {
        self.flags & 3 == OUTBOUND
    }

    /// Nanoseconds for which a switch had held the packet by its time: the word `held_ns=N` of its
    /// comment, else 0.
    ///
    /// # Errors
    /// The word, when N is not a number of 32 bits.
    pub fn held_ns(&self) -> Result<u32, &str> {
        let mut words = self.comment.unwrap_or_default().split_ascii_whitespace();
        let Some((word, held)) = words.find_map(|word| Some((word, word.strip_prefix(HELD)?))) else { return Ok(0) };
        held.parse().map_err(|_| word)
    }
}

/// Begins the word of a packet's comment that says how long a switch had held it.
const HELD: &str = "held_ns=";

/// The direction in `epb_flags`.
pub const INBOUND: u32 = 1;
pub const OUTBOUND: u32 = 2;

/// The largest record accepted: well above any Ethernet frame, below the parser's buffer.
const MAX_RECORD: usize = 256 * 1024;

/// The link type in its word of a pcap's header. The rest is about frame check sequences: whether
/// their length is there, and that in units of two bytes.
const LINK_TYPE: u32 = 0x03ff_ffff;
const HAS_FCS_LEN: u32 = 0x0400_0000;
const FCS_LEN_SHIFT: u32 = 28;

/// The version of pcap since 1998. Older ones have a packet's two lengths the other way round.
const VERSION: (u16, u16) = (2, 4);

/// The largest length on the wire accepted, in bytes: above every frame that segmentation offload
/// makes.
const MAX_WIRE: u32 = 1 << 24;

/// Writes pcap with nanosecond timestamps. Give it a buffered writer.
pub struct CaptureWriter<W: Write> {
    inner: PcapWriter<W>,
}

impl<W: Write> CaptureWriter<W> {
    pub fn new(to: W) -> Result<Self, CaptureError> {
        // Little-endian on every machine, so that the same workload gives the same file.
        let header = PcapHeader {
            snaplen: MAX_RECORD as u32,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        Ok(Self { inner: PcapWriter::with_header(to, header).map_err(|e| broken(e, 0))? })
    }

    pub fn write(&mut self, at_ns: u64, frame: &[u8]) -> Result<(), CaptureError> {
        self.write_cut(at_ns, frame, frame.len())
    }

    /// Writes the first bytes of a frame that was `wire_len` bytes long on the wire.
    pub fn write_cut(&mut self, at_ns: u64, frame: &[u8], wire_len: usize) -> Result<(), CaptureError> {
        let len = u32::try_from(frame.len()).ok().filter(|&n| n as usize <= MAX_RECORD);
        let incl_len = len.ok_or(CaptureError::TooLong(frame.len()))?;
        let orig_len = u32::try_from(wire_len).map_err(|_| CaptureError::TooLong(wire_len))?;
        let ts_sec = u32::try_from(at_ns / NANOS).map_err(|_| CaptureError::TooLate(at_ns))?;
        let ts_frac = (at_ns % NANOS) as u32;
        let record = RawPcapPacket { ts_sec, ts_frac, incl_len, orig_len, data: Cow::Borrowed(frame) };
        self.inner.write_raw_packet(&record).map_err(|e| broken(e, 0))?;
        Ok(())
    }

    /// Flushes and gives the writer back.
    pub fn finish(self) -> Result<W, CaptureError> {
        let mut writer = self.inner.into_writer();
        writer.flush()?;
        Ok(writer)
    }
}

const NANOS: u64 = 1_000_000_000;

/// The capture, decompressed.
type Stream<R> = io::Chain<Cursor<Vec<u8>>, Source<R>>;

enum Format<R: Read> {
    Pcap { reader: PcapReader<Stream<R>>, link: LinkType, fcs_len: u32 },
    PcapNg { blocks: Blocks<BufReader<Stream<R>>>, interfaces: Interfaces },
}

/// Reads pcap and pcapng, compressed with gzip, zstd or not at all, distinguished by their first
/// bytes.
pub struct CaptureReader<R: Read> {
    format: Format<R>,
    /// The Ethernet frame of a packet with another link type.
    frame: Vec<u8>,
    packet: u64,
    /// The time of the packet before, for packets without one.
    latest_ns: u64,
    metadata: Metadata,
    ended: bool,
}

impl CaptureReader<File> {
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Self::new(File::open(path)?)
    }
}

impl<R: Read> CaptureReader<R> {
    pub fn new(from: R) -> Result<Self, CaptureError> {
        let (magic, stream) = source::peek(Source::new(from)?)?;
        let format = match magic[..] {
            [0x0a, 0x0d, 0x0d, 0x0a] => {
                let mut blocks = Blocks::new(BufReader::new(stream));
                if let Some(Err(error)) = blocks.next(0) {
                    return Err(error);
                }
                blocks::check_version(&blocks)?;
                Format::PcapNg { blocks, interfaces: Interfaces::default() }
            }
            [0xa1, 0xb2, 0xc3, 0xd4]
            | [0xd4, 0xc3, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0x3c, 0x4d]
            | [0x4d, 0x3c, 0xb2, 0xa1] => {
                let reader = PcapReader::new(stream).map_err(|e| broken(e, 0))?;
                let header = reader.header();
                if (header.version_major, header.version_minor) != VERSION {
                    return Err(CaptureError::Version(header.version_major, header.version_minor));
                }
                let word = u32::from(header.datalink);
                let link = DataLink::from(word & LINK_TYPE);
                let link = LinkType::new(link).ok_or(CaptureError::LinkType(link))?;
                let fcs_len = if word & HAS_FCS_LEN == 0 { 0 } else { 2 * (word >> FCS_LEN_SHIFT) };
                Format::Pcap { reader, link, fcs_len }
            }
            [] => return Err(CaptureError::Empty),
            _ => return Err(other_form(&magic).map_or(CaptureError::Magic(magic), CaptureError::Form)),
        };
        let metadata = Metadata::default();
        Ok(Self { format, frame: Vec::new(), packet: 0, latest_ns: 0, metadata, ended: false })
    }

    /// The next packet, lent until the next call; `None` at the end and after an error.
    #[allow(clippy::should_implement_trait, reason = "it lends, which an iterator cannot")]
    pub fn next(&mut self) -> Option<Result<Captured<'_>, CaptureError>> {
        if self.ended {
            return None;
        }
        self.packet += 1;
        // Set first and taken back on success: a packet that is lent keeps `self` borrowed.
        self.ended = true;
        let said = &mut self.metadata;
        let next = match &mut self.format {
            Format::Pcap { reader, link, fcs_len } => next_pcap(reader, (*link, *fcs_len), self.packet),
            Format::PcapNg { blocks, interfaces } => blocks::next_packet(blocks, interfaces, said, self.packet),
        };
        match next? {
            Ok(stored) => {
                self.ended = false;
                let captured = stored.captured(&mut self.latest_ns, &mut self.metadata);
                Some(Ok(match captured.link {
                    LinkType::Ethernet => captured,
                    link => link.to_ethernet(captured, &mut self.frame),
                }))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// The capture's statements about itself, as far as it has been read.
    pub fn metadata(&self) -> Metadata {
        let mut said = self.metadata.clone();
        if let Format::PcapNg { interfaces, .. } = &self.format {
            interfaces.counts().add_to(&mut said);
        }
        said
    }

    /// Packets that the capturer missed, as far as it says and has been read.
    pub fn missed(&self) -> u64 {
        self.metadata().missed_packets.unwrap_or_default()
    }
}

/// The name of a form of capture that is known and not read, by its first bytes.
fn other_form(magic: &[u8]) -> Option<&'static str> {
    let magic = u32::from_be_bytes(magic.try_into().ok()?);
    Some(match magic {
        0xa1b2_cd34 | 0x34cd_b2a1 => "a pcap in Kuznetsov's modified form",
        0xa1b2_34cd | 0xcd34_b2a1 => "a pcap in Mesquita's modified form",
        0xa12b_3c4d | 0x4d3c_2ba1 => "a pcap in Navtel's modified form",
        0x1c00_01ac | 0xac01_001c | 0x1c00_01ab | 0xab01_001c => "a capture in IXIA's form",
        0x736e_6f6f => "a snoop capture",
        0x474d_4255 | 0x5254_5353 => "a Network Monitor capture",
        _ => return None,
    })
}

fn next_pcap<R: Read>(
    reader: &mut PcapReader<R>,
    (link, fcs_len): (LinkType, u32),
    packet: u64,
) -> Option<Result<Stored<'_>, CaptureError>> {
    let resolution = reader.header().ts_resolution;
    let raw = match reader.next_raw_packet()? {
        Ok(raw) => raw,
        Err(error) => return Some(Err(broken(error, packet))),
    };
    let malformed = |reason: String| Some(Err(CaptureError::Malformed { packet, reason }));
    let Cow::Borrowed(bytes) = raw.data else { return malformed("its bytes are not in the file".to_owned()) };
    if bytes.len() > MAX_RECORD {
        return malformed(format!("{} bytes, more than any Ethernet frame", bytes.len()));
    }
    let (unit, name) = match resolution {
        TsResolution::MicroSecond => (1000, "microseconds"),
        TsResolution::NanoSecond => (1, "nanoseconds"),
    };
    let fraction = u64::from(raw.ts_frac) * unit;
    if fraction >= NANOS {
        return malformed(format!("{} {name} are more than a second", raw.ts_frac));
    }
    let wire_len = raw.orig_len.max(raw.incl_len);
    if wire_len > MAX_WIRE {
        return malformed(format!("a length of {wire_len} bytes, more than any frame"));
    }
    let at_ns = u64::from(raw.ts_sec) * NANOS + fraction;
    let captured = Captured { at_ns, link, wire_len, bytes, interface_id: 0, interface: None, flags: 0, comment: None };
    Some(Ok(Stored { captured, has_time: true, fcs_len, is_damaged: false }))
}

/// The parser's error in our terms. A length beyond the file's end and a full buffer look alike to
/// the parser.
fn broken(error: PcapError, packet: u64) -> CaptureError {
    match error {
        PcapError::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => CaptureError::Truncated { packet },
        PcapError::IncompleteBuffer => CaptureError::Truncated { packet },
        PcapError::IoError(e) => e.into(),
        other => CaptureError::Malformed { packet, reason: other.to_string() },
    }
}

#[cfg(test)]
mod tests;
