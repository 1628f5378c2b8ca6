//! The conversations of a capture: who says which bytes, in turn.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde::Serialize;
use weir::json::large;
use weir::trace::{CaptureError, CaptureReader, Metadata};
use weir::wire::Headers;
use weir::wire::tcp::{ACK, FIN, RST, SYN};

use super::Side;
use super::segment::{Ends, NoSegment, Segment};
use super::stream::{Placed, Stream};

/// Conversations that are kept.
const MAX_CONVERSATIONS: usize = 1 << 17;
/// Bytes of payload that are kept.
const MAX_BYTES: usize = 1 << 30;
/// Turns that are kept.
const MAX_TURNS: usize = 1 << 22;
/// Five-tuples that are remembered.
const MAX_TUPLES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ScriptsError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("it has no TCP conversation that begins with a SYN and is answered{0}")]
    Empty(String),
}

/// What one end says before the other answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub side: Side,
    pub bytes: u32,
    /// From the last payload before it, or from the handshake, in nanoseconds.
    pub pause_ns: u64,
}

/// A conversation.
#[derive(Clone, Debug)]
pub struct Script {
    /// Addresses and ports as the client's frames have them.
    pub(super) ends: Ends,
    /// All that each end says.
    streams: [Box<[u8]>; 2],
    /// Each is of another end than the one before.
    turns: Box<[Turn]>,
    /// The end that closes first.
    closer: Side,
}

impl Script {
    pub fn stream(&self, side: Side) -> &[u8] {
        &self.streams[side as usize]
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    pub fn closer(&self) -> Side {
        self.closer
    }
}

/// What was taken of a capture, and what was left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Extracted {
    pub conversations: u64,
    pub turns: u64,
    /// Of both ends.
    #[serde(with = "large")]
    pub payload_bytes: u64,
    /// Bytes of these that the capture lacks: zeros are sent in their place.
    #[serde(with = "large")]
    pub missing_bytes: u64,
    /// Left out, as the capture lacks their SYN.
    pub unstarted_conversations: u64,
    /// Left out, as no server answered their SYN, or one refused it.
    pub unanswered_conversations: u64,
    /// Left out, as there are more than are kept.
    pub omitted_conversations: u64,
    /// Payload behind what is kept: conversations end before it.
    #[serde(with = "large")]
    pub omitted_bytes: u64,
    /// Segments whose sequence numbers are far from the others of their conversation.
    pub stray_packets: u64,
    /// Packets of TCP with a header that is cut or wrong.
    pub unreadable_packets: u64,
    /// Packets of something else than TCP, and fragments.
    pub other_packets: u64,
    #[serde(flatten)]
    pub said: Metadata,
}

impl Extracted {
    /// A line for each thing that differs from the capture.
    pub fn text(&self) -> Vec<String> {
        let counts = [
            (self.unstarted_conversations, "conversations without a SYN, which are left out"),
            (self.unanswered_conversations, "conversations that no server answered, which are left out"),
            (self.omitted_conversations, "conversations beyond those that fit memory, which are left out"),
            (self.omitted_bytes, "bytes of payload beyond those that fit memory, which are left out"),
            (self.missing_bytes, "bytes of payload that the capture lacks, in whose place zeros are sent"),
            (self.stray_packets, "segments out of their conversation's sequence, which are ignored"),
            (self.unreadable_packets, "packets with a wrong or cut TCP header, which are ignored"),
            (self.other_packets, "packets that are not TCP, or fragments, which are ignored"),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{what}: {n}"));
        self.said.text().into_iter().chain(counts).collect()
    }
}

/// The conversations of a capture, in the order of their SYNs.
#[derive(Clone, Debug)]
pub struct Scripts {
    all: Box<[Script]>,
    extracted: Extracted,
}

impl Scripts {
    /// # Errors
    /// If the capture cannot be read, or has no conversation.
    pub fn open(path: &Path) -> Result<Self, ScriptsError> {
        Self::read(&mut CaptureReader::open(path)?)
    }

    /// # Errors
    /// As of [`Self::open`].
    pub fn read<R: Read>(capture: &mut CaptureReader<R>) -> Result<Self, ScriptsError> {
        let mut extraction = Extraction::default();
        while let Some(packet) = capture.next() {
            let packet = packet?;
            extraction.take(packet.at_ns, packet.bytes);
        }
        let (all, mut extracted) = extraction.finish();
        extracted.said = capture.metadata();
        if all.is_empty() {
            let left_out = extracted.text().into_iter().map(|line| format!("; {line}")).collect();
            return Err(ScriptsError::Empty(left_out));
        }
        Ok(Self { all: all.into(), extracted })
    }

    pub fn all(&self) -> &[Script] {
        &self.all
    }

    pub fn extracted(&self) -> &Extracted {
        &self.extracted
    }

    #[cfg(test)]
    pub(super) fn of_one(ends: Ends) -> Self {
        let script = Script { ends, streams: Default::default(), turns: Box::default(), closer: Side::Client };
        Self { all: [script].into(), extracted: Extracted::default() }
    }
}

/// A conversation while the capture is read.
struct Captured {
    ends: Ends,
    /// Sequence number of the client's SYN.
    syn: u32,
    streams: [Stream; 2],
    turns: Vec<Turn>,
    /// Time of the last new payload, or of the handshake.
    latest_ns: u64,
    is_answered: bool,
    closed: [bool; 2],
    closer: Option<Side>,
    is_over: bool,
}

/// What is known of a five-tuple, by the ends of its first packet.
#[derive(Clone, Copy)]
enum Known {
    Conversation(usize),
    Unstarted,
    Omitted,
}

#[derive(Default)]
struct Extraction {
    /// Its ends are chosen by whoever sent the packets, so the hasher has a secret.
    known: HashMap<Ends, Known>,
    captured: Vec<Captured>,
    extracted: Extracted,
    bytes: usize,
    turns: usize,
}

impl Extraction {
    fn take(&mut self, at_ns: u64, frame: &[u8]) {
        let mut headers = Headers::default();
        let segment = match Segment::read(frame, &mut headers) {
            Ok(segment) => segment,
            Err(NoSegment::Other) => return self.extracted.other_packets += 1,
            Err(NoSegment::Unreadable) => return self.extracted.unreadable_packets += 1,
        };
        let (ends, reversed) = (segment.ends, segment.ends.reversed());
        let (known, side) = match (self.known.get(&ends), self.known.get(&reversed)) {
            (Some(known), _) => (Some(*known), Side::Client),
            (None, Some(known)) => (Some(*known), Side::Server),
            (None, None) => (None, Side::Client),
        };
        if segment.has(SYN) && !segment.has(ACK | RST) {
            return self.take_syn(known, side, at_ns, &segment);
        }
        match known {
            Some(Known::Conversation(at)) => self.go_on(at, side, at_ns, &segment),
            Some(Known::Unstarted | Known::Omitted) => {}
            None => {
                self.extracted.unstarted_conversations += 1;
                self.know(ends, Known::Unstarted);
            }
        }
    }

    fn take_syn(&mut self, known: Option<Known>, side: Side, at_ns: u64, segment: &Segment<'_>) {
        let before = match known {
            Some(Known::Conversation(at)) => self.captured.get(at),
            _ => None,
        };
        let is_again = side == Side::Client && before.is_some_and(|before| before.syn == segment.seq);
        // A client that forgot its conversation may begin anew, a server has none to begin.
        let is_stray = side == Side::Server && before.is_some_and(|before| !before.is_over);
        self.extracted.stray_packets += u64::from(is_stray);
        if !is_again && !is_stray {
            self.begin(at_ns, segment);
        }
    }

    fn know(&mut self, ends: Ends, known: Known) {
        if self.known.len() < MAX_TUPLES || self.known.contains_key(&ends) {
            self.known.insert(ends, known);
        }
    }

    fn begin(&mut self, at_ns: u64, segment: &Segment<'_>) {
        self.known.remove(&segment.ends.reversed());
        if self.captured.len() >= MAX_CONVERSATIONS {
            self.extracted.omitted_conversations += 1;
            return self.know(segment.ends, Known::Omitted);
        }
        self.know(segment.ends, Known::Conversation(self.captured.len()));
        let mut client = Stream::default();
        client.begin(segment.seq.wrapping_add(1));
        self.captured.push(Captured {
            ends: segment.ends,
            syn: segment.seq,
            streams: [client, Stream::default()],
            turns: Vec::new(),
            latest_ns: at_ns,
            is_answered: false,
            closed: [false; 2],
            closer: None,
            is_over: false,
        });
    }

    fn go_on(&mut self, at: usize, side: Side, at_ns: u64, segment: &Segment<'_>) {
        let Some(captured) = self.captured.get_mut(at) else { return };
        let stream = &mut captured.streams[side as usize];
        let first = segment.seq.wrapping_add(u32::from(segment.has(SYN)));
        if side == Side::Server && !captured.is_answered {
            if segment.has(RST) {
                captured.is_over = true;
                return;
            }
            captured.is_answered = true;
            captured.latest_ns = at_ns;
            stream.begin(first);
        }
        if !segment.payload.is_empty() || segment.lacking > 0 {
            // A turn more than are kept cannot be.
            let is_new = captured.turns.last().is_none_or(|turn| turn.side != side);
            let is_room = !is_new || self.turns < MAX_TURNS;
            let room = if is_room { MAX_BYTES - self.bytes } else { 0 };
            match stream.place(first, segment.payload, segment.lacking, room) {
                Placed::Longer(0) => {}
                Placed::Longer(bytes) => {
                    self.bytes += bytes as usize;
                    match captured.turns.last_mut() {
                        Some(turn) if !is_new => turn.bytes += bytes,
                        _ => {
                            let pause_ns = at_ns.saturating_sub(captured.latest_ns);
                            captured.turns.push(Turn { side, bytes, pause_ns });
                            self.turns += 1;
                        }
                    }
                    captured.latest_ns = at_ns;
                }
                Placed::Stray => self.extracted.stray_packets += 1,
                Placed::NoRoom => {
                    let bytes = segment.payload.len() as u64 + u64::from(segment.lacking);
                    self.extracted.omitted_bytes += bytes;
                }
            }
        }
        if segment.has(FIN | RST) {
            captured.closer.get_or_insert(side);
            captured.closed[side as usize] = true;
            captured.is_over |= segment.has(RST) || captured.closed == [true; 2];
        }
    }

    fn finish(self) -> (Vec<Script>, Extracted) {
        let (mut scripts, mut extracted) = (Vec::new(), self.extracted);
        for captured in self.captured {
            if !captured.is_answered {
                extracted.unanswered_conversations += 1;
                continue;
            }
            extracted.missing_bytes += captured.streams.iter().map(Stream::missing).sum::<u64>();
            let streams = captured.streams.map(Stream::into_bytes);
            extracted.payload_bytes += streams.iter().map(|stream| stream.len() as u64).sum::<u64>();
            extracted.turns += captured.turns.len() as u64;
            scripts.push(Script {
                ends: captured.ends,
                streams,
                turns: captured.turns.into(),
                closer: captured.closer.unwrap_or(Side::Client),
            });
        }
        extracted.conversations = scripts.len() as u64;
        (scripts, extracted)
    }
}
