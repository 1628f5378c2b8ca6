//! `weir capture`: packets of a running switch, as lines or as pcapng.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clap::{Args, ValueEnum};
use serde::Serialize;

mod whole;

use super::show::Where;
use super::{Failure, help, names, output, signals, summary};
use crate::api::observers::CaptureQuery;
use crate::api::view::packet::PacketHeaders;
use crate::config::Length;
use crate::json::digits;
use crate::trace::{CaptureReader, Captured};
use crate::wire::{Filter, Headers, parse};
use whole::WholeBlocks;

/// A group of options.
const PACKETS: &str = "Which packets";

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir capture --port a --filter 'icmp' --count 10",
    "weir capture -w FILE.pcapng --duration 10s",
    "weir capture --direction drop --json",
    "weir capture -w - | wireshark -k -i -",
]))]
pub struct Capture {
    /// Only packets of this port; may be given several times
    #[arg(long = "port", value_name = "NAME", add = names::ports(), help_heading = PACKETS)]
    ports: Vec<String>,
    /// Packets that come in, go out, both, are dropped, or all of these
    #[arg(long, value_enum, default_value = "both", help_heading = PACKETS)]
    direction: Direction,
    /// Only packets that match (docs/capture.md has the language)
    #[arg(long, default_value = "", value_name = "FILTER", hide_default_value = true, help_heading = PACKETS)]
    filter: Filter,
    /// Write pcapng into a file, or with '-' to a pipe, instead of printing lines. Times are those of
    /// bursts, as in lines
    #[arg(short, long, value_name = "FILE", help_heading = help::OUTPUT)]
    write: Option<PathBuf>,
    /// Stop after this many packets
    #[arg(long, value_name = "N", help_heading = PACKETS)]
    count: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "LENGTH", help_heading = PACKETS)]
    duration: Option<Length>,
    /// Keep at most this many bytes of a packet; by default all
    #[arg(long, value_name = "BYTES", help_heading = PACKETS)]
    snaplen: Option<u32>,
    #[command(flatten)]
    at: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    Rx,
    Tx,
    Both,
    Drop,
    All,
}

/// One packet, with `--json`.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(with = "digits")]
    at_ns: u64,
    port: &'a str,
    direction: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    wire_bytes: u32,
    captured_bytes: usize,
    headers: Option<PacketHeaders>,
    summary: String,
}

/// The end, with `--json -w FILE`.
#[derive(Default, Serialize)]
struct Totals {
    packets: u64,
    missed_packets: u64,
    /// Packets that have the time of the packet before them.
    same_time_packets: u64,
    #[serde(skip)]
    last_ns: Option<u64>,
}

impl Totals {
    fn count(&mut self, packet: &Captured<'_>) {
        self.packets += 1;
        self.same_time_packets += u64::from(self.last_ns.replace(packet.at_ns) == Some(packet.at_ns));
    }

    fn text(&self) -> String {
        let (packets, missed) = (output::count(self.packets, "packet"), output::grouped(self.missed_packets));
        let behind = if self.missed_packets == 0 { "" } else { ": its reader was behind, the switch forwarded them" };
        let times = match self.same_time_packets {
            0 => String::new(),
            1 => "\n1 has the time of the packet before it: times are those of bursts".into(),
            n => format!("\n{} have the time of the packet before them: times are those of bursts", output::grouped(n)),
        };
        format!("{packets} captured, {missed} missed{behind}{times}")
    }
}

impl Capture {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let to_stdout = self.write.as_deref().is_some_and(|path| path.as_os_str() == "-");
        if to_stdout && io::stdout().is_terminal() {
            return Err(Failure::Usage(
                "pcapng is not for a terminal: give -w a file, or pipe it, as in `weir capture -w - | wireshark -k -i -`".into(),
            ));
        }
        let stop = signals::stop(|| ()).map_err(Failure::failed)?;
        let client = self.at.client()?;
        let stream = client.stream("/v1/capture", &self.query(), stop.clone())?;
        let totals = match &self.write {
            None => lines(CaptureReader::new(stream).map_err(Failure::failed)?, json, &stop),
            Some(_) if to_stdout => {
                // An error is that of a pipe or of a file that the shell opened, which is not ours to cut.
                let to = WholeBlocks::new(io::stdout(), "standard output".into(), |_, _| Ok(()));
                written(Tee::new(stream, to, stop.clone()))
            }
            Some(path) => {
                let name = path.display().to_string();
                let file = File::create(path).map_err(|e| Failure::Failed(format!("{name}: {e}")))?;
                written(Tee::new(stream, WholeBlocks::new(file, name, |file, bytes| file.set_len(bytes)), stop.clone()))
            }
        }?;
        output::say(&totals.text());
        if json && self.write.is_some() && !to_stdout { output::json(&totals) } else { Ok(()) }
    }

    fn query(&self) -> CaptureQuery {
        let is = |of: &[Direction]| of.contains(&self.direction);
        CaptureQuery {
            filter: self.filter.to_string(),
            ports: self.ports.clone(),
            rx: is(&[Direction::Rx, Direction::Both, Direction::All]),
            tx: is(&[Direction::Tx, Direction::Both, Direction::All]),
            drops: is(&[Direction::Drop, Direction::All]),
            count: self.count,
            duration_seconds: self.duration.map(|length| length.0.as_secs_f64()),
            snaplen_bytes: self.snaplen,
        }
    }
}

/// A line for each packet, until the stream ends or its reader has gone.
fn lines<R: Read>(mut reader: CaptureReader<R>, json: bool, stop: &AtomicBool) -> Result<Totals, Failure> {
    let mut totals = Totals::default();
    while let Some(captured) = reader.next() {
        let captured = captured.map_err(Failure::failed)?;
        totals.count(&captured);
        if !output::print_while_read(&line(&captured, json)?)? {
            stop.store(true, Relaxed);
            break;
        }
    }
    Ok(Totals { missed_packets: reader.missed(), ..totals })
}

fn line(captured: &Captured<'_>, json: bool) -> Result<String, Failure> {
    let port = captured.interface.unwrap_or("?");
    let mut headers = Headers::default();
    let headers = parse(captured.bytes, &mut headers).is_ok().then_some(&headers);
    let reason = captured.comment.and_then(|comment| comment.strip_prefix("dropped: "));
    let direction = match (reason, captured.is_outbound()) {
        (Some(_), _) => "drop",
        (None, true) => "tx",
        (None, false) => "rx",
    };
    let summary = summary::packet(captured.bytes, headers);
    let (at_ns, wire_bytes) = (captured.at_ns, captured.wire_len);
    if json {
        let headers = headers.map(PacketHeaders::new);
        let captured_bytes = captured.bytes.len();
        let line = Line { at_ns, port, direction, reason, wire_bytes, captured_bytes, headers, summary };
        return serde_json::to_string(&line).map_err(Failure::failed);
    }
    let time = output::time_of(at_ns);
    let time = time.split_once('T').map_or(&*time, |(_, time)| time.trim_end_matches('Z'));
    let reason = reason.map(|reason| format!(", {reason}")).unwrap_or_default();
    Ok(format!("{time}  {port}  {direction:4}  {summary}, {wire_bytes} bytes{reason}"))
}

/// Counts what passes on its way into a file.
fn written<W: Write>(tee: Tee<'_, W>) -> Result<Totals, Failure> {
    let mut reader = CaptureReader::new(tee).map_err(Failure::failed)?;
    let mut totals = Totals::default();
    while let Some(captured) = reader.next() {
        totals.count(&captured.map_err(Failure::failed)?);
    }
    Ok(Totals { missed_packets: reader.missed(), ..totals })
}

/// Writes all that is read through it.
struct Tee<'a, W> {
    from: crate::api::client::Streamed<'a>,
    to: WholeBlocks<W>,
    stop: Arc<AtomicBool>,
    unread: bool,
}

impl<'a, W: Write> Tee<'a, W> {
    fn new(from: crate::api::client::Streamed<'a>, to: WholeBlocks<W>, stop: Arc<AtomicBool>) -> Self {
        Self { from, to, stop, unread: false }
    }
}

impl<W: Write> Read for Tee<'_, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        if !self.unread {
            match self.to.write(&buffer[..n]) {
                // The reader of the pipe has gone: the capture ends, and its rest is only counted.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                    self.unread = true;
                    self.stop.store(true, Relaxed);
                }
                written => written?,
            }
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{LinkType, OUTBOUND};

    fn totals(times: &[u64]) -> Totals {
        let mut totals = Totals::default();
        let packet = |at_ns| Captured {
            at_ns,
            link: LinkType::Ethernet,
            wire_len: 60,
            bytes: &[],
            interface_id: 0,
            interface: None,
            flags: OUTBOUND,
            comment: None,
        };
        times.iter().for_each(|at_ns| totals.count(&packet(*at_ns)));
        totals
    }

    /// A question and its answer may have one time, which says nothing about how long it took.
    #[test]
    fn times_of_bursts_are_said() {
        assert_eq!(totals(&[1, 2, 3]).text(), "3 packets captured, 0 missed");
        let one = "2 packets captured, 0 missed\n1 has the time of the packet before it: times are those of bursts";
        assert_eq!(totals(&[7, 7]).text(), one);
        let more = Totals { missed_packets: 4, ..totals(&[7, 7, 8, 8, 8, 7]) };
        assert_eq!(more.same_time_packets, 3);
        assert!(more.text().ends_with("\n3 have the time of the packet before them: times are those of bursts"));
    }
}
