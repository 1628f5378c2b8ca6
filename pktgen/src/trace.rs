//! `pktgen trace`: a workload as files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weir::trace::Workload;

/// Bytes that a pcap file spends on each record's header.
const RECORD_HEADER: u64 = 16;

#[derive(clap::Args)]
#[command(after_long_help = "\
SIZES is one of
  isp          an ISP backbone link, calibrated to the HashPipe paper's trace
  isp-scaled   the same shape for any number of flows: a shorter interval
  zipfS        weight 1 / rank^S, such as zipf1.1
  websearch, datamining, hadoop, cache
               flow sizes measured in data centres
ORDER is burst (flows come, send in trains, and go; the default) or uniform
(all orders equally likely). Then, separated by commas:
  flows=N      number of flows (k and M are understood); for measured sizes
               either flows or packets
  packets=N    number of packets
  seed=N       the same seed gives the same file on every machine [1]
  keys=MODEL   five-tuples: random; in a row as in a port scan (scan), an
               address range (range), or connections of 20 clients with
               ephemeral ports in a row (clients) [random]
  ipv6=SHARE   share of the flows that are IPv6 [0]
  len=BYTES    frame length without FCS, 60 to 1514, or imix [60]
  rate=N       packets per second, for the timestamps [500k]

EXAMPLES
  pktgen trace --workload isp/burst,packets=1M --out isp.pcap --truth isp.csv
  pktgen trace --workload zipf1.1/uniform,flows=10k,packets=1M --out zipf.pcap")]
pub struct Arguments {
    /// `SIZES[/ORDER][,KEY=VALUE]…`; see --help
    #[arg(long, short, value_name = "WORKLOAD")]
    workload: Workload,
    /// The pcap file to write
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// A CSV file for the exact packets and bytes of each flow
    #[arg(long, short, value_name = "FILE")]
    truth: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    crate::say(format_args!("generating {}", arguments.workload));
    let trace = arguments.workload.clone().generate();
    let truth = trace.truth();
    let size = truth.bytes() + truth.packets() * RECORD_HEADER;
    let (packets, flows) = (truth.packets(), truth.flows().len());
    crate::say(format_args!(
        "{packets} packets of {flows} flows, {} MB to {}",
        size / 1_000_000,
        arguments.out.display()
    ));
    whole(&arguments.out, |file| Ok(trace.write_pcap(file)?))?;
    if let Some(path) = &arguments.truth {
        whole(path, |file| Ok(truth.write_csv(file)?))?;
    }
    Ok(())
}

/// Writes a file under another name first, so that a file of this name is always whole.
fn whole(path: &Path, write: impl FnOnce(BufWriter<File>) -> Result<()>) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let file = File::create(&part).with_context(|| format!("creating {}", part.display()))?;
    let written = write(BufWriter::with_capacity(1 << 20, file))
        .and_then(|()| Ok(fs::rename(&part, path)?))
        .with_context(|| format!("writing {}", path.display()));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::trace::CaptureReader;

    #[test]
    fn both_files_tell_the_same() {
        let directory = std::env::temp_dir().join(format!("pktgen-trace-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (out, truth) = (directory.join("t.pcap"), directory.join("t.csv"));
        let workload = "isp,flows=100,packets=5000,len=imix,ipv6=0.2".parse().unwrap();
        run(&Arguments { workload, out: out.clone(), truth: Some(truth.clone()) }).unwrap();
        let csv = fs::read_to_string(&truth).unwrap();
        let sum = |column: usize| {
            csv.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum::<u64>()
        };
        let mut capture = CaptureReader::open(&out).unwrap();
        let (mut packets, mut bytes) = (0, 0);
        while let Some(packet) = capture.next() {
            packets += 1;
            bytes += packet.unwrap().bytes.len() as u64;
        }
        assert_eq!((sum(5), sum(6), csv.lines().count()), (packets, bytes, 1 + 100));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "no partial file is left");
        fs::remove_dir_all(&directory).unwrap();
    }
}
