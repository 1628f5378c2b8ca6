//! The real binary in a namespace.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::{Lab, Namespace, collect, eventually, finish};

pub const BINARY: &str = env!("CARGO_BIN_EXE_weir");

/// `weir run`, up and forwarding. Killed when dropped.
pub struct Weir {
    child: Child,
    socket: PathBuf,
    log: Arc<Mutex<String>>,
    results: Option<JoinHandle<String>>,
}

impl Weir {
    /// Starts a switch and waits until its ports are up.
    pub fn start(lab: &Lab, space: &Namespace, name: &str, arguments: &str) -> Self {
        Self::start_binary(BINARY.as_ref(), lab, space, name, arguments)
    }

    /// Starts a switch of a binary with other programs.
    pub fn start_binary(binary: &Path, lab: &Lab, space: &Namespace, name: &str, arguments: &str) -> Self {
        let socket = lab.path(&format!("{name}.sock"));
        let mut command = space.command(&binary.to_string_lossy());
        command.args(["run", "--json", "--name", name, "--socket"]).arg(&socket);
        command.args(arguments.split_ascii_whitespace()).current_dir(lab.directory());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let log = keep(child.stderr.take().expect("piped"));
        let results = collect(child.stdout.take().expect("piped"));
        let mut weir = Self { child, socket, log, results: Some(results) };
        eventually("weir to be ready", || {
            if let Some(status) = weir.child.try_wait().expect("ours") {
                panic!("weir run {arguments}: {status}\n{}", weir.log());
            }
            weir.log().lines().any(|line| line.contains("ready")).then_some(())
        });
        weir
    }

    /// The process that runs it: `nsenter` becomes it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The process that runs it.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Another command of weir's, to this switch.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(BINARY);
        command.args(line.split_ascii_whitespace()).arg("--socket").arg(&self.socket).stdin(Stdio::null());
        command
    }

    pub fn try_ask(&self, line: &str) -> Output {
        self.command(line).arg("--json").output().expect("runs")
    }

    pub fn ask(&self, line: &str) -> Value {
        let output = self.try_ask(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "weir {line}: {}\n{error}\n{}", output.status, self.log());
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    pub fn signal(&self, name: &str) {
        let killed = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(killed.expect("sh runs").success(), "weir ended early\n{}", self.log());
    }

    /// SIGTERM, then the totals; every packet must be accounted for.
    pub fn stop(self) -> Totals {
        self.stop_by("TERM")
    }

    pub fn stop_by(mut self, signal: &str) -> Totals {
        self.signal(signal);
        let ended = finish(&mut self.child, Duration::from_secs(60));
        let status = ended.unwrap_or_else(|| panic!("weir does not end\n{}", self.log()));
        let text = self.results.take().expect("taken once").join().expect("reads");
        assert!(status.success(), "weir: {status}\n{text}\n{}", self.log());
        let totals = Totals(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e} in\n{text}\n{}", self.log())));
        totals.balance();
        totals
    }
}

/// Keeps what a process says.
pub fn keep(stderr: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let kept = log.clone();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            *kept.lock().unwrap() += &(line + "\n");
        }
    });
    log
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("weir said:\n{}", self.log());
        }
    }
}

/// What `weir run --json` prints at the end.
pub struct Totals(pub Value);

impl Totals {
    fn sum(&self, key: &str) -> u64 {
        self.ports().iter().map(|port| number(&port[key])).sum()
    }

    fn ports(&self) -> &[Value] {
        self.0["ports"].as_array().expect("ports")
    }

    pub fn port(&self, name: &str) -> &Value {
        self.ports().iter().find(|port| port["name"] == name).unwrap_or_else(|| panic!("no {name} in {:#}", self.0))
    }

    /// Packets dropped for a reason, on all ports.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.ports().iter().map(|port| port["drops"].get(reason).map_or(0, number)).sum()
    }

    pub fn rx(&self) -> u64 {
        self.sum("rx_packets")
    }

    pub fn tx(&self) -> u64 {
        self.sum("tx_packets")
    }

    /// Whatever came in, and every copy made of it, went out or was dropped for a reason that has a
    /// name. What a device refused is what it says that it did: the switch has that as the rest of
    /// a burst, which would hide a lost packet.
    pub fn balance(&self) {
        let drops = |port: &Value| port["drops"].as_object().expect("drops").values().map(number).sum::<u64>();
        let removed = &self.0["removed"];
        let dropped: u64 = self.ports().iter().map(drops).sum::<u64>() + drops(removed);
        let of = |key: &str| self.sum(key) + number(&removed[key]);
        let (rx, copied, tx) = (of("rx_packets"), of("copied_packets"), of("tx_packets"));
        assert_eq!(rx + copied, tx + dropped, "rx {rx} + copies {copied} = tx {tx} + drops {dropped} in {:#}", self.0);
        for port in self.ports().iter().filter(|port| port["fault"].is_null()) {
            let refused = ["tx_error", "tx_too_long"].map(|why| number(&port["device"][why]));
            assert_eq!(
                number(&port["drops"]["tx_refused"]),
                refused.iter().sum::<u64>(),
                "what the device says: {port:#}"
            );
        }
        let all = &self.0["packets"];
        let totals = ["rx_packets", "copied_packets", "tx_packets", "dropped_packets"].map(|key| number(&all[key]));
        assert_eq!(totals, [rx, copied, tx, dropped], "the totals are the sums of all ports in {:#}", self.0);
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count, not {value}"))
}
