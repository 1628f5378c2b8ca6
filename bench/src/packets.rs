//! `bench p4-packets`: packets for a P4 switch and for weir (docs/p4.md).

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use weir::trace::{CaptureWriter, Passage, Workload};

/// Write packets for a P4 switch and for weir: a pcap file with 16 bytes in front of each frame, the port, two
/// zeros, nanoseconds of its time and nanoseconds that it is held
#[derive(Debug, Args)]
pub struct Packets {
    #[arg(long, default_value = "isp,flows=20000,packets=200000,ipv6=0.25,len=imix")]
    workload: Workload,
    /// Length of an epoch, as a power of two of nanoseconds
    #[arg(long, default_value_t = 26, value_parser = clap::value_parser!(u32).range(10..40))]
    epoch_shift: u32,
    #[arg(long, default_value_t = 26_000_000_000)]
    first_epoch: u64,
    /// The packets are spread evenly over these epochs
    #[arg(long, default_value_t = 4)]
    epochs: u64,
    /// One of this many packets is malformed or unusual; 0: none is
    #[arg(long, default_value_t = 16)]
    odd: u64,
    #[arg(long)]
    out: PathBuf,
}

impl Packets {
    pub fn run(self) -> Result<()> {
        let Self { workload, epoch_shift, first_epoch, epochs, odd, out } = self;
        let mut writer = CaptureWriter::new(BufWriter::new(File::create(out)?))?;
        Passage { workload, epoch_shift, first_epoch, epochs, odd }.for_each(|packet| {
            let mut bytes = packet.port.to_be_bytes().to_vec();
            bytes.extend([0; 2]);
            bytes.extend(packet.at_ns.to_be_bytes());
            bytes.extend(packet.held_ns.to_be_bytes());
            bytes.extend(packet.frame);
            writer.write(packet.at_ns, &bytes)
        })?;
        writer.finish()?;
        Ok(())
    }
}
