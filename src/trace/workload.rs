//! A workload, and the trace that it generates.

use std::io::Write;

use super::{CaptureError, CaptureWriter, Frames, Keys, Lengths, Order, SizeLaw, Truth, Tuple};

pub const MAX_FLOWS: u32 = 1 << 24;
/// A sequence takes 4 bytes a packet, and 12 while it is made in burst order.
pub const MAX_PACKETS: u64 = 1_000_000_000;

/// Everything that decides a trace. Written as text it is `LAW/ORDER,key=value,…`, for example
/// `isp/burst,flows=400000,packets=10000000,seed=1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub law: SizeLaw,
    pub order: Order,
    /// Number of flows. For a measured distribution it may be 0: then as many as give `packets`.
    pub flows: u32,
    /// A flow that would have more packets is cut to these; 0: none is cut.
    pub longest: u32,
    /// Number of packets. For a measured distribution 0: as many as the flows have.
    pub packets: u64,
    pub seed: u64,
    pub keys: Keys,
    /// Share of the flows that are IPv6, 0 to 1.
    pub ipv6: f64,
    pub lengths: Lengths,
    /// Packets per second, for timestamps: the packets are evenly spaced.
    pub rate: u64,
}

impl Default for Workload {
    /// The paper's trial: 10 M packets in 20 seconds, 400 k flows, in bursts.
    fn default() -> Self {
        Self {
            law: SizeLaw::Isp,
            order: Order::Burst,
            flows: 400_000,
            longest: 0,
            packets: 10_000_000,
            seed: 1,
            keys: Keys::Random,
            ipv6: 0.0,
            lengths: Lengths::Fixed(60),
            rate: 500_000,
        }
    }
}

impl Workload {
    /// Packets of each flow; their number is the number of flows.
    pub fn flow_sizes(&self) -> Vec<u32> {
        let mut sizes = self.law.sizes(self.flows, self.packets, self.seed);
        if self.longest > 0 {
            sizes.iter_mut().for_each(|size| *size = (*size).min(self.longest));
        }
        sizes
    }

    /// The flow of each packet.
    pub fn sequence(&self) -> Vec<u32> {
        self.order.sequence(&self.flow_sizes(), self.seed)
    }

    pub fn tuple(&self, flow: u32) -> Tuple {
        self.keys.tuple(self.seed, flow, self.ipv6)
    }

    /// Frame length of packet number `packet` of a flow: what [`Lengths`] says, or the headers when
    /// they are longer.
    #[inline]
    pub fn frame_len(&self, packet: u64, tuple: Tuple) -> usize {
        usize::from(self.lengths.of(self.seed, packet)).max(Frames::min_len(tuple))
    }

    /// Nanoseconds from the start to packet number `packet`.
    #[inline]
    pub fn at_ns(&self, packet: u64) -> u64 {
        (u128::from(packet) * 1_000_000_000 / u128::from(self.rate.max(1))) as u64
    }

    pub fn generate(self) -> Trace {
        let sizes = self.flow_sizes();
        let sequence = self.order.sequence(&sizes, self.seed);
        Trace { workload: self, sizes, sequence }
    }
}

/// A generated workload.
#[derive(Clone, Debug)]
pub struct Trace {
    pub workload: Workload,
    /// Packets of each flow.
    pub sizes: Vec<u32>,
    /// The flow of each packet.
    pub sequence: Vec<u32>,
}

impl Trace {
    /// The five-tuple of each flow.
    pub fn tuples(&self) -> Vec<Tuple> {
        (0..self.sizes.len() as u32).map(|flow| self.workload.tuple(flow)).collect()
    }

    /// Exact packets and bytes of each flow, the heaviest first.
    pub fn truth(&self) -> Truth {
        let tuples = self.tuples();
        let mut bytes = vec![0u64; tuples.len()];
        for (packet, &flow) in self.sequence.iter().enumerate() {
            bytes[flow as usize] += self.workload.frame_len(packet as u64, tuples[flow as usize]) as u64;
        }
        let counts = self.sizes.iter().zip(bytes);
        Truth::new(tuples.iter().zip(counts).map(|(t, (&packets, bytes))| (t.flow(), u64::from(packets), bytes)))
    }

    /// Each packet in turn as a whole frame: its time in nanoseconds from the start, and its bytes.
    pub fn for_each_frame<E>(
        &self,
        frames: &Frames,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let tuples = self.tuples();
        let mut buffer = vec![0; usize::from(super::lengths::MAX_FRAME)];
        for (packet, &flow) in self.sequence.iter().enumerate() {
            let (packet, tuple) = (packet as u64, tuples[flow as usize]);
            let frame = &mut buffer[..self.workload.frame_len(packet, tuple)];
            frames.fill(tuple, packet, frame);
            each(self.workload.at_ns(packet), frame)?;
        }
        Ok(())
    }

    /// Writes the trace as a pcap file whose clock starts at 0.
    pub fn write_pcap(&self, to: impl Write) -> Result<(), CaptureError> {
        let mut writer = CaptureWriter::new(to)?;
        self.for_each_frame(&Frames::default(), |at_ns, frame| writer.write(at_ns, frame))?;
        writer.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(words: &[u32]) -> u64 {
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// FNV-1a of the first 10 000 packets of a small workload: a change of these changes every
    /// recorded figure.
    #[test]
    fn sequences_are_the_same_everywhere() {
        let digests = ["isp/uniform", "isp/burst", "zipf1.1/burst", "websearch/burst"].map(|name| {
            let size = if name.starts_with("web") { "packets=100000" } else { "flows=4000,packets=100000" };
            let sequence = format!("{name},{size},seed=42").parse::<Workload>().unwrap().sequence();
            assert_eq!(sequence.len(), 100_000);
            digest(&sequence[..10_000])
        });
        let golden = [0x9ed4_df27_8566_7e9d, 0x560c_7f22_7ec8_5e72, 0xd29c_b2c5_2348_d34b, 0xcf55_6c6c_165b_8fc3];
        assert_eq!(digests, golden);
    }

    #[test]
    fn the_seed_decides() {
        let workload = |seed| Workload { flows: 100, packets: 5000, seed, ..Workload::default() };
        assert_eq!(workload(1).sequence(), workload(1).sequence());
        assert_ne!(workload(1).sequence(), workload(2).sequence());
        assert_ne!(workload(1).tuple(0), workload(2).tuple(0));
    }

    #[test]
    fn truth_adds_up() {
        let trace = "isp,flows=50,packets=3000,ipv6=0.5,len=imix".parse::<Workload>().unwrap().generate();
        let truth = trace.truth();
        let mut bytes = 0;
        trace
            .for_each_frame(&Frames::default(), |_, f| {
                bytes += f.len() as u64;
                Ok::<(), ()>(())
            })
            .unwrap();
        assert_eq!(truth.packets(), 3000);
        assert_eq!(truth.bytes(), bytes);
        assert!(truth.flows().is_sorted_by(|a, b| a.packets >= b.packets));
    }
}
