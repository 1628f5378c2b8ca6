//! weir's dataplane inside a program of one's own: the packets of a capture go in, and what was
//! measured of them comes out.
//!
//! ```sh
//! cargo run --example replayer -- FILE.pcap
//! ```

use std::error::Error;

use weir::answers::{Claimed, HeavyFlow, HeavyFlows, Query, Task};
use weir::config::Config;
use weir::history::Window;
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
pub fn heaviest(file: &str, max: usize) -> Result<(Vec<HeavyFlow>, u64), Box<dyn Error>> {
    let mut switch = Replayer::single_epoch(Config::parse(CONFIG)?)?;
    let mut capture = CaptureReader::open(file)?;
    while let Some(packet) = capture.next() {
        let packet = packet?;
        // By the first port, at the capture's own time.
        switch.cut_packet(0, packet.at_ns, packet.bytes, packet.wire_len as usize);
    }
    switch.finish();
    // The first program's history, asked about all of it.
    let query = Query::new(Task::Heavy, Window::All).limited(max, 1);
    let heavy: Claimed<HeavyFlows> = switch.histories()[0].answer(&query)?;
    Ok((heavy.heavy.clone(), switch.ports().packets.dropped_packets))
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: replayer FILE.pcap")?;
    let (flows, dropped) = heaviest(&file, 10)?;
    for heavy in flows {
        println!("{:>10}  {}", heavy.count(), heavy.name);
    }
    println!("{dropped} packets were dropped");
    Ok(())
}
