//! `weir capture` into a file, and what is in it.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir::trace::CaptureReader;

use super::{Weir, eventually};

/// A captured packet: port, "rx", "tx" or the reason of its drop, bytes.
pub type Seen = (String, String, Vec<u8>);

pub fn packets(reader: &mut CaptureReader<impl Read>) -> Vec<Seen> {
    let mut packets = Vec::new();
    while let Some(captured) = reader.next() {
        let captured = captured.expect("a whole capture");
        let direction = captured.comment.unwrap_or(if captured.is_outbound() { "tx" } else { "rx" });
        packets.push((captured.interface.expect("named").into(), direction.into(), captured.bytes.to_vec()));
    }
    packets
}

/// Starts a capture into a file, and waits until the switch has opened it.
pub fn start(weir: &Weir, options: &str, file: &Path) -> Child {
    let _ = std::fs::remove_file(file);
    let mut command = weir.command(&format!("capture {options} -w {}", file.display()));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    eventually("the capture to begin", || file.metadata().is_ok_and(|file| file.len() > 0).then_some(()));
    child
}

/// SIGTERM; the file is whole.
pub fn stop(mut capture: Child) {
    let kill = format!("kill -TERM {}", capture.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh runs").success());
    assert!(capture.wait().expect("ends").success());
}
