//! pcapng's outermost form: blocks, one behind the other.
//!
//! `pcap-file` has a reader for it, which also parses descriptions of interfaces, and refuses a
//! file whose options do not end with `opt_endofopt`. The format asks readers to take those.

use std::io::{self, Read};

use super::CaptureError;

pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The longest block accepted, in bytes.
const MAX_BLOCK: u32 = 16 << 20;
/// Type and length in front, length behind.
const FRAME: u32 = 12;

/// The blocks of a file, one at a time.
#[derive(Debug)]
pub struct Blocks<R> {
    from: R,
    /// The byte order of the section.
    pub little: bool,
    /// The last block, without its type and lengths.
    pub body: Vec<u8>,
}

impl<R: Read> Blocks<R> {
    pub fn new(from: R) -> Self {
        Self { from, little: false, body: Vec::new() }
    }

    /// Reads the next block into `body` and returns its type; `None` at the end of the file. Errors
    /// name `packet`.
    pub fn next(&mut self, packet: u64) -> Option<Result<u32, CaptureError>> {
        let mut kind = [0; 4];
        match (&mut self.from).take(4).read(&mut kind) {
            Ok(0) => None,
            Ok(n) => Some(self.rest(kind, n).map_err(|wrong| wrong.of(packet))),
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Reads the rest of a block behind its first `n` bytes.
    fn rest(&mut self, mut kind: [u8; 4], n: usize) -> Result<u32, Wrong> {
        self.from.read_exact(&mut kind[n..])?;
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        self.body.clear();
        // The type of a section header reads the same in both byte orders.
        let is_section = u32::from_be_bytes(kind) == SECTION_HEADER;
        if is_section {
            let mut magic = [0; 4];
            self.from.read_exact(&mut magic)?;
            self.little = match u32::from_le_bytes(magic) {
                BYTE_ORDER => true,
                other if other.swap_bytes() == BYTE_ORDER => false,
                _ => return Err(Wrong::Form("a section without a byte order")),
            };
            self.body.extend_from_slice(&magic);
        }
        let length = self.word(length);
        if !length.is_multiple_of(4) || length < FRAME + self.body.len() as u32 || length > MAX_BLOCK {
            return Err(Wrong::Form("the length of its block"));
        }
        let body = u64::from(length - FRAME) - self.body.len() as u64;
        if (&mut self.from).take(body).read_to_end(&mut self.body)? as u64 != body {
            return Err(Wrong::Ended);
        }
        let mut again = [0; 4];
        self.from.read_exact(&mut again)?;
        if self.word(again) != length {
            return Err(Wrong::Form("the two lengths of its block differ"));
        }
        Ok(if is_section { SECTION_HEADER } else { self.word(kind) })
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }
}

/// An error in a block.
enum Wrong {
    Ended,
    Form(&'static str),
    Io(io::Error),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Ended } else { Self::Io(error) }
    }
}

impl Wrong {
    fn of(self, packet: u64) -> CaptureError {
        match self {
            Self::Ended => CaptureError::Truncated { packet },
            Self::Form(reason) => CaptureError::Malformed { packet, reason: reason.to_owned() },
            Self::Io(error) => error.into(),
        }
    }
}
