//! The frames of a capture, sent as they are.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir::trace::{CaptureError, CaptureReader, Metadata};
use weir::wire::{Flow, Headers, Net, parse};

use super::{FCS, Source, Stamp};

/// Bytes of frames that are held in memory.
const MAX_BYTES: usize = 2 << 30;
/// The longest frame without FCS.
const LONGEST: usize = 9216 - FCS as usize;

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("it has no packet")]
    Empty,
    #[error("packet {packet} has {bytes} bytes; frames of 14 to {LONGEST} are sent")]
    Length { packet: u64, bytes: usize },
    #[error("its packets take more than {} GiB of memory", MAX_BYTES >> 30)]
    TooLarge,
}

/// A frame of a recording.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    at_ns: u64,
    start: usize,
    length: u16,
    flow: u32,
}

/// The frames of a capture in memory.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    bytes: Vec<u8>,
    frames: Vec<Recorded>,
    flows: Vec<Flow>,
    /// From the first frame of a round to that of the next.
    round_ns: u64,
    /// Frames of which the capture has less than their own headers or the capturer say.
    cut: u64,
    /// Jumps of the capture's time that are not followed.
    jumps: u64,
    said: Metadata,
}

impl Recording {
    /// `longest_gap`: where the capture's time jumps ahead or back by more, that is not waited for.
    ///
    /// # Errors
    /// If the capture cannot be read or sent.
    pub fn open(path: &Path, longest_gap: Duration) -> Result<Self, RecordingError> {
        Self::read(&mut CaptureReader::open(path)?, longest_gap)
    }

    fn read<R: Read>(capture: &mut CaptureReader<R>, longest_gap: Duration) -> Result<Self, RecordingError> {
        let longest_ns = u64::try_from(longest_gap.as_nanos()).unwrap_or(u64::MAX);
        let (mut recording, mut numbers, mut time) = (Self::default(), HashMap::new(), Time::new(longest_ns));
        while let Some(packet) = capture.next() {
            let packet = packet?;
            let length = packet.bytes.len();
            if !(14..=LONGEST).contains(&length) {
                return Err(RecordingError::Length { packet: recording.frames.len() as u64 + 1, bytes: length });
            }
            if recording.bytes.len() + length > MAX_BYTES || recording.frames.len() >= u32::MAX as usize {
                return Err(RecordingError::TooLarge);
            }
            let mut headers = Headers::default();
            let is_parsed = parse(packet.bytes, &mut headers).is_ok();
            recording.cut += u64::from(is_cut(packet.bytes, packet.wire_len, is_parsed.then_some(&headers)));
            let flow = is_parsed.then(|| headers.flow()).flatten().unwrap_or_default();
            let number = *numbers.entry(flow).or_insert_with(|| {
                recording.flows.push(flow);
                recording.flows.len() as u32 - 1
            });
            let at_ns = time.of(packet.at_ns);
            let start = recording.bytes.len();
            recording.bytes.extend_from_slice(packet.bytes);
            recording.frames.push(Recorded { at_ns, start, length: length as u16, flow: number });
        }
        let last = recording.frames.last().ok_or(RecordingError::Empty)?.at_ns;
        (recording.jumps, recording.said) = (time.jumps, capture.metadata());
        // The first of a round comes a mean gap after the last of the one before.
        recording.round_ns = last + last / (recording.frames.len() as u64 - 1).max(1);
        Ok(recording)
    }

    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    pub fn packets(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Frames of which the capture has a part alone. They are sent as they are in it.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Times at which the capture's clock jumped by more than the longest gap.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// The capture's statements about itself.
    pub fn said(&self) -> &Metadata {
        &self.said
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The longest frame, without FCS.
    pub fn longest(&self) -> u16 {
        self.frames.iter().map(|frame| frame.length).max().unwrap_or_default()
    }

    /// Time from the first frame to the last, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.at_ns)
    }
}

/// Whether a frame is shorter than it was on the wire, or than its IP header says.
fn is_cut(bytes: &[u8], wire_len: u32, headers: Option<&Headers>) -> bool {
    if (bytes.len() as u64) < u64::from(wire_len) {
        return true;
    }
    let Some(headers) = headers else { return false };
    let packet = bytes.get(usize::from(headers.l3)..).unwrap_or_default();
    let word = |at: usize| packet.get(at..at + 2).map_or(0, |word| usize::from(word[0]) << 8 | usize::from(word[1]));
    match headers.net {
        Net::Ipv4 => packet.len() < word(2),
        Net::Ipv6 => packet.len() < 40 + word(4),
        _ => false,
    }
}

/// The time since a capture's first frame.
struct Time {
    longest_ns: u64,
    /// Since the frame before.
    at_ns: u64,
    /// The capture's time at which `base_ns` had passed.
    zero: Option<u64>,
    base_ns: u64,
    jumps: u64,
}

impl Time {
    fn new(longest_ns: u64) -> Self {
        Self { longest_ns, at_ns: 0, zero: None, base_ns: 0, jumps: 0 }
    }

    /// Times never go back: a frame that is before others by a little has the time of these. After a
    /// jump ahead the next frame comes the longest gap later, after one back it comes at once.
    fn of(&mut self, capture_ns: u64) -> u64 {
        let since = i128::from(capture_ns) - i128::from(*self.zero.get_or_insert(capture_ns));
        let gap = i128::from(self.base_ns) + since - i128::from(self.at_ns);
        let longest = i128::from(self.longest_ns);
        if gap.abs() > longest {
            self.jumps += 1;
            self.at_ns = self.at_ns.saturating_add(if gap > 0 { self.longest_ns } else { 0 });
            (self.zero, self.base_ns) = (Some(capture_ns), self.at_ns);
        } else if gap > 0 {
            self.at_ns = self.at_ns.saturating_add(gap as u64);
        }
        self.at_ns
    }
}

/// A core's frames of a recording: those of its flows, in their order.
#[derive(Clone, Debug)]
pub struct Replay {
    recording: Arc<Recording>,
    frames: Box<[u32]>,
    cores: u32,
    core: u32,
    at: usize,
    round: u64,
    rounds: u64,
    sent: Box<[u64]>,
}

/// The next frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayPick {
    frame: u32,
    length: u16,
}

impl Replay {
    /// `rounds`: how often the recording is sent.
    pub fn new(recording: &Arc<Recording>, rounds: u64, core: u32, cores: u32) -> Self {
        let frames = (0..).zip(&recording.frames).filter(|(_, frame)| frame.flow % cores == core);
        let flows = (core as usize..recording.flows.len()).step_by(cores as usize).len();
        Self {
            recording: recording.clone(),
            frames: frames.map(|(at, _)| at).collect(),
            cores,
            core,
            at: 0,
            round: 0,
            rounds,
            sent: vec![0; flows].into(),
        }
    }

    /// Its packets of a round.
    pub fn packets(&self) -> u64 {
        self.frames.len() as u64
    }
}

impl Source for Replay {
    type Pick = ReplayPick;

    const IS_SIGNED: bool = false;

    #[inline(always)]
    fn pick(&mut self) -> Option<ReplayPick> {
        if self.at == self.frames.len() {
            (self.at, self.round) = (0, self.round + 1);
        }
        if self.round >= self.rounds {
            return None;
        }
        let frame = *self.frames.get(self.at)?;
        self.at += 1;
        let recorded = self.recording.frames.get(frame as usize)?;
        if let Some(sent) = self.sent.get_mut((recorded.flow / self.cores) as usize) {
            *sent += 1;
        }
        Some(ReplayPick { frame, length: recorded.length })
    }

    #[inline(always)]
    fn length(pick: &ReplayPick) -> u16 {
        pick.length
    }

    #[inline(always)]
    fn next_time_ns(&self) -> u64 {
        let over = self.at == self.frames.len();
        let (at, round) = if over { (0, self.round + 1) } else { (self.at, self.round) };
        let frame = self.frames.get(at).and_then(|frame| self.recording.frames.get(*frame as usize));
        round.saturating_mul(self.recording.round_ns).saturating_add(frame.map_or(0, |frame| frame.at_ns))
    }

    #[inline(always)]
    fn fill(&self, pick: &ReplayPick, _: Stamp, out: &mut [u8]) {
        let Some(frame) = self.recording.frames.get(pick.frame as usize) else { return };
        if let Some(bytes) = self.recording.bytes.get(frame.start..frame.start + out.len()) {
            out.copy_from_slice(bytes);
        }
    }

    #[inline(always)]
    fn flow(&self, pick: &ReplayPick) -> Option<u32> {
        Some(self.recording.frames.get(pick.frame as usize)?.flow / self.cores)
    }

    fn unsend(&mut self, pick: &ReplayPick) {
        if let Some(sent) = self.flow(pick).and_then(|flow| self.sent.get_mut(flow as usize)) {
            *sent -= 1;
        }
    }

    fn has_malformed(&self) -> bool {
        false
    }

    #[inline(always)]
    fn is_malformed(_: &ReplayPick) -> bool {
        false
    }

    fn flows(&self) -> usize {
        self.sent.len()
    }

    fn sent(&self, flow: u32) -> u64 {
        self.sent.get(flow as usize).copied().unwrap_or_default()
    }

    fn number(&self, flow: u32) -> u32 {
        flow * self.cores + self.core
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::trace::Workload;

    const HOUR: Duration = Duration::from_secs(3600);

    fn recording(text: &str) -> (Vec<(u64, Vec<u8>)>, Arc<Recording>) {
        let trace = text.parse::<Workload>().unwrap().generate();
        let mut expected = Vec::new();
        trace
            .for_each_frame(&weir::trace::Frames::default(), |at, frame| {
                expected.push((at, frame.to_vec()));
                Ok::<(), ()>(())
            })
            .unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        trace.write_pcap(&mut file).unwrap();
        (expected, Arc::new(Recording::open(file.path(), HOUR).unwrap()))
    }

    fn sent(replay: &mut Replay) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let at_ns = replay.next_time_ns();
            let Some(pick) = replay.pick() else { return all };
            let mut frame = vec![0; usize::from(pick.length)];
            replay.fill(&pick, Stamp::default(), &mut frame);
            all.push((at_ns, frame));
        }
    }

    #[test]
    fn frames_and_times_are_the_captures() {
        let (expected, recording) = recording("isp,flows=20,packets=500,len=imix,ipv6=0.4,rate=1000");
        let mut replay = Replay::new(&recording, 2, 0, 1);
        let got = sent(&mut replay);
        assert_eq!(got[..500], expected);
        assert_eq!((got.len(), got[500].0, got[999].0), (1000, 500_000_000, 999_000_000), "the second round");
        assert_eq!((0..20).map(|flow| replay.sent(flow)).sum::<u64>(), 1000);
    }

    #[test]
    fn cores_share_a_capture() {
        let (mut expected, recording) = recording("isp,flows=20,packets=500,rate=1000");
        let mut got: Vec<_> = (0..3).flat_map(|core| sent(&mut Replay::new(&recording, 1, core, 3))).collect();
        got.sort();
        expected.sort();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_empty_capture_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        weir::trace::CaptureWriter::new(&mut file).unwrap().finish().unwrap();
        assert!(matches!(Recording::open(file.path(), HOUR), Err(RecordingError::Empty)));
    }

    fn read(frames: &[(u64, &[u8])], longest_gap: Duration) -> Recording {
        let mut capture = weir::trace::CaptureWriter::new(Vec::new()).unwrap();
        frames.iter().for_each(|(at_ns, frame)| capture.write(*at_ns, frame).unwrap());
        let bytes = capture.finish().unwrap();
        Recording::read(&mut CaptureReader::new(&bytes[..]).unwrap(), longest_gap).unwrap()
    }

    /// A jump is a gap of the longest length, or none; what follows keeps its gaps.
    #[test]
    fn jumps_of_the_captures_time_are_not_waited_for() {
        const SECOND: u64 = 1_000_000_000;
        let times = |seconds: &[u64]| {
            let frames: Vec<_> = seconds.iter().map(|at| (at * SECOND, &[0; 60][..])).collect();
            let recording = read(&frames, Duration::from_secs(10));
            let at = recording.frames.iter().map(|frame| frame.at_ns / SECOND).collect::<Vec<_>>();
            (at, recording.jumps())
        };
        assert_eq!(times(&[0, 1_700_000_000, 1_700_000_003]), (vec![0, 10, 13], 1), "a first time of 0");
        assert_eq!(times(&[50, 52, 4_000_000_000, 54, 57]), (vec![0, 2, 12, 12, 15], 2), "one time in 2096");
        assert_eq!(times(&[100, 110, 120, 131]), (vec![0, 10, 20, 30], 1), "ten seconds are no jump");
        assert_eq!(times(&[100, 103, 101, 105]), (vec![0, 3, 3, 5], 0), "out of order by a little");
    }

    /// A check sequence that the file's header declares is not sent, as the device makes one.
    #[test]
    fn what_the_capture_says_of_itself_is_used() {
        let mut capture = weir::trace::CaptureWriter::new(Vec::new()).unwrap();
        [64, 1518].into_iter().for_each(|length| capture.write(0, &vec![0; length]).unwrap());
        let mut bytes = capture.finish().unwrap();
        bytes[23] = 0x24;
        let recording = Recording::read(&mut CaptureReader::new(&bytes[..]).unwrap(), HOUR).unwrap();
        assert_eq!((recording.bytes(), recording.longest(), recording.cut()), (60 + 1514, 1514, 0));
        assert_eq!(recording.said().fcs_packets, 2);
        assert_eq!(read(&[(0, &[0; 60])], HOUR).said(), &Metadata::default());
    }

    #[test]
    fn frames_that_the_capture_cut_are_counted() {
        let udp = |length: usize, says: u16| {
            let mut frame = vec![0; length];
            (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
            frame[16..18].copy_from_slice(&says.to_be_bytes());
            frame
        };
        let mut six = vec![0; 60];
        (six[12], six[13], six[14], six[19]) = (0x86, 0xdd, 0x60, 7);
        let (padded, whole, short) = (udp(60, 28), udp(60, 46), udp(60, 47));
        let frames = [&padded, &whole, &short, &short, &six].map(|frame| (0, &frame[..]));
        assert_eq!(read(&frames, HOUR).cut(), 3);
        // Of these the capture's record says so itself.
        assert!(is_cut(&[0; 60], 61, None) && !is_cut(&[0; 60], 60, None));
    }
}
