//! The bytes of a capture: as they are stored, or decompressed on the way. The first bytes say
//! which, not the file's name.
//!
//! Memory is bounded whatever the data say: gzip has a window of 32 KiB, and a zstd window is at
//! most [`MAX_WINDOW`] bytes.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use thiserror::Error;

/// Largest zstd window accepted, in bytes: what the command `zstd` makes with `--ultra -22` or
/// `--long`, and takes without asking.
const MAX_WINDOW: u64 = 128 << 20;

/// Compressed data that cannot be read.
#[derive(Debug, Error)]
pub enum CompressionError {
    #[error("its {0} data ends too early")]
    Ended(&'static str),
    #[error("its {format} data cannot be read: {reason}")]
    Damaged { format: &'static str, reason: String },
}

/// A stream from its first byte on, after some of it has been looked at.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// Reads the first bytes of a stream, at most four, and puts them back.
pub fn peek<R: Read>(mut from: R) -> io::Result<(Vec<u8>, Whole<R>)> {
    let mut first = Vec::new();
    (&mut from).take(4).read_to_end(&mut first)?;
    Ok((first.clone(), Cursor::new(first).chain(from)))
}

/// Errors of the compressed data are [`CompressionError`]s within an [`io::Error`].
pub enum Source<R: Read> {
    Stored(Whole<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Whole<R>>>>),
    Zstd(Box<Zstd<BufReader<Whole<R>>>>),
}

impl<R: Read> Source<R> {
    pub fn new(from: R) -> io::Result<Self> {
        let (first, whole) = peek(from)?;
        Ok(match first[..] {
            [0x1f, 0x8b, ..] => Self::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(whole)))),
            // A frame, or one that is to be skipped.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                Self::Zstd(Box::new(Zstd::new(BufReader::new(whole))))
            }
            _ => Self::Stored(whole),
        })
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(whole) => whole.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer).map_err(|error| match error.kind() {
                _ if error.raw_os_error().is_some() => error,
                io::ErrorKind::UnexpectedEof => io::Error::other(CompressionError::Ended("gzip")),
                _ => damaged("gzip", error),
            }),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

fn damaged(format: &'static str, reason: impl ToString) -> io::Error {
    io::Error::other(CompressionError::Damaged { format, reason: reason.to_string() })
}

/// The frames of a zstd stream, one after the other.
pub struct Zstd<R> {
    decoder: FrameDecoder,
    from: R,
    /// Within a frame.
    open: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(from: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self { decoder, from, open: false }
    }

    /// Begins the next frame; false at the end of the stream.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.from.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.from) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut (&mut self.from).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::Error::other(CompressionError::Ended("zstd")));
                    }
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(false)
    }

    fn end(&mut self) -> io::Result<()> {
        self.open = false;
        let stated = self.decoder.get_checksum_from_data();
        match stated {
            Some(stated) if self.decoder.get_calculated_checksum() != Some(stated) => {
                Err(damaged("zstd", "its checksum is another"))
            }
            _ => Ok(()),
        }
    }

    /// The decoder has no error of its own for data that ends.
    fn broken(&mut self, error: FrameDecoderError) -> io::Error {
        match self.from.fill_buf() {
            Ok([]) => io::Error::other(CompressionError::Ended("zstd")),
            Ok(_) => damaged("zstd", error),
            Err(error) => error,
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.open && !self.begin()? {
                return Ok(0);
            }
            self.open = true;
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self.decoder.decode_blocks(&mut self.from, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(|error| self.broken(error))?;
            }
            match self.decoder.read(buffer)? {
                0 => self.end()?,
                n => return Ok(n),
            }
        }
    }
}
