//! Captures of ordinary and of hostile traffic.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::Result;
use weir::trace::{CaptureWriter, Frames, Order, Workload};

/// What a capture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// `isp` sizes in bursts: packets of 60 bytes between two hosts.
    Ordinary,
    /// Any bytes, 1 to 1514 of them.
    Random,
    /// Ordinary packets, each from a MAC address of its own: more of them than any MAC table holds.
    Macs,
    /// Ordinary packets with addresses, ports and protocol at random: no two of one flow.
    Tuples,
}

/// Offsets in an untagged IPv4 frame.
const SOURCE_MAC: usize = 6;
const PROTOCOL: usize = 14 + 9;
const ADDRESSES: usize = 14 + 12;
const PORTS: usize = 14 + 20;

impl Traffic {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Random => "random frames",
            Self::Macs => "MAC flood",
            Self::Tuples => "tuple-space flood",
        }
    }

    pub fn write(self, packets: usize, path: &Path) -> Result<()> {
        let flows = (packets / 25).max(1) as u32;
        let workload = Workload { order: Order::Burst, packets: packets as u64, flows, ..Workload::default() };
        let mut random = Random(1);
        let mut writer = CaptureWriter::new(BufWriter::new(File::create(path)?))?;
        let mut noise = vec![0; 1514];
        workload.generate().for_each_frame(&Frames::default(), |at, frame| {
            let mut frame = frame.to_vec();
            match self {
                Self::Ordinary => {}
                Self::Random => {
                    random.fill(&mut noise);
                    let length = 1 + random.word() as usize % noise.len();
                    frame.clear();
                    frame.extend_from_slice(&noise[..length]);
                }
                Self::Macs => {
                    random.fill(&mut frame[SOURCE_MAC..SOURCE_MAC + 6]);
                    // Of one host, locally administered.
                    frame[SOURCE_MAC] = frame[SOURCE_MAC] & !1 | 2;
                }
                Self::Tuples => {
                    random.fill(&mut frame[ADDRESSES..ADDRESSES + 8]);
                    random.fill(&mut frame[PORTS..PORTS + 4]);
                    frame[PROTOCOL] = [6, 17, 132, random.word() as u8][random.word() as usize % 4];
                }
            }
            writer.write(at, &frame)
        })?;
        writer.finish()?;
        Ok(())
    }
}

/// Xorshift: the same noise each time.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.word() as u8);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir::trace::CaptureReader;

    use super::*;

    fn frames(traffic: Traffic) -> Vec<Vec<u8>> {
        let path = std::env::temp_dir().join(format!("weir-hostile-{}-{traffic:?}.pcap", std::process::id()));
        traffic.write(2000, &path).unwrap();
        let mut capture = CaptureReader::open(&path).unwrap();
        let mut frames = Vec::new();
        while let Some(frame) = capture.next() {
            frames.push(frame.unwrap().bytes.to_vec());
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(frames.len(), 2000);
        frames
    }

    #[test]
    fn each_attack_is_what_it_says() {
        let distinct = |frames: &[Vec<u8>], range: std::ops::Range<usize>| {
            frames.iter().map(|frame| frame[range.clone()].to_vec()).collect::<HashSet<_>>().len()
        };
        let macs = frames(Traffic::Macs);
        assert_eq!(distinct(&macs, 6..12), 2000);
        assert!(macs.iter().all(|frame| frame[6] & 3 == 2));
        assert_eq!(distinct(&frames(Traffic::Ordinary), 6..12), 1);
        assert_eq!(distinct(&frames(Traffic::Tuples), 23..38), 2000);
        let lengths: HashSet<usize> = frames(Traffic::Random).iter().map(Vec::len).collect();
        assert!(lengths.len() > 500 && lengths.iter().all(|&length| (1..=1514).contains(&length)));
    }
}
