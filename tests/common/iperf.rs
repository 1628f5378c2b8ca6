//! iperf3 between two hosts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::{Host, collect, finish};

/// What iperf3 says when the server would not have it.
const REFUSED: [&str; 2] = ["unable to connect to server: Connection reset by peer", "the server is busy"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A server, stopped when dropped, and its clients.
pub struct Iperf<'a> {
    server: Child,
    to: &'a Host,
}

impl<'a> Iperf<'a> {
    pub fn serve(to: &'a Host) -> Self {
        let mut command = to.space.command("iperf3");
        command.args(["--server", "--forceflush"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("iperf3 starts");
        let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("listening")), "iperf3 does not listen");
        // What it goes on to print must be read, or it would stop.
        std::thread::spawn(move || lines.for_each(drop));
        Self { server, to }
    }

    /// A client that runs while the test goes on.
    pub fn start(&self, from: &Host, protocol: Protocol, options: &str) -> Running {
        let mut command = from.space.command("iperf3");
        command.args(["--json", "--connect-timeout", "5000", "--client", &self.to.address()]);
        if protocol == Protocol::Udp {
            command.args(["--udp", "--length", "1200"]);
        }
        command.args(options.split_ascii_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut client = command.spawn().expect("iperf3 starts");
        let report = collect(client.stdout.take().expect("piped"));
        Running { client, report: Some(report), protocol }
    }

    /// A server that has not done with the client before resets a connection, or says that it is
    /// busy: then once more.
    pub fn run(&self, from: &Host, protocol: Protocol, options: &str) -> Received {
        for _ in 0..20 {
            match self.start(from, protocol, options).end() {
                Ok(received) => return received,
                Err(error) if REFUSED.iter().any(|refused| error.contains(refused)) => eprintln!("iperf3: {error}"),
                Err(error) => panic!("iperf3: {error}"),
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        panic!("the server of iperf3 takes no client");
    }
}

impl Drop for Iperf<'_> {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A client, stopped when dropped.
pub struct Running {
    client: Child,
    report: Option<JoinHandle<String>>,
    protocol: Protocol,
}

impl Running {
    pub fn finish(self) -> Received {
        self.end().unwrap_or_else(|error| panic!("iperf3: {error}"))
    }

    /// What the far end got, or why there was nothing.
    fn end(mut self) -> Result<Received, String> {
        finish(&mut self.client, Duration::from_secs(90)).expect("iperf3 ends");
        let text = self.report.take().expect("taken once").join().expect("reads");
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        if let Some(error) = report.get("error") {
            return Err(error.to_string());
        }
        let end = &report["end"];
        Ok(match self.protocol {
            Protocol::Tcp => {
                Received { bits_per_second: float(&end["sum_received"]["bits_per_second"]), lost_percent: 0.0 }
            }
            Protocol::Udp => Received {
                bits_per_second: float(&end["sum"]["bits_per_second"]),
                lost_percent: float(&end["sum"]["lost_percent"]),
            },
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// What the far end says it got.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub bits_per_second: f64,
    pub lost_percent: f64,
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}
