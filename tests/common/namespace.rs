//! Network namespaces, each held open by a process in it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

/// Programs that the tests call.
const TOOLS: [&str; 7] = ["ip", "iperf3", "nsenter", "ping", "setpriv", "timeout", "unshare"];

pub struct Namespace {
    holder: Child,
    /// In a user namespace of our own.
    rootless: bool,
}

impl Namespace {
    /// A namespace for the switch, or why there can be none.
    pub fn new() -> Result<Self, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |tool: &str| std::env::split_paths(&path).any(|directory| directory.join(tool).is_file());
        let absent: Vec<_> = TOOLS.into_iter().filter(|tool| !found(tool)).collect();
        if !absent.is_empty() {
            return Err(format!("not on the PATH: {} (make setup installs them)", absent.join(", ")));
        }
        let rootless = !is_root();
        let mut command = Command::new("unshare");
        command.args(if rootless { &["--user", "--map-root-user", "--net"][..] } else { &["--net"] });
        Self::hold(command, rootless).map_err(|reason| format!("no network namespace: {reason}"))
    }

    /// Another one, whose interfaces `self` may give and take.
    pub fn sibling(&self) -> Self {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.id(), "--net"]);
        if self.rootless {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["unshare", "--net"]);
        Self::hold(command, self.rootless).expect("a second namespace, as there is a first")
    }

    /// Starts a process that stays in the namespace, and ends when the thread of this test ends.
    fn hold(mut command: Command, rootless: bool) -> Result<Self, String> {
        command.args([
            "setpriv",
            "--pdeathsig",
            "KILL",
            "sh",
            "-c",
            "ip link set lo up && echo held && exec sleep 900",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| error.to_string())?;
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("piped");
        if BufReader::new(stdout).read_line(&mut line).is_ok() && line == "held\n" {
            return Ok(Self { holder, rootless });
        }
        let mut reason = String::new();
        let _ = holder.stderr.take().expect("piped").read_to_string(&mut reason);
        let _ = holder.wait();
        Err(reason.trim().to_owned())
    }

    /// The process that holds it, as `ip link set … netns` wants it.
    pub fn id(&self) -> String {
        self.holder.id().to_string()
    }

    /// A command that will run in the namespace and end with this test.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.id(), "--net"]);
        if self.rootless {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["setpriv", "--pdeathsig", "KILL", program]);
        command
    }

    /// Runs a line of words; not a shell's, so there is no quoting.
    pub fn try_run(&self, line: &str) -> Output {
        let mut command = self.command("timeout");
        command.args(["--kill-after=1", "30"]).args(line.split_ascii_whitespace()).stdin(Stdio::null());
        command.output().expect("nsenter runs")
    }

    pub fn succeeds(&self, line: &str) -> bool {
        self.try_run(line).status.success()
    }

    /// Runs a line of words that must succeed, and returns what it printed.
    pub fn run(&self, line: &str) -> String {
        let output = self.try_run(line);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "`{line}` failed ({}):\n{out}{err}", output.status);
        out.into_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// What the kernel allows only outside of user namespaces, it allows.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|ids| ids.split_ascii_whitespace().nth(1) == Some("0"))
}
