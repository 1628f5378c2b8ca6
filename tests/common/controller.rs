//! `weir controller`, the real binary.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Lab, eventually, finish, weir};

/// Up and serving. Killed when dropped.
pub struct Controller {
    child: Child,
    socket: PathBuf,
    log: Arc<Mutex<String>>,
}

impl Controller {
    /// Where its switches find it.
    pub fn switch_socket(lab: &Lab) -> PathBuf {
        lab.path("network.switches.sock")
    }

    /// Starts one whose state is in the lab's directory, and waits until it serves.
    pub fn start(lab: &Lab, arguments: &str) -> Self {
        Self::start_binary(weir::BINARY.as_ref(), lab, arguments)
    }

    /// Starts one of a binary with other programs.
    pub fn start_binary(binary: &Path, lab: &Lab, arguments: &str) -> Self {
        let socket = lab.path("network.sock");
        let mut command = lab.switch.command(&binary.to_string_lossy());
        command.args(["controller", "--name", "network", "--socket"]).arg(&socket);
        command.arg("--switch-socket").arg(Self::switch_socket(lab)).arg("--state").arg(lab.path("network.json"));
        command.args(arguments.split_ascii_whitespace()).current_dir(lab.directory());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        let log = weir::keep(child.stderr.take().expect("piped"));
        let mut controller = Self { child, socket, log };
        eventually("the controller to be ready", || {
            if let Some(status) = controller.child.try_wait().expect("ours") {
                panic!("weir controller {arguments}: {status}\n{}", controller.log());
            }
            controller.log().lines().any(|line| line.contains("ready")).then_some(())
        });
        controller
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Words between single quotes are one argument.
    pub fn try_ask(&self, line: &str) -> Output {
        let mut command = Command::new(weir::BINARY);
        for (place, part) in line.split('\'').enumerate() {
            match place % 2 {
                0 => command.args(part.split_ascii_whitespace()),
                _ => command.arg(part),
            };
        }
        command.arg("--socket").arg(&self.socket).stdin(Stdio::null());
        command.arg("--json").output().expect("runs")
    }

    pub fn ask(&self, line: &str) -> Value {
        let output = self.try_ask(line);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "weir {line}: {}\n{error}\n{}", output.status, self.log());
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Asks, and keeps the documents that come, a line each, until it is stopped.
    pub fn follow(&self, line: &str) -> Follower {
        let mut command = Command::new(weir::BINARY);
        command.args(line.split_ascii_whitespace()).arg("--socket").arg(&self.socket).arg("--json");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("runs");
        let lines = weir::keep(child.stdout.take().expect("piped"));
        Follower { child, lines }
    }

    /// SIGTERM; it ends cleanly.
    pub fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().expect("sh runs").success());
        let ended = finish(&mut self.child, Duration::from_secs(10));
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}\n{}", self.log());
        assert!(!self.socket.exists(), "its socket is gone");
    }

    /// As a crash would.
    pub fn kill(self) {}
}

/// A command that reports until it is stopped.
pub struct Follower {
    child: Child,
    lines: Arc<Mutex<String>>,
}

impl Follower {
    pub fn stop(mut self) -> Vec<Value> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let lines = self.lines.lock().unwrap().clone();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the controller said:\n{}", self.log());
        }
    }
}
