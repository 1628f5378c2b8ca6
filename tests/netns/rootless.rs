//! `weir run --rootless` as an ordinary user: nobody, when root runs the tests.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::{Lack, skip};

pub struct User {
    directory: tempfile::TempDir,
    weir: PathBuf,
    root: bool,
}

impl User {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("ours");
        open(directory.path());
        // The build's directory need not be open to others.
        let weir = directory.path().join("weir-bin");
        std::fs::copy(env!("CARGO_BIN_EXE_weir"), &weir).expect("copied");
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
        Self { directory, weir, root }
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = match self.root {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.current_dir(self.directory.path()).env("XDG_RUNTIME_DIR", self.directory.path()).env_remove("RUST_LOG");
        command.stdin(Stdio::null());
        command
    }

    fn weir(&self, line: &str) -> Command {
        let mut command = self.command(&self.weir);
        command.args(line.split_ascii_whitespace());
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.weir(line).output().expect("runs")
    }
}

/// Ended with the test, first politely.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.0.id().to_string();
        let _ = Command::new("sh").args(["-c", &format!("kill -TERM {pid}; sleep 1")]).status();
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_hosts_of_an_ordinary_user() {
    let user = User::new();
    let mut unshare = user.command(Path::new("unshare"));
    let allowed = unshare.args(["--user", "--map-root-user", "--net", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return skip(
            "two_hosts_of_an_ordinary_user",
            Lack::Machine,
            "an ordinary user may make no user namespace here",
        );
    }

    let mut weir = user.weir("run --rootless --name laptop --port a=tap:wa --port b=tap:wb --duration 60s");
    let mut weir = Running(weir.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts"));
    let mut lines = BufReader::new(weir.0.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.contains("nsenter --target")) {
        said.push(lines.next().unwrap_or_else(|| panic!("it ended early:\n{}", said.join("\n"))));
    }
    std::thread::spawn(move || lines.for_each(drop));
    assert!(said.last().is_some_and(|line| line.contains(&weir.0.id().to_string())), "the process is named: {said:?}");
    assert!(!said.iter().any(|line| line.starts_with("ERROR")), "what is no error is not called one: {said:?}");

    let ports = user.run("show --name laptop ports");
    assert!(ports.status.success(), "from outside: {}", String::from_utf8_lossy(&ports.stderr));
    let host = user.weir("shell --name laptop a -- sleep 30").spawn().expect("starts");
    let _host = Running(host);
    let ping = || user.run("shell --name laptop b -- ping -n -c 2 -i 0.2 -W 2 10.0.0.1").status.success();
    crate::common::eventually("a ping", || ping().then_some(()));
    assert!(ping(), "the interface went back, and is there again");

    let wrong = user.run("shell --name laptop c -- true");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the ports are a, b"));
}
