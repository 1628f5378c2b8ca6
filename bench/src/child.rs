//! Processes that do not outlive this one.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A command that runs `program` behind the words of `prefix`, such as those that enter a network
/// namespace. The kernel kills the process when the thread that starts it ends, also when this
/// process is killed: setpriv(1) asks for that (PR_SET_PDEATHSIG) and becomes the program, under the
/// same process number. A process may stay behind without setpriv, and where the program has file
/// capabilities. Network namespaces stay.
pub fn command(prefix: &[&str], program: impl AsRef<OsStr>) -> Command {
    let with_setpriv = ["setpriv", "--pdeathsig", "KILL", "--"];
    let words: Vec<&str> = prefix.iter().copied().chain(with_setpriv.into_iter().filter(|_| has_setpriv())).collect();
    match words.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Whether there is one that knows of that signal (util-linux 2.33).
fn has_setpriv() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "true"]).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

#[cfg(test)]
#[path = "../../tests/common/skip.rs"]
mod skip;

#[cfg(test)]
mod tests {
    use super::skip::{Lack, skip};
    use super::*;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    const MARK: &str = "its child is ";

    #[test]
    fn the_process_keeps_its_number_and_arguments() {
        let child = command(&["env", "A=b"], "sh").args(["-c", "echo $$ $A"]).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!(said, format!("{pid} b\n"));
    }

    /// A process that is killed takes its child with it.
    #[test]
    fn nothing_stays_behind_a_process_that_is_killed() {
        if !has_setpriv() {
            return skip("bench child", Lack::Machine, "no setpriv(1) that knows --pdeathsig");
        }
        let mut parent = Command::new(std::env::current_exe().unwrap());
        parent.args(["child::tests::starts_a_child", "--exact", "--ignored", "--nocapture"]);
        let mut parent = parent.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
        let child: u32 = lines.map_while(Result::ok).find_map(|line| line.split_once(MARK)?.1.parse().ok()).unwrap();
        assert!(is_alive(child));
        parent.kill().unwrap();
        parent.wait().unwrap();
        let begin = Instant::now();
        while is_alive(child) {
            assert!(begin.elapsed() < Duration::from_secs(10), "process {child} is still there");
            sleep(Duration::from_millis(10));
        }
    }

    #[test]
    #[ignore = "the other test starts it and kills it"]
    fn starts_a_child() {
        let mut child = command(&["env"], "sleep").arg("60").spawn().unwrap();
        // It sleeps once setpriv has become it.
        let name = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
        while name() != "sleep\n" {
            sleep(Duration::from_millis(5));
        }
        println!("{MARK}{}", child.id());
        child.wait().unwrap();
    }

    /// Neither gone nor waiting for its new parent to ask for its status.
    fn is_alive(pid: u32) -> bool {
        let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}
