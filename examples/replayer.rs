//! weir's dataplane inside a program of one's own: the packets of a capture go in, and what was
//! measured of them comes out.
//!
//! ```sh
//! cargo run --example replayer -- FILE.pcap
//! ```

use std::error::Error;

use weir::config::Config;
use weir::program::answers::FlowCount;
use weir::replay::Replayer;
use weir::trace::CaptureReader;

/// Two ports in memory that are joined, and a program.
const CONFIG: &str = r#"
[switch]
forward = "xconnect"
pairs = [["a", "b"]]
reproducible = 7

[[port]]
name = "a"
dev = "memory"

[[port]]
name = "b"
dev = "memory"

[[program]]
name = "hashpipe"
"#;

/// The heaviest flows of a capture, and its packets that the switch dropped.
pub fn heaviest(file: &str, max: usize) -> Result<(Vec<FlowCount>, u64), Box<dyn Error>> {
    let mut switch = Replayer::single_epoch(Config::parse(CONFIG)?)?;
    let mut capture = CaptureReader::open(file)?;
    while let Some(packet) = capture.next() {
        let packet = packet?;
        // By the first port, at the capture's own time.
        switch.cut_packet(0, packet.at_ns, packet.bytes, packet.wire_len as usize);
    }
    switch.finish();
    // The first program's answers, all epochs of the run as one.
    let answers = switch.run().answers(0, None, max).ok_or("no such program")?;
    let answers = answers.epochs.epochs.first().ok_or("no packet")?;
    Ok((answers.network.heavy.clone(), switch.ports().packets.dropped_packets))
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: replayer FILE.pcap")?;
    let (flows, dropped) = heaviest(&file, 10)?;
    for FlowCount { flow, count } in flows {
        println!("{count:>10}  {flow}");
    }
    println!("{dropped} packets were dropped");
    Ok(())
}
