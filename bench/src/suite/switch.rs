//! `weir run` in a process of its own, asked by its API.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use weir::api::client::Client;

use crate::child;

/// How it is started.
pub struct Plan<'a> {
    pub binary: &'a Path,
    /// Words before the program's name, such as those that enter a network namespace.
    pub prefix: &'a [&'a str],
    /// The devices of both ports.
    pub devices: &'a [String; 2],
    pub programs: &'a [String],
    pub cores: &'a [usize],
    pub huge_pages: bool,
    pub buffers: Option<u32>,
    pub busy_poll: bool,
}

/// Longest time that it may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Weir {
    child: Child,
    client: Client,
    binary: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    _dir: TempDir,
}

impl Weir {
    /// Starts it, and does not wait until it runs.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn spawn(plan: &Plan) -> Result<Self> {
        Self::with_arguments(plan.prefix, plan.binary, &arguments(plan))
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// If it ends, with what it said.
    pub fn start(plan: &Plan) -> Result<Self> {
        Self::spawn(plan)?.when_it_answers()
    }

    /// As [`Self::spawn`], with these arguments and a socket.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn with_arguments(prefix: &[&str], binary: &Path, words: &[String]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (socket, log) = (dir.path().join("weir.sock"), dir.path().join("log"));
        let mut command = child::command(prefix, binary);
        command.args(words).arg("--socket").arg(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("{} {}", binary.display(), words.join(" ")))?;
        Ok(Self { child, client: Client::connect(socket.clone())?, binary: binary.into(), socket, log, _dir: dir })
    }

    /// Waits until it answers.
    ///
    /// # Errors
    /// If it ends, with what it said.
    pub fn when_it_answers(mut self) -> Result<Self> {
        let begin = Instant::now();
        while self.sent().is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("weir ended with {status}: {}", self.said());
            }
            ensure!(begin.elapsed() < PATIENCE, "weir does not answer: {}", self.said());
            sleep(Duration::from_millis(20));
        }
        Ok(self)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Packets a second sent by all ports, in this time.
    ///
    /// # Errors
    /// If it does not answer, or forwards nothing.
    pub fn rate(&self, time: Duration) -> Result<f64> {
        let (before, begin) = (self.sent()?, Instant::now());
        sleep(time);
        let (after, end) = (self.sent()?, Instant::now());
        ensure!(after > before, "weir forwards nothing: {}", self.said());
        Ok((after - before) as f64 / (end - begin).as_secs_f64())
    }

    /// Runs `weir top` for so long, at least 100 ms, and returns what it says.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn top(&self, time: Duration) -> Result<serde_json::Value> {
        let mut command = Command::new(&self.binary);
        command.args(["--json", "top", "--once", "--interval"]).arg(format!("{}ms", time.as_millis()));
        let output = command.arg("--socket").arg(&self.socket).stderr(Stdio::null()).output()?;
        ensure!(output.status.success(), "weir top: {}", output.status);
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Packets that its ports have sent.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn sent(&self) -> Result<u64> {
        let document: serde_json::Value = self.client.get("/v1/ports")?;
        sent(&document).context("no counts in its answer")
    }

    /// The last line of its log.
    fn said(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().next_back().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let begin = Instant::now();
        // It may have ended by itself.
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).stderr(Stdio::null()).status();
        while begin.elapsed() < PATIENCE / 3 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sent(document: &serde_json::Value) -> Option<u64> {
    document["ports"].as_array()?.iter().map(|port| port["tx_packets"].as_u64()).sum()
}

fn arguments(plan: &Plan) -> Vec<String> {
    // A pipeline of all programs may exceed what a switch chip has.
    let mut words: Vec<String> = ["run", "--forward", "xconnect", "--target", "software"].map(str::to_owned).into();
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    ["a", "b"].into_iter().zip(plan.devices).for_each(|(name, device)| add("--port", format!("{name}={device}")));
    plan.programs.iter().for_each(|program| add("--program", program.clone()));
    plan.cores.iter().for_each(|core| add("--core", core.to_string()));
    if let Some(buffers) = plan.buffers {
        add("--buffers", buffers.to_string());
    }
    for (flag, wanted) in [("--no-huge-pages", !plan.huge_pages), ("--busy-poll", plan.busy_poll)] {
        words.extend(wanted.then(|| flag.to_owned()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_sent_are_added_over_ports() {
        let document = serde_json::json!({ "ports": [{ "tx_packets": 40 }, { "tx_packets": 2 }] });
        assert_eq!(sent(&document), Some(42));
        assert_eq!(sent(&serde_json::json!({ "ports": [{ "rx_packets": 40 }] })), None);
    }

    #[test]
    fn the_words_say_what_is_asked_for() {
        let devices = ["null".to_owned(), "null:rx=0".to_owned()];
        let programs = ["one".to_owned(), "two".to_owned()];
        let plan = Plan {
            binary: Path::new("weir"),
            prefix: &[],
            devices: &devices,
            programs: &programs,
            cores: &[1, 0],
            huge_pages: false,
            buffers: Some(9),
            busy_poll: true,
        };
        assert_eq!(
            arguments(&plan).join(" "),
            "run --forward xconnect --target software --port a=null --port b=null:rx=0 --program one --program two \
             --core 1 --core 0 --buffers 9 --no-huge-pages --busy-poll"
        );
    }
}
