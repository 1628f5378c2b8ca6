//! The frames of a capture, sent as they are.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use weir::trace::{CaptureError, CaptureReader};
use weir::wire::{Flow, Headers, parse};

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
}

impl Recording {
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Self::read(&mut CaptureReader::open(path)?)
    }

    fn read<R: Read>(capture: &mut CaptureReader<R>) -> Result<Self, RecordingError> {
        let (mut recording, mut numbers, mut first) = (Self::default(), HashMap::new(), None);
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
            let flow = parse(packet.bytes, &mut headers).ok().and_then(|()| headers.flow()).unwrap_or_default();
            let number = *numbers.entry(flow).or_insert_with(|| {
                recording.flows.push(flow);
                recording.flows.len() as u32 - 1
            });
            // A clock that was set back makes packets of the same time.
            let since = packet.at_ns.saturating_sub(*first.get_or_insert(packet.at_ns));
            let at_ns = recording.frames.last().map_or(0, |last| last.at_ns.max(since));
            let start = recording.bytes.len();
            recording.bytes.extend_from_slice(packet.bytes);
            recording.frames.push(Recorded { at_ns, start, length: length as u16, flow: number });
        }
        let last = recording.frames.last().ok_or(RecordingError::Empty)?.at_ns;
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
        (expected, Arc::new(Recording::open(file.path()).unwrap()))
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
        assert!(matches!(Recording::open(file.path()), Err(RecordingError::Empty)));
    }
}
