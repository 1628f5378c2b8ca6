//! The processes of a lab, which are known by a token in their environment.

use std::collections::HashSet;
use std::io;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::LabError;

/// The variable that holds the token.
const VARIABLE: &str = "WEIR_LAB";
/// Set in processes that do nothing but hold a namespace open.
const HOLDS: &str = "WEIR_LAB_HOLDS";
/// Time for processes to end after SIGTERM: a switch prints its totals.
const GRACE: Duration = Duration::from_secs(5);
/// Time after which processes that are still there are reported.
const LONGEST: Duration = Duration::from_secs(15);
const ROUND: Duration = Duration::from_millis(20);
/// Time for a process that is starting a program to have its environment.
const START: Duration = Duration::from_secs(1);

/// A random number that all processes of one lab inherit, and those of no other lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let half = || getrandom::u64().map_err(io::Error::other);
        Ok(Self(format!("{:016x}{:016x}", half()?, half()?)))
    }

    /// Whether the text can be a token. One that is empty or short may stand in other processes.
    pub fn is_valid(&self) -> bool {
        self.0.len() == 32 && self.0.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// Makes the command's process, and those that it starts, processes of the lab.
    pub fn mark(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0).env_remove(HOLDS);
    }

    /// The same for a process that holds a namespace open.
    pub fn mark_holder(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0).env(HOLDS, "1");
    }

    /// Whether the process is one of the lab. A zombie is none: it holds nothing open.
    pub fn is_in(&self, process: u32) -> bool {
        self.find(process).is_some()
    }

    fn find(&self, process: u32) -> Option<Process> {
        let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
        let variables = || environment.split(|byte| *byte == 0);
        let own = format!("{VARIABLE}={}", self.0);
        let holds = format!("{HOLDS}=1");
        variables()
            .any(|variable| variable == own.as_bytes())
            .then(|| Process { id: process, holds: variables().any(|variable| variable == holds.as_bytes()) })
    }

    /// All processes of the lab but this one.
    fn processes(&self) -> Vec<Process> {
        others().filter_map(|id| self.find(id)).collect()
    }

    /// Signals a process if it is still one of the lab. Its number cannot pass to another process meanwhile.
    fn signal(&self, process: &Process, signal: Signal) {
        let Some(id) = i32::try_from(process.id).ok().and_then(Pid::from_raw) else { return };
        // One that has ended by itself needs no signal.
        let Ok(held) = pidfd_open(id, PidfdFlags::empty()) else { return };
        if self.is_in(process.id) {
            let _ = pidfd_send_signal(&held, signal);
        }
    }

    /// Ends all processes of the lab: first those in its namespaces, with time to do so by themselves, then
    /// those that hold the namespaces. Returns when none is left.
    ///
    /// # Errors
    /// If some do not end.
    pub fn end_all(&self) -> Result<(), LabError> {
        let started = Instant::now();
        let mut asked = HashSet::new();
        loop {
            // One that was starting when it was looked at may be found in the next round.
            let may_be_starting = started.elapsed() < START && others().any(is_starting);
            let left = self.processes();
            if left.is_empty() && !may_be_starting {
                return Ok(());
            }
            let is_patient = started.elapsed() < GRACE && left.iter().any(|process| !process.holds);
            for process in &left {
                if !is_patient {
                    self.signal(process, Signal::KILL);
                } else if !process.holds && asked.insert(process.id) {
                    self.signal(process, Signal::TERM);
                }
            }
            if started.elapsed() > LONGEST {
                return Err(LabError::Left(left.iter().map(|process| process.id).collect()));
            }
            thread::sleep(ROUND);
        }
    }
}

/// The numbers of all processes but this one.
fn others() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|&id| id != std::process::id())
}

/// Whether the process has a program, and neither its arguments nor its environment yet: `execve` sets them last.
fn is_starting(process: u32) -> bool {
    let is_empty = |file: &str| std::fs::read(format!("/proc/{process}/{file}")).is_ok_and(|bytes| bytes.is_empty());
    is_empty("environ") && is_empty("cmdline") && std::fs::read_link(format!("/proc/{process}/exe")).is_ok()
}

struct Process {
    id: u32,
    /// It holds a namespace open, and does nothing else.
    holds: bool,
}

#[cfg(test)]
pub mod tests {
    use std::process::{Child, Stdio};

    use super::*;

    /// Ends processes with its token when the test ends.
    pub struct Marked(pub Token);

    impl Drop for Marked {
        fn drop(&mut self) {
            let _ = self.0.end_all();
        }
    }

    fn sleep(mark: impl Fn(&mut Command), shell: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", shell]).stdin(Stdio::null());
        mark(&mut command);
        command.spawn().expect("sh starts")
    }

    #[test]
    fn processes_of_one_lab_end_with_their_children_and_no_others() {
        let marked = [(); 2].map(|()| Marked(Token::random().unwrap()));
        let [Marked(own), Marked(other)] = &marked;
        assert!(own.is_valid() && own != other);
        let mut holder = sleep(|command| own.mark_holder(command), "exec sleep 60");
        // A child that outlives its parent, one that ignores SIGTERM, and one of another lab.
        let mut parent = sleep(|command| own.mark(command), "sleep 60 & trap '' TERM; sleep 60 & sleep 60");
        let mut stranger = sleep(|command| other.mark(command), "exec sleep 60");
        let wait = Instant::now();
        while own.processes().len() < 5 && wait.elapsed() < Duration::from_secs(10) {
            thread::sleep(ROUND);
        }
        assert_eq!(own.processes().len(), 5);
        assert!(own.is_in(holder.id()) && !other.is_in(holder.id()));
        own.end_all().unwrap();
        assert!(own.processes().is_empty() && !own.is_in(holder.id()));
        assert!(other.is_in(stranger.id()), "another lab stays");
        for child in [&mut holder, &mut parent] {
            assert!(!child.wait().unwrap().success());
        }
        other.end_all().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn a_text_that_other_processes_may_have_is_no_token() {
        for text in ["", "1", "g0000000000000000000000000000000", "00"] {
            assert!(!Token(text.into()).is_valid(), "{text:?}");
        }
    }
}
