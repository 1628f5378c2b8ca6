//! Network namespaces that processes hold open, and commands in them.
//!
//! Namespaces are made by util-linux's `unshare` and entered by its `nsenter`, interfaces are made by
//! iproute2's `ip`, all of which every distribution has.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use super::{LabError, Token};

/// Programs that a lab calls, and their packages.
const TOOLS: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
    ("sh", "dash"),
    ("sleep", "coreutils"),
];
/// What a process prints that holds a namespace.
const HELD: &str = "held";

/// By which right namespaces are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// CAP_SYS_ADMIN.
    Root,
    /// A user namespace of the lab's own, in which this user is root.
    User,
}

impl Rights {
    /// The rights that there are.
    ///
    /// # Errors
    /// If a tool is missing, or no namespace can be made.
    pub fn find() -> Result<Self, LabError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |tool: &str| std::env::split_paths(&path).any(|directory| directory.join(tool).is_file());
        if let Some(&(tool, package)) = TOOLS.iter().find(|(tool, _)| !is_there(tool)) {
            return Err(LabError::NoTool { tool, package });
        }
        let tried = [Self::Root, Self::User].map(|rights| (rights, rights.forbidden()));
        match tried {
            [(rights, None), _] | [_, (rights, None)] => Ok(rights),
            [(_, Some(root)), (_, Some(user))] => Err(LabError::NoNamespaces { root, user }),
        }
    }

    /// Why no namespace can be made by this right.
    fn forbidden(self) -> Option<String> {
        let mut command = Command::new("unshare");
        let tried = command.args(self.unshare()).arg("true").stdin(Stdio::null()).output();
        match tried {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                Some(why.trim().trim_start_matches("unshare: ").to_owned())
            }
            Err(error) => Some(error.to_string()),
        }
    }

    fn unshare(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["--net"],
            Self::User => &["--user", "--map-root-user", "--net"],
        }
    }
}

/// A network namespace, by the process that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub process: u32,
    pub rights: Rights,
}

impl Namespace {
    /// Starts a process that holds a new namespace open. `sibling` is another one of the lab, whose interfaces
    /// may be moved to it: with [`Rights::User`] all have one user namespace.
    ///
    /// # Errors
    /// If there can be none.
    pub fn hold(rights: Rights, sibling: Option<&Self>, token: &Token) -> Result<(Self, Child), LabError> {
        // A session of its own: the signals of this terminal are not for it.
        let mut command = Command::new("setsid");
        match sibling.filter(|_| rights == Rights::User) {
            Some(sibling) => command.args(sibling.enter()).args(["unshare", "--net"]),
            None => command.arg("unshare").args(rights.unshare()),
        };
        command.args(["sh", "-c", &format!("echo {HELD}; exec sleep infinity >/dev/null 2>&1")]);
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        token.mark_holder(&mut command);
        let failed = |why: String| LabError::Command { what: "a network namespace".into(), why };
        let mut holder = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (mut line, mut why) = (String::new(), String::new());
        if let Some(stdout) = holder.stdout.take() {
            // Without a line the reason is on stderr.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        if line.trim_end() == HELD {
            return Ok((Self { process: holder.id(), rights }, holder));
        }
        if let Some(mut stderr) = holder.stderr.take() {
            let _ = stderr.read_to_string(&mut why);
        }
        let _ = holder.wait();
        Err(failed(why.trim().to_owned()))
    }

    /// The words before a command that is to run in the namespace.
    fn enter(&self) -> Vec<String> {
        let mut words = vec!["nsenter".into(), "--target".into(), self.process.to_string(), "--net".into()];
        if self.rights == Rights::User {
            words.extend(["--user".into(), "--preserve-credentials".into()]);
        }
        words
    }

    /// A command that will run in the namespace, in the session of this process.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let words = self.enter();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program);
        command
    }

    /// The same in a session of its own, which outlives this one.
    pub fn detached(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("setsid");
        command.args(self.enter()).arg(program);
        command
    }

    /// Runs lines of `ip` in the namespace, up to the first that fails.
    ///
    /// # Errors
    /// If one fails, with its words.
    pub fn ip(&self, lines: &[String]) -> Result<(), LabError> {
        let failed = |what: &str, why: String| LabError::Command { what: what.into(), why };
        let io = |error: std::io::Error| failed("ip -batch", error.to_string());
        let mut command = self.command("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(io)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A line that fails ends the reader: then the pipe is broken, and its words say why.
            let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
        }
        let output = child.wait_with_output().map_err(io)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        // `Command failed -:3`
        let number = said.lines().find_map(|line| line.strip_prefix("Command failed -:")?.parse::<usize>().ok());
        let line = number.and_then(|number| lines.get(number.checked_sub(1)?));
        let why: Vec<_> = said.lines().filter(|line| !line.starts_with("Command failed")).collect();
        Err(failed(&format!("ip {}", line.map_or("-batch", String::as_str)), why.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::processes::tests::Marked;

    /// As root, or where user namespaces are allowed.
    #[test]
    fn a_line_of_ip_that_fails_is_named_and_namespaces_end_with_their_token() {
        let Ok(rights) = Rights::find() else { return eprintln!("no namespaces here") };
        let marked = Marked(Token::random().unwrap());
        let token = &marked.0;
        let (first, mut one) = Namespace::hold(rights, None, token).unwrap();
        let (second, mut other) = Namespace::hold(rights, Some(&first), token).unwrap();
        let of = |namespace: &Namespace| std::fs::read_link(format!("/proc/{}/ns/net", namespace.process)).unwrap();
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert!(of(&first) != own && of(&second) != own && of(&first) != of(&second));
        let pair = format!("link add name a netns {} type veth peer name b netns {}", first.process, second.process);
        first.ip(&["link set lo up".into(), pair]).unwrap();
        second.ip(&["link set dev b up".into()]).unwrap();
        let lines = ["link set dev a up".into(), "link set dev b up".into()];
        let error = first.ip(&lines).unwrap_err().to_string();
        assert!(error.starts_with("ip link set dev b up: ") && error.contains("Cannot find device"), "{error}");
        token.end_all().unwrap();
        for child in [&mut one, &mut other] {
            assert!(!child.wait().unwrap().success());
        }
    }
}
