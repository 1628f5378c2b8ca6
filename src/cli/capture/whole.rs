//! pcapng on its way into a file that stays readable when there is no more room for it.

use std::io::{self, ErrorKind, Write};

use arrayvec::ArrayVec;

use crate::cli::output;

/// Writes a stream of pcapng. After an error the file ends with the last block that is whole, and
/// the error names the file with what is in it.
pub struct WholeBlocks<W> {
    to: W,
    name: String,
    /// Shortens the file to as many bytes.
    cut: fn(&mut W, u64) -> io::Result<()>,
    blocks: Blocks,
}

impl<W: Write> WholeBlocks<W> {
    pub fn new(to: W, name: String, cut: fn(&mut W, u64) -> io::Result<()>) -> Self {
        Self { to, name, cut, blocks: Blocks::default() }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// If it cannot; [`ErrorKind::BrokenPipe`] as it is.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.to.write(bytes) {
                Ok(0) => return Err(self.end(&ErrorKind::WriteZero.into())),
                Ok(n) => {
                    self.blocks.pass(&bytes[..n]);
                    bytes = &bytes[n..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(error),
                Err(error) => return Err(self.end(&error)),
            }
        }
        self.to.flush()
    }

    fn end(&mut self, error: &io::Error) -> io::Error {
        let Blocks { packets, end, .. } = self.blocks;
        let (packets, bytes) = (output::count(packets, "packet"), output::count(end, "byte"));
        let kept = match (self.cut)(&mut self.to, end) {
            Ok(()) => "it has",
            Err(_) => "until then it got",
        };
        io::Error::other(format!("{}: {error}; {kept} {packets}, {bytes}", self.name))
    }
}

/// Type of the block of a packet.
const PACKET: u32 = 6;
/// Bytes of a block's type and length, with which it begins.
const HEADER: usize = 8;

/// The blocks of a stream that are whole so far. The stream is little-endian.
#[derive(Debug, Default)]
struct Blocks {
    header: ArrayVec<u8, HEADER>,
    /// Bytes of the block that are to come behind its header.
    left: u64,
    passed: u64,
    /// Packets of whole blocks, and where the last of these ends.
    packets: u64,
    end: u64,
}

impl Blocks {
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = if self.header.is_full() {
                bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))
            } else {
                bytes.len().min(self.header.remaining_capacity())
            };
            let (part, rest) = bytes.split_at(n);
            bytes = rest;
            self.passed += n as u64;
            if self.header.is_full() {
                self.left -= n as u64;
            } else {
                self.header.extend(part.iter().copied());
                if self.header.is_full() {
                    self.left = u64::from(self.word(4)).saturating_sub(HEADER as u64);
                }
            }
            if self.header.is_full() && self.left == 0 {
                self.packets += u64::from(self.word(0) == PACKET);
                self.end = self.passed;
                self.header.clear();
            }
        }
    }

    /// A word of a full header.
    fn word(&self, at: usize) -> u32 {
        self.header[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{CaptureReader, PcapNgStream};

    /// A disk with room for as many bytes.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room - self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..n]);
            if n == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Wherever the room ends, the file is a capture of the packets that the error names.
    #[test]
    fn a_full_disk_leaves_a_whole_capture() {
        let mut stream = PcapNgStream::new("a comment");
        let begins = stream.len();
        let interface = stream.interface("port", "a port", 0);
        for n in 0..20u8 {
            stream.packet(interface, u64::from(n), 64, &[n; 61], 1, (n % 3 == 0).then_some("a comment"));
            stream.statistics(interface, u64::from(n), 0);
        }
        let bytes = stream.take();
        for room in begins..bytes.len() {
            for step in [1, 7, 100, bytes.len()] {
                let cut = |disk: &mut Disk, bytes: u64| {
                    disk.bytes.truncate(bytes as usize);
                    Ok(())
                };
                let mut to = WholeBlocks::new(Disk { bytes: Vec::new(), room }, "t.pcapng".into(), cut);
                let error = bytes.chunks(step).find_map(|part| to.write(part).err()).expect("no room").to_string();
                let mut reader = CaptureReader::new(&to.to.bytes[..]).unwrap();
                let mut packets = 0;
                while let Some(packet) = reader.next() {
                    packet.unwrap();
                    packets += 1u64;
                }
                let (packets, bytes) =
                    (output::count(packets, "packet"), output::count(to.to.bytes.len() as u64, "byte"));
                let full = io::Error::from(ErrorKind::StorageFull);
                assert_eq!(error, format!("t.pcapng: {full}; it has {packets}, {bytes}"));
            }
        }
    }

    #[test]
    fn what_there_is_room_for_is_written_as_it_is() {
        let mut stream = PcapNgStream::new("a comment");
        stream.interface("port", "", 96);
        let bytes = stream.take();
        let mut to = WholeBlocks::new(Vec::new(), String::new(), |_, _| unreachable!());
        bytes.chunks(5).for_each(|part| to.write(part).unwrap());
        assert_eq!((to.to, to.blocks.end, to.blocks.packets), (bytes.clone(), bytes.len() as u64, 0));
    }
}
